"""The checks of `distui doctor`: pure over facts, each finding says saw, means, do."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from distui.doctor.checks import check_hosts, counts, problems
from distui.doctor.choice import NAMES, choice
from distui.doctor.finding import CheckRow, Finding, report_text, shared_findings, to_json
from distui.doctor.mount_check import mount_rows
from distui.doctor.mounts import MountReport
from distui.doctor.plan_check import plan_rows
from distui.doctor.reach import Reached, ReachProblem, ReachReport
from distui.doctor.reach_check import endpoints, reach_row, reach_table
from distui.facts.host import Address, Disk, Engine, Gpu, GpuProcess, Gpus, HostDown, HostFacts, IbPort, Nic, Trouble
from distui.plan.labels import TaskLabels
from distui.plan.model import Mount
from distui.plan.network.fabric import select_hcas
from distui.runs.hosts.discover import FoundRun, FoundRuns, FoundTask
from distui.runs.launch import preflight
from distui.spec.hosts.inventory import DataNetwork, Host, Inventory
from distui.spec.job.job import Fabric, Job
from fakehosts.runs import facts_of, plan_for

GB = 1 << 30


def gpu(index: int, **more: Any) -> Gpu:
    base = Gpu(index, f"GPU-{index}", "H100", driver="550.90", temperature_c=40.0, memory_total_mib=81_559)
    return replace(base, **more)


def healthy(host: str = "n1", **more: Any) -> HostFacts:
    base = HostFacts(
        host=host,
        hostname=host,
        clock_offset_ms=3.0,
        connect_ms=50.0,
        python3="3.12.3",
        disks=(Disk("/", 400 * GB, 900 * GB), Disk("/tmp", GB // 4, GB // 4)),
        memory_total_mib=1000,
        memory_available_mib=900,
        nics=(Nic("eno1", "ethernet", True, addresses=(Address("10.0.0.1", 24),)),),
        ib=tuple(IbPort(f"mlx5_{i}", 1, "ACTIVE", "InfiniBand", 400.0) for i in range(2)),
        gpu=Gpus((gpu(0), gpu(1))),
        engine=Engine("docker", ("docker",), "27.3", "27.3", nvidia_runtime=True),
        rdma_devices=True,
        memlock_kib=-1,
    )
    return replace(base, **more)


def finding(rows: tuple[CheckRow, ...], check: str, host: str = "n1") -> Finding:
    row = next(row for row in rows if row.check.id == check)
    return next(f for f in row.findings if f.host == host)


def test_a_healthy_host_has_nothing_to_say() -> None:
    """Every check is ok on a host that is well."""
    rows = check_hosts({"n1": healthy()})
    assert set(counts(rows)) == {"ok"}
    assert not list(problems(rows))


def test_a_login_shell_that_takes_long_to_start_is_named() -> None:
    """A run there took a minute longer, and nothing said why."""
    login = finding(check_hosts({"n1": healthy(shell_s=5.02)}), "login")
    assert (login.verdict, login.saw.partition(" (")[0]) == ("warn", "its login shell takes 5 s to start")
    assert finding(check_hosts({"n1": healthy(shell_s=0.4)}), "login").saw == "50 ms to log in"


def test_a_host_that_does_not_answer_fails_once() -> None:
    """Its login fails with the reason and the hint; what can't be asked is skipped, not failed."""
    rows = check_hosts({"n1": HostDown("n1", Trouble("auth", "publickey refused", "ssh -v n1"))})
    login = finding(rows, "login")
    assert (login.verdict, login.saw, login.do) == ("fail", "publickey refused", "ssh -v n1")
    assert counts(rows)["fail"] == 1
    assert counts(rows)["skip"] == len(rows) - 1


