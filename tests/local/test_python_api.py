"""What `import distui` gives: names that are loaded late, and `distui.run` over real ssh on loopback."""

from __future__ import annotations

import ast
import asyncio
import copy
import inspect
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import is_dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

import distui
from distui.cluster import cluster
from distui.config import paths
from distui.session import Connector
from distui.spec.hosts.inventory import Host

JOB = """\
version: 1
name: api
hosts: demo[1-2]
stop_grace: 300s
command: |
  %s
"""
ENDLESS = "echo begun; exec sleep 600"
DEAF = "trap '' TERM INT; echo begun; while :; do sleep 1; done"


def job(script: str) -> str:
    """A job file."""
    Path("job.yaml").write_text(JOB % script)
    return "job.yaml"


def ctrl_c(times: int, seen: list[distui.Event]) -> Callable[[distui.Event], None]:
    """Ctrl-C once a rank runs, and again each time that it was heard; the kernel gives it to this, the run's thread."""
    left = [times]

    def on_event(event: distui.Event) -> None:
        seen.append(event)
        heard = isinstance(event, distui.LogLines) if left[0] == times else isinstance(event, distui.StopAsked)
        if heard and left[0]:
            left[0] -= 1
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    return on_event


def test_every_name_is_there_for_people_and_for_mypy() -> None:
    """What is loaded late, what mypy reads and what `__all__` says are the same names."""
    tree = ast.parse(Path(distui.__file__).read_text("utf-8"))
    declared = {
        (node.module, name.name)
        for branch in tree.body
        if isinstance(branch, ast.If)
        for node in branch.body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    assert declared == {(home, name) for home, names in distui._HOMES.items() for name in names.split()}
    assert sorted(distui.__all__) == sorted({"__version__", *(name for _, name in declared)})
    assert all(getattr(distui, name) is not None for name in distui.__all__)
    assert set(distui.__all__) <= set(dir(distui))
    with pytest.raises(AttributeError, match="'distui' has no attribute 'Clustr'"):
        distui.Clustr  # noqa: B018


VALUES = {"Host", "Inventory", "Job", "PlannedRun", "RunPlan", "RunRow", "RunState", "SeriesReader"}
"""What programs are given to read: attribute by attribute, without naming the types of those."""
OWN = {("Cluster", "connect"), ("Run", "controller"), ("load_job", "overrides")}
"""Parameters that are there for distui itself."""
SETTINGS_OWN = {"limits", "of", "paths", "store"}


def types_in(hint: object) -> set[type]:
    """All of distui's classes in a type."""
    parts = hint if isinstance(hint, list) else get_args(hint)
    if parts:
        return {found for part in parts for found in types_in(part)}
    return {hint} if isinstance(hint, type) and hint.__module__.startswith("distui") else set()


def members_of(kind: type) -> Iterator[tuple[str, Any]]:
    """Its public methods and properties as functions, how it is made, and itself for its fields."""
    yield "fields", kind
    for key, member in inspect.getmembers(kind):
        made_by_us = key == "__init__" and not is_dataclass(kind)
        own = kind is distui.ClusterSettings and key in SETTINGS_OWN
        if made_by_us or not (key.startswith("_") or own):
            yield key, member.fget if isinstance(member, property) else member


def signatures(name: str) -> Iterator[tuple[str, object]]:
    """What is in the public signatures and fields of a name of the API: where, and the type."""
    if name in VALUES:
        return
    value = getattr(distui, name)
    members = members_of(value) if isinstance(value, type) else [(name, value)]
    for key, member in members:
        if key == "fields" or inspect.isroutine(member):
            for part, hint in get_type_hints(member).items():
                if (name, part) not in OWN and not part.startswith("_"):
                    yield f"{name}.{key}: {part}", hint


def test_what_its_signatures_name_is_part_of_it() -> None:
    """A program can annotate with and test for what it is given, and that stays."""
    public = {getattr(distui, name) for name in distui.__all__}
    unnamed = {
        f"{where} is {kind.__name__}"
        for name in distui.__all__
        for where, hint in signatures(name)
        for kind in types_in(hint)
        if kind not in public
    }
    assert unnamed == set()
    assert [hint for where, hint in signatures("Run") if where == "Run.plan: return"] == [distui.RunPlan]


def test_a_run_in_one_call(demo_home: Path) -> None:
    """Its end is the result, its events are heard, its logs are where that says."""
    seen: list[distui.Event] = []
    result = distui.run(job("echo rank $RANK"), name="one", on_event=seen.append)
    assert isinstance(result, distui.RunEnded) and seen[-1] is result
    assert (result.outcome, result.exit, result.leftovers) == ("succeeded", 0, ())
    assert (Path(result.log_dir) / "rank-00001.log").read_text() == "rank 1\n"
    with pytest.raises(distui.UsageError, match="one"):
        distui.run("job.yaml", name="one")


def test_a_task_reads_the_list_of_all_hosts(demo_home: Path) -> None:
    """`{hostfile}` is there for it, and nothing of it when the run has ended."""
    seen: list[str] = []

    def on_event(event: distui.Event) -> None:
        if isinstance(event, distui.LogLines) and event.rank == 1:
            seen.extend(line.text for line in event.lines)

    distui.run(job("cat {hostfile}; echo {peers} {hostfile}"), on_event=on_event)
    *listed, last = seen
    addresses, path = last.split()
    assert listed == [f"{address} slots=1" for address in addresses.split(",")]
    assert len(listed) == 2
    assert path.endswith("/hostfile-1") and not Path(path).exists()


async def test_where_a_loop_runs_already(demo_home: Path) -> None:
    """As in a notebook; a rank that fails is a result."""
    assert asyncio.get_running_loop()
    result = distui.run(distui.load_job(job("exit $((RANK * 3))")), hosts=["demo1", "demo2"])
    assert (result.outcome, result.exit) == ("failed", 1)
    assert result.failure is not None and (result.failure.rank, result.failure.exit) == (1, 3)


def test_ctrl_c_stops_the_run(demo_home: Path) -> None:
    """It is raised when the run has ended on its hosts; how that was is its last event."""
    seen: list[distui.Event] = []
    with pytest.raises(KeyboardInterrupt, match="the run has ended: stopped"):
        distui.run(job(ENDLESS), on_event=ctrl_c(1, seen))
    result = seen[-1]
    assert isinstance(result, distui.RunEnded)
    assert (result.outcome, result.exit, result.leftovers) == ("stopped", 130, ())
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_ctrl_c_kills_it(demo_home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Ranks that don't hear SIGTERM end long before their grace is over."""
    seen: list[distui.Event] = []
    with pytest.raises(KeyboardInterrupt):
        distui.run(job(DEAF), on_event=ctrl_c(2, seen))
    result = seen[-1]
    assert isinstance(result, distui.RunEnded) and result.outcome == "stopped" and result.took < 300
    assert [line.partition(";")[0] for line in capfd.readouterr().err.splitlines()] == [
        "distui: stopping the run",
        "distui: killing the run",
    ]


def test_ctrl_c_ends_a_script_as_a_shell_expects(demo_home: Path) -> None:
    """By the signal, so that a loop in a shell ends, too."""
    program = (
        "import distui, os, signal\n"
        "hit = lambda event: isinstance(event, distui.LogLines) and os.kill(os.getpid(), signal.SIGINT)\n"
        f"distui.run({job(ENDLESS)!r}, hosts=['demo1'], on_event=hit)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == -signal.SIGINT, done.stderr
    assert "KeyboardInterrupt: the run has ended: stopped" in done.stderr


def test_ctrl_c_before_anything_is_started(demo_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While hosts are asked; nothing is recorded."""

    @asynccontextmanager
    async def connected(settings: object, hosts: Sequence[Host]) -> AsyncIterator[Connector]:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()
        raise AssertionError
        yield

    monkeypatch.setattr(cluster, "connected", connected)
    with pytest.raises(KeyboardInterrupt, match="nothing was started"):
        distui.run(job("true"))
    assert not list(paths(os.environ).runs.glob("*"))


def test_what_a_listener_raises_stops_the_run(demo_home: Path) -> None:
    """Nothing is left that nobody listens to; it is raised when the run has ended."""

    def on_event(event: distui.Event) -> None:
        if isinstance(event, distui.LogLines):
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        distui.run(job(ENDLESS), name="heard", on_event=on_event)
    assert '"state":"stopped"' in (paths(os.environ).runs / "heard/verdict.json").read_text()


def test_a_job_may_be_its_keys(demo_home: Path) -> None:
    """As in a notebook; what is wrong is told as in a file, and what no file could hold is refused."""
    keys = {"name": "keys", "hosts": "demo[1-2]", "workdir": Path("/tmp"), "command": ("sh", "-c", "pwd; exit $RANK")}
    result = distui.run(keys)
    assert (result.outcome, result.failure and result.failure.rank) == ("failed", 1)
    assert (Path(result.log_dir) / "rank-00000.log").read_text() == "/tmp\n"
    with pytest.raises(distui.SpecError, match="did you mean 'command'"):
        distui.run({"name": "keys", "hosts": "demo1", "comand": "true"})
    for odd in ({1, 2}, b"true", date(2026, 1, 2)):
        with pytest.raises(distui.UsageError, match=r"what no job file could: .* is neither text, number nor path"):
            distui.run({"name": "keys", "hosts": "demo1", "command": odd})


def test_truth_in_a_job_s_keys_is_as_json_writes_it(demo_home: Path) -> None:
    """What YAML has as `true` is so in the job's file; a program that reads and passes it on made it `True`."""
    env = {"FLAG": False, "SEED": Whole()}
    keys = {"name": "keys", "hosts": "demo1", "command": ["sh", "-c", 'echo "$FLAG $0 $SEED"', True], "env": env}
    result = distui.run(keys)
    assert (Path(result.log_dir) / "rank-00000.log").read_text() == "false true 7\n"


class Whole:
    """A whole number as numpy has it: no int."""

    def __index__(self) -> int:
        return 7


async def nobody_awaits(event: distui.Event) -> None:
    """What a notebook's user may give, where all the rest is awaited."""


class NobodyAwaits:
    """The same as an object."""

    async def __call__(self, event: distui.Event) -> None:
        """See above."""


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"job": None}, "'None' is no job"),
        ({"job": b"job.yaml"}, "is no job"),
        ({"name": None}, "'None' is no name of a run"),
        ({"name": 5}, "'5' is no name of a run"),
        ({"hosts": None}, "'None' are no hosts"),
        ({"hosts": [1]}, r"'\[1\]' are no hosts"),
        ({"inventory": None}, "'None' are no hosts"),
        ({"on_event": nobody_awaits}, "on_event is an async function"),
        ({"on_event": None}, "on_event is 'None', which is no function"),
        ({"on_event": partial(nobody_awaits)}, "on_event is an async function"),
        ({"on_event": NobodyAwaits()}, "on_event is an async function"),
    ],
)
def test_what_is_neither_is_told_as_any_mistake(demo_home: Path, given: dict[str, Any], words: str) -> None:
    """Not as a TypeError out of the middle of distui."""
    with pytest.raises(distui.UsageError, match=words):
        distui.run(**{"job": job("true"), **given})


