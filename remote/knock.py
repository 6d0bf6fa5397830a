"""Whether an ssh server answers where ssh would connect for a host. Nothing is sent, and nobody logs in."""

from __future__ import annotations

import asyncio
import socket
import time

from distui.errors import HostUnreachable
from distui.frozen import frozen
from distui.remote.aside import aside
from distui.remote.config import Resolved, default_sources, resolve
from distui.remote.login import errors, tcp
from distui.remote.sshconfig import ConfigError
from distui.spec.hosts.inventory import Host


@frozen
class Knocked:
    """What came of one knock: milliseconds to the server's greeting, or through what alone the host is reached."""

    ms: float | None = None
    through: str = ""
    """A jump host, or `a command`: asking through it would mean a login there, so it was not tried."""


async def knock(host: Host, *, timeout: float) -> Knocked:
    """Open a connection to the port that ssh would take, wait for the server's first line, and close it.

    Takes at most `timeout` seconds. Raises HostUnreachable with why there is no ssh server.
    """
    try:
        target = await aside(resolve, host, default_sources())
    except ConfigError as exc:
        raise errors.config_problem(host.name, exc) from exc
    if target.jumps or target.proxy_command:
        return Knocked(through=", ".join(target.jumps) or "a command")
    began = time.monotonic()
    phase = "tcp"
    try:
        async with asyncio.timeout(timeout):
            sock = await _connected(target)
            phase = "banner"
            with sock:
                said = await tcp.greeting(sock)
                sock.recv(len(said) or 1)  # what is left unread would end the connection with a reset
    except TimeoutError as exc:
        raise errors.too_slow(target, phase, timeout) from exc
    except OSError as exc:
        raise errors.no_connection(target, exc) from exc
    if not any(line.startswith(b"SSH-") for line in said.split(b"\n")):
        raise (
            errors.not_ssh(target, said)
            if said
            else HostUnreachable(
                host.name, f"{errors.place(target)} hangs up without a word", hint=f"see `{target.ssh_v}`"
            )
        )
    return Knocked((time.monotonic() - began) * 1000)


async def _connected(target: Resolved) -> socket.socket:
    return await tcp.connect(target.hostname, target.port, family=target.family, bind=target.bind_address)
