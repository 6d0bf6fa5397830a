"""Which host gets which ranks and GPUs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from distui.facts.host import Gpu, GpuProcess, Gpus, HostFacts, Trouble
from distui.plan.checks import check_preflight
from distui.plan.model import HostNetwork, Notes
from distui.plan.ranks import placement
from distui.plan.ranks.machines import check_machines
from distui.plan.ranks.placement import Candidate, is_busy
from distui.spec.hosts.inventory import Host
from distui.spec.job.job import Job, RankLayout

LOST = Trouble("gpu_lost", "GPU is lost", "reboot")


def gpu(index: int, **more: Any) -> Gpu:
    """A healthy, idle GPU."""
    return Gpu(index, f"uuid-{index}", "H100", memory_total_mib=81559, memory_used_mib=0, **more)


def candidate(name: str = "a", *, gpus: Any = 0, picked: Any = None, problem: Any = None, **host: Any) -> Candidate:
    """A host with N GPUs, or these."""
    cards = tuple(gpu(i) for i in range(gpus)) if isinstance(gpus, int) else tuple(gpus)
    facts = HostFacts(host=name, hostname=name, gpu=Gpus(cards, problem), machine_id=name)
    return Candidate(Host(name, **host), facts, picked)


def place(job: Job, hosts: Sequence[Candidate]) -> Any:
    """The places that hosts get, and what is noted."""
    notes = Notes()
    made = placement.place(job, hosts, notes)
    return SimpleNamespace(places=made.places, problems=notes.problems, warnings=notes.warnings, reasons=notes.reasons)


def ranks(made: Any) -> list[tuple[str, tuple[int, ...]]]:
    """Ranks of each host, in node order."""
    assert not made.problems, made.problems
    return [(p.name, p.ranks) for p in made.places]


def cards(made: Any) -> list[tuple[int, ...]]:
    """GPUs of each host."""
    assert not made.problems, made.problems
    return [p.gpu_indices for p in made.places]


def problems(made: Any) -> str:
    """All problems as one text."""
    return "\n".join(map(str, made.problems))


def test_ranks_are_dense_and_host_by_host() -> None:
    """One rank per host without GPUs, one per GPU with them, in the order the hosts were picked."""
    two = (candidate("b", gpus=2), candidate("a", gpus=2))
    assert ranks(place(Job("j"), two)) == [("b", (0,)), ("a", (1,))]
    assert ranks(place(Job("j", gpus_per_host="all"), two)) == [("b", (0, 1)), ("a", (2, 3))]
    assert ranks(place(Job("j", ranks=RankLayout(per_host=3)), two)) == [("b", (0, 1, 2)), ("a", (3, 4, 5))]


@pytest.mark.parametrize(
    ("job", "shares"),
    [
        (Job("j", ranks=RankLayout(per_gpu=1)), ((0,), (1,), (2,), (3,))),
        (Job("j", gpus_per_host=4, gpus_per_rank=2), ((0, 1), (2, 3))),
        (Job("j", gpus_per_rank=2, ranks=RankLayout(per_host=1)), ((0, 1),)),
        (Job("j", gpus_per_host=4, ranks=RankLayout(per_host=1)), ((0, 1, 2, 3),)),
        (Job("j", gpus_per_host=4, ranks=RankLayout(per_host=3)), ((0, 1), (2,), (3,))),
        (Job("j", gpus_per_host=1, ranks=RankLayout(per_gpu=2)), ((0,), (0,))),
        (Job("j", gpus_per_host=0, ranks=RankLayout(per_host=2)), ((), ())),
    ],
)
def test_gpus_are_divided_among_the_ranks_of_a_host(job: Job, shares: object) -> None:
    """Neighbours in a row; shared only when there are more ranks than GPUs."""
    made = place(job, (candidate(gpus=4),))
    assert not made.problems and made.places[0].rank_gpus == shares


def test_slots_of_a_hostfile_are_ranks() -> None:
    """`host slots=N`, unless the job says otherwise; hosts without slots take no part."""
    hosts = (candidate("a", slots=2), candidate("b", slots=0), candidate("c", slots=1))
    assert ranks(place(Job("j"), hosts)) == [("a", (0, 1)), ("c", (2,))]
    more = place(Job("j", ranks=RankLayout(per_host=3)), hosts[:1])
    assert ranks(more) == [("a", (0, 1, 2))] and "3 ranks on 2 slots" in more.warnings[0]


def test_ranks_may_be_listed_by_host() -> None:
    """The host of rank 0 becomes node 0, whatever the order of picking."""
    job = Job("j", ranks=RankLayout(by_host={"a": (2, 1), "b": (0, 3)}))
    assert ranks(place(job, (candidate("a"), candidate("b")))) == [("b", (0, 3)), ("a", (2, 1))]


@pytest.mark.parametrize(
    ("by_host", "said"),
    [
        ({"a": (0, 1), "b": (1,)}, "rank 1 is given 2 times (a, b)"),
        ({"a": (0, 0), "b": (1,)}, "rank 0 is given 2 times (a)"),
        ({"a": (0,), "b": (2,)}, "ranks must be 0 to 1 without a gap; missing 1, found 2"),
        ({"a": (0,), "b": (-1,)}, "found -1"),
        ({"a": (0,)}, "b: the job lists ranks for other hosts but none for it"),
        ({"a": (0,), "b": (1,), "c": (2,)}, "c: the job gives it ranks, but it is not a host of this run"),
    ],
)
def test_listed_ranks_must_be_each_once(by_host: dict[str, tuple[int, ...]], said: str) -> None:
    """Duplicates, gaps and foreign hosts are named."""
    made = place(Job("j", ranks=RankLayout(by_host=by_host)), (candidate("a"), candidate("b")))
    assert said in problems(made)


def test_torchrun_can_not_number_ranks_otherwise() -> None:
    """It counts node after node; unequal nodes work but are worth a warning."""
    listed = Job("j", launcher="torchrun", ranks=RankLayout(by_host={"a": (0, 2), "b": (1, 3)}))
    assert "torchrun numbers ranks host by host" in problems(place(listed, (candidate("a"), candidate("b"))))
    uneven = place(Job("j", launcher="torchrun", gpus_per_host="all"), (candidate("a", gpus=2), candidate("b", gpus=1)))
    assert ranks(uneven) == [("a", (0, 1)), ("b", (2,))] and "(a 2, b 1)" in uneven.warnings[0]


# GPUs


def test_who_says_how_many_gpus() -> None:
    """`-H host:0,1` wins over the job's map, and that over its default."""
    job = Job("j", gpus_per_host=1, gpus_by_host={"b": 2, "c": "all"})
    hosts = (
        candidate("a", gpus=4, picked=(3, 2)),
        candidate("b", gpus=4),
        candidate("c", gpus=3),
        candidate("d", gpus=1),
    )
    assert cards(place(job, hosts)) == [(3, 2), (0, 1), (0, 1, 2), (0,)]


