"""A Docker in memory: the few commands distui sends, as a state machine; anything else is an error of the test."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from distui.session import Completed

VALUE_FLAGS = {"--name", "--label", "--log-driver", "--log-opt", "--network", "--ipc", "--shm-size", "--ulimit"}
VALUE_FLAGS |= {"--gpus", "--cap-add", "--env-file", "--pull", "--mount", "-v", "-w", "--user"}
ID = "sha256:" + "a" * 64


@dataclass
class Container:
    """One container. `ended` is set when it is no longer running."""

    id: str
    name: str
    labels: dict[str, str]
    image: str
    env: dict[str, str]
    status: str = "running"
    code: int = 0
    oom: bool = False
    finished: str = "0001-01-01T00:00:00Z"
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    stop_code: int = 143
    """What it ends with on SIGTERM."""
    signalled: bool = False
    """Whether somebody had the engine send it a signal."""
    lasted: float | None = None
    """How long it ran, when the engine tells."""

    def end(self, code: int, *, oom: bool = False, finished: str = "2026-01-01T00:00:00Z") -> None:
        """Its program ends."""
        if self.status == "running":
            self.status, self.code, self.oom, self.finished = "exited", code, oom, finished
            self.ended.set()

    def stop(self, code: int) -> None:
        """The engine is asked to send it a signal."""
        self.signalled = self.status == "running"
        self.end(code)

    @property
    def task(self) -> int:
        """Its task's index."""
        return int(self.labels["distui.task"])

    def inspected(self) -> dict[str, Any]:
        """As `docker inspect` prints it."""
        state = {
            "Status": self.status,
            "Running": self.status == "running",
            "ExitCode": self.code,
            "OOMKilled": self.oom,
            "StartedAt": "2026-01-01T00:00:00.5Z",
            "FinishedAt": self.finished,
        }
        config = {"Labels": self.labels}
        return {"Id": self.id, "Name": f"/{self.name}", "Image": self.image, "Config": config, "State": state}


