"""Data that every host fetches into its cache before a run starts: whole and right, or not at all.

What does it on a host is `agent/fetch.sh`, with a client that the host has or an image brings. A fetch that was
cut off goes on at the next try; of several that want the same data on a host one works and the others wait.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from importlib import resources

from distui.errors import HostCommandError, UsageError
from distui.frozen import frozen
from distui.plan.command.env import line_faults
from distui.plan.content.fetch import client_argv, contained
from distui.plan.content.mounts import on_host
from distui.plan.model import Mount, Task
from distui.runs.hosts.discover import Runner
from distui.runs.hosts.link import HostLink
from distui.runs.lines.text import safe
from distui.session import Completed
from distui.whole import whole

LOST_FOR = 120.0
"""Seconds a fetch waits for its host's connection: it may have gone on for hours, and what is there is resumed."""

_LOOK = """
d=$1; shift
if [ -e "$d/data" ]; then echo "had $(tail -n 1 "$d/about" 2>/dev/null)"; exit; fi
for c in "$@"; do if command -v "$c" >/dev/null; then
  busy=; [ ! -d "$d.lock" ] || busy=busy
  echo "client $c $busy"; exit
fi; done
""".strip()


@frozen
class There:
    """Whether a host has fetched data already, since `when`, or with which client it can; neither: it can't."""

    when: str | None = None
    client: str = ""
    busy: bool = False
    """Whether another fetch of the same data is under way there."""


@frozen
class SoFar:
    """How far a host is."""

    size: int
    """Bytes that are there of what is fetched for the run."""
    waits_for: str = ""
    """The mount that another fetch works on, which ours waits for."""


async def look(run_argv: Runner, mount: Mount, home: str) -> There:
    """What a host has and can do for a mount of a URL. Raises HostError."""
    assert mount.fetch is not None
    wanted = ("sh",) if mount.fetch.client_image else mount.fetch.clients
    done = await run_argv(("sh", "-c", _LOOK, "distui-data", on_host(mount.fetch.folder, home), *wanted))
    for line in done.text.splitlines():
        match line.split():
            case ["had", *when]:
                return There(safe(" ".join(when))[:60])
            case ["client", client, *busy]:
                return There(client=mount.fetch.clients[0] if mount.fetch.client_image else client, busy=bool(busy))
            case _:
                continue  # what a login shell says
    return There()


def without_client(mount: Mount) -> tuple[str, str]:
    """What to say where no client is, and what to do."""
    assert mount.fetch is not None
    names = mount.fetch.clients
    message = (
        f"has no {names[0]} to fetch it with" if len(names) == 1 else f"has none of {', '.join(names)} to fetch it with"
    )
    if names == ("curl",):
        return message, "install curl there"
    return message, f"install one there, or name an image with client_image and client in data.{mount.name}"


# $1 the folder of what is fetched just now, $2 the token of that fetch; then all folders
_SO_FAR = """
owner=$(cat "$1.lock/owner" 2>/dev/null)  # gone or empty: it is just being given up, or taken
[ -z "$owner" ] || [ "$owner" = "$2" ] || echo waits
shift 2
for d in "$@"; do [ -d "$d" ] || d=$d.part; du -sk -- "$d" 2>/dev/null; done | cut -f 1
""".strip()


