"""The board of all hosts, links, uses and remarks: what hosts said, folded into figures."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distui.doctor.host_checks import data_address
from distui.facts.host import Address, Gpu, GpuProcess, Gpus, HostDown, HostFacts, IbPort, Nic, Trouble
from distui.monitor.board import Board
from distui.monitor.histories import HISTORY, Ring
from distui.monitor.links import grouped, links
from distui.monitor.remarks import Remark, remarks
from distui.plan.labels import TaskLabels, to_labels
from distui.plan.model import RunPlan, Task
from distui.plan.ranks.placement import is_busy
from distui.runs.hosts.discover import FoundRun, FoundRuns, FoundTask
from distui.runs.hosts.uses import Use, dealt, uses_of
from distui.runs.lines.events import GpuReading, HostSampled
from distui.spec.hosts.inventory import Host


def facts(name: str = "h1", *, gpus: int = 2, ib: int = 2, **more: Any) -> HostFacts:
    """A host with GPUs and InfiniBand ports."""
    nics = [
        Nic("lo", "loopback", True),
        Nic("eno1", "ethernet", True, speed_mbps=10_000, addresses=(Address("10.0.0.1", 24),)),
        Nic("bond0", "ethernet", True, speed_mbps=20_000),
        Nic("docker0", "container", True, addresses=(Address("172.17.0.1", 16),)),
        *(Nic(f"ib{i}", "infiniband", True, addresses=(Address(f"10.1.{i}.1", 24),)) for i in range(ib)),
    ]
    base = HostFacts(
        name,
        name,
        cpus=32,
        memory_total_mib=1000,
        memory_available_mib=900,
        nics=tuple(nics),
        ib=tuple(IbPort(f"mlx5_{i}", 1, "ACTIVE", "InfiniBand", 400.0, f"ib{i}") for i in range(ib)),
        gpu=Gpus(tuple(Gpu(i, f"GPU-{i}", "H100", memory_total_mib=80_000, memory_used_mib=10) for i in range(gpus))),
        default_route_nic="eno1",
    )
    return dataclasses.replace(base, **more)


def sample(at: float, *loads: float, host: str = "h1", heat: float = 50.0, **more: Any) -> HostSampled:
    """One second of a host's GPUs."""
    cards = tuple(GpuReading(i, load, 40_000, 80_000, heat, 500.0) for i, load in enumerate(loads))
    return HostSampled(at, host, cards, **more)


def board(*names: str) -> Board:
    """A board of these hosts."""
    return Board([Host(name) for name in names or ("h1",)])


# state


def test_a_host_goes_from_unknown_to_up_to_lost_and_back() -> None:
    """The numbered list of the module, step by step; old facts stay when the host is gone."""
    b = board()
    host = b["h1"]
    seen = [host.status]
    b.probed("h1", facts(), 10)
    seen.append(host.status)
    b.connection("h1", "lost", "no answer for 15 s", 20)
    seen.append(host.status)
    b.connection("h1", "back", "", 30)
    seen.append(host.status)
    b.probed("h1", HostDown("h1", Trouble("auth", "publickey refused")), 40)

    assert [*seen, host.status] == ["unknown", "up", "lost", "up", "down"]
    assert host.facts is not None
    assert host.seen == 30


def test_a_channel_that_never_opened_keeps_the_words_of_the_probe() -> None:
    """`publickey refused` says more than `the connection is lost`."""
    b = board()
    b.probed("h1", HostDown("h1", Trouble("auth", "publickey refused")), 1)

    b.connection("h1", "lost", "closed", 2)

    assert b["h1"].trouble == Trouble("auth", "publickey refused")


def test_a_login_that_works_and_runs_no_commands_keeps_the_words_of_the_probe() -> None:
    """Its connection stands, which says nothing of the shell behind it."""
    b = board()
    shell = Trouble("rubbish", "lets us log in but runs no commands")
    b.probed("h1", HostDown("h1", shell), 1)

    b.connection("h1", "up", "", 2)

    assert (b["h1"].status, b["h1"].trouble) == ("down", shell)


