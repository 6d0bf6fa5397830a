"""Which machine, login and keys an ssh alias stands for: what `ssh ALIAS` would use, hosts.yaml in the gaps."""

from __future__ import annotations

import getpass
import hashlib
import os
import re
import shlex
import socket
from collections.abc import Mapping
from pathlib import Path

from distui.errors import UsageError
from distui.files import exists
from distui.frozen import frozen
from distui.homes import (
    SSH_CONFIG,
    config_options,
    expanded,
    file_options,
    hostname_options,
    is_login_s,
    known_hosts_options,
)
from distui.homes import home as home_of
from distui.regex import regex
from distui.remote.sshconfig import ConfigError, Options, Query, Reader
from distui.spec.hosts.inventory import Host
from distui.whole import whole

DEFAULT_IDENTITIES = ("id_rsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk")
"""The files ssh tries when no IdentityFile is set, in its order."""

_TIME = regex(r"([0-9]{1,18})([smhdw]|\Z)", re.IGNORECASE)
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_ON = frozenset({"yes", "true"})


@frozen
class Algorithms:
    """Algorithm lists of the config as written (`+x`, `-x`, `^x` or a whole list), "" where nothing is set."""

    ciphers: str = ""
    kex: str = ""
    macs: str = ""
    host_keys: str = ""


@frozen
class Resolved:
    """Where an alias leads and how to log in there."""

    alias: str
    hostname: str
    port: int
    user: str
    identity_files: tuple[Path, ...]
    certificate_files: tuple[Path, ...]
    identities_only: bool
    agent: str | None
    """The agent's socket; None for no agent."""
    jumps: tuple[str, ...]
    """`[user@]host[:port]` of every jump host, the first to be reached first."""
    proxy_command: str | None
    known_hosts: tuple[Path, ...]
    """The user's files, then the machine's; keys are added to the first."""
    host_key_alias: str | None
    connect_timeout: float
    """Seconds for TCP, greeting and login together."""
    family: int = socket.AF_UNSPEC
    bind_address: str | None = None
    compression: bool = False
    gssapi: bool = False
    algorithms: Algorithms = Algorithms()
    ssh_options: tuple[str, ...] = ()
    """What `ssh ALIAS` has to be given to go the same way, where hosts.yaml says more of it than its name."""
    user_config: Path | None = None
    """The login's own config that was read; None where that is no matter."""
    user_known_hosts: tuple[Path, ...] = ()
    """Those of `known_hosts` that are the user's."""

    @property
    def ssh_v(self) -> str:
        """The command that shows how OpenSSH itself fares there, to be pasted."""
        return shlex.join(("ssh", "-v", *self._all_options, self.alias))

    @property
    def ssh_accept(self) -> str:
        """The command that asks whether a host key is right, and keeps it where it is looked for here, likewise."""
        kept = known_hosts_options(self.user_config, self.user_known_hosts) if self.user_config is not None else ()
        return shlex.join(("ssh", *self._all_options, *kept, self.alias))

    @property
    def ssh_copy_id(self) -> str:
        """The command that installs a public key there, likewise."""
        return shlex.join(("ssh-copy-id", *self._all_options, self.alias))

    @property
    def ssh_from_here(self) -> tuple[str, ...]:
        """What ssh has to be given to go the same way where HOME is not the login's: in the login's it looks for its
        config, what that includes, host keys and keys. Empty where it is.
        """
        if self.user_config is None or is_login_s(self.user_config.parent):
            return ()
        home = self.user_config.parent.parent
        keys, certificates = (
            [path for path in paths if path.is_relative_to(home) and exists(path)]
            for paths in (self.identity_files, self.certificate_files)
        )
        return (
            *config_options(self.user_config),
            *known_hosts_options(self.user_config, self.user_known_hosts),
            *(word for path in keys for word in ("-i", str(path))),
            *(word for path in certificates for word in file_options("CertificateFile", [path])),
            *("-p", str(self.port), "-l", self.user),
            *hostname_options(self.hostname),
        )

    @property
    def _all_options(self) -> tuple[str, ...]:
        """With the config, where ssh would read another."""
        return (*self.ssh_options, *(config_options(self.user_config) if self.user_config is not None else ()))


@frozen
class Sources:
    """Where to look: the login's home, its config file and environment, and whether /etc/ssh counts."""

    home: Path
    env: Mapping[str, str]
    user_config: Path
    system: bool = True


