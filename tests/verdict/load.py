"""A case file as the evidence that `judge` is given. The format is in README.md here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from distui.runs.insight.seen.clocks import Reading
from distui.runs.verdict.evidence import (
    End,
    Evidence,
    HostSeen,
    Line,
    Rules,
    Silence,
    Stop,
    TaskSeen,
    clock_doubt,
    corrected,
)
from distui.runs.watch.host_clock import HostClock

Case = Mapping[str, Any]


def evidence_of(case: Case) -> Evidence:
    """What is known of the ending: all times on our clock."""
    hosts: Mapping[str, Case] = case["hosts"]
    return Evidence(
        tasks=tuple(_task(task, hosts[task["host"]], case["engine"]) for task in case["tasks"]),
        hosts={name: _host(host) for name, host in hosts.items()},
        stops=tuple(_stop(stop, case) for stop in case["stops"]),
        silences=tuple(Silence(s["rank"], s["since"]) for s in case.get("silences", ())),
        rules=Rules(
            launcher=case["launcher"],
            max_restarts=case.get("max_restarts", 0),
            min_nodes=case.get("min_nodes"),
            keeper=case.get("keeper"),
            judges=tuple(case.get("judges", ())),
            max_duration=case.get("max_duration"),
        ),
        unfound=case.get("unfound", 0),
    )


def _stop(stop: Case, case: Case) -> Stop:
    return Stop(stop["at"], stop["reason"], stop.get("by", ""), stop.get("exit"), live=frozenset(_live(stop, case)))


def _live(stop: Case, case: Case) -> Iterator[int]:
    """Tasks that were not known to have ended when it was sent, on hosts that answered then."""
    for task in case["tasks"]:
        seen, lost = (task["end"] or {}).get("seen_at"), case["hosts"][task["host"]].get("lost_at")
        if (seen is None or seen >= stop["at"]) and (lost is None or lost > stop["at"]):
            yield task["index"]


def clock_until(host: Case, until: float | None = None) -> HostClock:
    """A host's clock as it was known by then; at the end of the run without `until`."""
    known = HostClock((host.get("offset_ms") or 0.0) / 1000, clock_doubt(host.get("rtt_ms")), host["measured_at"])
    for asked, said, heard in host["clock"]:
        if until is not None and heard > until:
            break
        known.take(Reading(asked, said, heard))
    return known


def _on_ours(at: float | None, host: Case, learned: float | None = None) -> float | None:
    """A time of a host's clock as distui corrects it: by what is known of that clock when it is learned."""
    offset = host.get("offset_ms") or 0.0
    if at is not None and "clock" in host:
        offset = 1000 * clock_until(host, learned if learned is not None else at - offset / 1000).offset
    return corrected(at, offset)


def _host(host: Case) -> HostSeen:
    known = clock_until(host) if "clock" in host else None
    return HostSeen(
        doubt=known.doubt if known else clock_doubt(host.get("rtt_ms")),
        unsteady=known.unsteady if known else (),
        set_by=abs(known.set_by) if known else 0.0,
        read_from=known.read_from if known else None,
        read_until=known.read_until if known else None,
        away=tuple((since, back) for since, back in host.get("away", ())),
        rebooted=host.get("rebooted", False),
        lost_at=host.get("lost_at"),
        away_at=host.get("away_at"),
        engine_lost_at=host.get("engine_lost_at"),
    )


def _task(task: Case, host: Case, engine: str) -> TaskSeen:
    end = task["end"]
    lines: dict[int | None, list[Line]] = {}
    for at, rank, text in task["lines"]:
        lines.setdefault(rank, []).append(Line(_on_ours(at, host), text))
    removed = task.get("removed", False) or (end is not None and end["state"] == "removed")
    return TaskSeen(
        index=task["index"],
        host=task["host"],
        ranks=tuple(task["ranks"]),
        name=task.get("name", ""),
        role=task.get("role", "worker"),
        engine=engine,
        end=None if end is None else _end(end, host),
        removed=removed,
        lines={rank: tuple(said) for rank, said in lines.items()},
    )


def _end(end: Case, host: Case) -> End:
    seen = end.get("seen_at")
    return End(
        code=end.get("code"),
        at=_on_ours(end.get("finished_at"), host, seen),
        oom=bool(end.get("oom")),
        error=end.get("error", ""),
        started_at=_on_ours(end.get("started_at"), host, seen),
        signalled=end.get("signalled", False),
        state=end["state"],
        seen_at=seen,
    )
