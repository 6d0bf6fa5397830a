"""Which interface carried how much of a run, from the counters of its hosts; what is odd in it, and what is not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distui.agent import metrics
from distui.facts.host import Address, HostFacts, IbPort, Nic
from distui.plan.model import HostNetwork, RunPlan
from distui.runs.follow.followed import Sampled
from distui.runs.lines.events import Carried, Event, HostSampled, NetworkUsed, Notice
from distui.runs.state.samples import Sample, Sampler, Traffic
from distui.runs.store.recorded import stored_network
from distui.runs.watch.carried import FULL, HostCounters, carried_words
from distui.runs.watch.network import NetworkWatch
from fakehosts.runs import Cluster, facts_of, plan_for, until, use_fake_follower

GB = 10**9
Grown = Mapping[str, tuple[float, float]]
"""Interface -> (received, sent) GB."""


def facts_with(name: str, number: int, *nics: str, ib: tuple[IbPort, ...] = ()) -> HostFacts:
    """A host with eth0, at 1 GB of either counter, and with these interfaces."""
    found = (
        Nic(nic, "ethernet", True, 1500, addresses=(Address(f"10.0.{i}.{number}", 24),), rx_bytes=GB, tx_bytes=GB)
        for i, nic in enumerate(("eth0", *nics))
    )
    return replace(facts_of(name, number), nics=tuple(found), ib=ib)


FACTS = {name: facts_with(name, 11 + i, "eth1") for i, name in enumerate(("h1", "h2"))}
IB = (IbPort("mlx5_0", 1, "ACTIVE", "InfiniBand", 200.0, "ib0"),)
IB_FACTS = {name: facts_with(name, 11 + i, "ib0", ib=IB) for i, name in enumerate(("h1", "h2"))}


def plan_over(ifname: str = "eth1", **more: Any) -> RunPlan:
    """Two hosts, and what the plan chose for their ranks."""
    networks = tuple(
        HostNetwork(host, "10.0.0.1", ifname, more.get("fabric", "tcp"), more.get("hcas", ())) for host in FACTS
    )
    plan = plan_for("h1", "h2", facts=FACTS, env=more.get("env", {}))
    return replace(plan, networks=networks, backend=more.get("backend", "nccl"))


def sample(at: float, grown: Grown, start: float = 1.0) -> Sample:
    """Counters that were at `start` GB when the run began."""
    traffic = {name: Traffic(int((start + rx) * GB), int((start + tx) * GB)) for name, (rx, tx) in grown.items()}
    ib = {name: one for name, one in traffic.items() if ":" in name}
    return Sample(at, net={name: one for name, one in traffic.items() if name not in ib}, ib=ib)


def reported(plan: RunPlan, facts: Mapping[str, HostFacts], *moments: tuple[float, Mapping[str, Grown]]) -> list[Event]:
    """What is told of a run whose hosts' counters have grown so at these seconds, and of its end."""
    watch = NetworkWatch(plan, facts)

    def events() -> Iterator[Event]:
        for at, hosts in (
            (0.0, {host: dict.fromkeys(grown, (0, 0)) for host, grown in moments[0][1].items()}),
            *moments,
        ):
            for host, grown in hosts.items():
                yield from watch.take(host, sample(at, grown), 100.0 + at)
        used = watch.ended(100.0 + moments[-1][0])
        yield from () if used is None else (used,)

    return list(events())


def warnings(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice) and event.level == "warning"]


def both(grown: Grown) -> dict[str, Grown]:
    return {"h1": grown, "h2": grown}


# what is said


