"""What can be done with one host, and with the container or process under the cursor."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from distui.monitor.containers import HostContainer
from distui.monitor.histories import GpuHistory
from distui.monitor.host_board import HostBoard
from distui.tui.frame.base import View
from distui.tui.frame.context import app_of
from distui.tui.frame.parts import Part
from distui.tui.hosts import containers as host_containers
from distui.tui.hosts.container_log import ContainerLogScreen
from distui.tui.hosts.process_kill import kill
from distui.tui.hosts.tabs import Process
from distui.tui.hosts.text import described, raw
from distui.tui.terminal import shell


class UnderCursor(Protocol):
    """The host of a screen, and what the cursor is on there."""

    @property
    def host(self) -> HostBoard: ...

    @property
    def gpu(self) -> GpuHistory | None: ...

    @property
    def container(self) -> HostContainer | None: ...

    @property
    def process(self) -> Process | None: ...


class HostActs(Part):
    """A shell, logs, facts, the end of a process: what is done to a host, or to what is under the cursor."""

    def __init__(self, view: View, at: UnderCursor) -> None:
        self.view = view
        self.at = at

    def action_shell(self) -> None:
        """A shell on the host or in a container; the app comes back when it ends."""
        found = self.at.container
        if found is not None and not found.running:
            app_of(self.view).tell(
                f"{found.name} does not run: {host_containers.state_words(found)[0]}", level="warning"
            )
            return
        inside = found if found is not None and found.engine != "process" else None
        self.view.work(self._shell(self.at.host.name, inside), name="shell")

    async def _shell(self, host: str, inside: HostContainer | None) -> None:
        await shell.visit(self.view.app, await self.view.backend.ssh_argv(host, inside))

    def action_container_log(self) -> None:
        """What it says; of a GPU or process the container that has it."""
        self.view.work(self._open_log(), name="container log")

    @property
    def has_container(self) -> bool:
        """Whether a container is under the cursor, or has what is there."""
        return self.at.container is not None or bool(self._wanted())

    async def _open_log(self) -> None:
        found, wanted = self.at.container, self._wanted()  # the cursor may be elsewhere when the host has answered
        if found is None:
            known: Sequence[HostContainer] = await self.view.backend.containers(self.at.host.name)
            found = next((c for c in known if wanted and c.id.startswith(wanted)), None)
        if found is None:
            app_of(self.view).tell("no container has this")
        elif self.view.is_active:  # with nothing over it
            await self.view.app.push_screen(ContainerLogScreen(found))

    def _wanted(self) -> str | None:
        """Its id, maybe shortened."""
        if self.at.gpu is None:
            return self.at.process.process.container if self.at.process else None
        owner = self.at.host.owner(self.at.gpu)
        return owner.use.container if owner.use else next((p.container for p in owner.foreign), None)

    def action_kill_process(self) -> None:
        """End the process under the cursor, after a question."""
        if self.at.process is None:
            app_of(self.view).tell("no process is under the cursor; the tab Procs has them", level="warning")
        else:
            self.view.work(kill(self.view, self.at.host, self.at.process), name="kill")

    def action_raw(self) -> None:
        """The facts as JSON."""
        text = raw(self.at.host)
        if text:
            app_of(self.view).open_text(f"{self.at.host.name}.json", text)
        else:
            app_of(self.view).tell("the host has not answered yet")

    def action_copy_facts(self) -> None:
        """The facts as text."""
        app_of(self.view).copy(described(self.at.host, time.time()))
