"""`distui probe` on real hosts: every fact right, every trouble in words, and no host disturbed by another's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.cluster

Probe = Callable[..., dict[str, dict[str, Any]]]


@pytest.fixture
def probe(lab: Any, home: Path) -> Probe:
    """`distui probe --json`: each host's object by name; `code` is the exit code expected."""

    def call(*args: str, code: int = 0) -> dict[str, dict[str, Any]]:
        done = lab.distui("probe", "--json", *args, home=home)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        document = json.loads(done.stdout)
        assert document["schema"] == "distui/probe/v1"
        return {host["name"]: host for host in document["hosts"]}

    return call


def logins(home: Path, users: Sequence[str]) -> None:
    """Log in to h1, h2 ... as these users, by ~/.ssh/config."""
    config = home / ".ssh/config"
    own = "".join(f"Host h{i}\n  User {user}\n\n" for i, user in enumerate(users, 1))
    config.write_text(own + config.read_text())


@contextmanager
def shell_of(host: Any, user: str, shell: str) -> Iterator[None]:
    """Give a login another shell for a while."""
    before = host.out("sh", "-c", f"getent passwd {user} | cut -d: -f7")
    host.exec("usermod", "-s", shell, user)
    try:
        yield
    finally:
        host.exec("usermod", "-s", before, user)


def test_all_facts_are_right(lab: Any, probe: Probe) -> None:
    """What the probe says of a host is what the host is."""
    began = time.monotonic()
    found = probe()
    took_ms = 1000 * (time.monotonic() - began)
    assert list(found) == ["h1", "h2", "h3"]
    for host in lab.hosts:
        facts = found[host.name]
        assert (facts["state"], facts["hostname"], facts["user"], facts["uid"]) == ("up", host.name, "root", 0)
        assert facts["kernel"] == host.out("uname", "-r")
        assert (facts["cpus"], facts["arch"]) == (os.cpu_count(), os.uname().machine)
        total = int(host.out("sh", "-c", "awk '/MemTotal/ {print $2}' /proc/meminfo"))
        assert facts["memory_mib"] == total // 1024
        assert 0 < facts["memory_available_mib"] <= facts["memory_mib"]
        assert abs(facts["clock_offset_ms"]) < (50 if took_ms < 2000 else took_ms)  # who waits for seconds can't tell
        assert 0 < facts["rtt_ms"] < took_ms
        assert facts["boot_id"]
        assert facts["machine_id"] == host.out("cat", "/etc/machine-id")
        assert facts["python3"].startswith("3.")
        assert 22 in facts["ports_in_use"]
    assert len({facts["machine_id"] for facts in found.values()}) == 3


def test_networks_are_right(lab: Any, probe: Probe) -> None:
    """Addresses, interfaces and InfiniBand ports; docker0 is there and is no data network."""
    for host in lab.hosts:
        facts = probe(host.name)[host.name]
        nics = {nic["name"]: nic for nic in facts["nics"]}
        assert facts["addrs"] == [host.eth, host.ib]
        eth, ib = nics["eth0"], nics["ib0"]
        assert (eth["kind"], eth["up"], eth["ipv4"]) == ("ethernet", True, [f"{host.eth}/24"])
        assert eth["mtu"] == int(host.out("cat", "/sys/class/net/eth0/mtu"))
        assert (ib["kind"], ib["up"], ib["ipv4"]) == ("infiniband", True, [f"{host.ib}/24"])
        assert nics["docker0"]["kind"] == "container"
        (port,) = facts["ib"]
        assert port == {
            "hca": "mlx5_0",
            "port": 1,
            "state": "ACTIVE",
            "gbps": 200.0,
            "link_layer": "InfiniBand",
            "netdev": "ib0",
        }


