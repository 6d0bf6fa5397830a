"""Asking hosts for their ranks: what is sent, and what every kind of answer comes to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from distui.errors import HostCommandError, HostUnreachable, SessionLost
from distui.runs.insight.asking import ask
from distui.runs.insight.asking.ask import ask_hosts
from distui.runs.insight.seen.answers import HostAnswer
from distui.runs.task.host_access import HostAccess
from distui.session import Completed
from fakehosts.runs import Cluster, facts_of


@dataclass
class Link:
    """A connection whose host answers this; `sent` is what it was asked."""

    answer: bytes | Exception
    sent: list[Any] = field(default_factory=list)

    async def run(self, argv: Sequence[str], *, input: bytes, **_: object) -> Completed:
        self.sent.append(json.loads(input.splitlines()[-1]))
        if isinstance(self.answer, Exception):
            raise self.answer
        return Completed(tuple(argv), 0, self.answer, b"Traceback ...")


def answer(at: float) -> bytes:
    """What a host says whose clock is that, behind its greeting."""
    return b"Welcome\n" + ask.MARK + json.dumps({"at": at, "tasks": {}}).encode() + b"\nBye\n"


def access(folder: Path, said: bytes | Exception, **job: Any) -> tuple[HostAccess, Link]:
    """The only host of a run, and its connection."""
    cluster = Cluster(folder, 1)
    plan = cluster.plan(facts={name: facts_of(name) for name in cluster.names}, **job)
    made, link = HostAccess(cluster.names[0], plan, cluster.connector), Link(said)
    made.link = link  # type: ignore[assignment]
    return made, link


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our clock: 1000 when a host is asked, 1003 when it has answered."""
    moments = iter([1000.0, 1003.0])
    monkeypatch.setattr(ask, "time", SimpleNamespace(time=lambda: next(moments)))


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(("at", "ahead"), [(1000.0, 0.0), (1002.0, 0.0), (1003.0, 0.0), (990.0, -10.0), (1010.0, 7.0)])
async def test_a_clock_is_off_only_by_what_is_beyond_doubt(tmp_path: Path, at: float, ahead: float) -> None:
    """It was read between asking and answering; how long that took is the doubt."""
    host, _ = access(tmp_path, answer(at))
    (found,) = (await ask_hosts([host], {0: "c1"}, stacks=False)).values()
    assert (found.at, found.ahead, found.doubt, found.why_not) == (at, ahead, 3.0, "")


@pytest.mark.parametrize("stacks", [True, False])
async def test_only_tasks_that_were_started_are_asked_for(tmp_path: Path, stacks: bool) -> None:
    """By the id that the engine gave them, with their folders; and stacks only for those who want them."""
    host, link = access(tmp_path, answer(1.0))
    await ask_hosts([host], {}, stacks=stacks)
    await ask_hosts([host], {0: "c1"}, stacks=stacks)
    nothing, one = link.sent
    assert nothing["tasks"] == [] and one["stacks"] is stacks
    (task,) = one["tasks"]
    assert (task["task"], task["id"]) == (0, "c1")
    assert all(host.plan.run_id in task[what] for what in ("folder", "hook"))


async def test_nccl_and_drivers_are_asked_where_there_are_any(tmp_path: Path) -> None:
    """For so many seconds, with what asks in containers; drivers only where the run has GPUs."""
    env = {"NCCL_RAS_ADDR": "localhost:1", "OTHER": "x"}
    host, link = access(tmp_path, answer(1.0), env=env)
    await ask_hosts([host], {0: "c1"})
    await ask_hosts([host], {0: "c1"}, ras=2.0, gpus=2.0)
    without, one = link.sent
    assert not {"ras", "ras_talk", "gpus"} & set(without)
    assert one["ras"] == 2.0 and "gpus" not in one and "STATUS" in one["ras_talk"]
    assert one["tasks"][0]["env"] == {"NCCL_RAS_ADDR": "localhost:1"}, "of the job's environment nothing else"


async def test_drivers_are_asked_where_the_run_has_gpus(tmp_path: Path) -> None:
    """For no longer than that."""
    cluster = Cluster(tmp_path, 1)
    (task,) = cluster.plan().tasks
    plan = replace(cluster.plan(), tasks=(replace(task, gpus=(0, 1), rank_gpus=((0,),)),))
    host, link = HostAccess("h1", plan, cluster.connector), Link(answer(1.0))
    host.link = link  # type: ignore[assignment]
    await ask_hosts([host], {0: "c1"}, gpus=2.0)
    assert link.sent[0]["gpus"] == 2.0


async def test_nccl_is_asked_on_a_few_hosts_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each answers for all ranks; which ones are asked is spread over the run."""
    asked: dict[str, float] = {}

    async def one(access: Any, ids: Any, *, ras: float, **_: Any) -> HostAnswer:
        asked[access.host] = ras
        return HostAnswer(access.host)

    monkeypatch.setattr(ask, "ask_host", one)
    hosts: list[Any] = [SimpleNamespace(host=f"h{number}") for number in range(10)]
    await ask_hosts(hosts, {}, ras=5.0)
    assert [host for host, ras in asked.items() if ras] == ["h0", "h2", "h5", "h7"] and len(asked) == 10
    await ask_hosts(hosts[:3], {}, ras=5.0)
    assert [asked[host.host] for host in hosts[:3]] == [5.0] * 3
    await ask_hosts([], {}, ras=5.0)


@pytest.mark.parametrize(
    ("said", "late"),
    [
        (HostCommandError("h1", "h1: it took more than 30 s", code="command_timeout"), True),
        (SessionLost("h1", "h1: the connection was closed"), True),
        (HostCommandError("h1", "h1: it can't be entered"), False),
        (HostUnreachable("h1", "h1 refuses connections", code="refused"), False),
        (b"sh: python3: not found\n", False),
        (answer(1.0), False),
        (ask.MARK + b'{"at": 1.0, "tasks": [], "late": true}\n', True),
    ],
)
async def test_whether_a_host_may_answer_when_it_is_asked_again(
    tmp_path: Path, said: bytes | Exception, late: bool
) -> None:
    """Only one that was too slow, or whose connection broke just then."""
    host, _ = access(tmp_path, said)
    assert (await ask_hosts([host], {0: "c1"}))[host.host].late is late


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (HostUnreachable("h1", "h1 refuses connections", code="refused"), "refuses connections"),
        (b"", "can't be read"),
        (b"Welcome\n", "can't be read"),
        (ask.MARK + b"{not json\n", "can't be read"),
    ],
)
async def test_a_host_that_does_not_answer_says_why(tmp_path: Path, said: bytes | Exception, words: str) -> None:
    """Nothing is raised, and its name is in the reason."""
    host, _ = access(tmp_path, said)
    found = await ask_hosts([host], {0: "c1"}, stacks=False)
    assert words in found[host.host].why_not and host.host in found[host.host].why_not
    assert found[host.host].tasks == {}
