"""A command that the helper on a host runs and reads."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from distui.agent.helper.sources import Child


class Ended(subprocess.Popen[bytes]):
    """A process that has ended before anybody says something to it."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.wait()


def test_a_child_that_has_ended_before_it_is_told_anything_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a busy host a command that does not start: all that was said was `Broken pipe`."""
    monkeypatch.setattr(subprocess, "Popen", Ended)
    child = Child([sys.executable, "-c", "raise SystemExit('no such account')"], b"GET /containers/json HTTP/1.0\r\n")
    assert child.close() == {"status": 1, "stderr": "no such account"}
