"""The terminal as verbs see it: data to stdout, distui's own words to stderr, colours only where wanted."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from distui.cli.settings import Settings
from distui.errors import OutputFailed, UsageError
from distui.regex import regex
from distui.whole import whole

if TYPE_CHECKING:
    from distui.runs.lines.events import Level

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def use_colour(choice: str, environ: Mapping[str, str], tty: bool) -> bool:
    """Whether to colour a stream: `--color`, then NO_COLOR (no-color.org), FORCE_COLOR, TERM=dumb, then the tty."""
    if choice != "auto":
        return choice == "always"
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR"):
        return True
    return tty and environ.get("TERM", "dumb") not in ("dumb", "")


@dataclass(slots=True)
class Console:
    """Both streams of one call."""

    out: IO[str]
    err: IO[str]
    out_colour: bool
    err_colour: bool
    width: int
    quiet: bool = False
    redraws: bool = False
    """Whether stdout is a terminal on which a picture can take the place of the one before."""
    lines: bool = False
    """Whether a JSON value is one line, on a terminal, too (-o ndjson)."""
    notify: str = "none"
    """The setting of that name, where stderr is a terminal."""
    result_given: bool = False
    """Whether the `result` of a run was written (`results.py`)."""

    def say(self, text: str, style: str = "") -> None:
        """Words for people, on stderr; nothing with -q."""
        if not self.quiet:
            self.warn(text, style)

    def is_read(self) -> bool:
        """Whether somebody can still read stdout; not where the caller closed it, or the reader of a pipe is gone."""
        import select

        if self.out is sys.stdout and sys.__stdout__ is None:
            return False
        look = select.poll()
        with contextlib.suppress(OSError, ValueError):  # not a stream of the system's
            look.register(self.out.fileno(), 0)
        return not any(what & (select.POLLERR | select.POLLHUP) for _, what in look.poll(0))

    def tell(self, text: str, level: Level = "info") -> None:
        """Words of the application layer, said as distui's; with -q only warnings and errors."""
        match level:
            case "info":
                self.say(f"distui: {text}")
            case "warning":
                self.warn(f"distui: {text}", "yellow")
            case "error":
                self.warn(f"distui: {text}", "red")

    def warn(self, text: str, style: str = "") -> None:
        """Words that are said even with -q. A closed stderr, or a full disk behind it, ends nothing.

        Whoever they come from, a host or a file of others: nothing in them steers the terminal.
        """
        from distui.runs.lines.text import safe_lines

        try:
            self.err.write(self.paint(safe_lines(text), style, self.err_colour) + "\n")
            self.err.flush()
        except OSError:
            self.quiet = True
            discard(self.err)

    def size(self) -> tuple[int, int]:
        """Columns and rows of the terminal that stdout is now; (the columns as at the start, 0) where it is none."""
        try:
            found = os.get_terminal_size(self.out.fileno())
        except (OSError, ValueError):
            return self.width, 0
        return found.columns or self.width, found.lines

    def print(self, text: str) -> None:
        """Data as lines on stdout. Raises as `write`."""
        self.write(text if text.endswith("\n") else text + "\n")

    def write(self, text: str) -> None:
        """Data on stdout. Raises BrokenPipeError when nobody reads any more, OutputFailed when it can't be written."""
        try:
            self.out.write(text)
            self.out.flush()
        except BrokenPipeError:
            raise
        except OSError as exc:
            discard(self.out)
            raise unwritten(exc) from exc

    def result(self, value: Any, where: str = "") -> None:
        """The `result` of a run. That it can't be written is said, with where else it is; the run ended as it did."""
        self.result_given = True
        with self.said_if_lost(where):
            self.json(value)

    @contextlib.contextmanager
    def said_if_lost(self, where: str = "") -> Iterator[None]:
        """Output without which the call has still done its work: it ends nothing that it can't be written."""
        try:
            yield
        except BrokenPipeError:
            discard(self.out)
        except OutputFailed as exc:
            self.warn(f"distui: {exc.message}" + (f"; {where}" if where else ""), "red")

    def json(self, value: Any) -> None:
        """One JSON value, indented for people when stdout is a terminal."""
        indent = 2 if self.out.isatty() and not self.lines else None
        self.print(as_json(value, indent=indent))

    @staticmethod
    def paint(text: str, style: str, colour: bool) -> str:
        """`text` in `style` (words of `_CODES`)."""
        codes = ";".join(_CODES[s] for s in style.split())
        return f"\x1b[{codes}m{text}\x1b[0m" if codes and colour else text

    def styled(self, text: str, style: str) -> str:
        """`text` painted for stdout."""
        return self.paint(text, style, self.out_colour)


