# ruff: noqa: UP031, UP037, UP045
# Python 3.6 runs this, and every import costs a start on the host.
"""NVIDIA GPUs once a second, from programs that stay: a new nvidia-smi each second would cost more than all the rest.

`nvidia-smi --query-gpu` tells load, memory, temperature, clocks, ECC, `nvidia-smi dmon` what crosses PCIe (no query
does), and the kernel's log tells XIDs where this login may read it.
"""

import os
import time
from abc import ABC, abstractmethod

from distui.agent.gpu_query import FIELDS, OLDER, UNKNOWN, which, xid_of
from distui.agent.helper.sources import Child
from distui.agent.helper.wire import READ

TYPE_CHECKING = False
if TYPE_CHECKING:  # the annotations below are text, which Python 3.6 never evaluates
    from typing import Any, Optional

STALE = 3
"""Seconds after which a row is too old to be true."""


class Loop(ABC):
    """A program of NVIDIA's that prints for as long as it lives; started again, after longer and longer pauses."""

    def __init__(self) -> None:
        self.child: "Optional[Child]" = None
        self.rest = b""
        self.next_try = 0.0
        self.pause = 5.0
        self.at: "dict[str, float]" = {}
        self.said = ""

    @abstractmethod
    def argv(self, program: str) -> "list[str]":
        """The command, once the program is found."""

    @abstractmethod
    def keep(self, line: str) -> None:
        """Take in one line."""

    def start(self, now: float) -> "Optional[Child]":
        """A new child when none runs and it is time for one."""
        program = which("nvidia-smi") if self.child is None and now >= self.next_try else ""
        if not program:
            return None
        self.next_try, self.pause = now + self.pause, min(self.pause * 2, 60)
        try:
            self.child = Child(self.argv(program))
        except OSError as error:
            self.said = str(error)
        return self.child

    def ready(self) -> int:
        """Take in whole lines; -1 at the end."""
        assert self.child is not None
        try:
            data = os.read(self.child.out, READ)
        except BlockingIOError:
            return 0
        lines = (self.rest + data).split(b"\n")
        self.rest = lines.pop()
        for line in lines:
            self.keep(line.decode("utf-8", "replace").strip())
        return 0 if data else -1

    def line_came(self, gpu: str) -> None:
        """A good line of a GPU came."""
        self.at[gpu], self.pause, self.said = time.monotonic(), 5.0, ""

    def is_true(self, gpu: str) -> bool:
        """Whether what was said of a GPU is young enough to be true: others may go on where one is lost."""
        return time.monotonic() - self.at.get(gpu, 0.0) <= STALE

    def ended(self, end: "dict[str, Any]") -> None:
        """The child is gone."""
        self.said = self.said or end["stderr"] or "nvidia-smi ended with status %s" % end["status"]
        self.child, self.rest = None, b""


class Query(Loop):
    """The newest row of each GPU, of the fields that this driver knows."""

    def __init__(self) -> None:
        Loop.__init__(self)
        self.fields = list(FIELDS)
        self.rows: "dict[str, str]" = {}
        self.asks_again = False

    def argv(self, program: str) -> "list[str]":
        """See Loop."""
        return [program, "--query-gpu=" + ",".join(self.fields), "--format=csv,noheader,nounits", "-lms", "1000"]

    def keep(self, line: str) -> None:
        """A row begins with the GPU's number; anything else is an error, which nvidia-smi prints to stdout."""
        unknown = UNKNOWN.search(line)
        if unknown:
            self.do_without(unknown.group(1))
        elif line.split(",")[0].strip().isdigit():
            gpu = line.split(",")[0].strip()
            self.rows[gpu] = line
            self.line_came(gpu)
        elif line:
            self.said = line

    def do_without(self, field: str) -> None:
        """Ask for the older name of a field, or not at all."""
        if field not in self.fields:
            return
        at = self.fields.index(field)
        self.fields[at : at + 1] = [OLDER[field]] if field in OLDER else []
        self.rows, self.asks_again = {}, True

    def ended(self, end: "dict[str, Any]") -> None:
        """The child is gone; when it only asked for an unknown field the next one may follow at once."""
        unknown = UNKNOWN.search(end["stderr"])
        if unknown:
            self.do_without(unknown.group(1))
        Loop.ended(self, end)
        if self.asks_again:
            self.asks_again, self.next_try, self.pause, self.said = False, 0.0, 5.0, ""

    def report(self) -> "dict[str, Any]":
        """The rows, but for those that are too old to be true."""
        self.rows = {gpu: row for gpu, row in self.rows.items() if self.is_true(gpu)}
        return {"fields": self.fields, "rows": list(self.rows.values()), "error": self.said}


