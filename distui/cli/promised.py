"""The `result` of `run`, `attach` and `wait` for programs, where the call ends before its verb begins or beside it.

A wrong flag, a variable or a config file that can't be read, a home that is missing: the verb's own promise
(`printing/results.py`) is not made yet then, and a program would read nothing.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distui.cli.signals import signals_end
from distui.frozen import frozen

if TYPE_CHECKING:
    import click

VERBS = ("run", "attach", "wait")


@frozen
class Asked:
    """A call that ends with one `result`."""

    output: str
    """`json` or `ndjson`."""
    run: str
    """As far as the command line names it."""
    starts: bool
    """Whether it starts a run."""


@contextlib.contextmanager
def promised(words: Sequence[str], seen: Mapping[str, Any]) -> Iterator[None]:
    """Give the result of a call that an error ends, unless it gave one; click's own object is what it has `seen`.

    What the words ask for is only read when it is needed. Nothing dear is imported before.
    """
    if not {*VERBS} & {*words}:
        yield
        return
    for_programs = any("json" in word for word in (*words, os.environ.get("DISTUI_OUTPUT", "")))
    try:
        with signals_end(*((signal.SIGTERM,) if for_programs else ())):
            yield
    except SystemExit:  # what a shell's completion asks for
        raise
    except BaseException as error:
        _give_for(words, seen, error)
        raise


def _give_for(words: Sequence[str], seen: Mapping[str, Any], error: BaseException) -> None:
    from click.exceptions import Exit

    from distui.cli.app import build
    from distui.cli.options import CONSOLE

    if isinstance(error, Exit):  # help
        return
    asked = _asked(build(), words)
    if asked is not None:
        _give(asked, seen.get(CONSOLE), error)


def _give(asked: Asked, used: object, error: BaseException) -> None:
    from distui.cli.console import Console
    from distui.cli.printing.results import Promise

    lines = asked.output == "ndjson"
    made = Console(sys.stdout, sys.stderr, out_colour=False, err_colour=False, width=0, lines=lines)
    out = used if isinstance(used, Console) else made
    Promise(asked.output, out, asked.run, starts=asked.starts).broken_by(error)


def _asked(root: click.Group, words: Sequence[str]) -> Asked | None:
    """What a command line asks for, which may be wrong; None for one that promises nothing."""
    import click

    before, rest = _read(root, words)
    at = next((n for n, word in enumerate(rest) if word in root.list_commands(click.Context(root))), None)
    command = root.get_command(click.Context(root), rest[at]) if at is not None and rest[at] in VERBS else None
    if at is None or command is None:
        return None
    after = rest[at + 1 :]
    given, _ = _read(command, after[: after.index("--")] if "--" in after else after)
    if given.get("dry_run"):
        return None
    output = _output(given) or _output(before) or _by_settings(given.get("config") or before.get("config"))
    run = given.get("name" if rest[at] == "run" else "run")
    return Asked(output, str(run or ""), rest[at] == "run") if output in ("json", "ndjson") else None


def _read(command: click.Command, words: Sequence[str]) -> tuple[Mapping[str, Any], list[str]]:
    """Values of its options and arguments, and the words that are neither; what is wrong is passed over."""
    import click

    ctx = click.Context(command, resilient_parsing=True, ignore_unknown_options=True)
    options = [p for p in command.get_params(ctx) if isinstance(p, click.Option)]
    alone = {name for p in options if p.is_flag or p.count for name in p.opts}
    tidy = [name if (name := word.partition("=")[0]) in alone else word for word in words]
    values, rest, _ = command.make_parser(ctx).parse_args(args=tidy)
    return {name: value for name, value in values.items() if isinstance(value, str | bool)}, rest


def _output(given: Mapping[str, Any]) -> str:
    return "json" if given.get("json") else str(given.get("output") or "")


def _by_settings(config: object) -> str:
    from distui.config import output_asked

    with contextlib.suppress(OSError):
        return output_asked(os.environ, Path.cwd(), str(config or "") or None)
    return os.environ.get("DISTUI_OUTPUT", "")
