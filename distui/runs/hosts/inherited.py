"""Containers that have a task's labels from their image: `docker commit` of a rank's container keeps them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from distui.facts.values import as_object, loads
from distui.plan.labels import PREFIX, container_name, task_from_labels
from distui.regex import regex
from distui.runs.hosts.asking import run_with_retries
from distui.session import Completed

_IMAGE_ID = regex(r"(sha256:)?[0-9a-f]{64}")


async def inherited(
    run_argv: Callable[[Sequence[str]], Awaitable[Completed]],
    engine_command: tuple[str, ...],
    values: Sequence[Mapping[str, Any]],
) -> frozenset[str]:
    """The ids of those of these containers, as the engine describes them, whose labels of a task are their image's.

    Whatever anybody starts from such an image has them. It is none of the run's, and nobody may stop or remove it with
    the run.
    """
    doubted = [value for value in values if _is_named_otherwise(value)]
    images = {str(value.get("Image")) for value in doubted}
    known = await _labels_of(run_argv, engine_command, sorted(filter(_IMAGE_ID.fullmatch, images)))
    return frozenset(
        str(value.get("Id", ""))
        for value in doubted
        if _own(value).items() <= known.get(str(value.get("Image")), {}).items()
    )


def _is_named_otherwise(value: Mapping[str, Any]) -> bool:
    """Whether a task's container has not the name that it was started under: somebody may have renamed one of ours."""
    labels = task_from_labels(_own(value))
    if labels is None:
        return False
    own = container_name(labels.run, labels.task, labels.attempt)
    return str(value.get("Name")).removeprefix("/") != own


def _own(value: Mapping[str, Any]) -> dict[str, str]:
    """Its labels that begin as distui's do."""
    labels = as_object(as_object(value.get("Config")).get("Labels"))
    return {str(name): str(text) for name, text in labels.items() if str(name).startswith(PREFIX)}


async def _labels_of(
    run_argv: Callable[[Sequence[str]], Awaitable[Completed]], engine_command: tuple[str, ...], images: Sequence[str]
) -> Mapping[str, Mapping[str, str]]:
    """The same of these images, by id; of one that the engine does not tell there is nothing."""
    if not images:
        return {}
    done = await run_with_retries(run_argv, (*engine_command, "image", "inspect", *images))
    try:
        value = loads(done.text or "[]")
    except ValueError:
        return {}
    return {str(one.get("Id")): _own(one) for one in map(as_object, value if isinstance(value, list) else [])}