def default_sources(home: Path | None = None, env: Mapping[str, str] | None = None) -> Sources:
    """The sources ssh itself uses."""
    place = home or home_of(env)
    return Sources(place, os.environ if env is None else env, place / ".ssh" / "config")


def resolve(target: Host, sources: Sources, *, user: str | None = None, port: int | None = None) -> Resolved:
    """What `target` stands for. `user` and `port` win over all files, as in `ssh -l user -p port`.

    Raises ConfigError, naming file and line, when ssh's configuration can't be read.
    """
    options = _read(target.name, sources, user)
    return _Resolver(target, sources, options, user, port).resolved()


def jump_words(jump: str) -> tuple[str | None, str, int | None]:
    """User, host and port of one ProxyJump entry; raises ConfigError."""
    text = jump.removeprefix("ssh://").rstrip("/")
    found = re.fullmatch(r"(?:(.+)@)?(?:\[([^\]]+)\]|([^:\[\]]+))(?::([0-9]+))?", text)
    port = whole(found[4]) if found is not None and found[4] else 22
    if found is None or port is None or not 0 < port < 65536:
        raise ConfigError(f"ProxyJump {jump[:200]!r} is not [user@]host[:port]")
    return found[1], found[2] or found[3], port if found[4] else None


def _read(alias: str, sources: Sources, user: str | None) -> Options:
    query = Query(alias, user, _local_user(sources), sources.home, _expand_hostname)
    options = Options()
    _read_files(Reader(query, options, host=alias), sources)
    if options.wants_final:
        host = options.first("hostname") or alias
        _read_files(Reader(query, options, host=host, final=True), sources)
    return options


def _read_files(reader: Reader, sources: Sources) -> None:
    reader.read(sources.user_config, base=sources.home / ".ssh")
    if sources.system:
        reader.read(SSH_CONFIG, base=SSH_CONFIG.parent)


def _expand_hostname(text: str, alias: str) -> str:
    return text.replace("%h", alias).replace("%%", "%")


def _local_user(sources: Sources) -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a login without a name, as in a container with `--user 1234`
        return sources.env.get("USER", "")


