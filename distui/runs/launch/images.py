"""The run's image on every host before anything starts: pulled, or built from the job's own Dockerfile."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import IO

from distui.amounts import counted, size_words
from distui.doctor.images import not_the_same
from distui.errors import CheckFailed, DistuiError, ExitCode, HostError
from distui.facts.image import ImageFacts, identities
from distui.files import open_private
from distui.plan.model import BuildPlan
from distui.runs.attempt.attempt import Attempt
from distui.runs.attempt.steps import LaunchRefused, each, phase, raise_errors, sentence
from distui.runs.images.build import BuildFailed, BuildProgress
from distui.runs.images.context import BuildSource
from distui.runs.images.push import Engine, push_image
from distui.runs.lines.text import safe
from distui.runs.task.host_run import HostRun
from distui.spec.hosts.names import fold

Found = dict[str, ImageFacts | DistuiError | None]
"""By host its image, None where it is not there."""


@contextlib.asynccontextmanager
async def looking_at_images(attempt: Attempt) -> AsyncIterator[asyncio.Task[Found]]:
    """Which hosts have the image, asked while the block does other things, which need not be waited for."""
    looking = asyncio.create_task(each(_hosts(attempt), _facts), name="images")
    try:
        yield looking
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)


def _hosts(attempt: Attempt) -> list[HostRun]:
    """Those whose engine takes an image."""
    return [h for h in attempt.hosts.values() if h.first.engine != "process" and attempt.plan.image is not None]


async def ensure_images(attempt: Attempt, source: BuildSource | None, looking: asyncio.Task[Found]) -> None:
    """The image is on every host, by the job's pull policy, before anything starts. `looking` finds which have it."""
    hosts = _hosts(attempt)
    if not hosts:
        return
    await phase(attempt, "image", attempt.plan.image or "")
    found = await looking
    raise_errors(found, ExitCode.CHECK_FAILED)
    if attempt.plan.build is not None:
        await _build(attempt, hosts, found, attempt.plan.build, source)
    else:
        await _fetch(attempt, hosts, found)
    if attempt.plan.max_duration is not None:
        await _check_entrypoint(attempt, hosts[0])


async def _facts(host: HostRun) -> ImageFacts | None:
    return await host.image.facts()


async def _fetch(attempt: Attempt, hosts: Sequence[HostRun], present: Found) -> None:
    """Pull it where the policy says so, and say where it is another one."""
    missing = [h for h in hosts if present[h.host] is None]
    if missing and attempt.plan.pull == "never":
        names = fold(h.host for h in missing)
        reason = f"image {attempt.plan.image} is not on {names}, and the job says `pull: never`"
        raise LaunchRefused([reason], ExitCode.CHECK_FAILED)
    pulled = hosts if attempt.plan.pull == "always" else missing
    await _pull(attempt, pulled)
    ids = await each(pulled, _facts)
    raise_errors(ids, ExitCode.CHECK_FAILED)
    await _compare_ids(attempt, present | ids)
    await _compare_processors(attempt, present | ids)


async def _pull(attempt: Attempt, hosts: Sequence[HostRun]) -> None:
    if not hosts:
        return
    await phase(attempt, "image", f"pulling {attempt.plan.image} on {fold(h.host for h in hosts)}")
    raise_errors(await each(hosts, lambda host: host.image.pull()), ExitCode.CHECK_FAILED)


async def _build(
    attempt: Attempt, hosts: Sequence[HostRun], found: Found, build: BuildPlan, source: BuildSource | None
) -> None:
    """Every host has an image of the plan's content: built on those that lack it, or given by one that has it."""
    having = [h for h in hosts if isinstance(there := found[h.host], ImageFacts) and there.identity == build.identity]
    lacking = [h for h in hosts if h not in having]
    if not lacking:
        await phase(attempt, "image", f"{attempt.plan.image} is built on all hosts already")
        return
    await _warn_of_a_taken_name(attempt, {h.host: found[h.host] for h in lacking})
    builders = lacking if build.where == "hosts" else [] if having else lacking[:1]
    await _build_on(attempt, builders, source)
    if build.where == "first" and (rest := [h for h in lacking if h not in builders]):
        await _ensure_image(attempt, having[0] if having else builders[0], rest)
    found = await each(lacking, _facts)
    raise_errors(found, ExitCode.CHECK_FAILED)
    wrong = [n for n, f in found.items() if not (isinstance(f, ImageFacts) and f.identity == build.identity)]
    if wrong:
        text = f"the image was built, but is not among the engine's images on {fold(wrong)}"
        hint = "a builder of its own keeps it: `docker buildx use default`"
        raise LaunchRefused([f"{text} ({hint})"], ExitCode.CHECK_FAILED)


