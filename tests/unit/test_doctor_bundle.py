"""A report to pass on: what is in it, and what is not."""

from __future__ import annotations

import importlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from distui.doctor.bundle import bundle, write_bundle
from distui.doctor.checks import check_hosts
from distui.doctor.reach import Reached, ReachReport
from distui.doctor.redact import Redactor, SshNames
from distui.errors import HostAuthError, UsageError
from distui.facts.host import Address, Gpu, GpuProcess, Gpus, HostDown, HostFacts, Nic, ProbeResult, Trouble
from distui.remote.pool import SshConnector
from distui.spec.hosts.inventory import Host

HOSTS = (Host("node01", addr="10.0.0.1", user="amy"), Host("node02.corp.example"))
RESULTS: dict[str, ProbeResult] = {
    "node01": HostFacts(
        "node01", "node01-int.corp.example", user="amy", home="/home/amy", machine_id="0" * 31 + "a",
        nics=(Nic("eno1", "ethernet", True, mac="de:ad:be:ef:00:01",
                  addresses=(Address("10.0.0.1", 24), Address("fe80::dcad:beff:feef:1", 64, "link"))),),
        gpu=Gpus((Gpu(0, "GPU-12345678-1234-1234-1234-123456789abc", "H100",
                      processes=(GpuProcess(7, "python", 1, user="mallory"),)),)),
    ),
    "node02.corp.example": HostDown(
        "node02.corp.example", Trouble("auth", "node02.corp.example refuses amy@10.0.0.2", "ssh -v node02.corp.example")
    ),
}  # fmt: skip
SECRET = ("node01", "node02", "corp.example", "amy", "mallory", "10.0.0.1", "10.0.0.2", "fe80::dcad", "de:ad:be:ef",
          "12345678-1234", "0" * 31 + "a")  # fmt: skip


def made(*, redact: bool) -> dict[str, bytes]:
    rows = check_hosts(RESULTS)
    report = ReachReport((), 2, (), {"node01": {"node02.corp.example": Reached("", 0.2)}})
    redactor = Redactor(HOSTS, RESULTS, more_users=("me", "laptop")) if redact else None
    return bundle(rows, RESULTS, report, version="1.2.3", redactor=redactor)


def test_nothing_of_anybody_is_in_it() -> None:
    """Neither in texts nor in JSON, keys included; equal things keep one name, versions and loopback stay."""
    files = made(redact=True)
    assert set(files) == {"about.txt", "doctor.json", "probe.json", "reach.txt", "report.txt"}
    for name, data in files.items():
        for word in SECRET:
            assert word not in data.decode(), (name, word)
    assert json.loads(files["probe.json"])["hosts"][1]["name"] == "host2"
    assert "host2 refuses user1@addr" in files["report.txt"].decode()
    assert "distui 1.2.3" in files["about.txt"].decode()
    assert Redactor((), {}).text("127.0.0.1 ::1 driver 550.90.07 12:30:45") == "127.0.0.1 ::1 driver 550.90.07 12:30:45"


def test_with_identifiers_all_stays() -> None:
    """For those who ask for it."""
    text = b"".join(made(redact=False).values()).decode()
    assert all(word in text for word in ("node01", "10.0.0.1", "mallory"))


def test_it_is_a_tar_that_is_never_written_over(tmp_path: Path) -> None:
    """One folder, the files in it."""
    path = tmp_path / "b.tgz"
    write_bundle(path, {"a.txt": b"hello"}, at=0)
    with tarfile.open(fileobj=io.BytesIO(path.read_bytes())) as tar:
        assert tar.getnames() == ["distui-doctor/a.txt"]
    with pytest.raises(UsageError, match="exists"):
        write_bundle(path, {}, at=0)


SSH_CONFIG = """\
Host host1
  HostName gpu-17.lab.acme-corp.com
  Port 2222
  User svc-train
  ProxyJump ops@hop
  IdentityFile ~/.ssh/acme_prod
  HostKeyAlias seventeen
Host hop
  HostName bastion.acme-corp.com
  User jumper
"""
OF_ACME = ("acme", "gpu-17", "svc-train", "seventeen", "bastion", "jumper", "alice", "ops", "hop ", "harbor", "laptop")


def test_nothing_of_a_host_that_is_down_either(cli: Any, fake_hosts: Any, home: Path) -> None:
    """What is known of it stands in messages only: names of ~/.ssh/config, keys, domains, registries."""
    (home / ".ssh").mkdir(exist_ok=True)
    (home / ".ssh/config").write_text(SSH_CONFIG)
    key, seen = home / ".ssh/acme_prod", f"SHA256:{'aB3/' * 10}xyz"
    login = f"refuses the login as svc-train; keys tried: {key}, laptop of Alice (agent), alice@acme (agent)"
    words = (
        f"host1 (gpu-17.lab.acme-corp.com:2222) {login}; the jump host ops@hop (bastion.acme-corp.com, jumper@hop) says"
        f" {seen} of [seventeen]:2222, [GPU-17.Lab.Acme-Corp.com]; gpu-17 asked ns1.dns.acme.example and alice@acme; no"
        " registry.acme.io/ml/train:1, harbor:5000/ml/train:1"
    )
    fake_hosts(host1=HostAuthError("host1", words, hint=f"ssh-keygen -R '[seventeen]:2222' -f {key}"))
    connecting = importlib.import_module("distui.cluster.hosts.connecting")
    resolver = SshConnector((Host("host1"),), home=home, system=False)
    connecting.make_connector(None, ()).resolve = resolver.resolve
    assert cli("doctor", "-H", "host1", "--bundle", "b.tgz").code == 3
    with tarfile.open("b.tgz") as tar:
        files = {name: tar.extractfile(name).read().decode() for name in tar.getnames()}  # type: ignore[union-attr]
    for name, text in files.items():
        for word in OF_ACME:
            assert word not in text.lower(), (name, word)
    report = files["distui-doctor/report.txt"]
    assert "host1 (host1:2222) refuses the login as user" in report
    assert "jump host user" in report and "host1 asked name" in report and "docker.io" not in report