def test_a_sample_shows_that_a_host_is_up() -> None:
    """Even before its probe has answered, and after it failed."""
    b = board()
    b.probed("h1", HostDown("h1", Trouble("timeout", "no answer")), 1)

    b.sampled(sample(2, 50.0))

    assert b["h1"].status == "up"


def test_news_of_unknown_hosts_is_ignored() -> None:
    """A host taken out of the inventory meanwhile breaks nothing."""
    b = board()

    b.probing(["h9"])
    b.probed("h9", facts("h9"), 1)
    b.sampled(sample(1, 1.0, host="h9"))
    b.connection("h9", "lost", "", 1)

    assert list(b.hosts) == ["h1"]


# figures


def test_live_values_win_over_probed_ones() -> None:
    """What a sample leaves out stays as probed."""
    b = board()
    b.probed("h1", facts(), 1)

    b.sampled(HostSampled(2, "h1", (GpuReading(0, 97.0),)))

    gpu = b["h1"].gpus[0]
    assert (gpu.utilization, gpu.memory_used, gpu.memory_total) == (97.0, 10, 80_000)


def test_figures_of_a_host() -> None:
    """Average, hottest and memory over its GPUs."""
    b = board()
    b.probed("h1", facts(), 1)
    b.sampled(sample(2, 90.0, 50.0, heat=71.0))

    host = b["h1"]

    assert (host.average(), host.hottest(), host.memory()) == (70.0, 71.0, (80_000, 160_000))


def test_a_host_without_gpus_shows_its_own_memory() -> None:
    """As probed, then live."""
    b = board()
    b.probed("h1", facts(gpus=0), 1)
    before = b["h1"].memory()
    b.sampled(HostSampled(2, "h1", memory_total_mib=1000, memory_available_mib=400))

    assert (before, b["h1"].memory()) == ((100, 1000), (600, 1000))


def test_every_byte_counts_once() -> None:
    """Loopback, bridges and bonds are left out, IPoIB is in its port's counters."""
    b = board()
    b.probed("h1", facts(), 1)
    net = dict.fromkeys(("lo", "docker0", "veth1", "bond0", "eno1.7"), (1e9, 1e9))
    b.sampled(HostSampled(2, "h1", net=net | {"eno1": (1.0, 2.0), "ib0": (9e9, 9e9), "mlx5_0:1": (10.0, 20.0)}))

    assert b["h1"].rates() == (11.0, 22.0)


@given(st.lists(st.one_of(st.none(), st.integers(0, 100)), max_size=40), st.integers(1, 12), st.integers(1, 20))
def test_a_ring_keeps_the_newest(values: list[int | None], size: int, count: int) -> None:
    """As a list cut to the last values would, unknown ones included."""
    ring = Ring(size)
    for value in values:
        ring.add(value)

    assert ring.last(count) == values[-size:][-count:]
    assert len(ring) == min(len(values), size)


def test_five_minutes_are_kept() -> None:
    """One sample a second."""
    b = board()
    for second in range(HISTORY + 20):
        b.sampled(sample(second, float(second % 100)))

    assert len(b["h1"].gpus[0].load.last(1000)) == 300


def test_totals() -> None:
    """Hosts by state, GPUs and those that are busy by a run, a stranger or by working; lost hosts have none busy."""
    b = board("h1", "h2", "h3", "h4")
    b.probed("h1", facts("h1"), 1)
    b.probed("h2", facts("h2"), 1)
    b.probed("h3", HostDown("h3", Trouble("dns", "unknown")), 1)
    b.sampled(sample(2, 50.0, 0.0, host="h1"))
    b.sampled(sample(2, 50.0, 50.0, host="h2"))
    b.connection("h2", "lost", "", 3)
    b.used([Use("r1", "job", "h1", 0, (0,), {1: (0,)})], 1.0)

    t = b.totals()

    assert (t.up, t.down, t.unknown, t.gpus, t.busy, t.runs) == (1, 2, 1, 4, 2, 1)


