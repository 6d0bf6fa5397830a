"""Asks the hosts which images they have, and whether it is the same one everywhere."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from distui.amounts import size_words
from distui.errors import HostError
from distui.facts.engine import classify
from distui.facts.host import Trouble
from distui.facts.image import TELL_SECONDS, ImageFacts, identities, read_image
from distui.facts.troubles import shared
from distui.plan.command import docker
from distui.plan.model import RunPlan
from distui.session import Connector, session_on
from distui.spec.hosts.inventory import Host
from distui.spec.hosts.names import fold

ImageId = str | Trouble
"""What an image is on a host: its id (`sha256:...`), for one that distui built `build:` and the hash of what from, ""
where it is not there, or why that is unknown."""

ImageAnswer = ImageFacts | Trouble | None
"""An image on a host; None where it is not there."""

Images = Mapping[str, Mapping[str, ImageId]]
"""Image -> host -> its id there. Hosts without an engine are left out."""


def short_id(image_id: str) -> str:
    """Twelve digits, as `docker images` prints them."""
    return image_id.rpartition(":")[2][:12]


def usual_id(found: Mapping[str, ImageId]) -> str:
    """The id that most hosts have, the first of them when there are several; "" when none has the image."""
    ids = Counter(i for i in found.values() if isinstance(i, str) and i)
    return ids.most_common(1)[0][0] if ids else ""


def not_the_same(found: Mapping[str, ImageId]) -> str:
    """Which hosts have which image where it is not one, that of most hosts first; empty where it is."""
    by_id: dict[str, list[str]] = {}
    for host, there in found.items():
        if isinstance(there, str) and there:
            by_id.setdefault(there, []).append(host)
    if len(by_id) < 2:
        return ""
    usual = usual_id(found)
    each = (f"{short_id(one)} on {fold(by_id[one])}" for one in sorted(by_id, key=lambda one: one != usual))
    return f"the image is not the same everywhere: {', '.join(each)}"


async def images_present(connector: Connector, hosts: Sequence[Host], images: Sequence[str]) -> Images:
    """Ask all hosts at once for the ids of these images."""
    found = await image_facts(connector, hosts, images)
    return {image: image_ids(answers) for image, answers in found.items()}


async def image_facts(
    connector: Connector, hosts: Sequence[Host], images: Sequence[str]
) -> Mapping[str, Mapping[str, ImageAnswer]]:
    """Ask all hosts at once what these images are there. Hosts without an engine are left out."""
    asked = [host for host in hosts if host.engine != "process"]
    answers = await asyncio.gather(*(_one(connector, host, images) for host in asked))
    return {image: {host.name: answer[image] for host, answer in zip(asked, answers, strict=True)} for image in images}


def image_ids(found: Mapping[str, ImageAnswer]) -> dict[str, ImageId]:
    """What an image is on each host, with one id wherever it is the same one."""
    named = identities(found)
    return {host: there if isinstance(there, Trouble) else named.get(host, "") for host, there in found.items()}


async def _one(connector: Connector, host: Host, images: Sequence[str]) -> dict[str, ImageAnswer]:
    found: dict[str, ImageAnswer] = {}
    try:
        async with session_on(connector, host.name) as session:
            for image in images:
                done = await session.run(docker.image_id(host.engine_command, image), timeout=TELL_SECONDS)
                trouble = classify(done.error_text, done.status, host.engine)
                missing = None if trouble.code == "image_missing" else trouble
                try:
                    found[image] = read_image(done.text) if done.ok else missing
                except ValueError as error:
                    found[image] = Trouble("rubbish", f"{host.name}: {error}")
    except HostError as error:
        return dict.fromkeys(images, Trouble(error.code, error.message, error.hint))
    return found


# What it means for a plan.


def as_planned(plan: RunPlan, found: Mapping[str, ImageId]) -> Mapping[str, ImageId]:
    """Ids of the plan's image; of one that is built, another content under its name counts as missing."""
    if plan.build is None:
        return found
    return {host: "" if isinstance(i, str) and i != plan.build.identity else i for host, i in found.items()}


def how_it_comes(plan: RunPlan, present: Collection[str] = ()) -> str:
    """What the start does on a host without the image; `present` are those that have it."""
    if plan.build is None:
        return "pulled there first"
    if plan.build.where == "hosts":
        return "built there first"
    return "copied there first" if present else "built on one of them first, and copied to the others"


def image_words(plan: RunPlan, found: Mapping[str, ImageAnswer]) -> tuple[str, ...]:
    """What is worth saying of the plan's image before a start: where it is missing and what that costs, where it is
    another one, where nobody knows. Nothing when it is the same everywhere."""
    ids = as_planned(plan, image_ids(found))
    having = [host for host, i in ids.items() if isinstance(i, str) and i]
    missing = [host for host, i in ids.items() if i == ""]
    words = []
    if missing:
        size = max((f.size for host in having if isinstance(f := found[host], ImageFacts)), default=0)
        words.append(f"image missing on {fold(missing)}: {_cost(plan, size, having)}")
    if differ := not_the_same(ids):
        words.append(f"{differ}; `distui image push` makes it so")
    unknown = shared({host: trouble for host, trouble in found.items() if isinstance(trouble, Trouble)})
    words += [f"image unknown: {trouble.message}" for trouble in unknown]
    return tuple(words)


def _cost(plan: RunPlan, size: int, having: Collection[str]) -> str:
    if plan.build is not None:
        return how_it_comes(plan, having)
    copy = "; `distui image push` copies it from a host that has it" if having else ""
    if plan.pull == "never":
        return f"the job says `pull: never`{copy}"
    return f"pull{f' ~{size_words(size)}' if size else ''}{copy}"
