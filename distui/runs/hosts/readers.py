"""What all who follow a run leave in its folder on the hosts: who still reads, and the verdict that the first wrote.

Whoever is done first with a run writes how it ended; all others, on whatever machine, give that verdict. Before
anything is removed those who still read are waited for: their marks are files that they touch while they do. Whoever
has not got all of a log leaves word of that, and who cleans up leaves those containers; so it does for a reader that
goes on touching its mark. Who waits for the end of a run
whose attempt failed leaves word of that, too: the next attempt's folder begins with the marks of those. Who begins the
next attempt has a mark of its own beside the reader's: where there is none, nobody waits for that attempt.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Literal

from distui.errors import HostCommandError
from distui.frozen import frozen
from distui.regex import regex
from distui.runs.hosts.claims.folder import TOKEN_IN
from distui.runs.hosts.discover import Runner
from distui.runs.lines.text import safe
from distui.runs.store.end_record import VERDICT_IN
from distui.runs.store.runs import StoredRun
from distui.session import Completed
from distui.whole import whole

Act = Literal["look", "mark", "begins", "leave", "await", "next", "carry", "unread"]

FRESH_MINUTES = 1
"""A mark that was not touched for this long is of a reader that was killed, or is out of reach."""

# $1 folder, $2 the launch's token, $3 the reader's id, $4 what to do, $5 minutes, $6 the id of a reader that is gone,
# $7 who reads, in words, then tasks, or how many bytes of a verdict come in. Says how many others read and how many of
# those may record an end, how many others begin the next attempt and how many of those have not recorded one, and how
# many who may record an end have touched their mark since somebody has; on the next line the tasks whose logs others
# have not got, on the next who may record an end, and then what is in the verdict. A link is made once: the first
# verdict stays. Older `sync` take no files, and sync all. What a reader that was killed has left beside the verdict may
# be that one. A mark that was carried here holds that word until its reader touches it.
_CARRIED = "carried"
_VISIT = (
    TOKEN_IN
    + VERDICT_IN
    + r"""
d=$1 token=$2 me=$3 act=$4 minutes=$5 gone=$6 who=$7 ours=
shift 7
for name in launch launched; do
  [ ! -e "$d/$name" ] || [ -r "$d/$name" ] || exit 4
  [ "$(token_in "$d/$name")" != "$token" ] || ours=yes
done
[ -n "$ours" ] || { echo none; exit 0; }
umask 077
case $act in
  mark) printf '%s' "$who" >"$d/reader-$me"; rm -f -- "$d/begins-$me" ;;
  begins) printf '%s' "$who" >"$d/reader-$me"; : >"$d/begins-$me" ;;
  carry) [ -e "$d/reader-$me" ] || echo carried >"$d/reader-$me" ;;
  await) : >"$d/next-$me" ;;
  next) : >"$d/next-$me"; rm -f -- "$d/reader-$me" ;;
  leave) rm -f -- "$d/reader-$me" "$d/next-$me" "$d/begins-$me" ;;
  unread) printf '%s ' "$@" >"$d/unread-$me" ;;
  record)
    own=$d/.verdict-$me
    rm -f -- "$own"
    if ! cat >"$own" || [ "$(wc -c <"$own")" -ne "$1" ]; then rm -f -- "$own" "$d/reader-$me"; exit 5; fi
    ln -- "$own" "$d/verdict" 2>/dev/null
    rm -f -- "$own" "$d/reader-$me"
    sync "$d/verdict" "$d" 2>/dev/null || sync ;;
esac
others() { find "$d/." -maxdepth 1 -mmin "-$minutes" ! -name "*-$me" ! -name "*-$gone" "$@" 2>/dev/null; }
all=0 begins=0 silent=0 reading=0
set -f --
IFS='
'
for file in $(others '(' -name 'reader-*' -o -name 'begins-*' ')'); do
  case ${file##*/} in
    reader-*-wait) all=$((all + 1)) ;;
    reader-*) all=$((all + 1)); set -- "$@" "$file" ;;
    begins-*)
      begins=$((begins + 1))
      [ ! -e "$d/reader-${file##*/begins-}" ] || silent=$((silent + 1)) ;;
  esac
done
unset IFS
set +f
[ ! -e "$d/verdict" ] || reading=$(others -name 'reader-*' ! -name '*-wait' -newer "$d/verdict" | wc -l)
echo "$all $# $begins $silent $reading"
for file in "$d"/unread-*; do
  [ "$file" = "$d/unread-$me" ] || [ ! -f "$file" ] || dd if="$file" bs=1048576 count=1 2>/dev/null
done
echo
for file in "$@"; do
  [ ! -f "$file" ] || [ -L "$file" ] || {
    dd if="$file" bs=100 count=1 2>/dev/null | tr -d '\000\n\t'; printf '\t'; }
