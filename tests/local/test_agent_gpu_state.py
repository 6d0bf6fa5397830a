"""The GPUs of a host, asked once: by a driver that refuses fields, one that hangs, and by the kernel's log."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from distui.agent import gpu_query
from distui.agent.gpu_query import FIELDS
from distui.agent.ranks import gpu_state
from distui.agent.ranks.processes import Stat

KMSG = b"""\
6,800,1000000,-;NVRM: loading NVIDIA UNIX x86_64 Kernel Module
4,812,12345678,-;NVRM: Xid (PCI:0000:3b:00): 31, pid=4242, name=python3, Ch 00000008, intr 00000000
 SUBSYSTEM=pci
4,813,22345678,-;NVRM: Xid (PCI:0000:3B:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
4,814,22345679,-;NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2
"""
"""In the shape of NVIDIA's "XID Errors" guide, behind the stamps of /dev/kmsg (Linux, Documentation/ABI/testing)."""


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where nvidia-smi is looked for; a fake one goes there."""
    monkeypatch.setattr(gpu_query, "PLACES", str(tmp_path))
    return tmp_path / "nvidia-smi"


def fake(path: Path, text: str) -> None:
    """A program in place of NVIDIA's."""
    path.write_text(
        f"#!/usr/bin/env python3\nimport sys, time\nfields = sys.argv[1].split('=')[1].split(',')\n{text}\n"
    )
    path.chmod(0o755)


REFUSES = """
for field in fields:
    if field in {refused!r}:
        print('Field "%s" is not a valid field to query.' % field)
        sys.exit(2)
print(", ".join(fields))
"""


@pytest.mark.parametrize(
    ("refused", "kept", "gone"),
    [
        ([], "gpu_recovery_action", ""),
        (["gpu_recovery_action"], "clocks_event_reasons.active", "gpu_recovery_action"),
        (
            ["clocks_event_reasons.active", "gpu_recovery_action"],
            "clocks_throttle_reasons.active",
            "gpu_recovery_action",
        ),
    ],
)
def test_a_driver_is_asked_for_what_it_knows(driver: Path, refused: list[str], kept: str, gone: str) -> None:
    """New, older and very old ones."""
    fake(driver, REFUSES.format(refused=refused))
    found = gpu_state.gpus(str(driver), time.monotonic() + 10)
    assert found["rows"] == [", ".join(found["fields"])]
    assert kept in found["fields"] and gone not in found["fields"]
    assert len(found["fields"]) >= len(FIELDS)


def test_a_driver_that_hangs_is_said_with_what_the_log_tells(driver: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In bounded time, also where its program can't even be killed: the log mostly says why."""
    monkeypatch.setattr(gpu_state, "xids", lambda: [["0000:3b:00", 79, 22.0]])
    fake(driver, "time.sleep(60)")
    fields = [*FIELDS, "gpu_recovery_action"]
    silent = {"fields": fields, "rows": [], "silent": True}
    assert gpu_state.gpus(str(driver), time.monotonic() + 0.2) == silent
    over, asked = threading.Event(), threading.Event()

    def hangs(*_: object) -> dict[str, object]:
        asked.set()
        over.wait()
        return {}

    monkeypatch.setattr(gpu_state, "gpus", hangs)
    health = gpu_state.GpuHealth([], 0.3)
    assert asked.wait(60)
    found = health.answer()
    assert health.thread.is_alive()
    found = dict(found)
    over.set()
    assert found["silent"] is True and found["xids"] == [["0000:3b:00", 79, 22.0]]


def test_a_host_without_gpus_says_nothing(driver: Path) -> None:
    """There is no program, or one that can't be run."""
    assert gpu_state.GpuHealth([os.getpid()], 5.0).answer() == {}
    driver.write_bytes(b"\x7fELF")
    driver.chmod(0o755)
    assert gpu_state.GpuHealth([os.getpid()], 5.0).answer() == {}


def test_what_goes_with_the_rows(driver: Path) -> None:
    """Since when the processes run, on the clock that the kernel's log has."""
    fake(driver, REFUSES.format(refused=[]))
    found = gpu_state.GpuHealth([os.getpid(), os.getppid(), 1 << 30], 10.0).answer()
    own = int(Stat(f"/proc/{os.getpid()}/stat").start) / os.sysconf("SC_CLK_TCK")
    assert 0 < found["began"] <= own <= found["boot"] and len(found["rows"]) == 1
    assert gpu_state.began([1 << 30]) is None


def test_the_xids_of_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of a GPU in their order: what came first is what others follow from."""
    path = tmp_path / "kmsg"
    path.write_bytes(KMSG)
    found = [["0000:3b:00", 31, 12.345678], ["0000:3b:00", 79, 22.345678], ["0000:3b:00", 154, 22.345679]]
    assert gpu_state.xids(str(path)) == found
    monkeypatch.setattr(gpu_state, "MOST_XIDS", 1)
    assert gpu_state.xids(str(path)) == found[-1:]
    assert gpu_state.xids(str(tmp_path / "none")) is None, "not readable here is not the same as none"
    assert gpu_state.xids(str(tmp_path)) is None


def test_a_log_without_end_is_read_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """/dev/zero stands in for one that is written faster than it is read."""
    monkeypatch.setattr(gpu_state, "MOST_LOG", 1 << 18)
    assert gpu_state.xids("/dev/zero") == []
