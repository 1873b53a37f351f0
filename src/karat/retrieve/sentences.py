"""Models of sentence-transformers: encoders and cross-encoders, from a folder or from the hub."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from karat.errors import InputError, UsageError, missing_package, nearest
from karat.retrieve.encoders import FORMS, WORDLLAMA, Once, unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from karat.retrieve.encoders import Kind, Matrix

POOLINGS = ("mean", "cls", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
TORCH = (
    "on a machine without a GPU, install the CPU build of torch first (see PyTorch's installation page): "
    "the default `torch` brings several gigabytes of CUDA"
)
HUB_TIMEOUT = 10.0
"""Seconds to find out whether the hub can be reached; the library itself would try for over a minute."""
_ELSEWHERE = ("onnx", "openvino")
"""Folders with the same weights for other backends, which are not used here."""


class Source:
    """Where a model comes from: a folder, or the hub by name."""

    def __init__(self, model: str, what: str) -> None:
        self.model = model
        self.folder = os.path.expanduser(model)
        self.is_folder = os.path.isdir(self.folder)
        if not self.is_folder and (os.path.isabs(self.folder) or model.startswith((".", "~")) or model.count("/") > 1):
            raise InputError(
                f"{what}: {model}: no such folder; expected the folder of a model of sentence-transformers"
            )
        if not all(find_spec(package) for package in ("sentence_transformers", "torch")):
            raise missing_package(f"{what}(model={model})", "sentence_transformers", advice=f"; {TORCH}{self._hint}")
        self._what = what

    @property
    def name(self) -> str:
        """The last two parts of the folder, or the name on the hub, and which version of it."""
        if not self.is_folder:
            return f"{self.model}@{self.version[:8]}"
        parts = os.path.abspath(self.folder).split(os.sep)
        return f"{'/'.join(parts[-2:])}@{self.version[:8]}"

    @cached_property
    def version(self) -> str:
        """The content of a folder, or the commit on the hub."""
        if self.is_folder:
            return _content(self.folder)
        return os.path.basename(self._cached) if self._cached else self._newest

    def load(self, kind: str, **options: Any) -> Any:
        """The model by a class of sentence-transformers; the hub is asked only for what is not on this machine."""
        with _silent():
            import sentence_transformers

            make = getattr(sentence_transformers, kind)
            if not self.is_folder and self._cached:
                with contextlib.suppress(Exception):  # a part of it is missing: the hub has it
                    return make(self._cached, local_files_only=True, **options)
            revision = None if self.is_folder else self._newest
            try:
                if revision is None:
                    return make(self.folder, local_files_only=True, **options)
                self.__dict__["version"] = revision  # not another commit, of which the cache has a part
                return make(self._hub_name, revision=revision, **options)
            except Exception as error:
                raise InputError(
                    f"{self._what}: {self.model}: {kind} cannot load it ({_first_line(error)}); "
                    f"expected the folder of a model of sentence-transformers{self._hint}"
                ) from None

    @property
    def _hub_name(self) -> str:
        return self.model if "/" in self.model else f"sentence-transformers/{self.model}"

    @cached_property
    def _cached(self) -> str | None:
        """The folder of the hub's cache on this machine that holds it, named by its commit."""
        import huggingface_hub

        try:
            return str(huggingface_hub.snapshot_download(self._hub_name, local_files_only=True))
        except Exception:  # not there; each version raises something else
            return None

    @cached_property
    def _newest(self) -> str:
        """The newest commit on the hub."""
        import huggingface_hub

        try:
            return str(huggingface_hub.HfApi().model_info(self._hub_name, timeout=HUB_TIMEOUT).sha)
        except Exception as error:
            raise InputError(
                f"{self._what}: {self.model}: neither a folder nor a model of the hub "
                f"({_first_line(error)}); download the model and pass its folder{self._hint}"
            ) from None

    @property
    def _hint(self) -> str:
        if nearest(self.model, [WORDLLAMA]) and not self.is_folder:
            return f"; or did you mean model={WORDLLAMA}?"
        return "" if self.is_folder else f". A model is written {FORMS}"


