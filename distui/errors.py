"""Every error distui raises on purpose, and the exit code each one ends the program with.

DistuiError
├── UsageError                 the command line or a file is wrong; nothing was contacted      2
│   └── SpecError              hosts.yaml or a job file: every problem with its place          2
├── OutputFailed               stdout can't be written: its disk is full                   2
├── CheckFailed                a probe or a preflight check failed; nothing was started        3
│   └── PlanError              the plan can't be made from these facts                         3
├── HostError                  one host can't be used; carries host, code and hint             4
│   ├── HostUnreachable        no connection: dns, refused, timeout, no route                  4
│   ├── HostAuthError          the host refuses every key                                      4
│   ├── HostKeyError           unknown or changed host key                                     4
│   ├── HostCommandError       a command on the host failed or timed out                       4
│   └── SessionLost            a connection that worked is gone                                6
├── LaunchFailed               launch failed part way and was rolled back                      5
├── ContactLost                a run's state is unknown; it may still be running               6
└── NotFound                   no such run or rank, or the one host that is asked for          7
"""

from __future__ import annotations

import copyreg
from enum import IntEnum
from typing import Any

from distui.frozen import frozen


class ExitCode(IntEnum):
    """Exit codes of the `distui` command (documented in `--help`)."""

    OK = 0
    """Success; a run in which every rank succeeded."""
    RANK_FAILED = 1
    """The run finished and some rank failed."""
    USAGE = 2
    """Usage or config error, nothing was contacted; or what was asked for can't be written."""
    CHECK_FAILED = 3
    """A preflight or probe check failed, nothing was started."""
    UNREACHABLE = 4
    """A host was unreachable or refused the login before the start."""
    LAUNCH_FAILED = 5
    """The launch failed part way and was rolled back."""
    CONTACT_LOST = 6
    """Contact was lost: the run's state is unknown, and it may still be running."""
    NOT_FOUND = 7
    """No such run or rank, or not the one host that is asked for."""
    BUG = 70
    """A bug in distui; the crash file is named."""
    TIMEOUT = 124
    """`--timeout` was reached and the run was stopped."""
    INTERRUPTED = 130
    """Stopped by SIGINT."""
    TERMINATED = 143
    """Stopped by SIGTERM or SIGHUP."""


class DistuiError(Exception):
    """Base of all errors distui raises on purpose: one sentence saying what, where and what to do."""

    exit_code: ExitCode = ExitCode.BUG

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if hint:
            self.add_note(f"try: {hint}")  # for those who see a traceback

    def __reduce__(self) -> tuple[Any, ...]:
        """See pickle: a pool of processes hands errors on. By default one is made again from its words alone, and a
        pool waits for ever for one that can't be made.
        """
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


class UsageError(DistuiError):
    """The command line can't be carried out as written; nothing was contacted."""

    exit_code = ExitCode.USAGE


class OutputFailed(DistuiError):
    """What was asked for can't be written to stdout; that nobody reads it any more is no error."""

    exit_code = ExitCode.USAGE


@frozen
class Problem:
    """One problem in a file: where it is and what to do about it.

    `line` and `column` count from 1; 0 means the problem has no place in the text
    (for instance an unreadable file). `snippet` is the source line, shown with a caret.
    """

    path: str
    line: int
    column: int
    key: str
    message: str
    snippet: str = ""

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}:{self.column}" if self.line else self.path
        subject = f"{self.key}: " if self.key else ""
        return f"{place}: {subject}{self.message}"


class SpecError(UsageError):
    """A file distui reads is wrong: carries every problem at once, in file order."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("\n".join(str(p) for p in problems))
        self.problems = problems


class CheckFailed(DistuiError):
    """A check made before the start failed; nothing was started."""

    exit_code = ExitCode.CHECK_FAILED


@frozen
class PlanProblem:
    """One reason why there is no plan: on which host (None: the job as a whole), what, and what to do about it.

    `code` is a stable word for scripts: `job`, `hosts`, `nodes`, `not_probed`, `home`, `engine`, `gpus`, `gpus_busy`,
    `same_machine`, `ranks`, `roles`, `env`, `data`, `network`, `rdma`, `rendezvous`, `port`, `port_taken`, `not_read`,
    `attempt`, or the code of the HostError of a host that did not answer.
    """

    code: str
    host: str | None
    message: str
    hint: str = ""
    port: int = 0
    """The port that somebody listens on there."""

    def __str__(self) -> str:
        where = f"{self.host}: " if self.host else ""
        return f"{where}{self.message}" + (f" ({self.hint})" if self.hint else "")


class PlanError(CheckFailed):
    """Job, inventory and facts do not give a plan: every problem, and the same in words, equal ones of hosts as one."""

    def __init__(self, reasons: tuple[str, ...], problems: tuple[PlanProblem, ...]) -> None:
        super().__init__("\n".join(reasons))
        self.reasons = reasons
        self.problems = problems


class HostError(DistuiError):
    """One host can't be used. `code` is a stable word for scripts (`auth`, `dns`, `timeout` ...)."""

    exit_code = ExitCode.UNREACHABLE
    code = "host"

    def __init__(self, host: str, message: str, *, hint: str = "", code: str = "") -> None:
        super().__init__(message, hint=hint)
        self.host = host
        self.code = code or type(self).code


class HostUnreachable(HostError):
    """No connection could be made. Codes: `dns`, `refused`, `timeout`, `no_route`, `not_ssh`, `unreachable`."""

    code = "unreachable"


class HostAuthError(HostError):
    """The host refused every way to log in. Codes: `auth`, `key_passphrase`, `key_unreadable`."""

    code = "auth"


class HostKeyError(HostError):
    """The host's key is unknown (`host_key_unknown`) or not the one known (`host_key_changed`)."""

    code = "host_key_unknown"


class HostCommandError(HostError):
    """A command on the host failed, printed rubbish or timed out. Codes: `command`, `command_timeout`, `rubbish`."""

    code = "command"


class SessionLost(HostError):
    """A connection that worked is gone: what runs on the host is unknown until it is back."""

    exit_code = ExitCode.CONTACT_LOST
    code = "lost"


class LaunchFailed(DistuiError):
    """The launch failed part way; what had been started was stopped again."""

    exit_code = ExitCode.LAUNCH_FAILED


class ContactLost(DistuiError):
    """The state of a run is unknown: its containers may still live on the hosts named."""

    exit_code = ExitCode.CONTACT_LOST


class NotFound(DistuiError):
    """There is no such run or rank, or not the one host that is asked for."""

    exit_code = ExitCode.NOT_FOUND
