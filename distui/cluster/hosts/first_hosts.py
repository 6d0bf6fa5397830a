"""Hosts for one who has no hosts.yaml yet: those that other tools know, whether they answer, and the file to write."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from configparser import ConfigParser
from configparser import Error as ConfigError
from dataclasses import replace
from pathlib import Path
from typing import Literal

from distui.cluster.hosts.connecting import load_greeting, ssh_greeting
from distui.errors import DistuiError, HostError, UsageError
from distui.frozen import frozen
from distui.regex import regex
from distui.spec.hosts.address import six_login
from distui.spec.hosts.inventory import Host
from distui.spec.hosts.names import split
from distui.spec.imports import import_hosts
from distui.spec.imports.import_hosts import Form
from distui.spec.imports.imported import Imported, ImportedHost, Setting, setting
from distui.spec.yaml.files import read_text
from distui.spec.yaml.problems import Wrong

FILES: tuple[tuple[str, Form], ...] = (
    ("inventory", "ansible"), ("inventory.ini", "ansible"), ("inventory.yml", "ansible"), ("inventory.yaml", "ansible"),
    ("hosts.ini", "ansible"), ("hosts.yml", "ansible"), ("hosts", "ansible"),
    ("hostfile", "hostfile"), ("hostfile.txt", "hostfile"), ("machinefile", "hostfile"), ("hosts.txt", "hostfile"),
)  # fmt: skip
"""Names that inventories of Ansible and hostfiles usually have, and how they are read."""
IN_FOLDER = (
    "hosts",
    "hosts.ini",
    "hosts.yml",
    "hosts.yaml",
    "inventory",
    "inventory.ini",
    "inventory.yml",
    "inventory.yaml",
)
"""Names that an inventory has in a folder of Ansible's."""
AT_ONCE = 16
"""Hosts that are knocked at side by side."""
SECONDS = 5.0
"""For one host."""
_APART = regex(r"(?<=[,\[])\s+|\s+(?=[,\]])")
_TYPED = regex(r"(?:(?P<user>[^@\s]+)@)?(?P<names>[^@:\s]+(?:\[[^\]]*\])?)(?::(?P<port>\d+))?")


@frozen
class FirstHost:
    """A host that may be written into hosts.yaml, and where it is named."""

    host: ImportedHost
    source: str

    @property
    def name(self) -> str:
        """Its name."""
        return self.host.name


@frozen
class Answer:
    """Whether an ssh server answers at a host: `through` it was not tried, as only a login elsewhere could tell."""

    state: Literal["yes", "no", "through"]
    words: str
    hint: str = ""


@frozen
class FirstHosts:
    """What was found, each name once: in the order in which it was looked for, last what is hardly a host to run on."""

    hosts: tuple[FirstHost, ...]
    groups: Mapping[str, tuple[str, ...]]
    looked: tuple[str, ...]
    """The files that were there."""
    remarks: tuple[str, ...] = ()
    """What could not be read or taken, and why."""
    typed: tuple[str, ...] = ()
    """The hosts that somebody typed last."""

    def with_typed(self, text: str) -> FirstHosts:
        """The same and what somebody typed: `node[01-04]`, `h1 h2`, `ubuntu@10.0.0.7:2222`, `fd00::7`, which is given a
        name. Raises UsageError.
        """
        words = [one for word in _APART.sub("", text).split() for one in _one_by_one(word)]
        if not all(words):
            raise UsageError(f"{text!r} has an empty name", hint="leave out the comma that nothing follows or precedes")
        if len(words) > 1:
            found, typed = self, tuple[str, ...]()
            for word in reversed(words):  # what was typed last comes first
                found = found.with_typed(word)
                typed = (*found.typed, *typed)
            return replace(found, typed=typed)
        six = six_login(" ".join(words))
        match = _TYPED.fullmatch(" ".join(words))
        if six is None and match is None:
            hint = "node01, node[01-04], user@10.0.0.7:2222, user@[fd00::7]:2222"
            raise UsageError(f"{text!r} names no host", hint=hint)
        if six is not None:
            names, given = six.name, {"addr": six.addr, "user": six.user or None, "port": six.port or None}
        else:
            assert match is not None
            names, given = match["names"], {"user": match["user"], "port": match["port"]}
        try:
            settings = {key: setting(key, value) for key, value in given.items() if value is not None}
        except Wrong as wrong:
            raise UsageError(f"{text!r} names no host: {wrong.message}") from None
        read = import_hosts.read(names, "nodeset", "what was typed")
        hosts = tuple(self._typed(one.name, settings) for one in read.hosts)
        return replace(self, hosts=_once((*hosts, *self.hosts)), typed=tuple(one.name for one in hosts))

    def _typed(self, name: str, settings: Mapping[str, Setting]) -> FirstHost:
        """A host by the name that was typed: one that a file names has what is said of it there, too."""
        for one in self.hosts:
            if one.name == name:
                return FirstHost(ImportedHost(name, {**one.host.settings, **settings}), one.source)
        return FirstHost(ImportedHost(name, settings), "typed")

    def chosen(self, names: Sequence[str]) -> Imported:
        """Some of them as they are written, with the groups that have one of them."""
        groups = {group: tuple(m for m in members if m in names) for group, members in self.groups.items()}
        kept = {group: members for group, members in groups.items() if members}
        return Imported(tuple(one.host for one in self.hosts if one.name in names), kept)