class SentenceModel:
    """An encoder of sentence-transformers.

    The prompts that a model brings for queries and passages are used, unless prefixes are given.
    """

    tokens = None

    def __init__(
        self,
        model: str,
        *,
        pooling: str | None = None,
        device: str | None = None,
        dims: int | None = None,
        batch: int = 64,
        own_prompts: bool = True,
    ) -> None:
        if pooling not in (None, *POOLINGS):
            raise UsageError(f"dense: pooling must be one of {', '.join(POOLINGS)}, found {pooling!r}")
        self.source = Source(model, "dense")
        self.pooling, self.device, self.dims, self.batch, self.own_prompts = pooling, device, dims, batch, own_prompts
        self._model = Once(self._load)
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        more = {"pooling": self.pooling, "dims": self.dims}
        return " ".join([self.source.name, *(f"{n}={v}" for n, v in more.items() if v is not None)])

    @property
    def identity(self) -> Any:
        """Batch and device are part of it: texts are padded to the longest beside them, which moves the last digits."""
        from importlib.metadata import version

        device = str(self._model().device)  # loaded first: only then it is sure which commit it is
        libraries = [version(name) for name in ("sentence-transformers", "transformers", "torch")]
        return [
            "sentence-transformers",
            *libraries,
            self.source.version,
            self.pooling,
            self.dims,
            self.batch,
            self.own_prompts,
            device,
        ]

    def encode(self, texts: Sequence[str], kind: Kind) -> Matrix:
        model = self._model()
        encode = model.encode_query if kind == "query" else model.encode_document
        prompt = None if self.own_prompts else ""
        with self._lock:  # tokenizers of transformers cannot be used by two threads at once
            vectors = encode(
                list(texts),
                prompt=prompt,
                batch_size=self.batch,
                show_progress_bar=False,
                convert_to_numpy=True,
                truncate_dim=self.dims,
            )
        return unit(vectors, len(texts), self.source.model)

    def close(self) -> None:
        pass

    def _load(self) -> Any:
        model = self.source.load("SentenceTransformer", **({"device": self.device} if self.device else {}))
        # Renamed in version 5, where the old name warns.
        width = getattr(model, "get_embedding_dimension", None) or model.get_sentence_embedding_dimension
        if self.dims is not None and self.dims > (width() or self.dims):
            raise UsageError(f"dense: dims must be at most {width()}, which {self.source.model} has, found {self.dims}")
        if self.pooling is not None:
            self._pool(model)
        return model

    def _pool(self, model: Any) -> None:
        at = [i for i, part in enumerate(model) if type(part).__name__ == "Pooling"]
        if len(at) != 1:
            raise UsageError(f"dense: {self.source.model} has no pooling step, so pooling={self.pooling} cannot be set")
        old = model[at[0]]
        width = getattr(old, "embedding_dimension", None) or old.word_embedding_dimension
        model[at[0]] = type(old)(width, pooling_mode=self.pooling, include_prompt=old.include_prompt)


class CrossEncoder:
    """A cross-encoder: reads query and text together, and scores how well they fit."""

    def __init__(self, model: str, *, device: str | None = None, batch: int = 32) -> None:
        self.source = Source(model, "rerank")
        self.device, self.batch = device, batch
        self._model = Once(self._load)
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        return self.source.name

    def scores(self, query: str, texts: Sequence[str]) -> Any:
        """A score for each text, as the model gives it."""
        model = self._model()
        with self._lock:
            return model.predict([(query, text) for text in texts], batch_size=self.batch, show_progress_bar=False)

    def _load(self) -> Any:
        model = self.source.load("CrossEncoder", **({"device": self.device} if self.device else {}))
        labels = getattr(getattr(model, "config", None), "num_labels", 1)
        if labels != 1:
            raise InputError(
                f"rerank: {self.source.model} sorts into {labels} classes; expected a model that gives one score"
            )
        return model


def _content(folder: str) -> str:
    """A hash of the files of a folder, without hidden ones, Markdown and the weights of other backends."""
    hasher = hashlib.sha256()
    for at, inner, names in os.walk(folder):
        inner[:] = sorted(n for n in inner if not n.startswith(".") and n not in _ELSEWHERE)
        for name in sorted(names):
            if name.startswith(".") or name.endswith(".md"):
                continue
            path = os.path.join(at, name)
            hasher.update(
                f"{os.path.relpath(path, folder)}:{os.path.getsize(path)};".encode("utf-8", "surrogateescape")
            )
            with open(path, "rb") as file:
                while block := file.read(1 << 20):
                    hasher.update(block)
    return hasher.hexdigest()


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Hide the progress bars of the library while a model loads."""
    from transformers.utils import logging

    shown_before = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown_before:
            logging.enable_progress_bar()


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:200]}"