def test_it_is_reported_once_ranks_talk_and_at_the_end() -> None:
    """In words, with what each interface of each host carried."""
    grown = {"eth0": (0.01, 0.01), "eth1": (0.5, 0.5), "lo": (0.2, 0.2)}
    later = {"eth0": (0.05, 0.05), "eth1": (5.0, 5.0), "lo": (0.2, 0.2)}
    events = reported(plan_over(), FACTS, (1.0, both(grown)), (12.0, both(grown)), (30.0, both(later)))

    begun, notice, going, ended = events
    assert isinstance(begun, NetworkUsed) and isinstance(going, NetworkUsed) and isinstance(ended, NetworkUsed)
    assert (begun.moment, going.moment, ended.moment, begun.at) == ("begun", "going", "ended", 112.0)
    assert notice == Notice(112.0, "info", "network so far: eth1 98 % of 1.0 GB, eth0 2 %; 400 MB within hosts (lo)")
    assert ended.words == "eth1 99 % of 10 GB, eth0 1 %; 400 MB within hosts (lo)"
    assert Carried("h2", "eth1", 5 * GB, 5 * GB, planned=True) in ended.interfaces
    assert begun.warnings == ended.warnings == ()


def test_a_run_that_goes_on_tells_it_more_and_more_seldom() -> None:
    """Each time that its ranks have talked for twice as long: a week makes some fifteen events, and one notice."""
    seconds = range(1, 100_000, 10)
    events = reported(plan_over(), FACTS, *((at, both({"eth1": (at / 10, at / 10)})) for at in map(float, seconds)))
    used = [event for event in events if isinstance(event, NetworkUsed)]
    assert [one.moment for one in used] == ["begun", *["going"] * (len(used) - 2), "ended"]
    assert len(used) < 16 and len([event for event in events if isinstance(event, Notice)]) == 1
    assert all(later.at - 101 >= 1.9 * (one.at - 101) for one, later in pairwise(used[:-1]))


def test_traffic_that_goes_elsewhere_later_is_reported_once() -> None:
    """Ranks that made new connections, an hour after they began."""
    well, wrong = both({"eth0": (0.0, 0.0), "eth1": (0.1, 0.1)}), both({"eth0": (900.0, 900.0), "eth1": (0.2, 0.2)})
    moments = [(1.0, well), (12.0, well), *((float(at), wrong) for at in range(400, 4000, 100))]
    (words,) = warnings(reported(plan_over(), FACTS, *moments))
    assert words.startswith("h[1-2]: 1.8 TB went over eth0, hardly any over eth1")


def test_only_ethernet_or_loopback() -> None:
    """Said, too, in the same words."""
    assert carried_words([Carried("h1", "eth0", 3 * GB, 3 * GB, planned=True)]) == "eth0 100 % of 3.0 GB"
    assert carried_words([Carried("h1", "lo", GB, GB)]) == "1.0 GB within hosts (lo), 0 B between hosts"


def test_each_byte_counts_once() -> None:
    """One host sends what the other receives; what comes from elsewhere, or goes there, is added to it."""
    exchange = [Carried("h1", "ib0", 3 * GB, 3 * GB, planned=True), Carried("h2", "ib0", 3 * GB, 3 * GB, planned=True)]
    assert carried_words(exchange) == "ib0 100 % of 6.0 GB"
    read = [Carried("h1", "eth0", 2 * GB, 0), Carried("h2", "eth0", 2 * GB, 0)]
    assert carried_words([*exchange, *read]) == "ib0 60 % of 10 GB, eth0 40 %"
    one_way = [Carried("h1", "eth0", 0, 5 * GB), Carried("h2", "eth0", 5 * GB, 0)]
    assert carried_words(one_way) == "eth0 100 % of 5.0 GB"
    each = [Carried("h1", f"eth{number}", GB, GB) for number in range(250)]
    assert carried_words(each).startswith("eth0 0 % of 250 GB, eth1 0 %")


def test_nothing_of_hardly_any_traffic() -> None:
    """Some megabytes of logins and lookups are no network in use."""
    assert reported(plan_over(), FACTS, (20.0, both({"eth0": (0.01, 0.01), "lo": (0.01, 0.01)}))) == []


