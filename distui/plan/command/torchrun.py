"""torchrun: its arguments for one node, and the prefix by which one log stream splits into ranks.

Checked in torch 2.13's source (`torch/distributed/run.py`, `elastic/multiprocessing/tail_log.py`): with
`--tee 3` the agent tails each worker's stdout and stderr files and prints every `readline()` with a header
before it. TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE (torch 2.2 and later) makes that header, with `${rank}` the
global rank, `${local_rank}` the local one, and nothing added after it; older versions print `[default0]:` with the
local rank. A line read before its newline was written comes in pieces, each with a header, so a header may also stand
inside a line; and so may what the agent logs itself, behind a progress bar that has no newline yet.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from distui.plan.network.rendezvous import RendezvousPoint, bracketed
from distui.regex import regex
from distui.spec.job.job import Job

PREFIX_VARIABLE = "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"
PREFIX_TEMPLATE = "[distui rank ${rank}/${local_rank}]:"

_PREFIX = regex(rb"\[distui rank (\d{1,9})(?:/(\d{1,9}))?\]:")
_OLD_PREFIX = regex(rb"\[default(\d{1,9})\]:")
_AGENT = regex(
    rb"(?<![\[:\n])(?:[IWE]\d{4} \d\d:\d\d:\d\d\.\d{1,9} \d{1,9} torch/distributed/elastic/"
    rb"|\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{1,9}\] torch\.distributed\.elastic\."
    rb"|(?:INFO|WARNING|ERROR):torch\.distributed\.elastic\.)"
)
"""Where the agent's own words begin within a line: of torch since 2.4, of 2.1 to 2.3, and before. Ranks log with a
`[rank0]:` in front."""
_C10D = regex(r"--rdzv[-_]backend[= ] *c10d\b")
_ITS_OWN = regex(r"--rdzv[-_]endpoint[= ] *[\"']?(?:localhost|127\.[\d.]+|\[::1\])(?![\w.-])|--standalone\b")
"""A rendezvous that each node has for itself."""
_PYTHON = regex(r"(.*/)?python[0-9.]*")


def env(job: Job) -> dict[str, str]:
    """What the agent needs in its environment; ranks and the master come as arguments.

    With c10d the ranks get a store of their own: since torch 2.4 they share the agents' by default, where those that
    torchrun starts again find the addresses of the ones before them, and gloo can't connect.
    """
    own = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"} if job.torchrun.rdzv == "c10d" else {}
    return {PREFIX_VARIABLE: PREFIX_TEMPLATE, **own}


def max_restarts(job: Job) -> int:
    """How often torchrun starts the ranks again; 0 with another launcher."""
    return job.torchrun.max_restarts if job.launcher == "torchrun" else 0


def min_nodes(job: Job) -> int | None:
    """The fewest nodes that torchrun goes on with; None when it needs all of them."""
    if job.launcher != "torchrun" or job.torchrun.nnodes is None or job.torchrun.nnodes[0] == job.torchrun.nnodes[1]:
        return None
    return job.torchrun.nnodes[0]


def warnings(job: Job, nodes: int) -> list[str]:
    """What may not be as expected with this many nodes."""
    found: list[str] = []
    if twice := _given_twice(job):
        found.append(
            f"the command gives torchrun {', '.join(twice)} in place of what distui gives it; leave that out, and see "
            "`ranks`, `hosts` and `torchrun` of the job"
        )
    settings = job.torchrun
    if settings.rdzv == "c10d" and nodes > 1:
        found.append(
            "with rdzv c10d torchrun numbers the ranks itself and may do so again: here and in logs a rank is a place "
            "(host and local rank), and it is said where torchrun's RANK is another"
        )
    if settings.rdzv == "static" and settings.max_restarts and nodes > 1:
        found.append(
            "with rdzv static each node restarts its ranks by itself, and a node whose ranks only wait never does; "
            "use torchrun: {rdzv: c10d} for restarts on several hosts"
        )
    if min_nodes(job) is not None:
        found.append(
            "the first host holds torchrun's rendezvous: the run continues without any other, not without that one"
        )
        if not settings.max_restarts:
            found.append("when a node is lost the others' ranks fail and are started again: that needs max_restarts")
    return found


_OURS = frozenset((
    "master-addr", "master-port", "max-restarts", "nnodes", "node-rank", "nproc-per-node", "rdzv-backend",
    "rdzv-endpoint", "standalone", "tee",
))  # fmt: skip
_OURS_C10D = _OURS | {"local-addr", "rdzv-conf", "rdzv-id"}


def _given_twice(job: Job) -> list[str]:
    """Options for the agent in a command that are ours to give."""
    program = split_command(job.command if not isinstance(job.command, str) else ())[1]
    ours = _OURS_C10D if job.torchrun.rdzv == "c10d" else _OURS
    end = next((at for at, word in enumerate(program) if word in ("--", *_HOW) or word.endswith(".py")), len(program))
    names = ((word, word.partition("=")[0]) for word in program[:end] if word.startswith("--"))
    return [word for word, name in names if name[2:].replace("_", "-") in ours]


def guesses_its_store(command: tuple[str, ...] | str) -> bool:
    """Whether nodes that a job starts itself leave it to torch to find out which of them holds the rendezvous."""
    words = command if isinstance(command, str) else " ".join(command)
    return bool(_C10D.search(words)) and "is_host" not in words and not _ITS_OWN.search(words)


def argv(
    job: Job,
    command: tuple[str, ...],
    rendezvous: RendezvousPoint,
    *,
    run_id: str,
    node_rank: int,
    nnodes: int,
    nproc: int,
    addr: str = "",
    log_dir: str | None = None,
) -> tuple[str, ...]:
    """What starts one node: the agent, its arguments, then the program (`command`).

    `addr` is the node's own for its peers. `log_dir` takes the files that the agent tails; by default it leaves them
    in the host's /tmp for ever, which only a container's end clears.
    """
    launcher, program = split_command(command)
    logs = ("--log-dir", log_dir) if log_dir else ()
    return (*launcher, *_arguments(job, rendezvous, run_id, node_rank, nnodes, nproc, addr), *logs, *_apart(program))


def _arguments(
    job: Job, rendezvous: RendezvousPoint, run_id: str, node_rank: int, nnodes: int, nproc: int, addr: str
) -> tuple[str, ...]:
    fewest = min_nodes(job)
    nodes = str(nnodes) if fewest is None else f"{fewest}:{nnodes}"
    shape = ("--nnodes", nodes, "--nproc-per-node", str(nproc))
    if job.torchrun.rdzv == "c10d":
        endpoint = f"{bracketed(rendezvous.master_addr)}:{rendezvous.master_port}"
        # is_host: the agent's own guess compares host names, which containers and aliases get wrong
        hosting = f"is_host={'true' if node_rank == 0 else 'false'}"
        where: tuple[str, ...] = ("--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint, "--rdzv-id", run_id)
        waiting = f",last_call_timeout={job.torchrun.last_call:.0f}" if job.torchrun.last_call is not None else ""
        where = (*where, "--rdzv-conf", hosting + waiting)
        if addr:  # else the others get the host's own name, which they may not know
            where = (*where, "--local-addr", addr)
    else:
        where = ("--node-rank", str(node_rank), "--master-addr", bracketed(rendezvous.master_addr))
        where = (*where, "--master-port", str(rendezvous.master_port))
    return (*shape, *where, "--max-restarts", str(job.torchrun.max_restarts), "--tee", "3")


def split_command(command: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """How the agent is called, and what it gets as program.

    A command that names its launcher (`torchrun`, `python -m torch.distributed.run`, the old
    `torch.distributed.launch`) keeps it. Otherwise it is `python3 -m torch.distributed.run`: the `torchrun`
    script may be missing from PATH (`pip --target`) or belong to another interpreter, the module is there
    whenever torch can be imported. `python train.py` runs under that python; a program that is not Python
    gets `--no-python`.
    """
    head = command[0] if command else ""
    if head.rpartition("/")[2] == "torchrun":
        return (head,), command[1:]
    if _PYTHON.fullmatch(head):
        return _under_python(head, command[1:])
    if head.endswith(".py") or head.startswith("-"):
        return _agent("python3"), command
    return _agent("python3"), ("--no-python", *command)


_HOW = {"-m", "--module", "--no-python", "--no_python"}
"""Options of the agent that say what the program is, and take no value."""


def _apart(program: tuple[str, ...]) -> tuple[str, ...]:
    """The program behind a `--`: else the agent reads its options as well, and refuses one with which several of its
    own begin, as `--max` or `--log`. Where the job gives the agent other options nobody knows where they end."""
    at = next((number for number, word in enumerate(program) if word not in _HOW), len(program))
    if at == len(program) or program[at].startswith("-"):
        return program
    return (*program[:at], "--", *program[at:])


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


def split_pieces(
    line: bytes, ranks: Sequence[int] = (), numbers: dict[int, int] | None = None
) -> tuple[tuple[int | None, bytes], ...]:
    """A line cut at every header in it: pieces of lines that the agent printed before their newline came.

    `ranks` are the node's ranks in local order: whatever number torchrun gives a process (with c10d another one after
    each rendezvous), a line belongs to the rank at its local place. `numbers` takes torchrun's own number of each. The
    header of torch before 2.2, which only holds the local rank, is read too. What stands before the first header
    belongs to no rank, nor what the agent says behind a piece. One without a newline is continued by the rank's next.
    """
    marks = [(m.start(), m.end(), _place(m, ranks, numbers)) for m in _PREFIX.finditer(line)]
    if not marks and ranks:
        old = _OLD_PREFIX.match(line)
        if old is not None and int(old[1]) < len(ranks):
            marks = [(0, old.end(), ranks[int(old[1])])]
    if not marks:
        return ((None, line),)
    ends = [start for start, _, _ in marks[1:]] + [len(line)]
    pieces = [piece for (_, a, r), b in zip(marks, ends, strict=True) for piece in _apart_from_agent(r, line[a:b])]
    first = marks[0][0]
    return ((None, line[:first]), *pieces) if first else tuple(pieces)


def _apart_from_agent(rank: int, piece: bytes) -> tuple[tuple[int | None, bytes], ...]:
    """A rank's piece, and what the agent says behind it: that it stops a rank, or that one failed."""
    found = _AGENT.search(piece) if b"elastic" in piece else None
    if found is None:
        return ((rank, piece),)
    at = found.start()
    return ((rank, piece[:at]), (None, piece[at:])) if at else ((None, piece),)


def _place(header: re.Match[bytes], ranks: Sequence[int], numbers: dict[int, int] | None) -> int:
    """The rank whose header it is: the one at its local place, where the header tells that."""
    number = int(header[1])
    local = int(header[2]) if header[2] else len(ranks)
    rank = ranks[local] if local < len(ranks) else number
    if numbers is not None and local < len(ranks):
        numbers[rank] = number
    return rank


_FAILED = regex(r"failed \(exitcode: (-?\d{1,9})\) local_rank: (\d{1,9}) \(pid: \d+\)")


def failed_rank(line: str) -> tuple[int, int] | None:
    """Local rank and exit status of a process whose failure the agent's line tells; None for any other line.

    The agent says so before it stops the node's other ranks, and then starts them all again or gives up. A negative
    status is a signal and becomes 128 + signal.
    """
    found = _FAILED.search(line)
    if found is None:
        return None
    code = int(found[1])
    return int(found[2]), 128 - code if code < 0 else code
