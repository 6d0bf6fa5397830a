"""A host whose clock is off. Its kernel is this machine's, so programs are shown another time by a library."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from lab.fault_kinds import fault
from lab.faults_ssh import ssh_setenv, ssh_unsetenv

if TYPE_CHECKING:
    from lab.host import Host

SOURCE = Path(__file__).parent / "stubs/clock.c"
LIBRARY, FOLDER, SHIFT = "clock.so", "/run/lab-clock", "/run/lab-clock/shift"
RANKS = {"LD_PRELOAD": f"/pytorch/{LIBRARY}", "CLOCK_FILE": SHIFT}
"""Environment of ranks that go by their host's clock, with the shared folder at /pytorch."""
VOLUME = f"{FOLDER}:{FOLDER}:ro"
"""What their containers need as well; on a host whose clock is right the folder is empty."""


def prepare(share: Path) -> None:
    """Build the library into the hosts' shared folder."""
    target = share / LIBRARY
    if not target.exists():
        subprocess.run(
            ["gcc", "-O1", "-shared", "-fPIC", "-nostdlib", "-fno-builtin", "-o", target, SOURCE], check=True
        )


@fault("clock", cure="clock-right")
def clock(host: Host, seconds: str) -> None:
    """Its clock is SECONDS ahead of this machine's, for new logins and for ranks that are started with `RANKS`; once
    more it is set, for those that run as well. What dockerd writes has the right time.
    """
    prepare(host.lab.share)
    ssh_unsetenv(host)
    shift = struct.pack("=q", int(float(seconds) * 1e9))
    octal = "".join(f"\\{byte:03o}" for byte in shift)
    # Written over, as programs have it mapped.
    host.exec("sh", "-c", f"mkdir -p {FOLDER} && printf '{octal}' 1<>{SHIFT}")
    ssh_setenv(host, f"LD_PRELOAD=/mnt/pytorch/{LIBRARY} CLOCK_FILE={SHIFT}")


@fault("clock-right")
def clock_right(host: Host) -> None:
    """Its clock is this machine's again."""
    ssh_unsetenv(host)
    host.exec("sh", "-c", f"test ! -e {SHIFT} || printf '\\0\\0\\0\\0\\0\\0\\0\\0' 1<>{SHIFT}")
