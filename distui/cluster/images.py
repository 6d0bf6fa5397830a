"""An image, the hosts that should have it, which of them do, and who gives it to the others."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence

from distui.cluster.hosts.selection import Selection, host_named
from distui.errors import CheckFailed, HostError, UsageError
from distui.facts.image import ImageFacts, identities
from distui.frozen import frozen
from distui.runs.images.local_engine import LOCAL, LocalSession
from distui.runs.images.push import Engine
from distui.session import Connector
from distui.spec.choose import choose_hosts, hosts_of_job
from distui.spec.hosts.inventory import Host, Inventory
from distui.spec.job.job import Job
from distui.spec.job.job_forms import image as check
from distui.spec.yaml.problems import Wrong

Found = Mapping[str, "ImageFacts | HostError | None"]
"""An image by host."""


@frozen
class ImageRequest:
    """An image, the hosts it is about, and who gives it (None: who has it)."""

    image: str
    hosts: tuple[Host, ...]
    source: str | None = None
    sources: tuple[Host, ...] = ()
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
        return (*self.hosts, *(host for host in self.sources if host.name not in self.names))


def image_request(
    selection: Selection,
    inventory: Inventory,
    image: str,
    job: Job | None,
    sets: Sequence[str] = (),
    source: str | None = None,
    *,
    sent: bool = False,
) -> ImageRequest:
    """The image of a job on its hosts, or one on those chosen. `sent`: it will be copied. Raises UsageError."""
    if sent and "@" in image:
        raise UsageError(
            f"{image} is named by its digest, which only a registry gives", hint="give the image a tag, and push that"
        )
    own = job.hosts if job is not None and not (selection.hosts or selection.labels or selection.hostfile) else None
    around = hosts_of_job(inventory, own) if own is not None else selection.picks(inventory)
    targets = choose_hosts(inventory, sets) if sets else around
    hosts = _with_engine(inventory.chosen(targets))
    if not hosts:
        raise UsageError("none of these hosts has a container engine")
    sources: tuple[Host, ...] = ()
    if sent and source is None:
        sources = _with_engine(inventory.chosen(around))
    elif source not in (None, LOCAL):
        sources = (host_named(inventory, str(source)),)
    return ImageRequest(image, hosts, source, sources, _local_engine(source))


def _with_engine(hosts: Sequence[Host]) -> tuple[Host, ...]:
    return tuple(h for h in hosts if h.engine != "process")


def image_name(image: str) -> str:
    """The same when it can be an image's name. Raises UsageError."""
    try:
        check(image)
    except Wrong as exc:
        raise UsageError(f"{exc}, nor is there a job file of this name") from exc
    return image


def _local_engine(source: str | None) -> tuple[str, ...]:
    """docker here, else podman. Raises UsageError when it is asked for and there is none."""
    found = next((name for name in ("docker", "podman") if shutil.which(name)), None)
    if found is None and source == LOCAL:
        raise UsageError("--from local: this machine has neither docker nor podman")
    return (found,) if found else ()


async def engines_of(connector: Connector, wanted: ImageRequest) -> tuple[list[Engine], dict[str, HostError]]:
    """The engines that can be asked, and why the others can't."""

    async def one(name: str, argv: tuple[str, ...]) -> Engine | HostError:
        try:
            return Engine(name, argv, await connector.connect(name))
        except HostError as error:
            return error

    hosts = wanted.contacted
    made = await asyncio.gather(*(one(h.name, h.engine_command) for h in hosts))
    engines = [e for e in made if not isinstance(e, HostError)]
    if wanted.source in (None, LOCAL) and wanted.local:
        engines.append(Engine(LOCAL, wanted.local, LocalSession()))
    return engines, {h.name: e for h, e in zip(hosts, made, strict=True) if isinstance(e, HostError)}


async def find_image(engines: Sequence[Engine], image: str) -> dict[str, ImageFacts | HostError | None]:
    """The image on each of them: None where it is not, the error where that can't be known."""

    async def one(engine: Engine) -> ImageFacts | HostError | None:
        try:
            return await engine.find(image)
        except HostError as error:
            return error

    return dict(zip((e.name for e in engines), await asyncio.gather(*map(one, engines)), strict=True))


def image_source(engines: Sequence[Engine], found: Found, wanted: ImageRequest) -> tuple[Engine, ImageFacts]:
    """Who gives the image: the one named, or the first that has what most hosts have, this machine last.

    Raises HostError, or CheckFailed when nobody has it.
    """
    if wanted.source is not None:
        there = found.get(wanted.source)
        if isinstance(there, HostError):
            raise there
        if there is None:
            raise CheckFailed(f"{wanted.image} is not on {wanted.source}", hint=f"distui image ls {wanted.image}")
    having = {e.name: f for e in engines if isinstance(f := found.get(e.name), ImageFacts)}
    if not having:
        if errors := [f for name, f in found.items() if isinstance(f, HostError) and name != LOCAL]:
            raise errors[0]
        raise CheckFailed(
            f"{wanted.image} is on none of {', '.join(e.name for e in engines)}", hint="pull or build it on one of them"
        )
    ids = identities(having)
    usual = Counter(ids.values()).most_common(1)[0][0]
    name = wanted.source or next(name for name, one in ids.items() if one == usual)
    return next(e for e in engines if e.name == name), having[name]


def others_named_so(facts: ImageFacts, targets: Sequence[Engine], found: Found) -> tuple[str, ...]:
    """Hosts among `targets` on which another image has the name."""
    return tuple(t.name for t in targets if isinstance(f := found.get(t.name), ImageFacts) and not f.is_same(facts))
