"""`build` in a job file: both its forms, and what is wrong with others, each at its place."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from distui.errors import SpecError
from distui.facts.image import ImageFacts
from distui.plan.content.build import built_name
from distui.plan.model import BuildPlan, NoPlan, RunPlan
from distui.plan.plan import plan
from distui.plan.serialize import from_json, to_json
from distui.plan.text.render import render_text
from distui.spec.hosts.inventory import Host, HostPick, Inventory
from distui.spec.job.job import Build, Job
from distui.spec.job.read_job import read_job
from fakehosts.runs import facts_of

HEAD = "version: 1\nname: j\ncommand: [x]\n"


def read(text: str) -> Build | None:
    return read_job(HEAD + text, "j", environ={}).build


def problems(text: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        read(text)
    return [f"{p.line - 3}:{p.column} {p.key}: {p.message}" for p in caught.value.problems]


def test_forms() -> None:
    """A folder alone, or a mapping; numbers are arguments as they are written."""
    assert read("image: a\n") is None
    assert read("build: ./docker\n") == Build("./docker")
    assert read("build: {}\n") == Build(".")
    text = "build: {context: ../x, dockerfile: d/Dockerfile, args: {A: 3.10, B: x y}, target: last, where: first}\n"
    assert read(text) == Build("../x", "d/Dockerfile", {"A": "3.10", "B": "x y"}, "last", "first")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("build: https://x/y.git", "1:8 build: 'https://x/y.git' is a URL; a context is a folder of this machine"),
        ("build: {path: .}", "1:9 build.path: unknown key, did you mean 'context'?"),
        ("build: {dockerfile: ../D}", "1:21 build.dockerfile: '../D' must be a file within the context, such as"),
        ("build: {dockerfile: -x}", "1:21 build.dockerfile: '-x' must be a file within the context, such as"),
        ("build: {args: {a-b: 1}}", "1:16 build.args.a-b: 'a-b' is not the name of a build argument"),
        ("build: {target: -x}", "1:17 build.target: expected a stage"),
        ("build: {where: all}", "1:16 build.where: expected hosts or first"),
        ("build: .\nimage: a@sha256:00", "2:8 image: what is built gets a name with a tag, not a digest"),
        ("build: .\npull: never", "2:7 pull: never can't stand beside build"),
        ("build: {args: {TOKEN: x}}\nsecrets: [TOKEN]", "1:8 build: args: TOKEN is a secret; build arguments stay"),
    ],
)
def test_what_is_wrong(text: str, said: str) -> None:
    """Where, what, and what to write."""
    (found,) = problems(text)
    assert found.startswith(said)


def test_an_image_alone_needs_no_command() -> None:
    """Its own command runs, as with `image`."""
    assert read_job("version: 1\nname: j\nbuild: .\n", "j", environ={}).build == Build(".")


def test_a_built_image_has_the_builds_identity() -> None:
    """What the plan compares hosts by."""
    assert ImageFacts("sha256:1", build="c" * 32).identity == BuildPlan(".", "c" * 32, 1, 1).identity


BUILD = BuildPlan("./docker", "c" * 32, 2, 1500, args={"A": "x y"})


def planned(build: BuildPlan | None = BUILD, **job: Any) -> RunPlan | NoPlan:
    given = {"command": ("true",), "build": Build("./docker")} | job
    return plan(
        Job("my_job", **given), Inventory((Host("h1"),)), (HostPick("h1"),), {"h1": facts_of("h1")},
        run_id="r1", owner="o", version="0", build=build,
    )  # fmt: skip


def test_the_plan_names_what_is_built() -> None:
    """The image's own name, or one of the content; the engine never looks for it in a registry."""
    made = planned()
    assert isinstance(made, RunPlan)
    assert made.image == made.tasks[0].image == built_name("my_job", "c" * 32) == f"distui-my-job:{'c' * 12}"
    start = made.tasks[0].start
    assert start[start.index("--pull") + 1] == "never"
    named = planned(image="team/x:1")
    assert isinstance(named, RunPlan) and named.image == "team/x:1"


def test_another_content_is_another_plan() -> None:
    """The hash of a plan tells whether it would run the same."""
    first, same, other = planned(), planned(), planned(dataclasses.replace(BUILD, content="d" * 32), image=None)
    assert isinstance(first, RunPlan) and isinstance(same, RunPlan) and isinstance(other, RunPlan)
    assert first.hash == same.hash != other.hash


def test_a_build_that_was_not_read() -> None:
    """A plan without its content is none."""
    made = planned(None)
    assert isinstance(made, NoPlan)
    assert "build" in made.problems[0].message


def test_the_plan_as_text_and_json() -> None:
    """The command that builds is printed as it is run; JSON brings it all back."""
    made = planned()
    assert isinstance(made, RunPlan)
    text = render_text(made, width=200)
    assert "from ./docker (2 files, 1.5 kB), Dockerfile, content cccccccccccc" in text
    assert (
        f"docker build --force-rm --tag distui-my-job:{'c' * 12} --label distui.build={'c' * 32} --file Dockerfile "
        "--build-arg 'A=x y' -" in text
    )
    assert "(built where it is missing)" in text
    assert from_json(json.loads(json.dumps(to_json(made)))) == made
