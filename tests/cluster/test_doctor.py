"""Doctor on real hosts: a firewall is found by proof, an all-reduce crosses the wire, and nothing is left of it."""

from __future__ import annotations

import json
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.cluster

Distui = Callable[..., subprocess.CompletedProcess[str]]

JOB = """
version: 1
name: smoke
hosts: h[1-3]
image: lab/pytorch:1
gpus_per_host: 0
command: [python3, train.py]
"""


def findings(done: subprocess.CompletedProcess[str], check: str) -> dict[str, Any]:
    """Host -> its finding of one check."""
    return {f["host"]: f for f in json.loads(done.stdout)["findings"] if f["check"] == check}


def test_a_firewall_is_found_by_proof(lab: Any, home: Path, distui: Distui, tmp_path: Path) -> None:
    """Every way through it fails, the others do not; the bundle has the table, without names."""
    lab.host("h2").fault("cutport", "29500")
    try:
        done = distui("doctor", "--json", "--bundle", str(tmp_path / "b.tgz"))
    finally:
        lab.host("h2").heal()

    assert done.returncode == 3, done.stdout + done.stderr
    found = findings(done, "reach")
    assert {host: f["verdict"] for host, f in found.items()} == dict.fromkeys(("h1", "h2", "h3"), "fail")
    assert "can't reach h2 at 10." in found["h1"]["saw"]
    assert found["h1"]["saw"] == found["h3"]["saw"]
    assert "can't reach any of the 2 others: " in found["h2"]["saw"]
    assert ":29500" in found["h1"]["saw"]
    with tarfile.open(tmp_path / "b.tgz") as tar:
        member = tar.extractfile("distui-doctor/reach.txt")
        assert member is not None
        text = member.read().decode()
    assert "host[1,3]: can't reach host2 at addr" in text
    assert "10.7" not in text


def test_an_all_reduce_crosses_the_wire_and_leaves_nothing(lab: Any, home: Path, distui: Distui) -> None:
    """Three pairs in containers; every host tells speed and network of both its pairs."""
    (home / "smoke.yaml").write_text(JOB)
    done = distui("doctor", "--smoke", "--job", "smoke.yaml", "-y", "--json")

    found = findings(done, "smoke")
    assert {host: f["verdict"] for host, f in found.items()} == {"h1": "ok", "h2": "ok", "h3": "ok"}, done.stderr
    assert found["h1"]["saw"].count("8 MB in ") == 2
    assert "by gloo over ib0 ib" in found["h1"]["saw"]
    assert [left for host in lab.hosts for left in host.leftovers()] == []
