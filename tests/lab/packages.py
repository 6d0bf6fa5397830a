"""The Debian packages that the lab needs, installed when a program is missing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.paths import HERE, SUDO_PATH, LabError
from lab.shell import clean_env, sh

POLICY = Path("/usr/sbin/policy-rc.d")


def missing_packages() -> list[str]:
    """Packages of apt.txt whose program is not on this machine."""
    rows = [line.split() for line in (HERE / "apt.txt").read_text().splitlines() if line[:1] not in ("#", "")]
    return [package for package, program in rows if not shutil.which(program, path=SUDO_PATH)]


def ensure_packages() -> None:
    """Install what is missing with apt-get, without starting any of the services that come with it.

    Raises LabError when something is missing and there is no apt-get.
    """
    missing = missing_packages()
    if not missing:
        return
    if not shutil.which("apt-get"):
        raise LabError(f"the lab needs {', '.join(missing)}, and there is no apt-get to install them")
    env = clean_env(DEBIAN_FRONTEND="noninteractive")
    with services_stay_off():
        sh("apt-get", "update", "-q", env=env)
        sh("apt-get", "install", "-y", "-q", "--no-install-recommends", *missing, env=env)


@contextmanager
def services_stay_off() -> Iterator[None]:
    """Keep package scripts from starting sshd and dockerd on the machine itself (Debian's policy-rc.d)."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink()
