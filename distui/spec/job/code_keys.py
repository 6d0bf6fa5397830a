"""The forms of `code`: a folder of this machine or a git repository, and where the job sees it."""

from __future__ import annotations

import posixpath
import re
from urllib.parse import urlsplit

from distui.regex import regex
from distui.spec.job.job import MODES, Code
from distui.spec.job.job_forms import ENV_NAME
from distui.spec.yaml import leaves
from distui.spec.yaml.nodes import Scalar
from distui.spec.yaml.problems import Wrong, shown
from distui.spec.yaml.shapes import ByKind, Key, Leaf, ListOf, Look, Record

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}
_SCHEMES = ("https", "ssh", "http", "git", "file")
_SCP = regex(r"(?:[A-Za-z0-9_.-]+@)?[A-Za-z0-9][A-Za-z0-9.-]*:(?!:)[^\s:].*")
"""`git@host:path`. Two colons would name a remote helper (`ext::sh -c ...`), which git runs as a program."""
_LOCAL = ("localhost", "127.0.0.1", "::1")


def in_bytes(text: str) -> int:
    """A size in Docker's spelling as bytes, units by 1024: `1g`, `512mb`, `100`."""
    number, unit = re.fullmatch(r"([0-9.]+) ?([a-z]?).*", text.lower()).groups()  # type: ignore[union-attr]
    return int(float(number) * _UNITS["" if unit == "b" else unit])


def size_key(default: int) -> Leaf:
    """A number of bytes, as in `100m`."""
    form = leaves.size()

    def take(node: Scalar) -> int:
        value = in_bytes(form.take(node))
        if not 0 < value < 1 << 50:
            raise Wrong("")
        return value

    return Leaf(f"a size such as {default >> 20}m", take, form.form)


def is_url(text: str) -> bool:
    """Whether a text can only be meant as a git URL, not as a folder."""
    return "://" in text or bool(re.fullmatch(r"[A-Za-z0-9_.-]+@[A-Za-z0-9.-]+:.+", text))


def folder(value: str) -> None:
    """Raise Wrong unless `value` can be a folder of this machine."""
    if is_url(value):
        raise Wrong(f"{shown(value)} is a URL; write code: {{git: {value[:80]}}}")


def git_url(value: str) -> None:
    """Raise Wrong unless `value` is a URL that git fetches from without running a program, and holds no password."""
    if value.startswith(("/", "file:")):
        _local_url(value)
        return
    if "::" in value.partition("/")[0] or value.startswith("-"):
        raise Wrong(f"{shown(value)} is not fetched: https://, ssh://, git@host:path, or an absolute path")
    if "://" not in value:
        if not _SCP.fullmatch(value):
            raise Wrong(f"{shown(value)} is not a git URL: https://, ssh://, git@host:path, or an absolute path")
        return
    if re.search(r"[\\\s\x00-\x1f]", value):  # programs disagree about where the host ends
        raise Wrong(f"{shown(value)} is not a URL: it holds a backslash or a blank")
    try:
        parts = urlsplit(value)
        host, password = parts.hostname or "", parts.password
        parts.port  # noqa: B018  # raises for one that is none
    except ValueError:
        raise Wrong(f"{shown(value)} is not a URL") from None
    scheme = value.partition("://")[0]  # git knows no capitals here
    if scheme not in _SCHEMES:
        raise Wrong(f"unknown scheme {shown(scheme)}; known: {', '.join(_SCHEMES)}")
    if password is not None:
        raise Wrong("holds a password, which would be shown; write token: NAME, a variable with the value")
    if not host or host.startswith("-") or "%" in host:
        raise Wrong(f"{shown(value)} names no host")


def _local_url(value: str) -> None:
    """Raise Wrong unless a repository of this machine is written in the one way that everybody reads alike."""
    place = local_repository(value)
    if not place.startswith("/"):
        raise Wrong(f"{shown(value)} names no folder of this machine; write file:///FOLDER, or the absolute path alone")
    if value.startswith("file:") and re.search(r"[%?#]", place):
        raise Wrong(f"{shown(value)} holds %, ? or #, which programs read in two ways; write the absolute path alone")
    if re.search(r"[\x00-\x1f\x7f]", place):
        raise Wrong(f"{shown(value)} holds a control character")
    first, second = (*posixpath.normpath("/" + place.lstrip("/")).split("/"), "")[1:3]
    if first in ("proc", "dev", "sys") and (first, second) != ("dev", "shm"):
        raise Wrong(f"{shown(value)} is no folder of files: its content depends on who looks")


