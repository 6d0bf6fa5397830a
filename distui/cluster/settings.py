"""What a cluster is worked with: folders of this machine, limits, and what jobs may take from here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from distui import config
from distui.config import Config, Paths
from distui.errors import UsageError
from distui.frozen import frozen
from distui.runs.attempt.limits import Limits
from distui.runs.store.runs import RunStore


@frozen
class ClusterSettings:
    """Settings of a cluster; those of `load` are the command line's. Programs use that and the fields."""

    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ), repr=False)
    """For folders (`XDG_*_HOME`), values of secrets, and what job files expand."""
    parallel: int = 64
    """Hosts contacted at once."""
    connect_timeout: float | None = None
    """Seconds for connecting to a host; None: as the inventory says."""
    timeout: float | None = None
    """Seconds after which a run is stopped; None: never."""
    lost_after: float = 600.0
    """Seconds that a run waits for a host that is out of reach."""
    readonly: bool = False
    """Whether nothing is changed on hosts."""
    readonly_by: str = "the settings"
    """What says so: a flag, a variable, a line of a file."""
    allow_tokens: tuple[tuple[str, str], ...] = ()
    """Variables, and hosts to which any job's code may send them."""
    allow_folders: tuple[str, ...] = ()
    """Folders that any job may take as code or build, though outside its own."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Values of secrets beside those in `environ`, as `--env-file` gives them; where both have one, these count."""

    @classmethod
    def load(cls, environ: Mapping[str, str] | None = None, **changes: Any) -> ClusterSettings:
        """Those of the config files and `DISTUI_*` variables, with `changes` on top.

        A change may be a text as in these files (`timeout="2h"`). Raises UsageError or SpecError for what is wrong.
        """
        environ = dict(os.environ if environ is None else environ)
        given = {name: _given(name, value) for name, value in changes.items()}
        if "readonly" in given:
            given.setdefault("readonly_by", "the settings")
        return replace(cls.of(config.load({}, environ, Path.cwd()), environ), **given)

    @classmethod
    def of(cls, found: Config, environ: Mapping[str, str]) -> ClusterSettings:
        """Those among the settings of a call."""
        names = ("parallel", "connect_timeout", "timeout", "lost_after", "readonly", "allow_tokens", "allow_folders")
        values = {name: found[name].value for name in names}
        return cls(environ=environ, readonly_by=found["readonly"].origin, **values)

    @property
    def paths(self) -> Paths:
        """distui's folders."""
        return config.paths(self.environ)

    @property
    def store(self) -> RunStore:
        """The runs recorded on this machine."""
        return RunStore(self.paths.state)

    @property
    def variables(self) -> Mapping[str, str]:
        """Where the values of secrets are looked for."""
        return {**self.environ, **self.secrets}

    def limits(self, *, adopted: bool = False) -> Limits:
        """How long a run may take and waits for lost hosts; who attaches to another's does not end it by a limit."""
        return Limits(run=None if adopted else self.timeout, lost=self.lost_after)

    def refuse_readonly(self, what: str, hint: str = "set `readonly: false`") -> None:
        """Raise UsageError when nothing may be changed."""
        if self.readonly:
            raise UsageError(f"{what} is refused: read-only by {self.readonly_by}", hint=hint)


def _given(name: str, value: Any) -> Any:
    """What a program sets. Raises UsageError now for a value that no run could be worked on with."""
    if name not in config.KEYS or (value is None and config.KEYS[name].default is None):
        return value
    if isinstance(value, str) or name == "parallel":
        try:
            return config.KEYS[name].read(str(value))
        except UsageError as error:
            raise UsageError(f"{name}: {error.message}") from None
    if config.KEYS[name].read is config.seconds and not (isinstance(value, int | float) and value >= 0):
        raise UsageError(f"{name}: {value!r} is not a number of seconds")
    return value