_C1 = regex("[\x7f-\x9f]")
"""DEL, and what a terminal takes for ESC and another character: JSON itself escapes what is below a blank only."""


def as_json(value: Any, *, indent: int | None = None, compact: bool = False) -> str:
    """A value as JSON for stdout, with nothing in it that steers a terminal; `compact` without blanks."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=(",", ":") if compact else None)
    return text if text.isascii() and "\x7f" not in text else _C1.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def unwritten(error: OSError) -> OutputFailed:
    """In words that stdout can't be written."""
    return OutputFailed(f"can't write the output: {error.strerror or error}")


def discard(stream: IO[str]) -> None:
    """What is still buffered, and what comes, goes nowhere: Python would try to write it out at the end."""
    with contextlib.suppress(OSError, ValueError), open(os.devnull, "wb") as nothing:  # noqa: PTH123
        os.dup2(nothing.fileno(), stream.fileno())


def of(settings: Settings) -> Console:
    """The console of this process."""
    choice = settings["color"]
    return Console(
        out=sys.stdout,
        err=sys.stderr,
        out_colour=use_colour(choice, settings.environ, sys.stdout.isatty()),
        err_colour=use_colour(choice, settings.environ, sys.stderr.isatty()),
        width=_columns(settings.environ) if sys.stdout.isatty() else 0,
        quiet=settings.quiet,
        lines=settings.output == "ndjson",
        notify=settings["notify"] if sys.stderr.isatty() else "none",
        redraws=sys.stdout.isatty() and settings.environ.get("TERM", "dumb") not in ("dumb", ""),
    )


def _columns(environ: Mapping[str, str]) -> int:
    """The terminal's width: COLUMNS, else what the terminal says, else 80."""
    if columns := whole(environ.get("COLUMNS", "")):
        return columns
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except OSError:
        return 80


def confirm(console: Console, settings: Settings, question: str, *, default: bool = False) -> bool:
    """Ask on the terminal; the answer is yes with -y.

    Raises UsageError when there is nobody to ask (--no-input, or stdin is not a terminal).
    """
    if settings["yes"]:
        return True
    _ask(console, settings, question, default=default)
    return _is_yes(sys.stdin.readline(), default=default)


async def confirm_async(console: Console, settings: Settings, question: str, *, default: bool = False) -> bool:
    """As `confirm`, in an event loop: connections stay alive meanwhile, and Ctrl-C is an answer."""
    import asyncio

    if settings["yes"]:
        return True
    _ask(console, settings, question, default=default)
    loop, fd = asyncio.get_running_loop(), sys.stdin.fileno()
    ready = asyncio.Event()
    loop.add_reader(fd, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(fd)
    return _is_yes(os.read(fd, 4096).decode("utf-8", "replace"), default=default)


def _ask(console: Console, settings: Settings, question: str, *, default: bool) -> None:
    if settings["no_input"] or not sys.stdin.isatty():
        raise UsageError(f"{question} There is no terminal to answer on", hint="give -y to say yes")
    from distui.runs.lines.text import safe_lines

    console.err.write(f"{safe_lines(question)} {'[Y/n]' if default else '[y/N]'} ")
    console.err.flush()


def _is_yes(answer: str, *, default: bool) -> bool:
    """The answer; end of file is a no, an empty line the default."""
    word = answer.strip().lower()
    return word in ("y", "yes") if word or not answer else default
