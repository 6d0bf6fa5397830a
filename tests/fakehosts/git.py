"""git as tests call it: with nobody's configuration, and commits that are nobody's."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ENV = {
    "PATH": os.environ["PATH"],
    "HOME": "/nowhere",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    **{f"GIT_{who}_{what}": "t@t" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


def git(folder: Path, *words: str) -> str:
    """What it prints, called in this folder."""
    argv = ("git", "-C", str(folder), *words)
    return subprocess.run(argv, env=ENV, check=True, capture_output=True, text=True).stdout.strip()
