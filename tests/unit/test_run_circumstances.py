"""What belongs to a verdict beside the ends: silence before a stop, and which hosts no longer answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from distui.doctor.reach import Endpoint, Reached, ReachProblem, ReachReport
from distui.plan.model import HostNetwork
from distui.runs.attempt.attempt import Attempt
from distui.runs.control import supervise
from distui.runs.ending import ask_network, circumstances
from distui.runs.ending.circumstances import Turns
from distui.runs.lines.events import LogLine, LogLines, RankChanged
from distui.runs.state.reducer import RunState, apply
from distui.runs.verdict.evidence import Silence
from distui.runs.verdict.network import FINE, NetworkFound, network_found
from distui.runs.verdict.silences import silence_words
from distui.runs.watch.progress.silence import Silences
from fakehosts.runs import Cluster, plan_for, until, use_fake_follower


def said(state: RunState, rank: int, at: float, text: str) -> RunState:
    return apply(state, LogLines(at, rank, rank, f"h{rank + 1}", (LogLine("stdout", text),)))


def two_ranks() -> RunState:
    """Running since 0."""
    state = RunState()
    for rank in (0, 1):
        state = apply(state, RankChanged(0.0, rank, f"h{rank + 1}", "running"))
    return state


def test_who_was_silent_at_a_stop_and_what_it_said_last() -> None:
    """From 30 s on, whatever longer `stall_after` is; who speaks is not silent."""
    silences, state = Silences(plan_for("h1", "h2", stall_after=120.0)), said(two_ranks(), 1, 9.0, "step 118")
    state = said(state, 0, 49.0, "step 200")
    silences.look(state, 50.0)
    assert silence_words(silences.at(50.0), 50.0) == ("rank 1 on h2 had said nothing for 41 s; last: step 118",)
    silences.look(said(state, 1, 51.0, "step 119"), 51.0)
    assert silences.at(60.0) == ()


def test_what_a_rank_says_when_it_is_stopped_does_not_hide_its_silence() -> None:
    """Where hosts stop tasks by themselves (`max_duration`), it is known a little later."""
    silences, state = Silences(plan_for("h1", "h2", stall_after=5.0)), said(two_ranks(), 0, 1.0, "step 1")
    silences.look(state, 10.0)
    state = said(said(state, 0, 10.5, "stopped by SIGTERM"), 1, 10.5, "stopped by SIGTERM")
    silences.look(state, 11.0)
    words = silence_words(silences.at(12.0, 3.0), 12.0)
    assert words == (
        "rank 1 on h2 had said nothing for 12 s, since it began to run",
        "rank 0 on h1 had said nothing for 11 s; last: step 1",
    )
    assert silences.at(12.0) == ()


def test_silence_can_be_turned_off() -> None:
    """`stall_after: 0`."""
    silences = Silences(plan_for("h1", "h2", stall_after=0.0))
    silences.look(two_ranks(), 1000.0)
    assert silences.at(1000.0) == ()


def test_many_silent_ranks_are_counted() -> None:
    """And what steers a terminal is taken from their lines."""
    words = silence_words([Silence(r, 0.0, "h1", "\x1b[31mred " + "x" * 500) for r in range(9)], 40.0)
    assert len(words) == 5 and words[-1] == "5 more ranks had been silent, too"
    assert all(len(one) < 200 and "\x1b" not in one for one in words)


NETS = tuple(HostNetwork(f"h{i}", f"10.78.0.1{i}", "ib0", "ib") for i in (1, 2, 3))


def table(*hosts: str, cut: str = "") -> ReachReport:
    """Every pair of these hosts tried; `cut` are pairs such as 12 (from h1 to h2) that failed."""
    failed = {(f"h{pair[0]}", f"h{pair[1]}") for pair in cut.split()}
    rows = {
        a: {b: Reached("timed out") if (a, b) in failed else Reached(ms=0.2) for b in hosts if b != a} for a in hosts
    }
    return ReachReport((), len(hosts) * (len(hosts) - 1), (), rows)


ALL = ("h1", "h2", "h3")


@pytest.mark.parametrize(
    ("report", "more", "found"),
    [
        (table(*ALL), {}, NetworkFound((), (FINE,))),
        (table(*ALL, cut="13 23 31 32"), {}, NetworkFound(("h3 no longer answers on ib0 (10.78.0.13)",))),
        (
            table("h1", "h2", cut="12 21"),
            {},
            NetworkFound(
                ("h1 on ib0 (10.78.0.11) and h2 on ib0 (10.78.0.12) no longer reach each other: timed out",),
            ),
        ),
        (
            table("h1", "h2", cut="12 21"),
            {"no_carrier": {"h2"}},
            NetworkFound(("h2 no longer answers on ib0 (10.78.0.12): the interface is down or has no link",)),
        ),
        (table(*ALL, cut="12"), {}, NetworkFound(("h1 no longer reaches h2 on ib0 (10.78.0.12): timed out",))),
        (
            table("h1", "h2"),
            {"lost": {"h3"}},
            NetworkFound((), ("h3 is out of reach: its network could not be asked about",)),
        ),
        (None, {"lost": {"h3"}}, NetworkFound((), ("h3 is out of reach: its network could not be asked about",))),
        (
            ReachReport(
                (ReachProblem("h3", "", "can't listen on 10.78.0.13: no such address"),), 2, (), table("h1", "h2").table
            ),
            {},
            NetworkFound(
                ("h3 no longer answers on ib0 (10.78.0.13): can't listen on 10.78.0.13: no such address",),
            ),
        ),
        (ReachReport((), 0, ALL), {}, NetworkFound()),
    ],
)
def test_which_host_no_longer_answers(
    report: ReachReport | None, more: dict[str, set[str]], found: NetworkFound
) -> None:
    """The one that nobody reaches while others do reach each other; of two both, unless one has no link."""
    assert network_found(NETS, report, **more) == found


def test_a_network_in_pieces_is_reported_shortly() -> None:
    """Every pair of eight hosts fails: no one host is the reason, and four pairs are enough to read."""
    nets = tuple(HostNetwork(f"h{i}", f"10.0.0.{i}", "eth0", "tcp") for i in range(8))
    pairs = " ".join(f"{a}{b}" for a in range(8) for b in range(8) if a != b)
    found = network_found(nets, table(*(f"h{i}" for i in range(8)), cut=pairs))
    assert len(found.broken) == 5 and found.broken[-1] == "24 more pairs of hosts do not reach each other"


async def test_a_host_out_of_reach_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others try each other on ports that their kernels pick: the rendezvous port is the run's."""
    cluster = Cluster(tmp_path, 3)
    run = cluster.controller(cluster.plan())
    asked: list[Endpoint] = []

    async def proved(sessions: object, ends: Sequence[Endpoint], **_: float) -> ReachReport:
        asked.extend(ends)
        return table("h1", "h2")

    monkeypatch.setattr(ask_network, "prove", proved)
    run.tracker.lost_since["h3"] = 0.0
    found = await ask_network.ask_network(run.attempt)
    assert [(end.host, end.port, end.also) for end in asked] == [("h1", 0, ()), ("h2", 0, ())]
    assert found == NetworkFound((), ("h3 is out of reach: its network could not be asked about",))
    for host in run.hosts.values():
        await host.link.close()