def test_an_infiniband_port_is_its_interface_and_a_bond_its_members() -> None:
    """Nothing is counted twice: the port counts what ib0 does, the bond what eth0 and eth1 do."""
    counters = HostCounters("h1", ("mlx5_0:1",), IB_FACTS["h1"])
    for grown in ({"ib0": (0.0, 0.0), "mlx5_0:1": (0.0, 0.0)}, {"ib0": (0.1, 0.1), "mlx5_0:1": (7.0, 8.0)}):
        counters.take(sample(1.0, grown))
    assert counters.rows() == (Carried("h1", "ib0", 7 * GB, 8 * GB, planned=True),)

    counters = HostCounters("h1", ("bond0.7",), None)
    lower = {"bond0.7": ("bond0",), "bond0": ("eth0", "eth1"), "br-1": ("veth1",)}
    names = ("bond0", "bond0.7", "eth0", "eth1", "veth1", "br-1", "docker0", "wg0")
    counters.take(replace(sample(0.0, dict.fromkeys(names, (0, 0))), lower=lower))
    grown = {"bond0": (3, 5), "bond0.7": (3, 5), "eth0": (1, 2), "eth1": (2, 3), "veth1": (9, 9), "wg0": (1, 1)}
    counters.take(replace(sample(9.0, grown), lower=lower))
    assert counters.rows() == (Carried("h1", "bond0.7", 3 * GB, 5 * GB, planned=True),)


PORT = "sys/class/infiniband/mlx5_0/ports/1"
WORDS = {"port_rcv_data": 237159415345822, "port_xmit_data": 238334949937759}
"""Counters of a port in use, as telegraf's documentation of its plugin `infiniband` has them recorded."""


def test_rdma_is_counted_at_its_port_in_words_of_four_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """RDMA passes the interface by: what the port counts is its interface's traffic (sysfs-class-infiniband in the
    kernel's Documentation/ABI: both counters are divided by four).
    """
    counting, read = tmp_path / PORT / "counters", metrics.read
    counting.mkdir(parents=True)
    monkeypatch.setattr(metrics.glob, "glob", lambda pattern: [f"/{PORT}"] if pattern == metrics.IB_PORTS else [])
    monkeypatch.setattr(metrics, "read", lambda path: read(str(tmp_path) + path if "infiniband" in path else path))
    monkeypatch.setattr(metrics, "measure_net", lambda: {"ib0": [1000, 2000], "eth0": [5000, 5000]})
    gpus = {"fields": [], "rows": [], "error": "", "pcie": {}, "xid": None}
    sampler, counters = Sampler(), HostCounters("h1", ("mlx5_0:1",), IB_FACTS["h1"])
    for more in (0, GB):
        for name, words in WORDS.items():
            (counting / name).write_text(f"{words + more}\n")
        counters.take(sampler.take({**metrics.measure({}), "gpus": gpus}))
    assert counters.rows()[0] == Carried("h1", "ib0", 4 * GB, 4 * GB, planned=True)
    assert carried_words(counters.rows()) == "ib0 100 % of 4.0 GB"


def test_a_roce_port_adds_to_its_interface() -> None:
    """Its counters are of RDMA alone, those of the interface of the rest."""
    port = IbPort("mlx5_1", 1, "ACTIVE", "Ethernet", 100.0, "eth1")
    counters = HostCounters("h1", ("mlx5_1:1",), facts_with("h1", 11, "eth1", ib=(port,)))
    for amount in (0.0, 1.0):
        counters.take(sample(amount, {"eth1": (amount, amount), "mlx5_1:1": (3 * amount, 3 * amount)}))
    assert counters.rows() == (Carried("h1", "eth1", 4 * GB, 4 * GB, planned=True),)


# what is odd


