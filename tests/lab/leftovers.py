"""What distui has left on a host: files and processes, seen from this machine, which costs no process there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

STATE = ("/.local/state/distui", "/.cache/distui")
"""Folders of distui in a home."""
SHARED = ("/tmp", "/dev/shm", "/run", "/var/tmp")
"""Folders of all, in which only what is called after distui is."""


def leftovers(root: Path, run: str = "") -> list[str]:
    """In words, of the host whose root folder this is; with `run`, processes of that run only."""
    return files(root) + processes(root, run)


def files(root: Path) -> list[str]:
    """Also links, wherever they lead."""
    found = [path for top, pattern in _places(root) for path in top.glob(pattern) if _is_file(path)]
    return [f"file /{path.relative_to(root)}" for path in sorted(found)]


def _places(root: Path) -> Iterator[tuple[Path, str]]:
    for home in (root / "root", *(root / "home").iterdir()):
        for folder in STATE:
            yield Path(f"{home}{folder}"), "**/*"
    for folder in SHARED:
        yield Path(f"{root}{folder}"), "distui*"


def _is_file(path: Path) -> bool:
    return path.is_symlink() or not path.is_dir()


def processes(root: Path, run: str) -> list[str]:
    """Processes outside containers too: whatever has DISTUI_RUN in its environment, by its pid on that host."""
    wanted = f"DISTUI_RUN={run}".encode()
    found = []
    for folder in (root / "proc").glob("[0-9]*"):
        try:
            names = (folder / "environ").read_bytes().split(b"\0")
            argv = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if any(name == wanted if run else name.startswith(wanted) for name in names):
            found.append(f"process {folder.name} {argv.strip()}")
    return found
