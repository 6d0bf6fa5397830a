"""`data:` of a job file: named mounts, each a path of the hosts, an NFS export, or what is fetched from a URL."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

from distui.regex import regex
from distui.spec.job.job import DataMount, destination
from distui.spec.job.job_forms import SECRETS, image
from distui.spec.yaml import leaves
from distui.spec.yaml.nodes import Items, Scalar, Table, node_at
from distui.spec.yaml.problems import Wrong, shown
from distui.spec.yaml.shapes import Key, Look, MapOf, Record, join

NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}"
SOURCES = ("path", "nfs", "url")
"""Where a mount may come from; each has exactly one of them."""

CLIENTS: Mapping[str, tuple[str, ...]] = {
    "https": ("curl",),
    "http": ("curl",),
    "s3": ("aws", "s5cmd", "rclone"),
    "oss": ("ossutil", "rclone"),
}
"""Scheme of a URL -> the programs that can fetch it, the first that a host has is used."""

_URL = regex(r"(https?|s3|oss)://[A-Za-z0-9][A-Za-z0-9_.:-]*(/[^\s\"'`\\^{}<>|]*)?")
_SECRETIVE = regex(r"[?&][^=&]*(sig|signature|token|key|password|secret|credential)[^=&]*=", re.IGNORECASE)
_ENDPOINT = r"https?://[A-Za-z0-9\[][A-Za-z0-9_.:\[\]/-]*"
_NFS = regex(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9][A-Za-z0-9_.-]*):(/.*)")
_OPTION = regex(r"[A-Za-z0-9_]+(=[^\s,\"]+)?")


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


def _url(value: str) -> None:
    if "@" in value.partition("://")[2].partition("/")[0]:
        raise Wrong("a URL is shown and kept: leave user and password out; `secrets` names variables for the client")
    if _SECRETIVE.search(value):
        raise Wrong("a URL is shown and kept, and this one holds a signature or key; use s3:// with `secrets`")
    if not _URL.fullmatch(value) or value.endswith("://"):
        raise Wrong(
            f"{shown(value)}: expected https://, http://, s3:// or oss:// and a file, or a folder with / at its end"
        )
    _plain(value.partition("?")[0])


def _sums(value: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", value):
        raise Wrong(f"{shown(value)} must be the plain name of a file in the folder, such as SHA256SUMS")


def _options(value: str) -> None:
    for option in value.split(","):
        if not _OPTION.fullmatch(option):
            raise Wrong(f"{shown(option)} is not a mount option; write them as nfsvers=4,soft")
        if option.partition("=")[0] == "addr":
            raise Wrong("addr follows from `nfs`; leave it out here")


_MOUNT = Record(
    (
        Key("path", leaves.text("a path on the hosts", check=_host_path), "A folder or file that every host has."),
        Key(
            "nfs",
            leaves.text("server:/export", check=_nfs),
            "An NFS export, mounted by each host's Docker: no root needed.",
        ),
        Key("options", leaves.text("mount options such as nfsvers=4,soft", check=_options), "NFS mount options."),
        Key(
            "url",
            leaves.text("a URL", check=_url),
            "What every host fetches into a cache before the start; / at its end: a folder.",
        ),
        Key(
            "sha256",
            leaves.text("64 hex digits", pattern="[0-9a-fA-F]{64}", verbatim=True),
            "Of the file at url; for a folder of its file of sums.",
        ),
        Key(
            "sums",
            leaves.text("the name of a file", check=_sums),
            "File in the folder at url with the others' sums (sha256sum).",
        ),
        Key(
            "endpoint",
            leaves.text("a URL", pattern=_ENDPOINT),
            "Object store's address, where it is not the usual one.",
        ),
        Key("client", leaves.choice("curl", "aws", "s5cmd", "rclone", "ossutil"), "Program that fetches."),
        Key("client_image", leaves.text("an image", check=image), "Image with that program, for hosts that lack it."),
        Key("secrets", SECRETS, "Names of variables for the client, such as AWS_ACCESS_KEY_ID; ranks don't get them."),
        Key(
            "to",
            leaves.text("an absolute path inside the container", check=_target),
            "Where the ranks see it.",
            required=True,
        ),
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
    given = look.only_one(*SOURCES)
    if not given:
        look.problems.add(look.table, look.at, f"says not where it comes from: add one of {', '.join(SOURCES)}")
    only_url = ((key, "url") for key in ("sha256", "sums", "endpoint", "client", "client_image", "secrets"))
    for key, source in (("options", "nfs"), ("shared", "path"), *only_url):
        if given and source not in given and look.has(key):
            look.note(key, f"only means something with {source}")
    if look.has("options") and look.values.get("mode") == "rw" and "ro" in str(look.values["options"]).split(","):
        look.note("mode", "rw contradicts the option ro; drop one of them")
    if "url" in given and look.values.get("mode") == "rw":
        look.note("mode", "what is fetched is kept for other runs: it can only be read")
    _check_url(look)


def _check_url(look: Look) -> None:
    url = look.values.get("url")
    if url is None:
        return
    scheme, folder = url.partition("://")[0], url.endswith("/")
    if look.has("sums") and not folder:
        look.note("sums", "is for a folder: end the url with /")
    if look.has("sha256") and folder and not look.has("sums"):
        look.note("sha256", "is for one file; name the folder's file of sums with `sums`")
    if folder and scheme in ("http", "https") and not look.has("sums"):
        look.note("url", "a web server can't be asked what is in a folder: name a file of sums with `sums`")
    if look.values.get("client", CLIENTS[scheme][0]) not in CLIENTS[scheme]:
        look.note("client", f"can't fetch {scheme}://; one of {', '.join(CLIENTS[scheme])} can")
    if look.has("client_image") and (not look.has("client") or scheme in ("http", "https")):
        look.note(
            "client_image",
            "needs `client`, the program in it" if scheme not in ("http", "https") else "is not for http",
        )
    if look.has("endpoint") and scheme in ("http", "https"):
        look.note("endpoint", "is for object stores")


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
        node = node_at(mount, "to")
        if not isinstance(node, Scalar):
            continue
        target = posixpath.normpath(node.text)
        if target in taken:
            look.problems.add(node, join(f"data.{name}", "to"), f"{shown(target)} is taken by {taken[target]}")
        taken.setdefault(target, f"data.{name}")
