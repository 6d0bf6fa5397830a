# ruff: noqa: PTH208, UP031, UP045
# Python 3.6 runs this, and every import costs a start on the host.
"""The NVIDIA GPUs of a host as they are just now, asked once: what their driver says of each, and the kernel's log."""

import os
import subprocess
import threading
import time

from distui.agent.gpu_query import FIELDS, OLDER, UNKNOWN, which, xid_of
from distui.agent.metrics import boot_clock
from distui.agent.ranks.processes import Stat

TYPE_CHECKING = False
if TYPE_CHECKING:  # the annotations below are text, which Python 3.6 never evaluates
    from typing import Any, Optional

GRACE = 0.2
"""Seconds by which a program is waited for longer than it is given."""
HEALTH = ("gpu_recovery_action",)
"""Asked for beside the usual fields. Drivers before 560 or so do not know it."""
MOST_ROWS, MOST_TEXT, MOST_XIDS = 64, 65536, 64
MOST_LOG = 32 << 20
"""Bytes of the kernel's log, which is a few megabytes long unless something writes into it without end."""
KERNEL = "/proc/driver/nvidia/gpus"
"""A folder for each GPU, also for one that is lost, by its address."""


class GpuHealth:
    """The driver is asked beside everything else: one that hangs may not even let its program be killed.

    What the kernel's log tells is there by then, since a driver that hangs has mostly written there why.
    """

    def __init__(self, pids: "list[int]", seconds: float) -> None:
        self.until, self.program = time.monotonic() + seconds, which("nvidia-smi")
        self.found = {}  # type: dict[str, Any]
        self.thread = threading.Thread(target=self.ask, args=(pids,), daemon=True)
        self.thread.start()

    def ask(self, pids: "list[int]") -> None:
        """Ask, and keep what is said. All moments are seconds since the boot."""
        if not self.program:
            return
        known = {"xids": xids(), "boot": boot_clock(), "began": began(pids), "order": order()}  # type: dict[str, Any]
        self.found = dict(known, fields=[], rows=[], silent=True)
        said = gpus(self.program, self.until)
        self.found = dict(known, **said) if said else {}

    def answer(self) -> "dict[str, Any]":
        """What came in time; empty on a host without GPUs. `silent`: nvidia-smi has not answered."""
        self.thread.join(max(0.0, self.until - time.monotonic()) + GRACE)
        return self.found


def gpus(program: str, until: float) -> "dict[str, Any]":
    """What nvidia-smi prints, line by line, with the names of the fields; empty where it can't be run."""
    fields = [*FIELDS, *HEALTH]
    for _ in range(len(fields)):
        argv = [program, "--query-gpu=" + ",".join(fields), "--format=csv,noheader,nounits"]
        try:
            done = subprocess.run(
                argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=max(0.0, until - time.monotonic())
            )
        except subprocess.TimeoutExpired:
            return {"fields": fields, "rows": [], "silent": True}
        except OSError:
            break
        text = done.stdout[:MOST_TEXT].decode("utf-8", "replace")
        unknown = UNKNOWN.search(text)
        if not unknown or unknown.group(1) not in fields:
            return {"fields": fields, "rows": text.splitlines()[:MOST_ROWS]}
        at = fields.index(unknown.group(1))
        fields[at : at + 1] = [OLDER[unknown.group(1)]] if unknown.group(1) in OLDER else []
    return {}


def xids(path: str = "/dev/kmsg") -> "Optional[list[list[Any]]]":
    """The last XIDs of the log: address, number, second; None where this login may not read it."""
    try:
        log = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    found, size = [], 0  # type: list[list[Any]], int
    try:
        while size < MOST_LOG:
            try:
                data = os.read(log, MOST_TEXT)
            except BrokenPipeError:
                continue  # records were overwritten before they were read; the next ones follow
            except BlockingIOError:
                break
            if not data:
                break
            size += len(data)
            rows = [xid_of(line) for line in data.decode("utf-8", "replace").split("\n")]
            found = (found + [row for row in rows if row])[-MOST_XIDS:]
    except OSError:
        return None
    finally:
        os.close(log)
    return found


def began(pids: "list[int]") -> "Optional[float]":
    """When the first of these processes began."""
    starts = [stat.start for stat in (Stat("/proc/%d/stat" % pid) for pid in pids) if stat.there]
    return min(map(int, starts)) / float(os.sysconf("SC_CLK_TCK")) if starts else None


def order() -> "list[str]":
    """The addresses of all GPUs, in which order they are numbered; empty where the kernel's module does not tell."""
    try:
        return sorted(os.listdir(KERNEL))[:MOST_ROWS]
    except OSError:
        return []
