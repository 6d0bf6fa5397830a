"""Where distui keeps things, and its settings: flags > `DISTUI_*` > ./distui.yaml > the user's config.yaml > defaults.

./distui.yaml may come with a stranger's repository: it sets how things look and how long they may take, no more.
Folders follow the XDG base directory specification. The config files are strict: unknown keys are errors with the
nearest known one, and every problem is reported at once.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distui.amounts import seconds_of
from distui.errors import UsageError
from distui.files import NotOurs, absent, check_folder, read_text, reason
from distui.frozen import frozen
from distui.homes import expanded
from distui.homes import home as home_of

if TYPE_CHECKING:
    from distui.spec.yaml.nodes import Table
    from distui.spec.yaml.problems import Problems


@frozen
class Paths:
    """distui's folders of one user; none of them has to exist."""

    config: Path
    state: Path
    cache: Path

    @property
    def config_file(self) -> Path:
        """The user's settings."""
        return self.config / "config.yaml"

    @property
    def hosts_file(self) -> Path:
        """The inventory that is used when there is no ./hosts.yaml."""
        return self.config / "hosts.yaml"

    @property
    def jobs(self) -> Path:
        """Job files that can be named without their folder."""
        return self.config / "jobs"

    @property
    def runs(self) -> Path:
        """One private folder for each run."""
        return self.state / "runs"

    @property
    def allowed_file(self) -> Path:
        """What job files may take from this machine; see `distui.consent`."""
        return self.state / "allowed.json"

    @property
    def facts_file(self) -> Path:
        """What `probe --save` found last."""
        return self.cache / "facts.json"


def paths(environ: Mapping[str, str]) -> Paths:
    """The folders by `XDG_*_HOME` and `HOME`; a relative XDG value is ignored, as its specification says."""
    home = home_of(environ)

    def base(variable: str, default: Path) -> Path:
        value = environ.get(variable, "")
        return (Path(value) if value.startswith("/") else default) / "distui"

    return Paths(
        config=base("XDG_CONFIG_HOME", home / ".config"),
        state=base("XDG_STATE_HOME", home / ".local" / "state"),
        cache=base("XDG_CACHE_HOME", home / ".cache"),
    )


@frozen
class Value:
    """A setting and where it comes from: `--color`, `DISTUI_COLOR`, `./distui.yaml:3` or `default`."""

    value: Any
    origin: str


Config = Mapping[str, Value]
"""Every key of `KEYS`, always."""

OUTPUTS = ("table", "wide", "json", "ndjson", "csv", "name")
COLORS = ("auto", "always", "never")
NOTIFY = ("auto", "bell", "none")


def seconds(text: str) -> float:
    """A duration such as `30s`, `1h30m`, `500ms` or `90` (seconds). Raises UsageError."""
    found = seconds_of(text.strip())
    if found is None:
        raise UsageError(f"'{text.strip()[:40]}' is not a duration; write 30s, 10m or 1h30m")
    return found


def _boolean(text: str) -> bool:
    match text.strip().lower():
        case "1" | "true" | "yes" | "on":
            return True
        case "" | "0" | "false" | "no" | "off":
            return False
        case _:
            raise UsageError(f"'{text[:40]}' is neither true nor false")


def _count(text: str) -> int:
    if not re.fullmatch(r"[1-9]\d{0,3}", text.strip(), re.ASCII):
        raise UsageError(f"'{text[:40]}' is not a number from 1 to 9999")
    return int(text)


def _one_of(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in words:
            from distui.spec.yaml.called import meant

            raise UsageError(f"'{text[:40]}' is none of {', '.join(words)}{meant(text, words)}")
        return text

    return read


def _path(text: str) -> str:
    if not text:
        raise UsageError("is empty; give a path")
    return text


def _name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_-]{0,40}", text, re.ASCII):
        raise UsageError(f"'{text[:40]}' is not a theme's name")
    return text


def keymap(text: str) -> dict[str, str]:
    """Keys of the terminal UI: `stop=X, find=ctrl+f`. Several keys of one action are parted by blanks."""
    found = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        action, equals, keys = part.partition("=")
        if not equals or not re.fullmatch(r"[a-z_]{1,40}", action.strip(), re.ASCII) or not keys.strip():
            raise UsageError(f"'{part[:40]}': write ACTION=KEY, such as leave=Q; the help names the actions")
        found[action.strip()] = ",".join(keys.split())
    return found


