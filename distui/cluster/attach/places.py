"""Where a run is: on its hosts, and in its folder on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from distui.cluster.hosts.selection import Selection
from distui.cluster.settings import ClusterSettings
from distui.errors import ContactLost, NotFound, UsageError
from distui.facts.host import Trouble
from distui.facts.troubles import shared
from distui.frozen import frozen
from distui.identity import owner
from distui.plan.model import RunPlan
from distui.plan.serialize import from_json
from distui.regex import regex
from distui.runs.hosts.discover import FoundRun, FoundTask, find_runs
from distui.runs.lines.text import safe
from distui.runs.report.disputes import disputed
from distui.runs.report.found import choose
from distui.runs.report.history import stored_row
from distui.runs.report.older import is_recorded, set_aside
from distui.runs.report.states import ENDED
from distui.runs.report.summary import summary
from distui.runs.store.end_record import end_here
from distui.runs.store.recorded import stored_plan
from distui.runs.store.runs import StoredRun, cannot_write
from distui.runs.store.saved_hosts import saved_hosts
from distui.session import Connector
from distui.spec.hosts.inventory import Host
from distui.spec.hosts.names import fold
from distui.spec.yaml.problems import did_you_mean, shown

T = TypeVar("T")

Asked = tuple[FoundRun | None, Mapping[str, Trouble]]
"""A run as its hosts tell of it, if they do, and why others did not answer."""

_OLDER = regex(r"~[0-9]{1,4}\Z")
"""What an older run's name ends with here (`runs/report/older.py`)."""


SAY_SECONDS = 5.0
"""How long hosts are waited for in silence."""


async def let_go(stored: StoredRun, *, limit: float) -> bool:
    """Wait until no process of this machine follows the run, at most `limit` seconds; False when one still does."""
    until = time.monotonic() + limit
    while stored.is_followed:
        if time.monotonic() >= until:
            return False
        await asyncio.sleep(0.1)
    return True


def check_name(run: object) -> None:
    """Raise UsageError for what can't be a run's name."""
    if (
        not isinstance(run, str)
        or not run
        or len(_OLDER.sub("", run)) > 63
        or "/" in run
        or run.startswith((".", "-"))
        or not run.isprintable()
    ):
        raise UsageError(f"'{str(run)[:60]}' is not a run's name", hint="`distui ps -a` lists the runs")


@frozen
class RunLocation:
    """Where a run may be: its folder here, if any, and the hosts to ask."""

    run: str
    stored: StoredRun | None
    hosts: tuple[Host, ...]
    chosen: bool = False
    """Whether the caller chose some of the hosts (`-H`): the run may have something on others."""

    @property
    def is_complete(self) -> bool:
        """Whether the files here hold, or are just getting, all that the run printed."""
        if self.stored is None:
            return False
        if self.stored.is_followed:
            return True
        result = summary(self.stored).result or {}
        # What a run leaves on its hosts has a log that could not be kept whole here.
        return result.get("state") in ENDED and not result.get("leftovers")


@contextlib.contextmanager
def say_if_slow(tell: Callable[[str], None], place: RunLocation, *, removes: bool = False) -> Iterator[None]:
    """Tell which hosts are waited for where the block, which asks them or removes a run there, takes long."""
    hosts = fold(host.name for host in place.hosts)
    words = f"still removing {place.run} from {hosts}" if removes else f"still asking {hosts} about {place.run}"
    late = asyncio.get_running_loop().call_later(SAY_SECONDS, tell, words)
    try:
        yield
    finally:
        late.cancel()


class NameTaken(UsageError):
    """What is recorded here of a run is older than the run that has its name on the hosts now."""

    def __init__(self, run: str, found: FoundRun) -> None:
        super().__init__(f"{run} is now a run of {safe(found.owner)[:100] or 'an unknown user'}", hint="try again")
        self.launch = (found.launch, found.owner)


class Disputed(UsageError):
    """Several hosts claim one task of a run, and its record here does not tell which of them is its own."""

    def __init__(self, run: str, words: str) -> None:
        super().__init__(
            f"not all tasks named {run} are of one run: {words}",
            hint=f"`docker ps --filter label=distui.run={run}` on these hosts lists them; `distui stop {run}` ends all",
        )


