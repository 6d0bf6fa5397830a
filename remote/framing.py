"""How a command travels to a host whose login shell is unknown.

The text sshd hands to the login shell never changes: it starts `/bin/sh`, which reads one line of its own stdin and
evaluates it. sh, bash, fish, csh, tcsh and zsh read these words alike. The line prints a nonce and its process id
on stdout and stderr, so that what .bashrc prints is kept apart from the answer, and then becomes the command (with
that process id), whose stdin is the rest of the channel. So neither argv nor input is ever an argument of a shell
on the host.
"""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Sequence

from distui.whole import whole

REMOTE_COMMAND = "exec /bin/sh -c 'IFS= read -r s && eval \"$s\"'"
"""Fixed text for the login shell, whose PATH may be anything. `read` takes bytes one at a time from a pipe, so that it
leaves the rest unread.
"""

_MORE_PATH = (
    "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:/opt/bin:/snap/bin:/run/current-system/sw/bin"
)
"""Appended to PATH: non-interactive logins often lack the places of docker and nvidia-smi. Wherever the probe finds
an engine a run does, too."""

_AS_SH = '[ -z "${ZSH_VERSION:-}" ] || emulate sh; '
"""A start-up file with `exec zsh` has zsh read the line, and then a script, in the place of `sh`."""

_NOISE_KEPT = 2048
_PID_LONGEST = 32
"""Bytes within which the mark's line ends: a host that never ends it does not get our memory."""


def new_mark() -> str:
    """A word no login shell prints by chance."""
    return f"distui-{secrets.token_hex(12)}"


def command_line(mark: str, argv: Sequence[str]) -> bytes:
    """The line that turns `sh` into `argv`. Raises ValueError for what no process can be given (NUL, no words)."""
    if not argv or any("\0" in word for word in argv):
        raise ValueError("a command needs at least one word, and no word may hold a NUL")
    prefix = "nl=$(printf '\\n.'); nl=${nl%.}; " if any("\n" in word for word in argv) else ""
    words = " ".join(_quoted(word) for word in argv)
    return _line(mark, f"{prefix}exec {words}")


def script_lines(mark: str, script: str) -> bytes:
    """The line and the script after it; the script is read to the end of stdin, then evaluated."""
    return _line(mark, 'eval "$(cat)"') + _encoded(script)


def _line(mark: str, rest: str) -> bytes:
    say = f"printf '%s %s\\n' {mark} $$; printf '%s %s\\n' {mark} $$ >&2; "
    path = f'PATH="${{PATH:-/usr/bin}}:{_MORE_PATH}"; export PATH; '
    return _encoded(f"{say}{_AS_SH}{path}{rest}\n")


def _quoted(word: str) -> str:
    """`word` for sh, on one line: shlex puts words with newlines in single quotes, which are left around `$nl`."""
    return shlex.quote(word).replace("\n", "'\"$nl\"'")


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


_KILL = 'kill -s "$1" -- "-$2" 2>/dev/null || kill -s "$1" "$2"'


def kill_argv(signal: str, pid: int) -> tuple[str, ...]:
    """Signals a command's process group: sshd makes each command its own, but passes on no signals to root's."""
    return ("sh", "-c", _KILL, "distui-kill", signal, str(pid))


class Unframe:
    """Drops everything up to the line with the mark, keeping the first bytes dropped for an error message."""

    def __init__(self, mark: str) -> None:
        self._mark = mark.encode() + b" "
        self._held = bytearray()
        self.found = False
        self.pid = 0
        """The command's process id, once the mark was found."""
        self.noise = b""
        self.dropped = 0
        """How many bytes came before the mark so far."""

    def expect(self, mark: str) -> None:
        """Look for another mark from now on, before the first was found."""
        self._mark = mark.encode() + b" "

    def feed(self, data: bytes) -> bytes:
        """What of `data` belongs to the command."""
        if self.found:
            return data
        self._held += data
        while (at := self._held.find(self._mark)) >= 0:
            begin = at + len(self._mark)
            end = self._held.find(b"\n", begin, begin + _PID_LONGEST)
            if end >= 0:
                pid, answer = bytes(self._held[begin:end]), bytes(self._held[end + 1 :])
                self.found = True
                self.pid = whole(pid) or 0
                self._forget(at)
                self._held.clear()
                return answer
            if len(self._held) < begin + _PID_LONGEST:
                self._forget(at)
                return b""
            self._forget(begin)  # no process id follows: not ours
        self._forget(len(self._held) - len(self._mark))
        return b""

    def seen(self) -> bytes:
        """The first bytes that came instead of the mark."""
        return (self.noise + bytes(self._held))[:_NOISE_KEPT]

    def _forget(self, count: int) -> None:
        """Drop the first `count` bytes held."""
        if count > 0:
            self.dropped += count
            self.noise += self._held[:count][: _NOISE_KEPT - len(self.noise)]
            del self._held[:count]
