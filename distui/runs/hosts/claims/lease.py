"""What only one run may have of a host, GPUs and ports, as a lease: two launches at one moment never share one unseen.

While a launch is under way it holds a directory for each in the host's /tmp, which all its users share: `mkdir` lets
exactly one through. Afterwards its live tasks hold them, by their labels and marks (`marks.py`), and the directories
go. A launch that was killed leaves directories that count for some minutes only: then the next launch takes them over,
or goes on beside those of another login, which it can't remove, and says so; what it does not want of them it removes
as it gives back its own. Ages are by the host's own clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from distui.amounts import plural
from distui.frozen import frozen
from distui.plan.labels import TaskLabels, task_from_labels
from distui.plan.model import RunPlan
from distui.runs.hosts.claims.claim_file import CLAIM, MAKE
from distui.runs.hosts.claims.folder import STALE_MINUTES, Claim, who_claims
from distui.runs.hosts.discover import FoundTask, Runner
from distui.runs.lines.text import safe

PLACE = "/tmp"
"""The one place where every user of a host may make a directory."""

_REPLACE = r"""
replace() {
  mv -- "$1" "$1.old-$$" 2>/dev/null || return
  if [ "$(claim "$1.old-$$/launch")" = "$2" ] && aged "$1.old-$$" "$3"; then rm -rf -- "$1.old-$$"
  else mv -- "$1.old-$$" "$1"
  fi
}
"""

# $1 place, $2 the claim, $3 minutes, $4 "force" to pass over what another login holds, then resources in one order for
# all: all of them or none. A stale directory is moved away before it is removed, and put back when it was not the
# stale one after all (another launch was faster, or its own has asked for it again). One that can't be moved is another
# login's, since /tmp is sticky: it is passed over and reported, with who had it.
_LEASE = (
    CLAIM
    + MAKE
    + _REPLACE
    + r"""
place=$1 claim=$2 minutes=$3 force=$4 mine= passed=; shift 4
umask 022
own=$(printf '%s\n' "$claim" | line 3)
undo() { for resource in $mine; do rm -rf -- "$place/distui-$resource"; done; }
end() { undo; printf '%s\n' "$@"; exit 0; }
for resource do
  d=$place/distui-$resource
  for try in 1 2; do
    if said=$(whole make "$d" "$claim" 2>&1); then mine="$mine $resource"; continue 2; fi
    [ -d "$d" ] || end failed "$resource" "$said"
    written "$d"
    [ -d "$d" ] || continue
    had=$(claim "$d/launch")
    if [ "$(claim_line "$d/launch" 3)" = "$own" ]; then touch -- "$d" 2>/dev/null; continue 2; fi
    if ! aged "$d" "$minutes"; then
      [ -n "$force" ] && [ ! -O "$d" ] || end held "$resource" "$had"
      passed="$passed $resource"
      continue 2
    fi
    (whole replace "$d" "$had" "$minutes") || ! aged "$d" "$minutes" || { passed="$passed $resource"; continue 2; }
  done
  end held "$resource" "$(claim "$d/launch")"
done
echo leased
for resource in $passed; do
  d=$place/distui-$resource
  aged "$d" "$minutes" && state=left || state=held
  printf '%s\t%s\t%s\t%s\n' "$resource" "$state" "$(claim_line "$d/launch" 1)" "$(claim_line "$d/launch" 2)"
done
"""
).strip()

# $1 place, $2 the launch's token, $3 minutes. Only what this login may remove is looked into. What killed launches
# left goes, too: a port that was chosen by chance is hardly ever asked for again, and nobody else would remove it.
_FREE = (
    CLAIM
    + MAKE
    + _REPLACE
    + r"""
for d in "$1"/distui-gpu-* "$1"/distui-port-*; do
  [ -d "$d" ] && [ ! -L "$d" ] || continue
  [ -O "$d" ] || [ "$(id -u)" = 0 ] || continue
  had=$(claim "$d/launch")
  if [ "$(printf '%s\n' "$had" | line 3)" = "$2" ]; then rm -rf -- "$d"
  elif aged "$d" "$3"; then (whole replace "$d" "$had" "$3")
  fi
