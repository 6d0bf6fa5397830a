"""A call of distui: runs a verb and turns how it ended into words and an exit code."""

from __future__ import annotations

import codecs
import io
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distui.cli import process
from distui.cli.promised import promised
from distui.errors import DistuiError, ExitCode

if TYPE_CHECKING:
    import click


def main(argv: Sequence[str] | None = None) -> int:
    """Run distui with `argv` (the process's own by default) and return its exit code. Never raises."""
    words = list(sys.argv[1:] if argv is None else argv)
    _open_missing_streams()
    _take_any_text()
    if process.COMPLETE not in os.environ:
        return _done(words)
    with Path(os.devnull).open("w") as nothing, redirect_stderr(nothing):  # what is being typed is no mistake yet
        return _done(words)


def _done(words: list[str]) -> int:
    """The exit code of a call, whatever ends it."""
    seen: dict[str, Any] = {}
    try:
        status = _call(words, seen)
        sys.stdout.flush()
        return status
    except BaseException as exc:  # the last line of defence
        return _ended(exc, words, seen)


def _open_missing_streams() -> None:
    """A caller may close stdin, stdout or stderr altogether (`<&-`, `>&-`): nothing comes in, nobody reads.

    The descriptors are taken, too: else the next file or connection that is opened gets the number of, say, stdout,
    and a program that is started here prints into it.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            setattr(sys, name, open(_nothing(number), mode, closefd=False))  # noqa: SIM115 - as long as the process


def _nothing(number: int) -> int:
    """A descriptor of an empty file: the wanted one where that is free."""
    found = os.open(os.devnull, os.O_RDWR)
    os.set_inheritable(found, found == number)
    return found


def _take_any_text() -> None:
    """Names of files may hold what is no text, or what a terminal's encoding does not have: shown as `?`.

    Under LANG=C such names come out to the byte, as Python has it there: a program that reads them finds the files.
    """
    if not isinstance(sys.stdout, io.TextIOWrapper):
        return
    if sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="replace")
    elif sys.stdout.errors == "surrogateescape":
        codecs.register_error("distui.bytes", _as_bytes)
        sys.stdout.reconfigure(errors="distui.bytes")


def _as_bytes(error: UnicodeError) -> tuple[bytes, int]:
    """An error handler of codecs: bytes that were no text as they were, anything else `?`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    codes = [ord(letter) for letter in error.object[error.start : error.end]]
    return bytes(code - 0xDC00 if 0xDC80 <= code <= 0xDCFF else ord("?") for code in codes), error.end


def _call(words: list[str], seen: dict[str, Any]) -> int:
    """The exit code of a call, and words on stderr where it is wrong; click's own object is what it has `seen`.

    Raises what is no error made on purpose.
    """
    try:
        with promised(words, seen):
            from distui.cli.app import build

            status = build().main(args=words, prog_name="distui", standalone_mode=False, obj=seen)
        return status if isinstance(status, int) else ExitCode.OK
    except SystemExit as exc:  # click's way out of completion, and (1) when stdout was closed under it
        return _quiet_end() if exc.code == 1 else ExitCode.OK
    except (BrokenPipeError, KeyboardInterrupt):
        raise
    except Exception as exc:
        return _reported(exc)


def _reported(exc: Exception) -> int:
    """The exit code of an error made on purpose, by click or by distui, said on stderr. Raises any other."""
    import click

    if isinstance(exc, click.exceptions.Exit):
        return exc.exit_code
    if isinstance(exc, click.Abort):  # click's word for Ctrl-C
        _tell("distui: interrupted")
        return ExitCode.INTERRUPTED
    if isinstance(exc, click.ClickException):
        return _wrong_usage(exc)
    if (error := _expected(exc)) is None:
        raise exc
    _tell(_in_words(error))
    _show(error)
    return error.exit_code


def _expected(exc: BaseException) -> DistuiError | None:
    """The first error raised on purpose in a group, None when something else is in it."""
    if isinstance(exc, ExceptionGroup) and exc.split(DistuiError)[1] is None:
        return _expected(exc.exceptions[0])
    return exc if isinstance(exc, DistuiError) else None


def _ended(exc: BaseException, words: Sequence[str], seen: Mapping[str, Any]) -> int:
    """The exit code of a call that an exception ended: stdout is closed or full, Ctrl-C, or else a bug."""
    if _only(exc, BrokenPipeError):
        return _quiet_end()
    if isinstance(exc, OSError) and _is_of_stdout(exc):
        return _unwritten(exc)
    if _only(exc, KeyboardInterrupt) or isinstance(exc.__cause__, KeyboardInterrupt):  # while a class was made
        _tell("distui: interrupted")
        return ExitCode.INTERRUPTED
    return _crashed(exc, words, seen)


def _only(exc: BaseException, kind: type[BaseException]) -> bool:
    """Whether it is of a kind, or a group of nothing else, which is what tasks side by side end in."""
    if isinstance(exc, BaseExceptionGroup):
        return exc.split(kind)[1] is None
    return isinstance(exc, kind)


