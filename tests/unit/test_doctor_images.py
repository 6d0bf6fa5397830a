"""What the hosts' images mean for a plan: where one is missing, where it is another one, and what the start does."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from distui.doctor.images import as_planned, how_it_comes, image_words, images_present
from distui.errors import HostCommandError
from distui.facts.host import Trouble
from distui.facts.image import TELL_SECONDS, ImageFacts
from distui.plan.model import BuildPlan, RunPlan
from distui.session import Completed
from distui.spec.hosts.inventory import Host
from fakehosts.runs import Cluster

A = ImageFacts("sha256:" + "a" * 64, size=21_300_000_000)
B = ImageFacts("sha256:" + "b" * 64, size=20_000_000_000)
BUILT = BuildPlan("./docker", "c" * 32, 3, 100)


def built(content: str, identity: str) -> ImageFacts:
    """An image that distui built."""
    return ImageFacts(identity, build=content)


@pytest.fixture
def plan(tmp_path: Any) -> RunPlan:
    """A run on h1 to h3."""
    return Cluster(tmp_path, 3).plan()


def test_nothing_to_say(plan: RunPlan) -> None:
    """The same image everywhere."""
    assert image_words(plan, {"h1": A, "h2": A, "h3": A}) == ()


def test_missing(plan: RunPlan) -> None:
    """Which hosts, what it costs as far as another host tells, and what may be cheaper."""
    assert image_words(plan, {"h1": A, "h2": None, "h3": None}) == (
        "image missing on h[2-3]: pull ~21 GB; `distui image push` copies it from a host that has it",
    )
    assert image_words(plan, {"h1": None, "h2": None, "h3": None}) == ("image missing on h[1-3]: pull",)
    never = dataclasses.replace(plan, pull="never")
    assert image_words(never, {"h1": None}) == ("image missing on h1: the job says `pull: never`",)


def test_another_one_and_nobody_knows(plan: RunPlan) -> None:
    """Both ids are told, and why a host does not say."""
    away = Trouble("daemon_down", "the Docker daemon does not answer")
    words = image_words(plan, {"h1": B, "h2": A, "h3": A, "h4": away, "h5": away})
    assert words == (
        "the image is not the same everywhere: "
        f"{'a' * 12} on h[2-3], {'b' * 12} on h1; `distui image push` makes it so",
        "image unknown: h[4-5]: the Docker daemon does not answer",
    )


def test_the_same_one_in_another_store(plan: RunPlan) -> None:
    """Its id there is another one, which is nothing to say."""
    one, other = (dataclasses.replace(image, content="f00") for image in (A, B))
    assert image_words(plan, {"h1": one, "h2": other, "h3": one}) == ()


def test_builds_are_equal_by_content(plan: RunPlan) -> None:
    """Two ids of one content are no difference; an older content under the name is built again."""
    planned = dataclasses.replace(plan, build=BUILT)
    same = {"h1": built("c" * 32, "sha256:1"), "h2": built("c" * 32, "sha256:2"), "h3": built("c" * 32, "sha256:3")}
    assert image_words(planned, same) == ()
    old = same | {"h2": built("d" * 32, "sha256:2"), "h3": A}
    assert image_words(planned, old) == ("image missing on h[2-3]: built there first",)
    ids = {host: image.identity for host, image in old.items()}
    assert as_planned(planned, ids) == {"h1": f"build:{'c' * 32}", "h2": "", "h3": ""}
    assert as_planned(plan, ids) == ids


def test_how_it_comes(plan: RunPlan) -> None:
    """Pulled, built on each, built on one, or copied from one that has it."""
    first = dataclasses.replace(plan, build=dataclasses.replace(BUILT, where="first"))
    assert how_it_comes(plan) == "pulled there first"
    assert how_it_comes(dataclasses.replace(plan, build=BUILT)) == "built there first"
    assert how_it_comes(first) == "built on one of them first, and copied to the others"
    assert how_it_comes(first, ["h1"]) == "copied there first"


async def test_an_engine_that_hangs_is_waited_for_as_for_a_list() -> None:
    """Doctor, plan and the launch form are done a quarter of a minute later at most, and the host is named."""
    limits: list[float] = []

    class Hanging:
        async def run(self, argv: Sequence[str], *, timeout: float = 60.0) -> Completed:
            limits.append(timeout)
            raise HostCommandError("h1", f"h1: docker did not finish within {timeout:g} s", code="command_timeout")

        async def close(self) -> None:
            return

    class Hosts:
        async def connect(self, host: str) -> Any:
            return Hanging()

    found = await images_present(Hosts(), [Host("h1")], ["a:1"])  # type: ignore[arg-type]
    assert limits == [TELL_SECONDS]
    there = found["a:1"]["h1"]
    assert isinstance(there, Trouble) and there.message == "h1: docker did not finish within 15 s"