@pytest.mark.parametrize(
    ("load", "used", "words", "busy"),
    [
        (0.0, 10, "free", False), (0.0, 40_000, "memory taken", True), (97.0, 10, "in use", True),
        (None, None, "free", False),
    ],
)  # fmt: skip
def test_a_gpu_with_memory_taken_is_no_free_one(load: float | None, used: int | None, words: str, busy: bool) -> None:
    """Nobody's process is seen on it, as where a login doesn't see those of containers: plans pass it over, too."""
    b = board()
    b.sampled(HostSampled(2, "h1", (GpuReading(0, load, used, 80_000),)))
    host = b["h1"]
    assert (host.unowned_words(host.gpus[0]), host.busy(host.gpus[0])) == (words, busy)
    assert (b.totals().gpus, b.totals().busy) == (1, busy)
    assert load or is_busy(Gpu(0, "u", "H100", memory_total_mib=80_000, memory_used_mib=used)) == busy


def silent_board() -> Board:
    """Two GPUs that worked, then nothing of GPU 1 for a minute."""
    b = board()
    b.probed("h1", facts(gpus=2), 0)
    for at in range(1, 5):
        b.sampled(sample(at, 90.0, 97.0, heat=88.0))
    for at in range(5, 66):
        b.sampled(sample(at, 90.0, heat=60.0))
    return b


def test_a_gpu_that_samples_name_no_more_has_no_figures() -> None:
    """What it did before its driver hung is not what it does; a probe from before says nothing of now either."""
    host = silent_board()["h1"]
    gpu = host.gpus[1]

    assert (gpu.utilization, gpu.memory_used, gpu.temperature, gpu.power) == (None, None, None, None)
    assert (gpu.memory_total, gpu.warm_since, host.average(), host.hottest()) == (80_000, None, 90.0, 60.0)
    assert gpu.load.last(62)[0] == 97.0 and set(gpu.load.last(61)) == {None}
    assert host.unowned_words(gpu) == "silent"
    assert [r.text for r in remarks(host, 65)] == ["GPU 1 gives no figures any more, for 60s"]


def test_a_second_without_a_gpu_changes_no_figure() -> None:
    """nvidia-smi may be late; and a GPU that is named again is as it says."""
    b = board()
    b.probed("h1", facts(gpus=1), 0)
    b.sampled(sample(1, 97.0))
    b.sampled(sample(2))
    before = b["h1"].gpus[0].utilization
    for at in range(3, 30):
        b.sampled(sample(at))
    b.sampled(sample(30, 12.0))

    assert (before, b["h1"].gpus[0].utilization, remarks(b["h1"], 30)) == (97.0, 12.0, [])


def test_a_probe_after_that_says_what_is_known() -> None:
    """Its figures are newer than the last sample; a GPU that it does not find any more is gone."""
    b = silent_board()
    b.probed("h1", facts(gpus=2), 66)
    after = b["h1"].gpus[1].memory_used

    b.probed("h1", facts(gpus=1), 76)

    assert (after, sorted(b["h1"].gpus), b.totals().gpus) == (10, [0], 1)


def test_a_driver_that_does_not_answer_leaves_the_gpus_that_were_known() -> None:
    """That none is listed then does not mean that none is there."""
    b = silent_board()
    b.probed("h1", facts(gpus=0, gpu=Gpus((), Trouble("nvidia_smi_timeout", "nvidia-smi does not answer"))), 66)

    assert sorted(b["h1"].gpus) == [0, 1]
    assert [r.text for r in remarks(b["h1"], 66)] == ["GPUs: nvidia-smi does not answer"]


def test_a_driver_that_hangs_again_after_one_answer_leaves_no_figures() -> None:
    """The probe between said how it was then."""
    b = silent_board()
    loaded = Gpu(1, "GPU-1", "H100", memory_total_mib=80_000, memory_used_mib=10, utilization_pct=97.0)
    b.probed("h1", facts(gpu=Gpus((*facts().gpu.gpus[:1], loaded))), 66)
    before = b["h1"].gpus[1].utilization
    b.probed("h1", facts(gpus=0, gpu=Gpus((), Trouble("nvidia_smi_timeout", "nvidia-smi does not answer"))), 76)

    gpu = b["h1"].gpus[1]
    assert (before, gpu.utilization, gpu.memory_used, gpu.memory_total) == (97.0, None, None, 80_000)
    assert b["h1"].unowned_words(gpu) == "silent"
    assert b["h1"].gpus[0].utilization == 90.0


