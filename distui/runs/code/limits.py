"""How much code may be sent, and the words for what is more: of a folder, and of a commit before it is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from distui.amounts import counted, size_words
from distui.errors import UsageError
from distui.frozen import frozen
from distui.plan.content.tree import readable

MAX_FILES = 100_000
"""More are surely not code: an environment, a data set. Links and empty folders count, too."""
MAX_DEPTH = 100
"""Folders in each other; nobody writes code that deep, and every program that walks it would have to."""
BIGGEST = 5

Sized = tuple[str, int]
"""A file's path and its bytes."""


@frozen
class Limits:
    """How much may be sent, in bytes."""

    total: int = 1 << 30
    file: int = 100 << 20


LIMITS = Limits()


def refuse_too_much(shown: str, files: Sequence[Sized], limits: Limits = LIMITS, more: int = 0) -> None:
    """Raise UsageError, which names `shown` and what is too much in it. `more` are its links and empty folders."""
    if len(files) + more > MAX_FILES:
        top = Counter(path.partition("/")[0] for path, _ in files or [("", 0)]).most_common(1)[0][0]
        raise UsageError(f"code: {shown} holds more than {MAX_FILES} files", hint=leave_out(f"{top}/") if top else "")
    ranked = sorted(files, key=lambda file: -file[1])
    large = [file for file in ranked if file[1] > limits.file]
    if large:
        raise UsageError(
            f"code: larger than {_limit(limits.file)} (max_file): {_named(large)}",
            hint=f"{leave_out(large[0][0])}, or raise max_file; for data there are `volumes`",
        )
    refuse_too_large("code", shown, files, limits.total, leave_out)


def refuse_too_large(
    what: str, shown: str, files: Sequence[Sized], most: int, leave_out: Callable[[str], str], *, whole: bool = True
) -> None:
    """Raise UsageError, which begins with `what`, where files have more bytes in all: with the folders, and files, that
    have most of them, and how to `leave_out` the first. Without `whole` there are more files.
    """
    total = sum(size for _, size in files)
    if total <= most:
        return
    within = "in" if whole else "and more, not all was looked at, in the first"
    folders: Counter[str] = Counter()
    for path, size in files:
        folders[path.partition("/")[0] + "/" * ("/" in path)] += size
    first = folders.most_common(1)[0][0]
    heavy = ", ".join(f"{readable(name)} {size_words(count)}" for name, count in folders.most_common(BIGGEST))
    ranked = sorted(files, key=lambda file: -file[1])
    raise UsageError(
        f"{what}: {shown} is {size_words(total)} {within} {counted(len(files), 'file')}, "
        f"more than {_limit(most)} (max_size): {heavy}; the largest files: {_named(ranked)}",
        hint=f"{leave_out(first)}, or raise max_size",
    )


def refuse_too_deep(path: str, what: str = "code") -> None:
    """Raise UsageError for a folder in more folders than anybody writes."""
    if path.count("/") >= MAX_DEPTH:
        raise UsageError(
            f"{what}: more than {MAX_DEPTH} folders in each other, at {readable(path[:80])}...",
            hint=f"leave {readable(path.partition('/')[0])} out",
        )


def leave_out(path: str) -> str:
    """How to leave a path out, as it is written in an ignore file."""
    pattern = "".join(f"\\{c}" if c in "*?[]\\ " else c for c in f"/{path}")
    return f"leave it out: write {readable(pattern)} into .distuiignore, or into `ignore` of the job's code"


def _limit(count: int) -> str:
    """A limit as it is written in the job: units by 1024."""
    for unit, one in (("g", 1 << 30), ("m", 1 << 20), ("k", 1 << 10)):
        if count % one == 0:
            return f"{count // one}{unit}"
    return str(count)


def _named(files: Sequence[Sized]) -> str:
    more = f" and {len(files) - BIGGEST} more" if len(files) > BIGGEST else ""
    return ", ".join(f"{readable(path)} {size_words(size)}" for path, size in files[:BIGGEST]) + more
