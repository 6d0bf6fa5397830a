"""What `distui image` is about: which image on which hosts; and how far a copy is, as lines."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from distui.cli.console import Console
from distui.cli.settings import Settings
from distui.cluster.selection import host_named
from distui.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distui.runs.images.push import Pushed
    from distui.spec.inventory import Host, Inventory
    from distui.spec.job import Job

EVERY = 5.0
"""Seconds between two lines about one host where lines can't be drawn again."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """An image, the hosts it is about, and who gives it (None: who has it)."""

    image: str
    hosts: tuple[Host, ...]
    source: str | None = None
    givers: tuple[Host, ...] = ()
    """Who is asked for it beside these hosts."""
    local: tuple[str, ...] = ()
    """This machine's engine; () when it has none."""

    @property
    def names(self) -> frozenset[str]:
        """Names of the hosts it is about."""
        return frozenset(h.name for h in self.hosts)

    @property
    def contacted(self) -> tuple[Host, ...]:
        """These hosts and who may give it."""
        return (*self.hosts, *(giver for giver in self.givers if giver.name not in self.names))


def read_wanted(
    settings: Settings,
    inventory: Inventory,
    what: str,
    sets: Sequence[str],
    source: str | None = None,
    *,
    sent: bool = False,
) -> Wanted:
    """What is wanted: the image of a job on its hosts, or an image on those chosen. `sent`: it will be copied.

    Raises UsageError or SpecError.
    """
    from distui.runs.images.local_engine import LOCAL
    from distui.spec.choose import choose_hosts, hosts_of_job

    job = _job(settings, what)
    image = _checked(what) if job is None else _image_of(settings, job)
    if image is None:
        raise UsageError(f"job {job.name if job else what} names no image: its ranks are processes")
    if sent and "@" in image:
        raise UsageError(
            f"{image} is named by its digest, which only a registry gives", hint="give the image a tag, and push that"
        )
    own = job.hosts if job is not None and not (settings.hosts or settings.labels or settings.hostfile) else None
    around = hosts_of_job(inventory, own) if own is not None else settings.selection.picks(inventory)
    targets = choose_hosts(inventory, sets) if sets else around
    hosts = _with_engine(inventory.chosen(targets))
    if not hosts:
        raise UsageError("none of these hosts has a container engine")
    givers: tuple[Host, ...] = ()
    if sent and source is None:
        givers = _with_engine(inventory.chosen(around))
    elif source not in (None, LOCAL):
        givers = (host_named(inventory, str(source)),)
    return Wanted(image, hosts, source, givers, _local_engine(source))


def _with_engine(hosts: Sequence[Host]) -> tuple[Host, ...]:
    return tuple(h for h in hosts if h.engine != "process")


def _image_of(settings: Settings, job: Job) -> str | None:
    from distui.cli.permit import permit
    from distui.runs.images.context import image_of

    permit(settings, job)
    return image_of(job)


def _checked(image: str) -> str:
    from distui.spec.job_forms import image as check
    from distui.spec.problems import Wrong

    try:
        check(image)
    except Wrong as exc:
        raise UsageError(f"{exc}, nor is there a job file of this name") from exc
    return image


def _job(settings: Settings, what: str) -> Job | None:
    """The job that `what` names; None when it is no file, and so the name of an image."""
    from distui.cli.order import job_path
    from distui.spec.read_job import load_job

    path = job_path(settings, what)
    file = settings.cwd / path.partition("#")[0]
    if path == what and not file.is_file() and not what.endswith((".yaml", ".yml")):
        return None
    return load_job(path, environ=settings.environ)


def _local_engine(source: str | None) -> tuple[str, ...]:
    """docker here, else podman. Raises UsageError when it is asked for and there is none."""
    from distui.runs.images.local_engine import LOCAL

    found = next((name for name in ("docker", "podman") if shutil.which(name)), None)
    if found is None and source == LOCAL:
        raise UsageError("--from local: this machine has neither docker nor podman")
    return (found,) if found else ()


class PushLines:
    """Tells on stderr how far each host is: a line that is drawn again on a terminal, else one now and then."""

    def __init__(self, out: Console, output: str) -> None:
        self._out = out
        self._ndjson = output == "ndjson"
        self._live = out.err.isatty() and out.err_colour and not out.quiet
        self._states: dict[str, Pushed] = {}
        self._told: dict[str, tuple[str, float]] = {}
        self._drawn = 0.0

    def show(self, pushed: Pushed) -> None:
        """A host's state has changed."""
        now = time.monotonic()
        self._states[pushed.host] = pushed
        state, at = self._told.get(pushed.host, ("", 0.0))
        if pushed.state != state or (not self._live and now - at >= EVERY):
            self._told[pushed.host] = (pushed.state, now)
            if pushed.state != "sending" or not self._live:
                self._line(pushed)
        if self._live and now - self._drawn >= 0.1:
            self._drawn = now
            self._draw()

    def _line(self, pushed: Pushed) -> None:
        self._clear()
        if self._ndjson:
            self._out.print(json.dumps({"v": 1, "type": "image", **asdict(pushed)}, ensure_ascii=False))
            return
        style = {"failed": "red", "loaded": "green", "aside": "yellow"}.get(pushed.state, "")
        self._out.say(f"{pushed.host}  {words(pushed)}", style)

    def _draw(self) -> None:
        busy = [p for p in self._states.values() if p.state in ("sending", "loading")]
        text = "   ".join(f"{p.host} {words(p)}" for p in busy)
        self._clear()
        self._out.err.write(text[: max((self._out.width or 80) - 1, 20)])
        self._out.err.flush()

    def _clear(self) -> None:
        if self._live:
            self._out.err.write("\r\x1b[K")
            self._out.err.flush()


def words(pushed: Pushed) -> str:
    """How far a host is, in words."""
    from distui.amounts import size_words
    from distui.runs.lines.text import safe

    layers = f"{pushed.layers} of {pushed.of_layers} layers"
    match pushed.state:
        case "present":
            return "already present"
        case "sending":
            whole = f" of ~{size_words(pushed.most)}" if pushed.most > pushed.sent else ""
            return f"{size_words(pushed.sent)}{whole}, {layers}"
        case "loading":
            return f"{size_words(pushed.sent)} sent, unpacking"
        case "loaded":
            return f"has it now: {size_words(pushed.sent)} sent, {layers}" + (
                f" ({safe(pushed.words)})" if pushed.words else ""
            )
        case "aside":
            return safe(pushed.words)
        case "failed":
            return f"failed: {safe(pushed.words)}"