def test_traffic_elsewhere_is_a_warning_with_what_to_do() -> None:
    """At the beginning, once, and in the result."""
    grown = both({"eth0": (4.0, 4.0), "eth1": (0.01, 0.01)})
    events = reported(plan_over(), FACTS, (1.0, grown), (12.0, grown), (13.0, grown))
    (words,) = warnings(events)
    assert words.startswith("h[1-2]: 8.0 GB went over eth0, hardly any over eth1, which the plan chose; ")
    assert "GLOO_SOCKET_IFNAME" in words and "fabric: {ifname: ...}" in words
    assert isinstance(events[-1], NetworkUsed) and events[-1].warnings == (words,)


def test_rdma_that_is_not_used_is_a_warning() -> None:
    """Though nothing of NCCL's own is to be read: NCCL_DEBUG is off."""
    grown = both({"eth0": (4.0, 4.0), "mlx5_0:1": (0.0, 0.0), "ib0": (0.0, 0.0)})
    plan = plan_over("eth0", fabric="ib", hcas=("mlx5_0:1",))
    (words,) = warnings(reported(plan, IB_FACTS, (1.0, grown), (12.0, grown)))
    assert "went over eth0, hardly any over ib0" in words and "NCCL_DEBUG=INFO" in words
    (words,) = warnings(
        reported(
            replace(plan, backend="gloo", networks=plan_over("ib0").networks), IB_FACTS, (1.0, grown), (12.0, grown)
        )
    )
    assert "went over eth0, hardly any over ib0" in words and "GLOO_SOCKET_IFNAME" in words


@pytest.mark.parametrize(
    "hosts",
    [
        {"h1": {"eth0": (4.0, 4.0), "eth1": (0.0, 0.0)}, "h2": {"eth0": (0.0, 0.0), "eth1": (0.0, 0.0)}},  # one end
        both({"eth0": (40.0, 0.02), "eth1": (0.0, 0.0)}),  # data is read
        both({"eth0": (4.0, 4.0), "eth1": (0.5, 0.5)}),  # a part of it
        both({"eth0": (0.03, 0.03), "eth1": (0.0, 0.0)}),  # hardly any
        both({"eth0": (4.0, 4.0)}),  # the planned one is not counted
    ],
)  # fmt: skip
def test_what_proves_nothing(hosts: Mapping[str, Grown]) -> None:
    """No warning: it may be other traffic."""
    assert warnings(reported(plan_over(), FACTS, (1.0, hosts), (12.0, hosts))) == []


def test_slow_traffic_counters_that_lie_and_interfaces_that_were_busy_before() -> None:
    """A day of chatter; a counter that went back; one that is full; traffic from before the run; no facts."""
    wrong = both({"eth0": (4.0, 4.0), "eth1": (0.0, 0.0)})
    assert warnings(reported(plan_over(), FACTS, (1.0, wrong), (40_000.0, wrong))) == []
    back = both({"eth0": (4.0, 4.0), "eth1": (-0.5, 0.0)})
    assert warnings(reported(plan_over(), FACTS, (1.0, wrong), (12.0, back))) == []
    full = both({"eth0": (4.0, 4.0), "mlx5_0:1": (FULL / GB - 1, 0.0), "ib0": (0.0, 0.0)})
    plan = plan_over("eth0", fabric="ib", hcas=("mlx5_0:1",))
    assert warnings(reported(plan, IB_FACTS, (1.0, full), (12.0, full))) == []
    wrong = both({"eth0": (3.0, 3.0), "eth1": (0.0, 0.0)})
    nics = (Nic("eth0", "ethernet", True, rx_bytes=0, tx_bytes=0), FACTS["h1"].nics[1])
    busy = {host: replace(facts, nics=nics) for host, facts in FACTS.items()}
    assert warnings(reported(plan_over(), busy, (1.0, wrong), (12.0, wrong))) == []
    assert warnings(reported(plan_over(), {}, (1.0, wrong), (12.0, wrong))) == []


