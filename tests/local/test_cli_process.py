"""How the process of the installed command starts and ends."""

from __future__ import annotations

import asyncio
import inspect
import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distui.cli import process, wiring
from distui.cli.console import Console

ROOT = Path(__file__).resolve().parents[2]
LOADED = """
import atexit, sys
from distui.cli import process
start, ended = process.start, []
def begin():
    ended[:] = [start()]
    atexit.register(show)
    return ended[0]
def show():
    late = [sys.modules[name] for name in process.LATE]
    print(*(one.__name__ for one in late if type(one).__name__ == "module"), "_ssl" in sys.modules)
    ended[0][:] = [0]
process.start = begin
sys.argv[1:] = {words}
sys.exit(process.program())
"""
ENDS = """
import atexit, sys, threading
import distui.cli.main as module
class Part:
    def __del__(self):
        print("taken apart", flush=True)
part = Part()
def main():
    atexit.register(print, "at exit")
    print("main")
    threading.Thread(target=print, args=("thread",)).start()
    return 7
module.main = main
sys.exit(module.process.program())
"""


def end(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, timeout=60)


def test_what_is_left_to_do_is_done_at_the_end() -> None:
    """Threads end, what is registered is called, what is buffered is written; then the process is gone as it is."""
    done = end(ENDS)
    lines = done.stdout.splitlines()
    assert (done.returncode, lines) == (7, ["main", "thread", "at exit"])


def test_an_end_that_is_none_of_mains_is_pythons() -> None:
    """An error on the way there shows its traceback and its exit code."""
    done = end("import distui.cli.main as module; module.main = lambda: 1 / 0; module.process.program()")
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr


@pytest.mark.parametrize(
    ("words", "used"),
    [(["--version"], ""), (["--help"], "shutil"), (["ps"], "getpass"), (["probe", "-H", "x"], "asyncio")],
)
def test_what_is_dear_is_loaded_where_it_is_used(
    fresh_python: Callable[[str], str], words: list[str], used: str
) -> None:
    """Where nobody is asked there is no asyncio, and TLS is in nobody's way."""
    program = LOADED.format(words=words)
    *loaded, tls = fresh_python(program).splitlines()[-1].split()
    loaded = [name for name in loaded if name != "inspect" or sys.version_info < (3, 12)]  # dataclasses asks it there
    assert tls == "False"
    assert used in loaded if used == "asyncio" else loaded == used.split()


@given(st.text(st.sampled_from(" \t\nab")))
def test_help_is_cleaned_as_python_cleans_it(text: str) -> None:
    """Indentation and blank lines around go, without the module that knows how."""
    assert process.cleandoc(text) == inspect.cleandoc(text)


def test_a_late_module_is_the_real_one() -> None:
    """All of it is there once something of it is used, by whichever way it is imported."""
    done = end(
        "from distui.cli import process; process.start()\n"
        "import asyncio.locks\n"
        "from asyncio import Queue, run\n"
        "assert asyncio.Lock is asyncio.locks.Lock\n"
        "async def work(): return await asyncio.to_thread(lambda: Queue().qsize())\n"
        "print(run(work()), type(asyncio).__name__)\n"
    )
    assert (done.stdout, done.stderr) == ("0 module\n", "")


def test_two_threads_may_be_the_first_to_use_a_late_module() -> None:
    """Neither finds half of it, however slowly it loads."""
    done = end(
        "import sys, threading, time\n"
        "from distui.cli import process; process.start()\n"
        "import statistics\n"
        "loader = statistics.__spec__.loader\n"
        "class Slow:\n"
        "    def exec_module(self, module): time.sleep(0.5); loader.exec_module(module)\n"
        "statistics.__spec__.loader = Slow()\n"
        "seen = []\n"
        "threads = [threading.Thread(target=lambda: seen.append(statistics.median([1]))) for _ in range(3)]\n"
        "[thread.start() for thread in threads]\n"
        "[thread.join() for thread in threads]\n"
        "print(seen, hasattr(statistics, 'no_such'))\n"
    )
    assert (done.stdout, done.stderr) == ("[1, 1, 1] False\n", "")