def test_a_link_that_is_gone_carries_nothing_and_is_forgotten() -> None:
    """An interface that a container took with it; those of containers come and go for as long as the app is open."""
    b = board()
    b.sampled(sample(1, net={"eno1": (10.0, 20.0), "eth7": (5e9, 5e9), "veth1": (1.0, 1.0)}))
    b.sampled(sample(2, net={"eno1": (10.0, 20.0)}))
    rates = b["h1"].rates()
    for at in range(3, 3 + HISTORY):
        b.sampled(sample(at, net={"eno1": (10.0, 20.0)}))

    assert (rates, list(b["h1"].links)) == ((10.0, 20.0), ["eno1"])


def test_a_name_that_is_loopback_is_no_problem() -> None:
    """Doctor calls it ok: distui pins the interface."""
    b = board()
    b.probed("h1", facts(name_is_loopback=True), 1)
    assert not list(remarks(b["h1"], 1.0))
    assert data_address(facts(name_is_loopback=True)).verdict == "ok"


# who uses what


def test_ranks_are_dealt_to_gpus() -> None:
    """Equal shares in order; several ranks on a GPU; else everybody everywhere."""
    assert dealt((4, 5), (0, 1, 2, 3)) == {0: (4,), 1: (4,), 2: (5,), 3: (5,)}
    assert dealt((0, 1, 2, 3), (6, 7)) == {6: (0, 1), 7: (2, 3)}
    assert dealt((0, 1), (0, 1, 2)) == {0: (0, 1), 1: (0, 1), 2: (0, 1)}
    assert dealt((0,), ()) == {}


def found(run: str, host: str, *, running: bool = True) -> FoundRun:
    """A run found by its labels."""
    labels = TaskLabels(run, 0, (0, 1), host, "job", gpus=(0, 1), world_size=2)
    return FoundRun(run, (FoundTask(host, "c0ffee" * 10, labels, {}, running, "running", started=5.0),))


def test_uses_are_found_by_labels() -> None:
    """Only tasks that run use anything."""
    uses = uses_of([], FoundRuns((found("a", "h1"), found("b", "h1", running=False)), {}))

    assert uses == (
        Use("a", "job", "h1", 0, (0, 1), {0: (0,), 1: (1,)}, "c0ffee" * 10, "docker", 2, 5.0),
    )  # fmt: skip


def process(pid: int, container: str | None = None, user: str = "ann") -> GpuProcess:
    """A python on GPU 0."""
    return GpuProcess(pid, "/usr/bin/python3 train.py", 41_000, "GPU-0", container, user)


def on_gpu(*processes: GpuProcess) -> Gpus:
    """One GPU with these processes."""
    return Gpus((Gpu(0, "GPU-0", "H100", processes=processes),))


def test_processes_of_runs_are_no_strangers() -> None:
    """A process belongs to the run of its container; ids may be short; others are foreign."""
    b = board()
    b.probed("h1", facts(gpu=on_gpu(process(1, "c0ffee" * 10), process(2, "dead" * 16), process(3))), 1)
    b.used([Use("a", "job", "h1", 0, (0,), {0: (0,)}, "c0ffee")], 1.0)

    owner = b["h1"].owner(b["h1"].gpus[0])

    assert owner.use is not None
    assert (owner.use.run, owner.ranks, [p.pid for p in owner.foreign]) == ("a", (0,), [2, 3])


def test_processes_without_container_belong_to_a_run_of_processes() -> None:
    """Where a run without containers has the GPU, a process there is taken for its own."""
    b = board()
    b.probed("h1", facts(gpu=on_gpu(process(3))), 1)
    b.used([Use("a", "job", "h1", 0, (0,), {0: (0,)}, "", "process")], 1.0)

    assert b["h1"].owner(b["h1"].gpus[0]).foreign == ()


def test_a_host_that_could_not_be_asked_keeps_what_was_known() -> None:
    """Its engine does not answer: that does not free its GPUs."""
    b = board("h1", "h2")
    b.used([Use("a", "job", h, 0, (0,), {0: (0,)}) for h in ("h1", "h2")], 1.0)
    b.used([], 2.0, unasked={"h1": Trouble("daemon_down", "no docker")})
    assert [bool(b[h].uses) for h in ("h1", "h2")] == [True, False]