@frozen
class Places:
    """Finds where runs are: by what is recorded here, and on the hosts a call is about."""

    settings: ClusterSettings
    selection: Selection

    def locate(self, run: str) -> RunLocation:
        """Where to look for `run`: the hosts it was started on, or else all that `ps` asks; both where only some of the
        former are recorded.

        Raises NotFound and UsageError.
        """
        check_name(run)
        stored = self.settings.store.get(run)
        hosts = () if self.selection.narrows or stored is None else saved_hosts(stored)
        if stored is not None and hosts and stored_row(stored).elsewhere:
            return RunLocation(run, stored, self.hosts_to_ask(self.selection.chosen(), (stored,)), self.leaves_out)
        if hosts:
            return RunLocation(run, stored, hosts)
        without_end = (one for one in self.settings.store.all() if not stored_row(one).over)
        hosts = self.hosts_to_ask(self.selection.chosen(), without_end)
        if stored is not None and not stored_row(stored).over:
            hosts = with_engines(hosts, saved_hosts(stored))
        if stored is None and not hosts and self.selection.maybe_inventory() is None:
            raise not_found(
                self.settings, run, "no run of that name is recorded here, and there is no inventory to ask"
            )
        return RunLocation(run, stored, hosts, self.leaves_out)

    @property
    def leaves_out(self) -> bool:
        """Whether hosts were chosen (`-H`), and there are others that the call is not about."""
        choice = self.selection
        if not choice.narrows:
            return False
        if choice.known is None and choice.hostfile is None and choice.path is None:
            return True  # those that were named are all that is known
        return not {host.name for host in choice.inventory().hosts} <= {host.name for host in choice.chosen()}

    def hosts_to_ask(self, hosts: Sequence[Host], without_end: Iterable[StoredRun]) -> tuple[Host, ...]:
        """`hosts`, and those that runs `without_end` here were started on, unless the call is about chosen ones."""
        asked = {host.name: host for host in hosts}
        for stored in without_end if not self.selection.narrows else ():
            asked |= {host.name: host for host in saved_hosts(stored) if host.name not in asked}
        return tuple(asked.values())

    def at(self, say: Callable[[str], None], run: str, work: Callable[[RunLocation], T]) -> T:
        """Do `work` where the run is; where what is recorded here is older, once more of the run that has its name now.

        Raises NotFound and UsageError as `locate` does, and what `work` does.
        """
        place = self.locate(run)
        try:
            return work(place)
        except NameTaken as exc:
            return work(self.renamed(say, place, exc))

    def renamed(self, say: Callable[[str], None], place: RunLocation, taken: NameTaken) -> RunLocation:
        """Where the run is that has the name now.

        The older one is kept under a name of its own, but for `--readonly`, and that is said.
        """
        assert place.stored is not None
        row, store = stored_row(place.stored), self.settings.store
        how = f"{row.state}, exit {row.exit}" if row.over and row.exit is not None else "its end was not seen"
        try:
            older = set_aside(store, place.run, taken.launch) if not self.settings.readonly else None
        except OSError as exc:
            raise cannot_write(place.stored.path, exc, "; neither run was touched") from exc
        kept = f"the older one of that name here ({how}) is kept as {older.run_id}" if older is not None else ""
        say(f"{taken.message}; {kept or f'there is an older one of that name here ({how})'}")
        stored = store.get(place.run)
        hosts = {host.name: host for host in (*place.hosts, *self.selection.chosen())}
        return RunLocation(
            place.run,
            stored if stored is not None and is_recorded(taken.launch, stored) else None,
            tuple(hosts.values()),
            place.chosen,
        )


def with_engines(hosts: Sequence[Host], saved: Iterable[Host]) -> tuple[Host, ...]:
    """`hosts` with the engines that a run was started with there, which alone have it: hosts.yaml may have others."""
    known = {host.name: host for host in saved}
    own = (known.get(host.name, host) for host in hosts)
    return tuple(
        replace(host, engine=one.engine, engine_command=one.engine_command)
        for host, one in zip(hosts, own, strict=True)
    )