done
:
"""
).strip()


@dataclass(frozen=True, slots=True, order=True)
class Resource:
    """Something of a host that only one run may have."""

    kind: Literal["gpu", "port"]
    number: int

    @property
    def name(self) -> str:
        """As its directory is called."""
        return f"{self.kind}-{self.number}"


def resources_of(labels: TaskLabels) -> frozenset[Resource]:
    """What a task has of its host."""
    return frozenset(
        [*(Resource("gpu", gpu) for gpu in labels.gpus), *(Resource("port", port) for port in labels.ports)]
    )


def resource_text(resources: Iterable[Resource]) -> str:
    """`GPU 0`, `GPUs 0, 2 and port 29500`."""
    listed: dict[str, list[int]] = {}
    for resource in sorted(resources):
        listed.setdefault("GPU" if resource.kind == "gpu" else "port", []).append(resource.number)
    parts = (f"{plural(len(n), kind)} {', '.join(map(str, n))}" for kind, n in listed.items())
    return " and ".join(parts)


@frozen
class Lease:
    """What came of it. `why` is empty when all is leased, else who has `resources`, in words, or why it can't be.

    `failed`: no directory can be made there (a full or read-only /tmp), so nothing is known of launches under way; or,
    where it names `resources`, only for these, which another login's killed launch has left: the others are leased.
    """

    state: Literal["leased", "held", "failed"]
    why: str = ""
    resources: frozenset[Resource] = frozenset()


@frozen
class Conflict:
    """A run that has `resources` which another wants, in words."""

    message: str
    resources: frozenset[Resource]
    marked: bool = False
    """Whether only marks say so, which other logins leave, and no engine that was asked."""


async def lease(
    run_argv: Runner, claim: Claim, resources: Iterable[Resource], *, force: bool = False, place: str = PLACE
) -> Lease:
    """Lease all of these or none. Safe to repeat, which makes the lease fresh again. With `force` what another login's
    launch holds is passed over: nobody but that login and root can remove it.
    """
    by_name = {resource.name: resource for resource in sorted(resources)}
    done = await run_argv(
        ("sh", "-c", _LEASE, "distui-lease", place, claim.text, str(STALE_MINUTES), "force" if force else "", *by_name)
    )
    state, _, details = done.text.partition("\n")
    name, _, words = details.partition("\n")
    if not done.ok or state not in ("leased", "held"):
        return Lease("failed", safe((words or done.error_text).strip()[:300]) or f"exit {done.status}")
    if state == "leased":
        passed = [(by_name[n], who) for n, *who in (line.split("\t") for line in details.splitlines()) if n in by_name]
        why = "; ".join(_left_words(f"{place}/distui-{resource.name}", who) for resource, who in passed)
        return Lease("failed" if passed else "leased", why, frozenset(resource for resource, _ in passed))
    held = frozenset(by_name[n] for n in (name,) if n in by_name)
    return Lease("held", f"{resource_text(held)} is being taken by a launch {who_claims(words)}", held)


def _left_words(directory: str, fields: Sequence[str]) -> str:
    """What a launch of another login holds or, killed, has left, and who can remove it."""
    state, *who = fields
    claim = who_claims("\n".join(who))
    verb = "was left by" if state == "left" else "is held by"
    return f"{directory} {verb} a launch {claim}: have it removed by its owner or root"


async def free(run_argv: Runner, token: str, *, place: str = PLACE) -> None:
    """Give back what the launch with this token holds on a host. Safe to repeat."""
    await run_argv(("sh", "-c", _FREE, "distui-free", place, token, str(STALE_MINUTES)))


def resources_on(plan: RunPlan, host: str) -> frozenset[Resource]:
    """What a run has of one host."""
    labels = (task_from_labels(task.labels) for task in plan.tasks_on(host))
    return frozenset[Resource]().union(
        *(resources_of(task_labels) for task_labels in labels if task_labels is not None)
    )


def sharers(tasks: Sequence[FoundTask], plan: RunPlan, wanted: Iterable[Resource]) -> tuple[Conflict, ...]:
    """Other launches than the plan's whose live tasks have one of these resources, each in words."""
    ours = _launch_of(plan.own_labels)
    return holders([task for task in tasks if _launch_of(task.labels) != ours], wanted)


def holders(tasks: Sequence[FoundTask], wanted: Iterable[Resource]) -> tuple[Conflict, ...]:
    """Launches whose live tasks have one of these resources, each in words."""
    asked = frozenset(wanted)
    runs: dict[tuple[str, ...], list[FoundTask]] = {}
    for task in tasks:
        if task.running and asked & resources_of(task.labels):
            runs.setdefault(_launch_of(task.labels), []).append(task)
    return tuple(_conflict(found, asked) for found in runs.values())


def _conflict(tasks: Sequence[FoundTask], asked: frozenset[Resource]) -> Conflict:
    """What these tasks of one launch have of what is asked for. A task that only a mark tells of has no id."""
    shared = asked & frozenset[Resource]().union(*(resources_of(task.labels) for task in tasks))
    return Conflict(_words(tasks[-1].labels, shared), shared, marked=all(not task.id for task in tasks))


def _launch_of(labels: TaskLabels | None) -> tuple[str, ...]:
    """What tells one launch from another: two logins may have runs of one name."""
    return (labels.run, labels.launch) if labels is not None else ()


def _words(labels: TaskLabels, resources: frozenset[Resource]) -> str:
    verb = "are" if len(resources) != 1 else "is"
    since = f" since {safe(labels.started)}" if labels.started else ""
    who = f"run {safe(labels.run)} of {safe(labels.owner) or '?'} (job {safe(labels.job)}{since})"
    return f"{resource_text(resources)} {verb} used by {who}"
