"""Runs the app in the loop of its caller, who owns the backend around it."""

from __future__ import annotations

import asyncio
import signal

from distui.errors import ExitCode
from distui.tui.app import DistuiApp
from distui.tui.terminal.stalled import Unblocked


async def run_app(app: DistuiApp) -> int:
    """Show the app until it is left; returns its exit code. Raises what a bug in it raised, off the screen.

    SIGTERM and SIGHUP leave the app as `q` and Detach do: the terminal is put back and runs live on, also when the
    terminal does not read any more. Without this the process would be gone at once, with the terminal in raw mode.
    """
    loop = asyncio.get_running_loop()
    caught = (signal.SIGTERM, signal.SIGHUP)
    with Unblocked() as terminal:

        def leave() -> None:
            terminal.begin()
            app.call_later(app.exit, int(ExitCode.TERMINATED))  # one that just begins can not be left yet

        for number in caught:
            if signal.getsignal(number) != signal.SIG_IGN:
                loop.add_signal_handler(number, leave)
        try:
            code = await app.run_async()
        finally:
            for number in caught:
                loop.remove_signal_handler(number)
    if app.bug is not None:
        raise app.bug
    return code or 0