async def _warn_of_a_taken_name(attempt: Attempt, found: Found) -> None:
    """Say that the build takes its name from an image that distui did not build, as `--image` of a job with `build`
    may: others on the host may use it.
    """
    by_id: dict[str, list[str]] = {}
    for host, there in found.items():
        if isinstance(there, ImageFacts) and not there.build:
            by_id.setdefault(safe(there.id)[:19], []).append(host)
    for number, hosts in by_id.items():
        name, engine = attempt.plan.image, " ".join(attempt.hosts[hosts[0]].first.engine_command)
        text = f"{name} on {fold(hosts)} is an image that was not built by distui: the build takes its name"
        await attempt.notice("warning", f"{text}; `{engine} tag {number.partition(':')[2]} {name}` there gives it back")


async def _build_on(attempt: Attempt, hosts: Sequence[HostRun], source: BuildSource | None) -> None:
    """Build on these hosts at once, each with a log of its own in the run's folder."""
    if not hosts:
        return
    build = attempt.plan.build
    if source is None or build is None or source.plan.content != build.content:
        message = "the build's context is not what it was when the plan was made: plan again"
        raise LaunchRefused([message], ExitCode.CHECK_FAILED)
    what = f"{size_words(build.bytes)} in {counted(build.files, 'file')}"
    await phase(attempt, "image", f"building {attempt.plan.image} on {fold(h.host for h in hosts)}, from {what}")
    try:
        with await _archive(source) as context:
            results = await each(hosts, lambda host: _build_one(attempt, host, context))
    except CheckFailed as exc:
        raise LaunchRefused([sentence(exc)], ExitCode.CHECK_FAILED) from exc
    shown: set[str] = set()
    for error in (r for r in results.values() if isinstance(r, BuildFailed)):
        if error.step not in shown:  # equal builds fail alike: once is enough to read
            await _tell_last(attempt, error)
        shown.add(error.step)
    raise_errors(results, ExitCode.CHECK_FAILED)


async def _archive(source: BuildSource) -> IO[bytes]:
    """The context, packed in a thread that ends with whoever waits for it. Raises CheckFailed."""
    given_up = threading.Event()
    try:
        return await asyncio.to_thread(source.archive, given_up)
    except asyncio.CancelledError:
        given_up.set()
        raise


async def _tell_last(attempt: Attempt, error: BuildFailed) -> None:
    for line in error.lines:
        await attempt.notice("info", f"{error.host} | {line}", error.host)


async def _build_one(attempt: Attempt, host: HostRun, context: IO[bytes]) -> None:
    """Build on one host; the log of a build that failed outlives the run's folder."""

    async def on_step(step: str) -> None:
        await phase(attempt, "image", f"{host.host} builds, {step}")

    path = attempt.run.stored.build_log(host.host)
    try:
        with open_private(path, "wb") as log:
            await host.image.build(context, BuildProgress(log, on_step, attempt.run.mask))
    except OSError as exc:
        raise CheckFailed(f"{host.host}: can't keep what the build says in {path}: {exc.strerror}") from exc
    except BuildFailed as exc:
        exc.hint = f"all it said: {attempt.run.stored.keep_build_log(host.host)}"
        raise


async def _ensure_image(attempt: Attempt, source: HostRun, hosts: Sequence[HostRun]) -> None:
    """Copy the image from one host to others, so that it has one id on all of them."""
    assert attempt.plan.image is not None
    await phase(attempt, "image", f"copying {attempt.plan.image} from {source.host} to {fold(h.host for h in hosts)}")
    facts = await source.image.facts()
    engines = await each(hosts, lambda host: host.image.engine())
    raise_errors(engines, ExitCode.CHECK_FAILED)
    if facts is None:
        raise LaunchRefused([f"{source.host}: {attempt.plan.image} is gone again"], ExitCode.CHECK_FAILED)
    targets = [e for e in engines.values() if isinstance(e, Engine)]
    try:
        results = await push_image(attempt.plan.image, await source.image.engine(), facts, targets, lambda pushed: None)
    except HostError as exc:
        raise LaunchRefused([sentence(exc)], ExitCode.CHECK_FAILED) from exc
    failed = [f"{p.host}: the image could not be copied from {source.host}: {p.words}" for p in results if not p.ok]
    if failed:
        raise LaunchRefused(failed, ExitCode.CHECK_FAILED)


async def _compare_ids(attempt: Attempt, found: Mapping[str, object]) -> None:
    if differ := not_the_same(identities(found)):
        await attempt.notice("warning", differ)


async def _compare_processors(attempt: Attempt, found: Mapping[str, object]) -> None:
    """An image for another processor only starts where somebody has set up an emulation of it, which is slow."""
    for host, image in found.items():
        facts = attempt.facts.get(host)
        if facts is not None and isinstance(image, ImageFacts) and image.is_for_another(facts.arch):
            text = f"image {attempt.plan.image} is made for {safe(image.platform)}, and the host is {facts.arch}"
            await attempt.notice("warning", text, host)


async def _check_entrypoint(attempt: Attempt, host: HostRun) -> None:
    """An image's own entry point gets `timeout` as its command: whether it runs it can't be known before."""
    if "--entrypoint" in host.first.start:
        return
    with contextlib.suppress(HostError):
        if words := await host.image.entrypoint():
            text = f"the image's entry point ({words}) must run `timeout` for max_duration; or set `entrypoint:`"
            await attempt.notice("warning", safe(text))
