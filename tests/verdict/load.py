"""A case file as the evidence that `judge` is given. The format is in README.md here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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

Case = Mapping[str, Any]


def evidence_of(case: Case) -> Evidence:
    """What is known of the ending: all times on our clock."""
    hosts: Mapping[str, Case] = case["hosts"]
    return Evidence(
        tasks=tuple(_task(task, hosts[task["host"]], case["engine"]) for task in case["tasks"]),
        hosts={name: _host(host) for name, host in hosts.items()},
        stops=tuple(Stop(s["at"], s["reason"], s.get("by", ""), s.get("exit")) for s in case["stops"]),
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


def _host(host: Case) -> HostSeen:
    return HostSeen(
        doubt=clock_doubt(host.get("rtt_ms")),
        rebooted=host.get("rebooted", False),
        lost_at=host.get("lost_at"),
        away_at=host.get("away_at"),
        engine_lost_at=host.get("engine_lost_at"),
    )


def _task(task: Case, host: Case, engine: str) -> TaskSeen:
    offset, end = host.get("offset_ms"), task["end"]
    lines: dict[int | None, list[Line]] = {}
    for at, rank, text in task["lines"]:
        lines.setdefault(rank, []).append(Line(corrected(at, offset), text))
    removed = task.get("removed", False) or (end is not None and end["state"] == "removed")
    return TaskSeen(
        index=task["index"],
        host=task["host"],
        ranks=tuple(task["ranks"]),
        name=task.get("name", ""),
        role=task.get("role", "worker"),
        engine=engine,
        end=None if end is None else _end(end, offset),
        removed=removed,
        lines={rank: tuple(said) for rank, said in lines.items()},
    )


def _end(end: Case, offset: float | None) -> End:
    return End(
        code=end.get("code"),
        at=corrected(end.get("finished_at"), offset),
        oom=bool(end.get("oom")),
        error=end.get("error", ""),
        started_at=corrected(end.get("started_at"), offset),
        signalled=end.get("signalled", False),
        state=end["state"],
        seen_at=end.get("seen_at"),
    )