@pytest.mark.parametrize(
    ("check", "verdict", "change", "words"),
    [
        ("clock", "warn", {"clock_offset_ms": 900.0}, "+900 ms"),
        ("clock", "fail", {"clock_offset_ms": -60_000.0}, "-60 s"),
        ("clock", "skip", {"clock_offset_ms": None}, "unknown"),
        ("python3", "warn", {"python3": None}, "no python3"),
        ("engine", "fail", {"engine": Engine("docker", problem=Trouble("denied", "permission denied"))}, "denied"),
        ("engine", "warn", {"engine": Engine("docker", server="27.3", apart="rootless")}, "docker is rootless"),
        ("gpu_runtime", "fail", {"engine": Engine("docker", nvidia_runtime=False)}, "no nvidia runtime"),
        ("gpus", "fail", {"gpu": Gpus(problem=Trouble("driver", "the driver does not answer"))}, "driver"),
        ("gpus", "fail", {"gpu": Gpus((gpu(0), gpu(1, problem=Trouble("gpu_lost", "GPU is lost"))))}, "GPU 1"),
        ("gpu_heat", "warn", {"gpu": Gpus((gpu(0, temperature_c=84.0),))}, "GPU 0 at 84 C"),
        ("gpu_heat", "fail", {"gpu": Gpus((gpu(0, temperature_c=91.0),))}, "91 C"),
        ("address", "fail", {"nics": ()}, "no interface"),
        ("address", "fail", {"nics": (Nic("wg0", "tunnel", True, addresses=(Address("10.9.0.1", 24),)),)}, "a tunnel"),
        ("address", "ok", {"name_is_loopback": True}, "127.0.1.1"),
        ("address", "ok", {"nics": (Nic("dummy0", "other", True, addresses=(Address("10.9.0.1", 32),)),)}, "10.9.0.1"),
        ("port", "warn", {"ports_in_use": frozenset({29500})}, "29500"),
        ("infiniband", "fail", {"ib": (IbPort("mlx5_0", 1, "ACTIVE", "InfiniBand", 400.0),
                                       IbPort("mlx5_1", 1, "DOWN", "InfiniBand", 400.0))}, "mlx5_1 is DOWN"),
        ("infiniband", "warn", {"ib": (IbPort("mlx5_0", 1, "INIT", "InfiniBand", 400.0),)}, "INIT"),
        ("rdma", "fail", {"rdma_devices": False}, "/dev/infiniband"),
        ("disk", "warn", {"disks": (Disk("/", 10 * GB, 900 * GB),)}, "11 GB free on /"),
        ("disk", "fail", {"disks": (Disk("/var/lib/docker", GB, 900 * GB),)}, "1.1 GB"),
        ("disk", "warn", {"disks": (Disk("/", 400 * GB, 900 * GB), Disk("/tmp", 0, GB))}, "/tmp"),
        ("disk", "skip", {"disks": ()}, "unknown"),
        ("disk", "ok", {"disks": (Disk("/", 10 * GB, 40 * GB), Disk("/nvme/d", 400 * GB, 900 * GB, True))}, "/nvme/d"),
        ("disk", "fail", {"disks": (Disk("/", 400 * GB, 900 * GB), Disk("/nvme/d", GB, 900 * GB, True))}, "/nvme/d"),
        ("disk", "warn", {"disks": (Disk("/", GB, 40 * GB), Disk("/nvme/d", 400 * GB, 900 * GB, True))}, "free on /"),
        ("memory", "warn", {"memory_available_mib": 50}, "free"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_found_and_reported(check: str, verdict: str, change: dict[str, Any], words: str) -> None:
    """Each trouble gives its verdict, what was seen, and for grave ones what it means and what to do."""
    found = finding(check_hosts({"n1": healthy(**change)}), check)
    assert found.verdict == verdict
    assert words in found.saw
    if verdict in ("warn", "fail") and check not in ("engine", "gpus"):
        assert found.means
        assert found.do


@pytest.mark.parametrize(
    ("data", "verdict", "words"),
    [
        (DataNetwork(ifname="wg0"), "ok", "10.9.0.1"),
        (DataNetwork(addr="10.9.0.1"), "ok", "10.9.0.1"),
        (DataNetwork(ifname="wg1"), "fail", "wg1, pinned by hosts.yaml, is down or not there"),
        (DataNetwork(), "fail", "a tunnel"),
    ],
)
def test_an_address_that_is_pinned_is_the_one_that_is_checked(data: DataNetwork, verdict: str, words: str) -> None:
    """The plan takes a tunnel that hosts.yaml names; without that none is usable."""
    nics = (Nic("wg0", "tunnel", True, addresses=(Address("10.9.0.1", 24),)),)
    found = finding(check_hosts({"n1": healthy(nics=nics)}, hosts=[Host("n1", data=data)]), "address")
    assert (found.verdict, words in found.saw) == (verdict, True)


def test_a_port_that_is_down_is_left_out_without_its_neighbour() -> None:
    """A device with two ports, of which one has a cable: `^mlx4_0` would leave out both."""
    ports = (IbPort("mlx4_0", 1, "ACTIVE", "InfiniBand", 56.0), IbPort("mlx4_0", 2, "DOWN", "InfiniBand", 10.0))
    found = finding(check_hosts({"n1": healthy(ib=ports)}), "infiniband")
    assert found.saw == "mlx4_0:2 is DOWN"
    assert "cable of mlx4_0:2," in found.do and "hcas: '^mlx4_0:2'" in found.do
    assert [p.port for p in select_hcas("^mlx4_0:2", ports)] == [1]


def test_a_port_that_hosts_yaml_leaves_out_is_no_finding() -> None:
    """Doctor says to leave it out with `hcas`, and failed the host for it all the same."""
    ports = tuple(IbPort(f"mlx5_{i}", 1, "ACTIVE" if i else "DOWN", "InfiniBand", 400.0) for i in range(3))
    found = check_hosts({"n1": healthy(ib=ports)}, hosts=[Host("n1", data=DataNetwork(hcas="^mlx5_0"))])
    assert (finding(found, "infiniband").verdict, finding(found, "infiniband").saw) == ("ok", "2 x 400 Gb/s")
    assert finding(check_hosts({"n1": healthy(ib=ports)}, hosts=[Host("n1")]), "infiniband").verdict == "fail"


def test_who_differs_from_most_is_named() -> None:
    """Of three hosts with two drivers, the one that is alone is warned."""
    odd = healthy("n3", gpu=Gpus((gpu(0, driver="560.35"), gpu(1, driver="560.35"))))
    rows = check_hosts({"n1": healthy(), "n2": healthy("n2"), "n3": odd})
    assert finding(rows, "drivers").verdict == "ok"
    assert finding(rows, "drivers", "n3").saw == "560.35 here, 550.90 elsewhere"
    amd = healthy("n3", gpu=Gpus((gpu(0, vendor="amd", driver="6.12.12"),)))
    assert finding(check_hosts({"n1": healthy(), "n2": healthy("n2"), "n3": amd}), "drivers", "n3").verdict == "ok"


def test_foreign_processes_are_told_apart_from_ours() -> None:
    """A process in a container of distui is ours; one in no container, or in another, is foreign."""
    own = GpuProcess(10, "python", 100, container="c0ffee" * 10)
    other = GpuProcess(11, "/usr/bin/blender", 100, user="eve")
    facts = healthy(gpu=Gpus((gpu(0, processes=(own,)), gpu(1, processes=(other,)))))
    found = finding(check_hosts({"n1": facts}, ours=["c0ffee" * 10]), "idle")
    assert (found.verdict, found.saw) == ("warn", "GPU 1: eve blender (pid 11)")


async def test_a_preflight_knows_processes_of_other_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a container they are ours by the GPUs that their run has, as for `distui doctor`."""
    ours, eves = GpuProcess(10, "python", 100, user="ann"), GpuProcess(11, "blender", 100, user="eve")
    facts = facts_of("h1", gpu=Gpus((gpu(0, processes=(ours,)), gpu(1, processes=(eves,)))))
    labels = TaskLabels("other", 0, (0,), "h1", "j", engine="process", gpus=(0,))
    found = FoundRuns((FoundRun("other", (FoundTask("h1", "/run/0", labels, {}, True, "running"),)),), {})

    def answers(value: object) -> Any:
        async def answer(*asked: object, **more: object) -> object:
            return value

        return answer

    known = {"probe_all": {"h1": facts}, "find_runs": found, "images_present": {}, "_marked": (), "prove_on": None}
    for name, value in known.items():
        monkeypatch.setattr(preflight, name, answers(value))
    report = await preflight.preflight(Any, plan_for("h1"), [Host("h1")])  # type: ignore[arg-type]
    assert finding(report.rows, "idle", "h1").saw == "GPU 1: eve blender (pid 11)"


def test_a_missing_image_is_a_pull() -> None:
    """Neither good nor bad; when it can't be asked, the reason is there."""
    there = {"img": {"n1": "sha256:" + "ab" * 32, "n2": "", "n3": Trouble("down", "docker does not answer")}}
    rows = check_hosts({f"n{i}": healthy(f"n{i}") for i in (1, 2, 3)}, images=there)
    row = next(row for row in rows if row.check.id == "image:img")
    assert [f.verdict for f in row.findings] == ["ok", "pull", "skip"]


def test_an_image_that_is_not_the_same_everywhere() -> None:
    """A name that was pushed again: the host that has the rare one is warned, with both ids."""
    ids = {"n1": "sha256:" + "ab" * 32, "n2": "sha256:" + "cd" * 32, "n3": "sha256:" + "ab" * 32}
    rows = check_hosts({host: healthy(host) for host in ids}, images={"img": ids})
    assert [f.verdict for row in rows if row.check.id == "image:img" for f in row.findings] == ["ok", "warn", "ok"]
    assert finding(rows, "image:img", "n2").saw == "cdcdcdcdcdcd here, abababababab elsewhere"


def test_who_reaches_whom_is_a_row_and_a_table() -> None:
    """The pair that fails stands in its cell and in words; a host that reaches all tells the slowest."""
    good, bad = Reached("", 0.21), Reached("timed out")
    table = {"n1": {"n2": good, "n3": good}, "n2": {"n1": good, "n3": bad}}
    report = ReachReport(
        (ReachProblem("n2", "n3", "timed out", "look", 0, "10.0.0.2", "fd00::3", 9),), 4, ("n3",), table, 3
    )
    row = reach_row(("n1", "n2", "n3"), report)
    assert [(f.host, f.verdict) for f in row.findings] == [("n1", "ok"), ("n2", "fail"), ("n3", "skip")]
    assert row.findings[0].saw == "reaches 2 others, slowest 0.2 ms"
    assert row.findings[1].saw == "can't reach n3 at [fd00::3]:9 from 10.0.0.2: timed out"
    assert reach_table(report, ("n1", "n2", "n3")).splitlines()[2:] == [
        "           1      2      3",
        "1  n1      .    0.2    0.2",
        "2  n2    0.2      .      x",
        "3  n3      ?      ?      .",
        "",
        "4 of 6 pairs tried, 3 of them reach each other",
        "x  n2: can't reach n3 at [fd00::3]:9 from 10.0.0.2: timed out",
        "     do  look",
        "?  not proved, for lack of python3: n3",
    ]


def test_hosts_that_can_not_reach_the_same_ones_are_one_finding() -> None:
    """64 hosts behind firewalls, or all but the one that nobody reaches, are one line of a report."""

    def saw(which: Iterable[tuple[int, int]]) -> list[tuple[int, str]]:
        problems = [
            ReachProblem(f"n{a}", f"n{b}", "timed out", "pin it", 0, f"10.0.0.{a}", f"10.0.0.{b}", 29500)
            for a, b in which
        ]
        row = reach_row([f"n{n}" for n in range(1, 65)], ReachReport(tuple(problems), 64 * 63, hosts=64))
        return [(len(s.hosts), s.saw) for s in shared_findings(row) if s.finding.verdict == "fail"]

    everybody = list(permutations(range(1, 65), 2))
    assert saw(everybody) == [(64, "can't reach any of the 63 others: timed out")]
    assert saw((a, b) for a, b in everybody if b == 7) == [(63, "can't reach n7 at 10.0.0.7:29500: timed out")]
    assert saw([(1, 2), (1, 3)]) == [(1, "can't reach n[2-3] from 10.0.0.1: timed out")]


def test_a_proof_over_many_hosts_asks_for_the_usual_port_where_it_is_free() -> None:
    """Two names of one machine share an address: only one of them can have the port."""
    nic = Nic("eth0", "ethernet", True, addresses=(Address("10.0.0.1", 24),))
    one = {name: healthy(name, nics=(nic,), ib=(), machine_id="m", boot_id="b") for name in ("n1", "n2")}
    ends = endpoints([Host(name) for name in one], one)
    assert [(end.addr, end.port) for end in ends] == [("10.0.0.1", 29500), ("10.0.0.1", 0)]
    other = Nic("eth0", "ethernet", True, addresses=(Address("10.0.0.3", 24),))
    two = {
        "n1": healthy(nics=(nic,), ib=()),
        "n2": healthy("n2", nics=(other,), ib=(), ports_in_use=frozenset({29500})),
    }
    ends = endpoints([Host(name) for name in two], two)
    assert [(end.addr, end.port) for end in ends] == [("10.0.0.1", 29500), ("10.0.0.3", 0)]


def test_equal_findings_of_many_hosts_are_reported_once() -> None:
    """With the hosts folded, what it means, what to do and what was run."""
    down = {f"n{i}": HostDown(f"n{i}", Trouble("refused", f"n{i} (10.0.0.{i}) refuses connections", f"ssh -v n{i}"))
            for i in range(1, 5)}  # fmt: skip
    assert report_text(check_hosts(down)).splitlines()[:4] == [
        "FAIL  n[1-4]  ssh login: refuses connections",
        "      means this host cannot be probed",
        "      do    ssh -v n1",
        "      ran   ssh, by your own configuration of it",
    ]


def test_json_has_every_finding() -> None:
    """`--json` is one value with a schema, counts and all findings."""
    value = json.loads(json.dumps(to_json(check_hosts({"n1": healthy(python3=None)}))))
    assert value["schema"] == "distui/doctor/v1"
    assert value["ok"] is True
    assert value["counts"]["warn"] == 1
    assert {"check", "group", "title", "host", "verdict", "saw", "means", "do", "ran"} == set(value["findings"][0])


def test_the_verb_ends_3_when_a_check_failed(cli: Any, fake_hosts: Any) -> None:
    """A dead host is a failed check; it is told with what to do, and as JSON."""
    fake_hosts()
    done = cli("doctor", "-H", "n1")
    assert done.code == 3
    assert "FAIL  n1  ssh login" in done.out
    assert json.loads(cli("doctor", "-H", "n1", "--json").out)["ok"] is False


IMAGES = {"img:1": {"n1": "sha256:a"}}
DATA = mount_rows((Mount("d", "path", "/d", "/d", "ro", False),), ("n1",), MountReport())


def test_every_check_can_be_named() -> None:
    """The names of --only and --skip are those of the rows, each once."""
    reach = ReachReport((), 2, (), {"n1": {"n2": Reached()}, "n2": {"n1": Reached()}})
    rows = check_hosts({"n1": healthy(), "n2": healthy()}, images=IMAGES, reach=reach, more=DATA)
    assert sorted(set(NAMES) - {"plan"}) == sorted(row.check.id.partition(":")[0] for row in rows)


@pytest.mark.parametrize(
    ("kind", "first"), [("docker", "docker system df; "), ("podman", "podman system df; "), ("none", "")]
)
def test_what_to_do_about_a_full_disk_is_for_the_engine_of_the_host(kind: Any, first: str) -> None:
    """One that runs processes has no client of any."""
    facts = healthy(disks=(Disk("/", GB, 900 * GB),), engine=Engine(kind))
    assert finding(check_hosts({"n1": facts}), "disk").do.startswith(f"{first}du -xh")


@pytest.mark.parametrize(
    ("only", "skip", "left"),
    [
        ((), ("clock,gpus", "image"), set(NAMES) - {"clock", "gpus", "image"}),
        (("disk", "gpu-heat"), (), {"login", "disk", "gpu_heat"}),
        (("disk,memory",), ("memory", "login"), {"disk"}),
    ],
)
def test_checks_are_chosen_by_name(only: tuple[str, ...], skip: tuple[str, ...], left: set[str]) -> None:
    """With --only the login is looked at all the same, unless it is skipped."""
    rows = check_hosts({"n1": healthy()}, images=IMAGES, more=DATA)
    found = {row.check.id.partition(":")[0] for row in choice(only, skip).of(rows)}
    assert found == left - {"reach", "plan"}


def test_a_check_of_no_name_is_refused_before_hosts_are_asked(cli: Any, fake_hosts: Any) -> None:
    """With the nearest name, and all of them; skipping all that --only names is refused too."""
    connector = fake_hosts()
    done = cli("doctor", "-H", "n1", "--only", "disc")
    assert (done.code, connector.asked) == (2, [])
    assert "--only disc: no check has that name, did you mean 'disk'?" in done.err
    assert "gpu_runtime" in done.err
    assert cli("doctor", "-H", "n1", "--only", "disk", "--skip", "disk").code == 2


def test_the_verb_shows_only_the_checks_wanted(cli: Any, fake_hosts: Any) -> None:
    """In the exit code, too: a host that does not answer fails in any case, unless the login is not looked at."""
    fake_hosts()
    found = json.loads(cli("doctor", "-H", "n1", "--only", "disk", "--json").out)["findings"]
    assert {f["check"] for f in found} == {"login", "disk"}
    assert cli("doctor", "-H", "n1", "--only", "disk").code == 3
    assert cli("doctor", "-H", "n1", "--skip", "login").code == 0


def test_every_reason_against_a_plan_is_a_finding() -> None:
    """What `plan JOB` refuses fails here, too: InfiniBand that the job requires and one host does not have up."""
    down = replace(healthy("n2"), ib=(IbPort("mlx5_0", 1, "DOWN", "InfiniBand", 400.0),))
    job = Job("j", image="i", command=("true",), fabric=Fabric(kind="ib", require="all"))
    inventory = Inventory((Host("n1"), Host("n2")))
    (row,) = plan_rows(job, inventory, inventory.hosts, {"n1": healthy("n1"), "n2": down}, named=False)
    assert row.verdict == "fail"
    assert any(f.host == "n2" for f in row.findings)
    (alone,) = plan_rows(
        replace(job, fabric=Fabric()), inventory, inventory.hosts[:1], {"n1": healthy("n1", home="/home/u")}, named=True
    )
    assert alone.verdict in ("ok", "warn")
    lost = HostDown("n2", Trouble("timeout", "n2: no answer", ""))
    (skipped,) = plan_rows(job, inventory, inventory.hosts, {"n1": healthy("n1"), "n2": lost}, named=False)
    assert skipped.verdict == "skip"
