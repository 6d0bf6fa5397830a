"""tools/mutants.py: where it changes nothing, and what it says of a change that tests notice, or don't."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import mutants  # noqa: E402

CODE = """
import functools
@functools.cache
def small(
    x: int | None,
    *rest: "int",
) -> bool:
    y: list[int] = [1]
    for a, b in zip(y, y, strict=True):
        return (x or a) < b
    return 1 > 2
"""

MODULE = """\
def f(n):
    while n > 3:
        n -= 1; __import__("time").sleep(0.01)
    return n
def g():
    return 1
"""
"""Whoever waits for ever in `f` sleeps meanwhile."""
TESTS = "from code_under_test import f\ndef test_f():\n    assert f(2) == 2 and f(9) < 9\n"
TRIES = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import mutants
tree = mutants.Tree(Path(sys.argv[2]))
code = (tree.root / "code_under_test.py").read_text()
lines = {"code_under_test.py": {n: ["test_it.py::test_f"] for n in (2, 3, 4)}}
for line, old, new in ((2, "3", "4"), (2, ">", "<"), (3, "-= 1", "-= 0"), (6, "return 1", "return 2")):
    mutant = mutants.Mutant("code_under_test.py", line, old, new, code.replace(old, new, 1))
    print(tree.outcome(mutant, lines, ["test_it.py"], 20.0))
assert (tree.root / "code_under_test.py").read_text() == code
"""


def test_what_declares_is_left_alone() -> None:
    """Annotations, decorators and `strict=` promise nothing at run time."""
    lines = CODE.splitlines()
    spans = mutants.declarations(CODE)
    texts = {lines[start[0] - 1][start[1] : end[1]] for start, end in spans if start[0] == end[0]}
    assert texts == {"functools.cache", "int | None", '"int"', "bool", "list[int]", "True"}


def test_a_statement_is_all_its_lines_without_its_block() -> None:
    """A test that comes by one line of it comes by what is changed on another."""
    assert mutants.statement(CODE, 5) == range(4, 8)
    assert mutants.statement(CODE, 9) == range(9, 10)
    assert mutants.statement(CODE, 10) == range(10, 11)


def test_every_group_has_modules_and_tests() -> None:
    """A name that was changed is no group without tests."""
    patterns = [pattern for group in mutants.GROUPS.values() for pattern in (*group.modules, *group.tests)]
    assert [pattern for pattern in patterns if not list(ROOT.glob(pattern))] == []


def test_what_is_said_of_a_change(tmp_path: Path) -> None:
    """No test tells 3 from 4; one tells `>` from `<`; one waits for ever; and none comes by `g`."""
    root = tmp_path / "tree"
    root.mkdir()
    (root / "code_under_test.py").write_text(MODULE)
    (root / "test_it.py").write_text(TESTS)
    argv = [sys.executable, "-c", TRIES, str(ROOT / "tools"), str(root)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.split("\n")[:-1] == ["survived", "killed", "killed", "not run"], done.stderr


def test_a_group_that_is_none_is_an_error() -> None:
    """With the name that is wrong."""
    argv = [sys.executable, str(ROOT / "tools/mutants.py"), "plan", "plams"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and "plams" in done.stderr and "plan," not in done.stderr
