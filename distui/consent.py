"""What a job file may take from this machine beyond its own folder, as the person who uses it has said.

A job file may come from a stranger. A variable's value goes to another machine, and a folder outside the job's own is
read, only once that pair was allowed: by an answer that is remembered, by `distui config allow`, or by the lists
`allow_tokens` and `allow_folders` of the user's config.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from distui.errors import UsageError
from distui.files import exists, make_private, read_bytes, real, reason, write_private, writing
from distui.homes import home as home_of

Kind = Literal["token", "folder"]
KINDS: tuple[Kind, ...] = get_args(Kind)
SCHEMA = "distui/allowed/v1"
_MOST = 1 << 20

SECRET_FOLDERS = (
    ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".password-store", ".config/gcloud", ".config/gh",
    ".config/distui", ".local/state/distui", ".local/share/keyrings", ".mozilla", ".config/google-chrome",
    ".config/containers", ".config/op", ".config/rclone", ".config/git", ".config/sops", ".config/chromium",
    ".config/BraveSoftware", ".local/share/kwalletd", ".local/share/password-store", ".local/share/containers",
    ".terraform.d", ".oci", ".cargo", ".m2", ".gem", ".thunderbird", ".bitwarden", ".vault-token", ".netrc", ".pki",
    "Library/Keychains",
)  # fmt: skip
"""Below the home: keys, passwords and logins, which no program on a cluster needs as its files."""
_SYSTEM = ("/etc", "/proc", "/sys", "/dev", "/boot", "/run/secrets", "/var/run/secrets")


@dataclass(frozen=True, slots=True, order=True)
class Ask:
    """One thing that a job wants."""

    kind: Kind
    what: str
    """The variable, or the folder with every link followed."""
    to: str
    """Where it goes: a host, or the folder of the job file."""

    @property
    def words(self) -> str:
        """What would happen."""
        if self.kind == "token":
            return f"the value of your variable {self.what} would be sent to {self.to}"
        what, to = _visible(self.what), _visible(self.to)
        return f"files of {what}, which is outside the job's folder {to}, would be sent to the hosts"

    @property
    def command(self) -> str:
        """How to allow it without being asked."""
        return " ".join(("distui config allow", self.kind, _quoted(self.what), _quoted(self.to)))


def _visible(path: str) -> str:
    """A path in which nothing drives the terminal or hides what is asked: control characters as their bytes."""
    return "".join(c if c.isprintable() else "".join(f"\\x{b:02x}" for b in os.fsencode(c)) for c in path)


def _quoted(word: str) -> str:
    """A word for the shell, also one that can't be shown as it is."""
    if word.isprintable():
        return shlex.quote(word)
    return f"$'{_visible(word.replace(chr(92), 2 * chr(92)).replace(chr(39), chr(92) + chr(39)))}'"


class Consents:
    """What is allowed: remembered in `path`, and by the user's config."""

    def __init__(self, path: Path, tokens: Iterable[tuple[str, str]] = (), folders: Iterable[Path] = ()) -> None:
        self._path = path
        self._tokens = frozenset(tokens)
        self._folders = tuple(map(real, folders))

    def has(self, ask: Ask) -> bool:
        """Whether it is allowed. Raises UsageError when the remembered answers can't be read."""
        if ask.kind == "token" and (ask.what, ask.to) in self._tokens:
            return True
        return (ask.kind == "folder" and self.lists(Path(ask.what))) or ask in self.remembered()

    def lists(self, folder: Path) -> bool:
        """Whether the user's config allows this folder to every job: it, or one that holds it, by name."""
        return any(folder == one or one in folder.parents for one in self._folders)

    def remembered(self) -> tuple[Ask, ...]:
        """What was allowed by an answer or a command. Raises UsageError."""
        try:
            value = json.loads(read_bytes(self._path, _MOST, ours=True))
            return tuple(Ask(_kind(kind), str(what), str(to)) for kind, what, to in value["allowed"])
        except FileNotFoundError:
            return ()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{self._path} {reason(error)}", hint="remove it: what it allows is asked again") from None
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise UsageError(f"{self._path} is damaged", hint="remove it: what it allows is asked again") from error

    def remember(self, ask: Ask) -> None:
        """Allow it from now on. Raises UsageError when it can't be written."""
        self._write(sorted({*self.remembered(), ask}))

    def forget(self, ask: Ask) -> bool:
        """Whether it had been allowed; now it is not. Raises UsageError."""
        known = self.remembered()
        self._write([one for one in known if one != ask])
        return ask in known

    def _write(self, asks: Iterable[Ask]) -> None:
        value = {"schema": SCHEMA, "allowed": [[a.kind, a.what, a.to] for a in asks]}
        with writing(self._path):
            make_private(self._path.parent)
            write_private(self._path, json.dumps(value, indent=1).encode() + b"\n")


def _kind(word: object) -> Kind:
    for kind in KINDS:
        if kind == word:
            return kind
    raise ValueError(f"{word!r} is no kind")


def refuse_secret(folder: Path, environ: Mapping[str, str], key: str) -> None:
    """Raise UsageError for a folder full of secrets: the home, keys and logins, the system's, and what holds such.

    `folder` has no links in it; `key` is the job's.
    """
    home = home_of(environ).resolve()
    named = [*(home / name for name in SECRET_FOLDERS), *map(Path, _SYSTEM)]
    secret = [*named, *map(real, named)]  # ~/.ssh may be a link into ~/dotfiles
    inside = next((one for one in secret if folder == one or one in folder.parents), None)
    holds = next((one for one in (home, *secret) if folder == one or folder in one.parents), None)
    if inside is not None or holds is not None:
        what = _why_secret(folder, home, inside, holds)
        raise UsageError(
            f"{key}: {_visible(str(folder))} is never sent: it {what}",
            hint=f"name a folder of its own; or list it as allow_folders: {_visible(str(folder))} in your own config "
            "(`distui config path`)",
        )


def _why_secret(folder: Path, home: Path, inside: Path | None, holds: Path | None) -> str:
    if inside is not None:
        return f"is {inside}" if inside == folder else f"is in {inside}"
    return "holds your home folder" if holds == home else f"holds {holds}"


def own_repository(folder: Path, environ: Mapping[str, str]) -> Path:
    """The folder whose files belong to a job in `folder`: the repository around it, else itself. Both without links.

    A `.git` in the home, above it, or where others may write says nothing.
    """
    home = home_of(environ).resolve()
    for top in (folder, *folder.parents):
        if top == home or top in home.parents:
            break
        if exists(top / ".git"):
            return top if not top.stat().st_mode & 0o002 else folder
    return folder
