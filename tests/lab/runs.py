"""Runs under test: waiting for what they say, and whether their logs are whole."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.program import LIMIT, Program

if TYPE_CHECKING:
    from lab.host import Host
    from lab.lab import Lab

TICKS = "i=0; while [ $i -lt %d ]; do echo tick $i of $RANK; i=$((i+1)); sleep 0.02; done; printf end"
"""A rank's script that counts, and ends without a newline."""


LET_END = "/tmp/let-end"
HELD_TICKS = TICKS.replace("printf end", f"until [ -e {LET_END} ]; do sleep 0.1; done; printf end")
"""The same, but it lives until `let_end`, however slow whoever watches it is."""


IGNORES_TERM = "trap 'echo asked' TERM; echo started; while :; do sleep 0.1; done"
"""A rank's script that SIGTERM does not end; it says each time that it got one."""


def until(condition: Callable[[], object], seconds: float = LIMIT) -> None:
    """Return as soon as `condition` holds; fail after `seconds`."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.1)


def read_until(program: Program, **wanted: object) -> list[dict[str, Any]]:
    """Events of an NDJSON run up to one that has these values; a run that never says them is killed."""
    assert program.stdout is not None
    seen: list[dict[str, Any]] = []
    with ended_after(program, LIMIT):
        for line in program.stdout:
            seen.append(json.loads(line))
            if all(seen[-1].get(key) == value for key, value in wanted.items()):
                return seen
    raise AssertionError(f"no event with {wanted} in {seen}")


def rest_of(program: Program) -> list[dict[str, Any]]:
    """All further events, until the program has ended; one that does not end is killed."""
    assert program.stdout is not None
    with ended_after(program, LIMIT):
        seen = [json.loads(line) for line in program.stdout]
    program.wait(LIMIT)
    return seen


@contextmanager
def ended_after(program: Program, seconds: float) -> Iterator[None]:
    """Kill the program when this block takes longer, which ends what it prints."""
    timer = threading.Timer(seconds, program.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def let_end(lab: Lab) -> None:
    """Let ranks end that run HELD_TICKS, or wait for LET_END in another way."""
    for host in lab.hosts:
        for name in host.containers():
            touch(host, name, LET_END)


def touch(host: Host, container: str, path: str) -> None:
    """Make the file that a rank waits for. One that ends at once may take `touch` along (137), its work done."""
    done = host.exec("docker", "exec", container, "touch", path, check=False)
    assert done.returncode in (0, 137), done.stderr


def ticks_of(rank: int, ticks: int) -> str:
    """What a rank prints that runs TICKS."""
    return "".join(f"tick {i} of {rank}\n" for i in range(ticks)) + "end"


def log_of(home: Path, run: str, rank: int) -> bytes:
    """What is written here of a rank's log; nothing before there is one."""
    path = home / f".local/state/distui/runs/{run}/logs/rank-{rank:05d}.log"
    return path.read_bytes() if path.exists() else b""


def times_asked(lab: Lab, run: str) -> list[int]:
    """How often each of a run's two ranks that run IGNORES_TERM was sent SIGTERM."""
    return [log.count("asked") for log in _logs(lab, run)]


def both_ignore(home: Path, run: str) -> bool:
    """Whether both ranks of a run that run IGNORES_TERM have come so far, and are followed here: before, a SIGTERM ends
    them, and a Ctrl-C undoes the start.
    """
    return all(b"started" in log_of(home, run, rank) for rank in range(2))


def _logs(lab: Lab, run: str) -> list[str]:
    names = [f"distui-{run}-{rank}" for rank in range(2)]
    return [lab.hosts[rank].exec("docker", "logs", name, check=False).stdout for rank, name in enumerate(names)]


def assert_complete(result: dict[str, Any], ticks: int, ranks: Sequence[int] = (0, 1)) -> None:
    """The ranks' logs hold every line once, in order, the end without newline too."""
    for rank in ranks:
        text = (Path(result["log_dir"]) / f"rank-{rank:05d}.log").read_text()
        assert text == ticks_of(rank, ticks), f"rank {rank}: {len(text.splitlines())} lines"


def assert_clean(lab: Lab) -> None:
    """No host holds anything of distui."""
    assert [left for host in lab.hosts for left in host.leftovers()] == []


def count_running(lab: Lab) -> int:
    """Containers of distui that run now, on all hosts."""
    return sum(host.running() for host in lab.hosts)
