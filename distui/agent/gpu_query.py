# ruff: noqa: UP045
# Python 3.6 runs this, and every import costs a start on the host.
"""What NVIDIA's driver is asked for, and how its XIDs stand in the kernel's log."""

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:  # the annotations below are text, which Python 3.6 never evaluates
    from typing import Any, Optional

FIELDS = (
    "index", "uuid", "utilization.gpu", "memory.used", "memory.total", "temperature.gpu", "power.draw",
    "pci.bus_id", "clocks.sm", "power.limit", "temperature.gpu.tlimit", "clocks_event_reasons.active",
    "ecc.errors.uncorrected.volatile.total",
)  # fmt: skip
"""What is asked for. A driver that does not know one is asked again without it."""
OLDER = {"clocks_event_reasons.active": "clocks_throttle_reasons.active"}
"""Names that fields had before driver 535."""
UNKNOWN = re.compile(r'Field "([^"]*)" is not a valid field')
PLACES = os.pathsep.join([os.environ.get("PATH", ""), "/usr/bin", "/usr/local/bin", "/usr/lib/wsl/lib", "/opt/bin"])

XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]{1,32})\): ([0-9]{1,9})")


def xid_of(line: str) -> "Optional[list[Any]]":
    """A GPU's address, its XID and the second since the boot, of a line of /dev/kmsg; None where it tells of none."""
    match = XID.search(line)
    if match is None:
        return None
    stamp = line.split(";")[0].split(",")
    seconds = int(stamp[2]) / 1e6 if len(stamp) > 2 and stamp[2].isdigit() else 0.0
    return [match.group(1).lower(), int(match.group(2)), seconds]


def which(name: str) -> str:
    """Where a program is, on PATH or in the usual places that a login without a terminal may lack."""
    for folder in PLACES.split(os.pathsep):
        path = os.path.join(folder, name)  # noqa: PTH118
        if folder and os.access(path, os.X_OK):
            return path
    return ""
