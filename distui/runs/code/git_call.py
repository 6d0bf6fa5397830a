"""Calling git on this machine: by argv, without a question, and by no config but the user's own."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from distui.errors import CheckFailed

_POINTERS = frozenset(
    {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE", "GIT_CEILING_DIRECTORIES",
     "GIT_COMMON_DIR", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_TRACE", "GIT_TRACE_CURL", "GIT_CURL_VERBOSE",
     "GIT_TRACE_PACKET", "GIT_EXTERNAL_DIFF"}
)  # fmt: skip


def remote_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """For talking to a repository elsewhere: the caller's environment and their own config, since proxies and keys
    are said there. Without what would point git elsewhere, and with no question asked.
    """
    kept = {k: v for k, v in environ.items() if k not in _POINTERS}
    asks_nothing = {"GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "true", "SSH_ASKPASS_REQUIRE": "never"}
    ssh = {} if "GIT_SSH_COMMAND" in kept else {"GIT_SSH_COMMAND": "ssh -o BatchMode=yes"}
    fixed = {"GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    return {**kept, **asks_nothing, **ssh, **fixed, "GIT_NO_LAZY_FETCH": "1"}


def objects_environment(environ: Mapping[str, str], folder: Path) -> dict[str, str]:
    """For reading objects in `folder`, a git folder of ours: no config, attribute, replacement or hook of anybody."""
    kept = {k: v for k, v in environ.items() if not k.startswith("GIT_")}
    nobody = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_SYSTEM": "/dev/null", "GIT_CONFIG_GLOBAL": "/dev/null"}
    nothing = {"GIT_ATTR_NOSYSTEM": "1", "GIT_NO_LAZY_FETCH": "1", "GIT_NO_REPLACE_OBJECTS": "1"}
    alone = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "GIT_ALLOW_PROTOCOL": "", "LC_ALL": "C"}
    return {**kept, **nobody, **nothing, **alone, "GIT_DIR": str(folder), "GIT_OPTIONAL_LOCKS": "0"}


def call(
    argv: tuple[str, ...], env: Mapping[str, str], seconds: float, folder: Path, given: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run git in `folder`, one of ours: git also reads the config of a repository around the folder it is called in.

    Raises CheckFailed without git, and when it takes longer than `seconds`.
    """
    try:
        return subprocess.run(argv, env=env, cwd=folder, input=given, capture_output=True, timeout=seconds)
    except FileNotFoundError as exc:
        hint = "install git, or use code: {path: ...}"
        raise CheckFailed("code: git is not installed on this machine", hint=hint) from exc
    except subprocess.TimeoutExpired as exc:
        raise CheckFailed(f"code: git did not finish within {seconds:g} s") from exc