def test_gpus_engine_and_disks_are_right(lab: Any, probe: Probe) -> None:
    """GPUs as nvidia-smi tells them, Docker with its version and NVIDIA runtime, free space of the root."""
    lab.host("h2").fault("gpu-used", "0", "40000")
    found = probe()
    for host in lab.hosts:
        facts = found[host.name]
        listed = host.out("nvidia-smi", "--query-gpu=index,uuid,name,memory.total", "--format=csv,noheader,nounits")
        output = [[str(g["index"]), g["uuid"], g["name"], str(g["mem_mib"])] for g in facts["gpus"]]
        assert output == [[cell.strip() for cell in line.split(",")] for line in listed.splitlines()]
        assert len(output) == 2
        assert all(g["driver"] and g["temp_c"] and g["power_w"] and g["mig"] is False for g in facts["gpus"])
        engine = facts["docker"]
        assert engine["version"] == host.out("docker", "version", "-f", "{{.Server.Version}}")
        assert (engine["engine"], engine["nvidia_runtime"], engine["problem"]) == ("docker", True, None)
        assert engine["socket"] == "/var/run/docker.sock"
        assert 0 < facts["disks"][0]["free"] <= facts["disks"][0]["total"]
    used = found["h2"]["gpus"][0]
    assert used["mem_used_mib"] >= 40000
    assert used["util_pct"] > 0
    assert [p["mem_mib"] for p in used["processes"]] == [40000]
    assert found["h1"]["gpus"][0]["processes"] == []


def test_hosts_that_cannot_be_reached_keep_their_rows(lab: Any, probe: Probe) -> None:
    """A host that is down, one with a new key: exit 3, each with code, words and hint; the third is untouched."""
    lab.host("h1").fault("ssh-down")
    lab.host("h2").fault("ssh-hostkey")
    found = probe(code=3)

    assert [found[h]["state"] for h in ("h1", "h2", "h3")] == ["down", "down", "up"]
    down, changed = found["h1"]["error"], found["h2"]["error"]
    assert down["code"] == "refused"
    assert "10.77.0.11" in down["message"]
    assert "port 22" in down["message"]
    assert changed["code"] == "host_key_changed"
    assert "HAS CHANGED" in changed["message"]
    assert "ssh-keygen -R" in changed["hint"]
    assert probe("--fail-on", "all")["h3"]["state"] == "up"


def test_refused_keys_and_logins_that_run_nothing(lab: Any, home: Path, probe: Probe) -> None:
    """A key nobody takes, a shell that ends at once, and one that prints for ever keep their rows and end."""
    logins(home, ["root", "noisy", "noisy"])
    lab.host("h1").fault("ssh-deny")
    rubbish = lab.share / "rubbish"
    rubbish.write_text("#!/bin/sh\necho 'Maintenance today. Come back tomorrow.'\nexit 0\n")
    rubbish.chmod(0o755)
    h2, h3 = lab.host("h2"), lab.host("h3")
    with shell_of(h2, "noisy", "/usr/sbin/nologin"), shell_of(h3, "noisy", "/mnt/pytorch/rubbish"):
        found = probe(code=3)
    rubbish.unlink()

    refused, nologin, printed = (found[h]["error"] for h in ("h1", "h2", "h3"))
    assert refused["code"] == "auth"
    assert "refuses the login as root" in refused["message"]
    assert "ssh-copy-id " in refused["hint"] and " h1;" in refused["hint"]
    assert "This account is currently not available" in nologin["message"]
    assert "Maintenance today" in printed["message"]
    assert all(e["hint"] for e in (refused, nologin, printed))


def test_hanging_parts_of_a_host(lab: Any, probe: Probe) -> None:
    """A silent sshd is down after the time given; a hung dockerd or driver costs only its own fact."""
    lab.host("h1").fault("ssh-hang")
    lab.host("h2").fault("docker-hang")
    lab.host("h3").fault("gpu-hang")
    found = probe("--connect-timeout", "20s", code=3)

    assert found["h1"]["error"]["code"] == "timeout"
    assert "within 20 s" in found["h1"]["error"]["message"]
    engine = found["h2"]
    assert (engine["state"], engine["docker"]["problem"]["code"]) == ("up", "engine_timeout")
    assert len(engine["gpus"]) == 2
    driver = found["h3"]
    assert driver["state"] == "up"
    assert driver["gpus"] == []
    assert driver["docker"]["problem"] is None
    assert "nvidia-smi does not answer" in json.dumps(driver)