def _wrong_usage(exc: click.ClickException) -> int:
    import click

    message = (_likely(exc) if isinstance(exc, click.NoSuchOption) else exc).format_message()
    words = f"{message[:1].lower()}{message[1:]}" if message[1:2].islower() else message
    ctx = exc.ctx if isinstance(exc, click.UsageError) else None
    see = f"see: {ctx.command_path if ctx else 'distui'} --help"
    see += _more_to_see(exc, ctx)
    _tell(f"distui: {words}")
    _tell(f"  {see}")
    _show([words, see])
    return ExitCode.USAGE


def _more_to_see(exc: click.ClickException, ctx: click.Context | None) -> str:
    """What helps beside the help: which runs there are, and where the words of a command stand."""
    import click

    from distui.cli.options import AFTER, COMMAND_WORDS, RUN, Verb

    if isinstance(exc, click.MissingParameter) and exc.param is not None and exc.param.type is RUN:
        return "; `distui ps -a` lists the runs"
    takes_words = ctx is not None and isinstance(ctx.command, Verb) and ctx.command.takes_words
    forgotten = isinstance(exc, click.NoSuchOption) and takes_words and ctx is not None and AFTER not in ctx.meta
    return f"; {COMMAND_WORDS}" if forgotten else ""


def _likely(exc: click.NoSuchOption) -> click.NoSuchOption:
    """The same with the nearest option alone, if one is near: for click dashes are likeness, too."""
    import click

    from distui.spec.yaml.problems import nearest

    near = nearest(exc.option_name.lstrip("-"), (option.lstrip("-") for option in exc.possibilities or ()))
    return click.NoSuchOption(exc.option_name, possibilities=[f"--{near}"] if near else None, ctx=exc.ctx)


def _in_words(error: DistuiError) -> str:
    """An error as lines for stderr: what and where, then what to do."""
    from distui.errors import HostError, PlanError, SpecError
    from distui.facts.troubles import in_words

    if isinstance(error, SpecError):
        return _problems(error)
    if isinstance(error, PlanError) and len(error.reasons) > 1:
        lines = [f"distui: there is no plan, for {len(error.reasons)} reasons:", *(f"  - {r}" for r in error.reasons)]
    else:
        message = error.message
        if isinstance(error, HostError) and error.host:
            message = in_words(error.host, message)
        lines = [f"distui: {message}"]
    if error.hint:
        lines.append(f"  try: {error.hint}")
    return "\n".join(lines)


def _problems(error: DistuiError) -> str:
    from distui.errors import SpecError
    from distui.spec.yaml.problems import render

    problems = error.problems if isinstance(error, SpecError) else ()
    shown = [render(p) for p in problems]
    if len(shown) > 1:
        shown.append(f"distui: {len(shown)} problems; nothing was contacted")
    return "\n".join(shown)


def _tell(text: str) -> None:
    """Words on stderr, without anything that could steer a terminal."""
    from distui.runs.lines.text import safe_lines

    try:
        sys.stderr.write(safe_lines(text) + "\n")
        sys.stderr.flush()
    except OSError:
        from distui.cli.console import discard

        discard(sys.stderr)


def _show(reason: DistuiError | Sequence[str]) -> None:
    """What ends the call, in the page of `distui serve` that it is for: nobody there reads stderr."""
    if "TEXTUAL_DRIVER" in os.environ:
        from distui.cli.runs import page

        page.show_reason(reason)


def _quiet_end() -> int:
    """Nobody reads stdout any more (`| head`): end without a word, as a reader wants it."""
    from distui.cli.console import discard

    discard(sys.stdout)
    return ExitCode.OK


def _is_of_stdout(error: OSError) -> bool:
    """Whether it came from writing to stdout: by click's `echo`, for help, or what is left there can't be written."""
    import traceback

    import click

    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    if frame.f_code is click.echo.__code__:
        return True
    try:
        sys.stdout.flush()
    except OSError as again:
        return again.errno == error.errno
    return False


def _unwritten(error: OSError) -> int:
    """stdout can't be written, its disk is full."""
    from distui.cli.console import discard, unwritten

    discard(sys.stdout)
    said = unwritten(error)
    _tell(_in_words(said))
    return said.exit_code


def _crashed(exc: BaseException, words: Sequence[str], seen: Mapping[str, Any]) -> int:
    if isinstance(exc, SystemExit):
        return exc.code if isinstance(exc.code, int) else ExitCode.BUG
    from distui.cli.crash import report, write_crash
    from distui.cli.settings import ENV_FILE

    secrets = seen.get(ENV_FILE, {}).values()
    place = write_crash(exc, words, os.environ, secrets)
    bug = f"a bug in distui ({type(exc).__name__}); "
    _tell(f"distui: {bug}" + (f"details are in {place}" if place else "see below"))
    _show([bug + (f"details are in {place}" if place else "details are where it was started")])
    if place is None:
        _tell(report(exc, words, os.environ, secrets))
    return ExitCode.BUG


if __name__ == "__main__":
    sys.exit(process.program())
