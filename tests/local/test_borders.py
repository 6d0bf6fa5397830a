"""What a start loads, in fresh interpreters, and what only one module may do.

Which room imports which is proved by `make lint` (`[tool.importlinter]` in pyproject.toml).
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("asyncssh", "textual", "torch", "tensorflow", "pydantic", "rich")


@functools.cache
def imports(path: Path) -> tuple[tuple[str, bool], ...]:
    """Every module a file imports, and whether it does so when it is itself imported; each file is read once."""
    return tuple(found_imports(path))


def found_imports(path: Path) -> Iterator[tuple[str, bool]]:
    tree = ast.parse(path.read_text("utf-8"))
    late = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.If)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from ((n.name, id(node) not in late) for n in names)
            case ast.ImportFrom(module=str(module), level=0, names=names):
                yield module, id(node) not in late
                yield from ((f"{module}.{n.name}", id(node) not in late) for n in names)


def files(folder: str, naming: str = "") -> list[Path]:
    """The files of a folder, those alone whose text has something: parsing all of them takes seconds."""
    found = sorted((ROOT / folder).rglob("*.py"))
    return [path for path in found if not naming or re.search(naming, path.read_text("utf-8"))]


def test_remote_and_tui_come_in_lazily() -> None:
    """The command line imports remote/ and tui/ inside functions only, but for the demo, which always needs hosts."""
    demo = {ROOT / "distui/cli" / name for name in ("actions/demo.py", "demo/demo_job.py", "demo/demo_ui.py")}
    for path in set(files("distui", r"\bremote\b|\btui\b")) - demo:
        wrong = [m for m, early in imports(path) if early and m.startswith(("distui.remote", "distui.tui"))]
        assert not wrong, f"{path.relative_to(ROOT)} imports {wrong}"


def test_ssh_is_joined_to_the_rest_in_one_file() -> None:
    """Also where it is imported by its name as text, which the import contracts do not see."""
    naming = r"""["']distui\.remote\b"""
    found = [path.relative_to(ROOT).as_posix() for path in [*files("distui", naming), *files("tui", naming)]]
    assert [name for name in found if not name.startswith("distui/remote/")] == ["distui/cluster/hosts/connecting.py"]


def test_options_of_a_few_words_suggest_the_nearest() -> None:
    """The command line uses its own Choice, which names the nearest word, never click's, which lists them only."""
    for path in files("distui/cli", r"\bChoice\b"):
        calls = [ast.unparse(n) for n in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(n, ast.Call)]
        wrong = [call for call in calls if call.startswith("click.Choice(")]
        assert not wrong, f"{path.relative_to(ROOT)} has {wrong}"


@pytest.mark.parametrize(
    "module",
    [
        "distui.plan.plan",
        "distui.facts.probe",
        "distui.runs.control.controller",
        "distui.runs.state.reducer",
        "distui.cluster.cluster",
        "distui.cluster.blocking",
        "distui.cli.app",
    ],
)
def test_no_room_below_the_screens_loads_ssh_or_screens(fresh_python: Callable[[str], str], module: str) -> None:
    """Importing a room loads neither asyncssh nor textual nor torch."""
    program = f"import sys, {module}; print([m for m in ('asyncssh', 'textual', 'torch') if m in sys.modules])"
    assert fresh_python(program) == "[]\n"


SENT = [p for p in files("distui/agent") if p.name not in ("__init__.py", "bundle.py")]


@pytest.mark.parametrize("path", SENT, ids=lambda path: path.name)
def test_what_is_sent_to_hosts_is_written_in_python_3_6(path: Path) -> None:
    """Old hosts and images have old Pythons; annotations there are text."""
    text = path.read_text("utf-8")
    ast.parse(text, feature_version=(3, 6))
    assert "from __future__" not in text


def test_only_whole_reads_digits() -> None:
    """`isdigit` and its like are true of `²` and of more digits than `int` takes: no question to ask before it.

    What travels to hosts imports nothing of distui, and reads what their kernel and nvidia-smi write.
    """
    asking = "isdigit|isdecimal|isnumeric"
    for path in [*files("distui", asking), *files("remote", asking), *files("tui", asking)]:
        if path == ROOT / "distui/whole.py" or ROOT / "distui/agent" in path.parents:
            continue
        wrong = [
            node.lineno
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(node, ast.Attribute) and node.attr in ("isdigit", "isdecimal", "isnumeric")
        ]
        assert not wrong, f"{path.relative_to(ROOT)} asks for digits itself, in lines {wrong}"


CALL = "import sys; from distui.cli.main import main; main({words}); print([m for m in {heavy} if m in sys.modules])"


@pytest.mark.parametrize("words", [["--help"], ["ps", "--help"], ["run", "--help"], ["version"], ["config", "path"]])
def test_help_loads_nothing_heavy(fresh_python: Callable[[str], str], words: list[str]) -> None:
    """`distui --help` and a verb's help cost click and no more."""
    heavy = (*HEAVY, "yaml", "asyncio")
    assert fresh_python(CALL.format(words=words, heavy=heavy)).splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("words", "loaded"),
    [
        (["ps"], ["asyncio"]),
        (["show", "x"], ["asyncio"]),
        (["stop", "x"], ["asyncio"]),
        (["logs", "x"], ["asyncio"]),
        (["schema", "job"], []),
    ],
    ids=" ".join,
)
def test_a_verb_loads_what_it_needs(fresh_python: Callable[[str], str], words: list[str], loaded: list[str]) -> None:
    """Where no file is read there is no yaml, and where nobody is asked there is no ssh and no cryptography."""
    heavy = (*HEAVY, "cryptography", "pathspec", "yaml", "asyncio")
    assert fresh_python(CALL.format(words=words, heavy=heavy)).splitlines()[-1] == str(loaded)


