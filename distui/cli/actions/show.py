"""`distui show`: everything that is known of one run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

from distui.amounts import counted, moment
from distui.cli import wiring
from distui.cli.console import Console
from distui.cli.printing.run_rows import row_json
from distui.cli.printing.words import progress_words
from distui.cli.runs.planview import show_plan
from distui.cli.settings import Settings
from distui.cluster.attach import places
from distui.cluster.attach.leftover import hidden, look, run_there
from distui.cluster.masks import mask_of
from distui.codec import write
from distui.columns import table
from distui.errors import NotFound, UsageError
from distui.facts.troubles import shared
from distui.frozen import frozen
from distui.plan.serialize import from_json, to_json
from distui.runs.hosts.claims.launches import Launch, find_launches
from distui.runs.hosts.discover import FoundRun
from distui.runs.lines.event_json import progress_json
from distui.runs.lines.events import NetworkUsed, Progressed, RankChanged, RunOpened
from distui.runs.lines.explanation import STANDS
from distui.runs.lines.text import safe
from distui.runs.report import history
from distui.runs.report.run_words import attempt_words, took_words
from distui.runs.report.text import evidence, last_lines
from distui.runs.state.reducer import RankState, RunState, apply
from distui.runs.store.masking import Mask, stored_secrets
from distui.runs.store.recorded import Recorded, stored_events, stored_progress
from distui.runs.store.runs import StoredRun
from distui.runs.store.why_records import WhyRecord, kept, record_json
from distui.session import Connector
from distui.spec.hosts.names import fold

REMOVED = "it is not on its host any more, and how it ended was not seen from here"


class Asked(NamedTuple):
    """What the hosts say of a run."""

    found: FoundRun | None = None
    left: Launch | None = None
    """Where none of its tasks runs: the folder that tells how it ended."""
    silent: Collection[str] | None = None
    """Hosts that did not answer; None where none was asked."""


@dataclass(slots=True)
class Record:
    """What the events recorded here tell of a run, gone through once: there may be hundreds of thousands."""

    ranks: dict[int, ShownRank] = field(default_factory=dict)
    used: NetworkUsed | None = None
    """Which interfaces carried how much, as the newest attempt reported it last."""
    left_out: int = 0
    """Lines that are no events."""


@frozen
class ShownRank:
    """One rank, as its host or the record here tells it."""

    rank: int
    host: str
    state: str
    exit: int | None = None
    words: str = ""
    gpus: tuple[int, ...] = ()
    id: str = ""
    name: str = ""
    """What it is called where it is more than a number: `worker/1`."""
    related: str = ""
    """Its relation to the first failure, in words."""


def act(settings: Settings, out: Console, run: str, plan_too: bool, as_report: bool) -> int:
    """See `show --help`."""
    if as_report and settings.json:
        raise UsageError("--report is a text; it has no -o json", hint="leave --report away, or -o json")
    if as_report:
        place = settings.places.locate(run)
        mask = _mask(settings, place)
        out.print(mask.text(_report(place, mask)).rstrip("\n"))
        return 0
    return settings.places.at(out.tell, run, lambda place: _of(settings, out, place, plan_too=plan_too))


def _of(settings: Settings, out: Console, place: places.RunLocation, *, plan_too: bool) -> int:
    asked = wiring.run_async(_find(settings, out, place), limit=settings.timeout)
    found, left, silent = asked
    row = _row(settings, place, asked)
    record = read_record(place.stored) if place.stored is not None else Record()
    ranks = merged(record.ranks, found, place, silent) if left is None or found is not None else []
    if left is not None and left.record is not None:
        ranks = _as_ended(ranks, left.record.ranks)
    mask = _mask(settings, place)
    row = mask.event(row)  # its end may be as a host has it
    progress = mask.event(stored_progress(place.stored)) if place.stored is not None else None
    ranks = [mask.event(rank) for rank in ranks]
    reasons = mask.event(kept(place.stored)) if place.stored is not None else ()
    used = mask.event(record.used)
    if settings.json:
        tasks = [{k: v for k, v in asdict(r).items() if k != "name" or v} | {"id": r.id or None} for r in ranks]
        out.json(
            {
                "schema": "distui/show/v1",
                **row_json(row),
                "progress": progress_json(progress),
                "network": write(used) if used is not None else None,
                "why": [record_json(one, place.run) for one in reasons],
                "tasks": tasks,
                **_plan_json(place, plan_too),
            }
        )
        return 0
    _show(out, row, ranks, progress, used, reasons)
    if plan_too and place.stored is not None:
        _show_plan(out, settings, place)
    if record.left_out and place.stored is not None:
        where = place.stored.path / "events.ndjson"
        out.warn(f"distui: {counted(record.left_out, 'line')} of {where} can't be read and are left out", "yellow")
    return 0


def _row(settings: Settings, place: places.RunLocation, asked: Asked) -> history.RunRow:
    """The run as a whole, from the record here and what its hosts say. Raises NotFound where neither has it."""
    found, left, silent = asked
    stored = history.stored_row(place.stored) if place.stored is not None else None
    answered = {host.name for host in place.hosts if silent is not None and host.name not in silent}
    known = stored
    if found is not None:
        apart = history.where_apart(found, stored, answered, silent or (), chosen=place.chosen)
        known = history.found_row(found, stored, apart)
    if left is not None:
        row, *_ = history.with_launches([known] if known is not None else [], [left], {}, answered=())
        return row
    if known is None:
        raise places.not_found(settings.cluster, place.run, places.on_none(place))
    return known if found is not None else _with_start(history.settled(known, answered, silent or ()), place, silent)


def _with_start(row: history.RunRow, place: places.RunLocation, silent: Collection[str] | None) -> history.RunRow:
    """The same, with why nothing is known of a run of which no host that answered has anything: its launch was killed
    before the plan was recorded here, and nothing is started before that.
    """
    stored = place.stored
    if row.hosts or row.followed or stored is None or stored.read_plan() is not None or any(stored.events()):
        return row
    asked = [host.name for host in place.hosts if host.name not in (silent or ())] if silent is not None else []
    there = (
        f"{fold(asked)} {'has' if len(asked) == 1 else 'have'} nothing of it" if asked else "no host has reported it"
    )
    words = (
        f"its launch was killed before its plan was recorded; {there}: `distui rm --purge {row.run}` removes it here"
    )
    return replace(row, warnings=(*row.warnings, words))


def _mask(settings: Settings, place: places.RunLocation) -> Mask:
    """Hides what a distui that did not know the values has recorded."""
    return mask_of(settings.cluster, stored_secrets(place.stored) if place.stored is not None else ())


def _report(place: places.RunLocation, mask: Mask) -> str:
    """The run's report from what is recorded here. Raises NotFound when that is too little."""
    value = place.stored.read_plan() if place.stored is not None else None
    if place.stored is None or value is None:
        raise NotFound(
            f"run {place.run} has no record here to report from", hint=f"`distui attach {place.run}` makes one"
        )
    plan, state = from_json(value), RunState()
    for event in stored_events(place.stored):
        state = apply(state, event)
    return evidence(plan, state, last_lines(place.stored, plan, mask), str(place.stored.log_dir))


