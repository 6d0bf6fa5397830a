"""Reading OpenSSH client configuration: `Host`, `Match`, `Include`, the first value of an option wins.

asyncssh has a reader too; it looks up `~` in the environment, takes Include in /etc/ssh for one in ~/.ssh, and
refuses trailing comments and times such as `10s`, which ssh allows (ssh_config(5)). Hence this one, which reads
text into options and leaves their meaning to `distui.remote.config`.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from distui.files import read_text, reason
from distui.spec.imports.ssh_lines import INCLUDE_DEPTH, host_matches, included, is_blank, option_of, words_of

EXEC_SECONDS = 20.0
"""How long a command of `Match exec` may take; ssh itself waits for ever."""

_RAW = frozenset({"proxycommand", "remotecommand", "localcommand", "knownhostscommand"})
_LISTS = frozenset({"identityfile", "certificatefile"})


class ConfigError(ValueError):
    """The configuration can't be read; says file, line and what is wrong."""


@dataclass(slots=True)
class Query:
    """For which login the configuration is read."""

    alias: str
    user: str | None
    local_user: str
    home: Path
    expand_hostname: Callable[[str, str], str]
    """HostName's tokens (`%h`), given its text and the alias."""


@dataclass(slots=True)
class Options:
    """What the files say: lower-case option -> its words; for lists, all values in order."""

    single: dict[str, tuple[str, ...]] = field(default_factory=dict)
    lists: dict[str, list[str]] = field(default_factory=dict)
    wants_final: bool = False

    def first(self, option: str) -> str | None:
        """The option's first word, None when it is not set."""
        words = self.single.get(option)
        return words[0] if words else None


class Reader:
    """Reads files for one query. `final` is the second pass, made when a file says `Match final`."""

    def __init__(self, query: Query, options: Options, *, host: str, final: bool = False) -> None:
        self._query = query
        self._options = options
        self._host = host
        self._final = final
        self._place = ""

    def read(self, path: Path, *, base: Path, depth: int = 0) -> None:
        """Read `path`, if there is such a file; relative Includes are looked up in `base`."""
        try:
            text = read_text(path, errors="surrogateescape")
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as exc:
            raise ConfigError(f"{path} {reason(exc)}") from exc
        active = True
        for number, line in enumerate(text.splitlines(), 1):
            self._place = f"{path}:{number}"
            active = self._line(line, active, base, depth)

    def _line(self, line: str, active: bool, base: Path, depth: int) -> bool:
        """Take one line in; whether the lines after it count."""
        if is_blank(line):
            return active
        found = option_of(line)
        if found is None:
            raise ConfigError(f"{self._place}: not an option: {line.strip()!r}")
        option, rest = found[0].lower(), found[1]
        words = (rest,) if option in _RAW else self._words(rest)
        if not words or (not words[0] and option not in _LISTS):
            raise ConfigError(f"{self._place}: {found[0]} has no value")
        if option == "host":
            return host_matches(words, self._host)
        if option == "match":
            return self._match(list(words))
        if active and option == "include":
            self._include(words, base, depth)
        elif active:
            self._set(option, words)
        return active

    def _words(self, rest: str) -> tuple[str, ...]:
        try:
            return words_of(rest)
        except ValueError as exc:
            raise ConfigError(f"{self._place}: {exc}") from None

    def _set(self, option: str, words: tuple[str, ...]) -> None:
        if option in _LISTS:
            values = self._options.lists.setdefault(option, [])
            values.extend(words[:1])
            return
        if option == "proxyjump" and "proxycommand" in self._options.single:
            return  # as in ssh: the one that is read first, also when it is `none`
        if option == "hostname":
            words = (self._query.expand_hostname(words[0], self._host),)
        self._options.single.setdefault(option, words)

    def _include(self, patterns: tuple[str, ...], base: Path, depth: int) -> None:
        if depth >= INCLUDE_DEPTH:
            raise ConfigError(f"{self._place}: files include one another too deep")
        place = self._place
        for pattern in patterns:
            for path in included(pattern, base, self._query.home):
                self.read(path, base=base, depth=depth + 1)
        self._place = place

    def _match(self, words: list[str]) -> bool:
        """Whether all conditions hold. A condition after one that failed is read, but not run."""
        result = True
        while words:
            name, _, inline = words.pop(0).partition("=")
            negated, name = name.startswith("!"), name.lstrip("!").lower()
            if name in ("all", "canonical", "final"):
                holds = self._plain_condition(name)
            else:
                holds = result and self._condition(name, inline or (words.pop(0) if words else None))
            result = result and holds != negated
        return result

    def _plain_condition(self, name: str) -> bool:
        if name == "final":
            self._options.wants_final = True
        return name == "all" or self._final

    def _condition(self, name: str, value: str | None) -> bool:
        if value is None:
            raise ConfigError(f"{self._place}: Match {name} has no value")
        subject = self._subject(name)
        if subject is not None:
            return host_matches(tuple(value.split(",")), subject)
        if name == "exec":
            return self._succeeds(value)
        if name in ("localnetwork", "command", "sessiontype", "version"):
            return False
        raise ConfigError(f"{self._place}: Match {name} is not known")

    def _subject(self, name: str) -> str | None:
        options, query = self._options, self._query
        match name:
            case "host":
                return options.first("hostname") or self._host
            case "originalhost":
                return query.alias
            case "user":
                return query.user or options.first("user") or query.local_user
            case "localuser":
                return query.local_user
            case "tagged":
                return options.first("tag") or ""
            case _:
                return None

    def _succeeds(self, command: str) -> bool:
        """`Match exec` is the user's own command in the user's own file, run by a shell as ssh does. What it leaves in
        the background is not waited for.
        """
        host = self._options.first("hostname") or self._host
        user = self._query.user or self._options.first("user") or self._query.local_user
        tokens = {"h": host, "n": self._query.alias, "u": self._query.local_user, "r": user, "%": "%"}
        text = re.sub(r"%(.)", lambda m: tokens.get(m[1], m[0]), command)
        null = subprocess.DEVNULL
        try:
            done = subprocess.run(["/bin/sh", "-c", text], stdin=null, stdout=null, stderr=null, timeout=EXEC_SECONDS)
        except subprocess.TimeoutExpired:
            raise ConfigError(f"{self._place}: Match exec did not end within {EXEC_SECONDS:g} s: {command}") from None
        return done.returncode == 0
