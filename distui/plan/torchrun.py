"""torchrun: its arguments for one node, and the prefix by which one log stream splits into ranks.

Checked in torch 2.13's source (`torch/distributed/run.py`, `elastic/multiprocessing/tail_log.py`): with
`--tee 3` the agent tails each worker's stdout and stderr files and prints every `readline()` with a header
before it. TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE (torch 2.2 and later) makes that header, with `${rank}` the
global rank and nothing added after it; older versions print `[default0]:` with the local rank. A line read before
its newline was written comes in pieces, each with a header, so a header may also stand inside a line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from distui.plan.rendezvous import Meeting, bracketed
from distui.spec.job import Job

PREFIX_VARIABLE = "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"
PREFIX_TEMPLATE = "[distui rank ${rank}]:"

_PREFIX = re.compile(rb"\[distui rank (\d{1,9})\]:")
_OLD_PREFIX = re.compile(rb"\[default(\d{1,9})\]:")
_PYTHON = re.compile(r"(.*/)?python[0-9.]*")


def env() -> dict[str, str]:
    """What the agent needs in its environment; ranks and the master come as arguments."""
    return {PREFIX_VARIABLE: PREFIX_TEMPLATE}


def argv(
    job: Job, meeting: Meeting, *, run_id: str, node_rank: int, nnodes: int, nproc: int, log_dir: str | None = None
) -> tuple[str, ...]:
    """The command of one node: the agent, its arguments, then the program.

    `log_dir` takes the files that the agent tails; by default it leaves them in the host's /tmp for ever, which
    only a container's end clears.
    """
    launcher, program = split_command(job.command)
    logs = ("--log-dir", log_dir) if log_dir else ()
    return (*launcher, *_arguments(job, meeting, run_id, node_rank, nnodes, nproc), *logs, *program)


def _arguments(job: Job, meeting: Meeting, run_id: str, node_rank: int, nnodes: int, nproc: int) -> tuple[str, ...]:
    shape = ("--nnodes", str(nnodes), "--nproc-per-node", str(nproc))
    if job.torchrun.rdzv == "c10d":
        endpoint = f"{bracketed(meeting.master_addr)}:{meeting.master_port}"
        # is_host: the agent's own guess compares host names, which containers and aliases get wrong
        hosting = f"is_host={'true' if node_rank == 0 else 'false'}"
        where: tuple[str, ...] = ("--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint, "--rdzv-id", run_id)
        where = (*where, "--rdzv-conf", hosting)
    else:
        where = ("--node-rank", str(node_rank), "--master-addr", bracketed(meeting.master_addr))
        where = (*where, "--master-port", str(meeting.master_port))
    return (*shape, *where, "--max-restarts", str(job.torchrun.max_restarts), "--tee", "3")


def split_command(command: tuple[str, ...] | str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """How the agent is called, and what it gets as program.

    A command that names its launcher (`torchrun`, `python -m torch.distributed.run`, the old
    `torch.distributed.launch`) keeps it. Otherwise it is `python3 -m torch.distributed.run`: the `torchrun`
    script may be missing from PATH (`pip --target`) or belong to another interpreter, the module is there
    whenever torch can be imported. `python train.py` runs under that python; a program that is not Python
    gets `--no-python`.
    """
    if isinstance(command, str):
        return _agent("python3"), ("--no-python", "sh", "-lc", command)
    head = command[0] if command else ""
    if head.rpartition("/")[2] == "torchrun":
        return (head,), command[1:]
    if _PYTHON.fullmatch(head):
        return _under_python(head, command[1:])
    if head.endswith(".py") or head.startswith("-"):
        return _agent("python3"), command
    return _agent("python3"), ("--no-python", *command)


def _agent(python: str) -> tuple[str, ...]:
    return (python, "-m", "torch.distributed.run")


def _under_python(python: str, rest: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """`python [-u] script` and `python -m module` become the agent's program; an agent named is kept."""
    while rest[:1] == ("-u",):
        rest = rest[1:]
    if rest[:1] == ("-m",) and rest[1:2] in (("torch.distributed.run",), ("torch.distributed.launch",)):
        return (python, *rest[:2]), rest[2:]
    if rest and not rest[0].startswith("-"):
        return _agent(python), rest
    if rest[:1] == ("-m",):
        return _agent(python), rest
    return _agent(python), ("--no-python", python, *rest)


# reading its output


def split_prefix(line: bytes) -> tuple[int | None, bytes]:
    """The global rank a line is from, and the line without its header; None for lines of the agent itself."""
    match = _PREFIX.match(line)
    return (None, line) if match is None else (int(match[1]), line[match.end() :])


def split_pieces(line: bytes, ranks: Sequence[int] = ()) -> tuple[tuple[int | None, bytes], ...]:
    """A line cut at every header in it: pieces of lines that the agent printed before their newline came.

    `ranks` are the node's ranks in local order; with them the header of torch before 2.2, which holds the local
    rank, is read too. What stands before the first header belongs to no rank. A piece without a newline is
    continued by the same rank's next piece.
    """
    marks = [(m.start(), m.end(), int(m[1])) for m in _PREFIX.finditer(line)]
    if not marks and ranks:
        old = _OLD_PREFIX.match(line)
        if old is not None and int(old[1]) < len(ranks):
            marks = [(0, old.end(), ranks[int(old[1])])]
    if not marks:
        return ((None, line),)
    ends = [start for start, _, _ in marks[1:]] + [len(line)]
    pieces: list[tuple[int | None, bytes]] = [(r, line[a:b]) for (_, a, r), b in zip(marks, ends, strict=True)]
    first = marks[0][0]
    return ((None, line[:first]), *pieces) if first else tuple(pieces)