done
echo
verdict_in "$d" 2>/dev/null
:
"""
).strip()

WAITERS_IN = rf"""
waiters_in() {{
  {{
    find "$1" -maxdepth 1 -type f -name 'reader-*-wait' -size 0 -mmin "-{FRESH_MINUTES}"
    find "$1" -maxdepth 1 -type f -name 'next-*'
  }} 2>/dev/null | while IFS= read -r text; do echo "waits ${{text##*/}}"; done
}}
"""
"""For scripts: `waiters_in FOLDER` says who waits for the end of the run, whichever of its attempts that is."""

BEGUN_BY_ANOTHER = rf"""
begun_by_another() {{
  [ -n "$(find "$1/." -maxdepth 1 -name 'begins-*' ! -name "begins-$2" -mmin "-{FRESH_MINUTES}" 2>/dev/null)" ]
}}
"""
"""For scripts: `begun_by_another FOLDER READER` tells whether somebody else follows the run who begins its next
attempt.
"""

_WAITS = regex(r"waits (?:reader-(?=[0-9a-f]+-wait)|next-)([0-9a-f]{1,64}(?:-wait)?)")


def waiters_of(said: str) -> frozenset[str]:
    """The readers that `waiters_in` has named, among whatever else was printed."""
    return frozenset(found[1] for line in said.splitlines() if (found := _WAITS.fullmatch(line)))


def waiter_id(stored: StoredRun) -> str:
    """What tells who waits for a run's end from all others, those who follow it from the same folder among them."""
    return f"{reader_id(stored)}-wait"


def reader_id(stored: StoredRun) -> str:
    """What tells who follows a run into this folder from all others: the same for whoever goes on after a kill."""
    return hashlib.sha256(f"{os.uname().nodename}:{stored.path.resolve()}".encode()).hexdigest()[:12]


@frozen
class Visit:
    """What is in the run's folder on one host."""

    ours: bool
    """Whether the folder is there, and of this launch."""
    others: int = 0
    """How many others read the run just now."""
    judges: int = 0
    """How many of them may record how it ended: who only waits for the end does not."""
    begins: int = 0
    """How many others follow it who begin its next attempt."""
    silent: int = 0
    """How many of those have not recorded how this one ended."""
    verdict: str = ""
    """As somebody wrote it; "" when nobody did."""
    reading: int = 0
    """How many of those who may record the end go on reading since somebody has recorded it."""
    names: frozenset[str] = frozenset()
    """Who they are who may record it, as far as they say."""
    unread: frozenset[int] = frozenset()
    """Tasks whose logs others have not got completely."""
    known: bool = True
    """False where nobody could look: then nothing else of this counts."""


async def visit(
    run_argv: Runner,
    host: str,
    folder: str,
    token: str,
    reader: str,
    act: Act = "look",
    tasks: Iterable[int] = (),
    gone: str = "",
    who: str = "",
) -> Visit:
    """Look into the folder, and leave or take a mark, or leave word that the logs of `tasks` are unread. `begins` is
    the mark of who begins the next attempt. `await` asks for a mark in the next attempt's folder, `next` takes ours as
    well; `carry` makes that one. A reader that is known to be `gone` counts for nothing. A reader's mark says `who`
    that is; that of who only waits for the end is empty.

    Safe to repeat. Raises HostError.
    """
    given = (folder, token, reader, act, str(FRESH_MINUTES), gone, "" if reader.endswith("-wait") else who)
    return _seen(host, folder, await run_argv(("sh", "-c", _VISIT, "distui-visit", *given, *map(str, tasks))))


async def record(
    run_with: Callable[[Sequence[str], bytes], Awaitable[Completed]],
    host: str,
    folder: str,
    token: str,
    reader: str,
    verdict: bytes,
    gone: str = "",
) -> Visit:
    """Let `verdict` be the run's, unless one is written there already, and take the reader's mark away; what is there
    then. One command, since at a run's end each is waited for.

    Safe to repeat. Raises HostError; part of a verdict is none.
    """
    given = (folder, token, reader, "record", str(FRESH_MINUTES), gone, "", str(len(verdict)))
    return _seen(host, folder, await run_with(("sh", "-c", _VISIT, "distui-record", *given), verdict))


def _seen(host: str, folder: str, done: Completed) -> Visit:
    count, _, rest = done.text.partition("\n")
    unread, _, rest = rest.partition("\n")
    names, _, verdict = rest.partition("\n")
    if done.ok and count.strip() == "none":
        return Visit(ours=False)
    counts = [number for word in count.split() if (number := whole(word)) is not None]
    if len(counts) != 5:
        message = safe(done.error_text.strip()[:500]) or f"exit {done.status}"
        raise HostCommandError(host, f"can't tell who reads {folder} on {host}: {message}")
    found = (whole(word, 6) for word in unread.split())
    others, judges, begins, silent, reading = counts
    tasks_unread = frozenset(task for task in found if task is not None)
    said = frozenset(safe(name) for name in names.split("\t") if name not in ("", _CARRIED))
    return Visit(True, others, judges, begins, silent, verdict, reading, said, tasks_unread)
