"""Whether an image is on a machine, and which."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from distui.errors import HostCommandError
from distui.facts.engine import classify_read
from distui.facts.image import ImageFacts, read_image
from distui.plan.command import docker
from distui.runs.hosts.asking import run_with_retries
from distui.session import Completed

Ask = Callable[[Sequence[str]], Awaitable[Completed]]
"""Runs a command on the machine that may be repeated."""


async def find_image(ask: Ask, host: str, engine_command: Sequence[str], image: str) -> ImageFacts | None:
    """The image on that machine, None when it is not there. Raises HostError."""
    done = await run_with_retries(ask, docker.image_id(tuple(engine_command), image))
    if done.ok:
        try:
            return read_image(done.text)
        except ValueError as exc:
            raise HostCommandError(host, f"{host}: {exc}", code="rubbish") from exc
    engine = "podman" if any(word.endswith("podman") for word in engine_command) else "docker"
    trouble = classify_read(done.error_text, done.status, engine)
    if trouble.code == "image_missing":
        return None
    raise HostCommandError(host, trouble.message, hint=trouble.hint, code=trouble.code)