class HostFetch:
    """What one host fetches for a run. Its methods raise HostError."""

    def __init__(
        self, host: str, link: HostLink, task: Task, mounts: Sequence[Mount], home: str, *, give_up: float
    ) -> None:
        self.host = host
        self._link = link
        self._give_up = give_up
        """Seconds a question waits for a lost connection."""
        self._task = task
        self._mounts = [mount for mount in mounts if mount.fetch is not None]
        self._home = home
        self._fetched: list[Mount] = []
        """What this run fetches, or has fetched."""
        self._now: tuple[Mount, str] | None = None
        """What is being fetched, and the token of that fetch."""
        self.busy: set[str] = set()
        """Mounts that another fetch was at work on when they were looked for."""
        self.kept: dict[str, str] = {}
        """Mounts that no checksum speaks for and that were here already, with the time when they were fetched."""

    async def lacking(self) -> dict[str, str]:
        """The mounts whose data is not here yet, with the client that can fetch each. Raises when there is none."""
        found = {}
        for mount in self._mounts:
            assert mount.fetch is not None
            there = await look(self._again, mount, self._home)
            if there.when is None and not there.client:
                raise self._error(mount, *without_client(mount))
            if there.when is None:
                found[mount.name] = there.client
                self.busy |= {mount.name} if there.busy else set()
            elif not mount.fetch.sha256 and not mount.fetch.sums:
                self.kept[mount.name] = there.when
        return found

    async def fetch(self, clients: Mapping[str, str], values: Mapping[str, str]) -> tuple[str, ...]:
        """Fetch what is lacking, one after the other; returns the names of what was fetched."""
        self._fetched = [mount for mount in self._mounts if mount.name in clients]
        return tuple([m.name for m in self._fetched if await self._fetch(m, clients[m.name], values)])

    async def _fetch(self, mount: Mount, client: str, values: Mapping[str, str]) -> bool:
        fetch = mount.fetch
        assert fetch is not None
        folder = self._folder(mount)
        argv = client_argv(client, mount.source, fetch)
        own_user = self._task.engine == "docker"
        argv = contained(argv, self._task.engine_command, fetch, f"{folder}.part", own_user=own_user)
        kind = "folder" if fetch.is_folder else "file"
        token = secrets.token_hex(8)
        self._now = mount, token
        words = (folder, token, mount.source, kind, fetch.sha256.lower(), fetch.sums, *argv)
        done = await self._link.run(
            ("sh", "-c", script(), "distui-fetch", *words),
            input=secret_lines(fetch.secrets, values),
            timeout=None,
            idempotent=True,
            give_up=LOST_FOR,
        )
        if not done.ok:
            said = done.error_text.splitlines()[-1:] or [f"the fetch ended without a word, exit {done.status}"]
            raise self._error(mount, safe(said[0][:1500]))
        return "fetched" in done.text.split()

    async def so_far(self) -> SoFar:
        """How much is here of what this run fetches, and who fetches it. A host out of reach is not waited for."""
        mount, token = self._now or (None, "")
        now = self._folder(mount) if mount is not None else ""
        argv = ("sh", "-c", _SO_FAR, "distui-data", now, token, *map(self._folder, self._fetched))
        words = (await self._link.run(argv, give_up=0.0)).text.split()
        size = sum((whole(word) or 0) * 1024 for word in words)
        return SoFar(size, mount.name if mount is not None and "waits" in words else "")

    async def _again(self, argv: Sequence[str]) -> Completed:
        return await self._link.run(argv, idempotent=True, give_up=self._give_up)

    def _folder(self, mount: Mount) -> str:
        assert mount.fetch is not None
        return on_host(mount.fetch.folder, self._home)

    def _error(self, mount: Mount, message: str, hint: str = "") -> HostCommandError:
        return HostCommandError(self.host, f"{self.host}: data.{mount.name}: {message}", hint=hint, code="data")


def secret_lines(names: Sequence[str], values: Mapping[str, str]) -> bytes:
    """The client's variables as they go over stdin. Raises UsageError, without a value, when one can't be passed."""
    for name in names:
        if name not in values:
            raise UsageError(
                f"secret {name} is not set in your environment", hint=f"export {name}=..., or use --env-file"
            )
        if faults := line_faults(name, values[name], True):
            raise UsageError(f"secret {name}: {'; '.join(faults)}")
    return "".join(f"{name}={values[name]}\n" for name in names).encode()


def script() -> str:
    """The program that fetches on the host."""
    return resources.files("distui.agent").joinpath("fetch.sh").read_text(encoding="utf-8")
