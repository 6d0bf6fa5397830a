"""distui's transfer of code as a process of its own: `python -m bench.client_code HOME FOLDER RUN HOST...`.

Reads FOLDER as a plan does, connects, and gives every host the tree, as the launch of a run does; the run's folder,
which that launch makes, must be there. Prints seconds and CPU seconds, without Python's start and imports, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.client import connector, now, since
from bench.measure import Spent
from distui.runs.code.send import CodeSender, Sent
from distui.runs.code.source import CodeReader, CodeSource
from distui.runs.hosts.link import HostLink
from distui.spec.job.job import Code, Job


def read(home: Path, folder: Path) -> CodeSource:
    """The folder's tree. `home` is where distui keeps what it may keep between runs."""
    job = Job("bench", image="none", command=("true",), code=Code(path=str(folder), max_size=2 << 30))
    source = CodeReader(home / ".cache/distui", {"PATH": "/usr/bin:/bin", "HOME": str(home)}).read(job)
    assert source is not None
    return source


def run_dir(host: str, run: str) -> str:
    """Where a launch has its files on a host."""
    return f"/root/.local/state/distui/hosts/{host}/{run}"


async def send(home: Path, source: CodeSource, run: str, hosts: Sequence[str]) -> list[Sent]:
    """Connect, ask, send, and let the hosts check it."""
    ssh = connector(home, hosts)

    async def one(host: str) -> Sent:
        link = HostLink(ssh, host, session=await ssh.connect(host))
        folder = run_dir(host, run)
        sender = CodeSender(link, source, home="/root", run_dir=folder, contained=True, give_up=30.0)
        try:
            await sender.ask()
            return await sender.send()
        finally:
            await sender.close()
            await link.close()

    try:
        return list(await asyncio.gather(*map(one, hosts)))
    finally:
        await ssh.close()


def main(home: Path, folder: Path, run: str, hosts: Sequence[str]) -> tuple[Spent, list[Sent]]:
    """See the module."""
    began = now()
    source = read(home, folder)
    sent = asyncio.run(send(home, source, run, hosts))
    return since(began), sent


if __name__ == "__main__":
    spent, came = main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4:])
    print([(s.files, s.bytes) for s in came], file=sys.stderr)
    print(json.dumps({"wall": spent.wall, "cpu": spent.cpu}))