async def _find(settings: Settings, out: Console, place: places.RunLocation) -> Asked:
    """What the hosts say of it; nothing for a run whose record here is all there is."""
    if not place.hosts or (place.stored is not None and history.stored_row(place.stored).over):
        return Asked()
    async with wiring.connected(settings, place.hosts) as connector:
        found, unreachable = await places.find(connector, place)
        left = await _left(settings, connector, place, found, unreachable)
        if place.stored is None and left is None:
            found = await run_there(settings.cluster, connector, place, found, unreachable, disputed=True)
    for one in shared(unreachable):
        out.warn(f"distui: {one.message}", "yellow")
    return Asked(found, left, unreachable)


async def _left(
    settings: Settings, connector: Connector, place: places.RunLocation, found: FoundRun | None, silent: Collection[str]
) -> Launch | None:
    """The folder that tells how the run ended, also where a clean-up was killed that had removed some of its tasks."""
    if found is None:
        return await look(settings.cluster, connector, place, silent)
    if found.state in ("running", "partial"):
        return None
    up = [host for host in place.hosts if host.name not in silent]
    launches = hidden(settings.cluster, await find_launches(connector, up, place.run))
    return next((one for one in launches if one.token == found.token and one.record is not None), None)


def merged(
    recorded: Mapping[int, ShownRank],
    found: FoundRun | None,
    place: places.RunLocation,
    silent: Collection[str] | None = None,
) -> list[ShownRank]:
    """Every rank: from the record here, and over it what the hosts say now. `silent` are those that did not answer."""
    rows = dict(recorded)
    if silent is not None and place.stored is not None and not place.stored.is_followed:
        there = {rank for task in found.tasks for rank in task.labels.ranks} if found is not None else set()
        asked = {host.name for host in place.hosts}
        rows = {rank: row if rank in there else _now(row, asked, silent) for rank, row in rows.items()}
    for task in found.tasks if found is not None else ():
        for rank in task.labels.ranks:
            known, labels = rows.get(rank) if not task.running else None, task.labels
            text, related = (known.words, known.related) if known is not None else ("", "")
            code = (
                known.exit if known is not None and known.related else task.exit
            )  # a launcher's exit is not its ranks'
            rows[rank] = ShownRank(
                rank, task.host, task.status, code, text, labels.gpus, task.id[:12], labels.name, related
            )
    return [rows[rank] for rank in sorted(rows)]