def test_what_only_looks_like_a_name_stays() -> None:
    """Files, units of systemd, figures, digests, versions, and what everybody uses."""
    text = (
        "libnvidia-ml.so libcuda.so.1 hosts.yaml /etc/docker/daemon.json ~/.ssh/config nvidia-fabricmanager.service "
        "user@1000.service temperature.gpu clocks_event_reasons.active fabric.ifname distui.run.name 24.0.7 "
        "6.8.0-45-generic docker.io nvcr.io/nvidia/pytorch:25.01-py3 img@sha256:abc localhost:5000/x git@github.com:a "
        "root@localhost e.g. 12:30:45 torch.distributed mig.mode.current x.h"
    )
    assert Redactor((), {}).text(text) == text


@pytest.mark.parametrize(
    ("text", "without"),
    [
        ("ops@login1.hpc refuses", "user1@name1 refuses"),
        ("keys tried: cardno:000612345678 (agent), alice (work) (agent)", "keys tried: key1 (agent), key2 (agent)"),
        ("git and ubuntu answer; so does rocky", "host1 and ubuntu answer; so does rocky"),
        (
            "filer:/exports is reached: can't reach NFS server filer at",
            "name1:/exports is reached: can't reach NFS server name1 at",
        ),
        (
            "s3://acme-sets/x/ oss://acme-sets file:///x/ PATH=/bin:/usr ls:1",
            "s3://name1/x/ oss://name1 file:///x/ PATH=/bin:/usr ls:1",
        ),
        (
            "http://files/a.tar https://minio:9000 https://bob@files/x http://localhost/ https://github.com/x",
            "http://name1/a.tar https://name2:9000 https://user1@name1/x http://localhost/ https://github.com/x",
        ),
        (
            "s3://acme.sets/x/a.json http://proxy.acme1:3128 https://ghcr.io/x https://lib.so/x proxy.acme1 a.b tcp://127.0.0.1:5",
            "s3://name1/x/a.json http://name2:3128 https://ghcr.io/x https://lib.so/x proxy.acme1 a.b tcp://127.0.0.1:5",
        ),
    ],
)
def test_logins_keys_of_cards_and_hosts_with_common_names_are_replaced(text: str, without: str) -> None:
    """A name of two parts behind an @, any comment of an agent's key, a host that is called as many users are."""
    assert Redactor((Host("git"),), {}).text(text) == without


@pytest.mark.parametrize(
    ("text", "without"),
    [
        ("FAIL  gpu[07-09]  ssh login", "FAIL  host[1-3]  ssh login"),
        ("gpu[07,09],gw.corp.example: down", "host[1,3],host4: down"),
        ("not on gpu[07-09].", "not on host[1-3]."),
        ("ssh amy@gpu[07-08]", "ssh user1@host[1-2]"),
        ("gpu[07-08].corp.example and x[1-2].corp.example", "name[1-2] and name[3-4]"),
        ("argv[1], x[9-1] and x[1-2]", "argv[1], x[9-1] and x[1-2]"),
    ],
)
def test_hosts_that_are_written_as_one_are_replaced(text: str, without: str) -> None:
    """A check that several have alike, whoever can't reach the same one."""
    hosts = tuple(Host(name) for name in ("gpu07", "gpu08", "gpu09", "gw.corp.example"))
    assert Redactor(hosts, {}).text(text) == without


def test_equal_names_are_one_and_different_ones_are_not() -> None:
    """Whatever their case, and whether they were known before."""
    known = {"n": SshNames(hosts=("a1.corp.example",), jumps=("b.corp.example",), users=("amy",))}
    text = Redactor((Host("n"),), {}, ssh=known).text
    assert text("n a1.corp.example a1 B.corp.example amy@c.corp.example bob@C.corp.example") == (
        "host1 host1 host1 jump1 user1@name1 user2@name1"
    )


def test_the_verb_writes_it_even_when_hosts_are_down(cli: Any, fake_hosts: Any) -> None:
    """That is when it is needed; an existing file is refused before any host is asked."""
    connector = fake_hosts()
    done = cli("doctor", "-H", "n1", "--bundle", "b.tgz")
    assert done.code == 3
    assert "names, addresses and serial numbers that are known or look like one are replaced" in done.err
    with tarfile.open("b.tgz") as tar:
        output = tar.extractfile("distui-doctor/report.txt")
        assert output is not None
        assert "FAIL  host1  ssh login" in output.read().decode()
    asked = len(connector.asked)
    assert cli("doctor", "-H", "n1", "--bundle", "b.tgz").code == 2
    assert len(connector.asked) == asked
    assert cli("doctor", "-H", "n1", "--include-identifiers").code == 2
