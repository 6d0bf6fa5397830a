"""What a launch that was killed leaves where none of its tasks runs: its folder with env files, its GPUs and ports, and
code that had arrived in part.

Removed only by the launch's own token, so never another's, also of the same name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field

from distui.errors import DistuiError
from distui.frozen import frozen
from distui.plan.labels import token_of
from distui.runs.code.call import KEEP, clean
from distui.runs.hosts.claims import lease, marks
from distui.runs.hosts.claims.folder import LAUNCH_FILE, LAUNCHED_FILE, TOKEN_IN
from distui.runs.hosts.discover import home_of
from distui.runs.hosts.link import HostLink
from distui.runs.lines.text import safe
from distui.runs.task.host_access import REMOVE_SECONDS
from distui.session import Connector, session_on
from distui.spec.hosts.inventory import Host

# $1 the run's name, $2 the token, then hosts: +NAME was asked and has no task of it, -NAME is to be spared. Below
# whatever name the host had when the run was started. A folder with a process in it is not for us: that is found,
# stopped and removed as a task. The claim of a run that had begun goes last: while anything is left, the next stop
# finds it.
_SWEEP = (
    TOKEN_IN
    + rf"""
run=$1 token=$2; shift 2
rest() {{ find "$d" -mindepth 1 -maxdepth 1 ! -name {LAUNCHED_FILE} "$@" 2>/dev/null; }}
for d in "$HOME"/.local/state/distui/hosts/*/*; do
  [ "${{d##*/}}" = "$run" ] || continue
  on=${{d%/*}}; on=${{on##*/}} asked= ours=
  for host do
    [ "$host" != "-$on" ] || continue 2
    [ "$host" != "+$on" ] || asked=yes
  done
  for name in {LAUNCH_FILE} {LAUNCHED_FILE}; do
    [ ! -e "$d/$name" ] || [ -r "$d/$name" ] || {{ echo "$d/$name can't be read" >&2; exit 4; }}
    [ "$(token_in "$d/$name")" != "$token" ] || ours=$name
  done
  [ -n "$ours" ] || continue
  for task in "$d"/task-*/labels.json; do [ ! -e "$task" ] || continue 2; done
  if [ "$ours" = {LAUNCHED_FILE} ] && [ -z "$asked" ]; then echo "unasked $on"; continue; fi
  [ ! -e "$d/code-tree" ] || echo code
  rest -exec rm -rf -- {{}} +
  [ -n "$(rest)" ] || rm -rf -- "$d" 2>/dev/null
  rmdir -- "${{d%/*}}" "${{d%/*/*}}" "${{d%/*/*/*}}" 2>/dev/null
  if [ -d "$d" ]; then echo "left $d"; else echo swept; fi
done
:
"""
).strip()


@frozen
class Swept:
    """What came of it on all hosts. Names of hosts, and words by host."""

    hosts: tuple[str, ...] = ()
    """Where something was removed."""
    left: Mapping[str, str] = field(default_factory=dict)
    """Folders that this login can't remove."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Why a host could not be swept."""
    kept: Mapping[str, str] = field(default_factory=dict)
    """Hosts whose folder stays, since tasks may live there: why."""


async def sweep(
    connector: Connector,
    hosts: Sequence[Host],
    run: str,
    token: str,
    files: Sequence[tuple[str, str]] = (),
    *,
    spare: Collection[str] = (),
) -> Swept:
    """Remove it from these hosts, all at once, and `files`, each a host and a path. Safe to repeat.

    `hosts` are those that were asked and have no task of it. Where hosts share a home, one that is swept has the
    folders of all: those of the hosts in `spare` stay, since tasks may run there, and of others that were not asked
    those of a run that had begun. So does the folder of a host where a task has left a mark and lives.
    """
    if not token:
        return Swept()
    paths = {host.name: [path for name, path in files if name == host.name] for host in hosts}
    about = (*(f"+{host.name}" for host in hosts), *(f"-{name}" for name in sorted(spare)))
    argv = ("sh", "-c", _SWEEP, "distui-sweep", run, token, *about)
    done = await asyncio.gather(*(_sweep(connector, host.name, argv, token, paths[host.name]) for host in hosts))
    by_host = dict(zip((host.name for host in hosts), done, strict=True))
    return Swept(
        tuple(host for host, words in by_host.items() if not isinstance(words, str) and "swept" in words),
        {h: w for h, words in by_host.items() if not isinstance(words, str) for w in words if w.startswith("/")},
        {host: words for host, words in by_host.items() if isinstance(words, str)},
        dict(kept for words in by_host.values() if not isinstance(words, str) for kept in _kept(words)),
    )


def _kept(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The hosts whose folder a host's script has left, and why."""
    for kind, _, host in (word.partition(" ") for word in words):
        if kind == "unasked":
            yield host, "it was not asked, and the run may still be running there"
        elif kind == "alive":
            yield host, "a task of the run lives there, as its mark tells, but its engine does not list it"


async def _sweep(
    connector: Connector, host: str, argv: Sequence[str], token: str, files: Sequence[str]
) -> tuple[str, ...] | str:
    """What the host's script said, or why it could not be asked."""
    try:
        async with session_on(connector, host) as session:
            marked = await marks.read(session.run, host, own=True)
            alive = sorted({task.labels.host for task in marked if token_of(task.labels) == token})
            done = await session.run((*argv, *(f"-{name}" for name in alive)), timeout=REMOVE_SECONDS)
            if not done.ok:
                return safe(f"{host}: {done.error_text.strip()[:300] or f'exit {done.status}'}")
            words = [*done.text.splitlines(), *(f"alive {name}" for name in alive)]
            try:
                if not alive:
                    await marks.remove(session.run, token)
                if files and not any(_kept(words)):
                    await session.run(("rm", "-f", "--", *files))
                if "code" in words:  # that was being sent there when the launch, or the host, ended
                    await clean(HostLink(connector, host, session=session), await home_of(session.run, host), keep=KEEP)
            finally:
                if not alive:
                    await lease.free(session.run, token)
    except DistuiError as exc:
        return exc.message
    return tuple(safe(word.removeprefix("left ")) for word in words)