_PEER = r"(?:[a-z0-9._:-]|\$\{[A-Za-z_]\w*\})+"


def tokens(text: str) -> tuple[tuple[str, str], ...]:
    """Variables and where their values may go: `GIT_TOKEN@git.example.org, ...`.

    A registry that a variable names is written as the job does: `REGISTRY@${REGISTRY}`.
    """
    found = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, host = part.partition("@")
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) or not re.fullmatch(_PEER, host, re.ASCII):
            raise UsageError(f"'{part[:40]}': write VARIABLE@HOST, such as GIT_TOKEN@git.example.org")
        found.append((name, host))
    return tuple(found)


def folders(text: str) -> tuple[str, ...]:
    """Absolute folders, several apart by commas."""
    found = tuple(filter(None, (part.strip() for part in text.split(","))))
    for part in found:
        if not part.startswith(("/", "~/")) and part != "~":
            raise UsageError(f"'{part[:40]}': write absolute folders, or ~/FOLDER")
    return found


@frozen
class Key:
    """One setting: how its text is read, its default and what it does."""

    read: Callable[[str], Any]
    default: Any
    help: str
    project: bool = False
    """Whether ./distui.yaml may set it: that file may come with a stranger's repository."""


KEYS: Mapping[str, Key] = {
    "hosts_file": Key(_path, None, "inventory to use instead of ./hosts.yaml"),
    "output": Key(_one_of(*OUTPUTS), "table", "output format", project=True),
    "color": Key(_one_of(*COLORS), "auto", "colours: auto means on a terminal, unless NO_COLOR is set", project=True),
    "readonly": Key(_boolean, False, "refuse everything that changes a host or a run", project=True),
    "yes": Key(_boolean, False, "answer yes to every question"),
    "no_input": Key(_boolean, False, "never ask", project=True),
    "parallel": Key(_count, 64, "hosts contacted at once", project=True),
    "connect_timeout": Key(seconds, None, "limit for connecting to a host; the inventory's by default", project=True),
    "timeout": Key(seconds, None, "limit for the whole command", project=True),
    "lost_after": Key(seconds, 600.0, "how long a run waits for a host that is out of reach", project=True),
    "theme": Key(_name, "", "colours of the terminal UI: dark, light, ansi, or one of textual's themes", project=True),
    "ascii": Key(_boolean, False, "no sign beyond ASCII in the terminal UI", project=True),
    "notify": Key(_one_of(*NOTIFY), "auto", "when a run ends or stands still: auto, bell or none", project=True),
    "keymap": Key(keymap, {}, "keys of the terminal UI: ACTION=KEY, ..., or a mapping in a file"),
    "allow_tokens": Key(
        tokens, (), "variables that any job may send, as its code's token or in its image's name: VARIABLE@HOST, ..."
    ),
    "allow_folders": Key(folders, (), "folders that any job may take as code or build, though outside its own"),
}
_RESTRICTING = ("readonly", "no_input")
"""A project may set these, but not take them back."""


def load(
    flags: Mapping[str, Any], environ: Mapping[str, str], cwd: Path, explicit: str | None = None
) -> dict[str, Value]:
    """Every setting with its origin.

    `flags` are values the command line gave; `explicit` names a config file that takes the place of both others.
    Raises UsageError for a bad variable, SpecError for a bad file.
    """
    return load_all(flags, environ, cwd, explicit)[0]


def load_all(
    flags: Mapping[str, Any], environ: Mapping[str, str], cwd: Path, explicit: str | None = None
) -> tuple[dict[str, Value], tuple[str, ...]]:
    """As `load`, with what ./distui.yaml sets and may not, a sentence each: that is ignored."""
    found = {name: Value(key.default, "default") for name, key in KEYS.items()}
    ignored: list[str] = []
    for path, shown in _files(environ, cwd, explicit or environ.get("DISTUI_CONFIG")):
        values = _from_file(path, shown)
        if shown == PROJECT:
            ignored += [f"{v.origin}: {name} is ignored: {_IGNORED}" for name, v in values.items() if not _may(name, v)]
            values = {name: v for name, v in values.items() if _may(name, v)}
        found |= values
    found |= _from_environ(environ)
    found |= {k: Value(v, "--" + k.replace("_", "-")) for k, v in flags.items() if k in KEYS and v is not None}
    return found, tuple(ignored)