def look(home: Path, folder: Path) -> FirstHosts:
    """Hosts of `~/.ssh/config`, and of an Ansible inventory and a hostfile in the folder. Reads files, no more.

    An inventory may also stand in a folder `inventory`, or where ansible.cfg says.
    """
    hosts: list[FirstHost] = []
    groups: dict[str, tuple[str, ...]] = {}
    looked, remarks = [], []
    places: list[tuple[Path, str, Form]] = [(home / ".ssh" / "config", "~/.ssh/config", "ssh-config")]
    places += [(folder / name, name, form) for name, form in FILES]
    places += _of_ansible(folder, home)
    for path, shown, form in places:
        if not _so(path.is_file) or shown in looked:
            continue
        looked.append(shown)
        try:
            found = _read(path, form, either=shown == "hosts")
        except DistuiError as error:
            remarks.append(f"{shown}: {error.message}")
            continue
        hosts += [FirstHost(host, shown) for host in found.hosts]
        groups |= {name: members for name, members in found.groups.items() if name not in groups}
        remarks += [f"{shown}: {words}" for words in found.remarks]
    return FirstHosts(_once(hosts), groups, tuple(looked), tuple(remarks))


def _so(looked: Callable[[], bool]) -> bool:
    """Whether it is so; not where it may not be looked at."""
    try:
        return looked()
    except OSError:
        return False


def _of_ansible(folder: Path, home: Path) -> Iterator[tuple[Path, str, Form]]:
    """Where an inventory is by ansible.cfg of the folder, and the files in a folder that is called `inventory`."""
    for place in (*(folder / word for word in _configured(folder / "ansible.cfg", home)), folder / "inventory"):
        files = [place / name for name in IN_FOLDER] if _so(place.is_dir) else [place]
        for path in files:
            shown = path.relative_to(folder) if path.is_relative_to(folder) else path
            yield path, str(shown), "ansible"


def _configured(path: Path, home: Path) -> Iterator[str]:
    """The `inventory` of `[defaults]`, several with commas; none where the file has none, or can't be read."""
    read = ConfigParser(interpolation=None, strict=False, allow_no_value=True)
    with contextlib.suppress(DistuiError, ConfigError):
        if _so(path.is_file):
            read.read_string(read_text(str(path)))
    value = read.get("defaults", "inventory", fallback="") or ""
    for word in filter(None, (word.strip() for word in value.split(","))):
        yield str(home / word[2:]) if word.startswith("~/") else word


def _read(path: Path, form: Form, *, either: bool) -> Imported:
    """A file that may be of either kind is a hostfile without a section."""
    text = read_text(str(path), any_bytes=form == "ssh-config")  # as ssh reads it
    if either and not any(line.lstrip().startswith("[") for line in text.splitlines()):
        form = "hostfile"
    return import_hosts.read(text, form, str(path))


def _once(hosts: Sequence[FirstHost]) -> tuple[FirstHost, ...]:
    named: dict[str, FirstHost] = {}
    for one in hosts:
        named.setdefault(one.name, one)
    return tuple(sorted(named.values(), key=lambda one: bool(one.host.aside)))


async def ask(hosts: Sequence[FirstHost], on_answer: Callable[[str, Answer], None]) -> None:
    """Knock at the ssh port of each: a connection that is closed after the server's greeting. Nobody logs in.

    A few at a time, some seconds each; `on_answer` is called as they answer.
    """
    await load_greeting()
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(host: FirstHost) -> None:
        async with gate:
            on_answer(host.name, await _ask(host.host))

    await asyncio.gather(*(one(host) for host in hosts))


async def _ask(host: ImportedHost) -> Answer:
    given = host.settings
    addr, user, port = given.get("addr"), given.get("user"), given.get("port")
    spec = Host(
        host.name, addr=str(addr) if addr else None, user=str(user) if user else None,
        port=port if isinstance(port, int) else None,
    )  # fmt: skip
    try:
        took, through = await ssh_greeting(spec, SECONDS)
    except HostError as error:
        words = error.message.removeprefix(f"{host.name}: ").removeprefix(f"{host.name} ")
        return Answer("no", words, error.hint)
    if took is None:
        return Answer("through", f"only through {through}: not tried, it would log in there")
    return Answer("yes", f"answers in {took:.0f} ms")


def _one_by_one(word: str) -> Sequence[str]:
    """What commas part, where an IPv6 address is among it: names and ranges are read together."""
    parts = split(word)
    return parts if any(map(six_login, parts)) else (word,)
