"""What a check says about one host: verdict, what was seen, what it means, what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Verdict = Literal["ok", "pull", "skip", "warn", "fail"]
"""From harmless to grave. `pull`: an image will be pulled, neither good nor bad; `skip`: it could not be checked."""

GRAVITY: tuple[Verdict, ...] = ("ok", "pull", "skip", "warn", "fail")

Group = Literal["Reach", "Software", "GPUs", "Network", "Limits"]


@dataclass(frozen=True, slots=True)
class Check:
    """One question that is put to every host."""

    id: str
    group: Group
    title: str


@dataclass(frozen=True, slots=True)
class Finding:
    """The answer of one host to one check."""

    check: str
    host: str
    verdict: Verdict
    saw: str = ""
    means: str = ""
    do: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """A finding before check and host are known."""

    verdict: Verdict
    saw: str = ""
    means: str = ""
    do: str = ""


@dataclass(frozen=True, slots=True)
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


def to_json(rows: tuple[CheckRow, ...]) -> dict[str, Any]:
    """`distui/doctor/v1`: every finding; keys are only ever added."""
    findings = [
        {
            "check": f.check,
            "group": row.check.group,
            "title": row.check.title,
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
