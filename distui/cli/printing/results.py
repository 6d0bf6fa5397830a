"""The promise of `run`, `attach` and `wait` with -o json or ndjson: exactly one `result`, however they end."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Any

import click

from distui.cli.console import Console
from distui.cli.signals import signals_end
from distui.cluster.masks import mask_of
from distui.cluster.settings import ClusterSettings
from distui.errors import DistuiError, ExitCode
from distui.runs.lines.event_json import to_json
from distui.runs.lines.events import Notice, RunEnded, RunOutcome
from distui.runs.store.masking import stored_secrets
from distui.runs.store.runs import StoredRun


class Promise:
    """What is known of the run when the call ends without having shown a run to its end."""

    def __init__(
        self, output: str, out: Console, run: str, *, starts: bool = False, settings: ClusterSettings | None = None
    ) -> None:
        """`settings` know values of secrets that a run which is recorded here may have been recorded without."""
        self.run = run
        self.stored: StoredRun | None = None
        """The run as it is recorded here; its own result is given where it has one."""
        self._out = out
        self._output = output
        self._settings = settings
        self._starts = starts

    def keep(self, work: Callable[[], int]) -> int:
        """Do `work`, which returns the exit code, and give the result that it did not give. Raises what it raises."""
        if self._output not in ("json", "ndjson"):
            return work()
        try:
            with signals_end(signal.SIGTERM, signal.SIGHUP):
                code = work()
        except BaseException as error:
            self.broken_by(error)
            raise
        self._give(code, "")
        return code

    def broken_by(self, error: BaseException) -> None:
        """Give the result of a call that this error ends, unless one was given."""
        self._give(*_of_error(error))

    def _give(self, code: int, error: str) -> None:
        if self._out.result_given:
            return
        recorded = self._recorded(self.stored) if self.stored is not None and not error else None
        result = recorded if recorded is not None and recorded.get("exit") == code else self._made(code)
        errors = [error] if error else []
        if self._output == "json":
            self._out.result({**result, "errors": errors})
            return
        with self._out.said_if_lost():
            for text in errors:
                self._out.json(self._notice(text))
        self._out.result(result)

    def _recorded(self, stored: StoredRun) -> dict[str, Any] | None:
        """The result as it is stored, with values hidden that were recorded by a distui which did not know them."""
        result = stored.result()
        if self._settings is None:
            return result
        return mask_of(self._settings, stored_secrets(stored)).event(result)

    def _made(self, code: int) -> dict[str, Any]:
        log_dir = str(self.stored.log_dir) if self.stored is not None else ""
        (result,) = to_json(RunEnded(time.time(), self._outcome(code), code, log_dir=log_dir), self.run)
        return result

    def _notice(self, text: str) -> dict[str, Any]:
        (notice,) = to_json(Notice(time.time(), "error", text), self.run)
        return notice

    def _outcome(self, code: int) -> RunOutcome:
        """What the exit code says of the run: a start that failed left none; a viewer that left changed nothing."""
        if self._starts:
            return "stopped" if code in (ExitCode.INTERRUPTED, ExitCode.TERMINATED) else "launch_failed"
        if code in (ExitCode.OK, ExitCode.RANK_FAILED):
            return "succeeded" if code == ExitCode.OK else "failed"
        left = (ExitCode.TIMEOUT, ExitCode.INTERRUPTED, ExitCode.TERMINATED)
        return "detached" if code in left else "unknown"


def _of_error(error: BaseException) -> tuple[int, str]:
    """The exit code and the words of what ends a call."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error.__cause__, KeyboardInterrupt):  # while a class was made
        error = error.__cause__
    match error:
        case DistuiError():
            return error.exit_code, error.message + (f" ({error.hint})" if error.hint else "")
        case KeyboardInterrupt() | click.Abort():
            return ExitCode.INTERRUPTED, "interrupted"
        case click.exceptions.Exit():
            return error.exit_code, ""
        case click.ClickException():
            return ExitCode.USAGE, error.format_message()
        case _:
            return ExitCode.BUG, f"a bug in distui ({type(error).__name__})"
