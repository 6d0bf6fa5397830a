"""Changes distui in small ways, one at a time, and runs tests: a change that no test notices is a promise unproved.

    tools/mutants.py                        # a sample of each group of modules
    tools/mutants.py verdict lease          # of these
    tools/mutants.py plan --count 5 --seed 7

`make mutants` calls it. It works in a copy of the files that git knows. First it runs a group's tests once, to see
which of them come by which line; then each change (`<` for `<=`, `and` for `or`, 3 for 2 ...) meets only the tests that
come by its line. A change is killed when one of them fails, or when they take far longer than they should. `--seed`
draws the changes: by place, so that one with many possible changes is not drawn more often than others. What only
declares is left alone: annotations, decorators, `strict=`. Exits 1 when less than `--at-least` percent are killed.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

REPO = Path(__file__).resolve().parents[1]
UNIT = "tests/[lu]*/test_"  # `local` and `unit`


@dataclass(frozen=True)
class Group:
    """Modules that are tested together, and the tests that shall notice a change in one of them."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


GROUPS = {
    "plan": Group(
        ("distui/plan/**/*.py",),
        (f"{UNIT}plan_*.py", f"{UNIT}spec_build.py", f"{UNIT}spec_placeholders.py", f"{UNIT}run_fetch.py"),
    ),
    "verdict": Group(
        ("distui/runs/verdict/**/*.py",),
        (
            "tests/verdict/test_*.py",
            *(f"{UNIT}run_{name}.py" for name in ("verdict*", "diagnose", "success", "circumstances", "elastic", "tf")),
            *(f"{UNIT}run_{name}.py" for name in ("watch", "stop_word", "conclude", "controller")),
        ),
    ),
    "follow": Group(
        ("distui/runs/follow/*.py",),
        (f"{UNIT}resume.py", f"{UNIT}follow_*.py", f"{UNIT}fanout.py", f"{UNIT}full_disk.py", f"{UNIT}batch.py"),
    ),
    "lease": Group(
        tuple(f"distui/runs/hosts/claims/{name}.py" for name in ("lease", "marks", "claim_file")),
        (f"{UNIT}run_lease.py", f"{UNIT}run_marks.py", f"{UNIT}run_sweep.py", f"{UNIT}run_launch.py"),
    ),
    "launch": Group(
        ("distui/runs/launch/*.py",),
        (
            *(f"{UNIT}run_{name}.py" for name in ("launch", "lease", "sweep", "fetch", "build", "attempts", "reuse")),
            f"{UNIT}run_controller.py",
            f"{UNIT}job_record.py",
            f"{UNIT}run_transfers.py",
            *(f"tests/ssh/test_{name}.py" for name in ("ssh_code", "backend")),
        ),
    ),
    "explain": Group(
        tuple(
            f"distui/runs/insight/{name}.py"
            for name in (
                "seen/answers",
                "seen/ranks",
                "seen/doing",
                "asking/ask",
                "asking/look",
                "hang/explain",
                "hang/col*",
            )
        ),
        (f"{UNIT}insight_*.py",),
    ),
}

# Lines of a module, and the tests that come by them. What runs on import is come by in none: key "".
Lines = Mapping[str, Mapping[int, Collection[str]]]


@dataclass(frozen=True)
class Mutant:
    """One change: where it is, and the whole module with it."""

    module: str
    line: int
    before: str
    after: str
    code: str = field(repr=False)

    def __str__(self) -> str:
        return f"{self.module}:{self.line}: {self.before}  ->  {self.after}"


# --- which changes there are ----------------------------------------------------------------------------------------