def test_a_list_of_runs_loads_nothing_that_starts_one(fresh_python: Callable[[str], str]) -> None:
    """`distui ps` is typed often: it needs neither plans, nor code, nor what removes what launches left."""
    heavy = ("distui.plan.tasks", "distui.runs.code.source", "distui.runs.launch.sweep", "distui.runs.attempt.attempt")
    assert fresh_python(CALL.format(words=["ps"], heavy=heavy)).splitlines()[-1] == "[]"


def test_patterns_are_compiled_when_they_are_used() -> None:
    """At the top of a module there is `regex`, never `re.compile`. What travels to hosts imports nothing of distui."""
    compiling = r"re\s*\.\s*compile"
    for path in [*files("distui", compiling), *files("remote", compiling), *files("tui", compiling)]:
        if path.is_relative_to(ROOT / "distui/agent"):
            continue
        tree = ast.parse(path.read_text("utf-8"))
        calls = [node for top in tree.body for node in early(top) if isinstance(node, ast.Call)]
        wrong = [node.lineno for node in calls if ast.unparse(node.func) == "re.compile"]
        assert not wrong, f"{path.relative_to(ROOT)} compiles at its import, in lines {wrong}"


def early(node: ast.AST) -> Iterator[ast.AST]:
    """What runs when a module is imported: all but the insides of its functions."""
    yield node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        for inner in ast.iter_child_nodes(node):
            yield from early(inner)


def test_importing_distui_costs_nothing(fresh_python: Callable[[str], str]) -> None:
    """Its names are loaded when they are used; the command line imports it at every call."""
    program = "import sys; before = set(sys.modules); import distui; print(sorted(set(sys.modules) - before))"
    assert fresh_python(program) == "['distui', 'distui.version']\n"
    used = "import sys, distui; distui.run, distui.Cluster;"
    program = f"{used} print([m for m in ('asyncssh', 'textual') if m in sys.modules])"
    assert fresh_python(program) == "[]\n"
