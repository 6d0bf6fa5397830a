# ruff: noqa: PTH208, UP031, UP045
# Python 3.6 runs this, and every import costs a start on the host.
"""The NVIDIA GPUs of a host as they are just now, asked once: what their driver says of each, and the kernel's log."""

import os
import subprocess
import threading

from distui.agent.gpu_query import FIELDS, OLDER, UNKNOWN, which, xid_of
from distui.agent.metrics import boot_clock
from distui.agent.processes import Stat

TYPE_CHECKING = False
if TYPE_CHECKING:  # the annotations below are text, which Python 3.6 never evaluates
    from typing import Any, Optional

GPU_SECONDS = 3
HEALTH = ("gpu_recovery_action",)
"""Asked for beside the usual fields. Drivers before 560 or so do not know it."""
MOST_ROWS, MOST_TEXT, MOST_XIDS = 64, 65536, 64
MOST_LOG = 32 << 20
"""Bytes of the kernel's log, which is a few megabytes long unless something writes into it without end."""
KERNEL = "/proc/driver/nvidia/gpus"
"""A folder for each GPU, also for one that is lost, by its address."""


def gpus() -> "dict[str, Any]":
    """What nvidia-smi prints, line by line, with the names of the fields; empty where there is none.

    `silent`: it does not answer.
    """
    program, fields = which("nvidia-smi"), [*FIELDS, *HEALTH]
    for _ in range(len(fields) if program else 0):
        argv = [program, "--query-gpu=" + ",".join(fields), "--format=csv,noheader,nounits"]
        try:
            done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=GPU_SECONDS)
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


class GpuHealth:
    """The driver is asked beside everything else: one that hangs may not even let its program be killed."""

    def __init__(self, pids: "list[int]") -> None:
        self.found = {"fields": [], "rows": [], "silent": True}  # type: dict[str, Any]
        self.thread = threading.Thread(target=self.ask, args=(pids,), daemon=True)
        self.thread.start()

    def ask(self, pids: "list[int]") -> None:
        """Ask, and keep what is said."""
        self.found = health(pids)

    def answer(self) -> "dict[str, Any]":
        """What came in time."""
        self.thread.join(GPU_SECONDS + 2)
        return self.found


def health(pids: "list[int]") -> "dict[str, Any]":
    """The same, with the XIDs of the kernel's log, and since when the processes run that are asked about.

    All moments are seconds since the boot.
    """
    found = gpus()
    if found:
        found.update({"xids": xids(), "boot": boot_clock(), "began": began(pids), "order": order()})
    return found


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
