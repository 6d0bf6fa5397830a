"""The runs there are, whoever started them: to list, follow, stop and read. The part of `Cluster` for them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager, suppress
from operator import index
from typing import TypeVar

from distui.cluster.attach.ending import end_run
from distui.cluster.attach.listing import list_runs
from distui.cluster.attach.places import NameTaken, Places, RunLocation
from distui.cluster.hosts.connecting import Connect
from distui.cluster.logs.iterating import RankLines, TellPlain, iterate
from distui.cluster.logs.of_run import read_run
from distui.cluster.logs.sink import LogSink, Tell
from distui.cluster.logs.wanted import Wanted
from distui.cluster.runs.attached import attached
from distui.cluster.runs.run import Run, checked_grace
from distui.cluster.runs.run_list import RunList
from distui.cluster.runs.unasked import Unasked
from distui.cluster.secret_warning import SecretWarning, warn_of_plain
from distui.cluster.settings import ClusterSettings
from distui.errors import UsageError
from distui.spec.hosts.inventory import Inventory
from distui.spec.yaml.problems import shown

T = TypeVar("T")


class ClusterRuns:
    """See `Cluster`."""

    settings: ClusterSettings
    inventory: Inventory
    _connect: Connect
    _places: Places

    async def runs(self) -> RunList:
        """The runs that are recorded on this machine or that hosts have, whoever started them; as `distui ps -a` has.

        All hosts of the inventory are asked, and those on which runs without an end here were started. A host that does
        not answer is in `unreachable`, and no error.
        """
        listed = await list_runs(self._places, self.inventory.hosts, self._connect)
        return RunList(listed.rows, listed.found.unreachable)

    def attach(self, name: str) -> AbstractAsyncContextManager[Run]:
        """Follow a run that is there already: `async with cluster.attach("mnist-7f3") as run`.

        Its events come from now on, and all lines that are not in its logs here yet. It may have been started
        elsewhere, or be followed by another process of this machine, which stays its owner. Of one that has ended the
        last event is the only one, and `state` has the rest. Where an attempt of it has failed and somebody elsewhere
        may begin another, entering the block waits for that, a minute and a half at most.

        Leaving the block leaves the run alone. With read-only settings it is looked on at, and nothing of it is kept.

        Entering the block raises NotFound when there is no such run, or only folders of it are left on hosts, and
        ContactLost when it may be on a host that did not answer.
        """
        return attached(self.settings, self._connect, lambda work: self._at(name, work))

    async def stop(self, name: str, *, grace: float | None = None, others: bool = False) -> tuple[str, ...]:
        """Stop a run, wherever it was started, and remove what it has left on its hosts; safe to repeat.

        SIGTERM, then SIGKILL after `grace` seconds (the job's, when None; at once with 0). Returns what may still be on
        a host, in words: nothing, as a rule. Somebody else's run is stopped with `others` only.

        Raises NotFound when there is no such run, ContactLost when it may be on a host that did not answer, UsageError
        for somebody else's run, with read-only settings, and for a grace that is no number of seconds. What is still to
        be read of the run is kept here first: secrets whose values can't be hidden in it are a SecretWarning. Where
        that is an error, its `left` has what this would have returned.
        """
        self.settings.refuse_readonly("a stop")
        grace = checked_grace(grace)
        front = Unasked(name, others)

        async def end(place: RunLocation) -> tuple[str, ...]:
            async with self._connect(place.hosts) as connector:
                ended = await end_run(self.settings, connector, front, place, grace=grace)
            return ended.left

        try:
            left = await self._at(name, end)
        except BaseException:
            with suppress(SecretWarning):  # the error is more
                warn_of_plain(dict.fromkeys(front.plain))
            raise
        warn_of_plain(dict.fromkeys(front.plain), left)
        return left

    def logs(
        self, name: str, *, ranks: Collection[int] | None = None, tail: int | None = None, follow: bool = False
    ) -> AsyncIterator[RankLines]:
        """What ranks of a run have printed, all of them or `ranks`; `tail` lines of each, or all there are.

        From the files here where those hold the run, else from its hosts; rank after rank. With `follow` it goes on
        with what they print until the run is over. It starts, stops and removes nothing.

        Raises NotFound when there is no such run, UsageError for a rank that it has not, at once for `ranks` that are
        no numbers and a `tail` below 0, and, after the last line, ContactLost when something could not be read. Secrets
        whose values can't be hidden in it are a SecretWarning.
        """
        if tail is not None and tail < 0:
            raise UsageError(f"tail is {tail}: expected a number of lines, 0 or more")
        try:
            chosen = None if ranks is None else frozenset(map(index, ranks))
        except TypeError:
            raise UsageError(f"{shown(repr(ranks))} are no ranks", hint="give numbers: [0, 4]") from None
        wanted = Wanted(ranks=chosen, tail=tail)

        async def read(out: LogSink, tell: Tell, tell_plain: TellPlain) -> bool:
            return await self._at(
                name,
                lambda place: read_run(
                    self.settings, self._connect, place, out, tell, tell_plain=tell_plain, follow=follow
                ),
            )

        return iterate(wanted, read)

    async def _at(self, name: str, work: Callable[[RunLocation], Awaitable[T]]) -> T:
        """Do `work` where the run is; once more where what is recorded here has lost its name to one that lives."""
        place = self._places.locate(name)
        try:
            return await work(place)
        except NameTaken as exc:
            return await work(self._places.renamed(lambda words: None, place, exc))
