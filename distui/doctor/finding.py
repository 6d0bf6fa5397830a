"""What a check says about one host: verdict, what was seen, what it means, what to do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from distui.facts.troubles import for_hosts, without_host
from distui.frozen import frozen
from distui.spec.hosts.names import fold

Verdict = Literal["ok", "pull", "skip", "warn", "fail"]
"""From harmless to grave. `pull`: an image will be pulled, neither good nor bad; `skip`: it could not be checked."""

GRAVITY: tuple[Verdict, ...] = ("ok", "pull", "skip", "warn", "fail")

Group = Literal["Reach", "Software", "GPUs", "Network", "Limits"]


@frozen
class Check:
    """One question that is put to every host."""

    id: str
    group: Group
    title: str
    ran: str = ""
    """What was run for it, or read on the host."""


@frozen
class Finding:
    """The answer of one host to one check."""

    check: str
    host: str
    verdict: Verdict
    saw: str = ""
    means: str = ""
    do: str = ""


@frozen
class Answer:
    """A finding before check and host are known."""

    verdict: Verdict
    saw: str = ""
    means: str = ""
    do: str = ""


@frozen
class CheckRow:
    """One check over all hosts, in the order of the hosts."""

    check: Check
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict:
        """The gravest of all hosts'."""
        return max((f.verdict for f in self.findings), key=GRAVITY.index, default="skip")

    @property
    def worst(self) -> Finding | None:
        """The finding to show for the row: the first of the gravest, if it has anything to say."""
        found = [f for f in self.findings if f.verdict == self.verdict and f.saw]
        return found[0] if found else None


@frozen
class SharedFinding:
    """One finding that several hosts have in common."""

    hosts: tuple[str, ...]
    finding: Finding
    """The first host's; what it says is right for all but for the host's own name."""

    @property
    def saw(self) -> str:
        """What was seen; with the names of all hosts where it names one and several saw it."""
        seen = self.finding.saw
        return seen if len(self.hosts) == 1 else for_hosts(self.hosts, without_host(self.finding.host, seen))


def shared_findings(row: CheckRow) -> tuple[SharedFinding, ...]:
    """The findings of a check, equal ones of several hosts once, in the order of the hosts."""
    same: dict[tuple[str, ...], list[Finding]] = {}
    for f in row.findings:
        words = (f.verdict, *(without_host(f.host, text) for text in (f.saw, f.means, f.do)))
        same.setdefault(words, []).append(f)
    return tuple(SharedFinding(tuple(f.host for f in found), found[0]) for found in same.values())


def report_text(rows: Iterable[CheckRow], *, all_: bool = False) -> str:
    """Findings as text for people: warnings and failures, with `all_` what is well, too."""
    lines: list[str] = []
    for row in rows:
        for shared in shared_findings(row):
            found = shared.finding
            if found.verdict not in ("ok", "skip") or all_:
                lines += _lines(row.check, shared)
    return "\n".join(lines)


def _lines(check: Check, shared: SharedFinding) -> list[str]:
    found = shared.finding
    head = (
        f"{found.verdict.upper() if found.verdict == 'fail' else found.verdict:<5} {fold(shared.hosts)}  {check.title}"
    )
    lines = [f"{head}: {shared.saw}" if shared.saw else head]
    ran = check.ran if found.verdict in ("warn", "fail") else ""
    for label, text in (("means", found.means), ("do", found.do), ("ran", ran)):
        if text:
            lines.append(f"      {label:<6}{text}")
    return lines


def to_json(rows: tuple[CheckRow, ...]) -> dict[str, Any]:
    """`distui/doctor/v1`: every finding; keys are only ever added."""
    findings = [
        {
            "check": f.check,
            "group": row.check.group,
            "title": row.check.title,
            "ran": row.check.ran,
            "host": f.host,
            "verdict": f.verdict,
            "saw": f.saw,
            "means": f.means,
            "do": f.do,
        }
        for row in rows
        for f in row.findings
    ]
    counts = {v: sum(1 for f in findings if f["verdict"] == v) for v in GRAVITY}
    return {"schema": "distui/doctor/v1", "ok": not counts["fail"], "counts": counts, "findings": findings}
