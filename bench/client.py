"""distui's connections at work, as a process of its own: `python -m bench.client WAY HOME HOST...`.

WAY is `probe` (the probe without printing), `true` (the command `true`, by sessions made for it) or `again` (`true`
on hosts that are connected already, as during a run). Prints seconds and CPU seconds, without the start of Python
and imports, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from bench.measure import Spent
from distui.remote.pool import SshConnector
from distui.spec.hosts.inventory import Host

PARALLEL = 16
ROUNDS = 20


def now() -> Spent:
    """Both clocks."""
    return Spent(time.monotonic(), time.process_time())


def since(begun: Spent, rounds: int = 1) -> Spent:
    """What one of so many rounds took that began then."""
    return Spent((time.monotonic() - begun.wall) / rounds, (time.process_time() - begun.cpu) / rounds)


def connector(home: Path, hosts: Sequence[str]) -> SshConnector:
    """As the verbs make it."""
    return SshConnector(map(Host, hosts), home=home, system=False, parallel=PARALLEL)


async def probe(home: Path, hosts: Sequence[str]) -> Spent:
    """The probe as the verb does it."""
    from distui.facts.host import HostFacts
    from distui.facts.probe import probe_all
    from distui.spec.hosts.inventory import Host

    begun = now()
    ssh = connector(home, hosts)
    results = await probe_all(ssh, [Host(h) for h in hosts], parallel=PARALLEL)
    await ssh.close()
    assert all(isinstance(r, HostFacts) for r in results.values()), results
    return since(begun)


async def true(home: Path, hosts: Sequence[str]) -> Spent:
    """Connect, run `true`, hang up."""
    begun = now()
    ssh, gate = connector(home, hosts), asyncio.Semaphore(PARALLEL)

    async def one(host: str) -> None:
        async with gate:
            session = await ssh.connect(host)
            assert (await session.run(("true",))).ok
            await session.close()

    await asyncio.gather(*(one(host) for host in hosts))
    await ssh.close()
    return since(begun)


async def again(home: Path, hosts: Sequence[str]) -> Spent:
    """One of ROUNDS rounds of `true` on connected hosts."""
    ssh = connector(home, hosts)
    sessions = await asyncio.gather(*(ssh.connect(h) for h in hosts))
    begun = now()
    for _ in range(ROUNDS):
        await asyncio.gather(*(session.run(("true",)) for session in sessions))
    spent = since(begun, ROUNDS)
    await ssh.close()
    return spent


WAYS: dict[str, Callable[[Path, Sequence[str]], Awaitable[Spent]]] = {"probe": probe, "true": true, "again": again}


async def main(way: str, home: Path, hosts: Sequence[str]) -> Spent:
    """See the module."""
    return await WAYS[way](home, hosts)


if __name__ == "__main__":
    spent = asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:]))
    print(json.dumps({"wall": spent.wall, "cpu": spent.cpu}))
