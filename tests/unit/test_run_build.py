"""The image of a launch that is built: on whom, when not at all, and what a failure leaves (nothing)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import pytest

from distui.errors import HostCommandError
from distui.facts.image import ImageFacts
from distui.plan.content.tree import Tree
from distui.plan.model import BuildPlan, RunPlan
from distui.runs.images.build import BuildFailed, BuildProgress
from distui.runs.images.context import BuildSource
from distui.runs.images.push import Engine, Pushed
from distui.runs.launch import images as launch_images
from distui.runs.lines.events import Notice
from distui.runs.task.host_image import HostImage
from fakehosts.runs import Cluster, use_fake_follower

BUILD = BuildPlan("./docker", "c" * 32, 0, 0)
SOURCE = BuildSource(BUILD, Tree(()), Path())


class Builders:
    """Stands for engines that build: `has` are the contents each host has, `fails` the steps at which some fail."""

    def __init__(self) -> None:
        self.has: dict[str, str] = {}
        self.fails: dict[str, str] = {}
        self.built: list[str] = []
        self.copied: list[tuple[str, list[str]]] = []
        self.lose = False
        self.refuse: set[str] = set()

    async def image(self, host: HostImage) -> ImageFacts | None:
        content = self.has.get(host.host)
        return ImageFacts(f"sha256:{host.host}", build=content) if content is not None else None

    async def build(self, host: HostImage, context: IO[bytes], progress: BuildProgress) -> None:
        self.built.append(host.host)
        await progress.take(b"Step 1/2 : FROM x\nStep 2/2 : RUN y\nlast words\n")
        if host.host in self.fails:
            raise BuildFailed(host.host, self.fails[host.host], progress.lines)
        if not self.lose:
            self.has[host.host] = BUILD.content

    async def push(
        self, image: str, source: Engine, facts: ImageFacts, targets: Sequence[Engine], tell: Any
    ) -> tuple[Pushed, ...]:
        self.copied.append((source.name, [t.name for t in targets]))
        for target in targets:
            if target.name not in self.refuse:
                self.has[target.name] = facts.build
        return tuple(
            Pushed(t.name, "failed" if t.name in self.refuse else "loaded", words="the disk is full") for t in targets
        )


@pytest.fixture
def builders(monkeypatch: pytest.MonkeyPatch) -> Builders:
    """In the place of every host's engine."""
    made = Builders()
    monkeypatch.setattr(HostImage, "facts", _method(made.image))
    monkeypatch.setattr(HostImage, "build", _method(made.build))
    monkeypatch.setattr(launch_images, "push_image", made.push)
    return made


def _method(function: Any) -> Any:
    return lambda host, *args: function(host, *args)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Three hosts whose programs end with 0 at once."""
    made = Cluster(tmp_path / "state/runs", 3)
    use_fake_follower(monkeypatch, made.connector)
    for number, host in enumerate(made.hosts):
        host.engine.exits[number] = 0
    return made


def planned(cluster: Cluster, **build: Any) -> RunPlan:
    return dataclasses.replace(cluster.plan(), build=dataclasses.replace(BUILD, **build))


def said(cluster: Cluster) -> str:
    return "\n".join(f"{getattr(e, 'detail', '')}{getattr(e, 'text', '')}" for e in cluster.events)


async def test_built_on_those_that_lack_it(cluster: Cluster, builders: Builders) -> None:
    """Another content under the name is none; nobody is compared by id; each build's words are kept."""
    builders.has = {"h1": BUILD.content, "h2": "another"}
    plan = planned(cluster)
    ended = await cluster.run(plan, build=SOURCE)

    assert ended.outcome == "succeeded"
    assert sorted(builders.built) == ["h2", "h3"]
    assert "not the same" not in said(cluster)
    assert "h3 builds, step 2/2: RUN y" in said(cluster)
    logs = cluster.store.need(plan.run_id).path / "build"
    assert {p.name: b"last words" in p.read_bytes() for p in logs.iterdir()} == {"h2.log": True, "h3.log": True}


