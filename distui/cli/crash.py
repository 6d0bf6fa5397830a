"""The file a bug leaves behind: what a developer needs, and nothing secret."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from distui import config
from distui.errors import UsageError
from distui.files import make_private, open_fd
from distui.regex import regex
from distui.version import __version__

_HARMLESS = regex(
    r"(PATH|HOME|PWD|OLDPWD|SHELL|USER|LOGNAME|HOSTNAME|LANG|LANGUAGE|LC_[A-Z]+|TERM|COLORTERM|TERM_PROGRAM|SHLVL|TMPDIR"
    r"|EDITOR|PAGER|VISUAL|VIRTUAL_ENV|PYTHON[A-Z]+|XDG_[A-Z_]+|SSH_AUTH_SOCK)"
)
"""Variables whose values are no secret and help to understand a traceback. A job may name any other one a secret."""


def write_crash(
    exc: BaseException,
    words: Sequence[str],
    environ: Mapping[str, str],
    secrets: Collection[str] = (),
    *,
    number: int | None = None,
) -> Path | None:
    """Write the crash file (0600) below the state folder; None when even that fails.

    `number` tells it from others that this process leaves in the same second.
    """
    try:
        folder = config.paths(environ).state / "crashes"
        process = str(os.getpid()) if number is None else f"{os.getpid()}-{number}"
        path = folder / f"crash-{time.strftime('%Y%m%d-%H%M%S')}-{process}.txt"
        make_private(folder)
        handle = open_fd(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
            file.write(report(exc, words, environ, secrets))
    except (OSError, UsageError):  # no room, or no home
        return None
    return path


def report(exc: BaseException, words: Sequence[str], environ: Mapping[str, str], secrets: Collection[str] = ()) -> str:
    """Versions, the command line without its values, and the traceback with what the caller's variables hold masked.

    So are `secrets`, the values of `--env-file`, whatever their names. A value is masked also in the form that Python
    or JSON writes it in.
    """
    import traceback

    lines = [
        f"distui {__version__}, Python {platform.python_version()}, {sys.platform}",
        "command: distui " + " ".join(_shape(words)),
        "",
        "".join(traceback.format_exception(exc)),
    ]
    return _masked("\n".join(lines), words, environ, secrets)


def _shape(words: Sequence[str]) -> list[str]:
    """Options by name and verbs; values of options and everything after `--` are left out."""
    shown: list[str] = []
    for word in words:
        if word == "--":
            return [*shown, "--", "..."]
        if word.startswith("-"):
            shown.append(word.partition("=")[0] if word.startswith("--") else word[:2])
        else:
            shown.append(word if word.isalpha() and word.islower() else "...")
    return shown


def _masked(text: str, words: Sequence[str], environ: Mapping[str, str], secrets: Collection[str]) -> str:
    values = [*secrets]
    values += [value for name, value in environ.items() if not _HARMLESS.fullmatch(name)]
    values += [word.partition("=")[2] for word in words]
    long = [value for value in values if len(value) >= 6]
    forms = {form for value in long for form in (value, repr(value)[1:-1], json.dumps(value)[1:-1])}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, "***")
    return text
