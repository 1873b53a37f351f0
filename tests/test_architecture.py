"""Lower rooms never import higher ones, and importing Karat loads nothing heavy."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import karat
from karat.cli.app import COMMANDS
from karat.model import kernel

SOURCE = Path(karat.__file__).parent
FLOORS = [
    {"errors", "exit_codes", "records"},
    {"model", "stats"},
    {"metrics", "ontology", "read", "store"},
    {"align"},
    {"cluster", "results", "retrieve"},
    {"judge"},
    {"gates"},
    {"config"},
    {"verbs"},
    {"report"},
    {"cli", "pytest_plugin"},
]
FLOOR = {room: i for i, rooms in enumerate(FLOORS) for room in rooms}
HEAVY = (
    "duckdb",
    "scipy",
    "pandas",
    "polars",
    "pyarrow",
    "nanoarrow",
    "pyspark",
    "msgspec",
    "rich",
    "typer",
    "concurrent.futures",
)


def imports(path: Path) -> set[str]:
    """The karat modules that a file imports, anywhere in it; type-only imports count too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "karat":
            names = [f"{node.module}.{a.name}" for a in node.names] if node.module == "karat" else [node.module]
            found |= set(names)
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names if a.name.split(".")[0] == "karat"}
    return found


def test_every_room_has_a_floor() -> None:
    rooms = {p.stem if p.suffix == ".py" else p.name for p in SOURCE.iterdir() if p.name != "__pycache__"}
    assert rooms - {"__init__", "__main__", "py.typed", "example"} == set(FLOOR)


def test_lower_rooms_never_import_higher_ones() -> None:
    wrong = []
    for path in SOURCE.rglob("*.py"):
        room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        for module in imports(path) if room in FLOOR else ():
            other = module.split(".")[1] if "." in module else ""
            if other in FLOOR and FLOOR[other] > FLOOR[room]:
                wrong.append(f"{path.relative_to(SOURCE)} imports {module}")
    assert wrong == []


def test_no_module_passes_600_lines_or_is_a_drawer() -> None:
    for path in SOURCE.rglob("*.py"):
        assert len(path.read_text("utf-8").splitlines()) <= 600, path
        assert path.stem not in ("utils", "helpers", "common", "misc")


def dicts_of_anything(path: Path) -> int:
    """How often a module writes `dict[str, Any]`, `Mapping[str, Any]` or a list of bare dicts as a type."""
    tree = ast.parse(path.read_text("utf-8"))
    texts = (ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Subscript))
    return sum(text in ("dict[str, Any]", "Mapping[str, Any]", "list[dict]", "Sequence[dict]") for text in texts)


