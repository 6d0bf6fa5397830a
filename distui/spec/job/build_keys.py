"""The forms of `build`: a folder of this machine that an image is built from."""

from __future__ import annotations

import re

from distui.spec.job.code_keys import is_url, size_key
from distui.spec.job.job import Build
from distui.spec.yaml import leaves
from distui.spec.yaml.nodes import Scalar
from distui.spec.yaml.problems import Wrong, shown
from distui.spec.yaml.shapes import ByKind, Key, Leaf, MapOf, Record

ARG_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,254}"
PLACES = ("hosts", "first")


def context(value: str) -> None:
    """Raise Wrong unless `value` can be a folder of this machine."""
    if is_url(value):
        raise Wrong(f"{shown(value)} is a URL; a context is a folder of this machine")


def dockerfile(value: str) -> None:
    """Raise Wrong unless `value` is a file within the context."""
    if value.startswith(("/", "-")) or ".." in value.split("/"):
        raise Wrong(f"{shown(value)} must be a file within the context, such as docker/Dockerfile")


def _arg_name(node: Scalar) -> str:
    if not re.fullmatch(ARG_NAME, node.text):
        raise Wrong(f"{shown(node.text)} is not the name of a build argument")
    return node.text


def _short(node: Scalar) -> Build:
    return Build(context=leaves.text("a folder", check=context).take(node))


BUILD = ByKind(
    leaf=Leaf("a folder such as ./docker", _short, {"type": "string"}),
    table=Record(
        (
            Key(
                "context",
                leaves.text("a folder such as ./docker", check=context),
                "Folder of this machine, relative to the job file's.",
                default=".",
            ),
            Key(
                "dockerfile",
                leaves.text("a file within the context", check=dockerfile),
                "Dockerfile within the context.",
                default="Dockerfile",
            ),
            Key(
                "args",
                MapOf(
                    _arg_name,
                    leaves.text("text", verbatim=True),
                    'arguments such as {VERSION: "2.5"}',
                    names={"pattern": f"^{ARG_NAME}$"},
                ),
                "Build arguments; they stay readable in the image.",
            ),
            Key(
                "target",
                leaves.text("a stage", pattern=r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}"),
                "Stage of the Dockerfile to stop at.",
            ),
            Key(
                "where",
                leaves.choice(*PLACES),
                "hosts: each host that lacks the image builds it; first: one builds it and gives it to the others.",
                default="hosts",
            ),
            Key("max_size", size_key(10 << 30), "Refuse a folder with more than this in all.", default="10g"),
        ),
        'a mapping such as {context: ./docker, args: {VERSION: "2.5"}}',
        build=Build,
        hints={
            "file": "unknown key, did you mean 'dockerfile'?",
            "path": "unknown key, did you mean 'context'?",
            "build_args": "unknown key, did you mean 'args'?",
            "stage": "unknown key, did you mean 'target'?",
        },
    ),
)
