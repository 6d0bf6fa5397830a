"""A command that is text, as words: the shell that reads it, and how SIGTERM gets to what it runs.

A shell that is signalled dies at once, and with it the container: what it runs would get SIGKILL in place of the
job's `stop_grace`. So one plain command takes the shell's place (`exec`). In front of any other text stands a trap,
where all of the process group is signalled: the shell then waits for what it runs, and goes on with nothing else, and
what programs print into (`| tee log`) reads on to their end. A text that traps SIGTERM itself stays as it is, and so
does who is signalled.

In a container the shell is no login shell: Debian's and Alpine's /etc/profile would put the system's PATH in place
of the image's (conda, a venv). Without a container the profile has the login's PATH, unless the job sets one.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter

from distui.regex import regex
from distui.spec.hosts.inventory import EngineName
from distui.spec.job.job import Job
from distui.spec.job.shell import uses_shell

TRAP = "trap 'wait; exit 143' TERM; "
"""In front of text: dash and bash run it once the command in the foreground has ended, and `wait` is for the others."""
FILTER = "%s() { " + TRAP + "(trap '' TERM; command %s \"$@\"); }; "
"""What a program prints into stays until that closes it, and so does the shell of its part of the pipe. The text's own
shell, where a file that it reads (`. env.sh`) calls the filter, has that trap anyway, and must not ignore SIGTERM.
"""
GROUP = "TINI_KILL_PROCESS_GROUP"
"""Docker's `--init` is tini, which with this variable signals the group of the container's command."""
_FUNCTIONS = frozenset(("conda", "mamba", "micromamba", "ml", "module", "nvm", "pyenv", "spack"))
"""Names that profiles define as functions: `exec` would not find them, or another program."""
_TRAPS = regex(r"\btrap\b(?:(?!\btrap\b)[^\n;&|])*?\b(?i:(?:SIG)?TERM|15)\b")
"""A trap of the text's own: it tells its programs in its own way, by a file, say, or by another signal."""
_QUOTES = regex(r"\\.|(?<![^\s;&|()])#[^\n]*|'[^']*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
"""Words for others, such as a shell below it, or for people; what is escaped, and ends no line."""
_JOINED = regex(r"\\(?:\n|(.))", re.DOTALL)
"""A backslash and what it escapes: a line's end is none then, but where the backslash is escaped itself."""
_VARIABLE = regex(r"\$(?:[A-Za-z_]\w*|\{[A-Za-z_]\w*\})")
"""What `exec` reads as any command does."""
_BUILTINS = frozenset(("echo", "false", "kill", "printf", "pwd", "test", "true"))
"""A shell's own, which images without such a program have, too; none of them lasts."""
_FILTERS = (
    "awk",
    "cat",
    "cut",
    "egrep",
    "gawk",
    "grep",
    "logger",
    "mawk",
    "rotatelogs",
    "sed",
    "stdbuf",
    "tee",
    "tr",
    "ts",
)
"""Programs that pass on what they read, and end when there is no more."""
_PIPED = regex(r"(?<![|>])\|&?\s*([a-z]+)(?![^\s;&|()<>])")
_WORD = regex(r"(?<![^\s;&|()<>`])[a-z]+(?![^\s;&|()<>`])")


def words(job: Job, command: tuple[str, ...] | str, engine: EngineName) -> tuple[str, ...]:
    """A command as its words: a list as it is, text by a shell."""
    if not isinstance(command, str):
        return command
    login = engine == "process" and "PATH" not in job.env
    grouped = engine != "podman" or job.launcher == "torchrun"  # torchrun's workers lead groups, which it signals
    return ("sh", "-lc" if login else "-c", _lasting(command, grouped=grouped))


def group_env(job: Job, engine: EngineName) -> dict[str, str]:
    """What makes docker's init signal the whole group, where a shell stays above what it runs."""
    text = job.command
    if engine != "docker" or job.launcher == "torchrun" or not isinstance(text, str):
        return {}
    return {GROUP: "1"} if _stays(text) and not _traps(text) else {}


def _lasting(text: str, *, grouped: bool) -> str:
    """The text such that its programs get SIGTERM, and the time to act on it.

    podman's init signals the shell alone: with a trap that would wait for programs that know nothing of a stop.
    """
    if not _stays(text):
        return f"exec {text.lstrip()}"
    return TRAP + _filters(text) + text if grouped and not _traps(text) else text


def _filters(text: str) -> str:
    """What spares the filters at the end of pipes the SIGTERM: a program would lose its last words, or die of SIGPIPE.

    Only such that the text uses nowhere else: there they would be asked to end.
    """
    bare = _QUOTES.sub("''", text)
    piped, used = Counter(_PIPED.findall(bare)), Counter(_WORD.findall(bare))
    return "".join(FILTER % (name, name) for name in _FILTERS if piped[name] and piped[name] == used[name])


def _traps(text: str) -> bool:
    """Whether the shell that reads the text is to act on SIGTERM itself."""
    return _TRAPS.search(_QUOTES.sub("''", text)) is not None


def _stays(text: str) -> bool:
    """Whether the shell stays above what it runs: for more than one plain command of a program."""
    text = _JOINED.sub(lambda pair: pair[0] if pair[1] else " ", text)  # one command may be written on several lines
    first, *rest = text.split(None, 1) or [""]
    plain = " ".join([first, *(_VARIABLE.sub("x", more) for more in rest)]).rstrip()
    return not plain or uses_shell(plain) or shlex.split(plain)[0] in _FUNCTIONS | _BUILTINS
