"""Which checks are wanted, by their names: `distui doctor --only` and `--skip`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from distui.doctor.checks import EQUAL_DRIVERS, EQUAL_GPUS, EQUAL_RATES, IDLE, LOGIN
from distui.doctor.finding import CheckRow
from distui.doctor.host_checks import HOST_CHECKS
from distui.doctor.plan_check import PLAN
from distui.doctor.reach_check import REACH
from distui.errors import UsageError
from distui.frozen import frozen
from distui.spec.yaml.problems import did_you_mean

NAMES = (
    LOGIN.id, *(check.id for check, _ in HOST_CHECKS), EQUAL_DRIVERS.id, EQUAL_GPUS.id, EQUAL_RATES.id, IDLE.id,
    "image", "data", PLAN.id, REACH.id,
)  # fmt: skip
"""Every check's name, as the JSON has it; `image` and `data` stand for that of any image, and of any mount."""


@frozen
class Choice:
    """The checks wanted: all, or only some, and none of those to be skipped."""

    only: frozenset[str] = frozenset()
    skip: frozenset[str] = frozenset()

    def wants(self, check: str) -> bool:
        """Whether a check is wanted. That a host does not answer is reported beside whatever `only` says."""
        name = check.partition(":")[0]
        return name not in self.skip and (not self.only or name in self.only or name == LOGIN.id)

    def of(self, rows: Iterable[CheckRow]) -> tuple[CheckRow, ...]:
        """The rows of the checks wanted."""
        return tuple(row for row in rows if self.wants(row.check.id))


def choice(only: Sequence[str], skip: Sequence[str]) -> Choice:
    """Checks by name, several with commas between them. Raises UsageError for names of no check."""
    wanted, left = _names("--only", only), _names("--skip", skip)
    if wanted and not wanted - left:
        raise UsageError("--skip leaves nothing of --only")
    return Choice(wanted, left)


def _names(flag: str, given: Sequence[str]) -> frozenset[str]:
    names = frozenset(word.strip().replace("-", "_") for text in given for word in text.split(",") if word.strip())
    unknown = sorted(names - set(NAMES))
    if unknown:
        near = did_you_mean(unknown[0], NAMES)
        raise UsageError(f"{flag} {unknown[0][:40]}: no check has that name{near}", hint=f"one of {', '.join(NAMES)}")
    return names
