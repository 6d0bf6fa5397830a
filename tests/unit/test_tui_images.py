"""The launch form about images: where one is missing, how it comes, and that a build is equal by content."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from distui.doctor.images import ImageId
from distui.facts.host import Trouble
from distui.plan.model import BuildPlan, RunPlan
from distui.tui.launch import plan_lines
from distui.tui.launch.drafting import image_state
from distui.tui.launch.plan_lines import Preview, status
from distui.tui.paint import theme
from distui.tui.paint.glyphs import UNICODE
from fakehosts.runs import Cluster

LOOK = theme.palette(theme.DARK, {**theme.DARK.to_color_system().generate(), **theme.DARK.variables})
CONTENT = "c" * 32
BUILT = f"build:{CONTENT}"


@pytest.mark.parametrize(("backend", "path"), [("nccl", "mlx5_0 ib"), ("gloo", "eth0 tcp")])
def test_the_data_path_is_the_one_that_the_backend_takes(backend: str, path: str, tmp_path: Path) -> None:
    """gloo talks TCP over the interface, whatever RDMA ports a host has."""
    made = Cluster(tmp_path, 2).plan()
    networks = tuple(dataclasses.replace(one, hcas=("mlx5_0:1",), fabric="ib") for one in made.networks)
    made = dataclasses.replace(made, networks=networks, backend=backend)
    rows = [row.line.plain for row in plan_lines.plan_rows(Preview(plan=made), 160, LOOK, UNICODE)]
    (head,) = (row for row in rows if "DATA PATH" in row)
    at = head.index("DATA PATH")
    assert [row[at : at + len(path)] for row in rows[rows.index(head) + 1 :][:2]] == [path, path]


@pytest.fixture
def plan(tmp_path: Path) -> RunPlan:
    """A run on h1 to h3 whose image is built."""
    return dataclasses.replace(Cluster(tmp_path, 3).plan(), build=BuildPlan("./docker", CONTENT, 3, 1500))


def shown(plan: RunPlan, **found: ImageId) -> tuple[str, str]:
    """The plan's rows and the status line, hosts having these images."""
    preview = Preview(plan=plan, image=image_state(plan, found))
    rows = plan_lines.plan_rows(preview, 160, LOOK, UNICODE)
    return "\n".join(row.line.plain for row in rows), status(preview, LOOK).plain


def test_a_build(plan: RunPlan) -> None:
    """What it is built from; who has another content under the name has it built."""
    text, said = shown(plan, h1=BUILT, h2="build:old", h3="")
    assert "built from ./docker (3 files, 1.5 kB), Dockerfile, content cccccccccccc" in text
    assert "missing on h[2-3]: built there first" in text
    assert "present on h1" in text
    assert "not the same everywhere" not in text
    assert "2 to build" in said


def test_built_once(plan: RunPlan) -> None:
    """One builds for all, or who has it gives it."""
    assert plan.build is not None
    first = dataclasses.replace(plan, build=dataclasses.replace(plan.build, where="first"))
    assert "missing on h[1-3]: built on one of them first" in shown(first, h1="", h2="", h3="")[0]
    assert "missing on h[2-3]: copied there first" in shown(first, h1=BUILT, h2="", h3="")[0]


def test_where_nobody_knows(plan: RunPlan) -> None:
    """Hosts that have one reason are named together."""
    away = Trouble("daemon_down", "the Docker daemon does not answer")
    text, _ = shown(dataclasses.replace(plan, build=None), h1="sha256:1", h2=away, h3=away)
    assert "unknown: h[2-3]: the Docker daemon does not answer" in text


def test_never_pulled(plan: RunPlan) -> None:
    """Where nothing may be pulled, and a host has it, it can be copied."""
    never = dataclasses.replace(plan, build=None, pull="never")
    text, said = shown(never, h1="sha256:1", h2="", h3="sha256:1")
    assert "missing on h2, and the job says `pull: never`; `distui image push` copies it there" in text
    assert "1 without the image" in said
    assert "image push" not in shown(never, h1="", h2="", h3="")[0]
