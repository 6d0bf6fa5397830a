"""The floor: bare asyncssh connects, runs, hangs up and reads nothing out of the answer.

`python -m bench.client_asyncssh HOME COMMAND HOST... <STDIN`: COMMAND gets what comes on stdin. Prints seconds and
CPU seconds without the start of Python and imports, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import asyncssh

PARALLEL = 16


async def work(home: Path, command: str, script: bytes, hosts: Sequence[str]) -> None:
    """All hosts, at most PARALLEL at once."""
    gate = asyncio.Semaphore(PARALLEL)

    async def one(host: str) -> None:
        async with gate, asyncssh.connect(host, config=[str(home / ".ssh/config")], agent_path=None) as conn:
            await conn.run(command, input=script or None, encoding=None, check=True)

    await asyncio.gather(*(one(host) for host in hosts))


if __name__ == "__main__":
    given = sys.stdin.buffer.read()
    cpu, began = time.process_time(), time.monotonic()
    asyncio.run(work(Path(sys.argv[1]), sys.argv[2], given, sys.argv[3:]))
    print(json.dumps({"wall": time.monotonic() - began, "cpu": time.process_time() - cpu}))
