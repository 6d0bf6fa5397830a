"""How full disks are, as the helper on a host asks."""

from __future__ import annotations

import os
import threading

import pytest

from distui.agent import metrics


def test_a_file_server_that_hangs_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The home folder is watched, too: while its server was away no log and no exit came. Once it is back all is known
    again, and nobody asked it twice meanwhile.
    """
    back, asked = threading.Event(), list[str]()

    def statvfs(path: str) -> os.statvfs_result:
        asked.append(path)
        back.wait()
        return os.statvfs_result((4096, 4096, 1000, 500, 400, 0, 0, 0, 0, 255))

    monkeypatch.setattr(os, "statvfs", statvfs)
    disks = metrics.Disks(["/home/u"])
    assert [disks.measure(), disks.measure()] == [{}, {}]
    assert asked == ["/home/u"]
    back.set()
    assert disks.asking is not None
    disks.asking.join()
    monkeypatch.setattr(metrics, "SOON", 60.0)
    known = {"/home/u": [400 * 4096, 1000 * 4096]}
    assert disks.measure() == known
    monkeypatch.setattr(metrics, "SOON", 0.0)
    back.clear()
    assert [disks.measure(), disks.measure()] == [known, {}]  # far away each answer comes after SOON
    back.set()
