"""GPUs of a host as a lease, so that two launches at one moment never share one without being told.

While a launch is under way it holds a directory per GPU in the host's /tmp, which all its users share: `mkdir` lets
exactly one through. Afterwards the labels of its live tasks hold the GPUs, and the directories go. A launch that was
killed leaves directories that count for some minutes only. Ages are by the host's own clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from distui.plan.labels import TaskLabels
from distui.run.discover import FoundTask, Runner
from distui.run.folder import STALE_MINUTES, Claim, who_claims
from distui.run.lines import safe

PLACE = "/tmp"
"""The one place where every user of a host may make a directory."""

# $1 place, $2 the claim, $3 minutes, then GPUs in rising order: all of them or none. A stale directory is moved away
# before it is removed, and put back when it was not the stale one after all (another launch was faster).
_LEASE = r"""
place=$1 claim=$2 minutes=$3 mine=; shift 3
umask 022
token() { sed -n 3p "$1/launch" 2>/dev/null; }
own=$(printf '%s\n' "$claim" | sed -n 3p)
undo() { for gpu in $mine; do rm -rf -- "$place/distui-gpu-$gpu"; done; }
end() { undo; printf '%s\n' "$@"; exit 0; }
for gpu do
  d=$place/distui-gpu-$gpu
  for try in 1 2; do
    if said=$(mkdir -- "$d" 2>&1); then
      mine="$mine $gpu"
      said=$({ printf '%s\n' "$claim" | cat >"$d/launch"; } 2>&1) || end failed "$gpu" "$said"
      continue 2
    fi
    [ -d "$d" ] || end failed "$gpu" "$said"
    had=$(cat "$d/launch" 2>/dev/null)
    [ "$(token "$d")" != "$own" ] || continue 2
    [ -n "$(find "$d" -maxdepth 0 -mmin "+$minutes" 2>/dev/null)" ] || end held "$gpu" "$had"
    mv -- "$d" "$d.old-$$" 2>/dev/null || end stale "$gpu" "$had"
    if [ "$(cat "$d.old-$$/launch" 2>/dev/null)" = "$had" ]; then
      rm -rf -- "$d.old-$$"
    else
      mv -- "$d.old-$$" "$d"
    fi
  done
  end held "$gpu" "$(cat "$d/launch" 2>/dev/null)"
done
echo leased
""".strip()

_FREE = r"""
for d in "$1"/distui-gpu-*; do
  [ "$(sed -n 3p "$d/launch" 2>/dev/null)" != "$2" ] || rm -rf -- "$d"
done
""".strip()


@dataclass(frozen=True, slots=True)
class Lease:
    """What came of it. `why` is empty when the GPUs are leased, else who has one, in words, or why it can't be.

    `failed`: no directory can be made there (a full or read-only /tmp), so nothing is known of launches under way.
    """

    state: Literal["leased", "held", "failed"]
    why: str = ""


async def lease(run_argv: Runner, claim: Claim, gpus: Sequence[int], *, place: str = PLACE) -> Lease:
    """Lease all these GPUs or none. Safe to repeat."""
    indices = [str(gpu) for gpu in sorted(gpus)]
    done = await run_argv(("sh", "-c", _LEASE, "distui-lease", place, claim.text, str(STALE_MINUTES), *indices))
    state, _, told = done.text.partition("\n")
    gpu, _, words = told.partition("\n")
    if not done.ok or state not in ("leased", "held", "stale"):
        return Lease("failed", safe((words or done.error_text).strip()[:300]) or f"exit {done.status}")
    if state == "leased":
        return Lease("leased")
    old = f", more than {STALE_MINUTES} minutes ago, which only they can remove" if state == "stale" else ""
    return Lease("held", f"GPU {gpu} is being taken by a launch {who_claims(words)}{old}")


async def free(run_argv: Runner, token: str, *, place: str = PLACE) -> None:
    """Give back what the launch with this token holds on a host. Safe to repeat."""
    await run_argv(("sh", "-c", _FREE, "distui-free", place, token))


def sharers(tasks: Sequence[FoundTask], run: str, gpus: Sequence[int]) -> tuple[str, ...]:
    """Other runs whose live tasks use one of these GPUs, each in words."""
    runs: dict[str, tuple[TaskLabels, set[int]]] = {}
    for task in tasks:
        if task.running and task.labels.run != run and (used := set(gpus) & set(task.labels.gpus)):
            runs.setdefault(task.labels.run, (task.labels, set()))[1].update(used)
    return tuple(_words(labels, sorted(used)) for labels, used in runs.values())


def _words(labels: TaskLabels, gpus: Sequence[int]) -> str:
    which = f"GPU{'s' * (len(gpus) != 1)} {', '.join(map(str, gpus))}"
    verb = "are" if len(gpus) != 1 else "is"
    since = f" since {safe(labels.started)}" if labels.started else ""
    return (
        f"{which} {verb} used by run {safe(labels.run)} of {safe(labels.owner) or '?'} (job {safe(labels.job)}{since})"
    )
