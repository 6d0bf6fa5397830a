"""The hook of ranks that can be asked where they are, as a command that puts it on a host.

What it is and where ranks find it: `plan/command/insight.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import resources

from distui.plan.command.insight import hook_folder

_FILES = ("sitecustomize.py", "distui_insight.py")

_PUT = """
umask 022
mkdir -p -- "$1" && dd bs=1 count="$2" 2>/dev/null >"$1/sitecustomize.py" && cat >"$1/distui_insight.py" || exit 1
shift 2
mkdir -p -m 777 -- "$@"
""".strip()
"""The hook's folder is read by whoever a container's user is; so are the folders written by them, which are reached
through the run's private folder only. `dd` takes no byte more than it is to."""


def put(run_dir: str, folders: Sequence[str]) -> tuple[tuple[str, ...], bytes]:
    """The command that writes the hook and makes `folders`, and what it reads. May be repeated before the start."""
    first, second = _texts()
    return ("sh", "-c", _PUT, "distui-hook", hook_folder(run_dir), str(len(first)), *folders), first + second


@cache
def _texts() -> tuple[bytes, ...]:
    folder = resources.files("distui.agent").joinpath("hook")
    return tuple(folder.joinpath(name).read_bytes() for name in _FILES)
