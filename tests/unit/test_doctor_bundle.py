"""A report to pass on: what is in it, and what is not."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from distui.doctor.bundle import bundle, write_bundle
from distui.doctor.checks import check_hosts
from distui.doctor.reach import Reached, ReachReport
from distui.doctor.redact import Redactor
from distui.errors import UsageError
from distui.facts.host import Address, Gpu, GpuProcess, Gpus, HostDown, HostFacts, Nic, ProbeResult, Trouble
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


def test_the_verb_writes_it_even_when_hosts_are_down(cli: Any, fake_hosts: Any) -> None:
    """That is when it is needed; an existing file is refused before any host is asked."""
    connector = fake_hosts()
    done = cli("doctor", "-H", "n1", "--bundle", "b.tgz")
    assert done.code == 3
    assert "names, addresses and serial numbers are replaced" in done.err
    with tarfile.open("b.tgz") as tar:
        output = tar.extractfile("distui-doctor/report.txt")
        assert output is not None
        assert "FAIL  host1  ssh login" in output.read().decode()
    asked = len(connector.asked)
    assert cli("doctor", "-H", "n1", "--bundle", "b.tgz").code == 2
    assert len(connector.asked) == asked
    assert cli("doctor", "-H", "n1", "--include-identifiers").code == 2