def test_a_count_takes_the_lowest_idle_gpus() -> None:
    """Busy ones are passed over while there are idle ones, and used with a warning when there are not."""
    busy = gpu(0, processes=(GpuProcess(17, "python", 40960, user="alice"),))
    host = candidate(gpus=(busy, gpu(1), gpu(2)))
    two = place(Job("j", gpus_per_host=2), (host,))
    assert cards(two) == [(1, 2)]
    assert two.reasons == ["a: GPU 0 passed over, busy: python (pid 17, alice) holds 40 GiB"]
    three = place(Job("j", gpus_per_host=3), (host,))
    assert cards(three) == [(0, 1, 2)]
    assert three.warnings == ["a: GPU 0 is busy: python (pid 17, alice) holds 40 GiB"]


def test_utilisation_alone_makes_no_gpu_busy() -> None:
    """An idle card without persistence mode reads 100 %."""
    assert not is_busy(gpu(0, utilization_pct=100.0))
    assert is_busy(dataclasses.replace(gpu(0), memory_used_mib=40_000))
    assert not is_busy(dataclasses.replace(gpu(0), memory_used_mib=500, memory_total_mib=None))


@pytest.mark.parametrize(
    ("request_", "host", "said"),
    [
        (3, {"gpus": 2}, "a: 3 GPUs asked, found 2"),
        (2, {"gpus": (gpu(0), gpu(1, problem=LOST))}, "a: 2 GPUs asked, found 1 (GPU 1: GPU is lost)"),
        ((0, 5), {"gpus": 2}, "a: GPU 5 asked, found 2: 0, 1"),
        ((1, 1), {"gpus": 2}, "a: GPU 1 asked twice"),
        (
            "all",
            {"gpus": 0},
            "all GPUs asked, found 0 (gpus_per_host: 0 for none anywhere, or gpus_by_host in its place, with 0 for a)",
        ),
        (
            1,
            {"problem": Trouble("x", "the driver does not answer", "reboot")},
            "a: GPUs asked, but the driver does not answer (reboot)",
        ),
    ],
)
def test_gpus_that_are_not_there_are_named(request_: Any, host: dict[str, Any], said: str) -> None:
    """Host, asked, found, and the reason nvidia-smi gives."""
    made = place(Job("j", gpus_per_host=request_), (candidate(**host),))
    assert said in problems(made)


