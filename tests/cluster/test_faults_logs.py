"""Logs go wrong, on the hosts and here: nothing waits for them for ever, and what is lost of them is said."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.runs import TICKS, assert_clean, read_until, rest_of

pytestmark = pytest.mark.cluster

REMOVE_LOG = "rm \"$(docker inspect -f '{{.LogPath}}' $(docker ps -q --filter label=distui.run))\""


@pytest.mark.parametrize("end", ["itself", "ctrl-c", "stop", "kill"])
def test_a_log_that_was_removed_on_its_host(lab: Any, home: Path, start: Callable[..., Any], end: str) -> None:
    """Whatever ends the run, it ends with its result; the host and the moment from which lines are missing are said."""
    ticks = 200 if end == "itself" else 100_000
    program = start(TICKS % ticks, "--name", "bare", "-o", "ndjson", "--log-to", "none")
    read_until(program, type="phase", phase="follow")
    lab.host("h2").out(REMOVE_LOG)
    if end == "ctrl-c":
        program.send_signal(signal.SIGINT)
    elif end in ("stop", "kill"):
        assert lab.distui(end, "bare", "-y", home=home, timeout=60).returncode == 0
    events = rest_of(program)
    assert events[-1]["type"] == "result"
    assert events[-1]["state"] == ("succeeded" if end == "itself" else "stopped")
    said = [e for e in events if e["type"] == "notice" and "its log was removed" in e["text"]]
    assert [e["host"] for e in said] == ["h2"]
    assert "what it printed after 20" in said[0]["text"]
    assert_clean(lab)
