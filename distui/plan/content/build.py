"""The job's `build:` in the plan: what the image is called, what it is built from, and the command that builds it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Literal

from distui.amounts import counted, size_words
from distui.facts.image import BUILD_LABEL
from distui.plan.model import BuildPlan
from distui.spec.job.job import Build

Argv = tuple[str, ...]


def content_hash(tree: str, build: Build) -> str:
    """Equal for builds that would give the same image: files, Dockerfile, arguments, stage."""
    value = [tree, build.dockerfile, sorted(build.args.items()), build.target]
    return hashlib.sha256(json.dumps(value).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def built_name(job: str, content: str) -> str:
    """A name for an image without one: another content is another image, so that runs of both can live."""
    return f"distui-{re.sub('[^a-z0-9]+', '-', job.lower()).strip('-') or 'job'}:{content[:12]}"


def build_argv(
    engine_command: Argv, image: str, build: BuildPlan, pull: Literal["always", "missing", "never"] = "missing"
) -> Argv:
    """Builds the image from a context that comes on stdin as a tar archive.

    `--force-rm`: without it the builder of Docker leaves the container of a step that failed.
    """
    flags = ["--force-rm", *(["--pull"] if pull == "always" else [])]
    flags += ["--tag", image, "--label", f"{BUILD_LABEL}={build.content}", "--file", build.dockerfile]
    flags += [word for name, value in build.args.items() for word in ("--build-arg", f"{name}={value}")]
    flags += ["--target", build.target] if build.target is not None else []
    return (*engine_command, "build", *flags, "-")


def build_lines(build: BuildPlan) -> Iterator[str]:
    """What the plan says of it, a line each."""
    what = f"{counted(build.files, 'file')}, {size_words(build.bytes)}"
    yield f"from {build.context} ({what}), {build.dockerfile}, content {build.content[:12]}"
    yield (
        "on each host that lacks it; equal content counts as the same image"
        if build.where == "hosts"
        else "on one host, which gives it to the others"
    )
