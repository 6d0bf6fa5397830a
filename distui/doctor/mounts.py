"""Proof that the paths a job mounts are on every host, and are one storage where the job says so.

A shared folder is proved by a file: one host writes it under a random name and all others look for it. The program
that wrote it removes it when its channel ends, so that it goes also when distui is killed or the connection breaks.
Where no host may write, the listings are compared, which is weaker, and said to be.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from distui.errors import HostError
from distui.frozen import frozen
from distui.plan.model import Mount
from distui.session import ByteChannel, Session
from distui.spec.job.data_keys import nfs_parts

LOOK_TIMEOUT = 20.0
"""Seconds for looking at a path: a hung NFS mount never answers."""

TRIES = 4
"""How often the others look for the file, half a second apart: an attribute cache may be old."""

# For each `one PATH` (it must be one storage) or `own PATH` a line: state, writable, file system, its source, entries,
# and of one storage two sums over the first names in order with sizes and times, the first with inode numbers, which
# storage that is the same shares and copies don't. A million files are listed once for that, and else not at all.
LOOK = r"""
u=; ls -U / >/dev/null 2>&1 && u=-U
sums() {
  printf '%s\n' "$names" | tr '\n' '\0' | (cd "$p" && xargs -0 stat -c "$1" -- 2>/dev/null) | cksum | tr ' ' -
}
while [ $# -gt 1 ]; do
  kind=$1 p=$2; shift 2
  case $p in "~") p=$HOME;; "~/"*) p=$HOME/${p#??};; esac
  if [ ! -e "$p" ]; then
    q=$p; while [ ! -e "$q" ]; do case $q in */?*) q=${q%/*};; *) break;; esac; [ -n "$q" ] || q=/; done
    if [ -d "$q" ] && [ ! -x "$q" ]; then echo hidden; else echo missing; fi
    continue
  fi
  fs=$(findmnt -nr -o FSTYPE,SOURCE -T "$p" 2>/dev/null | tail -n 1)
  [ -n "$fs" ] || fs="$(stat -f -c %T -- "$p" 2>/dev/null || echo ?) ?"
  if [ ! -d "$p" ]; then
    sum() { stat -c "$1" -- "$p" | cksum | tr ' ' -; }
    echo "there no $fs file $(sum '%i %s %Y') $(sum '%s %Y')"; continue
  fi
  write=no; [ -w "$p" ] && write=yes
  some=empty; ls -A $u "$p" 2>/dev/null | grep -q . && some=some
  [ "$kind" = one ] || { echo "there $write $fs $some - -"; continue; }
  names=$(cd "$p" && LC_ALL=C ls -A1 | sed 200q)
  echo "there $write $fs $some $(sums '%i %s %Y %n') $(sums '%s %Y %n')"
done
""".strip()

# The path comes over stdin. `wait` ends at a signal: a `cat` that was forked as it came may never get it. `rm` ignores
# signals: a second one to the group would end it.
_WRITE = (
    'umask 077; set -C; exec 3<&0; IFS= read -r f; case $f in "~/"*) f=$HOME/${f#??};; esac; '
    'remove=\'trap "" HUP INT TERM PIPE; rm -f -- "$f"\'; trap "$remove" EXIT; '
    'trap "$remove; exit 1" HUP INT TERM PIPE; '
    'if (: >"$f") 2>/dev/null; then echo DISTUI-SHARED:written; cat <&3 >/dev/null 2>&1 & wait "$!"; '
    "else echo DISTUI-SHARED:refused; fi"
)

_SEES = 'p=$1; case $p in "~/"*) p=$HOME/${p#??};; esac; [ -e "$p" ] && echo yes; :'


_CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 5).close()"


@frozen
class Seen:
    """A path as one host shows it."""

    state: str
    """`there`, `missing`, or `hidden` where the login may not look."""
    writable: bool = False
    fs: str = ""
    source: str = ""
    content: str = ""
    """`some`, `empty`, or `file` for what is no folder."""
    inodes: str = ""
    names: str = ""

    @property
    def words(self) -> str:
        """The file system and where it is from."""
        return f"{self.fs} {self.source}".replace(" ?", "") if self.fs else ""


@frozen
class MountProblem:
    """A mount that is not what the job says, on one host."""

    host: str
    mount: str
    message: str
    hint: str = ""


@frozen
class MountReport:
    """What the proof found. `doubts` are problems that don't keep a run from starting."""

    problems: tuple[MountProblem, ...] = ()
    doubts: tuple[MountProblem, ...] = ()
    proofs: Mapping[str, str] = field(default_factory=dict)
    """Mount -> how it was proved, in words."""


@dataclass(slots=True)
class _Found:
    problems: list[MountProblem] = field(default_factory=list)
    doubts: list[MountProblem] = field(default_factory=list)
    proofs: dict[str, str] = field(default_factory=dict)


async def prove_mounts(sessions: Mapping[str, Session], mounts: Sequence[Mount]) -> MountReport:
    """Look at every path on every host, prove the shared ones, and that NFS servers are reached.

    Nothing that is written stays. Never raises HostError.
    """
    found = _Found()
    rdma = {"rdma", "proto=rdma", "proto=rdma6"}
    servers = [mount for mount in mounts if mount.kind == "nfs" and rdma.isdisjoint(mount.options.split(","))]
    await asyncio.gather(*(_reach(session, mount, found) for session in sessions.values() for mount in servers))
    paths = [mount for mount in mounts if mount.kind == "path"]
    if paths:
        await _prove_paths(sessions, paths, found)
    order = {host: number for number, host in enumerate(sessions)}
    problems, doubts = (sorted(some, key=lambda p: order.get(p.host, -1)) for some in (found.problems, found.doubts))
    return MountReport(tuple(problems), tuple(doubts), found.proofs)


async def _prove_paths(sessions: Mapping[str, Session], paths: Sequence[Mount], found: _Found) -> None:
    seen = await asyncio.gather(*(_look(session, paths, found) for session in sessions.values()))
    by_host = dict(zip(sessions, seen, strict=True))
    for mount in paths:
        here = {host: answer[mount.name] for host, answer in by_host.items() if mount.name in answer}
        _note_missing(mount, here, found)
        there = {host: answer for host, answer in here.items() if answer.state == "there"}
        if mount.shared and len(there) > 1:
            await _prove_shared({host: sessions[host] for host in there}, mount, there, found)


async def _reach(session: Session, mount: Mount, found: _Found) -> None:
    """Whether the host can connect to the NFS server: mounting would wait minutes for one that does not answer."""
    server = nfs_parts(mount.source)[0]
    port = next((o.partition("=")[2] for o in mount.options.split(",") if o.startswith("port=")), "2049")
    try:
        done = await session.run(("python3", "-I", "-S", "-c", _CONNECT, server, port), timeout=LOOK_TIMEOUT)
    except HostError as exc:
        found.problems.append(MountProblem(session.host, mount.name, exc.message, exc.hint))
        return
    if done.status == 127:
        message = f"no python3: that it reaches {server} is not proved"
        found.doubts.append(MountProblem(session.host, mount.name, message))
    elif not done.ok:
        said = (done.error_text.splitlines()[-1:] or [f"exit {done.status}"])[0].partition(": ")[2]
        message = f"can't reach NFS server {server} at port {port}: {said[:200]}"
        found.problems.append(
            MountProblem(session.host, mount.name, message, "is the server up, and no firewall between?")
        )


async def _look(session: Session, mounts: Sequence[Mount], found: _Found) -> dict[str, Seen]:
    asked = (word for mount in mounts for word in ("one" if mount.shared else "own", mount.source))
    argv = ("sh", "-c", LOOK, "distui-look", *asked)
    try:
        done = await session.run(argv, timeout=LOOK_TIMEOUT)
    except HostError as exc:
        hint = "does a network mount hang there?" if exc.code == "command_timeout" else exc.hint
        found.problems += [
            MountProblem(session.host, m.name, f"can't look at {m.source}: {exc.message}", hint) for m in mounts
        ]
        return {}
    lines = [line for line in done.text.splitlines() if line.split(" ")[0] in ("there", "missing", "hidden")]
    if len(lines) != len(mounts):
        words = done.error_text.splitlines()[-1:] or [f"exit {done.status}"]
        found.problems += [
            MountProblem(session.host, m.name, f"can't look at {m.source}: {words[0][:300]}") for m in mounts
        ]
        return {}
    return {mount.name: read_seen(line) for mount, line in zip(mounts, lines, strict=True)}


def read_seen(line: str) -> Seen:
    """A line that `LOOK` printed."""
    state, *rest = line.split(" ")
    if len(rest) < 6:
        return Seen(state)
    return Seen(state, rest[0] == "yes", rest[1], " ".join(rest[2:-3]), *rest[-3:])


def _note_missing(mount: Mount, here: Mapping[str, Seen], found: _Found) -> None:
    for host, seen in here.items():
        if seen.state == "missing":
            hint = f"mount or copy it there, or change data.{mount.name}"
            found.problems.append(MountProblem(host, mount.name, f"{mount.source} is not there", hint))
        elif seen.state == "hidden":
            message = f"the login may not look at {mount.source}: that it is there is not proved"
            found.doubts.append(MountProblem(host, mount.name, message))


async def _prove_shared(sessions: Mapping[str, Session], mount: Mount, seen: Mapping[str, Seen], found: _Found) -> None:
    """By a file where one of the hosts may write one, else by the listings."""
    name = f".distui-shared-{secrets.token_hex(16)}"
    token = f"{mount.source.rstrip('/')}/{name}"
    for writer in (host for host, answer in seen.items() if answer.writable):
        channel = None
        try:
            channel = await sessions[writer].open(("sh", "-c", _WRITE))
            if await _written(channel, token):
                _judge_token(mount, writer, await _who_sees(sessions, writer, token), seen, found)
                return
        except (HostError, TimeoutError) as exc:
            host, said = writer, f"no answer within {LOOK_TIMEOUT:.0f} s"
            if isinstance(exc, HostError):
                host, said = exc.host, exc.message
            message = f"that {mount.source} is one storage could not be proved: {said}"
            found.problems.append(MountProblem(host, mount.name, message))
            return
        finally:
            if channel is not None:
                await asyncio.shield(_ended(channel))
    _judge_listings(mount, seen, found)


async def _written(channel: ByteChannel, token: str) -> bool:
    """Whether the file was written; a login shell's chatter before the answer is passed over. Raises HostError."""
    await channel.write(f"{token}\n".encode())
    output = b""
    async with asyncio.timeout(LOOK_TIMEOUT):
        while not (b"DISTUI-SHARED:written" in output or b"DISTUI-SHARED:refused" in output):
            more = await channel.read()
            if not more:
                return False
            output = (output + more)[-100_000:]
    return b"DISTUI-SHARED:written" in output


async def _ended(channel: ByteChannel) -> None:
    """Let the program remove its file: it does so at the end of its input."""
    try:
        async with asyncio.timeout(LOOK_TIMEOUT):
            await channel.write_eof()
            await channel.wait()
    except (HostError, TimeoutError):
        pass  # the host ends it with the connection
    await channel.close()


async def _who_sees(sessions: Mapping[str, Session], writer: str, token: str) -> dict[str, bool]:
    """For each of the other hosts, whether the file is there."""

    async def sees(host: str) -> bool:
        for left in reversed(range(TRIES)):
            done = await sessions[host].run(("sh", "-c", _SEES, "distui-sees", token), timeout=LOOK_TIMEOUT)
            if "yes" in done.text.split():
                return True
            if left:
                await asyncio.sleep(0.5)
        return False

    others = [host for host in sessions if host != writer]
    return dict(zip(others, await asyncio.gather(*map(sees, others)), strict=True))


def _judge_token(mount: Mount, writer: str, sees: Mapping[str, bool], seen: Mapping[str, Seen], found: _Found) -> None:
    """Name the hosts where it is another storage: those that don't see the file, or the writer when none does."""
    blind = [host for host, there in sees.items() if not there]
    if not blind:
        found.proofs[mount.name] = f"a file written on {writer} is seen on all others"
        return
    same = len({(seen[host].content, seen[host].inodes) for host in blind}) == 1 and seen[blind[0]].content == "some"
    lone = len(blind) == len(sees) > 1 and same
    for host in [writer] if lone else blind:
        others, other = ("the others", blind[0]) if lone else (writer, writer)
        message = f"{mount.source} is not the same storage as on {others}: {_difference(seen, host, other)}"
        found.problems.append(MountProblem(host, mount.name, message, _hint(mount)))


def _difference(seen: Mapping[str, Seen], host: str, other: str) -> str:
    return f"{seen[host].words} here, {seen[other].words} on {other}"


def _hint(mount: Mount) -> str:
    return f"mount the shared storage there, or drop `shared: true` from data.{mount.name}"


def _judge_listings(mount: Mount, seen: Mapping[str, Seen], found: _Found) -> None:
    """Compare what is in it. FUSE numbers files differently on each host: only names, sizes and times count there."""
    fuse = any(listing.fs.startswith("fuse") for listing in seen.values())
    sums = {host: listing.names if fuse else listing.inodes for host, listing in seen.items()}
    usual = Counter(sums.values()).most_common(1)[0][0]
    model = next(host for host in sums if sums[host] == usual)
    odd = [host for host in sums if sums[host] != usual]
    for host in odd:
        message = f"{mount.source} holds other files than on {model}: {_difference(seen, host, model)}"
        found.problems.append(MountProblem(host, mount.name, message, _hint(mount)))
    if not odd and all(listing.content == "empty" for listing in seen.values()):
        message = f"{mount.source} is empty and can't be written: that it is one storage is not proved"
        found.doubts += [MountProblem(host, mount.name, message) for host in seen]
    elif not odd:
        found.proofs[mount.name] = "its listing is the same on all hosts, a weaker proof: no host can write there"
