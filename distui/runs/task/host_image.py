"""The run's image on one host: whether it is there, pulling it, building it."""

from __future__ import annotations

from typing import IO

from distui.errors import HostCommandError, SessionLost
from distui.facts.image import ImageFacts
from distui.plan.command import docker
from distui.plan.content.build import build_argv
from distui.runs.hosts.asking import run_with_retries
from distui.runs.images.build import BuildProgress, build_image
from distui.runs.images.find import find_image
from distui.runs.images.push import Engine
from distui.runs.task.host_access import RECONNECT_TIMEOUT, HostAccess

PULL_TIMEOUT = 3600.0


class HostImage:
    """The image of the run's plan, which has one. Every method may raise HostError."""

    def __init__(self, access: HostAccess) -> None:
        self.host = access.host
        self.pythonpath = ""
        """What the image sets as PYTHONPATH, once it was looked at."""
        self.task_labels: tuple[str, ...] = ()
        """Names of labels of a task that the image has, known then, too."""
        self._at = access

    async def facts(self) -> ImageFacts | None:
        """The image on this host, None when it is not there."""
        assert self._at.plan.image is not None
        command = self._at.first.engine_command
        found = await find_image(self._at.run_repeatable, self.host, command, self._at.plan.image)
        self.pythonpath = found.pythonpath if found is not None else ""
        self.task_labels = found.task_labels if found is not None else ()
        return found

    async def entrypoint(self) -> str:
        """The image's own entry point in one line, empty when it has none or is not there."""
        assert self._at.plan.image is not None
        done = await run_with_retries(
            self._at.run_repeatable, docker.image_id(self._at.first.engine_command, self._at.plan.image)
        )
        try:
            return docker.read_entrypoint(done.text) if done.ok else ""
        except ValueError as exc:
            raise HostCommandError(self.host, f"{self.host}: {exc}", code="rubbish") from exc

    async def pull(self) -> None:
        """Pull the image. Raises HostCommandError with the engine's words."""
        assert self._at.plan.image is not None
        done = await self._at.link.run(
            docker.pull(self._at.first.engine_command, self._at.plan.image),
            timeout=PULL_TIMEOUT,
            give_up=self._at.reconnect_timeout,
        )
        if not done.ok:
            raise self._at.refused(f"can't pull {self._at.plan.image}", done)

    async def build(self, context: IO[bytes], progress: BuildProgress) -> None:
        """Build the image. Raises BuildFailed, SessionLost."""
        assert self._at.plan.image is not None and self._at.plan.build is not None
        argv = build_argv(self._at.first.engine_command, self._at.plan.image, self._at.plan.build, self._at.plan.pull)
        session = await self._at.link.session(give_up=RECONNECT_TIMEOUT)
        try:
            await build_image(session, argv, context, progress)
        except SessionLost as exc:
            self._at.link.lost(session, exc)
            raise

    async def engine(self) -> Engine:
        """The host's engine, for copying images."""
        return Engine(self.host, self._at.first.engine_command, await self._at.link.session(give_up=RECONNECT_TIMEOUT))