def test_two_names_of_one_machine_are_one() -> None:
    """Its counters count once, and it is no two ends."""
    one = {"h1": FACTS["h1"], "h2": replace(FACTS["h1"], host="h2")}
    wrong = both({"eth0": (4.0, 4.0), "eth1": (0.0, 0.0)})
    events = reported(plan_over(), one, (1.0, wrong), (12.0, wrong))
    assert warnings(events) == [] and isinstance(events[-1], NetworkUsed)
    assert events[-1].words == "eth0 100 % of 4.0 GB"


amounts = st.floats(0.0, 500.0)


@given(
    planned=st.tuples(amounts, amounts),
    read=st.tuples(amounts, amounts),
    chatter=st.tuples(st.floats(0.0, 0.49), st.floats(0.0, 0.49)),
    confirmed=st.floats(0.0, 0.05),
    within=amounts,
    seconds=st.floats(11.0, 1e6),
    start=st.floats(0.0, 1e6),
)  # fmt: skip
def test_healthy_runs_are_never_warned_of(
    planned: tuple[float, float],
    read: tuple[float, float],
    chatter: tuple[float, float],
    confirmed: float,
    within: float,
    seconds: float,
    start: float,
) -> None:
    """However much they say or read, and however long: other interfaces read data, write results, and chatter a bit."""
    plan, facts = plan_over(), {
        host: replace(one, nics=tuple(replace(n, rx_bytes=int(start * GB), tx_bytes=int(start * GB)) for n in one.nics))
        for host, one in FACTS.items()
    }  # fmt: skip
    watch = NetworkWatch(plan, facts)
    found: list[Event] = []
    for part in (0.0, 0.001, 0.5, 1.0):
        for host, exchange, data, talk in zip(("h1", "h2"), planned, read, chatter, strict=True):
            quiet = talk * seconds / 1000 * part
            grown = {
                "eth0": (data * part + quiet, confirmed * data * part + quiet),
                "eth1": (exchange * part, exchange * part),
                "lo": (within * part, within * part),
            }
            found += watch.take(host, sample(seconds * part, grown, start), seconds * part)
    used = watch.ended(seconds)
    assert warnings(found) == [] and (used is None or used.warnings == ())


# NCCL's own lines

SOCKET = b"h2:77:77 [0] NCCL INFO Using network Socket\n"
"""NCCL 2.18 to 2.30, src/init.cc; with NCCL_DEBUG=INFO."""
ASSIGNED = b"h2:77:77 [0] NCCL INFO Assigned NET plugin Socket to comm\n"
"""From NCCL 2.27, src/plugin/net.cc."""
CHANNEL = b"h2:7:9 [7] NCCL INFO Channel 03/0 : 15[7] -> 6[6] [send] via NET/Socket/3\n"
RING = b"h2:117:117 [0] NCCL INFO Ring 00 : 15 -> 0 [receive] via NET/Socket/0\n"
"""NCCL 2.4, which does not say `Using network`; as in an issue of NVIDIA/nccl, number 367."""
BY_IB = (
    b"h1:77:77 [0] NCCL INFO Using network IB\nh1:7:9 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] via NET/IB/0/GDRDMA\n"
)
NO_DEVICE = b"h2:77:77 [0] NCCL INFO NET/IB : No device found.\n"
RDMA = {"fabric": "ib", "hcas": ("mlx5_0:1",)}


def nccl_says(plan: RunPlan, facts: Mapping[str, HostFacts], **lines: bytes) -> list[str]:
    """The warnings after NCCL said this on hosts."""
    watch = NetworkWatch(plan, facts)
    for host, data in lines.items():
        watch.heard(host, data, 100.0)
    early = list(watch.take("h1", Sample(0.0), 101.0))
    found = list(watch.take("h1", Sample(5.0), 106.0))
    assert early == [] and list(watch.take("h1", Sample(6.0), 107.0)) == [], "once, and with what others say"
    return warnings(found)


