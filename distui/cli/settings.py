"""The resolved options of one call of `distui`: flags, variables and config files."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from distui import config
from distui.cli.outputs import outputs_of
from distui.config import Config, Paths, Value
from distui.errors import UsageError
from distui.frozen import frozen

if TYPE_CHECKING:
    from distui.cluster.attach.places import Places
    from distui.cluster.hosts.selection import Selection
    from distui.cluster.settings import ClusterSettings

ENV_FILE = "distui.env_file"
"""Key of click's object, beside the global options, under which the variables of `--env-file` are found: a crash file
hides their values."""


@frozen
class Settings:
    """The resolved global options of one call."""

    environ: Mapping[str, str]
    cwd: Path
    config: Config
    hosts: tuple[str, ...] = ()
    labels: Mapping[str, str] | None = None
    hostfile: str | None = None
    quiet: bool = False
    verbose: int = 0
    env_file: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The variables of `--env-file`."""

    def __getitem__(self, key: str) -> Any:
        return self.config[key].value

    @property
    def paths(self) -> Paths:
        """distui's folders."""
        return config.paths(self.environ)

    @property
    def output(self) -> str:
        """`table`, `wide`, `json`, `ndjson` or `name`."""
        return str(self["output"])

    @property
    def json(self) -> bool:
        """Whether stdout is one JSON value."""
        return self.output == "json"

    @property
    def timeout(self) -> float | None:
        """Seconds for the whole command, None without limit."""
        value: float | None = self["timeout"]
        return value

    @property
    def cluster(self) -> ClusterSettings:
        """Those that programs have, too."""
        from distui.cluster.settings import ClusterSettings

        return replace(ClusterSettings.of(self.config, self.environ), secrets=self.env_file)

    @property
    def selection(self) -> Selection:
        """The hosts this call is about."""
        from distui.cluster.hosts.selection import Selection

        named = str(self["hosts_file"] or "")
        return Selection(self.cwd, self.paths.hosts_file, self.hosts, self.labels, self.hostfile, named)

    @property
    def places(self) -> Places:
        """Finds runs for this call."""
        from distui.cluster.attach.places import Places

        return Places(self.cluster, self.selection)

    def with_flags(self, **flags: Any) -> Settings:
        """These settings with a verb's own flags on top; flags that are None were not given."""
        given = {k: Value(v, "--" + k.replace("_", "-")) for k, v in flags.items() if v is not None}
        return replace(self, config={**self.config, **given})

    def refuse_readonly(self, what: str, hint: str = "call it without --readonly") -> None:
        """Raise UsageError when `--readonly` forbids `what`."""
        self.cluster.refuse_readonly(what, hint)


def settings_of(ctx: click.Context) -> Settings:
    """The settings of the call that `ctx` belongs to. Raises UsageError or SpecError."""
    flags: dict[str, Any] = dict(ctx.find_object(dict) or {})
    flags.pop(ENV_FILE, None)
    explicit = flags.pop("config", None)
    environ = dict(os.environ)
    cwd = _here()
    own = config.paths(environ)
    for folder in (own.config, own.state, own.runs, own.cache):
        config.refuse_strangers(folder)
    values, ignored = config.load_all(flags, environ, cwd, explicit)
    if ignored:
        from distui.runs.lines.text import safe_lines

        with contextlib.suppress(OSError):
            sys.stderr.write("".join(f"distui: {safe_lines(words)}\n" for words in ignored))
    env_file = env_files(flags.get("env_file", ()))
    ctx.ensure_object(dict)[ENV_FILE] = env_file
    return Settings(
        environ=environ,
        cwd=cwd,
        config=_with_output(ctx, values),
        hosts=flags.get("host", ()),
        labels=_labels(flags["label"]) if "label" in flags else None,
        hostfile=flags.get("hostfile"),
        quiet=bool(flags.get("quiet")),
        verbose=flags.get("verbose", 0),
        env_file=env_file,
    )


def _here() -> Path:
    try:
        return Path.cwd()
    except OSError as exc:
        raise UsageError(
            f"the current folder can't be determined: {exc.strerror or exc}", hint="run distui in a folder that exists"
        ) from exc


def env_file_values() -> Collection[str]:
    """The values of `--env-file` of the call that is under way, for a crash file, which hides them."""
    ctx = click.get_current_context(silent=True)
    seen = ctx.find_object(dict) if ctx is not None else None
    return tuple((seen or {}).get(ENV_FILE, {}).values())


def env_files(files: Sequence[str]) -> dict[str, str]:
    """The variables of --env-file, as docker reads them: `K=V` lines, `#` comments, no quotes; what editors of Windows
    write, too. A line ends where docker ends it, not at a form feed or U+2028, which may stand in a value."""
    if not files:
        return {}
    from distui.spec.yaml.files import read_text

    found = {}
    for path in files:
        for number, ended in enumerate(read_text(path).split("\n"), 1):
            line = ended.removesuffix("\r")
            if not line.strip() or line.startswith("#"):
                continue
            name, equals, value = line.partition("=")
            if not equals or not name or name != name.strip():
                raise UsageError(f"{path}:{number}: write NAME=VALUE, without blanks around the name")
            found[name] = value
    return found


def _with_output(ctx: click.Context, found: Config) -> Config:
    """The settings with an output that the verb has: what a variable or a file asks for holds for those that can."""
    if found["output"].value in outputs_of(ctx.command):
        return found
    return {**found, "output": Value("table", "default")}


def _labels(pairs: tuple[str, ...]) -> dict[str, str]:
    from distui.spec.choose import parse_label

    return dict(parse_label(pair) for pair in pairs)
