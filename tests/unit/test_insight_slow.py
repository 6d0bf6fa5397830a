"""What slows a run down, and why, from what its hosts saw while they watched it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from distui.runs.insight.hang.explain import explain
from distui.runs.insight.seen.answers import Collective, Frame, Group, HostAnswer, Process, Stack
from distui.runs.insight.seen.clocks import ALWAYS, Reading, clock
from distui.runs.insight.seen.ranks import RankSeen
from distui.runs.insight.seen.watched import Connection, Figures, Sample, Watched
from distui.runs.insight.slow.lateness import Lateness, Pause, lateness
from distui.runs.insight.slow.links import links, losing
from distui.runs.insight.slow.profile import longer
from distui.runs.insight.slow.slow import Slow, explain_slow
from distui.runs.lines.explanation import Explanation

MAIN = Frame("/work/train.py", 30, "<module>")
ENGINE = (Frame("/usr/lib/python3/dist-packages/torch/autograd/graph.py", 800, "_engine_run_backward"),)
OWN_BACKWARD = (Frame("/work/train.py", 13, "backward"), *ENGINE)
LOADER = (Frame("/work/data.py", 9, "__getitem__"), Frame("/x/torch/utils/data/dataloader.py", 5, "__next__"))
WAITING = (Frame("/x/torch/distributed/distributed_c10d.py", 3000, "all_reduce"),)


def sample(frames: tuple[Frame, ...], state: str = "S", waits: str = "futex_wait_queue") -> Sample:
    """A stack of the main thread, innermost call first."""
    return Sample(state, waits, (Stack("0x1", True, (*frames, MAIN)),))


def rank(number: int, late: float = 0.0) -> RankSeen:
    """One of two ranks a host, with thirty steps of 0.3 s behind it."""
    begun = [1_795_000_000.0 + 0.3 * step + late for step in range(30)]
    recent = [Collective(50 + n, "gloo:all_reduce", "1000", "Float", int(at * 1e9), True) for n, at in enumerate(begun)]
    groups = {"0": Group("0", "default_pg", tuple(recent), 79)}
    process = Process(100 + number, 1, "python", "S", 0.1, rank=number, torch="2.13.0", groups=groups)
    return RankSeen(number, f"h{number // 2 + 1}", process, doubt=0.001)


def slow(figures: dict[int, Figures], *, late: float = 0.2, **hosts: Any) -> Slow:
    """Four ranks on two hosts; rank 2 is late. A further host may have connections of the run, too."""
    ranks = tuple(rank(number, late if number == 2 else 0.0) for number in range(4))
    watched = {}
    for host in dict.fromkeys(("h1", "h2", *hosts)):
        those = {100 + number: one for number, one in figures.items() if f"h{number // 2 + 1}" == host}
        watched[host] = Watched(HostAnswer(host), 4.0, those, **hosts.get(host, {}))
    return Slow(ranks, watched, lateness(ranks), links(watched), {number: (number % 2,) for number in range(4)})


def figures(samples: list[Sample] | None = None, **more: Any) -> Figures:
    """What the kernel counted in four seconds."""
    return Figures(4.0, {}, **({"delayed": 0.1, "held": 0.0} | more), samples=tuple(samples or ()))


def reported(found: Slow) -> Explanation:
    """What is said of a run that goes on."""
    return explain_slow(replace(explain(found.ranks), kind="moving"), found)


ALL_WAIT = figures([sample(WAITING)] * 30)


@pytest.mark.parametrize(
    ("own", "words"),
    [
        (
            [sample(OWN_BACKWARD, waits="hrtimer_nanosleep")] * 20 + [sample(WAITING)] * 10,
            "in its backward it sleeps at /work/train.py:13 in backward",
        ),
        (
            [sample(ENGINE, "R", "")] * 20 + [sample(WAITING)] * 10,
            "in its backward it computes at /work/train.py:30 in <module>",
        ),
        (
            [sample(LOADER, "D", "folio_wait_bit")] * 20 + [sample(WAITING)] * 10,
            "in its data loader it waits for a disk at /work/data.py:9 in __getitem__",
        ),
        ([sample((), "R", "")] * 22, "in its own code it computes at /work/train.py:30 in <module>"),
        ([sample(ENGINE)] * 20 + [sample(WAITING)] * 10, "why does not show"),
        ([sample(WAITING)] * 30, "why does not show"),
        ([sample(OWN_BACKWARD)] * 5, "why does not show"),
    ],
    ids=["backward sleeps", "backward computes", "loader reads", "own code", "waits in C++", "waits", "few stacks"],
)
def test_why_a_rank_is_late_from_its_stacks(own: list[Sample], words: str) -> None:
    """What it does longer than the others; waiting in a collective is what all do."""
    found = reported(slow({0: ALL_WAIT, 1: ALL_WAIT, 2: figures(own), 3: ALL_WAIT}))
    assert (found.kind, found.culprits) == ("straggler", (2,))
    assert found.headline.startswith(
        "rank 2 holds the others up: it enters all_reduce of 1000 Float in the default group 200 ms late, "
        "in 28 of the last 28 steps of 300 ms: "
    )
    assert words in found.headline
    assert found.certainty == ("likely" if "does not show" in words else "certain")
    assert found.ranks[0].rank == 2 and found.ranks[0].late == pytest.approx(0.2)


def test_what_all_do_explains_nothing() -> None:
    """The others are in their backward as long: the loader is what differs, though it has fewer stacks."""
    others = figures([sample(ENGINE, "R", "")] * 20 + [sample(WAITING)] * 20)
    own = figures([sample(ENGINE, "R", "")] * 21 + [sample(LOADER, waits="hrtimer_nanosleep")] * 19)
    found = reported(slow({0: others, 1: others, 2: own, 3: others}))
    assert "in its data loader it sleeps at /work/data.py:9" in found.headline
    assert found.advice == "look at /work/data.py:9"


def test_a_rank_that_gets_no_core() -> None:
    """CPU pressure is the cause, and where it is at work is told beside."""
    own = figures([sample(OWN_BACKWARD, "R", "")] * 20 + [sample(WAITING)] * 10, delayed=2.4)
    found = reported(slow({0: ALL_WAIT, 1: ALL_WAIT, 2: own, 3: ALL_WAIT}))
    assert "it waits for a CPU core, which others use, in its backward at /work/train.py:13" in found.headline
    assert any("got no core for 172 ms of each step" in line for line in found.evidence)


def test_a_container_with_a_cpu_limit() -> None:
    """Throttled by its cgroup."""
    own = figures([sample(OWN_BACKWARD, "R", "")] * 20, held=1.6)
    found = reported(slow({0: ALL_WAIT, 1: ALL_WAIT, 2: own, 3: ALL_WAIT}))
    assert "the CPU limit of its container holds it back" in found.headline


def gpu(index: int, clock: float, reasons: str = "0x0") -> dict[str, str]:
    """One row of nvidia-smi."""
    return {"index": str(index), "clocks.sm": str(clock), "clocks_event_reasons.active": reasons}


@pytest.mark.parametrize(
    ("field", "reasons", "words"),
    [
        ("clocks_event_reasons.active", "0x0000000000000020", "too hot (software slowdown)"),
        ("clocks_event_reasons.active", "0x0000000000000004", "its power limit"),
        ("clocks_event_reasons.active", "0x0000000000000048", "too hot (hardware slowdown)"),
        ("clocks_throttle_reasons.active", "0x0000000000000080", "power brake from outside (supply or rack)"),
    ],
)
def test_a_gpu_whose_clock_is_held_down(field: str, reasons: str, words: str) -> None:
    """Its driver says why; that it computes in its backward is what one then sees. Before 535 the field had another
    name.
    """
    own = figures([sample(ENGINE, "R", "")] * 20 + [sample(WAITING)] * 10)
    held = {"index": "0", "clocks.sm": "900", field: reasons}
    gpus = {"h1": {"gpus": (gpu(0, 1980), gpu(1, 1975))}, "h2": {"gpus": (held, gpu(1, 1980))}}
    found = reported(slow({0: ALL_WAIT, 1: ALL_WAIT, 2: own, 3: ALL_WAIT}, **gpus))
    assert f"its GPU's clock is held down ({words})" in found.headline
    assert any("900 MHz, those of the others at 1980 MHz" in line for line in found.evidence)


def connection(own: str, peer: str, segments: int = 1000, again: int = 0) -> Connection:
    """What one end sent in four seconds."""
    return Connection(own, peer, 8_000_000, segments, again, 0.4, 0)


LOSES = {
    "h1": {
        "connections": (connection("10.0.0.1:400", "10.0.0.2:500", again=60), connection("10.0.0.1:1", "9.9.9.9:2")),
    },
    "h2": {"connections": (connection("10.0.0.2:500", "10.0.0.1:400"),)},
}  # fmt: skip


def test_a_link_that_loses() -> None:
    """Which way, how much of it; nobody is blamed."""
    found = reported(slow({}, late=0.0, **LOSES))
    assert (found.kind, found.culprits, found.certainty) == ("link", (), "likely")
    assert found.headline.startswith("what h1 sends to h2 gets lost on the way: 60 of 1000 segments (6.0%)")
    assert found.evidence[0] == "h1 -> h2: 2 MB/s, round trip 0.4 ms, 60 of 1000 segments sent again (6.0%)"


def test_a_late_rank_counts_more_than_a_link() -> None:
    """Where its stacks say why; where they do not, the link may be the reason."""
    own = figures([sample(LOADER, waits="hrtimer_nanosleep")] * 20 + [sample(WAITING)] * 10)
    waits = {0: ALL_WAIT, 1: ALL_WAIT, 3: ALL_WAIT}
    assert reported(slow({**waits, 2: own}, **LOSES)).kind == "straggler"
    assert reported(slow({**waits, 2: ALL_WAIT}, **LOSES)).kind == "link"


@pytest.mark.parametrize(("segments", "again"), [(1000, 0), (100, 3), (10_000, 60)])
def test_what_is_lost_now_and_then_is_no_slow_link(segments: int, again: int) -> None:
    """A few segments, or less than one in a hundred."""
    one = {"connections": (connection("10.0.0.1:4", "10.0.0.2:5", segments, again),)}
    other = {"connections": (connection("10.0.0.2:5", "10.0.0.1:4"),)}
    found = slow({}, late=0.0, h1=one, h2=other)
    assert len(found.links) == 2 and losing(found.links) == () and reported(found).kind == "moving"


def ring(**changes: Any) -> dict[str, Any]:
    """What three hosts sent each other in four seconds, each to the next one; h1 to h2 is slow, but for `changes`."""
    slow_one = Connection("10.0.0.1:4", "10.0.0.2:5", 8_000_000, 900, 0, 50.0, 0, 3200.0, 5e6)
    fast = Connection("10.0.0.2:6", "10.0.0.3:7", 8_000_000, 900, 0, 0.1, 0, 20.0, 5e9)
    rest = replace(fast, own="10.0.0.3:8", peer="10.0.0.1:9", busy_ms=80.0)
    given = {"h1": replace(slow_one, **changes), "h2": fast, "h3": rest}
    return {host: {"connections": (one,)} for host, one in given.items()}


def test_a_link_that_is_slow() -> None:
    """Nothing is lost on it, and it takes much longer for as much as another one; nobody is blamed."""
    found = reported(slow({}, late=0.0, **ring()))
    assert (found.kind, found.culprits, found.certainty) == ("link", (), "likely")
    assert found.headline == (
        "what h1 sends to h2 goes slowly: 2.5 MB/s while there is something to send, 80% of the time, and h2 to h3 "
        "400 MB/s; a round trip takes 50 ms there, 0.1 ms here"
    )
    assert found.evidence[0] == "h1 -> h2: 2 MB/s, round trip 50 ms, sending 80% of the time"
    assert found.evidence[1] == "h2 -> h3: 2 MB/s, round trip 0.1 ms"
    assert found.advice.startswith("look at the network between h1 and h2: speed of its ports")


@pytest.mark.parametrize(
    "changes",
    [
        {"busy_ms": 1100.0},
        {"busy_ms": 0.0},
        {"sent": 400_000},
        {"sent": 40_000_000},
        {"trip_ms": 2.0},
        {"rate": 5e9},
        {"rate": 0.0},
        {"peer": "9.9.9.9:5"},
    ],
    ids=["seldom", "nobody knows", "little", "others carry less", "no longer", "not by the kernel", "nor", "elsewhere"],
)
def test_a_link_of_which_it_is_not_clear_that_it_is_slow(changes: dict[str, Any]) -> None:
    """A peer may confirm late, a link may have more to do than others, and a host may be busy."""
    assert reported(slow({}, late=0.0, **ring(**changes))).kind == "moving"


def test_of_two_hosts_no_link_is_called_slow() -> None:
    """There is nothing to compare it with: what goes back goes over the same cable."""
    two = ring()
    two["h2"] = {"connections": (replace(two["h2"]["connections"][0], peer="10.0.0.1:4", own="10.0.0.2:5"),)}
    del two["h3"]
    assert reported(slow({}, late=0.0, **two)).kind == "moving"


def test_a_link_that_is_slow_explains_a_rank_that_is_late_only_where_its_stacks_do_not() -> None:
    """As one that loses does."""
    own = figures([sample(LOADER, waits="hrtimer_nanosleep")] * 20 + [sample(WAITING)] * 10)
    waits = {0: ALL_WAIT, 1: ALL_WAIT, 3: ALL_WAIT}
    assert reported(slow({**waits, 2: own}, **ring())).kind == "straggler"
    assert reported(slow({**waits, 2: ALL_WAIT}, **ring())).kind == "link"


def test_a_healthy_run_is_only_told_what_is_special() -> None:
    """Pauses and pressure; nothing is claimed."""
    found = slow({}, late=0.0)
    pause = Pause(0, "0", "default_pg", Collective(31, "gloo:all_reduce", "10", "Float", 5, True), 3.14, 1)
    found = replace(found, lateness=replace(found.lateness, pauses=(pause,)))
    explained = reported(found)
    assert (explained.kind, explained.culprits) == ("moving", ())
    assert explained.evidence == (
        "rank 0 entered all_reduce #31 3.1 s late, once: a pause such as a checkpoint or a compile makes it, "
        "no straggler",
    )


def test_what_stands_still_meanwhile_is_told_as_that() -> None:
    """A hang that begins while it is watched."""
    found = slow({})
    stands = replace(explain(found.ranks), kind="hang")
    assert explain_slow(stands, found) is stands


def test_nothing_seen() -> None:
    """No host answered: nothing is claimed, and why is told."""
    watched = {"h1": Watched(HostAnswer("h1", why_not="host h1 can't be asked: gone"))}
    found = Slow((RankSeen(0, "h1", why_not="gone"),), watched, Lateness(), links(watched), {})
    assert reported(found).evidence[-1] == "host h1 can't be asked: gone"


def test_stacks_of_different_ranks_are_compared_by_their_share() -> None:
    """A rank of which fewer stacks came is compared all the same."""
    own = [sample(LOADER, "R", "")] * 10 + [sample(WAITING)] * 10
    found = longer(own, [[sample(WAITING)] * 60], 0.4, 0.2)
    assert found is not None and found.place == "in its data loader" and found.seconds == pytest.approx(0.2)
    assert longer(own, [], 0.4, 0.2) is None and longer([], [own], 0.4, 0.2) is None


def test_a_host_s_clock() -> None:
    """The closest bounds of all answers hold; one that came fast is enough."""
    assert clock([]) is None
    slow_one = Reading(asked=10.0, said=510.9, heard=11.0)
    fast = Reading(asked=20.0, said=520.501, heard=20.002)
    ahead, doubt = clock([slow_one, fast]) or (0.0, 0.0)
    assert ahead == pytest.approx(500.5) and doubt == pytest.approx(0.001 + ALWAYS)
    wide = clock([Reading(0.0, 5.0, 0.1), Reading(1.0, 8.0, 1.1)])  # a clock was set meanwhile: nothing is proven
    assert wide is not None and wide[1] > 1.0
