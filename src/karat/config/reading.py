"""`karat.yaml` → Config. Every problem has its file, line, and what was expected."""

from __future__ import annotations

import collections.abc
import os
import re
import typing
from typing import TYPE_CHECKING, Any

from karat.config.models import Config
from karat.config.yaml_text import Lines, read_yaml
from karat.errors import InputError, Problem, UsageError, nearest, shown
from karat.model.limits import CONFIG
from karat.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic import BaseModel


DEFAULT_NAMES = ("karat.yaml", "karat.yml")
HEAD = 400
SAVED = (
    "is a saved result, expected a config such as karat.yaml; judge a saved result with --result FILE and --gate "
    "(in Python: check(load(FILE), gates))"
)

NO_CONFIG = "no such file; write one with `karat init`, or name your config"


@dataclass(frozen=True)
class Read:
    """A config with the place it came from: paths in it are relative to its folder."""

    config: Config
    path: str
    lines: Mapping[tuple[Any, ...], int]
    """The line of each key and item."""
    remote: bool = False
    """Whether a cluster has its files."""

    def place(self, path: str) -> str:
        """A path of the config, as seen from here; what a cluster has stands for itself."""
        here = os.path.join(os.path.dirname(self.path), path)
        return path if path == "-" or "://" in path or (self.remote and not os.path.exists(here)) else here

    def line(self, *keys: Any) -> int | None:
        """The line of a key, or of the nearest one that it stands under."""
        return line_of(self.lines, keys)

    def at(self, *keys: Any) -> str:
        """The file and line of a key, for a message."""
        line = self.line(*keys)
        return f"{self.path}:{line}" if line is not None else self.path

    def problem(self, detail: object, *keys: Any) -> Problem:
        """What is wrong with a key, or with the whole file."""
        return Problem(self.path, self.line(*keys), str(detail))


def line_of(lines: Mapping[tuple[Any, ...], int], keys: tuple[Any, ...]) -> int | None:
    """The line of a key, or of the nearest one that it stands under."""
    return next((lines[keys[:n]] for n in range(len(keys), 0, -1) if keys[:n] in lines), None)


def find_config(path: str | None = None) -> str:
    """The config that was named, or the one in this folder."""
    if path is not None and not os.path.isdir(path):
        return path
    folder = path or ""
    if (default := default_config(folder)) is not None:
        return default
    raise InputError(f"{os.path.join(folder, DEFAULT_NAMES[0])}: {NO_CONFIG}")


def default_config(folder: str = "") -> str | None:
    """The config that is read in a folder where none is named; None where there is none."""
    paths = (os.path.join(folder, name) for name in DEFAULT_NAMES)
    return next((path for path in paths if os.path.exists(path)), None)


def read_config(source: str | os.PathLike[str] | Mapping[str, object] | Config | Read) -> Read:
    """A config from its file, from a mapping, or what is one already."""
    if isinstance(source, Read):
        return source
    if isinstance(source, Config):
        return Read(source, "karat.yaml", {})
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        data, lines = _loaded(path)
    elif isinstance(source, collections.abc.Mapping):
        path, data, lines = "karat.yaml", dict(source), {}
    else:
        raise UsageError(f"a config is a path or a mapping, found {type(source).__name__}")
    return Read(_validated(data, path, lines), path, lines)