@pytest.mark.parametrize("line", [SOCKET, ASSIGNED, CHANNEL, RING])
def test_nccl_uses_sockets_though_infiniband_is_up(line: bytes) -> None:
    """Named with its hosts, and what to look at."""
    (words,) = nccl_says(plan_over("ib0", **RDMA), IB_FACTS, h1=BY_IB, h2=b"x\n" + line)
    assert words.startswith("InfiniBand is up, but NCCL uses sockets on h2; has the container /dev/infiniband")
    (words,) = nccl_says(plan_over("ib0", **RDMA), IB_FACTS, h1=SOCKET + NO_DEVICE, h2=NO_DEVICE + line)
    assert "sockets on h[1-2], where it found no device; " in words


def test_sockets_that_are_meant() -> None:
    """No RDMA planned, switched off by the job, or no InfiniBand at all; NCCL uses it; a rank only talks of sockets."""
    assert nccl_says(plan_over(), FACTS, h2=SOCKET) == []
    assert nccl_says(plan_over("ib0", **RDMA, env={"NCCL_IB_DISABLE": "1"}), IB_FACTS, h2=SOCKET) == []
    assert nccl_says(plan_over("ib0", **RDMA, env={"NCCL_NET": "Socket"}), IB_FACTS, h2=SOCKET) == []
    off = tuple(replace(port, state="DOWN") for port in IB)
    down = {host: replace(facts, ib=off) for host, facts in IB_FACTS.items()}
    assert nccl_says(plan_over("ib0", **RDMA), down, h2=SOCKET) == []
    assert nccl_says(plan_over("ib0", **RDMA), IB_FACTS, h1=BY_IB, h2=BY_IB) == []
    said = b"NCCL INFO NET/Socket : Using [0]ib0:10.0.0.2<0>\nUsing network Socket\n"
    assert nccl_says(plan_over("ib0", **RDMA), IB_FACTS, h2=said) == []


# from the host to the reader


def test_which_interfaces_carry_another_is_read_from_the_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told in the first sample, and known from then on."""
    for name in ("bond0/lower_eth0", "bond0/lower_eth1", "eth0/queues"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setattr(
        metrics.glob, "glob", lambda pattern: [f"/sys/class/net/{p}" for p in ("bond0/lower_eth1", "bond0/lower_eth0")]
    )
    assert metrics.measure_lower() == {"bond0": ["eth0", "eth1"]}
    sampler = Sampler()
    base = {"wall": 1.0, "boot": 1.0, "cpu": [1, 2], "load": "", "memory": ["", ""], "net": {}, "ib": {}, "amd": []}
    base |= {"disks": {}, "gpus": {"fields": [], "rows": [], "error": "", "pcie": {}, "xid": None}}
    assert sampler.take({**base, "lower": {"bond0": ["eth0", "eth1"]}}).lower == {"bond0": ("eth0", "eth1")}
    assert sampler.take(base).lower == {"bond0": ("eth0", "eth1")}


async def test_a_run_tells_it_and_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an event, in words, in the result, and in its folder."""
    cluster = Cluster(tmp_path)
    use_fake_follower(monkeypatch, cluster.connector)
    plan = cluster.plan()

    async def samples() -> None:
        await until(lambda: all(host.containers for host in cluster.hosts))
        for amount in (0.0, 1.0):
            for host in cluster.hosts:
                host.news.put_nowait(Sampled(sample(amount, {"eth0": (amount, amount)})))
        await until(lambda: len(cluster.of(HostSampled)) == 4)
        for host in cluster.hosts:
            host.containers[0].end(0)

    ended = await cluster.run(plan, samples())
    assert (ended.outcome, ended.network) == ("succeeded", "eth0 100 % of 2.0 GB")
    (used,) = cluster.of(NetworkUsed)
    assert (used.moment, used.interfaces[0]) == ("ended", Carried("h1", "eth0", GB, GB, planned=True))
    kept = stored_network(cluster.store.need(plan.run_id))
    assert kept is not None and (kept.words, kept.interfaces) == (used.words, used.interfaces)
