"""What a launch that was killed leaves where none of its tasks runs: its folder with env files, its GPUs and ports, and
code that had arrived in part.

Removed only by the launch's own token, so never another's, also of the same name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from distui.errors import DistuiError
from distui.run import lease, marks
from distui.run.code.send import KEEP, clean
from distui.run.discover import home_of
from distui.run.folder import LAUNCH_FILE, LAUNCHED_FILE
from distui.run.lines import safe
from distui.run.link import HostLink
from distui.session import Connector, Session
from distui.spec.inventory import Host

# $1 the run's name, $2 the token, then hosts to spare. Below whatever name the host had when the run was started. A
# folder with a process in it is not for us: that is found, stopped and removed as a task.
_SWEEP = rf"""
run=$1 token=$2; shift 2
for d in "$HOME"/.local/state/distui/hosts/*/*; do
  [ "${{d##*/}}" = "$run" ] || continue
  for host do [ "${{d%/*}}" != "$HOME/.local/state/distui/hosts/$host" ] || continue 2; done
  ours=
  for name in {LAUNCH_FILE} {LAUNCHED_FILE}; do
    [ "$(sed -n 3p "$d/$name" 2>/dev/null)" != "$token" ] || ours=yes
  done
  [ -n "$ours" ] || continue
  for task in "$d"/task-*/labels.json; do [ ! -e "$task" ] || continue 2; done
  [ ! -e "$d/code-tree" ] || echo code
  rm -rf -- "$d" 2>/dev/null
  rmdir -- "${{d%/*}}" "${{d%/*/*}}" "${{d%/*/*/*}}" 2>/dev/null
  if [ -d "$d" ]; then echo "left $d"; else echo swept; fi
done
""".strip()


@dataclass(frozen=True, slots=True)
class Swept:
    """What came of it on all hosts. Names of hosts, and words by host."""

    hosts: tuple[str, ...] = ()
    """Where something was removed."""
    left: Mapping[str, str] = field(default_factory=dict)
    """Folders that this login can't remove."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Why a host could not be swept."""


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

    Where hosts share a home, one that is swept has the folders of all: those of the hosts in `spare` stay, since tasks
    may run there.
    """
    if not token:
        return Swept()
    paths = {host.name: [path for name, path in files if name == host.name] for host in hosts}
    argv = ("sh", "-c", _SWEEP, "distui-sweep", run, token, *sorted(spare))
    done = await asyncio.gather(*(_sweep(connector, host.name, argv, token, paths[host.name]) for host in hosts))
    told = dict(zip((host.name for host in hosts), done, strict=True))
    return Swept(
        tuple(host for host, words in told.items() if not isinstance(words, str) and "swept" in words),
        {h: w for h, words in told.items() if not isinstance(words, str) for w in words if w.startswith("/")},
        {host: words for host, words in told.items() if isinstance(words, str)},
    )


async def _sweep(
    connector: Connector, host: str, argv: Sequence[str], token: str, files: Sequence[str]
) -> tuple[str, ...] | str:
    """What the host's script said, or why it could not be asked."""
    try:
        session = await connector.connect(host)
        try:
            done = await session.run(argv)
            await lease.free(session.run, token)
            await marks.remove(session.run, token)
            if files:
                await session.run(("rm", "-f", "--", *files))
            words = done.text.splitlines()
            if "code" in words:
                await _tidy(connector, host, session)
        finally:
            await session.close()
    except DistuiError as exc:
        return exc.message
    return tuple(safe(word.removeprefix("left ")) for word in words)


async def _tidy(connector: Connector, host: str, session: Session) -> None:
    """Remove code that was being sent there when the launch, or the host, ended."""
    await clean(HostLink(connector, host, session=session), await home_of(session.run, host), keep=KEEP)