@pytest.mark.parametrize(
    ("policy", "request_", "expected"),
    [
        ((2, 3), "all", (2, 3)),
        (
            (2, 3),
            (1,),
            "GPU 1 asked, found 2 (GPU 0: not allowed by hosts.yaml; GPU 1: not allowed by hosts.yaml): 2, 3",
        ),
        (2, "all", (0, 1)),
        (8, "all", "hosts.yaml declares 8 GPUs, found 4"),
        (8, 0, ()),
    ],
)
def test_the_inventory_limits_gpus(policy: Any, request_: Any, expected: Any) -> None:
    """An allow-list, or a number that must be there; only runs that want GPUs care."""
    host = Candidate(Host("a", gpus=policy), candidate(gpus=4).facts)
    made = place(Job("j", gpus_per_host=request_), (host,))
    if isinstance(expected, str):
        assert expected in problems(made)
    else:
        assert cards(made) == [expected]


@pytest.mark.parametrize(
    ("job", "said"),
    [
        (Job("j", gpus_per_host=3, gpus_per_rank=2), "3 GPUs can't be divided into ranks of 2 GPUs"),
        (
            Job("j", gpus_per_host=2, gpus_per_rank=2, ranks=RankLayout(per_host=2)),
            "2 ranks with 2 GPUs each: that is 4, the run has 2",
        ),
        (Job("j", gpus_per_host=0, ranks=RankLayout(per_gpu=1)), "the run has no GPU on it"),
    ],
)
def test_gpus_and_ranks_that_do_not_fit_are_refused(job: Job, said: str) -> None:
    """With what to change."""
    assert said in problems(place(job, (candidate(gpus=4),)))


def test_one_machine_under_two_names_is_not_booked_twice() -> None:
    """Equal GPUs on it are a problem, other uses a warning, and without containers it is nobody's fault."""

    def twice(engine: Any, picked: Any) -> Any:
        base = candidate(gpus=2).facts
        hosts = [
            Candidate(Host(n, engine=engine), dataclasses.replace(base, host=n, machine_id="m"), p)
            for n, p in zip("ab", picked, strict=True)
        ]
        notes = Notes()
        check_machines(place(Job("j"), hosts).places, notes)
        return notes.problems, notes.warnings

    (problem,), _ = twice("docker", ((0, 1), (1,)))
    assert str(problem).startswith("b: is the same machine as a, and both would use GPU 1")
    assert twice("docker", ((0,), (1,))) == ([], ["a and b are the same machine under two names"])
    assert twice("process", (None, None)) == ([], [])


def test_preflight_words_turn_warnings_into_refusals() -> None:
    """`preflight: [gpus_idle, ib]` refuses a GPU in use and a run without InfiniBand; without it they pass."""
    busy = gpu(0, processes=(GpuProcess(7, "python", 900),))
    places = place(Job("j", gpus_per_host=1), (candidate(gpus=[busy]),)).places
    over_tcp = (HostNetwork("a", "10.0.0.1", "eth0", "tcp"),)

    found = check_preflight(Job("j", preflight=("gpus_idle", "ib")), places, over_tcp)

    assert [p.host for p in found] == ["a", "a"]
    assert "pid 7" in found[0].message
    assert "InfiniBand" in found[1].message
    assert check_preflight(Job("j"), places, over_tcp) == []
