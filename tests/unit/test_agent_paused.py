"""Whether a process is frozen with its container, by the freezer of either version of cgroups."""

from __future__ import annotations

import pytest

from distui.agent.ranks import processes

V1 = {"/proc/7/cgroup": "9:memory:/docker/ab\n4:freezer:/docker/ab\n0::/\n"}
V2 = {"/proc/7/cgroup": "0::/system.slice/docker-ab.scope\n"}
FREEZER = "/sys/fs/cgroup/freezer/docker/ab/freezer.state"
EVENTS = "/sys/fs/cgroup/system.slice/docker-ab.scope/cgroup.events"


@pytest.mark.parametrize(
    ("files", "state", "told"),
    [
        ({**V1, FREEZER: "FROZEN\n"}, "D", processes.PAUSED),
        ({**V1, FREEZER: "THAWED\n"}, "D", "D"),
        ({**V2, EVENTS: "populated 1\nfrozen 1\n"}, "S", processes.PAUSED),
        ({**V2, EVENTS: "populated 1\nfrozen 0\n"}, "S", "S"),
        ({**V2, EVENTS: "frozen 1\n"}, "Z", "Z"),
        ({"/proc/7/cgroup": "4:freezer:/../x\n", "/sys/fs/cgroup/freezer/../x/freezer.state": "FROZEN"}, "S", "S"),
        ({}, "S", "S"),
    ],
)
def test_a_process_that_is_frozen(
    files: dict[str, str], state: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that has ended is not; nothing is known of a host without these files."""
    monkeypatch.setattr(processes, "read", lambda path: files.get(path, ""))
    assert processes.state_of(7, state) == told