class _Resolver:
    """Turns options into a Resolved; one method per group of options."""

    def __init__(self, target: Host, sources: Sources, options: Options, user: str | None, port: int | None) -> None:
        self._target = target
        self._sources = sources
        self._options = options
        self._local_user = _local_user(sources)
        self._hostname = options.first("hostname") or target.addr or target.name
        self._user = user or options.first("user") or target.user or self._local_user
        if not self._user:
            message = f"{target.name}: who logs in there? uid {os.getuid()} has no name on this machine"
            raise ConfigError(f"{message}: write `user:` into hosts.yaml, or set USER")
        self._port = port or self._number("port") or target.port or 22
        self._given = (user or target.user, port or target.port)

    def resolved(self) -> Resolved:
        """All of it."""
        return Resolved(
            alias=self._target.name,
            hostname=self._hostname,
            port=self._port,
            user=self._user,
            identity_files=self._identity_files(),
            certificate_files=self._files("certificatefile"),
            identities_only=self._on("identitiesonly"),
            agent=self._agent(),
            jumps=self._jumps(),
            proxy_command=self._proxy_command(),
            known_hosts=self._user_known_hosts() + self._machine_known_hosts(),
            host_key_alias=self._options.first("hostkeyalias"),
            connect_timeout=self._connect_timeout(),
            family=self._family(),
            bind_address=self._options.first("bindaddress"),
            compression=self._on("compression"),
            gssapi=self._on("gssapiauthentication"),
            algorithms=self._algorithms(),
            ssh_options=self._ssh_options(),
            user_config=self._sources.user_config,
            user_known_hosts=self._user_known_hosts(),
        )

    def _ssh_options(self) -> tuple[str, ...]:
        user, port = self._given
        options: tuple[str, ...] = ("-p", str(self._port)) if port else ()
        options += ("-o", f"User={self._user}") if user else ()
        return options + hostname_options(self._hostname) if self._target.addr else options

    def _algorithms(self) -> Algorithms:
        names = ("ciphers", "kexalgorithms", "macs", "hostkeyalgorithms")
        return Algorithms(*(self._options.first(name) or "" for name in names))

    def _on(self, option: str) -> bool:
        return (self._options.first(option) or "").lower() in _ON

    def _number(self, option: str) -> int | None:
        text = self._options.first(option)
        if text is None:
            return None
        port = whole(text)
        if port is None or not 0 < port < 65536:
            raise ConfigError(f"ssh config of {self._target.name}: {option} {text[:80]!r} is not a port number")
        return port

    def _connect_timeout(self) -> float:
        text = self._options.first("connecttimeout")
        if text is None or text.lower() == "none":
            return self._target.connect_timeout
        parts = _TIME.findall(text)
        if not parts or "".join(number + unit for number, unit in parts) != text:
            raise ConfigError(f"ssh config of {self._target.name}: ConnectTimeout {text[:80]!r} is not a time")
        return float(sum(int(number) * _UNITS[unit.lower()] for number, unit in parts)) or self._target.connect_timeout

    def _family(self) -> int:
        families = {"inet": socket.AF_INET, "inet6": socket.AF_INET6}
        return families.get((self._options.first("addressfamily") or "any").lower(), socket.AF_UNSPEC)

    def _identity_files(self) -> tuple[Path, ...]:
        """The files named; the defaults only where none is, as ssh does."""
        if "identityfile" in self._options.lists:
            return self._files("identityfile")
        folder = self._sources.home / ".ssh"
        return tuple(folder / name for name in DEFAULT_IDENTITIES)

    def _files(self, option: str) -> tuple[Path, ...]:
        values = (text for text in self._options.lists.get(option, []) if text.lower() != "none")
        return tuple(dict.fromkeys(self._path(text) for text in values))

    def _user_known_hosts(self) -> tuple[Path, ...]:
        folder = self._sources.home / ".ssh"
        return self._known_hosts_option("userknownhostsfile", (folder / "known_hosts", folder / "known_hosts2"))

    def _machine_known_hosts(self) -> tuple[Path, ...]:
        machine = (Path("/etc/ssh/ssh_known_hosts"), Path("/etc/ssh/ssh_known_hosts2"))
        return self._known_hosts_option("globalknownhostsfile", machine if self._sources.system else ())

    def _known_hosts_option(self, option: str, default: tuple[Path, ...]) -> tuple[Path, ...]:
        words = self._options.single.get(option)
        if words is None:
            return default
        return tuple(self._path(word) for word in words if word.lower() != "none")

    def _agent(self) -> str | None:
        text = self._options.first("identityagent")
        if text is None or text == "SSH_AUTH_SOCK":
            return self._sources.env.get("SSH_AUTH_SOCK") or None
        if text.lower() == "none":
            return None
        if text.startswith("$") and not text.startswith("${"):
            return self._sources.env.get(text[1:]) or None
        return str(self._path(text))

    def _jumps(self) -> tuple[str, ...]:
        """The jump hosts; where ProxyCommand was read first, ProxyJump was not taken in."""
        text = self._options.first("proxyjump")
        if text is None or text.lower() == "none":
            return ()
        return tuple(self._tokens(part.strip()) for part in text.split(",") if part.strip())

    def _proxy_command(self) -> str | None:
        text = self._options.first("proxycommand")
        if text is None or text.lower() == "none" or self._jumps():
            return None
        return self._tokens(text)

    def _path(self, text: str) -> Path:
        """A path with `~`, `${ENV}` and `%` tokens; relative ones are relative to the working folder, as in ssh."""
        home = self._sources.home
        text = re.sub(r"\$\{(\w+)\}", self._env_value, self._tokens(text))
        if text == "~" or text.startswith("~/"):
            return home / text[2:]
        try:
            return expanded(text) if text.startswith("~") else Path(text)
        except UsageError as exc:
            raise ConfigError(f"ssh config of {self._target.name}: {exc.message}") from exc

    def _env_value(self, found: re.Match[str]) -> str:
        try:
            return self._sources.env[found[1]]
        except KeyError:
            message = f"ssh config of {self._target.name}: environment variable {found[1]} is not set"
            raise ConfigError(message) from None

    def _tokens(self, text: str) -> str:
        if "%" not in text:
            return text
        host = socket.gethostname()
        alias = self._options.first("hostkeyalias") or self._target.name
        jump = self._options.first("proxyjump") or ""
        conn = f"{host}{self._hostname}{self._port}{self._user}"
        tokens = {
            "%": "%",
            "C": hashlib.sha1(conn.encode(), usedforsecurity=False).hexdigest(),
            "d": str(self._sources.home),
            "h": self._hostname,
            "i": str(os.getuid()),
            "j": jump,
            "k": alias,
            "L": host.partition(".")[0],
            "l": host,
            "n": self._target.name,
            "p": str(self._port),
            "r": self._user,
            "u": self._local_user,
        }
        return re.sub(r"%(.)", lambda found: tokens.get(found[1], found[0]), text)
