"""Asks the hosts which images they have."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from distui.errors import HostError
from distui.facts.engine import classify
from distui.facts.host import Trouble
from distui.plan import docker
from distui.session import Connector
from distui.spec.inventory import Host


async def images_present(
    connector: Connector, hosts: Sequence[Host], images: Sequence[str]
) -> Mapping[str, Mapping[str, bool | Trouble]]:
    """Image -> host -> whether it is there, or why that is unknown. Hosts without an engine are left out."""
    asked = [host for host in hosts if host.engine != "process"]
    answers = await asyncio.gather(*(_one(connector, host, images) for host in asked))
    return {image: {host.name: answer[image] for host, answer in zip(asked, answers, strict=True)} for image in images}


async def _one(connector: Connector, host: Host, images: Sequence[str]) -> dict[str, bool | Trouble]:
    try:
        session = await connector.connect(host.name)
    except HostError as error:
        return dict.fromkeys(images, Trouble(error.code, error.message, error.hint))
    try:
        found: dict[str, bool | Trouble] = {}
        for image in images:
            done = await session.run(docker.image_id(host.engine_command, image))
            trouble = classify(done.error_text, done.status)
            found[image] = done.ok or (False if trouble.code == "image_missing" else trouble)
        return found
    except HostError as error:
        return dict.fromkeys(images, Trouble(error.code, error.message, error.hint))
    finally:
        await session.close()
