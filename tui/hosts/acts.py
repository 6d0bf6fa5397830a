"""What can be done with one host, and with the container or process under the cursor."""

from __future__ import annotations

import time
from collections.abc import Sequence

from distui.monitor.board import GpuLane, HostBoard
from distui.monitor.containers import HostContainer
from distui.tui.frame.base import View
from distui.tui.frame.context import app_of
from distui.tui.hosts import containers as host_containers
from distui.tui.hosts.container_log import ContainerLogScreen
from distui.tui.hosts.process_kill import kill
from distui.tui.hosts.tabs import Process
from distui.tui.hosts.text import described, raw
from distui.tui.terminal import shell


class HostActs(View):
    """The screen of a host, which knows what is under the cursor."""

    host_name: str

    @property
    def host(self) -> HostBoard:
        """The host."""
        return self.board.hosts[self.host_name]

    @property
    def lane(self) -> GpuLane | None:
        """The GPU under the cursor."""
        return None

    @property
    def container(self) -> HostContainer | None:
        """The container under the cursor."""
        return None

    @property
    def process(self) -> Process | None:
        """The process under the cursor."""
        return None

    def action_shell(self) -> None:
        """A shell on the host or in a container; the app comes back when it ends."""
        found = self.container
        if found is not None and not found.running:
            app_of(self).tell(f"{found.name} does not run: {host_containers.state_words(found)[0]}", level="warning")
            return
        inside = found if found is not None and found.engine != "process" else None
        self.work(shell.visit(self.app, self.backend.ssh_argv(self.host_name, inside)), name="shell")

    def action_container_log(self) -> None:
        """What it says; of a GPU or process the container that has it."""
        self.work(self._open_log(), name="container log")

    async def _open_log(self) -> None:
        found = self.container or self._container_of(await self.backend.containers(self.host_name))
        if found is None:
            app_of(self).tell("no container has this")
        else:
            await self.app.push_screen(ContainerLogScreen(found))

    def _container_of(self, known: Sequence[HostContainer]) -> HostContainer | None:
        """The container that has the GPU or the process under the cursor."""
        wanted = self.process.process.container if self.process else None
        if self.lane is not None:
            owner = self.host.owner(self.lane)
            wanted = owner.use.container if owner.use else next((p.container for p in owner.foreign), None)
        return next((c for c in known if wanted and c.id.startswith(wanted)), None)

    def action_kill_process(self) -> None:
        """End the process under the cursor, after a question."""
        if self.process is None:
            app_of(self).tell("processes are in the tab Procs", level="warning")
        else:
            self.work(kill(self, self.host, self.process), name="kill")

    def action_raw(self) -> None:
        """The facts as JSON."""
        text = raw(self.host)
        if text:
            app_of(self).open_text(f"{self.host_name}.json", text)
        else:
            app_of(self).tell("the host has not answered yet")

    def action_copy_facts(self) -> None:
        """The facts as text."""
        app_of(self).copy(described(self.host, time.time()))
