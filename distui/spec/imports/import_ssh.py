"""The hosts that OpenSSH's client configuration names: only names, as ssh itself knows how each is reached.

Which of them are servers of git, and which only the way to others, is distinguished: hardly anybody runs a job there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from distui.errors import UsageError
from distui.homes import home
from distui.spec.imports import imported
from distui.spec.imports.imported import Imported, ImportedHost
from distui.spec.imports.ssh_lines import INCLUDE_DEPTH, host_matches, included, is_blank, option_of, words_of
from distui.spec.yaml.files import read_text
from distui.spec.yaml.problems import Wrong

_MOST_FILES = 1000
_NAMES = ("host", "match", "include")
"""Keywords that decide which hosts there are."""
_TELL = ("user", "proxyjump", "proxycommand")
"""Keywords that tell what a host is for."""
Patterns = tuple[tuple[str, ...], ...]
"""The words of several `Host` lines."""


def read_ssh_config(text: str, path: str) -> Imported:
    """Aliases of `Host` lines here and in the files that are included.

    Patterns and negations name no host, nor does `Match`. What is no name for hosts.yaml is left out and said.
    """
    reader = _Reader(home(), _base(Path(path)))
    names = dict.fromkeys(reader.names(text, path, (), 0))
    hosts = []
    for name in names:
        try:
            hosts.append(ImportedHost(imported.host_name(name), aside=reader.aside(name)))
        except Wrong as wrong:
            reader.remarks.append(f"left out: {wrong.message}")
    return Imported(tuple(hosts), remarks=tuple(reader.remarks))


def _base(path: Path) -> Path:
    """Where relative Includes are looked up: ~/.ssh, for the system's own file /etc/ssh."""
    system = Path("/etc/ssh")
    return system if system in path.parents else home() / ".ssh"


@dataclass(slots=True)
class _Reader:
    home: Path
    base: Path
    remarks: list[str] = field(default_factory=list)
    files: int = 0
    users: list[tuple[Patterns, str]] = field(default_factory=list)
    """Each User with the `Host` lines it stands under: the first that holds for a name counts, as in ssh."""
    ways: set[str] = field(default_factory=set)
    """Names that are said to lead to other hosts."""

    def aside(self, name: str) -> str:
        """Why nobody would run a job there; empty where nothing tells."""
        user = next((user for patterns, user in self.users if _holds(name, patterns)), "")
        return "its login is git" if user == "git" else "the way to other hosts" if name in self.ways else ""

    def names(self, text: str, place: str, outer: Patterns, depth: int) -> Iterator[str]:
        """Names in a text; `outer` are the `Host` lines it was included under, which must match as well."""
        here: tuple[str, ...] = ()
        matches = False
        for number, line in enumerate(text.splitlines(), 1):
            keyword, words = self._option(line, f"{place}:{number}")
            if keyword == "host":
                here, matches = words, False
                yield from (name for name in words if _is_name(name) and _holds(name, (*outer, here)))
            elif keyword == "match":
                here, matches = (), True
            elif keyword == "user" and words and not matches:
                self.users.append(((*outer, here) if here else outer, words[0]))
            elif keyword in ("proxyjump", "proxycommand"):
                self.ways.update(_ways(keyword, words))
            elif keyword == "include":
                yield from self._include(words, (*outer, here) if here else outer, depth + 1)

    def _option(self, line: str, place: str) -> tuple[str, tuple[str, ...]]:
        """A line that matters here; what can't be read is said and left out."""
        found = None if is_blank(line) else option_of(line)
        keyword = found[0].lower() if found is not None else ""
        if found is None or keyword not in (*_NAMES, *_TELL):
            return "", ()
        try:
            return keyword, words_of(found[1])
        except ValueError as error:
            if keyword in _TELL:
                return "", ()
            self.remarks.append(f"left out: {place}: {error}")
            return "", ()

    def _include(self, patterns: tuple[str, ...], outer: Patterns, depth: int) -> Iterator[str]:
        for path in (p for pattern in patterns for p in included(pattern, self.base, self.home)):
            self.files += 1
            if self.files > _MOST_FILES or depth > INCLUDE_DEPTH:
                self.remarks.append(f"left out: {path}: files include one another too often")
                return
            try:
                text = read_text(str(path), any_bytes=True)
            except UsageError as error:
                self.remarks.append(f"left out: {error.message}")
            else:
                yield from self.names(text, str(path), outer, depth)


def _is_name(word: str) -> bool:
    return bool(word) and not set(word) & set("*?") and not word.startswith("!")


def _holds(name: str, patterns: Patterns) -> bool:
    return all(host_matches(each, name) for each in patterns)


def _ways(keyword: str, words: tuple[str, ...]) -> Iterator[str]:
    """The hosts that a connection goes through: of `user@gw:22,ssh://inner`, or of `ssh -W %h:%p gw`."""
    if keyword == "proxyjump":
        for jump in ",".join(words).split(","):
            yield jump.removeprefix("ssh://").rpartition("@")[2].partition(":")[0]
    elif words and Path(words[0]).name == "ssh":
        yield from (word.rpartition("@")[2] for word in words[1:] if not word.startswith("-"))
