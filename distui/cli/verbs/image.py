"""`distui image`: which hosts have an image, and copying it to those that lack it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from distui.amounts import counted
from distui.cli import console as consoles
from distui.cli import wiring
from distui.cli.app import Verbs
from distui.cli.console import Console, confirm_async
from distui.cli.images import PushLines, read_wanted
from distui.cli.options import HOSTS, JOB, add_globals, verb
from distui.cli.settings import settings_of
from distui.cluster.images import Found, ImageRequest, engines_of, find_image, giver, others_named_so
from distui.errors import ExitCode, HostError

if TYPE_CHECKING:
    from distui.cli.settings import Settings
    from distui.facts.image import ImageFacts
    from distui.runs.images.push import Engine, Pushed


@click.group("image", cls=Verbs)
def _group() -> None:
    """Show which hosts have an image, and copy it to the others without a registry."""


command = add_globals(_group)


@verb("ls", outputs=("json", "ndjson"))
@click.argument("what", metavar="JOB|IMAGE", type=JOB)
@click.argument("sets", metavar="[SET]...", type=HOSTS, nargs=-1)
@click.pass_context
def ls(ctx: click.Context, what: str, sets: tuple[str, ...]) -> int:
    """Show on which hosts an image is, and whether it is the same one everywhere.

    Exit 3 when it is missing or another one somewhere.
    """
    settings = settings_of(ctx)
    out = consoles.of(settings)
    found = settings.selection.inventory()
    wanted = read_wanted(settings, found, what, sets)
    return wiring.run_async(_ls(settings, out, wanted), limit=settings.timeout)


async def _ls(settings: Settings, out: Console, wanted: ImageRequest) -> int:
    from distui.facts.image import ImageFacts

    async with wiring.connected(settings, wanted.hosts) as connector:
        engines, lost = await engines_of(connector, wanted)
        found = lost | await find_image(engines, wanted.image)
    found = {host.name: found[host.name] for host in wanted.hosts}
    same = len({f.identity for f in found.values() if isinstance(f, ImageFacts)}) <= 1
    if settings.output in ("json", "ndjson"):
        values = [{"host": host, **_value(f)} for host, f in found.items()]
        out.json({"schema": "distui/images/v1", "image": wanted.image, "same": same, "hosts": values})
    else:
        rows = [(host, *_cells(f)) for host, f in found.items()]
        out.print("\n".join(consoles.table(("HOST", "IMAGE", "ID", "SIZE"), rows, width=out.width)))
    everywhere = all(isinstance(f, ImageFacts) for f in found.values())
    return ExitCode.OK if same and everywhere else ExitCode.CHECK_FAILED


def _value(found: ImageFacts | HostError | None) -> dict[str, Any]:
    if isinstance(found, HostError):
        return {"state": "unknown", "error": {"code": found.code, "message": found.message, "hint": found.hint}}
    if found is None:
        return {"state": "missing"}
    return {"state": "present", "id": found.id, "bytes": found.size, "layers": len(found.layers), "build": found.build}


def _cells(found: ImageFacts | HostError | None) -> tuple[str, str, str]:
    from distui.amounts import size_words
    from distui.doctor.images import short_id
    from distui.runs.lines.text import safe

    if isinstance(found, HostError):
        return ("unknown: " + safe(found.message), "", "")
    if found is None:
        return ("missing", "", "")
    return ("present", short_id(found.id), size_words(found.size))


@verb("push", outputs=("json", "ndjson"))
@click.argument("what", metavar="JOB|IMAGE", type=JOB)
@click.option("--from", "source", metavar="HOST|local", type=HOSTS, help="Where it is taken from [who has it].")
@click.option("--to", "sets", metavar="SET", type=HOSTS, multiple=True, help="The hosts that get it. Repeats.")
@click.pass_context
def push(ctx: click.Context, what: str, source: str | None, sets: tuple[str, ...]) -> int:
    """Copy an image to hosts without a registry, from one of them or from this machine's own engine (`local`).

    Its bytes go through this machine, once from the source and to all others at once; hosts that have it are left
    alone, and where the engine allows it only layers that a host lacks are sent. Asks before it takes a name from
    another image. Exit 1 when a host did not get it.
    """
    settings = settings_of(ctx)
    settings.refuse_readonly("image push")
    out = consoles.of(settings)
    found = settings.selection.inventory()
    wanted = read_wanted(settings, found, what, sets, source, sent=True)
    return wiring.run_async(_push(settings, out, wanted), limit=settings.timeout)


async def _push(settings: Settings, out: Console, wanted: ImageRequest) -> int:
    from distui.runs.images.push import Pushed, push_image

    async with wiring.connected(settings, wanted.contacted) as connector:
        engines, lost = await engines_of(connector, wanted)
        found = await find_image(engines, wanted.image)
        source, facts = giver(engines, found | lost, wanted)
        targets = [e for e in engines if e.name != source.name and e.name in wanted.names]
        if not await _allowed(settings, out, wanted.image, facts, targets, found):
            out.say("distui: nothing was copied")
            return ExitCode.INTERRUPTED
        out.say(f"distui: {wanted.image} from {source.name} to {counted(len(targets), 'host')}", "dim")
        lines = PushLines(out, settings.output)
        results = list(await push_image(wanted.image, source, facts, targets, lines.show))
    results += [Pushed(h, "failed", words=e.message) for h, e in lost.items() if h in wanted.names and h != source.name]
    _report(settings, out, wanted.image, source.name, facts, results)
    return ExitCode.OK if all(r.ok for r in results) else ExitCode.RANK_FAILED


async def _allowed(
    settings: Settings, out: Console, image: str, facts: ImageFacts, targets: Sequence[Engine], found: Found
) -> bool:
    """Whether nobody minds that the name is taken from other images. Raises UsageError when nobody can be asked."""
    from distui.spec.names import fold

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


for _sub in (ls, push):
    _group.add_command(_sub)
