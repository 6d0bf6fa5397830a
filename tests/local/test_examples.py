"""The Python of README and docs/python.md, and examples/*.py, do what they say, as they stand, over real ssh."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import get_args

import pytest

import distui
from distui.facts.host import Gpu, GpuProcess, Gpus, HostFacts, Trouble

ROOT = Path(__file__).resolve().parents[2]
JOB = """\
version: 1
name: example
hosts: demo[1-2]
progress: {regex: 'step (?P<step>[0-9]+)'}
command: |
  echo "step 7"; echo "rank $RANK"; exit $((RANK * FAILS))
env: {FAILS: 0}
"""


def example(name: str) -> ModuleType:
    """An example as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f"examples/{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(name: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run an example as its first line says."""
    program = str(ROOT / f"examples/{name}.py")
    return subprocess.run([sys.executable, program, *words], capture_output=True, text=True, timeout=120)


@pytest.fixture
def job(demo_home: Path) -> Path:
    """A job file beside a hosts.yaml with two hosts."""
    path = Path("job.yaml")
    path.write_text(JOB)
    return path


def test_readme_s_python(tmp_path: Path) -> None:
    """Both ways of it run to their end."""
    program = str(ROOT / "tools/run_readme.py")
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == sorted(
        [*(f"{rank} demo{rank + 1} | rank {rank} of 2" for rank in range(2)), "succeeded 0", "succeeded 0"]
    )


def test_the_page_about_python(tmp_path: Path) -> None:
    """Every block of docs/python.md runs as it stands, and does what stands around it."""
    page = ROOT / "docs/python.md"
    command = [sys.executable, str(ROOT / "tools/run_readme.py"), str(page)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said[0].startswith("succeeded 0 /") and "succeeded" in said
    assert {f"{rank} demo{rank + 1} | hello from rank {rank} of 2" for rank in range(2)} <= set(said)
    assert {f"ranks ({rank},) on demo{rank + 1}" for rank in range(2)} <= set(said)
    assert "nap-1 running on demo1, demo2" in said and "left on hosts: ()" in said
    assert any("did you mean 'command'" in line for line in said)
    assert re.findall(r"^```(?!python$|$)", page.read_text(), re.MULTILINE) == [], "a block that nothing runs"


def test_the_page_about_python_names_the_whole_api() -> None:
    """Every event and every error, and no name that is none."""
    page = (ROOT / "docs/python.md").read_text()
    events = {kind.__name__ for kind in get_args(distui.Event)}
    assert events == {name for name in events if f"`{name}`" in page}
    assert {name for name in re.findall(r"distui\.(\w+)", page) if name != "__all__"} <= set(distui.__all__)


def test_watching_a_run(job: Path) -> None:
    """Phases, lines, progress and the end."""
    done = run("watch_a_run", "job.yaml")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("example-") and lines[0].endswith(": 2 ranks on 2 hosts")
    assert {"1 demo2 | rank 1", "progress step=7.0", "rank 0 on demo1: exit 0"} <= set(lines), done.stdout
    assert lines[-1].startswith("succeeded after ")


def test_running_and_reading_the_result(job: Path) -> None:
    """On one host; a rank that fails; a file that is wrong."""
    one = run("run_and_read", "job.yaml", "demo2")
    assert (one.returncode, one.stdout) == (0, "rank-00000: 2 lines, the last one: rank 0\nsucceeded\n"), one.stderr
    job.write_text(JOB.replace("FAILS: 0", "FAILS: 3"))
    failed = run("run_and_read", "job.yaml")
    assert failed.returncode == 1, failed.stderr
    assert failed.stdout.startswith("rank 1 on demo2 failed first: exit 3")
    assert failed.stdout.endswith("\nfailed\n")
    job.write_text(JOB + "commnd: x\n")
    wrong = run("run_and_read", "job.yaml")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "did you mean 'command'" in wrong.stderr


def test_stopping_runs_that_take_too_long(job: Path) -> None:
    """Those that are younger go on."""
    job.write_text(JOB.replace("exit $((RANK * FAILS))", "exec sleep 600"))
    program = (
        "import asyncio, distui\n"
        "async def main():\n"
        "    async with distui.Cluster.open() as cluster:\n"
        "        async with cluster.launch(await cluster.prepare('job.yaml', name='long'), detach=True) as run:\n"
        "            await run.wait()\n"
        "asyncio.run(main())\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
    assert run("stop_long_runs", "1").stdout == ""
    done = run("stop_long_runs", "0")
    assert done.returncode == 0, done.stderr
    first, last = done.stdout.splitlines()
    assert first.startswith("long has taken 0.0 h; its first rank said last: ") and last == "long is stopped"
    assert run("stop_long_runs", "0").stdout == ""


@pytest.mark.parametrize(
    ("name", "words"),
    [("list_gpus", ("a", "b")), ("run_and_read", ()), ("stop_long_runs", ()), ("stop_long_runs", ("soon",)),
     ("watch_a_run", ())],
)  # fmt: skip
def test_what_an_example_needs_is_said(name: str, words: tuple[str, ...]) -> None:
    """Called without what it needs: its first line, which says how; no traceback."""
    done = run(name, *words)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"{example(name).__doc__}\n")


@pytest.mark.parametrize(
    ("name", "words"),
    [("list_gpus", ()), ("run_and_read", ("job.yaml",)), ("stop_long_runs", ("1",)), ("watch_a_run", ("job.yaml",))],
)
def test_an_example_without_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, words: tuple[str, ...]
) -> None:
    """The words of the error and its exit code; no traceback."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    done = run(name, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "hosts.yaml" in done.stderr and "Traceback" not in done.stderr


def test_listing_gpus(demo_home: Path) -> None:
    """Hosts that answer have a row each."""
    done = run("list_gpus")
    assert done.returncode == 0, done.stderr
    assert [line.partition(":")[0] for line in done.stdout.splitlines()][:1] == ["demo1"]
    assert "demo2: " in done.stdout


def test_rows_of_gpus() -> None:
    """Free ones, busy ones, broken ones, none, and a host that is down."""
    rows = example("list_gpus").rows
    gpus = (
        Gpu(0, "u0", "H100", memory_total_mib=81920),
        Gpu(1, "u1", "H100", memory_total_mib=81920, processes=(GpuProcess(7, "python", 9),)),
        Gpu(2, "u2", "H100", problem=Trouble("lost", "GPU is lost")),
    )
    assert list(rows(HostFacts("a", "a", gpu=Gpus(gpus)))) == [
        "0 H100, 80 GiB, free",
        "1 H100, 80 GiB, busy",
        "2 H100, 0 GiB, GPU is lost",
    ]
    assert list(rows(HostFacts("a", "a"))) == ["no GPU"]
    assert list(rows(HostFacts("a", "a", gpu=Gpus(problem=Trouble("driver", "it is gone"))))) == [
        "no driver: it is gone"
    ]
    assert list(rows(distui.HostDown("a", Trouble("refused", "a refuses")))) == ["down: a refuses"]