def test_a_run_followed_here_hides_no_other_on_a_host_that_could_not_be_asked() -> None:
    """Its own plan tells of it; of the others there what was known holds."""
    b = board()
    b.probed("h1", facts(), 1)
    other, own = (Use(run, "job", "h1", 0, (0,), {gpu: (0,)}) for gpu, run in enumerate("ab"))
    b.used([other], 1.0)
    b.used([own], 2.0, unasked={"h1": Trouble("daemon_down", "no docker")})
    assert {use.run for use in b["h1"].uses} == {"a", "b"}
    assert not any("gone" in note.text for note in b["h1"].notes)


# links


def test_links_of_a_host() -> None:
    """Ports first with their interface, then interfaces; virtual ones are left out."""
    b = board()
    b.probed("h1", facts(), 1)
    b.sampled(HostSampled(2, "h1", net={"mlx5_0:1": (2.0, 1.0), "eno1": (5.0, 6.0)}, errors={"mlx5_0:1": 7}))
    b.sampled(HostSampled(3, "h1", net={"mlx5_0:1": (4.0, 1.0), "eno1": (5.0, 6.0)}, errors={"mlx5_0:1": 9}))

    made = links(b["h1"])

    assert [(x.name, x.rx, x.tx) for x in made] == [
        ("ib0", 4.0, 1.0), ("ib1", None, None), ("eno1", 5.0, 6.0), ("bond0", None, None),
    ]  # fmt: skip
    assert (made[0].device, made[0].history, made[0].errors, made[0].new_errors) == ("mlx5_0", (2.0, 4.0), 9, 2)
    assert made[2].default


def test_rails_alike_are_one_link() -> None:
    """Their sums, second by second; one that is down stays alone."""
    b = board()
    down = dataclasses.replace(facts(ib=3).ib[2], state="DOWN")
    b.probed("h1", with_ports(down), 1)
    b.sampled(HostSampled(2, "h1", net={"mlx5_0:1": (1.0, 1.0), "mlx5_1:1": (2.0, 3.0)}))

    made = grouped(links(b["h1"]))

    assert [(x.name, x.members, x.rx, x.tx, x.up) for x in made][:1] == [("ib[0-1]", 2, 3.0, 4.0, True)]
    assert made[0].history == (4.0,)
    assert ("ib2", False) in [(x.name, x.up) for x in made]


def with_ports(last: IbPort) -> HostFacts:
    """A host with three ports, the last one as given."""
    base = facts(ib=3)
    return dataclasses.replace(base, ib=(*base.ib[:2], last))


# remarks


def test_tasks_that_see_the_same_gpus_share_them_by_local_rank() -> None:
    """One container per rank, each with all GPUs of the host: each GPU belongs to the rank that works on it."""

    def task(number: int, host: str) -> FoundTask:
        labels = TaskLabels("r", number, (number,), host, "job", gpus=(0, 1), world_size=4)
        return FoundTask(host, f"c{number}", labels, {}, True, "running")

    run = FoundRun("r", (task(0, "h1"), task(1, "h1"), task(2, "h2"), task(3, "h2")))
    uses = uses_of((), FoundRuns((run,), {}))
    assert [dict(use.gpus) for use in uses] == [{0: (0,), 1: ()}, {0: (), 1: (1,)}, {0: (2,), 1: ()}, {0: (), 1: (3,)}]
    b = board("h1", "h2")
    for name in ("h1", "h2"):
        b.probed(name, facts(name), 1.0)
    b.used(uses, 1.0)
    assert [b[h].owner(gpu).ranks for h in ("h1", "h2") for gpu in b[h].gpus_in_order()] == [(0,), (1,), (2,), (3,)]


