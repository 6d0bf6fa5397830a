"""GPUs once a second: what the helper on the host keeps of NVIDIA's programs, and what is read of it."""

from __future__ import annotations

import select
from pathlib import Path
from typing import Any

import pytest

from distui.agent import gpu_query, metrics
from distui.agent.helper import gpus as helper_gpus
from distui.agent.helper.gpus import FIELDS, KernelLog, Pcie, Query
from distui.facts.gpus import throttle
from distui.runs.lines.events import GpuReading
from distui.runs.state.samples import Sample, Sampler, host_sampled

ROW = "0, GPU-a, 97, 77900, 81559, 84, 641.20, 00000000:0B:00.0, 1320, 700.00, 3, 0x0000000000000020, 2"


def sample_of(query: Query, **gpus: Any) -> dict[str, Any]:
    """One M frame of a host that has only GPUs."""
    base = {"wall": 1000.0, "boot": 50.0, "cpu": [1, 2], "load": "", "memory": ["", ""], "net": {}, "ib": {}, "amd": []}
    return {**base, "disks": {}, "gpus": {"pcie": {}, "xid": None, **query.report(), **gpus}}


def queried(*lines: str) -> Query:
    query = Query()
    for line in lines:
        query.keep(line)
    return query


def test_every_figure_of_a_gpu() -> None:
    """By the names of fields; slowdown is where the margin ends; PCIe in bytes; XIDs are matched by address."""
    sample = Sampler().take(sample_of(queried(ROW), pcie={"0": ["120", "-"]}, xid={"0000:0b:00": [79, 20.0]}))
    assert sample.gpus == (
        GpuReading(
            0, 97.0, 77900, 81559, 84.0, 641.2, 700.0, 1320, 120e6, None, 2, 0x20, 87.0, xid=79, xid_at=970.0
        ),
    )  # fmt: skip
    (shown,) = host_sampled(5.0, "h1", sample).gpus
    assert shown.xid_at == -25.0, "on our clock: it was 30 s before the sample"


def test_unknown_is_none_and_rows_are_in_order() -> None:
    """`[N/A]`, `[Not Supported]`, `ERR!` and dmon's `-` are not 0; a row that was cut is no row."""
    unknown = ", [N/A]" * 4 + ", ERR!" + ", [Not Supported]" * 6
    query = queried(f"10, GPU-b{unknown}", "2, GPU-a" + ", [N/A]" * 11, "3, GPU-c, 5", "Unable to determine")
    sample = Sampler().take(sample_of(query, pcie={"10": ["-", "-"]}))
    assert sample.gpus == (GpuReading(2), GpuReading(10))


@pytest.mark.parametrize(
    ("field", "left"),
    [
        ("temperature.gpu.tlimit", [f for f in FIELDS if f != "temperature.gpu.tlimit"]),
        ("clocks_event_reasons.active", [f.replace("clocks_event", "clocks_throttle") for f in FIELDS]),
        ("something else", list(FIELDS)),
    ],
)
def test_an_old_driver_is_asked_without_the_field_it_does_not_know(field: str, left: list[str]) -> None:
    """Or by the older name; what nobody asked for changes nothing."""
    query = queried(f'Field "{field}" is not a valid field to query.', "")
    assert query.fields == left
    assert f"--query-gpu={','.join(left)}" in query.argv("nvidia-smi")


def test_asking_again_is_no_failure_and_waits_for_nothing() -> None:
    """Another end of the program is told, and waited after."""
    query = queried('Field "clocks.sm" is not a valid field to query.')
    query.next_try = 99.0
    query.ended({"stderr": "", "status": 2})
    assert (query.next_try, query.said) == (0.0, "")
    query.next_try = 99.0
    query.ended({"stderr": "NVML gone", "status": 3})
    assert (query.next_try, query.said) == (99.0, "NVML gone")


def live(query: Query) -> dict[str, Any]:
    """Runs its program once, as the helper on the host does, to its end or its first row; what is reported then."""
    child = query.start(query.next_try)
    assert child is not None
    try:
        while query.ready() != -1 and not query.rows:
            assert select.select([child.out], [], [], 60)[0]
        return query.report()
    finally:
        query.ended(child.close())


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_figures_come_from_a_driver_that_refuses_two_fields(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: str
) -> None:
    """A program that exits with 2 and names one unknown field at a time: asked a third time it answers."""
    refused = ("power.limit", "ecc.errors.uncorrected.volatile.total")
    (tmp_path / "nvidia-smi").write_text(
        f"""#!/usr/bin/env python3
import sys
fields = sys.argv[1].split("=")[1].split(",")
for field in fields:
    if field in {refused!r}:
        print('Field "%s" is not a valid field to query.' % field, file=sys.{stream})
        sys.exit(2)
cells = dict(zip({FIELDS!r}, {ROW!r}.split(", ")))
print(", ".join(cells[f] for f in fields))
"""
    )
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setattr(gpu_query, "PLACES", str(tmp_path))
    query = Query()
    reports = [live(query) for _ in range(3)]
    assert [len(report["rows"]) for report in reports] == [0, 0, 1]
    (gpu,) = Sampler().take(sample_of(query, **reports[-1])).gpus
    assert (gpu.utilization_pct, gpu.power_w, gpu.power_limit_w, gpu.ecc) == (97.0, 641.2, None, None)
    assert reports[-1]["error"] == ""


def test_pcie_rates_are_found_by_their_heads() -> None:
    """dmon repeats its heads and may have other columns."""
    pcie = Pcie()
    for line in ("# gpu  rxpci  txpci", "# Idx   MB/s   MB/s", "0 3 1", "1 - -", "# gpu txpci rxpci", "0 7 8", "x"):
        pcie.keep(line)
    assert pcie.report() == {"0": ["8", "7"], "1": ["-", "-"]}


