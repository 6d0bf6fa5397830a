"""Hosts far away: a whole run of one short command on three, beside the same by hand with OpenSSH.

`python -m bench.far [--ms 100] [--rounds 5]`. Each byte is held back on the login node, half of the round trip each
way; TCP's own handshake is not, so that connecting is a round trip cheaper than over a real link, for all alike.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench.cluster import HOSTS, Cluster, cluster
from bench.measure import REPO, Rival, Spent, command, in_turns, side_by_side
from bench.report import machine, note, table, title

OWN, ONE, KEPT = "distui run, from nothing", "ssh, a connection a command", "ssh, ControlMaster"
PORT = 2200
"""Of the first host's proxy, on the login node's loopback."""
IMAGE = "lab/python:1"
JOB = """version: 1
name: far
hosts: h[1-3]
image: lab/python:1
pull: never
command: [sh, -c, "echo done"]
"""


async def held_back(seconds: float, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass bytes on, each so much later than it came."""
    loop, waiting = asyncio.get_running_loop(), asyncio.Queue[tuple[float, bytes]]()

    async def send() -> None:
        while True:
            due, data = await waiting.get()
            await asyncio.sleep(due - loop.time())
            if not data:
                break
            writer.write(data)
            await writer.drain()
        writer.close()

    sending = asyncio.create_task(send())
    try:
        while data := await reader.read(1 << 16):
            waiting.put_nowait((loop.time() + seconds, data))
    except ConnectionError:
        pass
    waiting.put_nowait((loop.time() + seconds, b""))
    await asyncio.gather(sending, return_exceptions=True)


async def serve(seconds: float, addresses: list[str]) -> None:
    """A proxy to the sshd of each address, until this process ends; says when it listens."""
    for number, address in enumerate(addresses):
        await asyncio.start_server(partial(pass_on, seconds, address), "127.0.0.1", PORT + number)
    print("listening", flush=True)
    await asyncio.Event().wait()


async def pass_on(seconds: float, address: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One connection."""
    there, back = await asyncio.open_connection(address, 22)
    await asyncio.gather(held_back(seconds, reader, back), held_back(seconds, there, writer))


def lead_through(home: Path, addresses: list[str]) -> None:
    """`ssh h1` ... go through the proxies, `ssh kept-h1` with a connection that stays."""
    said = []
    for number, (host, address) in enumerate(zip(HOSTS, addresses, strict=True)):
        way = f"""    HostName 127.0.0.1
    Port {PORT + number}
    HostKeyAlias {address}
    User root
    IdentityFile {home}/.ssh/id_ed25519
    IdentitiesOnly yes
    UserKnownHostsFile {home}/.ssh/known_hosts
"""
        master = f"    ControlMaster auto\n    ControlPath {home}/{host}\n    ControlPersist yes\n"
        said.append(f"Host {host}\n{way}\nHost kept-{host}\n{way}{master}")
    (home / ".ssh/config").write_text("\n".join(said))
    (home / "hosts.yaml").write_text("version: 1\nhosts:\n  h[1-3]: {}\n")
    (home / "job.yaml").write_text(JOB)


class Far:
    """The ways to have a command run on all hosts, its log here and nothing left there."""

    def __init__(self, hosts: Cluster) -> None:
        self._hosts = hosts

    def by_distui(self) -> Spent:
        """Connected, checked, started, followed, judged, cleaned up."""
        argv = (sys.executable, "-m", "distui.cli.main", "run", "job.yaml", "--headless", "-y")
        return command(argv, env=self._hosts.env, cwd=self._hosts.home, expect="SUCCEEDED")

    def by_hand(self, prefix: str = "") -> Spent:
        """Started, followed to its end, asked how it ended, removed: four lines, each on all hosts at once. Nothing is
        checked.
        """
        spent = [
            self._all(prefix, f"docker run -d --name far {IMAGE} sh -c 'echo done'"),
            self._all(prefix, "docker logs -f far"),
            self._all(prefix, "docker wait far"),
            self._all(prefix, "docker rm far"),
        ]
        return Spent(sum(one.wall for one in spent), sum(one.cpu for one in spent))

    def kept(self) -> Spent:
        """The same over one connection for each host, which is made by the first line and closed at the end."""
        try:
            return self.by_hand("kept-")
        finally:
            for host in HOSTS:
                subprocess.run(self._ssh(f"kept-{host}", "-O", "exit"), capture_output=True, check=False)

    def _all(self, prefix: str, line: str) -> Spent:
        return side_by_side([self._ssh(prefix + host, line) for host in HOSTS])

    def _ssh(self, host: str, *words: str) -> tuple[str, ...]:
        config = ("ssh", "-F", str(self._hosts.home / ".ssh/config"))
        return (*config, *words, host) if words[0] == "-O" else (*config, host, *words)


@contextmanager
def proxies(ms: float, addresses: list[str]) -> Iterator[None]:
    """While the block runs, in a process of their own; on the login node, as this one is."""
    argv = (sys.executable, "-m", "bench.far", "--ms", str(ms), "--serve", *addresses)
    with subprocess.Popen(argv, cwd=REPO, stdout=subprocess.PIPE) as serving:
        assert serving.stdout is not None
        serving.stdout.readline()
        try:
            yield
        finally:
            serving.terminate()


def main() -> int:
    """Take the measure."""
    parser = argparse.ArgumentParser(prog="python -m bench.far", description=__doc__)
    parser.add_argument("--ms", type=float, default=100.0, help="the round trip in milliseconds (100)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--serve", nargs="*", metavar="ADDRESS", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve is not None:
        asyncio.run(serve(args.ms / 2000, args.serve))
    print(machine(), flush=True)
    with cluster() as hosts:
        addresses = [hosts.lab.host(name).eth for name in HOSTS]
        lead_through(hosts.home, addresses)
        far = Far(hosts)
        with proxies(args.ms, addresses):
            title(f"far: a whole run on three hosts, {args.ms:g} ms away")
            rivals = [Rival(OWN, far.by_distui), Rival(ONE, far.by_hand), Rival(KEPT, far.kept)]
            table(in_turns(rivals, args.rounds), OWN)
            note("by hand nothing is checked, nobody is told that a rank failed, and a second run of the name collides")
    return 0


if __name__ == "__main__":
    sys.exit(main())
