"""What `distui image` is about: which image on which hosts; and how far a copy is, as lines."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict

from distui.amounts import size_words
from distui.cli.console import Console, as_json
from distui.cli.jobs.permit import permit
from distui.cli.settings import Settings
from distui.cluster.images import ImageRequest, image_name, image_request
from distui.cluster.jobs.job_files import job_path
from distui.errors import UsageError
from distui.files import is_file
from distui.runs.images.context import image_of
from distui.runs.images.push import Pushed
from distui.runs.lines.text import safe
from distui.spec.hosts.inventory import Inventory
from distui.spec.job.job import Job
from distui.spec.job.read_job import load_job

EVERY = 5.0
"""Seconds between two lines about one host where lines can't be drawn again."""


def read_wanted(
    settings: Settings,
    inventory: Inventory,
    what: str,
    sets: Sequence[str],
    source: str | None = None,
    *,
    sent: bool = False,
) -> ImageRequest:
    """What is wanted: the image of a job on its hosts, or an image on those chosen. `sent`: it will be copied.

    Raises UsageError or SpecError.
    """
    job = _job(settings, what)
    image = image_name(what) if job is None else _image_of(settings, job)
    if image is None:
        raise UsageError(f"job {job.name if job else what} names no image: its ranks are processes")
    return image_request(settings.selection, inventory, image, job, sets, source, sent=sent)


def _image_of(settings: Settings, job: Job) -> str | None:
    permit(settings, job)
    return image_of(job)


def _job(settings: Settings, what: str) -> Job | None:
    """The job that `what` names; None when it is no file, and so the name of an image."""
    path = job_path(settings.cwd, settings.cluster, what)
    file = settings.cwd / path.partition("#")[0]
    if path == what and not is_file(file) and not what.endswith((".yaml", ".yml")):
        return None
    return load_job(path, environ=settings.environ)


class PushLines:
    """Tells on stderr how far each host is: a line that is drawn again on a terminal, else one now and then."""

    def __init__(self, out: Console, output: str) -> None:
        self._out = out
        self._ndjson = output == "ndjson"
        self._live = out.err.isatty() and out.err_colour and not out.quiet
        self._states: dict[str, Pushed] = {}
        self._reported: dict[str, tuple[str, float]] = {}
        self._drawn = 0.0

    def show(self, pushed: Pushed) -> None:
        """A host's state has changed."""
        now = time.monotonic()
        self._states[pushed.host] = pushed
        state, at = self._reported.get(pushed.host, ("", 0.0))
        if pushed.state != state or (not self._live and now - at >= EVERY):
            self._reported[pushed.host] = (pushed.state, now)
            if pushed.state != "sending" or not self._live:
                self._line(pushed)
        if self._live and now - self._drawn >= 0.1:
            self._drawn = now
            self._draw()

    def _line(self, pushed: Pushed) -> None:
        self._clear()
        if self._ndjson:
            self._out.print(as_json({"v": 1, "type": "image", **asdict(pushed)}))
            return
        style = {"failed": "red", "loaded": "green", "aside": "yellow"}.get(pushed.state, "")
        self._out.say(f"{pushed.host}  {words(pushed)}", style)

    def _draw(self) -> None:
        busy = [p for p in self._states.values() if p.state in ("sending", "loading")]
        text = safe("   ".join(f"{p.host} {words(p)}" for p in busy))
        self._clear()
        self._out.err.write(text[: max((self._out.width or 80) - 1, 20)])
        self._out.err.flush()

    def _clear(self) -> None:
        if self._live:
            self._out.err.write("\r\x1b[K")
            self._out.err.flush()


def words(pushed: Pushed) -> str:
    """How far a host is, in words."""
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
            return f"now there: {size_words(pushed.sent)} sent, {layers}" + (
                f" ({safe(pushed.words)})" if pushed.words else ""
            )
        case "aside":
            return safe(pushed.words)
        case "failed":
            return f"failed: {safe(pushed.words)}"
