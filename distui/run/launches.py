"""Launches that hold a run's folder on hosts: under way just now, or killed before anything of them ran.

No container tells of them, only the claim in the folder (`folder.py`); so they are found by the login that made them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from distui.errors import HostCommandError, HostError
from distui.facts.host import Trouble
from distui.run.claim_file import AGED
from distui.run.discover import Runner
from distui.run.folder import LAUNCH_FILE, LAUNCHED_FILE, STALE_MINUTES
from distui.run.lines import safe
from distui.session import Connector
from distui.spec.inventory import Host

# $1 minutes, $2 a run's name or nothing for all. Each folder as six fields, each of them ended by a NUL.
_LIST = (
    AGED
    + rf"""
line() {{
  number=0 told=
  while [ "$number" -lt "$2" ] && {{ IFS= read -r told || [ -n "$told" ]; }}; do number=$((number + 1)); done <"$1"
  [ "$number" -lt "$2" ] || printf '%.300s' "$told"
}}
for d in "$HOME"/.local/state/distui/hosts/*/*; do
  [ -z "$2" ] || [ "${{d##*/}}" = "$2" ] || continue
  file=$d/{LAUNCH_FILE}; [ -e "$file" ] || file=$d/{LAUNCHED_FILE}; [ -e "$file" ] || continue
  old=; ! aged "$d" "$1" || old=aged
  host=${{d%/*}}
  printf '%s\0' "${{d##*/}}" "${{host##*/}}" "${{file##*/}} $old"
  for number in 1 2 3; do printf '%s\0' "$(line "$file" $number 2>/dev/null)"; done
done
printf 'end\0'
""".strip()
)


@dataclass(frozen=True, slots=True)
class Launch:
    """A run's folder on one host. `owner` and `since` are as the claim says them, in words."""

    run: str
    host: str
    """The host's name when the run was started."""
    token: str
    owner: str
    since: str
    begun: bool
    """Whether all tasks had started: then the folder is what is left of a run."""
    aged: bool
    """Whether nothing happened in it for so long that its launch must have been killed."""

    @property
    def dead(self) -> bool:
        """Whether it is certain that no launch is under way any more."""
        return self.begun or self.aged


@dataclass(frozen=True, slots=True)
class Launches:
    """What was found, and the hosts that could not be asked."""

    all: tuple[Launch, ...]
    unreachable: Mapping[str, Trouble]


async def find_launches(connector: Connector, hosts: Sequence[Host], run: str = "") -> Launches:
    """Ask all hosts at once for the folders of one run, or of all. A home that hosts share counts once."""
    answers = await asyncio.gather(*(_ask(connector, host.name, run) for host in hosts))
    found: dict[tuple[str, str, str], Launch] = {}
    unreachable: dict[str, Trouble] = {}
    for host, answer in zip(hosts, answers, strict=True):
        if isinstance(answer, Trouble):
            unreachable[host.name] = answer
        else:
            found |= {(one.run, one.host, one.token): one for one in answer}
    return Launches(tuple(found.values()), unreachable)


async def _ask(connector: Connector, host: str, run: str) -> tuple[Launch, ...] | Trouble:
    try:
        session = await connector.connect(host)
        try:
            return await list_launches(session.run, run, host=host)
        finally:
            await session.close()
    except HostError as exc:
        return Trouble(exc.code, exc.message, exc.hint)


async def list_launches(run_argv: Runner, run: str = "", *, host: str = "") -> tuple[Launch, ...]:
    """The folders of a run, or of all, that one host's login has. Raises HostError."""
    done = await run_argv(("sh", "-c", _LIST, "distui-launches", str(STALE_MINUTES), run))
    text, end, _ = done.text.rpartition("end\0")
    if not end:
        words = safe(done.error_text.strip()[:300]) or f"exit {done.status}"
        raise HostCommandError(host, f"{host}: its folders of runs could not be listed: {words}")
    fields = text.split("\0")
    rows = zip(*[iter(fields)] * 6, strict=False)
    return tuple(
        Launch(name, host, token, owner, since, begun=LAUNCHED_FILE in state.split(), aged="aged" in state.split())
        for name, host, state, owner, since, token in rows
        if token
    )