async def test_asking_takes_a_bounded_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proof that never ends holds up no verdict."""
    cluster = Cluster(tmp_path, 2)
    run = cluster.controller(cluster.plan())

    async def never(*_: object, **__: object) -> ReachReport:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(ask_network, "prove", never)
    monkeypatch.setattr(ask_network, "SECONDS", 0.05)
    assert await ask_network.ask_network(run.attempt) == NetworkFound()
    for host in run.hosts.values():
        await host.link.close()


async def test_the_network_is_asked_once_for_a_failure_and_for_the_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `on_fail: wait` a rank lost its connection, the others wait for it, and the run is stopped: the network that
    explains both is asked once, and no word is lost.
    """
    cluster = Cluster(tmp_path, 2)
    use_fake_follower(monkeypatch, cluster.connector)
    asked: list[str] = []

    async def ask(attempt: Attempt) -> NetworkFound:
        asked.append(attempt.plan.run_id)
        return NetworkFound(("h1 does not answer",), ("it was asked late",))

    monkeypatch.setattr(circumstances, "ask_network", ask)

    async def tell(attempt: Attempt) -> None:
        """Of a run that lives nothing is asked here."""

    monkeypatch.setattr(supervise, "tell_network", tell)
    run = cluster.controller(cluster.plan(on_fail="wait", stall_after=0.01))
    cluster.hosts[1].files["log-1"] = b"RuntimeError: Timed out waiting 1800000ms for recv operation to complete\n"

    async def end() -> None:
        await until(lambda: run.state.phase == "follow")
        cluster.hosts[1].containers[0].end(1)
        await until(lambda: run.tracker.failed and run.state.ranks[0].quiet)
        run.request_stop("user")

    ended = await cluster.drive(run, end())
    assert (ended.outcome, asked) == ("stopped", ["r1"])
    assert ended.failure is not None and "h1 does not answer" in ended.failure.cause
    assert any("rank 0" in words for words in ended.warnings), ended.warnings
    assert {"h1 does not answer", "it was asked late"} <= set(ended.warnings)


def test_the_network_is_asked_again_while_a_rank_is_quiet() -> None:
    """At once, then after longer and longer pauses; again once all had spoken."""
    turns = Turns()
    assert [now for now in range(0, 100) if turns.due(float(now), quiet=now >= 4)] == [4, 14, 34, 74]
    assert not turns.due(200.0, quiet=False)
    assert [now for now in range(201, 230) if turns.due(float(now), quiet=True)] == [201, 211]
