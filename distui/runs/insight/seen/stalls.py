"""What takes long now and then and is no fault: a checkpoint, a compile, a download; and whether it gets on. Pure.

Each of them may hang as well: on a file server that is gone, or a server that never answers. What tells is whether
anything of it moves: bytes that are read or written, and time on a core. A look sees half a second of that, in which
a slow disk may show nothing; so it is a hang only once nothing of it has moved for long.
"""

from __future__ import annotations

from collections.abc import Sequence

from distui.regex import regex
from distui.runs.insight.seen.answers import Process, Stack
from distui.runs.insight.seen.ranks import RankSeen

QUIET_S = 600.0
"""Seconds without any progress, as far as that is seen, after which it counts as a hang, which is likely then."""

MOVED_BYTES, HELPED_BYTES = 4096, 65536
"""Read or written in one look, from which on a rank gets on; and a process that it started, which may be a logger."""
MOVED_CPU, BUSY_CPU, HELPED_CPU = 0.02, 0.5, 0.1
"""Cores likewise: of its main thread, of all its threads, of a process that it started."""
SAVED_BYTES = 1 << 20
"""Written into a file in one look, from which on that is a checkpoint whatever writes it."""

_COMPILER = "_dynamo/convert_frame|_inductor/(compile_fx|async_compile|codecache|graph)|utils/cpp_extension"
"""Files of torch that compile; through others of the same folders each call of a compiled model goes."""

_CHECKPOINT = regex(r"torch/(serialization|distributed/checkpoint)|safetensors/")
_STALLS = (
    ("saves or loads a checkpoint", _CHECKPOINT),
    ("compiles", regex(rf"torch/({_COMPILER})|triton/(compiler/|runtime/autotuner)")),
    ("downloads", regex(r"urllib/request|/(requests|urllib3|huggingface_hub|fsspec)/|torch/hub\.py")),
)  # fmt: skip
"""What takes long now and then, by files of the stack."""

LOADER = regex(r"torch/utils/data/|/dataloader\.py|webdataset/|/tensorflow/.*/data/")
_SAVES = regex(r"(?i)(^|_)(savez?|saving|dump|checkpoint\w*|ckpt|write|tofile|copyfile|copyfileobj|serialize)(_|$)")
"""Functions that write what a program has: `np.save`, `pickle.dump`, `save_checkpoint`, `shutil.copyfile`."""


def stall_of(files: Sequence[str]) -> str:
    """What takes long now and then, in words, by the files of a stack, innermost first; empty for all else.

    A data set that loads its files as checkpoints are loaded is a data loader at work.
    """
    for words, pattern in _STALLS:
        found = [at for at, file in enumerate(files) if pattern.search(file)]
        loader = pattern is _CHECKPOINT and any(LOADER.search(file) for file in files[max(found, default=0) + 1 :])
        if found and not loader:
            return words
    return ""


def saves(process: Process, stack: Stack | None) -> bool:
    """Whether it writes a file as a checkpoint is written, by whatever means."""
    does, path = process.busy_with or ("", "")
    functions = [frame.function for frame in (stack.frames if stack is not None else ())]
    copies = does == "reading" and any(name.startswith("copyfile") for name in functions)
    into = (copies or does in ("writing", "syncing")) and path.startswith("/") and not path.startswith("/dev/")
    written = process.written or 0
    called = any(_SAVES.search(name) for name in functions)
    return (called and (into or written >= HELPED_BYTES)) or (into and written >= SAVED_BYTES)


def moves(seen: RankSeen) -> bool:
    """Whether anything of a rank moved while it was looked at, or of what it has started."""
    process = seen.process
    if process is None:
        return False
    main = process.threads[0].cpu if process.threads else process.cpu
    own = _bytes(process) >= MOVED_BYTES or main >= MOVED_CPU or process.cpu >= BUSY_CPU
    return own or any(_bytes(one) >= HELPED_BYTES or one.cpu >= HELPED_CPU for one in seen.helpers)


def _bytes(process: Process) -> int:
    return max(process.read or 0, process.written or 0)


def hangs(seen: RankSeen) -> bool:
    """Whether nothing of a rank that stalls has moved for so long that it counts as a hang."""
    newest = [one.began_ns for group in seen.groups.values() for one in group.recent[-1:]]
    since = seen.at - (max(newest) / 1e9 - seen.ahead) if newest else 0.0
    known = since if seen.quiet is None else min(since, seen.quiet) if newest else seen.quiet
    return not moves(seen) and known >= QUIET_S
