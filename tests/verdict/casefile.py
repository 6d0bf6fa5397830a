"""One ending as a case file: put together from a run's folder and from what `tap.py` wrote, and stored."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from distui.plan.serialize import from_json
from distui.runs.lines.times import times_of
from verdict.load import clock_until

RAISED = re.compile(r"Traceback \(most recent|Exception raised from|terminate called")
LOST = 255
"""Docker's exit code of containers whose end it did not see."""
LINES = 200
"""Kept of each rank, the last ones."""
WIDTH = 2000
"""Characters kept of each line."""
REASONS = {"max_duration": "limit"}
"""What a stop is called in a case, where `events` has another word."""

CASES = Path(__file__).parent / "cases"


def write_case(name: str, case: Mapping[str, Any], folder: Path = CASES) -> Path:
    """Store a case; each line of a log stays one line of the file."""
    path = folder / f"{name}.json"
    text = json.dumps(case, indent=1, ensure_ascii=False)
    path.write_text(_flat(text) + "\n")
    return path


def _flat(text: str) -> str:
    """Lists of plain values on one line each."""
    plain = r'(?:"(?:[^"\\]|\\.)*"|[-0-9.e+]+|null|true|false)'
    return re.sub(rf"\[\s*({plain}(?:,\s*{plain})*)\s*\]", lambda m: "[" + re.sub(r",\n\s*", ", ", m[1]) + "]", text)


def build_case(folder: Path, tap: Path, *, since: float) -> dict[str, Any]:
    """What is known of a run that has ended: everything but title, source and truth. Times count from `since`."""
    plan = json.loads((folder / "plan.json").read_text())
    output = [json.loads(line) for line in tap.read_text().splitlines()]
    events = [json.loads(line) for line in (folder / "events.ndjson").read_text().splitlines()]
    hosts = {host: host_of(host, output, since) for host in sorted({task["host"] for task in plan["tasks"]})}
    tasks = [_task(task, folder, output, hosts, since) for task in plan["tasks"]]
    for task in tasks:
        if task["end"] is not None and set(task["ranks"]) & set(_removed(events)):
            task["end"]["state"] = "removed"
    return {
        "launcher": plan["launcher"],
        "engine": plan["tasks"][0]["engine"],
        "max_restarts": plan.get("max_restarts") or 0,
        "hosts": hosts,
        "tasks": tasks,
        "stops": list(_stops(events, since)) or list(_stops_elsewhere(events, tasks, hosts)),
        "silences": list(_silences(events, since)),
    } | _rules(plan)


def _rules(plan: dict[str, Any]) -> dict[str, Any]:
    """What a plan says of its own end, where it says anything."""
    read = from_json(plan)
    judges = {"judges": list(read.judges)} if read.done_when is not None else {}
    return judges | {key: plan[key] for key in ("min_nodes", "max_duration") if plan.get(key)}


def host_of(host: str, events: list[dict[str, Any]], since: float) -> dict[str, Any]:
    """What was learned of one host."""
    its = [t for t in events if t["host"] == host]
    clock = [t for t in its if t["kind"] == "clock" and t["offset_ms"] is not None]
    rounded = {key: round(clock[-1][key] or 0.0, 3) if clock else None for key in ("offset_ms", "rtt_ms")}
    boots = any(t["kind"] == "Back" and t["rebooted"] for t in its)
    return (
        rounded
        | {
            "rebooted": boots,
            **({"away_at": _away(its, since)} if boots else {}),
            "lost_at": _lost(its, "host", since),
            "engine_lost_at": _lost(its, "engine", since),
        }
        | _clock(its, clock, since)
        | _absences(its, since)
    )


def _clock(its: list[dict[str, Any]], measured: list[dict[str, Any]], since: float) -> dict[str, Any]:
    """Its clock as it was read again and again, once it was measured."""
    readings = [t for t in its if t["kind"] == "reading" and measured and t["heard"] >= measured[-1]["now"]]
    if not readings:
        return {}
    said = [[_seconds(t[key], since) for key in ("asked", "said", "heard")] for t in readings]
    return {"measured_at": _seconds(measured[-1]["now"], since), "clock": said}


def _absences(its: list[dict[str, Any]], since: float) -> dict[str, Any]:
    """From when to when it, or its engine, was out of reach, each time that both came back."""
    found: list[list[float | None]] = []
    missing: set[str] = set()
    gone = 0.0
    for event in its:
        if event["kind"] == "Lost":
            gone = gone if missing else event["now"]
            missing.add(event["what"])
        elif event["kind"] == "Back" and missing:
            missing.discard(event["what"])
            found += [] if missing else [[_seconds(gone, since), _seconds(event["now"], since)]]
    return {"away": found} if found else {}


def _lost(its: list[dict[str, Any]], what: str, since: float) -> float | None:
    """When it was lost last; None where it came back without a restart."""
    lost = [t for t in its if t["kind"] in ("Lost", "Back") and t["what"] == what]
    gone = [t["now"] for t in lost if t["kind"] == "Lost"]
    if not gone or (lost[-1]["kind"] == "Back" and not lost[-1]["rebooted"]):
        return None
    return _seconds(gone[-1], since)


def _away(its: list[dict[str, Any]], since: float) -> float | None:
    """When a host that was restarted, or its engine, had gone out of reach."""
    boot = next(i for i, t in enumerate(its) if t["kind"] == "Back" and t["rebooted"])
    back = max((i for i, t in enumerate(its[:boot]) if t["kind"] == "Back"), default=-1)
    lost = [t["now"] for t in its[back + 1 : boot] if t["kind"] == "Lost"]
    return _seconds(lost[0], since) if lost else None