def test_late_modules_use_no_other_as_they_are_loaded(fresh_python: Callable[[str], str]) -> None:
    """Else two threads might wait for each other for ever."""
    program = (
        "import sys\n"
        "from distui.cli import process; process.start()\n"
        "for name in process.LATE:\n"
        "    before = set(process._begun)\n"
        "    hasattr(sys.modules[name], 'no_such')\n"
        "    assert process._begun - before == {name}, process._begun\n"
        "print(len(process._begun) == len(process.LATE))\n"
    )
    assert fresh_python(program).split() == ["True"]


def test_a_late_module_that_was_interrupted_is_loaded_again() -> None:
    """Ctrl-C comes while it loads; whoever uses it afterwards has all of it."""
    done = end(
        "from distui.cli import process; process.start()\n"
        "import asyncio\n"
        "loader = asyncio.__spec__.loader\n"
        "class Interrupted:\n"
        "    def exec_module(self, module): asyncio.__spec__.loader = loader; raise KeyboardInterrupt\n"
        "asyncio.__spec__.loader = Interrupted()\n"
        "try: asyncio.run\n"
        "except KeyboardInterrupt: print('interrupted')\n"
        "import asyncio.locks\n"
        "print(asyncio.Lock is asyncio.locks.Lock, type(asyncio).__name__)\n"
    )
    assert (done.stdout, done.stderr) == ("interrupted\nTrue module\n", "")


CLOSED = """
import os, subprocess, sys
import distui.cli.main as module
def call(words, *_):
    assert not sys.stdin.isatty() and sys.stdin.read() == ""
    names = [os.readlink("/proc/self/fd/%d" % number) for number in range(3)]
    with open("{path}", "w") as own:
        subprocess.run([sys.executable, "-c", "print('of a child')"], check=True)
        print("of distui")
        own.write(" ".join(names))
    return 0
module._call = call
sys.exit(module.process.program())
"""


@pytest.mark.parametrize(("closing", "empty"), [("<&-", [0]), (">&-", [1]), ("2>&-", [2]), ("<&- >&- 2>&-", [0, 1, 2])])
def test_streams_that_the_caller_closed_are_empty_and_taken(tmp_path: Path, closing: str, empty: list[int]) -> None:
    """Who asks whether stdin is a terminal gets an answer, and no file that is opened becomes a child's stdout."""
    path = tmp_path / "file"
    argv = ["bash", "-c", f'exec "$0" -c "$1" {closing}', sys.executable, CLOSED.format(path=path)]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=ROOT, timeout=60, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stderr) == (0, "")
    names = path.read_text().split()
    assert {number for number, name in enumerate(names) if name == "/dev/null"} == {0, *empty}
    assert sorted(done.stdout.split()) == ([] if 1 in empty else ["a", "child", "distui", "of", "of"])


WATCHES = (["probe", "--watch", "1s"], ["top"])


@pytest.mark.parametrize("words", WATCHES, ids=" ".join)
def test_what_goes_on_without_an_end_ends_where_stdout_is_closed(tmp_path: Path, words: list[str]) -> None:
    """Nobody can ever read it; a file that takes it is something else."""
    argv = [sys.executable, "-m", "distui.cli.main", *words, "-H", "127.0.0.1", "--no-input"]
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["bash", "-c", 'exec "$@" >&-', "-", *argv], cwd=tmp_path, env=env, timeout=30)
    assert done.returncode == 0


async def test_a_reader_that_has_gone_is_noticed_while_nothing_is_written() -> None:
    """As `logs -f | head -1` of a run that says nothing more: the next line may be hours away."""
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stdout:
        out = Console(stdout, sys.stderr, False, False, 80)
        assert out.is_read()
        watching = asyncio.ensure_future(wiring.while_read(out, asyncio.sleep(600)))
        await asyncio.sleep(0.1)
        os.close(reading)
        with pytest.raises(BrokenPipeError):
            await asyncio.wait_for(watching, 30)
        assert await wiring.while_read(Console(io.StringIO(), sys.stderr, False, False, 80), _seven()) == 7


async def _seven() -> int:
    return 7
