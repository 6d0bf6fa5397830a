"""GPUs as a lease, with this machine's own shell as the host, and launches that want the same ones."""

from __future__ import annotations

import asyncio
import io
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from distui.cli import planview
from distui.cli.console import Console
from distui.errors import SessionLost
from distui.facts.host import Gpu, Gpus
from distui.run.discover import find_runs
from distui.run.folder import Claim
from distui.run.gpu_users import gpu_users, launches, told
from distui.run.lease import Lease, free, lease
from distui.run.preflight import shared_row
from distui.session import Completed
from distui.spec.inventory import Host
from fakehosts.runs import Cluster, facts_of, use_fake_follower

ANN, BOB = Claim("ann@desk", 0.0), Claim("bob@desk", 60.0)


async def here(argv: Sequence[str]) -> Completed:
    """Run a command on this machine."""
    process = await asyncio.create_subprocess_exec(*argv, stdout=-1, stderr=-1)
    out, err = await process.communicate()
    return Completed(tuple(argv), process.returncode or 0, out, err)


def held(place: Path) -> list[str]:
    """The leases there are."""
    return sorted(path.name for path in place.iterdir())


async def test_all_or_none(tmp_path: Path) -> None:
    """One GPU that somebody has: none is taken, and it is said who has which; given back, all are free."""
    assert await lease(here, ANN, (2, 1), place=str(tmp_path)) == Lease("leased")
    assert await lease(here, ANN, (1, 2), place=str(tmp_path)) == Lease("leased"), "it may be asked twice"
    told = await lease(here, BOB, (0, 2), place=str(tmp_path))
    assert told == Lease("held", "GPU 2 is being taken by a launch of ann@desk since 1970-01-01 00:00:00 UTC")
    assert held(tmp_path) == ["distui-gpu-1", "distui-gpu-2"]

    await free(here, BOB.token, place=str(tmp_path))
    assert held(tmp_path) == ["distui-gpu-1", "distui-gpu-2"], "only one's own"
    await free(here, ANN.token, place=str(tmp_path))
    assert held(tmp_path) == []


async def test_one_of_many_gets_it(tmp_path: Path) -> None:
    """Ten launches at one moment for overlapping GPUs: never two with the same one."""
    claims = [Claim(f"u{n}@desk", 0.0) for n in range(10)]
    wanted = [(n % 3, n % 3 + 1) for n in range(10)]
    told = await asyncio.gather(
        *(lease(here, claim, gpus, place=str(tmp_path)) for claim, gpus in zip(claims, wanted, strict=True))
    )
    got = [gpu for took, gpus in zip(told, wanted, strict=True) for gpu in gpus if took.state == "leased"]
    assert got
    assert len(got) == len(set(got))


@pytest.mark.parametrize(("minutes", "state"), [(9, "held"), (12, "leased")])
async def test_a_stale_lease_does_not_hold(tmp_path: Path, minutes: int, state: str) -> None:
    """A launch that was killed holds its GPUs for ten minutes; nothing of it stays then."""
    await lease(here, ANN, (0,), place=str(tmp_path))
    then = time.time() - 60 * minutes
    os.utime(tmp_path / "distui-gpu-0", (then, then))

    assert (await lease(here, BOB, (0,), place=str(tmp_path))).state == state
    assert held(tmp_path) == ["distui-gpu-0"]


async def test_where_nothing_can_be_made(tmp_path: Path) -> None:
    """A full or read-only /tmp: said in the host's words."""
    (tmp_path / "file").write_text("")
    told = await lease(here, ANN, (0,), place=str(tmp_path / "file"))
    assert told.state == "failed"
    assert "Not a directory" in told.why