def test_what_the_driver_holds_down_and_logs_is_remarked() -> None:
    """Heat says what comes next; a GPU at its power limit works as it should; XIDs of programs blame no GPU."""
    b = board()
    hot = GpuReading(0, 90.0, temperature_c=84.0, slowdown_c=87.0, sm_mhz=1320, throttle=0x24, ecc=2)
    b.sampled(HostSampled(100.0, "h1", (hot, GpuReading(1, 99.0, throttle=0x4, xid=31, xid_at=40.0))))
    assert remarks(b["h1"], 160.0) == [
        Remark("wrong", "GPU 0 counts 2 memory errors that ECC could not correct", RESET),
        Remark("watch", "GPU 0 at 84 °C, above 80 °C for 60s", "slowdown starts at 87 °C"),
        Remark(
            "watch",
            "GPU 0 is slowed down to 1320 MHz: too hot (software slowdown)",
            "look at fans, inlet air and supply",
        ),
        Remark("watch", "GPU 1: XID 31 2m ago, the program touched memory that is not its own"),
    ]
    b.sampled(HostSampled(101.0, "h1", (GpuReading(0, xid=79), GpuReading(1))))
    assert remarks(b["h1"], 160.0) == [Remark("wrong", "GPU 0: XID 79, the GPU has fallen off the bus", RESET)]


RESET = "leave it out of runs, or reset it with `nvidia-smi -r`"


def test_what_happened_is_noted_once_with_its_time() -> None:
    """Trouble and its end, in order; samples that change nothing say nothing."""
    b = board()
    b.probed("h1", HostDown("h1", Trouble("timeout", "no answer in 10 s")), 1.0)
    b.probed("h1", HostDown("h1", Trouble("timeout", "no answer in 10 s")), 2.0)
    b.probed("h1", facts(boot_id="a"), 3.0)
    hot = GpuReading(0, temperature_c=84.0, throttle=0x20, ecc=0)
    for at, reading in ((4.0, GpuReading(0, temperature_c=70.0, ecc=0)), (5.0, hot), (6.0, hot)):
        b.sampled(HostSampled(at, "h1", (reading,), {"eth0": (1.0, 1.0)}, errors={"eth0": 3 if at < 6 else 5}))
    b.sampled(HostSampled(7.0, "h1", (GpuReading(0, temperature_c=70.0, throttle=0, ecc=1, xid=48, xid_at=6.5),)))
    b.sampled(HostSampled(8.0, "h1", (GpuReading(0, temperature_c=70.0, throttle=0, ecc=1, xid=48, xid_at=6.6),)))
    b.connection("h1", "lost", "no answer for 15 s", 9.0)
    b.connection("h1", "lost", "no answer for 15 s", 10.0)
    b.used([], 10.5)
    b.sampled(HostSampled(11.0, "h1", (GpuReading(0, ecc=1, xid=48, xid_at=6.6),)))
    b.used([Use("a", "job", "h1", 2, (4, 5), {0: (4, 5)})], 12.0)
    b.used([], 13.0)
    b.probed("h1", facts(boot_id="b"), 14.0)
    assert [(note.at, note.level, note.text) for note in b["h1"].notes] == [
        (1.0, "wrong", "no answer to a probe: no answer in 10 s"),
        (3.0, "info", "answers a probe: unknown system, 2 GPUs"),
        (5.0, "watch", "GPU 0 is slowed down: too hot (software slowdown)"),
        (5.0, "watch", "GPU 0 at 84 °C, above 80 °C"),
        (6.0, "watch", "eth0 counts 2 new errors"),
        (7.0, "good", "GPU 0 runs at its own clock again"),
        (7.0, "wrong", "GPU 0 counts 1 memory error that ECC could not correct"),
        (6.5, "wrong", "GPU 0: XID 48, a memory error that ECC could not correct"),
        (7.0, "good", "GPU 0 at 70 °C, below 80 °C again"),
        (9.0, "wrong", "no answer for 15 s"),
        (11.0, "good", "the connection is back"),
        (12.0, "info", "runs here: task 2 (ranks 4-5) of a"),
        (13.0, "info", "gone: task 2 (ranks 4-5) of a"),
        (14.0, "wrong", "it was started again since the last probe"),
    ]


def test_a_healthy_host_has_no_remarks() -> None:
    """Being busy is not a judgement."""
    b = board()
    b.probed("h1", facts(clock_offset_ms=3.0), 1)
    b.sampled(sample(2, 99.0, 99.0))

    assert remarks(b["h1"], 3) == []