def test_a_gpu_that_is_lost_has_no_row_while_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """nvidia-smi is started again and names the others: what it said of that one is not how it is."""
    now = [100.0]
    monkeypatch.setattr(helper_gpus.time, "monotonic", lambda: now[0])
    query, pcie = Query(), Pcie()
    for line in ("0, a", "1, b"):
        query.keep(line)
    for line in ("# gpu  rxpci  txpci", "0 3 1", "1 5 5"):
        pcie.keep(line)
    for _ in range(5):
        now[0] += 1
        query.keep("0, a")
        pcie.keep("0 3 1")

    assert (query.report()["rows"], pcie.report()) == (["0, a"], {"0": ["3", "1"]})


def test_the_kernel_s_log_gives_the_newest_xid_of_each_gpu(tmp_path: Path) -> None:
    """But not what only follows from that. And it is read on from where the last look ended."""
    path = tmp_path / "kmsg"
    path.write_text(
        "6,100,20000000,-;usb 1-1: new device\n"
        "3,101,21500000,-;NVRM: Xid (PCI:0000:0B:00): 31, pid=77, name=python, Ch 00000008\n"
        "3,102,30000000,-;NVRM: Xid (PCI:0000:1b:00): 48, pid='<unknown>'\n"
        "3,102,30100000,-;NVRM: Xid (PCI:0000:1b:00): 45, pid=77, name=python, Ch 00000008\n"
        "3,102,30200000,-;NVRM: Xid (PCI:0000:1b:00): 154, GPU recovery action changed from 0x0 (None) to 0x1\n"
        "3,102,30300000,-;NVRM: Xid (PCI:0000:2b:00): 45, pid=78, name=python, Ch 00000008\n"
    )
    log = KernelLog(str(path))
    log.look()
    assert log.report() == {"0000:0b:00": [31, 21.5], "0000:1b:00": [48, 30.0], "0000:2b:00": [45, 30.3]}
    with path.open("a") as file:
        file.write("3,103,40000000,-;NVRM: Xid (PCI:0000:0b:00): 79, GPU has fallen off the bus.\n")
    log.look()
    assert log.report() == {"0000:0b:00": [79, 40.0], "0000:1b:00": [48, 30.0], "0000:2b:00": [45, 30.3]}


def test_a_program_that_a_gpu_ended_much_later_is_news_but_where_the_gpu_is_broken() -> None:
    log = KernelLog()
    for gpu, which, at in (("0b", 31, 10), ("0b", 45, 11), ("1b", 79, 10), ("2b", 45, 10), ("3b", 45, 10)):
        log.take(f"3,1,{at}000000,-;NVRM: Xid (PCI:0000:{gpu}:00): {which}, pid=1".encode())
    assert log.report() == {"0000:0b:00": [31, 10.0], "0000:1b:00": [79, 10.0], "0000:2b:00": [45, 10.0],
                            "0000:3b:00": [45, 10.0]}  # fmt: skip
    for gpu, which in (("0b", 45), ("1b", 45), ("2b", 45), ("3b", 154)):
        log.take(f"3,1,900000000,-;NVRM: Xid (PCI:0000:{gpu}:00): {which}, pid=1".encode())
    assert log.report() == {"0000:0b:00": [45, 900.0], "0000:1b:00": [79, 10.0], "0000:2b:00": [45, 900.0],
                            "0000:3b:00": [45, 10.0]}  # fmt: skip


def test_a_log_that_may_not_be_read_is_not_one_without_xids(tmp_path: Path) -> None:
    """None, and never asked again."""
    log = KernelLog(str(tmp_path / "none"))
    log.look()
    assert log.report() is None


def test_reasons_in_words() -> None:
    """The gravest first; idle is none; the hardware's slowdown is told by its cause."""
    assert throttle.words(0x48) == ("too hot (hardware slowdown)",)
    assert throttle.words(0x0C) == ("hardware slowdown", "its power limit")
    assert (throttle.word(0x1), throttle.word(None), throttle.word(0x24)) == ("", "", "hot")


def test_a_host_without_gpus() -> None:
    """Nothing is made up."""
    assert host_sampled(1.0, "h1", Sample(1.0)).gpus == ()


def test_amd_cards_come_in_the_order_of_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """An MI300X host has card1, card9, card17 and so on: as text, card9 would be the last GPU."""
    cards = [f"/sys/class/drm/card{n}/device/gpu_busy_percent" for n in (17, 1, 25, 9)]
    monkeypatch.setattr(metrics.glob, "glob", lambda pattern: cards if pattern == metrics.AMD_CARDS else [])
    monkeypatch.setattr(metrics, "measure_amd", lambda path: path.split("/")[4])

    assert metrics.measure({})["amd"] == ["card1", "card9", "card17", "card25"]


def test_graphics_of_the_processor_take_no_nvidia_gpu_s_place() -> None:
    """A workstation whose nvidia-smi hangs still lists the AMD graphics of its processor."""
    sampler, amd = Sampler(), [["3", "1048576", "536870912", "40000", "9000000"]]
    before = sampler.take(sample_of(queried(ROW)) | {"amd": amd}).gpus
    silent = sampler.take(sample_of(queried()) | {"amd": amd}).gpus

    assert ([gpu.utilization_pct for gpu in before], silent) == ([97.0], ())
    assert [gpu.utilization_pct for gpu in Sampler().take(sample_of(queried()) | {"amd": amd}).gpus] == [3.0]