def _task(task: dict[str, Any], folder: Path, events: list[dict[str, Any]], hosts: Any, since: float) -> dict[str, Any]:
    host = hosts[task["host"]]
    logs = {rank: folder / "logs" / f"rank-{rank:05d}.log" for rank in task["ranks"]}
    logs[None] = folder / "logs" / f"node-{task['index']:05d}.log"
    lines = [
        [round(at - since + ahead_of(host, at - since), 4), rank, text]
        for rank, log in logs.items()
        for at, text in _lines(log)
    ]
    end = _end(task["index"], events, since)
    return {
        "index": task["index"],
        "host": task["host"],
        "ranks": task["ranks"],
        "role": task["role"],
        **({"name": task["name"]} if task["labels"].get("distui.name") else {}),
        "end": end,
        "lines": sorted(lines, key=lambda line: line[0]),
    }


def ahead_of(host: dict[str, Any], at: float) -> float:
    """By how many seconds distui took a host's clock to be ahead at this time of ours."""
    offset = (host["offset_ms"] or 0.0) / 1000
    return clock_until(host, at).offset if "clock" in host else offset


def _end(task: int, events: list[dict[str, Any]], since: float) -> dict[str, Any] | None:
    its = [t for t in events if t.get("task") == task]
    exits = [t for t in its if t["kind"] == "Exited"]
    removed = any(t["kind"] == "Removed" for t in its)
    if not exits and not removed:
        return None
    last = exits[-1] if exits else {}
    return {
        "state": "removed" if removed else last["state"],
        "code": last.get("code"),
        "oom": bool(last.get("oom")),
        "error": last.get("error", ""),
        "finished_at": _seconds(last.get("finished_at"), since),
        "started_at": _seconds(last.get("started_at"), since),
        "signalled": last.get("signalled", False),
        "seen_at": _seconds(its[-1]["now"] if not exits else last["now"], since),
    }


def _lines(log: Path) -> Iterator[tuple[float, str]]:
    if not log.exists():
        return
    texts = log.read_text(errors="replace").split("\n")
    if texts[-1] == "":
        texts.pop()
    data = times_of(log).read_bytes()
    times = struct.unpack(f"<{len(data) // 8}d", data)
    yield from [(at, text[:WIDTH]) for at, text in zip(times, texts, strict=False)][-LINES:]


def _stops(events: list[dict[str, Any]], since: float) -> Iterator[dict[str, Any]]:
    for event in events:
        if event["type"] == "stop":
            reason = REASONS.get(event["reason"], event["reason"])
            yield {"at": _seconds(_utc(event["ts"]), since), "reason": reason, "by": ""}


def _stops_elsewhere(
    events: list[dict[str, Any]], tasks: list[dict[str, Any]], hosts: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """A stop by another distui, which says on the hosts who it is: known from the first end that it brought about."""
    found = [re.match(r"stopped by (.+) \(exit", event.get("words", "")) for event in events if event["type"] == "rank"]
    who = [match[1] for match in found if match]
    if who:
        ends = [t["end"]["finished_at"] - (hosts[t["host"]]["offset_ms"] or 0.0) / 1000 for t in tasks if t["end"]]
        yield {"at": round(min(ends), 4), "reason": "elsewhere", "by": who[0]}


def _removed(events: list[dict[str, Any]]) -> Iterator[int]:
    """Ranks whose containers were found to be gone when they were to be removed."""
    for event in events:
        failure = event.get("first_failure") or {}
        if "removed by somebody else" in str(failure.get("words")):
            yield failure["rank"]


def _silences(events: list[dict[str, Any]], since: float) -> Iterator[dict[str, Any]]:
    """The ranks that were silent last, and since when."""
    last = {event["rank"]: event for event in events if event["type"] == "silence"}
    for rank, event in sorted(last.items()):
        if event["quiet"]:
            yield {"rank": rank, "since": _seconds(_utc(event["ts"]) - event["seconds"], since)}


def _utc(iso: str) -> float:
    return datetime.fromisoformat(iso).timestamp()


def _seconds(at: float | None, since: float) -> float | None:
    return None if at is None else round(at - since, 4)


def settle(truth: dict[str, Any], case: dict[str, Any]) -> dict[str, Any]:
    """Truth where it was left to the run's luck whether a rank ended because of the failure or was stopped first.

    `followed|stopped` becomes `followed` when the rank raised or ended before the stop began. An exit that was left
    open is the container's, where that has one rank.
    """
    ranks = {rank: dict(value) for rank, value in truth["ranks"].items()}
    stop = min((stop["at"] for stop in case["stops"]), default=float("inf"))
    for task in case["tasks"]:
        ahead = (case["hosts"][task["host"]]["offset_ms"] or 0.0) / 1000
        for rank in task["ranks"]:
            rank_truth = ranks[str(rank)]
            if "|" in rank_truth["relation"]:
                raised = [at for at, of, text in task["lines"] if of == rank and RAISED.search(text)]
                ended = [task["end"]["finished_at"]] if task["end"] else []
                rank_truth["relation"] = "followed" if min(raised + ended) - ahead < stop else "stopped"
            if rank_truth["exit"] is rank_truth["signal"] is None and case["launcher"] != "torchrun" and task["end"]:
                code = task["end"]["code"]
                if code is not None and code != LOST:
                    rank_truth["signal" if code > 128 else "exit"] = code - 128 * (code > 128)
    return truth | {"ranks": ranks}
