"""Signals that end a call as Ctrl-C does, so that its last words are still said."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

from distui.errors import DistuiError, ExitCode


class Terminated(DistuiError):
    """SIGTERM came, and there was no run to stop, or none that this call stops."""

    exit_code = ExitCode.TERMINATED


class _Ending:
    """A handler: Ctrl-C in the place of the signal, which is remembered."""

    def __init__(self) -> None:
        self.came = False

    def __call__(self, number: int, frame: object) -> None:
        self.came = True
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell without job control starts what has a `&` so
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)


def is_terminated() -> bool:
    """Whether such a signal came and the call ends by it: what is cleaned up now ends by it, too."""
    handlers = (signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP))
    return any(handler.came for handler in handlers if isinstance(handler, _Ending))


@contextlib.contextmanager
def signals_end(*numbers: signal.Signals) -> Iterator[None]:
    """These signals end the call as Ctrl-C does, but for its exit code, unless the run's own handler takes them.

    One within another is the same as one.
    """
    main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in numbers if main}
    taken = [number for number, handler in before.items() if handler == signal.SIG_DFL]
    end = _Ending()
    for number in taken:
        signal.signal(number, end)
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        came = any(one.came for one in (end, *before.values()) if isinstance(one, _Ending))
        if came and (isinstance(error, KeyboardInterrupt) or type(error).__name__ == "Abort"):  # as click calls it
            raise Terminated("terminated") from None
        raise
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)
