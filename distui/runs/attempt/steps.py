"""What every step of a launch needs: doing something on all hosts at once, and refusing the run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from distui.errors import DistuiError, ExitCode, HostError, HostUnreachable
from distui.facts.host import Trouble
from distui.facts.troubles import shared
from distui.frozen import frozen
from distui.runs.attempt.attempt import Attempt
from distui.runs.code.source import CodeSource
from distui.runs.images.context import BuildSource
from distui.runs.lines.events import PhaseBegun
from distui.runs.task.host_run import HostRun

T = TypeVar("T")


@frozen
class LaunchOptions:
    """How a run is started."""

    detach: bool = False
    """Whether it is left alone once it runs."""
    preflight: bool = True
    """Whether it is proved that hosts reach each other, and that data is there and shared."""
    force: bool = False
    """Whether GPUs that another run uses are shared."""
    code: CodeSource | None = None
    """What `plan.code` stands for; None for a run without code."""
    build: BuildSource | None = None
    """What `plan.build` stands for, likewise."""


DEFAULTS = LaunchOptions()


class LaunchRefused(Exception):
    """The run did not start. `reasons` are sentences, `leftovers` what could not be undone, `lost` the hosts that were
    out of reach for as long as they are waited for.
    """

    def __init__(
        self,
        reasons: Sequence[str],
        exit_code: ExitCode,
        leftovers: tuple[str, ...] = (),
        lost: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = tuple(reasons)
        self.exit_code = exit_code
        self.leftovers = leftovers
        self.lost = lost


async def phase(attempt: Attempt, name: str, detail: str = "") -> None:
    """Tell that a phase of the launch has begun, or how far it is."""
    await attempt.emit(PhaseBegun(attempt.clock(), name, detail))  # type: ignore[arg-type]


async def each(hosts: Iterable[HostRun], act: Callable[[HostRun], Awaitable[T]]) -> dict[str, T | DistuiError]:
    """`act` on all hosts at once; a host's error is its result."""

    async def one(host: HostRun) -> T | DistuiError:
        try:
            return await act(host)
        except DistuiError as exc:
            return exc

    chosen = list(hosts)
    results = await asyncio.gather(*(one(h) for h in chosen), return_exceptions=True)
    return dict(zip((h.host for h in chosen), _all_of(results), strict=True))


def _all_of(results: Iterable[T | BaseException]) -> Iterator[T]:
    """Results of `gather`, which waited for all. Raises the first exception among them."""
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, DistuiError):
            raise result
        yield result  # type: ignore[misc]  # an error of a host is a result here


async def finished(work: Coroutine[Any, Any, T]) -> T:
    """Do `work` to its end, also when cancelled meanwhile: what is undone next must not go on appearing."""
    task = asyncio.ensure_future(work)
    await outlast(task)
    return task.result()


async def outlast(task: asyncio.Future[Any]) -> None:
    """Wait until it is done, however often the wait is cancelled; raises that only then."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as exc:
            cancelled = exc
    if cancelled is not None:
        raise cancelled


async def together(*work: Coroutine[Any, Any, Any]) -> None:
    """Do all of it at once and to its end. Raises the error of the first in this order that has one."""
    for error in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(error, BaseException):
            raise error


def raise_errors(results: dict[str, T | DistuiError], exit_code: ExitCode) -> None:
    """Raise LaunchRefused with every error among the results of `each`."""
    errors = [r for r in results.values() if isinstance(r, DistuiError)]
    if errors:
        lost = frozenset(host for host, r in results.items() if isinstance(r, HostUnreachable))
        raise LaunchRefused(sentences(errors), exit_code, lost=lost)


def sentences(errors: Iterable[DistuiError]) -> list[str]:
    """Each error with what to do about it; those of several hosts that say the same are one, with that of the first."""
    of_hosts: dict[str, Trouble] = {}
    words = []
    for error in errors:
        if isinstance(error, HostError):
            of_hosts[error.host] = Trouble(error.code, error.message, error.hint)
        else:
            words.append(_with_hint(error.message, error.hint))
    return words + [_with_hint(one.message, one.hint) for one in shared(of_hosts)]


def sentence(error: DistuiError) -> str:
    """An error with its host and what to do about it."""
    (words,) = sentences([error])
    return words


def _with_hint(words: str, hint: str) -> str:
    return f"{words} ({hint})" if hint else words