def declarations(source: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Where a module only declares: annotations, decorators, `strict=`."""
    found: list[ast.expr] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found += node.decorator_list
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found += [node.returns] if node.returns else []
        if isinstance(node, ast.arg | ast.AnnAssign):
            found += [node.annotation] if node.annotation else []
        if isinstance(node, ast.keyword) and node.arg == "strict":
            found.append(node.value)
    return [((e.lineno, e.col_offset), (e.end_lineno or 0, e.end_col_offset or 0)) for e in found]


def statement(source: str, line: int) -> range:
    """The lines of the statement that a line belongs to, without the block below it."""
    best = range(line, line + 1)
    for node in ast.walk(ast.parse(source)):  # outer ones come first
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0):
            below = [b.lineno for b in getattr(node, "body", []) if b.lineno > line]
            best = range(node.lineno, min([(node.end_lineno or 0) + 1, *below]))
    return best


def places(module: str, source: str) -> dict[tuple[int, int], list[tuple[Any, int]]]:
    """Where a module can be changed: each place with (operator, occurrence) of cosmic-ray for each change there."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator, operator_names

    apart = declarations(source)
    operators = [o for o in map(get_operator, sorted(operator_names())) if not o.arguments()]
    counts = dict.fromkeys(operators, 0)
    found: dict[tuple[int, int], list[tuple[Any, int]]] = {}
    for node in ast_nodes(get_ast(source)):
        for operator in operators:
            for start, _ in operator().mutation_positions(node):
                if node.type != "decorator" and not any(begin <= start < end for begin, end in apart):
                    found.setdefault(start, []).append((operator, counts[operator]))
                counts[operator] += 1
    return found


def draw(sources: Mapping[str, str], count: int, seed: int) -> Iterator[Mutant]:
    """So many changes of the modules, each at a place of its own."""
    from cosmic_ray.mutating import mutate_code

    chance = random.Random(seed)
    found = {(m, start): ways for m, source in sources.items() for start, ways in places(m, source).items()}
    drawn = 0
    for module, start in chance.sample(sorted(found), len(found)):
        if drawn == count:
            return
        operator, occurrence = chance.choice(found[module, start])
        code = mutate_code(sources[module], operator(), occurrence)
        if is_python(code):
            drawn += 1
            yield Mutant(module, start[0], *differing(sources[module], code), code)


def is_python(code: str) -> bool:
    """Whether this can be compiled: a star that stands alone among parameters is no operator."""
    try:
        compile(code, "", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


def differing(before: str, after: str) -> tuple[str, str]:
    """The first line of each that the other does not have."""
    pairs = zip((before + "\n").splitlines(), (after + "\n").splitlines(), strict=False)
    return next(((a.strip(), b.strip()) for a, b in pairs if a != b), ("", ""))


# --- running tests --------------------------------------------------------------------------------------------------


class Watched:
    """A plugin of pytest: which tests come by which lines of the modules."""

    def __init__(self, root: Path, modules: Sequence[str]) -> None:
        from coverage import Coverage

        self.root, self.modules = root, modules
        self.coverage = Coverage(data_file=None, include=[str(root / m) for m in modules])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.coverage.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self.coverage.switch_context("")

    def lines(self) -> Lines:
        data = self.coverage.get_data()
        return {m: data.contexts_by_lineno(str(self.root / m)) for m in self.modules}


class Only:
    """A plugin of pytest: no tests but these."""

    def __init__(self, names: Collection[str]) -> None:
        self.names = set(names)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid in self.names]


def in_child(root: Path, log: Path, tests: Sequence[str], seen: Path | None, modules: Sequence[str]) -> None:
    """Run tests in this process, which was forked for it: its imports are its own."""
    os.setsid()
    with log.open("wb") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
    os.chdir(root)
    sys.path.insert(0, str(root))
    os.environ["PYTHONPATH"] = str(root)
    files = list(dict.fromkeys(name.partition("::")[0] for name in tests))
    plugins: list[Any] = [Only(tests)] if "::" in tests[0] else []
    arguments = ["-x", "-q", "--tb=short", "-p", "no:cacheprovider", "--hypothesis-seed=0", "--rootdir", str(root)]
    if seen is None:
        os._exit(pytest.main([*arguments, *files], plugins))
    watched = Watched(root, modules)
    watched.coverage.start()
    code = pytest.main([*arguments, *files], [watched])
    watched.coverage.stop()
    seen.write_text(json.dumps({m: list(by.items()) for m, by in watched.lines().items()}))
    os._exit(code)


def run_tests(
    root: Path, tests: Sequence[str], limit: float | None, *, seen: Path | None = None, modules: Sequence[str] = ()
) -> int | None:
    """How pytest ended over these tests in a process of its own; None when it took too long."""
    context = multiprocessing.get_context("fork")
    child = context.Process(target=in_child, args=(root, root.parent / "log", tests, seen, modules))
    child.start()
    child.join(limit)
    code = child.exitcode
    with suppress(ProcessLookupError):
        os.killpg(child.pid or 0, signal.SIGKILL)  # what a test has left running, too
    child.join()
    return code


@dataclass
class Tree:
    """A copy of the repository in which modules are changed."""

    root: Path

    @classmethod
    def copy(cls, folder: Path) -> Tree:
        root = folder / "tree"
        listed = ["git", "-C", str(REPO), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        for name in subprocess.run(listed, stdout=subprocess.PIPE, check=True).stdout.decode().split("\0")[:-1]:
            if os.path.lexists(REPO / name):
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(REPO / name, root / name, follow_symlinks=False)
        return cls(root)

    def files(self, patterns: Iterable[str]) -> list[str]:
        """Names of files, in the order of the patterns."""
        found = [sorted(self.root.glob(pattern)) for pattern in patterns]
        return list(dict.fromkeys(str(p.relative_to(self.root)) for paths in found for p in paths))

    def write(self, module: str, code: str) -> None:
        """Write a module, and forget how it was compiled: a change within a second is none for Python."""
        path = self.root / module
        path.write_text(code, encoding="utf-8")
        Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)

    def lines(self, modules: Sequence[str], tests: Sequence[str]) -> tuple[Lines, float]:
        """Run all tests over what is unchanged; who comes by where, and how long it took."""
        seen = self.root.parent / "seen.json"
        began = time.monotonic()
        if run_tests(self.root, tests, None, seen=seen, modules=modules) != 0:
            raise SystemExit(f"these tests fail without any change:\n{(self.root.parent / 'log').read_text()[-3000:]}")
        by_module = json.loads(seen.read_text())
        return {m: dict(by) for m, by in by_module.items()}, time.monotonic() - began

    def outcome(self, mutant: Mutant, lines: Lines, tests: Sequence[str], limit: float) -> str:
        """`killed`, `survived`, or `not run` where no test comes by."""
        before = (self.root / mutant.module).read_text(encoding="utf-8")
        by = lines[mutant.module]
        names = {name for line in statement(before, mutant.line) for name in by.get(line, ())}
        if not names:
            return "not run"
        self.write(mutant.module, mutant.code)
        try:
            chosen = tests if "" in names else sorted(names)
            return "survived" if run_tests(self.root, chosen, limit) == 0 else "killed"
        finally:
            self.write(mutant.module, before)


def try_group(tree: Tree, name: str, count: int, seed: int) -> tuple[int, list[str]]:
    """Try a group's sample; how many were tried, and those that survived."""
    modules, tests = tree.files(GROUPS[name].modules), tree.files(GROUPS[name].tests)
    lines, took = tree.lines(modules, tests)
    print(f"{name}: {len(modules)} modules, tests of {len(tests)} files in {took:.0f} s", flush=True)
    sources = {m: (tree.root / m).read_text(encoding="utf-8") for m in modules}
    mutants = list(draw(sources, count, seed))
    survivors = []
    for mutant in mutants:
        how = tree.outcome(mutant, lines, tests, 120 + took)
        survivors += [f"{how}: {mutant}"] if how != "killed" else []
        print(f"{how:8} {mutant}", flush=True)
    return len(mutants), survivors


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--count", type=int, default=30, metavar="N", help="changes of each group (default: 30)")
    parser.add_argument("--seed", type=int, default=1, help="which changes are drawn (default: 1)")
    parser.add_argument(
        "--at-least", type=int, default=85, metavar="PERCENT", help="killed in each group (default: 85)"
    )
    parser.add_argument("group", nargs="*", metavar="GROUP", help=f"of {', '.join(GROUPS)} (default: all)")
    asked = parser.parse_args()
    if unknown := ", ".join(sorted({*asked.group} - {*GROUPS})):
        parser.error(f"no such group: {unknown}")
    few, report = False, list[str]()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = Tree.copy(Path(folder))
        for name in asked.group or GROUPS:
            tried, survivors = try_group(tree, name, asked.count, asked.seed)
            percent = 100 * (tried - len(survivors)) // max(tried, 1)
            few |= percent < asked.at_least
            report += [f"{name}: {tried - len(survivors)} of {tried} killed ({percent} %)", *survivors]
    print("", *report, sep="\n")
    return 1 if few else 0


if __name__ == "__main__":
    sys.exit(main())
