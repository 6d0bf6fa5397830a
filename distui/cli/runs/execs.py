"""A command in a rank's container that ends with its caller: an engine tells it nothing of one that leaves.

`docker exec` passes no signal on, and the command goes on when its reader is gone. Each is therefore marked by a
variable in its environment, by which it, and what it started, is found in the container and ended. That takes a shell
and `cat` in there; programs that clear their environment, or change their user, are not found.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from secrets import token_hex

from distui.errors import DistuiError
from distui.session import Session

VARIABLE = "DISTUI_EXEC"

END_SECONDS = 20.0
"""How long the host is waited for when a command is to be ended."""

ANSWER_SECONDS = 2.0
"""How long the host itself may take to answer meanwhile: where its network is gone nothing is ended."""

ENGINE_SECONDS = 5.0
"""The same of its engine, which may hang."""

# $1 the variable and its value. SIGTERM to all that have it, SIGKILL to what is there three seconds later. A command
# that was asked for just now may not be there yet; one that has ended is waited for that second, too.
END = """
exec 2>/dev/null
marked() { for p in "$@"; do case "$(cat "/proc/$p/environ")" in *"$mark"*) echo "$p";; esac; done; }
all() { cd /proc && marked [0-9]*; }
mark=$1
nap() { tries=$((tries - 1)); sleep 0.1 || { sleep 1; tries=$((tries - 9)); }; }
tries=10
while pids=$(all); [ -z "$pids" ] && [ "$tries" -gt 0 ]; do nap; done
[ -n "$pids" ] || exit 0
kill -TERM $pids
tries=30
while pids=$(marked $pids); [ -n "$pids" ] && [ "$tries" -gt 0 ]; do nap; done
pids=$(all)
[ -z "$pids" ] || kill -KILL $pids
""".strip()


class Marked:
    """A command in a container, by its mark."""

    def __init__(self, engine_command: Sequence[str], container: str, words: Sequence[str]) -> None:
        self._engine = tuple(engine_command)
        self._container = container
        self._words = words
        self._mark = f"{VARIABLE}={token_hex(8)}"

    @property
    def argv(self) -> tuple[str, ...]:
        """What starts it."""
        return (*self._engine, "exec", "-i", "-e", self._mark, self._container, *self._words)

    async def end(self, session: Session) -> bool:
        """End it, and what it started; False when that can't be done, or its host or engine does not answer: it may
        still run.
        """
        ending = asyncio.create_task(self._end(session))
        answering = asyncio.create_task(self._answers(session))
        try:
            await asyncio.wait([ending, answering], return_when=asyncio.FIRST_COMPLETED)
            return (ending.done() or await answering) and await ending
        finally:
            answering.cancel()
            ending.cancel()

    async def _end(self, session: Session) -> bool:
        argv = (*self._engine, "exec", self._container, "sh", "-c", END, "distui-end", self._mark)
        try:
            async with asyncio.timeout(END_SECONDS):
                return (await session.run(argv, timeout=END_SECONDS)).ok
        except (DistuiError, TimeoutError):
            return False

    async def _answers(self, session: Session) -> bool:
        """Whether the host, and then its engine, do what they are asked for in time."""
        version = (*self._engine, "version", "--format", "{{.Server.Version}}")
        return await _does(session, ("true",), ANSWER_SECONDS) and await _does(session, version, ENGINE_SECONDS)


async def _does(session: Session, argv: Sequence[str], seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await session.run(argv, timeout=None)
            return True
    except (DistuiError, TimeoutError):
        return False
