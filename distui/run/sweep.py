"""What a launch that was killed leaves where none of its tasks runs: its folder with env files, its GPUs and ports.

Removed only by the launch's own token, so never another's, also of the same name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from distui.errors import HostError
from distui.plan.plan import run_folder
from distui.run import lease, marks
from distui.session import Connector
from distui.spec.inventory import Host

_SWEEP = r"""
d=$HOME/$1
[ -n "$2" ] && [ "$(sed -n 3p "$d/launch" 2>/dev/null)" = "$2" ] || exit 0
rm -rf -- "$d"
rmdir -- "${d%/*}" "${d%/*/*}" "${d%/*/*/*}" 2>/dev/null
[ -d "$d" ] || echo swept
""".strip()


async def sweep(connector: Connector, hosts: Sequence[Host], run: str, token: str) -> tuple[str, ...]:
    """Remove it from these hosts, all at once; returns the hosts where there was something. Safe to repeat.

    A host that can't be reached is left out: whoever asks has been told of it.
    """
    found = await asyncio.gather(*(_sweep(connector, host, run, token) for host in hosts)) if token else []
    return tuple(host.name for host, swept in zip(hosts, found, strict=False) if swept)


async def _sweep(connector: Connector, host: Host, run: str, token: str) -> bool:
    try:
        session = await connector.connect(host.name)
        try:
            place = run_folder("", host.name, run).lstrip("/")
            done = await session.run(("sh", "-c", _SWEEP, "distui-sweep", place, token))
            await lease.free(session.run, token)
            await marks.remove(session.run, token)
        finally:
            await session.close()
    except HostError:
        return False
    return done.text.strip() == "swept"