def output_asked(environ: Mapping[str, str], cwd: Path, explicit: str | None = None) -> str:
    """The output that a variable or a file asks for, whatever else is wrong there; "" where none does."""
    if (asked := environ.get("DISTUI_OUTPUT")) is not None:
        return asked
    from distui.spec.yaml.problems import Problems

    with contextlib.suppress(UsageError):
        for path, shown in reversed(_files(environ, cwd, explicit or environ.get("DISTUI_CONFIG"))):
            with contextlib.suppress(UsageError):
                if (found := _as_written(path, shown, Problems()).get("output")) is not None:
                    return str(found.value)
    return ""


PROJECT = "./distui.yaml"
"""How the file of the current folder is called in messages."""
_IGNORED = "it only counts in your own config file (`distui config path`), a variable or a flag"


def _may(name: str, value: Value) -> bool:
    return KEYS[name].project and (name not in _RESTRICTING or bool(value.value))


def _files(environ: Mapping[str, str], cwd: Path, explicit: str | None) -> list[tuple[Path, str]]:
    """The config files that exist, the weakest first, with the name to show for each."""
    if explicit:
        path = expanded(explicit)
        if absent(cwd / path):
            raise UsageError(f"{explicit}: there is no such config file", hint="`distui config path` lists the places")
        return [(cwd / path, explicit)]
    user = paths(environ).config_file
    places = [(user, str(user)), (cwd / "distui.yaml", PROJECT)]
    return [(path, shown) for path, shown in places if not absent(path)]


def _from_environ(environ: Mapping[str, str]) -> dict[str, Value]:
    found = {}
    for name, key in KEYS.items():
        variable = "DISTUI_" + name.upper()
        if variable in environ:
            try:
                found[name] = Value(key.read(environ[variable]), variable)
            except UsageError as exc:
                raise UsageError(f"{variable}: {exc.message}") from exc
    return found


def _from_file(path: Path, shown: str) -> dict[str, Value]:
    from distui.spec.yaml.problems import Problems

    problems = Problems()
    found = _as_written(path, shown, problems)
    problems.raise_any()
    return found


def _as_written(path: Path, shown: str, problems: Problems) -> dict[str, Value]:
    """What is right in a file; what is not is a problem. Raises UsageError for one that can't be read."""
    from distui.spec.yaml.document import parse
    from distui.spec.yaml.nodes import Source, Table

    try:
        source = Source(shown, read_text(path))
    except (OSError, UnicodeDecodeError) as exc:
        raise UsageError(f"{shown} {reason(exc)}") from exc
    found: dict[str, Value] = {}
    for document in parse(source, problems):
        if isinstance(document, Table):
            found |= _from_table(document, problems, path)
        else:
            problems.add(document, "", "expected settings, one `key: value` a line")
    return found


def _from_table(table: Table, problems: Problems, path: Path) -> dict[str, Value]:
    from distui.spec.yaml.nodes import Scalar, Table
    from distui.spec.yaml.problems import did_you_mean

    found = {}
    for name, (where, node) in table.pairs.items():
        if name == "version":
            continue
        if name not in KEYS:
            problems.add(where, name, f"unknown key{did_you_mean(name, KEYS)}")
            continue
        if name == "keymap" and isinstance(node, Table):  # in the form of one line
            text = ", ".join(f"{action}={getattr(keys, 'text', '')}" for action, (_, keys) in node.pairs.items())
        elif isinstance(node, Scalar):
            text = node.text
        else:
            problems.add(node, name, "expected one value")
            continue
        try:
            value = KEYS[name].read(text)
            if name == "hosts_file":  # relative to the file that says so, wherever distui is called
                value = str(path.parent / expanded(value))
        except UsageError as exc:
            problems.add(node, name, exc.message)
            continue
        found[name] = Value(value, f"{node.source.path}:{node.line}")
    return found


def refuse_strangers(folder: Path) -> None:
    """Raise UsageError for a folder of ours that others may have written to: its files say what is run on hosts."""
    try:
        check_folder(folder)
    except NotOurs as error:
        raise UsageError(
            f"{folder} {reason(error)}: what is in it may be a stranger's, and is not read",
            hint=f"look at what is there, then `chmod -R go-w {shlex.quote(str(folder))}`, or move it away",
        ) from None
    except OSError as error:
        raise UsageError(f"{folder} {reason(error)}") from None
