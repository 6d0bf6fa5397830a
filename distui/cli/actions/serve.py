"""`distui serve`: the terminal UI in a browser of this machine."""

from __future__ import annotations

import os
import secrets
import shlex
import socket
import sys
from collections.abc import Mapping
from typing import Any
from urllib.parse import SplitResult, urlsplit

import click

from distui.cli.console import Console
from distui.cli.options import global_options
from distui.cli.settings import Settings
from distui.errors import ExitCode, UsageError

HOST = "127.0.0.1"
_OWN = ("timeout", "yes", "no_input", "quiet")
"""Global options that are for `serve` itself, or mean nothing to the app."""


def _given_on() -> set[str]:
    """The global options that are given on. Beside them stands what the call knows for itself, as values of secrets."""
    return {option.name or "" for option in global_options()}.difference(_OWN)


def act(settings: Settings, out: Console, port: int, public_url: str | None) -> int:
    """See `serve --help`."""
    address = _public(public_url)
    settings.selection.inventory()  # what is wrong with it is said here, not in each visitor's page
    try:
        from distui.cli.web import AppServer
    except ModuleNotFoundError as error:
        raise UsageError(f"{error.name} is not installed", hint="pip install 'distui[serve]'") from None
    listening = _listen(port)
    token = secrets.token_urlsafe(24)
    shown = address.geturl() if address else f"http://{HOST}:{port}"
    out.say(f"distui: the terminal UI is at {shown}/?token={token}")
    out.say("distui: whoever has this address can use it; Ctrl-C ends it, runs keep running")
    AppServer(shlex.join(app_argv(click.get_current_context().find_object(dict) or {})), token, address).run(listening)
    return ExitCode.OK


def app_argv(flags: Mapping[str, Any]) -> tuple[str, ...]:
    """The app with the global options of this call; they are given on, as they were written."""
    words, known = [sys.executable, "-m", "distui.cli.main", "tui"], _given_on()
    for name, value in flags.items():
        option = "--" + name.replace("_", "-")
        if name not in known:
            continue
        if isinstance(value, tuple):
            words += [f"{option}={one}" for one in value]
        elif value is True:
            words.append(option)
        elif name == "verbose":
            words += ["-v"] * value
        else:
            words.append(f"{option}={value}")
    return tuple(words)


def _public(url: str | None) -> SplitResult | None:
    """The address of a reverse proxy. Raises UsageError for one that is none."""
    if url is None:
        return None
    found = _split(url.rstrip("/"))
    if found is None or found.path or found.query or found.fragment or found.username:
        raise UsageError(f"--public-url {url}: expected http(s)://NAME[:PORT], without a path")
    return found


def _split(url: str) -> SplitResult | None:
    """A URL of the web as its parts; None for half of an IPv6 address, a port that is none, and what has no host."""
    try:
        found = urlsplit(url)
        named = found.scheme in ("http", "https") and bool(found.hostname) and found.port != 0
    except ValueError:
        return None
    return found if named else None


def _listen(port: int) -> socket.socket:
    """The port, taken before its address is printed. Raises UsageError when it is not free."""
    try:
        return socket.create_server((HOST, port))
    except OSError as error:
        words = os.strerror(error.errno) if error.errno else str(error)
        raise UsageError(f"port {port} of {HOST}: {words}", hint="choose another one with --port") from None