def test_what_is_wrong_is_raised_with_its_type(demo_home: Path) -> None:
    """Files, hosts, and what a check finds before the start; each is a DistuiError."""
    Path("bad.yaml").write_text("version: 1\nname: x\ncomand: x\n")
    with pytest.raises(distui.SpecError, match="did you mean 'command'") as caught:
        distui.run("bad.yaml")
    assert 3 in [problem.line for problem in caught.value.problems]
    with pytest.raises(distui.SpecError, match=r"missing\.yaml"):
        distui.run(job("true"), "missing.yaml")
    with pytest.raises(distui.UsageError, match="unknown host"):
        distui.run(job("true"), hosts=["demo3"])
    with pytest.raises(distui.UsageError) as noted:
        distui.run(job("true\nsecrets: [TOKEN]"))
    assert noted.value.__notes__ == ["try: " + noted.value.hint], "a traceback shows the hint"
    with pytest.raises(distui.UsageError, match="read-only"):
        distui.run(job("true"), settings=distui.ClusterSettings.load(readonly=True))
    with pytest.raises(distui.PlanError, match="GPU") as unfit:
        distui.run(distui.load_job(job("true")), hosts=["demo1:0-3"])
    assert [(problem.code, problem.host) for problem in unfit.value.problems] == [("gpus", "demo1")]
    Path("hosts.yaml").write_text(
        "version: 1\ndefaults: {docker: process}\nhosts:\n  gone: {addr: 127.0.0.1, port: 1}\n"
    )
    with pytest.raises(distui.HostsUnreachable, match="gone"):
        distui.run(job("true"), hosts=["gone"])


ERRORS = (
    distui.SpecError((distui.Problem("job.yaml", 3, 1, "comand", "unknown key"),)),
    distui.PlanError(("no GPU", "no network"), (distui.PlanProblem("gpus", "node01", "no GPU"),)),
    distui.HostUnreachable("node01", "connection refused", hint="ssh -v node01", code="refused"),
    distui.UsageError("a name that is taken", hint="give another"),
)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_come_out_of_a_pool_of_processes(error: distui.DistuiError) -> None:
    """As they were raised in it: a pool waits for ever for one that can't be made again."""
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error) and str(again) == str(error)
        assert vars(again) == vars(error)


def test_a_run_that_was_not_started_raises_why(demo_home: Path) -> None:
    """The reasons that the command line prints; the name is free for the next try."""
    path = job("true")
    with Path(path).open("a") as file:
        file.write("data: {it: {path: /nowhere/to/be/found, to: /nowhere/to/be/found}}\n")
    with pytest.raises(distui.CheckFailed, match="/nowhere/to/be/found"):
        distui.run(path, name="free")
    assert not (paths(os.environ).runs / "free").exists()