def test_login_shells_change_nothing(lab: Any, home: Path, probe: Probe) -> None:
    """fish, csh, and a bash that is slow and talks on login give the same facts as root's."""
    plain = probe()
    logins(home, ["fishy", "cshy", "noisy"])
    found = probe()

    assert [found[h]["user"] for h in found] == ["fishy", "cshy", "noisy"]
    for name, facts in found.items():
        for key in ("state", "hostname", "kernel", "addrs", "ib", "cpus", "machine_id", "memory_mib"):
            assert facts[key] == plain[name][key], key
        assert [n["name"] for n in facts["nics"]] == [n["name"] for n in plain[name]["nics"]]
        assert [g["uuid"] for g in facts["gpus"]] == [g["uuid"] for g in plain[name]["gpus"]]


def test_who_may_use_the_engine(lab: Any, home: Path, probe: Probe) -> None:
    """Group docker is enough; without it the trouble is named with its cure, and everything else is there."""
    logins(home, ["trainer", "nodocker"])
    found = probe()

    assert found["h1"]["docker"]["problem"] is None
    assert found["h1"]["docker"]["version"]
    trouble = found["h2"]["docker"]["problem"]
    assert trouble["code"] == "docker_permission"
    assert "usermod -aG docker" in trouble["hint"]
    assert len(found["h2"]["gpus"]) == 2


def test_broken_gpus_in_words(lab: Any, probe: Probe) -> None:
    """A lost GPU, a driver that differs from its library, no driver: said of that host, which is up."""
    lab.host("h1").fault("gpu-lost", "1")
    lab.host("h2").fault("gpu-mismatch")
    lab.host("h3").fault("gpu-nodriver")
    found = probe()

    assert [g["problem"] is None for g in found["h1"]["gpus"]] == [True, False]
    assert "lost" in found["h1"]["gpus"][1]["problem"]["message"]
    assert "different versions" in json.dumps(found["h2"])
    assert "driver is not loaded" in json.dumps(found["h3"])


def test_hosts_without_gpus_or_docker(lab: Any, probe: Probe) -> None:
    """No GPU is no trouble; a missing Docker and one that is down are."""
    lab.host("h1").fault("gpu-gone")
    lab.host("h2").fault("docker-gone")
    lab.host("h3").fault("docker-kill")
    lab.host("h3").fault("ib-down")
    found = probe()

    assert found["h1"]["gpus"] == []
    assert found["h1"]["docker"]["problem"] is None
    assert found["h2"]["docker"]["problem"]["code"] == "engine_missing"
    assert "podman" in found["h2"]["docker"]["problem"]["hint"]
    assert found["h3"]["docker"]["problem"]["code"] == "daemon_down"
    assert found["h3"]["ib"][0]["state"] == "DOWN"


def test_the_table_fits_a_terminal(lab: Any, home: Path) -> None:
    """Rows of 80 columns; what is wrong stands below its host; the rest on stderr."""
    lab.host("h1").fault("gpu-lost", "1")
    lab.host("h2").fault("ssh-down")
    done = lab.distui("probe", home=home)

    assert done.returncode == 3
    header, *lines = done.stdout.splitlines()
    assert header.split() == ["NAME", "STATE", "GPU", "NET", "IB", "ENGINE", "DISK"]
    rows = {line.split()[0]: line for line in lines if not line.startswith(" ")}
    assert all(len(rows[h]) <= 80 for h in ("h1", "h3"))
    assert rows["h1"].split()[3] == "1xH100-80GB+1!"
    assert rows["h2"].split()[1:4] == ["down", "10.77.0.12", "refuses"]
    assert [line.index("docker") for line in (rows["h1"], rows["h3"])] == [header.index("ENGINE")] * 2
    below = {line.strip()[:7] for line in lines if line.startswith(" ")}
    assert below == {"! GPU 1", "try: st"}
    assert "3 hosts, 2 up, 1 down" in done.stderr


def test_watch_repeats_until_interrupted(lab: Any, home: Path) -> None:
    """`--watch` asks again and again, and Ctrl-C ends it at once without a trace."""
    with lab.spawn_distui("probe", "h1", "--watch", "0.5s", "-o", "ndjson", home=home) as program:
        rounds = [json.loads(program.stdout.readline()) for _ in range(3)]
        program.send_signal(signal.SIGINT)
        done: subprocess.CompletedProcess[str] = program.finish()

    assert [r["state"] for r in rounds] == ["up"] * 3
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
