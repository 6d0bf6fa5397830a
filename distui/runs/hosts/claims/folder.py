"""The run's folder on a host as a lock: of launches with one name at one moment, `mkdir` lets exactly one through.

The folder holds a file `launch` (who, since when, a token) until all tasks have started; then it is called
`launched`. A launch that was killed leaves a folder without tasks; after some minutes another may take it over. A
launch whose folder is taken away was stopped from elsewhere. Ages are by the host's own clock.
"""

from __future__ import annotations

import secrets
from dataclasses import field
from datetime import UTC, datetime
from typing import Literal

from distui.errors import HostCommandError
from distui.frozen import frozen
from distui.plan.model import RunPlan
from distui.runs.hosts.claims.claim_file import AGED, MAKE
from distui.runs.hosts.discover import Runner
from distui.runs.lines.text import safe

LAUNCH_FILE = "launch"
LAUNCHED_FILE = "launched"

STALE_MINUTES = 10
"""A launch under way changes its folder at least this often: a start may take two minutes."""

# $1 folder, $2 the claim, $3 "over" to take over a stale folder, $4 minutes. Without its `launch` file a folder was
# started from (or is half a moment old), and without tasks nobody needs it: a minute is enough.
# Env files of other launches that are older than any start takes were left by a distui that was killed: they hold
# secrets, and go. So do stale folders whose removal was killed; no run has a name that begins with a dot.
# The parents may be removed by another run that ends just now, so making them is tried again.
_TAKE = (
    AGED
    + MAKE
    + r"""
d=$1 claim=$2 over=$3 minutes=$4 taken=
case $d in "~/"*) d=$HOME/${d#??};; esac
umask 077
stale() { if [ -e "$d/launch" ]; then aged "$d" "$minutes"; else aged "$d" 1; fi; }
fail() {
  rmdir -- "${d%/*}" "${d%/*/*}" "${d%/*/*/*}" 2>/dev/null
  echo "$1" >&2; exit 1
}
replaced=${d%/*}/.replaced-${d##*/}-$$
replace() { mv -- "$d" "$replaced" && rm -rf -- "$replaced"; }
if [ "$over" = over ] && stale; then (whole replace); fi
for try in 1 2 3; do
  said=$(mkdir -p -- "${d%/*}" 2>&1) && said=$(whole make "$d" "$claim" 2>&1) && taken=yes
  [ ! -d "$d" ] || break
done
[ -d "$d" ] || fail "$said"
if [ -n "$taken" ]; then
  for old in "${d%/*}"/.replaced-*; do [ ! -d "$old" ] || timeout 20 rm -rf -- "$old" 2>/dev/null; done
  find "${d%/*}" -mindepth 2 -maxdepth 2 -type f \( -name 'env-*' -o -name '.distui-*' \) \
    -mmin "+$minutes" -exec rm -f {} + 2>/dev/null
  echo taken; exit
fi
written "$d"
had=$(cat "$d/launch" 2>/dev/null)
if [ "$had" = "$claim" ]; then echo taken; exit; fi
if stale; then echo stale; else echo held; fi
printf '%s\n' "$had"
"""
).strip()


TOKEN_IN = r"""
token_in() {
  [ -f "$1" ] &&
    { IFS= read -r text && IFS= read -r text && { text=; IFS= read -r text || [ -n "$text" ]; }; } 2>/dev/null <"$1" ||
    text=
  printf '%s' "$text"
}
"""
"""The third line of a claim, by the shell alone: the answer of a tool that is missing would be taken for no claim."""

# $1 folder, $2 token, $3 "over" when the launch is. Safe to repeat. Exit 3 when it is another's or gone, 4 when that
# can't be known.
_HOLD = (
    TOKEN_IN
    + r"""
d=$1
case $d in "~/"*) d=$HOME/${d#??};; esac
for name in launch launched; do
  [ ! -e "$d/$name" ] || [ -r "$d/$name" ] || { echo "$d/$name can't be read" >&2; exit 4; }
  [ "$(token_in "$d/$name")" = "$2" ] || continue
  [ "$3" != over ] || [ "$name" = launched ] || mv -f -- "$d/launch" "$d/launched" || exit 4
  exit 0
done
exit 3
"""
).strip()


@frozen
class Claim:
    """Whose launch it is. The token tells a repeated `take` of one launch from another's."""

    owner: str
    at: float
    """When the launch began, in UTC seconds of our clock."""
    token: str = field(default_factory=lambda: secrets.token_hex(8))

    @property
    def text(self) -> str:
        """As it is written on the hosts."""
        when = datetime.fromtimestamp(self.at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return f"{safe(self.owner)}\n{when}\n{self.token}"


def claim_of(plan: RunPlan, at: float) -> Claim:
    """The claim of a plan's launch: whoever finds its tasks knows it again by their labels."""
    token = plan.token
    return Claim(plan.owner, at, token) if token else Claim(plan.owner, at)


@frozen
class Take:
    """What came of it. `who` says who has the folder, in words, when it is not taken."""

    state: Literal["taken", "stale", "held"]
    who: str = ""


async def take(run_argv: Runner, host: str, folder: str, claim: Claim, *, engine: str = "", over: bool = False) -> Take:
    """Make `folder`, or with `over` take over a stale one. Safe to repeat. Its claim has a fourth line, the `engine` of
    the tasks there: whoever asks the host for another's does not see them.

    Raises HostCommandError with the host's words when it can't be made.
    """
    text = f"{claim.text}\n{engine}" if engine else claim.text
    argv = ("sh", "-c", _TAKE, "distui-take", folder, text, "over" if over else "", str(STALE_MINUTES))
    done = await run_argv(argv)
    state, _, had = done.text.partition("\n")
    if done.ok and state == "taken":
        return Take("taken")
    if done.ok and state in ("stale", "held"):
        return Take("stale" if state == "stale" else "held", who_claims(had))
    message = safe(done.error_text.strip()[:500]) or f"exit {done.status}"
    hint = f"look on {host} at the free space there, and whether this login may write there"
    raise HostCommandError(host, f"can't make {folder} on {host}: {message}", hint=hint)


async def holds(run_argv: Runner, host: str, folder: str, token: str, *, over: bool = False) -> bool:
    """Whether the launch with this token still has the folder; with `over` it has ended, and the run goes on.

    Raises HostCommandError when the host can't tell.
    """
    done = await run_argv(("sh", "-c", _HOLD, "distui-hold", folder, token, "over" if over else ""))
    if done.status not in (0, 3):
        message = safe(done.error_text.strip()[:500]) or f"exit {done.status}"
        raise HostCommandError(host, f"can't tell whose {folder} on {host} is: {message}")
    return done.status == 0


def who_claims(had: str) -> str:
    """The words of somebody else's claim, which may be missing or not whole."""
    owner, since, *_ = (*had.splitlines(), "", "")
    return f"of {safe(owner)[:100]} since {safe(since)[:40]}" if owner and since else "of an unknown user"
