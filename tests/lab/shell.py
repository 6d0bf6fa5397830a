"""Running programs: one helper, whose error says what was run and what it answered."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence

from lab.paths import SUDO_PATH, LabError


def clean_env(**extra: str) -> dict[str, str]:
    """A small environment that does not depend on who called, with proxies kept for downloads."""
    kept = {key: value for key, value in os.environ.items() if key.lower().endswith("_proxy")}
    return {"PATH": SUDO_PATH, "HOME": "/root", "LANG": "C.UTF-8", **kept, **extra}


def sh(
    *argv: str,
    stdin: str = "",
    env: Mapping[str, str] | None = None,
    timeout: float = 600,
    ok: Sequence[int] = (0,),
) -> str:
    """Run a program and return its standard output; LabError when its exit status is not in `ok`."""
    try:
        done = subprocess.run(
            argv, input=stdin, env=env or clean_env(), capture_output=True, text=True, timeout=timeout
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LabError(f"{name_of(argv)}: {error}") from error
    if done.returncode not in ok:
        said = (done.stderr or done.stdout).strip()[-2000:]
        raise LabError(f"{name_of(argv)}: exit {done.returncode}: {said}")
    return done.stdout


def name_of(argv: Sequence[str]) -> str:
    """A command line short enough for an error message: scripts given as arguments are cut."""
    return " ".join(word if len(word) < 120 else word[:60].splitlines()[0] + "..." for word in argv)