def _loaded(path: str) -> tuple[Any, Lines]:
    """The plain data of a YAML file, and the line of everything in it."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read((most := CONFIG.value) + 1)
    except UnicodeDecodeError as error:
        raise InputError(Problem(path, None, f"not UTF-8 at byte {error.start}; expected UTF-8 text")) from None
    except FileNotFoundError:
        raise InputError(Problem(path, None, NO_CONFIG)) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(
            Problem(path, None, f"cannot be read ({reason}); expected a config such as karat.yaml")
        ) from None
    if text.lstrip().startswith("{") and '"format_version"' in text[:HEAD]:
        raise InputError(Problem(path, None, SAVED))
    if len(text) > most:
        raise InputError(Problem(path, None, f"is longer than {CONFIG.text}; expected a config such as karat.yaml"))
    plain, lines = read_yaml(text, path)
    if not isinstance(plain, dict):
        what = "an empty file" if plain is None else shown(plain)
        raise InputError(
            Problem(path, None, f"expected keys such as dataset, runs and gates, found {what}; see `karat init`")
        )
    return plain, lines


def _validated(data: Any, path: str, lines: Mapping[tuple[Any, ...], int]) -> Config:
    from pydantic import ValidationError

    try:
        return Config.model_validate(data)
    except ValidationError as error:
        problems = [_located_problem(e, data, path, lines) for e in error.errors(include_url=False)]
        once: dict[str, Problem] = {str(problem): problem for problem in problems}
        by_line: list[Problem] = sorted(once.values(), key=lambda problem: problem.line or 0)
        raise InputError(by_line) from None


def _located_problem(error: Any, data: Any, path: str, lines: Mapping[tuple[Any, ...], int]) -> Problem:
    """One problem with its line: where, what was found, what was expected."""
    keys = _real(error["loc"], data)
    inner = re.search(r"unknown key '(\w+)'", str(error.get("ctx", {}).get("error", "")))
    if inner and (*keys, inner[1]) in lines:  # a key of a gate
        keys = (*keys, inner[1])
    return Problem(path, line_of(lines, keys), _problem(error, keys))


def _problem(error: Any, keys: tuple[Any, ...]) -> str:
    name = ".".join(f"{k}" if isinstance(k, str) else f"[{k + 1}]" for k in keys).replace(".[", "[")
    kind, context = error["type"], error.get("ctx", {})
    if kind == "extra_forbidden":
        names = _keys(_model(keys[:-1]))
        near = nearest(str(keys[-1]), names)
        hint = f"did you mean {near!r}?" if near else f"expected some of {', '.join(names)}"
        return f"unknown key {str(keys[-1])!r}{_inside(keys[:-1])}; {hint}"
    if kind == "missing":
        return f"{name or 'the file'} lacks {str(error['loc'][-1])!r}, which is needed"
    if kind == "value_error":
        return f"{context['error']}"
    if kind == "invalid_key":
        return f"a key{_inside(keys[:-1])} must be text, found {shown(error['input'])}"
    if kind == "literal_error":
        choices = [w.strip("'") for w in context["expected"].replace(" or ", ", ").split(", ")]
        near = nearest(str(error["input"]), choices)
        hint = f"; did you mean {near!r}?" if near else ""
        return f"{name} must be one of {', '.join(choices)}, found {shown(error['input'])}{hint}"
    expected, given = _worded(error["msg"].removeprefix("Input should be ")), error["input"]
    hint = ""
    if keys == ("segments",) and expected == "keys with values":
        expected = "a list of fields, such as [language, kind]"
    if keys[0] == "segments" and expected == "text" and isinstance(given, list) and given:
        hint = f'; segments by several fields at once are written "{",".join(map(str, given))}"'
    return f"{name or 'the config'} must be {expected}, found {shown(given)}{hint}"


def _worded(expected: str) -> str:
    """What pydantic expects, in the words of the file's writer."""
    return next((ours for theirs, ours in _WORDS.items() if expected.startswith(theirs)), expected)


_WORDS = {
    "a valid string": "text",
    "a valid dictionary": "keys with values",
    "a valid list": "a list",
    "a valid number": "a number",
    "a valid integer": "a whole number",
    "a valid boolean": "true or false",
    "String should have at least 1 character": "text",
}


def _inside(keys: Sequence[Any]) -> str:
    return f" in {'.'.join(map(str, keys))}" if keys else ""


def _real(loc: Sequence[Any], data: Any) -> tuple[Any, ...]:
    """The keys of a location that the file has; the names of types among them are left out."""
    out: list[Any] = []
    for key in loc:
        inside = (isinstance(data, dict) and key in data) or (
            isinstance(data, list) and isinstance(key, int) and key < len(data)
        )
        if inside:
            out.append(key)
            data = data[key]
    return tuple(out)


def _model(keys: Sequence[Any]) -> type[BaseModel] | None:
    """The model that describes this place of the file."""
    from pydantic import BaseModel

    model: type[BaseModel] | None = Config
    for key in keys:
        if model is None:
            return None
        fields = {f.alias or name: f for name, f in model.model_fields.items()}
        field = fields.get(key)
        inner = [field.annotation, *_arguments(field.annotation)] if field is not None else []
        model = next((t for t in inner if isinstance(t, type) and issubclass(t, BaseModel)), None)
    return model


def _arguments(annotation: Any) -> list[Any]:
    out: list[Any] = []
    for argument in typing.get_args(annotation):
        out += [argument, *_arguments(argument)]
    return out


def _keys(model: type[BaseModel] | None) -> list[str]:
    return [f.alias or name for name, f in model.model_fields.items()] if model is not None else []
