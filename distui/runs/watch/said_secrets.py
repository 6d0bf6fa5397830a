"""Whose lines had the value of a secret, for a warning: whoever reads `***` in a log must know where it comes from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence

from distui.plan.labels import named_ranks
from distui.plan.model import Task
from distui.runs.lines.events import Event, Notice

TOGETHER_S = 5.0
"""How long further ranks are waited for that print the same one: all of them may print their settings."""


class SaidSecrets:
    """Warns once for each rank and secret: of the first rank at once, of further ones together."""

    def __init__(self, clock: Callable[[], float], emit: Callable[[Event], Awaitable[None]]) -> None:
        self._clock, self._emit = clock, emit
        self._known: set[tuple[int | str, str]] = set()
        self._warned: set[str] = set()
        self._since: float | None = None
        self._waiting: dict[str, dict[int | str, str]] = {}
        """Secret -> who printed it that was not warned of yet, and on which host."""

    async def take(self, rank: int | None, hidden: Sequence[str], task: Task) -> None:
        """Note what had to be hidden in lines of a rank, or of a task's launcher."""
        who = rank if rank is not None else task.name
        for name in hidden:
            if (who, name) in self._known:
                continue
            self._known.add((who, name))
            if name in self._warned:
                self._waiting.setdefault(name, {})[who] = task.host
                self._since = self._since if self._since is not None else self._clock()
            else:
                self._warned.add(name)
                await self._warn(name, {who: task.host})

    async def tell(self, *, at_end: bool = False) -> None:
        """Warn of further ranks, once others have had time to print it, too."""
        if self._since is None or not (at_end or not 0 <= self._clock() - self._since < TOGETHER_S):
            return
        waiting, self._waiting, self._since = self._waiting, {}, None
        for name, hosts in waiting.items():
            await self._warn(name, hosts)

    async def _warn(self, name: str, hosts: dict[int | str, str]) -> None:
        logs = "its log has" if len(hosts) == 1 else "their logs have"
        message = f"{', '.join(_called(hosts))} printed the value of secret {name}: {logs} *** there"
        on = set(hosts.values())
        await self._emit(Notice(self._clock(), "warning", message, on.pop() if len(on) == 1 else None))


def _called(hosts: dict[int | str, str]) -> Iterator[str]:
    ranks = [who for who in hosts if isinstance(who, int)]
    if ranks:
        yield named_ranks(sorted(ranks))
    yield from (who for who in hosts if isinstance(who, str))
