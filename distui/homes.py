"""The home folder, and paths that begin with `~`: an error in words where there is no such login, or no home."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping, Sequence
from pathlib import Path

from distui.errors import UsageError
from distui.files import exists

SSH_CONFIG = Path("/etc/ssh/ssh_config")
"""The machine's own, which OpenSSH reads after the user's, unless it is named one."""


def home(environ: Mapping[str, str] | None = None) -> Path:
    """The caller's home: HOME, else that of the login. Raises UsageError for a login that has none.

    That is what a container with `--user 1234` or a bare service has: no HOME and no entry among the logins.
    """
    environ = os.environ if environ is None else environ
    try:
        return Path(environ.get("HOME") or Path.home())
    except RuntimeError as exc:
        message = f"there is no home folder: HOME is not set, and uid {os.getuid()} is no login of this machine"
        hint = "set HOME to a folder of yours: it holds keys, settings and the logs of runs"
        raise UsageError(message, hint=hint) from exc


def config_options(config: Path) -> tuple[str, ...]:
    """What OpenSSH has to be given to read this config: it looks in the home of the login, whatever HOME says.

    Where there is none, and the login has one, that of the machine alone. Empty where ssh reads what is read here.
    """
    try:
        login = Path(pwd.getpwuid(os.getuid()).pw_dir) / ".ssh" / "config"
        if config.is_file():
            return () if login.exists() and login.samefile(config) else ("-F", str(config))
        machine = str(SSH_CONFIG) if SSH_CONFIG.exists() else "none"
        return ("-F", machine) if login.is_file() else ()
    except (KeyError, OSError):  # no such login, or none that may be looked into
        return ()


def hostname_options(address: str) -> tuple[str, ...]:
    """What OpenSSH has to be given to go to this address, also to one of a link alone (`fe80::1%eth0`)."""
    return ("-o", f"HostName={address.replace('%', '%%')}")


def is_login_s(folder: Path) -> bool:
    """Whether a `.ssh` is the one that OpenSSH looks into: in the home of the login, whatever HOME says."""
    try:
        login = Path(pwd.getpwuid(os.getuid()).pw_dir) / ".ssh"
        return login == folder or (login.exists() and folder.exists() and login.samefile(folder))
    except (KeyError, OSError):  # no such login, or none that may be looked into
        return True


def known_hosts_options(config: Path, files: Sequence[Path]) -> tuple[str, ...]:
    """What OpenSSH has to be given to look for host keys in these files, which go with this config, and to keep one in
    the first: it does so in the home of the login, too.

    Empty where that is this home; without a name that ssh can't be given.
    """
    if not files or is_login_s(config.parent):
        return ()
    return file_options("UserKnownHostsFile", [path for path in files if path == files[0] or exists(path)])


def file_options(option: str, files: Sequence[Path]) -> tuple[str, ...]:
    """An option of OpenSSH that names files, without a name that ssh can't be given; empty for none."""
    names = map(str, files)
    quoted = ['"' + name.replace("%", "%%") + '"' for name in names if '"' not in name and "\n" not in name]
    return ("-o", f"{option}={' '.join(quoted)}") if quoted else ()


def expanded(written: str | Path) -> Path:
    """A path with `~` and `~login` at its beginning made a folder. Raises UsageError where there is no such login."""
    try:
        return Path(written).expanduser()
    except RuntimeError as exc:
        named = Path(written).parts[0]
        if named == "~":
            home()
        raise UsageError(f"{written}: there is no login '{named[1:]}' on this machine") from exc
