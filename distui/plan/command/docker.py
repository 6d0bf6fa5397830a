"""Containers and images that are there as argv of docker or podman: stop, kill, logs, inspect, list, remove."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from distui.facts.values import loads

Argv = tuple[str, ...]

LOG_SIZE = "1000g"
"""The size at which the log of a task would be rotated, that is never: docker refuses `-1`."""

UNSTARTED = frozenset({"created", "configured", "initialized"})
"""Statuses of a container that nobody has started: which of them podman says depends on its version."""


def runs(state: Mapping[str, object]) -> bool:
    """Whether a container has a process: podman says that one does not run which is paused, or being stopped."""
    return bool(state.get("Running")) or state.get("Status") in ("paused", "stopping")


def stop(engine_command: Argv, containers: Sequence[str], grace: float) -> Argv:
    """SIGTERM, then SIGKILL after `grace` seconds (rounded up to whole ones, as the engine takes them)."""
    return (*engine_command, "stop", "-t", str(max(0, -int(-grace // 1))), *containers)


def unpause(engine_command: Argv, containers: Sequence[str]) -> Argv:
    """Let paused containers go on."""
    return (*engine_command, "unpause", *containers)


def kill(engine_command: Argv, containers: Sequence[str], signal: str = "KILL") -> Argv:
    """Send a signal at once."""
    return (*engine_command, "kill", "--signal", signal, *containers)


def logs(
    engine_command: Argv,
    container: str,
    *,
    stamps: bool = False,
    follow: bool = False,
    since: str = "",
    tail: int | None = None,
) -> Argv:
    """The log, each line behind its nanosecond stamp where asked; `since` (RFC 3339) is inclusive (FAULTS M3)."""
    flags = [*(["--timestamps"] if stamps else []), *(["--follow"] if follow else [])]
    flags += [*(["--since", since] if since else []), *(["--tail", str(tail)] if tail is not None else [])]
    return (*engine_command, "logs", *flags, container)


def inspect(engine_command: Argv, containers: Sequence[str]) -> Argv:
    """Everything about the containers as one JSON array."""
    return (*engine_command, "inspect", "--type", "container", *containers)


def pid_of(engine_command: Argv, container: str) -> Argv:
    """Prints the host's pid of a container's first process; 0 once it has ended."""
    return (*engine_command, "inspect", "--type", "container", "--format", "{{.State.Pid}}", container)


def sizes(engine_command: Argv, containers: Sequence[str]) -> Argv:
    """Prints each container's full id and the bytes it wrote, one a line. Slow: the engine counts files."""
    form = "{{.Id}} {{.SizeRw}}"
    return (*engine_command, "inspect", "--size", "--type", "container", "--format", form, *containers)


def list_ids(engine_command: Argv, run_id: str | None = None, *, every: bool = False) -> Argv:
    """Full ids of distui's containers in any state, one a line: of one run, or of all. `every`: others' too.

    Labels are read by `inspect`: in `ps` output they are joined by commas, which values may hold.
    """
    wanted = () if every else ("--filter", "label=distui.run" + (f"={run_id}" if run_id else ""))
    return (*engine_command, "ps", "--all", "--quiet", "--no-trunc", *wanted)


def remove(engine_command: Argv, containers: Sequence[str], *, force: bool = False) -> Argv:
    """Remove containers with their anonymous volumes; `force` kills them first."""
    return (*engine_command, "rm", "--volumes", *(["--force"] if force else []), *containers)


def image_of(engine_command: Argv, container: str) -> Argv:
    """Prints the id of a container's image."""
    return (*engine_command, "inspect", "--type", "container", "--format", "{{.Image}}", container)


def image_id(engine_command: Argv, image: str) -> Argv:
    """Prints the image's id, digests and platform as JSON; fails when it is not there."""
    return (*engine_command, "image", "inspect", "--format", "{{json .}}", image)


def read_entrypoint(output: str) -> str:
    """The image's own entry point in `image_id`'s answer, in one line; empty when it has none.

    Raises ValueError when it is no such answer.
    """
    config = _first(output).get("Config")
    entrypoint = config.get("Entrypoint") if isinstance(config, dict) else None
    return " ".join(map(str, entrypoint)) if isinstance(entrypoint, list) else str(entrypoint or "")


def _first(output: str) -> Mapping[str, object]:
    """The image in the answer: an object from docker, a list of one from podman."""
    value = loads(output)
    first = value[0] if isinstance(value, list) and value else value
    if not isinstance(first, dict) or "Id" not in first:
        raise ValueError("the engine's answer about the image can't be read")
    return first


def pull(engine_command: Argv, image: str) -> Argv:
    """Fetch the image."""
    return (*engine_command, "pull", image)


def save(engine_command: Argv, image: str) -> Argv:
    """Writes the image to stdout as an archive that `load` takes."""
    return (*engine_command, "save", image)


def load(engine_command: Argv) -> Argv:
    """Takes an archive of images from stdin."""
    return (*engine_command, "load")


def tag(engine_command: Argv, image: str, name: str) -> Argv:
    """Gives an image another name."""
    return (*engine_command, "tag", image, name)
