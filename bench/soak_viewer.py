"""A distui that runs beside the soak: what it has said until now, read while it runs."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterable
from threading import Thread
from typing import Any

from bench.soak_truth import End
from distui.errors import ExitCode


class Viewer:
    """A started distui, whose output never makes it wait. `killed`: by the soak, so it need not have a result.
    `slept`: it was stopped for a while, as a machine that sleeps, so the run may have been removed meanwhile.
    """

    def __init__(self, program: Any, verb: str, place: str) -> None:
        self.program = program
        self.verb = verb
        self.place = place
        self.killed = self.slept = False
        self._said: dict[str, list[str]] = {"stdout": [], "stderr": []}
        self._threads = [Thread(target=self._drain, args=(name,), daemon=True) for name in self._said]
        for thread in self._threads:
            thread.start()

    def __str__(self) -> str:
        return f"{self.verb} {self.place}"

    def _drain(self, name: str) -> None:
        self._said[name].extend(getattr(self.program, name))

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.program.poll() is not None

    @property
    def status(self) -> int | None:
        """Its exit status; None while it runs."""
        status: int | None = self.program.returncode
        return status

    @property
    def stderr(self) -> str:
        """What it printed there."""
        return "".join(self._said["stderr"])

    def events(self) -> list[dict[str, Any]]:
        """The NDJSON events it has printed."""
        return [
            json.loads(line) for line in list(self._said["stdout"]) if line.startswith("{") and line.endswith("}\n")
        ]

    def texts(self) -> Iterable[str]:
        """What it told people: its notices, and each line on stderr."""
        for event in self.events():
            if event.get("type") == "notice":
                yield f"{event.get('host', '')} {event['text']}"
        yield from self._said["stderr"]

    @property
    def end(self) -> End | None:
        """The run's end as it told it; None when it had no result."""
        results = [event for event in self.events() if event.get("type") == "result"]
        return End.of(results[-1]) if results else None

    def until_phase(self, phase: str, seconds: float) -> None:
        """Return when it has begun this phase, has ended, or the time is over."""
        end = time.monotonic() + seconds
        while not self.over and time.monotonic() < end and not self._is_in(phase):
            time.sleep(0.01)

    def _is_in(self, phase: str) -> bool:
        return bool(self.began(phase))

    def began(self, phase: str) -> str:
        """When it first began a phase, as its events say it; "" when it has not."""
        phases = (event for event in self.events() if event.get("type") == "phase")
        return next((event["ts"] for event in phases if event.get("phase") == phase), "")

    def came_after(self, moment: str) -> bool:
        """Whether it said, after this moment, that there is no such run, or that it can't know how it ended."""
        results = [event for event in self.events() if event.get("type") == "result"]
        knows_nothing = self.status in (ExitCode.NOT_FOUND, ExitCode.CONTACT_LOST)
        return knows_nothing and bool(results) and "" < moment <= results[-1]["ts"]

    def sleep(self) -> None:
        """SIGSTOP: its connections stay open, and nothing is read from them."""
        self.slept = True
        self.program.signal_group(signal.SIGSTOP)

    def wake(self) -> None:
        """It goes on where it was."""
        self.program.signal_group(signal.SIGCONT)

    @property
    def overslept(self) -> bool:
        """Whether it says, after a sleep, that it can't know how the run ended."""
        return self.slept and self.status == ExitCode.CONTACT_LOST

    def kill(self) -> None:
        """SIGKILL to it and its children; returns when it is gone."""
        self.killed = self.killed or not self.over
        self.close()

    def finish(self, seconds: float) -> None:
        """Wait for its end; RuntimeError with what it said last when it does not come."""
        try:
            self.program.wait(seconds)
        except subprocess.TimeoutExpired as error:
            raise RuntimeError(f"{self} did not end in {seconds:.0f} s: {self.stderr[-1500:]}") from error
        finally:
            self.close()

    def close(self) -> None:
        """End it if it still runs, and read the rest of what it said."""
        self.program.signal_group(9)
        self.program.wait()
        for thread in self._threads:
            thread.join()
        self.program.__exit__(None, None, None)