def _as_ended(there: Sequence[ShownRank], ended: Sequence[RankChanged]) -> list[ShownRank]:
    """Every rank as the run's end has it, with what containers that are still there tell besides."""
    rows = {row.rank: row for row in there}
    known = [(_as_row(event), rows.get(event.rank)) for event in ended]
    return [replace(r, gpus=seen.gpus, id=seen.id, name=seen.name) if seen is not None else r for r, seen in known]


def _now(row: ShownRank, asked: Collection[str], silent: Collection[str]) -> ShownRank:
    """A rank that ran when nobody followed it any more, and of which nothing was found: what is known of it now."""
    if row.state not in ("running", "lost"):
        return row
    if row.host in silent:
        return replace(row, state="lost", words=f"{row.host} did not answer")
    if row.host not in asked:
        return replace(row, state="lost", words=f"{row.host} was not asked")
    return replace(row, state="removed", words=REMOVED)


def read_record(stored: StoredRun) -> Record:
    """The ranks and what else the events recorded here tell."""
    record = Record()
    events = Recorded(stored)
    for event in events:
        if isinstance(event, RunOpened):
            names = event.names
            record.ranks = {r: ShownRank(r, h, "waiting", name=names.get(r, "")) for r, h in event.ranks.items()}
            record.used = None
        elif isinstance(event, RankChanged):
            known = record.ranks.get(event.rank)
            record.ranks[event.rank] = _as_row(event, known.name if known is not None else "")
        elif isinstance(event, NetworkUsed):
            record.used = event
    record.left_out = events.left_out
    return record


def _as_row(event: RankChanged, name: str = "") -> ShownRank:
    related = RankState(event.rank, event.host, 0, relation=event.relation, of=event.of).related
    return ShownRank(event.rank, event.host, event.state, event.exit, event.words, name=name, related=related)


def _show(
    out: Console,
    row: history.RunRow,
    ranks: Sequence[ShownRank],
    progress: Progressed | None,
    used: NetworkUsed | None,
    asked: Sequence[WhyRecord],
) -> None:
    words = attempt_words(row)
    facts = {
        "run": row.run,
        "job": row.job,
        "state": row.state + (f", exit {row.exit}" if row.exit is not None else "") + (f", {words}" if words else ""),
        "owner": row.owner,
        "hosts": fold(row.hosts),
        "ranks": str(row.ranks) if row.ranks else "",
        "started": moment(row.started) if row.started is not None else "",
        "took": took_words(row),
        "last": progress_words(progress) if progress is not None else "",
        "network": used.words if used is not None else "",
        "logs": row.log_dir or ("on the hosts" if ranks and not row.left else ""),
    }
    lines = [f"{key:<8} {value}" for key, value in facts.items() if value]
    lines += [f"{'warn':<8} {words}" for words in row.warnings]
    lines += _failure_lines(row, {r.rank: r.name for r in ranks if r.name})
    stood = [one for one in asked if one.found.kind in STANDS]
    lines += [f"{'why':<8} {moment(one.at)} {one.found.headline}" for one in stood[-1:]]
    cells = [
        (r.name or str(r.rank), r.host, r.state, "" if r.exit is None else str(r.exit), _in_words(r)) for r in ranks
    ]
    head = "TASK" if any(r.name for r in ranks) else "RANK"
    lines += ["", *table((head, "HOST", "STATE", "EXIT", "IN WORDS"), cells, width=out.width)] if cells else []
    out.print("\n".join(safe(line).replace("\n", " ") for line in lines))


def _in_words(rank: ShownRank) -> str:
    return ", ".join(part for part in (rank.words, rank.related) if part)


def _failure_lines(row: history.RunRow, names: Mapping[int, str]) -> list[str]:
    failure = row.failure
    if failure is None:
        return []
    lines = [f"{'first':<8} {failure.where}{'' if failure.is_of_all else ' failed first'}: {failure.words}"]
    also = failure.together_by(names)
    more = (("also", also), ("unsure", failure.unsure), ("cause", failure.cause), ("try", failure.hint))
    lines += [f"{key:<8} {words}" for key, words in more if words]
    return lines + [f"{'':<8} | {line}" for line in failure.excerpt]


def _plan_json(place: places.RunLocation, wanted: bool) -> dict[str, Any]:
    """`{"plan": ...}` when it is wanted; null when it is not recorded here."""
    value = place.stored.read_plan() if wanted and place.stored is not None else None
    return {"plan": to_json(from_json(value)) if value is not None else None} if wanted else {}


def _show_plan(out: Console, settings: Settings, place: places.RunLocation) -> None:
    assert place.stored is not None
    value = place.stored.read_plan()
    if value is None:
        out.warn("distui: its plan is not recorded here")
        return
    out.print("")
    show_plan(out, settings, from_json(value), full=False)
