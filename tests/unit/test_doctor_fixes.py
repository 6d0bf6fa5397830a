"""The command for a finding: on which host, what it does, and how it is pasted."""

from __future__ import annotations

import dataclasses

import pytest

from distui.cluster.backend.backend_hosts import ssh_login
from distui.doctor.checks import check_hosts
from distui.doctor.finding import Finding
from distui.doctor.fixes import Fix, fix_of
from distui.facts.host import Disk, Engine, Gpu, GpuProcess, Gpus, HostDown, HostFacts, IbPort, Trouble
from distui.spec.hosts.inventory import Host

BASE = HostFacts("n1", "n1", os="Ubuntu 24.04", user="ubuntu", python3="3.12", clock_offset_ms=0.0, rtt_ms=1.0)
HOST = Host("n1")
SSH = ("ssh", "n1")


def fixed(facts: HostFacts, check: str, host: Host = HOST) -> Fix:
    """The fix of the one finding of a check on these facts."""
    rows = check_hosts({"n1": facts}, images={"env:1": {"n1": ""}})
    (finding,) = (f for row in rows for f in row.findings if f.check == check)
    fix = fix_of(finding, facts, host)
    assert fix is not None, finding
    return fix


def test_what_only_looks_may_be_run() -> None:
    """A look at ports, links and processes, of exactly what was found."""
    ports = (
        IbPort("mlx5_0", 1, "ACTIVE", "InfiniBand", 400.0, "ib0"),
        IbPort("mlx5_3", 1, "DOWN", "InfiniBand", 400.0, "ib0"),
    )
    process = GpuProcess(4711, "/usr/bin/python", 10, "GPU-0")
    facts = dataclasses.replace(
        BASE, ib=ports, ports_in_use=(29500,), gpu=Gpus((Gpu(0, "GPU-0", "H100", processes=(process,)),))
    )
    port, links, strangers = (fixed(facts, check) for check in ("port", "infiniband", "idle"))
    assert port.to_copy(SSH) == "ssh n1 'ss -ltnp '\"'\"'sport = :29500'\"'\"''"
    assert "/sys/class/infiniband/mlx5_3/ports/1/state" in links.words
    assert not any("mlx5_0" in word for word in links.words)
    assert strangers.words[-1] == "4711"
    ended = fix_of(Finding("idle", "n1", "warn"), BASE, HOST)
    assert ended is not None and ended.words[-1] == "-e"
    assert all(fix.safe and fix.effect == "looks" for fix in (port, links, strangers))


def test_what_needs_root_is_only_shown() -> None:
    """By the host's own packages, and for the login that is used."""
    missing = Engine("docker", ("docker",), problem=Trouble("engine_missing", "docker is not installed"))
    denied = Engine("docker", ("docker",), problem=Trouble("docker_permission", "may not"))
    far = dataclasses.replace(BASE, clock_offset_ms=9000.0, python3=None, engine=missing)
    assert fixed(far, "clock").words[:2] == ("sudo", "timedatectl")
    assert fixed(far, "python3").text == "sudo apt-get install python3"
    assert fixed(dataclasses.replace(far, os="Rocky Linux 9"), "python3").text == "sudo dnf install python3"
    assert fixed(far, "engine").text == "sudo apt-get install docker.io"
    assert fixed(dataclasses.replace(BASE, engine=denied), "engine").words[-1] == "ubuntu"
    assert not fixed(far, "clock").safe


@pytest.mark.parametrize("code", ["daemon_down", "docker_permission"])
def test_a_podman_that_fails_is_looked_at(code: str) -> None:
    """There is no service to start, and no group to join."""
    host = Host("n1", engine="podman", engine_command=("podman",))
    facts = dataclasses.replace(BASE, engine=Engine("podman", ("podman",), problem=Trouble(code, "it does not work")))
    assert fixed(facts, "engine", host).words == ("podman", "info")


def test_an_image_is_pulled_by_the_host_s_own_engine() -> None:
    """Safe, but not for one who may only look."""
    fix = fixed(BASE, "image:env:1", Host("n1", engine_command=("sudo", "-n", "docker")))
    assert fix.words == ("sudo", "-n", "docker", "pull", "env:1")
    assert (fix.safe, fix.effect) == (True, "pulls")


def test_a_host_that_does_not_answer_is_looked_at_from_here() -> None:
    """The command is not run on it."""
    down = HostDown("n1", Trouble("auth", "publickey refused"))
    (finding,) = (f for row in check_hosts({"n1": down}) for f in row.findings if f.check == "login")
    fix = fix_of(finding, down, HOST)
    assert fix is not None
    assert fix.to_copy(SSH) == "ssh -v n1"
    assert not fix.safe


def test_it_is_looked_at_where_its_hosts_yaml_leads() -> None:
    """Of a host from an inventory ssh knows no address; a host of the demo has a shell instead of ssh."""
    host = Host("web1", addr="10.0.0.7", port=2222, user="ubuntu")
    down = HostDown("web1", Trouble("auth", "publickey refused"))
    (finding,) = (f for row in check_hosts({"web1": down}) for f in row.findings if f.check == "login")
    fix = fix_of(finding, down, host)
    assert fix is not None
    assert fix.to_copy(ssh_login(host)) == "ssh -v -p 2222 -l ubuntu -o HostName=10.0.0.7 -- web1"
    assert fix.to_copy(("/bin/sh", "-i")) == "/bin/sh -i"


@pytest.mark.parametrize("hca", ["../../etc", "..", "mlx5 0", "-x", "$(id)"])
def test_names_of_hosts_make_no_other_path(hca: str) -> None:
    """What a host calls its cards is not believed."""
    fix = fixed(dataclasses.replace(BASE, ib=(IbPort(hca, 1, "DOWN", "InfiniBand", 400.0, "ib0"),)), "infiniband")
    assert fix.words == ("ibstat",)


def test_what_is_well_needs_no_fix() -> None:
    """Nor does what could not be checked."""
    for verdict in ("ok", "skip"):
        assert fix_of(Finding("clock", "n1", verdict), BASE, HOST) is None  # type: ignore[arg-type]


def test_distui_is_not_warned_of_what_it_does_itself() -> None:
    """The port that its proof listens on, processes of its own runs, a clock that is as far off as the way takes."""
    process = GpuProcess(4711, "python", 10, "GPU-0")
    facts = dataclasses.replace(
        BASE, ports_in_use=(29500,), gpu=Gpus((Gpu(0, "GPU-0", "H100", processes=(process,)),)),
        clock_offset_ms=300.0, rtt_ms=400.0, disks=(Disk("/", 900 << 30, 1000 << 30),),
    )  # fmt: skip

    def warned(**own: object) -> set[str]:
        rows = check_hosts({"n1": facts}, **own)  # type: ignore[arg-type]
        return {f.check for row in rows for f in row.findings if f.verdict in ("warn", "fail")} & {
            "port",
            "idle",
            "clock",
        }

    assert warned() == {"port", "idle"}
    assert warned(proving=("n1",)) == {"idle"}
    assert warned(given={"n1": {0}}) == {"port"}
    assert warned(given={"n1": {1}}) == {"port", "idle"}