def test_data_between_functions_has_a_type() -> None:
    """A record is a dataclass, a Struct or a TypedDict, and JSON that others write is `Json`."""
    names = {str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py") if dicts_of_anything(path)}
    assert names == set()


def test_records_are_quick_to_declare() -> None:
    """A dataclass of Python's own costs ten times as much whenever its module is imported."""
    slow = [
        p.name
        for p in SOURCE.rglob("*.py")
        if re.search(r"from dataclasses import .*\bdataclass\b", p.read_text("utf-8"))
    ]
    assert slow == ["records.py"]


def test_evaluating_dicts_and_trec_files_loads_nothing_heavy(tmp_path: Path) -> None:
    (tmp_path / "q").write_text("q1 0 d1 1\n")
    (tmp_path / "r").write_text("q1 Q0 d1 1 2.0 t\n")
    code = (
        "import karat, sys\n"
        "karat.evaluate({'q': {'d': 1}}, {'q': {'d': 1.0}})\n"
        f"karat.evaluate({str(tmp_path / 'q')!r}, {str(tmp_path / 'r')!r})\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_importing_karat_does_not_import_numpy() -> None:
    code = "import karat, sys; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_every_public_name_loads_and_no_module_hides_one() -> None:
    modules = {p.stem for p in SOURCE.glob("*.py")} | {p.name for p in SOURCE.iterdir() if p.is_dir()}
    for name in karat.__all__:
        assert getattr(karat, name) is not None
        assert name not in modules
    assert sorted(karat.__all__) == sorted(set(karat.__all__)) == sorted(karat.__dir__())


def test_the_generated_pages_are_in_sync() -> None:
    import write_docs

    assert write_docs.main(["--check"]) == 0


def imported_by(*arguments: str, cwd: Path) -> set[str]:
    """The modules that a process of the command line has imported when it ends."""
    code = (
        "import atexit, sys\n"
        "atexit.register(lambda: print('\\n' + ' '.join(sys.modules), file=sys.stderr))\n"
        f"sys.argv[1:] = {list(arguments)!r}\n"
        "from karat.cli import main\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=cwd, check=True)
    return set(done.stderr.splitlines()[-1].split())


def test_the_version_imports_nothing_beside_karat(tmp_path: Path) -> None:
    modules = imported_by("--version", cwd=tmp_path)
    assert modules & {*HEAVY, "numpy", "pydantic", "click", "typing", "re", "dataclasses"} == set()
    assert {m for m in modules if m.split(".")[0] == "karat"} == {
        "karat",
        "karat.cli",
        "karat.exit_codes",
        "karat.cli.streams",
        "karat.model",
        "karat.model.kernel",
        *(["karat.model.kernel.dicts"] if kernel.dicts is not None else []),
    }


def test_help_imports_no_command_and_no_numpy(tmp_path: Path) -> None:
    modules = imported_by("--help", cwd=tmp_path)
    assert modules & {"numpy", "scipy", "pydantic", "duckdb", "msgspec"} == set()
    assert modules & {f"karat.cli.{name}" for name in COMMANDS} == set()
    assert "numpy" not in imported_by("evaluate", "--help", cwd=tmp_path)


def test_a_check_loads_no_more_of_scipy_than_its_functions_and_ends_without_a_search_for_garbage(
    tmp_path: Path,
) -> None:
    (tmp_path / "q").write_text("".join(f"q{i} 0 d{i} 1\n" for i in range(40)))
    for name, places in (("old", 3), ("new", 2)):
        (tmp_path / name).write_text("".join(f"q{i} Q0 d{i - i % places} 1 1 r\n" for i in range(40)))
    (tmp_path / "karat.yaml").write_text(
        "dataset: {qrels: q}\nruns: {old: old, new: new}\nbaseline: old\ngates: [mrr better than baseline]\n"
    )
    code = (
        "import atexit, gc, sys\n"
        "atexit.register(lambda: print(gc.get_freeze_count() > 0, 'scipy.special' in sys.modules, file=sys.stderr))\n"
        "sys.argv = ['karat', 'check', '--save', 'saved.json', '--no-cache']\n"
        "from karat.cli import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1, 3)
    assert done.stderr == "True False\n"
    assert (tmp_path / "saved.json").exists()


def test_the_command_line_evaluates_text_files_without_what_is_slow_to_import(tmp_path: Path) -> None:
    (tmp_path / "q").write_text("".join(f"q{i} 0 d{i} 1\n" for i in range(40)))
    (tmp_path / "r").write_text("".join(f"q{i} Q0 d{i % 30} 1 2.0 t\n" for i in range(40)))
    modules = imported_by("evaluate", "q", "r", cwd=tmp_path)
    slow = {*HEAVY, "pydantic", "ruamel.yaml", "jinja2", "html", "importlib.metadata", "numpy.ma"}
    slow -= {"rich", "typer", "concurrent.futures"}
    assert modules & slow == set()
    unused = {"karat.report.view", "karat.report.html", "karat.ontology.load", "karat.stats.pooling", "karat.gates"}
    assert modules & (unused | {f"karat.cli.{name}" for name in COMMANDS if name != "evaluate"}) == set()