def git_host(url: str) -> str:
    """The machine that a URL with a scheme leads to, as `example.org` or `example.org:8443`."""
    parts = urlsplit(url)
    usual = {"https": 443, "http": 80}.get(parts.scheme)
    return parts.hostname or "" if parts.port in (None, usual) else f"{parts.hostname}:{parts.port}"


def local_repository(url: str) -> str:
    """The folder of this machine that a git URL names; "" for another machine's."""
    if url.startswith("/"):
        return url
    return url.removeprefix("file://") if url.startswith("file:") else ""


def git_ref(value: str) -> None:
    """Raise Wrong for what git takes for an option, or for more than one ref."""
    if value.startswith("-") or re.search(r"[\s:^~?*\[\\]|\.\.|@\{", value) or not value:
        raise Wrong(f"{shown(value)} is not a branch, a tag or a commit")


def target(value: str) -> None:
    """Raise Wrong unless `value` is an absolute folder below `/`."""
    if not value.startswith("/") or ".." in value.split("/") or not value.strip("/"):
        raise Wrong(f"{shown(value)} must be an absolute folder inside the container, such as /work")


def subdir(value: str) -> None:
    """Raise Wrong unless `value` is a folder inside the repository."""
    if value.startswith(("/", "-")) or ".." in value.split("/"):
        raise Wrong(f"{shown(value)} must be a folder of the repository, such as src")


def pattern(value: str) -> None:
    """Raise Wrong for a pattern that can't be one of gitignore's."""
    from pathspec import GitIgnoreSpec

    try:
        GitIgnoreSpec.from_lines([value])
    except ValueError:
        raise Wrong(f"{shown(value)} is not a pattern such as data/ or *.ckpt") from None


def _check(look: Look) -> None:
    """Exactly one source; what only means something with git."""
    given = look.only_one("path", "git")
    if not given:
        look.problems.add(look.table, look.at, "names no source: add path: ./ or git: URL")
    for key in ("ref", "token", "subdir"):
        if look.has(key) and "git" not in given:
            look.note(key, "only means something with git")
    url = look.values.get("git", "")
    if look.has("token") and url and not _private(url):
        look.note("token", "is only sent over https; the URL must begin with https://")


def _private(url: str) -> bool:
    if "://" not in url:
        return False
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOCAL)


def _short(node: Scalar) -> Code:
    return Code(path=leaves.text("a folder", check=folder).take(node))


CODE = ByKind(
    leaf=Leaf("a folder such as ./", _short, {"type": "string"}),
    table=Record(
        (
            Key(
                "path",
                leaves.text("a folder such as ./", check=folder),
                "Folder of this machine, relative to the job file's.",
            ),
            Key("git", leaves.text("a git URL", check=git_url), "Repository; fetched here and sent to the hosts."),
            Key("ref", leaves.text("a branch, a tag or a commit", check=git_ref, verbatim=True), "Default: its HEAD."),
            Key(
                "token",
                leaves.text("the name of a variable", pattern=ENV_NAME),
                "Variable of yours with the token for a private repository; never shown, never sent to the hosts.",
            ),
            Key("subdir", leaves.text("a folder of the repository", check=subdir), "Only this folder of it."),
            Key(
                "to",
                leaves.text("an absolute folder", check=target),
                "Where the container sees it: workdir by default, else /work.",
            ),
            Key(
                "mode",
                leaves.choice(*MODES),
                "ro: read-only; rw: a private copy for each run, thrown away with it.",
                default="ro",
            ),
            Key(
                "ignore",
                ListOf(leaves.text("a pattern such as data/", check=pattern), "a list of patterns"),
                "What is left out beside .gitignore and .distuiignore, in gitignore's syntax.",
            ),
            Key("max_size", size_key(1 << 30), "Refuse more than this in all.", default="1g"),
            Key("max_file", size_key(100 << 20), "Refuse larger files.", default="100m"),
        ),
        "a mapping such as {path: ./, to: /work}",
        build=Code,
        check=_check,
        hints={
            "url": "unknown key, did you mean 'git'?",
            "repo": "unknown key, did you mean 'git'?",
            "branch": "unknown key, did you mean 'ref'?",
            "tag": "unknown key, did you mean 'ref'?",
            "commit": "unknown key, did you mean 'ref'?",
            "exclude": "unknown key, did you mean 'ignore'?",
            "from": "unknown key, did you mean 'path'?",
        },
    ),
)