async def test_a_name_that_an_image_of_others_has(cluster: Cluster, builders: Builders) -> None:
    """The build takes it, as `docker build -t` does; which image had it is said before."""
    builders.has = {"h1": "", "h2": "another"}
    await cluster.run(planned(cluster), build=SOURCE)
    (words,) = [n.text for n in cluster.of(Notice) if "takes its name" in n.text]
    assert words.startswith("img:1 on h1 is an image that was not built by distui")
    assert "`docker tag h1 img:1` there gives it back" in words


async def test_nothing_to_build(cluster: Cluster, builders: Builders) -> None:
    """All have it: neither context nor builder is needed, so that a run started again does not wait."""
    builders.has = dict.fromkeys(cluster.names, BUILD.content)
    ended = await cluster.run(planned(cluster), build=None)
    assert (ended.outcome, builders.built) == ("succeeded", [])


@pytest.mark.parametrize(
    ("has", "built", "giver", "takers"),
    [({}, ["h1"], "h1", ["h2", "h3"]), ({"h2": BUILD.content}, [], "h2", ["h1", "h3"])],
)
async def test_first_gives_it_to_the_others(
    cluster: Cluster, builders: Builders, has: dict[str, str], built: list[str], giver: str, takers: list[str]
) -> None:
    """Who has it gives it; only where nobody does one builds."""
    builders.has = dict(has)
    ended = await cluster.run(planned(cluster, where="first"), build=SOURCE)
    assert (ended.outcome, builders.built, builders.copied) == ("succeeded", built, [(giver, takers)])


async def test_failures_of_builds(cluster: Cluster, builders: Builders) -> None:
    """Every host and step is named, equal failures are read once, the words are kept; nothing starts."""
    builders.fails = {"h1": "at step 2/2: RUN y", "h3": "at step 2/2: RUN y"}
    plan = planned(cluster)
    ended = await cluster.run(plan, build=SOURCE)

    assert (ended.outcome, ended.exit, cluster.left()) == ("launch_failed", 3, [])
    text = said(cluster)
    assert "the build failed on h1 at step 2/2: RUN y" in text and "the build failed on h3" in text
    assert text.count("| last words") == 1
    kept = cluster.store.need(plan.run_id).path.parents[1] / "builds"
    assert {p.name for p in kept.iterdir()} == {f"{plan.run_id}-h1.log", f"{plan.run_id}-h3.log"}
    assert str(kept / f"{plan.run_id}-h1.log") in text


async def test_a_copy_that_fails(cluster: Cluster, builders: Builders) -> None:
    """The host and the reason; nothing starts."""
    builders.refuse = {"h3"}
    ended = await cluster.run(planned(cluster, where="first"), build=SOURCE)
    assert (ended.outcome, ended.exit, cluster.left()) == ("launch_failed", 3, [])
    assert "h3: the image could not be copied from h1: the disk is full" in said(cluster)


async def test_a_builder_that_keeps_it_to_itself(cluster: Cluster, builders: Builders) -> None:
    """buildx with a builder of its own builds, and docker has no image: said, with what to do."""
    builders.lose = True
    ended = await cluster.run(planned(cluster), build=SOURCE)
    assert ended.outcome == "launch_failed"
    assert "is not among the engine's images on h[1-3] (a builder of its own" in said(cluster)


async def test_a_context_that_is_another_one(cluster: Cluster, builders: Builders) -> None:
    """What is built is what was planned."""
    other = dataclasses.replace(SOURCE, plan=dataclasses.replace(BUILD, content="d" * 32))
    for source in (other, None):
        ended = await cluster.run(planned(cluster), build=source)
        assert (ended.outcome, builders.built) == ("launch_failed", [])
        assert "plan again" in said(cluster)


async def test_a_host_that_can_not_say(cluster: Cluster, builders: Builders, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is built anywhere while one engine does not answer."""

    async def image(host: HostImage) -> ImageFacts | None:
        raise HostCommandError(host.host, "the Docker daemon does not answer", code="daemon_down")

    monkeypatch.setattr(HostImage, "facts", image)
    ended = await cluster.run(planned(cluster), build=SOURCE)
    assert (ended.outcome, builders.built) == ("launch_failed", [])