# launches


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Two hosts with a GPU each."""
    made = Cluster(tmp_path, 2)
    use_fake_follower(monkeypatch, made.connector)
    return made


def plan_of(cluster: Cluster, run_id: str) -> Any:
    """A run that uses the GPU of each host."""
    gpu = Gpus((Gpu(0, "GPU-0", "H100"),))
    facts = {name: facts_of(name, 11 + i, gpu=gpu) for i, name in enumerate(cluster.names)}
    return cluster.plan(run_id=run_id, facts=facts, gpus_per_host=1)


def end_all(cluster: Cluster) -> None:
    """The programs end with 0 at once."""
    for number, host in enumerate(cluster.hosts):
        host.engine.exits[number] = 0


async def test_a_gpu_that_a_run_uses_is_refused(cluster: Cluster) -> None:
    """Exit 3: which GPU, which run, whose; that run is left alone, and with `force` both have it, and it is said."""
    other, host = plan_of(cluster, "other"), cluster.hosts[1]
    host.files[other.tasks[1].env_file] = b""
    assert host.engine.run(other.tasks[1].start).ok
    host.files.clear()
    ended = await cluster.run(plan_of(cluster, "mine"))

    assert (ended.outcome, ended.exit, ended.leftovers) == ("launch_failed", 3, ())
    assert "h2: GPU 0 is used by run other of ann@desk (job j" in cluster.said()
    assert "--force" in cluster.said()
    assert [c.status for c in host.containers] == ["running"]
    assert not cluster.hosts[0].leases

    cluster.events.clear()
    end_all(cluster)
    ended = await cluster.run(plan_of(cluster, "mine"), force=True)
    assert ended.exit == 0
    assert "GPU 0 is used by run other of ann@desk" in cluster.said()


async def test_a_gpu_that_a_launch_takes_just_now_is_refused(cluster: Cluster) -> None:
    """Two launches at one moment: the second is told whose the first is; both leave no lease."""
    rival = Cluster(cluster.store.root / "rival", 2)
    rival.hosts, rival.connector = cluster.hosts, cluster.connector
    end_all(cluster)
    reached = cluster.hosts[0].hold("put")

    async def second() -> None:
        await reached.wait()
        try:
            late = await rival.run(plan_of(cluster, "late"))
        finally:
            cluster.hosts[0].gates["put"].set()
        assert late.exit == 3
        assert "h1: GPU 0 is being taken by a launch of ann@desk since" in rival.said()

    assert (await cluster.run(plan_of(cluster, "first"), second())).exit == 0
    assert cluster.left() == []
    assert [h.leases for h in cluster.hosts] == [{}, {}]


async def test_the_preflight_says_it_before(cluster: Cluster) -> None:
    """The row that the app shows: which host, whose run."""
    other, host = plan_of(cluster, "other"), cluster.hosts[1]
    host.files[other.tasks[1].env_file] = b""
    assert host.engine.run(other.tasks[1].start).ok
    found = await find_runs(cluster.connector, [Host("h1"), Host("h2")])
    row = shared_row(plan_of(cluster, "mine"), ("h1", "h2"), found)

    assert [f.verdict for f in row.findings] == ["ok", "fail"]
    assert "GPU 0 is used by run other of ann@desk" in row.findings[1].saw


async def test_who_has_the_gpus_before_the_start(cluster: Cluster) -> None:
    """Runs that live and launches under way, equal ones of several hosts once; a host that is gone tells nobody."""
    other, mine, hosts = plan_of(cluster, "other"), plan_of(cluster, "mine"), [Host("h1"), Host("h2")]
    assert await gpu_users(cluster.connector, mine, hosts) == ()
    for task, host in zip(other.tasks, cluster.hosts, strict=True):
        host.files[task.env_file] = b""
        assert host.engine.run(task.start).ok
    cluster.hosts[1].leases["0"] = BOB.text

    words = told(await gpu_users(cluster.connector, mine, hosts))
    assert [text.partition(" (")[0] for text in words] == [
        "h[1-2]: GPU 0 is used by run other of ann@desk",
        "h2: GPU 0 is being taken by a launch of bob@desk since 1970-01-01 00:01:00 UTC",
    ]
    cluster.connector.down["h1"] = SessionLost("h1", "h1: no answer")
    assert {user.host for user in await gpu_users(cluster.connector, mine, hosts)} == {"h2"}
    assert await gpu_users(cluster.connector, other, hosts[:1]) == (), "its own tasks are nobody else's"


@pytest.mark.parametrize(
    ("force", "yes", "asked", "answer"),
    [
        (False, True, "Start mine: 2 ranks on 2 hosts, and share these GPUs?", "share"),
        (False, False, "Start mine: 2 ranks on 2 hosts, and share these GPUs?", "no"),
        (True, True, "Start mine: 2 ranks on 2 hosts?", "share"),
    ],
)
async def test_a_terminal_is_asked_about_them(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, force: bool, yes: bool, asked: str, answer: str
) -> None:
    """What the plan warns of and who has the GPUs stand right above the question; --force asks only for the start."""
    asks: list[str] = []

    async def confirm(console: Any, told: Any, question: str, **_: Any) -> bool:
        asks.append(question)
        return yes

    monkeypatch.setattr(planview, "confirm_async", confirm)
    monkeypatch.setattr("sys.stdin", Tty())
    monkeypatch.setattr(planview, "tell_images", no_images)
    plan = replace(plan_of(cluster, "mine"), warnings=("h1: GPU 0 is busy: python (pid 17, bob) holds 9 MiB",))
    cluster.hosts[1].leases["0"] = ANN.text
    err = Tty()
    settings: Any = {"yes": False, "no_input": False}
    out = Console(io.StringIO(), err, False, False, 100)
    found = await planview.confirm_plan(cluster.connector, out, settings, plan, [Host("h1"), Host("h2")], force=force)

    assert (asks, found) == ([asked], answer)
    last = err.getvalue().splitlines()[-2:]
    assert ("h2: GPU 0 is being taken by a launch of ann@desk" in last[-1]) == (not force)
    assert "distui: warning: h1: GPU 0 is busy: python (pid 17, bob)" in "".join(last)


class Tty(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


async def no_images(*_: Any) -> None:
    """Nothing is said of images."""


async def test_launches_under_way_are_seen_without_touching_them(tmp_path: Path) -> None:
    """By the directories of their leases: whose and since when, also when the file in it is not whole."""
    await lease(here, ANN, (1, 2), place=str(tmp_path))
    (tmp_path / "distui-gpu-3").mkdir()
    (tmp_path / "distui-gpu-4").mkdir()
    then = time.time() - 60 * 12
    os.utime(tmp_path / "distui-gpu-4", (then, then))

    assert await launches(here, (0, 2, 3, 4), place=str(tmp_path)) == (
        "GPU 2 is being taken by a launch of ann@desk since 1970-01-01 00:00:00 UTC",
        "GPU 3 is being taken by a launch of somebody unknown",
    ), "a stale one that this user could remove holds nothing"
    assert len(held(tmp_path)) == 4
