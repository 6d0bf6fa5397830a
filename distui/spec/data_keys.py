"""`data:` of a job file: named mounts, each a path of the hosts or an NFS export."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable

from distui.spec import leaves
from distui.spec.job import DataMount, destination
from distui.spec.nodes import Items, Scalar, Table
from distui.spec.problems import Wrong, shown
from distui.spec.shapes import Key, Leaf, Look, MapOf, Record, join

NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}"
SOURCES = ("path", "nfs")
"""Where a mount may come from; each has exactly one of them."""

_NFS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9][A-Za-z0-9_.-]*):(/.*)")
_OPTION = re.compile(r"[A-Za-z0-9_]+(=[^\s,\"]+)?")


def nfs_parts(source: str) -> tuple[str, str]:
    """`server:/export` -> ("server", "/export"); IPv6 loses its brackets; ("", "") for anything else."""
    found = _NFS.fullmatch(source)
    return (found[1].strip("[]"), found[2]) if found else ("", "")


def mount_name(word: Scalar) -> str:
    """The name of a mount. Raises Wrong."""
    if not re.fullmatch(NAME, word.text):
        raise Wrong(f"{shown(word.text)} can't name a mount: letters, digits, '_', '.' and '-', at most 63")
    return word.text


def _host_path(value: str) -> None:
    if not value.startswith(("/", "~/")):
        raise Wrong(f"{shown(value)} must be an absolute path on the hosts, or begin with ~/ (the login's home)")
    _plain(value)


def _target(value: str) -> None:
    if not value.startswith("/") or posixpath.normpath(value) == "/":
        raise Wrong(f"{shown(value)} must be an absolute path inside the container, such as /data")
    _plain(value)


def _plain(value: str) -> None:
    if ".." in value.split("/"):
        raise Wrong(f"{shown(value)}: write the path without '..'")


def _nfs(value: str) -> None:
    server, export = nfs_parts(value)
    if not server:
        raise Wrong(f"{shown(value)}: expected server:/export")
    _plain(export)


def _options(value: str) -> None:
    for option in value.split(","):
        if not _OPTION.fullmatch(option):
            raise Wrong(f"{shown(option)} is not a mount option; write them as nfsvers=4,soft")
        if option.partition("=")[0] == "addr":
            raise Wrong("addr follows from `nfs`; leave it out here")


def _path(expected: str, check: Callable[[str], None]) -> Leaf:
    return leaves.text(expected, check=check)


_MOUNT = Record(
    (
        Key("path", _path("a path on the hosts", _host_path), "A folder or file that every host has."),
        Key("nfs", _path("server:/export", _nfs), "An NFS export, mounted by each host's Docker: no root needed."),
        Key("options", _path("mount options such as nfsvers=4,soft", _options), "NFS mount options."),
        Key("to", _path("an absolute path inside the container", _target), "Where the ranks see it.", required=True),
        Key("mode", leaves.choice("ro", "rw"), "Whether ranks may write.", default="ro"),
        Key(
            "shared",
            leaves.flag(),
            "With path: it must be one storage on all hosts, which is proved before the start.",
            default=False,
        ),
    ),
    "a mapping such as {path: /mnt/data, to: /data}",
    build=DataMount,
    check=lambda look: _check(look),
    hints={
        "target": "unknown key, did you mean 'to'?",
        "source": "unknown key, did you mean 'path'?",
        "readonly": "unknown key; write `mode: ro`",
        "read_only": "unknown key; write `mode: ro`",
    },
)

DATA = MapOf(
    mount_name, _MOUNT, "named mounts such as {train: {path: /mnt/data, to: /data}}", names={"pattern": f"^{NAME}$"}
)


def _check(look: Look) -> None:
    """Exactly one source, and nothing that only means something with another one."""
    given = [key for key in SOURCES if look.table.get(key) is not None]
    if not given:
        look.problems.add(look.table, look.at, f"says not where it comes from: add one of {', '.join(SOURCES)}")
    for extra in given[1:]:
        look.note(extra, f"can't stand beside {given[0]}; choose one")
    for key, source in (("options", "nfs"), ("shared", "path")):
        if given and source not in given and look.has(key):
            look.note(key, f"only means something with {source}")
    if look.has("options") and look.values.get("mode") == "rw" and "ro" in str(look.values["options"]).split(","):
        look.note("mode", "rw contradicts the option ro; drop one of them")


def check_targets(look: Look) -> None:
    """Note mounts at one place in the container: of two mounts, or of one and a volume or the code."""
    table, volumes = look.table.get("data"), look.table.get("volumes")
    taken: dict[str, str] = {}
    for item in volumes.items if isinstance(volumes, Items) else ():
        if isinstance(item, Scalar) and item.text.count(":"):
            taken[posixpath.normpath(item.text.split(":")[1])] = f"volume {shown(item.text)}"
    if (code := look.values.get("code")) is not None:
        taken[destination(code, look.values.get("workdir"))] = "the code"
    for name, (_, mount) in table.pairs.items() if isinstance(table, Table) else ():
        node = mount.get("to") if isinstance(mount, Table) else None
        if not isinstance(node, Scalar):
            continue
        target = posixpath.normpath(node.text)
        if target in taken:
            look.problems.add(node, join(f"data.{name}", "to"), f"{shown(target)} is taken by {taken[target]}")
        taken.setdefault(target, f"data.{name}")
