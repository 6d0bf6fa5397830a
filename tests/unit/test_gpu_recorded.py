"""What a real NVIDIA H200 and NCCL 2.28.9 answered, recorded by `make test-gpu`: each parse, beside the figures in it.

Driver 580.159.04, torch 2.11.0 with CUDA 13.0, 2026-11-26; the GPU's uuid is zeros here.
"""

from __future__ import annotations

from pathlib import Path

from distui.agent.gpu_query import UNKNOWN, xid_of
from distui.agent.helper.gpus import Query
from distui.facts.gpus import gpu, throttle, xid
from distui.runs.insight.hang.ras.report import read_report
from distui.runs.state.samples import Sampler

FOLDER = Path(__file__).parents[1] / "data/gpu"


def read(name: str) -> str:
    """A recording."""
    return (FOLDER / name).read_text()


def test_a_probe_s_table() -> None:
    """At rest."""
    (found,) = gpu.parse_query(read("h200_probe.csv"))
    assert (found.index, found.name, found.pci) == (0, "NVIDIA H200", "00000000:00:06.0")
    assert (found.memory_total_mib, found.memory_used_mib, found.utilization_pct) == (143771, 0, 0.0)
    assert (found.temperature_c, found.power_w, found.driver, found.mig) == (34.0, 78.14, "580.159.04", False)


def test_a_sample_while_matrices_are_multiplied() -> None:
    """At 607 of 700 W it is held at less than its highest clock, and says why."""
    query = Query()
    query.keep(read("h200_busy.csv").strip())
    base = {"wall": 1000.0, "boot": 50.0, "cpu": [1, 2], "load": "", "memory": ["", ""], "net": {}, "ib": {}, "amd": []}
    gpus = {"pcie": {}, "xid": None, **query.report()}
    (found,) = Sampler().take({**base, "disks": {}, "gpus": gpus}).gpus
    assert (found.utilization_pct, found.memory_used_mib, found.temperature_c) == (99.0, 1101, 55.0)
    assert (found.power_w, found.power_limit_w, found.sm_mhz) == (606.89, 700.0, 1740)
    assert throttle.words(found.throttle) == ("its power limit",)
    assert found.slowdown_c == 87.0


def test_a_field_that_the_driver_does_not_know() -> None:
    """It is named, with exit status 2."""
    refused = UNKNOWN.search(read("h200_refused_field.txt"))
    assert refused is not None and refused.group(1) == "temperature.nonsense"


def test_xids_of_programs() -> None:
    """A device assert, and a kernel that wrote to nowhere: both are their programs' doing."""
    found = [xid_of(line) for line in read("h200_xids.txt").splitlines()]
    assert [one[:2] for one in found if one is not None] == [["0000:00:06", 43], ["0000:00:06", 31]]
    assert all(one is not None and xid.of_program(one[1]) and xid.words(one[1]) for one in found)


def test_nccl_s_status_of_two_ranks() -> None:
    """One has launched 51 all_reduces and waits in the 21st, the other one has launched 20."""
    found = read_report(read("nccl_2.28.9_two_ranks.json"))
    assert found is not None
    (one,) = found.communicators
    assert (one.size, one.launched["AllReduce"]) == (2, {0: 51, 1: 20})
    assert (one.absent, one.failed) == ({}, {})


def test_nccl_s_status_as_text() -> None:
    """Of one rank; its protocol's line comes before the report."""
    protocol, _, text = read("nccl_2.28.9_status.txt").partition("\n")
    found = read_report(text)
    assert protocol == "SERVER PROTOCOL 2"
    assert found is not None and found.version == "2.28.9"
