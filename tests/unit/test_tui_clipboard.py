"""Where copied text goes: the terminal, a program of this machine's screen, or a file."""

from __future__ import annotations

import stat
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from distui.errors import UsageError
from distui.tui.terminal import clipboard


@pytest.mark.parametrize(
    ("environ", "there", "chosen"),
    [
        ({"WAYLAND_DISPLAY": "wayland-0", "DISPLAY": ":0"}, {"wl-copy", "xclip"}, "wl-copy"),
        ({"WAYLAND_DISPLAY": "wayland-0", "DISPLAY": ":0"}, {"xclip"}, "xclip"),
        ({}, {"pbcopy"}, "pbcopy"),
        ({}, {"wl-copy", "xclip"}, None),
        ({"DISPLAY": ":0"}, set(), None),
        ({"DISPLAY": ":0", "SSH_CONNECTION": "10.0.0.1 5 10.0.0.2 22"}, {"xclip", "pbcopy"}, None),
    ],
)
def test_the_program_of_the_screen_one_sits_at(environ: Mapping[str, str], there: set[str], chosen: str | None) -> None:
    """None without a screen, and over ssh: the clipboard of a machine far away helps nobody."""
    argv = clipboard.program(environ, lambda name: f"/usr/bin/{name}" if name in there else None)
    assert (argv[0] if argv else None) == chosen


async def test_a_program_takes_the_text_or_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it, on its standard input; one that fails, hangs or is missing has not taken it."""
    monkeypatch.setattr(clipboard, "_PATIENCE", 60)
    into = tmp_path / "got"
    text = "größer\n" * 20_000
    takes = (sys.executable, "-c", f"import sys; open({str(into)!r}, 'wb').write(sys.stdin.buffer.read())")
    assert await clipboard.give(takes, text)
    assert into.read_text() == text
    assert not await clipboard.give((sys.executable, "-c", "raise SystemExit(1)"), "x")
    assert not await clipboard.give((str(tmp_path / "missing"),), "x")


async def test_a_program_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The app does not wait for it for ever."""
    monkeypatch.setattr(clipboard, "_PATIENCE", 0.1)
    assert not await clipboard.give((sys.executable, "-c", "import time; time.sleep(60)"), "x")


def test_what_is_too_long_is_kept_in_a_private_file(tmp_path: Path) -> None:
    """Another copy takes its place, also where somebody put a link; a folder that can't be written is told."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("mine")
    (tmp_path / "copied.txt").symlink_to(elsewhere)
    path = clipboard.keep(tmp_path, "first")
    assert clipboard.keep(tmp_path, "second") == path
    assert path.read_text() == "second"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert elsewhere.read_text() == "mine"
    with pytest.raises(UsageError, match="can't be written"):
        clipboard.keep(elsewhere, "x")
