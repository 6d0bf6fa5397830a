"""What all who follow a run leave in its folder on the hosts: who still reads, and the verdict that the first wrote.

Whoever is done first with a run writes how it ended; all others, on whatever machine, give that verdict. Before
anything is removed those who still read are waited for: their marks are files that they touch while they do.
"""

from __future__ import annotations

import hashlib
import socket
from dataclasses import dataclass
from typing import Literal

from distui.errors import HostCommandError
from distui.run.discover import Runner
from distui.run.folder import TOKEN_IN
from distui.run.lines import safe
from distui.run.store import StoredRun

Act = Literal["look", "mark", "leave", "record"]

FRESH_MINUTES = 1
"""A mark that was not touched for this long is of a reader that was killed, or is out of reach."""

# $1 folder, $2 the launch's token, $3 the reader's id, $4 what to do, $5 minutes. Says how many others read, and then
# what is in the verdict. A link is made once: the first verdict stays. Older `sync` take no files, and sync all.
_VISIT = (
    TOKEN_IN
    + r"""
d=$1 ours=
for name in launch launched; do
  [ ! -e "$d/$name" ] || [ -r "$d/$name" ] || exit 4
  [ "$(token_in "$d/$name")" != "$2" ] || ours=yes
done
[ -n "$ours" ] || { echo none; exit 0; }
umask 077
case $4 in
  mark) : >"$d/reader-$3" ;;
  leave) rm -f -- "$d/reader-$3" ;;
  record)
    ln -- "$d/.verdict-$3" "$d/verdict" 2>/dev/null
    rm -f -- "$d/.verdict-$3" "$d/reader-$3"
    sync "$d/verdict" "$d" 2>/dev/null || sync ;;
esac
find "$d" -maxdepth 1 -name 'reader-*' ! -name "reader-$3" -mmin "-$5" 2>/dev/null | wc -l
cat "$d/verdict" 2>/dev/null
:
"""
).strip()


def reader_id(stored: StoredRun) -> str:
    """What tells who follows a run into this folder from all others: the same for whoever goes on after a kill."""
    return hashlib.sha256(f"{socket.gethostname()}:{stored.path.resolve()}".encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class Visit:
    """What is in the run's folder on one host."""

    ours: bool
    """Whether the folder is there, and of this launch."""
    others: int = 0
    """How many others read the run just now."""
    verdict: str = ""
    """As somebody wrote it; "" when nobody did."""


async def visit(run_argv: Runner, host: str, folder: str, token: str, reader: str, act: Act = "look") -> Visit:
    """Look into the folder, and leave or take a mark, or let `.verdict-READER` be the verdict if there is none yet.

    Safe to repeat. Raises HostError.
    """
    done = await run_argv(("sh", "-c", _VISIT, "distui-visit", folder, token, reader, act, str(FRESH_MINUTES)))
    count, _, verdict = done.text.partition("\n")
    if done.ok and count.strip() == "none":
        return Visit(ours=False)
    if not count.strip().isdigit():
        words = safe(done.error_text.strip()[:500]) or f"exit {done.status}"
        raise HostCommandError(host, f"can't tell who reads {folder} on {host}: {words}")
    return Visit(True, int(count), verdict)
