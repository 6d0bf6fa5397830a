"""The home folder and `~login` where there is no such login: words and exit 2, wherever they are written."""

from __future__ import annotations

import getpass
import pwd
from pathlib import Path
from typing import Any

import pytest

from distui.errors import UsageError
from distui.homes import expanded, home
from distui.remote.config import default_sources, resolve
from distui.remote.optional import Names
from distui.remote.sshconfig import ConfigError
from distui.spec.hosts.inventory import Host

JOB = "version: 1\nname: j\nhosts: [n1]\nimage: x:1\ncommand: 'true'\n"
NOBODY = "there is no login 'nosuch' on this machine"


def nameless(*_: object) -> Any:
    """What the system says of a uid that is no login."""
    raise KeyError("getpwuid(): uid not found: 12345")


@pytest.fixture
def no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process as in a container that was started with `--user 12345`."""
    for name in ("HOME", "LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nameless)


@pytest.mark.parametrize(
    "words",
    [
        "--config ~nosuch/x ps -a",
        "job validate code.yaml",
        "job validate build.yaml",
        "config allow folder ~nosuch/x .",
        "config allow folder . ~nosuch/x",
        "config validate ~nosuch/x",
        "ps -a",  # by hosts_file of the user's config
    ],
)
def test_a_path_of_a_login_that_there_is_none_of(cli: Any, home: Path, words: str) -> None:
    """It is a mistake in words, and no bug."""
    Path("hosts.yaml").write_text("version: 1\nhosts:\n  n1: {}\n")
    Path("code.yaml").write_text(JOB + "code: {path: ~nosuch/x}\n")
    Path("build.yaml").write_text(JOB.replace("image: x:1", "build: {context: ~nosuch/x}"))
    if words == "ps -a":
        (home / ".config/distui").mkdir(parents=True, mode=0o700)
        (home / ".config/distui/config.yaml").write_text("hosts_file: ~nosuch/x\n")
    done = cli(*words.split())
    assert done.code == 2
    assert NOBODY in done.err


def test_an_ssh_config_with_such_a_path(home: Path) -> None:
    """The host can't be used, and it is said why."""
    (home / ".ssh").mkdir()
    (home / ".ssh/config").write_text("IdentityFile ~nosuch/key\n")
    with pytest.raises(ConfigError, match=NOBODY):
        resolve(Host("n1"), default_sources(home, {}))


@pytest.mark.usefixtures("home", "no_name")
@pytest.mark.parametrize("words", ["version", "ps -a", "run x.yaml", "config path", "hosts import ssh-config"])
def test_without_a_home_nothing_is_a_bug(cli: Any, words: str) -> None:
    """HOME is not set, and the uid is no login."""
    done = cli(*words.split())
    assert (done.code, done.out) == (2, "")
    assert "HOME is not set" in done.err


@pytest.mark.usefixtures("no_name")
def test_a_home_is_that_of_the_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also of a login without a name."""
    assert home({"HOME": str(tmp_path)}) == tmp_path
    monkeypatch.setenv("HOME", str(tmp_path))
    assert expanded("~/x") == home() / "x" == tmp_path / "x"
    monkeypatch.delenv("HOME")
    with pytest.raises(UsageError, match="HOME is not set"):
        expanded("~/x")


@pytest.mark.usefixtures("no_name")
def test_a_login_without_a_name_needs_one_for_the_hosts(tmp_path: Path) -> None:
    """It is not root by guess; `user:` and USER are taken."""
    sources = default_sources(tmp_path, {})
    with pytest.raises(ConfigError, match="write `user:` into hosts"):
        resolve(Host("n1"), sources)
    assert resolve(Host("n1", user="trainer"), sources).user == "trainer"
    assert resolve(Host("n1"), default_sources(tmp_path, {"USER": "trainer"})).user == "trainer"


@pytest.mark.parametrize("error", [KeyError, OSError])
def test_asyncssh_gets_a_name(monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:
    """It asks for one before it logs in, and has no use for it here."""
    monkeypatch.setattr(getpass, "getuser", lambda: (_ for _ in ()).throw(error("no name")))
    assert Names().getuser() == "nobody"
    import asyncssh

    assert asyncssh.SSHClientConnectionOptions(username="trainer", config=None).username == "trainer"