def test_remarks_say_value_threshold_and_how_long() -> None:
    """A warm GPU, with hysteresis: two degrees below the limit it is still warm."""
    b = board()
    for at in range(0, 1201, 10):
        b.sampled(sample(at, 90.0, heat=79.0 if at == 600 else 84.0))
    warm = remarks(b["h1"], 1200)
    b.sampled(sample(1300, 90.0, heat=70.0))

    assert warm == [Remark("watch", "GPU 0 at 84 °C, above 80 °C for 20m")]
    assert remarks(b["h1"], 1300) == []


def test_what_is_wrong_comes_first() -> None:
    """A lost GPU before a dead rail, a stranger and a clock."""
    b = board()
    down = dataclasses.replace(facts(ib=3).ib[2], state="DOWN")
    cards = Gpus(
        (
            Gpu(0, "GPU-0", "H100", processes=(process(7),)),
            Gpu(1, "GPU-1", "H100", problem=Trouble("gpu_lost", "GPU is lost", "reboot")),
        )
    )
    b.probed("h1", dataclasses.replace(with_ports(down), gpu=cards, clock_offset_ms=-800.0), 1)

    assert remarks(b["h1"], 2) == [
        Remark("wrong", "GPU 1: GPU is lost", "reboot"),
        Remark("watch", "GPU 0: ann python3 (pid 7, 40 GiB) is of no run"),
        Remark("watch", "mlx5_2 is DOWN", "2 of 3 rails are left; check cable and switch port"),
        Remark("watch", "its clock is 0.80 s behind", "run ntp or chrony there"),
    ]


def test_an_idle_gpu_of_a_run_is_remarked() -> None:
    """After a quarter of an hour."""
    b = board()
    b.used([Use("a", "job", "h1", 0, (0,), {0: (0,)})], 1.0)
    for at in range(0, 900, 10):
        b.sampled(sample(at, 1.0))

    assert remarks(b["h1"], 899) == []
    assert [r.text for r in remarks(b["h1"], 960)] == ["GPU 0 idle for 16m while a has it"]


def test_a_gpu_whose_host_was_out_of_sight_was_not_idle_meanwhile() -> None:
    """As after a night with the laptop closed: idle before, idle in this very second, and nobody knows between."""
    b = board()
    b.probed("h1", facts(), 0)
    b.used([Use("a", "job", "h1", 0, (0,), {0: (0,)})], 0)
    for at in (0, 1, 40_000):
        b.sampled(sample(at, 1.0, heat=88.0))
    assert [r.text for r in remarks(b["h1"], 40_000)] == ["GPU 0 at 88 °C, above 80 °C"]


def test_uses_of_a_followed_run_come_from_its_plan() -> None:
    """They win over what was found of it, and of no other launch of that name; processes have no container."""
    task = Task(
        0, "r", "h1", "process", (), "worker", 0, (0, 1), (2, 3), None, {}, (), "", "", {}, (), ((2,), (3,))
    )  # fmt: skip
    plan = RunPlan(
        "a", "job", "ann", "1", 1, "env", "gloo", "env://", None, None, "h1", 1, 2, None, "missing", "stop",
        1.0, 1.0, None, (), (task,),
    )  # fmt: skip

    uses = uses_of([(plan, {0: "/home/ann/.local/task-0"}, 7.0)], FoundRuns((found("a", "h1"),), {}))

    assert uses == (Use("a", "job", "h1", 0, (0, 1), {2: (0,), 3: (1,)}, "", "process", 2, 7.0),)

    (other,) = found("a", "h2").tasks
    theirs = dataclasses.replace(other.labels, launch="theirs", owner="bob")
    own = dataclasses.replace(task, labels=to_labels(dataclasses.replace(theirs, launch="mine", owner="ann")))
    there = FoundRuns((found("a", "h1"), FoundRun("a", (dataclasses.replace(other, labels=theirs),))), {})
    assert {u.host for u in uses_of([(dataclasses.replace(plan, tasks=(own,)), {}, 7.0)], there)} == {"h1", "h2"}