class Pcie(Loop):
    """What each GPU receives and sends over PCIe, in MB/s."""

    def __init__(self) -> None:
        Loop.__init__(self)
        self.heads: "list[str]" = []
        self.rates: "dict[str, list[str]]" = {}

    def argv(self, program: str) -> "list[str]":
        """See Loop."""
        return [program, "dmon", "-s", "t", "-d", "1"]

    def keep(self, line: str) -> None:
        """Heads are `# gpu rxpci txpci`, then `# Idx MB/s MB/s`; both come again after some rows."""
        cells = line.lstrip("#").split()
        if line.startswith("#"):
            self.heads = cells if "rxpci" in cells else self.heads
        elif cells and cells[0].isdigit() and len(cells) == len(self.heads):
            row = dict(zip(self.heads, cells))  # noqa: B905  # Python 3.10
            self.rates[cells[0]] = [row.get("rxpci", "-"), row.get("txpci", "-")]
            self.line_came(cells[0])

    def report(self) -> "dict[str, list[str]]":
        """GPU -> received, sent."""
        self.rates = {gpu: rate for gpu, rate in self.rates.items() if self.is_true(gpu)}
        return self.rates


ENDED, RECOVERY = 45, 154
"""XIDs that the driver reports after others: a program was ended by it, how the GPU is to be recovered has changed."""
OF_PROGRAM = (13, 31, 43, ENDED, 94)
"""XIDs of a program, after which the GPU goes on."""
SOON = 60.0
"""Seconds in which a program's end belongs to what was reported before."""


class KernelLog:
    """XIDs: the driver's own numbers for what went wrong, which it writes only into the kernel's log."""

    def __init__(self, path: str = "/dev/kmsg") -> None:
        self.path = path
        self.fd: "Optional[int]" = None
        self.refused = False
        self.found: "dict[str, list[Any]]" = {}

    def look(self) -> None:
        """Read what is new since the last look, from the boot on at the first."""
        if self.refused:
            return
        try:
            if self.fd is None:
                self.fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
            while self.take(os.read(self.fd, READ)):
                pass
        except BlockingIOError:
            pass
        except BrokenPipeError:
            pass  # records were overwritten before we read them; the next look goes on behind them
        except OSError:
            self.refused = True

    def take(self, data: bytes) -> bool:
        """Keep the newest XID of each GPU that does not follow from another: number, and the second since the boot."""
        for line in data.decode("utf-8", "replace").split("\n"):
            found = xid_of(line)
            if found is not None and not self._follows(*found):
                self.found[found[0]] = found[1:]
        return bool(data)

    def _follows(self, gpu: str, which: int, at: float) -> bool:
        """Whether an XID says less than the one before it. The end of a later program is news, but of a broken GPU."""
        if gpu not in self.found or which not in (ENDED, RECOVERY):
            return False
        before, since = self.found[gpu]
        return which == RECOVERY or before not in OF_PROGRAM or at - since < SOON

    def report(self) -> "Optional[dict[str, list[Any]]]":
        """PCI address -> XID and when; None when this login may not read the log."""
        return None if self.refused else self.found


class Gpus:
    """All that is known of the NVIDIA GPUs."""

    def __init__(self) -> None:
        self.query = Query()
        self.pcie = Pcie()
        self.log = KernelLog()

    def start(self, now: float) -> "list[Loop]":
        """The programs that were started now."""
        if self.query.rows:  # no XIDs where no GPU answers
            self.log.look()
        loops: "list[Loop]" = [self.query, self.pcie]
        return [loop for loop in loops if loop.start(now) is not None]

    def report(self) -> "dict[str, Any]":
        """Everything as it was printed."""
        output = self.query.report()
        output["pcie"], output["xid"] = self.pcie.report(), self.log.report()
        return output
