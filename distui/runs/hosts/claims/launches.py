"""Launches that hold a run's folder on hosts: under way just now, killed before anything of them ran, or ended.

No container tells of them, only the claim in the folder (`folder.py`), and the verdict where their run has one; so they
are found by the login that made them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from distui.errors import HostCommandError
from distui.frozen import frozen
from distui.runs.hosts.asking import ask_each
from distui.runs.hosts.claims.claim_file import AGED
from distui.runs.hosts.claims.folder import LAUNCH_FILE, LAUNCHED_FILE, STALE_MINUTES
from distui.runs.hosts.discover import Runner
from distui.runs.lines.text import safe
from distui.runs.store.end_record import VERDICT_IN, EndRecord, read_record
from distui.session import Connector
from distui.spec.hosts.inventory import Host
from distui.whole import whole

# $1 minutes, $2 a run's name or nothing for all. Each folder as eight fields, each of them ended by a NUL.
_LIST = (
    AGED
    + VERDICT_IN
    + rf"""
line() {{
  number=0 text=
  while [ "$number" -lt "$2" ] && {{ IFS= read -r text || [ -n "$text" ]; }}; do number=$((number + 1)); done <"$1"
  [ "$number" -lt "$2" ] || printf '%.300s' "$text"
}}
for d in "$HOME"/.local/state/distui/hosts/*/*; do
  [ -z "$2" ] || [ "${{d##*/}}" = "$2" ] || continue
  file=$d/{LAUNCH_FILE}; [ -f "$file" ] || file=$d/{LAUNCHED_FILE}; [ -f "$file" ] || continue
  old=; ! aged "$d" "$1" || old=aged
  host=${{d%/*}}
  printf '%s\0' "${{d##*/}}" "${{host##*/}}" "${{file##*/}} $old"
  for number in 1 2 3 4; do printf '%s\0' "$(line "$file" $number 2>/dev/null)"; done
  verdict_in "$d" 2>/dev/null
  printf '\0'
done
printf 'end\0'
""".strip()
)


@frozen
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
    record: EndRecord | None = None
    """How its run ended, where that is written there with this launch's token."""
    engine: str = ""
    """Of its tasks there; "" where nobody noted it."""
    unlisted: bool = False
    """Whether its run has begun and nobody knows that it is over, since the host was asked for another engine's tasks:
    hosts.yaml here is not that of whoever started it.
    """

    @property
    def dead(self) -> bool:
        """Whether it is certain that no launch is under way any more."""
        return self.begun or self.aged or self.record is not None

    @property
    def attempt(self) -> tuple[str, int]:
        """What all attempts of the launch have in common, and which of them it is."""
        launch, _, number = self.token.rpartition("-")
        return launch, whole(number, 8) or 0


async def find_launches(connector: Connector, hosts: Sequence[Host], run: str = "") -> tuple[Launch, ...]:
    """Ask all hosts at once for the folders of one run, or of all; one that can't be asked has none.

    A home that hosts share counts once.
    """
    names = [host.name for host in hosts]
    asked = {host.name: host.engine for host in hosts}
    answers, _ = await ask_each(connector, names, lambda h, session: list_launches(session.run, run, host=h))
    found = (_beside(one, asked.get(one.host, asked[name])) for name, launches in answers.items() for one in launches)
    return tuple({(one.run, one.host, one.token): one for one in found}.values())


def _beside(one: Launch, engine: str) -> Launch:
    """The same, with whether its tasks are not among those of the engine that was asked for."""
    return replace(one, unlisted=one.begun and one.record is None and one.engine not in ("", engine))


async def list_launches(run_argv: Runner, run: str = "", *, host: str = "") -> tuple[Launch, ...]:
    """The folders of a run, or of all, that one host's login has. Raises HostError."""
    done = await run_argv(("sh", "-c", _LIST, "distui-launches", str(STALE_MINUTES), run))
    text, end, _ = done.text.rpartition("end\0")
    if not end:
        message = safe(done.error_text.strip()[:300]) or f"exit {done.status}"
        raise HostCommandError(host, f"{host}: its folders of runs could not be listed: {message}")
    fields = text.split("\0")
    rows = zip(*[iter(fields)] * 8, strict=False)
    return tuple(
        Launch(
            name,
            host,
            token,
            owner,
            since,
            begun=LAUNCHED_FILE in state.split(),
            aged="aged" in state.split(),
            record=read_record(verdict, token) if verdict else None,
            engine=engine,
        )
        for name, host, state, owner, since, token, engine, verdict in rows
        if token
    )


def ended(launches: Iterable[Launch], *, token: str = "", owner: str = "") -> Launch | None:
    """Of folders of one run's name the one that tells how the run ended; None where none does.

    With `token` only that launch is meant, in whatever attempt; else `owner`'s before others', then the newest. One
    that has a later attempt on the hosts has not ended, and one whose owner starts another just now is not meant.
    """
    launches = tuple(launches)
    newest: dict[str, int] = {}
    for one in launches:
        launch, attempt = one.attempt
        newest[launch] = max(attempt, newest.get(launch, 0))
    meant = token.rpartition("-")[0]
    candidates = [
        one
        for one in launches
        if one.record is not None and one.attempt[1] == newest[one.attempt[0]] and meant in ("", one.attempt[0])
    ]
    best = max(candidates, key=lambda one: (one.owner == owner, one.since), default=None)
    starts = best is not None and not meant and any(not one.dead and one.owner == best.owner for one in launches)
    return None if starts else best


def under_way(launches: Iterable[Launch], dead: str) -> tuple[Launch, ...]:
    """Launches that may be alive; that with the token `dead` is known not to be."""
    return tuple(one for one in launches if not one.dead and one.token != dead)


def whose(launch: Launch) -> str:
    """Whose launch it is and since when, in words."""
    return f"{safe(launch.owner)[:100] or 'an unknown user'} since {safe(launch.since)[:40] or '?'}"