class FakeEngine:
    """Images and containers of one host. `files` are the host's, for `--env-file`."""

    def __init__(self, host: str, files: dict[str, bytes]) -> None:
        self.host = host
        self.files = files
        self.images: dict[str, str] = {"img:1": ID}
        self.image_labels: dict[str, dict[str, str]] = {}
        """By the image's id."""
        self.registry: dict[str, str] = {}
        """What can be pulled."""
        self.containers: list[Container] = []
        self.exits: dict[int, int] = {}
        """Task -> exit code, for programs that end at once; others run until they are stopped."""
        self.born = asyncio.Event()

    def by_label(self, task: int) -> Container:
        """The container of one task."""
        return next(c for c in self.containers if c.task == task)

    def run(self, argv: tuple[str, ...]) -> Completed:
        """One `docker ...` command."""
        match argv[1:]:
            case ("ps", "--all", "--quiet", "--no-trunc"):
                return self._say(argv, "".join(f"{c.id}\n" for c in self.containers))
            case ("ps", "--all", "--quiet", "--no-trunc", "--filter", wanted):
                return self._say(argv, "".join(f"{c.id}\n" for c in self.containers if _matches(c, wanted)))
            case ("inspect", "--type", "container", *names):
                return self._inspect(argv, names)
            case ("image", "inspect", "--format", "{{json .}}", image):
                return self._image(argv, image)
            case ("image", "inspect", *ids):
                reported = [{"Id": i, "Config": {"Labels": self.image_labels.get(i)}} for i in ids]
                return self._say(argv, json.dumps(reported))
            case ("pull", image):
                return self._pull(argv, image)
            case ("run", "-d", *words):
                return self._run(argv, words)
            case ("stop", "-t", seconds, *names) if seconds.isdigit():
                return self._each(argv, names, lambda c: c.stop(c.stop_code))
            case ("kill", "--signal", "KILL", *names):
                return self._kill(argv, names)
            case ("rm", "--volumes", "--force", *names):
                return self._each(argv, names, self.drop)
        raise AssertionError(f"{self.host}: docker does not know {argv}")

    def drop(self, container: Container) -> None:
        """Remove a container, whatever it does."""
        self.containers.remove(container)
        container.status = "gone"
        container.ended.set()

    def _say(self, argv: tuple[str, ...], text: str) -> Completed:
        return Completed(argv, 0, text.encode(), b"")

    def _fail(self, argv: tuple[str, ...], words: str, status: int = 1, out: str = "") -> Completed:
        return Completed(argv, status, out.encode(), f"{words}\n".encode())

    def _find(self, name: str) -> Container | None:
        return next((c for c in self.containers if name in (c.id, c.name)), None)

    def _inspect(self, argv: tuple[str, ...], names: Sequence[str]) -> Completed:
        found = [self._find(n) for n in names]
        out = json.dumps([c.inspected() for c in found if c])
        missing = [f"Error: No such container: {n}" for n, c in zip(names, found, strict=True) if c is None]
        return self._fail(argv, "\n".join(missing), out=out) if missing else self._say(argv, out)

    def _image(self, argv: tuple[str, ...], image: str) -> Completed:
        if image not in self.images:
            return self._fail(argv, f"Error: No such image: {image}", out="\n")
        ident = self.images[image]
        config = {"Labels": labels} if (labels := self.image_labels.get(ident)) else {}
        return self._say(argv, json.dumps({"Id": ident, "Config": config}))

    def _pull(self, argv: tuple[str, ...], image: str) -> Completed:
        if image not in self.registry:
            return self._fail(argv, f"Error response from daemon: manifest for {image} not found: manifest unknown")
        self.images[image] = self.registry[image]
        return self._say(argv, f"Status: Downloaded newer image for {image}\n")

    def _run(self, argv: tuple[str, ...], words: Sequence[str]) -> Completed:
        flags, image = _flags(words)
        name = flags["--name"][0]
        if (other := self._find(name)) is not None:
            words_ = f'Conflict. The container name "/{name}" is already in use by container "{other.id}".'
            return self._fail(argv, f"docker: Error response from daemon: {words_}", 125)
        env_file = flags["--env-file"][0]
        if env_file not in self.files:
            return self._fail(argv, f"docker: open {env_file}: no such file or directory.", 125)
        if image not in self.images:
            return self._fail(argv, f"Unable to find image '{image}' locally", 125)
        self._begin(name, flags, image, self.files[env_file])
        return self._say(argv, f"{self.containers[-1].id}\n")

    def _begin(self, name: str, flags: dict[str, list[str]], image: str, env: bytes) -> None:
        labels = self.image_labels.get(self.images[image], {}) | dict(label.split("=", 1) for label in flags["--label"])
        ident = hashlib.sha256(f"{self.host}/{name}/{len(self.containers)}".encode()).hexdigest()
        lines = env.decode().splitlines()
        made = Container(ident, name, labels, image, dict(line.split("=", 1) for line in lines))
        self.containers.append(made)
        if made.task in self.exits:
            made.end(self.exits[made.task])
        self.born.set()

    def _kill(self, argv: tuple[str, ...], names: Sequence[str]) -> Completed:
        over = [n for n in names if (c := self._find(n)) is not None and c.status != "running"]
        done = self._each(argv, [n for n in names if n not in over], lambda c: c.stop(137))
        if not over:
            return done
        return self._fail(argv, f"Error response from daemon: Cannot kill container: {over[0]} is not running")

    def _each(self, argv: tuple[str, ...], names: Sequence[str], act: Any) -> Completed:
        missing = [n for n in names if self._find(n) is None]
        for name in names:
            if (container := self._find(name)) is not None:
                act(container)
        if missing:
            return self._fail(argv, f"Error response from daemon: No such container: {missing[0]}")
        return self._say(argv, "".join(f"{n}\n" for n in names))


def _matches(container: Container, wanted: str) -> bool:
    """The filters distui uses: `label=distui.run` and `label=distui.run=NAME`."""
    key, equals, value = wanted.removeprefix("label=").partition("=")
    assert key == "distui.run", wanted
    return key in container.labels and (not equals or container.labels[key] == value)


def _flags(words: Sequence[str]) -> tuple[dict[str, list[str]], str]:
    """The flags of `docker run` and the image; a flag nobody knows is an error of the test."""
    flags: dict[str, list[str]] = {}
    rest: Iterator[str] = iter(words)
    for word in rest:
        if word in VALUE_FLAGS:
            flags.setdefault(word, []).append(next(rest))
        elif word != "--init":
            assert not word.startswith("-"), f"docker run does not know {word}"
            return flags, word
    raise AssertionError("docker run without an image")
