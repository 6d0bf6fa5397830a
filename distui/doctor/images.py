"""Asks the hosts which images they have, and whether it is the same one everywhere."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence

from distui.errors import HostError
from distui.facts.engine import classify
from distui.facts.host import Trouble
from distui.facts.image import read_image
from distui.plan import docker
from distui.session import Connector
from distui.spec.inventory import Host

ImageId = str | Trouble
"""What an image is on a host: its id (`sha256:...`), for one that distui built `build:` and the hash of what from, ""
where it is not there, or why that is unknown."""

Images = Mapping[str, Mapping[str, ImageId]]
"""Image -> host -> its id there. Hosts without an engine are left out."""


def short_id(image_id: str) -> str:
    """Twelve digits, as `docker images` prints them."""
    return image_id.removeprefix("sha256:")[:12]


def usual_id(found: Mapping[str, ImageId]) -> str:
    """The id that most hosts have, the first of them when there are several; "" when none has the image."""
    ids = Counter(i for i in found.values() if isinstance(i, str) and i)
    return ids.most_common(1)[0][0] if ids else ""


async def images_present(connector: Connector, hosts: Sequence[Host], images: Sequence[str]) -> Images:
    """Ask all hosts at once for the ids of these images."""
    asked = [host for host in hosts if host.engine != "process"]
    answers = await asyncio.gather(*(_one(connector, host, images) for host in asked))
    return {image: {host.name: answer[image] for host, answer in zip(asked, answers, strict=True)} for image in images}


async def _one(connector: Connector, host: Host, images: Sequence[str]) -> dict[str, ImageId]:
    try:
        session = await connector.connect(host.name)
    except HostError as error:
        return dict.fromkeys(images, Trouble(error.code, error.message, error.hint))
    try:
        found: dict[str, ImageId] = {}
        for image in images:
            done = await session.run(docker.image_id(host.engine_command, image))
            trouble = classify(done.error_text, done.status)
            missing: ImageId = "" if trouble.code == "image_missing" else trouble
            found[image] = read_image(done.text).identity if done.ok else missing
        return found
    except HostError as error:
        return dict.fromkeys(images, Trouble(error.code, error.message, error.hint))
    finally:
        await session.close()
