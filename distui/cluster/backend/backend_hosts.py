"""The part of the backend that works on one host: its containers, processes and shells."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial

from distui.cluster.hosts.connecting import ssh_options
from distui.cluster.masks import mask_of
from distui.cluster.settings import ClusterSettings
from distui.errors import HostError
from distui.facts.host import GpuProcess
from distui.facts.probe import probe_processes
from distui.monitor.containers import HostContainer, follow_log, last_line, list_containers, log_argv, shell_argv
from distui.monitor.processes import Outcome, SeenProcess, look, signal
from distui.runs.hosts.discover import FoundTask
from distui.runs.store.masking import MaskedStream
from distui.session import Completed, Connector, Session, session_on
from distui.spec.hosts.inventory import Host

LAST_LINE_S, LAST_LINE_MOST = 10.0, 256 << 10
"""Seconds and bytes that the end of a log may take."""

Login = Callable[["Host", tuple[str, ...]], tuple[str, ...]]
"""The command that opens a shell on a host for a person, or runs one there that wants a terminal."""


def ssh_login(host: Host, command: tuple[str, ...] = (), *, tty: bool = True) -> tuple[str, ...]:
    """OpenSSH, which knows the user's own config; hosts.yaml fills what that leaves open. A command gets a terminal
    unless there is none to pass on. Blocking, as `ssh_options`.
    """
    options = ["-t"] if command and tty else []
    options += ssh_options(host)
    return ("ssh", *options, "--", host.name, *((shlex.join(command),) if command else ()))


class HostBackend(ABC):
    """What needs a session on one host; `ClusterBackend` knows the hosts and has the connections."""

    settings: ClusterSettings
    hosts: tuple[Host, ...]
    others: tuple[Host, ...] = ()
    """Hosts besides these that were asked for the runs they have."""
    login: Login

    @abstractmethod
    def reaching(self, hosts: Sequence[Host]) -> AbstractAsyncContextManager[Connector]:
        """Connections to these hosts, which stay open for the next call."""

    def _host(self, name: str) -> Host:
        return next(host for host in (*self.hosts, *self.others) if host.name == name)

    @contextlib.asynccontextmanager
    async def _session(self, host: str) -> AsyncIterator[Session]:
        async with self.reaching((self._host(host),)) as connector, session_on(connector, host) as session:
            yield session

    async def containers(self, host: str) -> tuple[HostContainer, ...]:
        """See the protocol."""
        async with self._session(host) as session:
            return await list_containers(session.run, self._host(host))

    async def container_log(self, container: HostContainer) -> AsyncGenerator[bytes, None]:
        """See the protocol."""
        names = container.task.secrets if container.task is not None else ()
        hidden = MaskedStream(mask_of(self.settings, names))
        async with self._session(container.host) as session:
            stream = follow_log(session, log_argv(self._host(container.host), container))
            async with contextlib.aclosing(stream):
                async for data in stream:
                    yield hidden.feed(data)
                yield hidden.rest()

    async def last_line(self, task: FoundTask) -> str:
        """See the protocol."""
        mask = mask_of(self.settings, task.labels.secrets)
        try:
            async with self._session(task.host) as session:
                ask = partial(session.run, timeout=LAST_LINE_S, limit=LAST_LINE_MOST)
                return await last_line(ask, self._host(task.host), task, mask)
        except HostError:
            return ""

    async def gpu_processes(self, host: str) -> tuple[GpuProcess, ...]:
        """See the protocol."""
        async with self._session(host) as session:
            return await probe_processes(session, self._host(host))

    async def process(self, host: str, pid: int) -> SeenProcess:
        """See the protocol."""
        async with self._session(host) as session:
            return await look(session.run, host, pid)

    async def signal(self, seen: SeenProcess, *, kill: bool = False) -> Outcome:
        """See the protocol."""
        async with self._session(seen.host) as session:
            return await signal(session.run, seen, kill=kill)

    async def command(self, host: str, words: tuple[str, ...], *, timeout: float) -> Completed:
        """See the protocol."""
        async with self._session(host) as session:
            return await session.run(words, timeout=timeout, limit=1 << 20)

    async def ssh_argv(self, host: str, container: HostContainer | None = None) -> tuple[str, ...]:
        """See the protocol."""
        spec = self._host(host)
        command = shell_argv(spec, container) if container is not None else ()
        return await asyncio.to_thread(self.login, spec, command)
