"""The tools people use now: where they are, or a throwaway virtual environment with those that PyPI has."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

FROM_PYPI = {"ansible": "ansible-core", "clush": "ClusterShell", "pssh": "parallel-ssh"}
"""Peer -> its distribution. `pssh` is a library; `parallel-ssh` from apt is another program of that name."""

FROM_APT = {"pdsh": "pdsh", "docker": "docker.io"}


@dataclass(frozen=True, slots=True)
class Peers:
    """Peer -> what to call: a program's path; for `pssh` the Python that has the library."""

    found: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    """Peer -> why it is not here."""


@contextmanager
def peers(*, install: bool) -> Iterator[Peers]:
    """What is here, and with `install` what pip can add; it is gone again after the block."""
    with tempfile.TemporaryDirectory(prefix="distui-bench-") as folder:
        why = "left out by --no-install"
        if install:
            why = _install(Path(folder), [FROM_PYPI[name] for name in FROM_PYPI])
        yield _look(Path(folder) / "bin", why)


def _install(folder: Path, names: list[str]) -> str:
    """Make the environment; why it could not be made, or nothing."""
    print("installing peers from PyPI into a throwaway environment ...", flush=True)
    try:
        subprocess.run((sys.executable, "-m", "venv", str(folder)), check=True, capture_output=True, timeout=120)
        pip = (str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        subprocess.run((*pip, *names), check=True, capture_output=True, timeout=300)
    except (OSError, subprocess.SubprocessError) as error:
        words = getattr(error, "stderr", None) or str(error).encode()
        return f"pip could not install it: {words.decode('utf-8', 'replace').strip()[-200:]}"
    return ""


def _look(own: Path, why: str) -> Peers:
    peers = Peers()
    for name in ("docker", "pdsh", "clush", "ansible", "pssh"):
        program = own / ("python" if name == "pssh" else name)
        place = str(program) if program.exists() else _on_path(name)
        if place:
            peers.found[name] = place
        elif name in FROM_APT:
            peers.missing[name] = f"not here; apt-get install {FROM_APT[name]}"
        else:
            peers.missing[name] = why or "not here"
    return peers


def _on_path(name: str) -> str | None:
    return None if name == "pssh" else shutil.which(name)