def not_found(settings: ClusterSettings, run: str, why: str) -> NotFound:
    """The error for a run that nobody knows, with the nearest name recorded here: a job's name means its newest run."""
    return NotFound(f"there is no run {shown(run)}: {why}{_near(settings, run)}", hint="`distui ps -a` lists the runs")


def _near(settings: ClusterSettings, run: str) -> str:
    names = [stored.run_id for stored in settings.store.all() if stored.run_id != run]
    of_job = next((name for name in names if name.startswith(f"{run}-")), None)
    return f", did you mean '{of_job}'?" if of_job else did_you_mean(run, names)


def open_here(stored: StoredRun | None, unreachable: Collection[str]) -> RunPlan | None:
    """The recorded plan of a run that no host lists any more, though it was not followed to its end here.

    Its clean-up was killed after its end was recorded, or its containers were removed from outside: which is only
    known when all hosts answer. None for a run that is over, or of which no task was ever started.
    """
    if stored is None or summary(stored).cleaned:
        return None
    begun = any(event.get("type") == "task" for event in stored.events())
    return stored_plan(stored) if end_here(stored) is not None or (begun and not unreachable) else None


async def find(connector: Connector, place: RunLocation, enough: Callable[[FoundTask], bool] | None = None) -> Asked:
    """The run on its hosts, None when no host that answered has it, and the hosts that did not answer: also those that
    hang, where one task is `enough`.

    Raises NameTaken where another one that lives has the name of what is recorded here.
    """
    found, unreachable = await _look(connector, place, enough)
    if found is not None and not _is_recorded(place, found):
        raise NameTaken(place.run, found)
    return found, unreachable


async def find_again(connector: Connector, place: RunLocation) -> Asked:
    """The same of a run that was found before: one that has its name by now is another."""
    found, unreachable = await _look(connector, place)
    return found if found is None or _is_recorded(place, found) else None, unreachable


async def _look(connector: Connector, place: RunLocation, enough: Callable[[FoundTask], bool] | None = None) -> Asked:
    asked = await find_runs(connector, place.hosts, run=place.run, enough=enough)
    answered = {host.name for host in place.hosts} - set(asked.unreachable)
    return choose(asked.named(place.run), place.stored, owner(), answered), asked.unreachable


def _is_recorded(place: RunLocation, found: FoundRun) -> bool:
    return place.stored is None or is_recorded((found.launch, found.owner), place.stored)


def there(
    settings: ClusterSettings, place: RunLocation, run: FoundRun | None, unreachable: Mapping[str, Trouble]
) -> FoundRun:
    """The run that `find` found. Raises NotFound, or ContactLost when it may be on a host that did not answer."""
    if run is not None:
        return run
    if unreachable:
        lines = [f"  {one.message}" for one in shared(unreachable)]
        near = _near(settings, place.run) if place.stored is None else ""
        raise ContactLost(
            "\n".join([f"run {place.run} is on no host that answers{near or ';'} not reached:", *lines]),
            hint="try again when the hosts are back",
        )
    if place.stored is not None:
        raise not_found(settings, place.run, f"{on_none(place)} any more")
    error = not_found(settings, place.run, on_none(place))
    others = "one that was not started is not kept; one that pauses between two attempts elsewhere is seen in a minute"
    raise NotFound(error.message, hint=f"{error.hint}; {others}")


def undisputed(run: FoundRun) -> FoundRun:
    """The same run. Raises Disputed."""
    if words := disputed(run):
        raise Disputed(run.run, words)
    return run


def on_none(place: RunLocation) -> str:
    """That no host that was asked has the run."""
    asked = len(place.hosts)
    return f"none of {asked} hosts has it" if asked != 1 else f"{place.hosts[0].name} does not have it"


def recorded_plan(settings: ClusterSettings, run: str) -> RunPlan:
    """The plan of a run recorded here. Raises NotFound, UsageError for what is no run's name."""
    check_name(run)
    stored = settings.store.get(run)
    if stored is None:
        raise not_found(settings, run, "it is not recorded on this machine")
    value = stored.read_plan()
    if value is None:
        raise NotFound(f"the plan of run {run} can't be read here", hint=f"`distui logs {run}` prints its logs")
    return from_json(value)
