"""`distui image`: which hosts have an image, and copying it to those that lack it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from distui.amounts import counted, size_words
from distui.cli import wiring
from distui.cli.console import Console, confirm_async
from distui.cli.jobs.images import PushLines, read_wanted
from distui.cli.settings import Settings
from distui.cluster.images import Found, ImageRequest, engines_of, find_image, image_source, others_named_so
from distui.columns import table
from distui.doctor.images import short_id
from distui.errors import ExitCode, HostError
from distui.facts.image import ImageFacts, identities
from distui.runs.images.push import Engine, Pushed, push_image
from distui.runs.lines.text import safe_lines
from distui.spec.hosts.names import fold


def ls(settings: Settings, out: Console, what: str, sets: tuple[str, ...]) -> int:
    """See `image ls --help`."""
    found = settings.selection.inventory()
    wanted = read_wanted(settings, found, what, sets)
    return wiring.run_async(_ls(settings, out, wanted), limit=settings.timeout)


async def _ls(settings: Settings, out: Console, wanted: ImageRequest) -> int:
    async with wiring.connected(settings, wanted.hosts) as connector:
        engines, lost = await engines_of(connector, wanted)
        found = lost | await find_image(engines, wanted.image)
    found = {host.name: found[host.name] for host in wanted.hosts}
    same = len({*identities(found).values()}) <= 1
    if settings.output in ("json", "ndjson"):
        values = [{"host": host, **_value(f)} for host, f in found.items()]
        out.json({"schema": "distui/images/v1", "image": wanted.image, "same": same, "hosts": values})
    else:
        rows = [(host, *map(safe_lines, _cells(f))) for host, f in found.items()]
        out.print("\n".join(table(("HOST", "IMAGE", "ID", "SIZE"), rows, width=out.width)))
    everywhere = all(isinstance(f, ImageFacts) for f in found.values())
    return ExitCode.OK if same and everywhere else ExitCode.CHECK_FAILED


def _value(found: ImageFacts | HostError | None) -> dict[str, Any]:
    if isinstance(found, HostError):
        return {"state": "unknown", "error": {"code": found.code, "message": found.message, "hint": found.hint}}
    if found is None:
        return {"state": "missing"}
    return {"state": "present", "id": found.id, "bytes": found.size, "layers": len(found.layers), "build": found.build}


def _cells(found: ImageFacts | HostError | None) -> tuple[str, str, str]:
    if isinstance(found, HostError):
        return ("unknown: " + found.message, "", "")
    if found is None:
        return ("missing", "", "")
    return ("present", short_id(found.id), size_words(found.size))


def push(settings: Settings, out: Console, what: str, source: str | None, sets: tuple[str, ...]) -> int:
    """See `image push --help`."""
    settings.refuse_readonly("image push")
    found = settings.selection.inventory()
    wanted = read_wanted(settings, found, what, sets, source, sent=True)
    return wiring.run_async(_push(settings, out, wanted), limit=settings.timeout)


async def _push(settings: Settings, out: Console, wanted: ImageRequest) -> int:
    async with wiring.connected(settings, wanted.contacted) as connector:
        engines, lost = await engines_of(connector, wanted)
        found = await find_image(engines, wanted.image)
        source, facts = image_source(engines, found | lost, wanted)
        lost |= {name: error for name, error in found.items() if isinstance(error, HostError)}
        targets = [e for e in engines if e.name in wanted.names - {source.name, *lost}]
        if not await _allowed(settings, out, wanted.image, facts, targets, found):
            out.say("distui: nothing was copied")
            return ExitCode.INTERRUPTED
        out.say(f"distui: {wanted.image} from {source.name} to {counted(len(targets), 'host')}", "dim")
        lines = PushLines(out, settings.output)
        failed = [Pushed(h.name, "failed", words=lost[h.name].message) for h in wanted.hosts if h.name in lost]
        for one in failed:
            lines.show(one)
        results = [*await push_image(wanted.image, source, facts, targets, lines.show), *failed]
    _report(settings, out, wanted.image, source.name, facts, results)
    return ExitCode.OK if all(r.ok for r in results) else ExitCode.RANK_FAILED


async def _allowed(
    settings: Settings, out: Console, image: str, facts: ImageFacts, targets: Sequence[Engine], found: Found
) -> bool:
    """Whether nobody minds that the name is taken from other images. Raises UsageError when nobody can be asked."""
    other = others_named_so(facts, targets, found)
    if not other:
        return True
    return await confirm_async(
        out, settings, f"Another image is called {image} on {fold(other)}. Take the name from it?"
    )


def _report(
    settings: Settings, out: Console, image: str, source: str, facts: ImageFacts, results: Sequence[Pushed]
) -> None:
    if settings.output in ("json", "ndjson"):
        values = [{k: v for k, v in asdict(r).items() if k != "most"} for r in results]
        out.json({"schema": "distui/image-push/v1", "image": image, "id": facts.id, "from": source, "hosts": values})
        return
    failed = sum(not r.ok for r in results)
    if not results:
        out.say(f"distui: {source} has it, and there is nobody else")
    elif failed:
        raise_to = f"{failed} of {counted(len(results), 'host')} did not get {image}"
        out.warn(f"distui: {raise_to}; what they had before is as it was", "red")
