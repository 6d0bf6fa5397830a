"""An alias leads where `ssh ALIAS` would, and hosts.yaml fills only the gaps."""

from __future__ import annotations

import asyncio
import getpass
import pwd
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from distui import homes
from distui.errors import HostUnreachable
from distui.remote import sshconfig
from distui.remote.aside import aside
from distui.remote.config import Resolved, Sources, jump_words, resolve
from distui.remote.pool import SshConnector
from distui.remote.sshconfig import ConfigError
from distui.spec.hosts.inventory import Host

CORPUS = {
    "plain": "Host node01\n  HostName 10.0.0.1\n  Port 2222\n  User ubuntu\n",
    "first value wins": "Host node*\n User a\nHost node01\n User b\n Port 7\nHost *\n Port 8\n",
    "equals and quotes": 'Host=node01\n\tHostName = "10.0.0.9"\nIdentityFile="/k/with blank"\n',
    "comments": "# Host node01\nHost node01 # the first\n Port 2201 # odd\n",
    "negated": "Host *,!node01\n User x\nHost * !node01\n User y\nHost *\n User z\n",
    "negated only": "Host !node02\n User x\n",
    "case": "hOsT node01\n hostNAME 10.1.1.1\n",
    "tokens": "Host node*\n HostName %h.lab.example\n IdentityFile /keys/%r@%h-%n-%p%%\n User u1\n",
    "several keys": "IdentityFile /k/a\nHost node01\n IdentityFile /k/b\n IdentityFile /k/a\n IdentitiesOnly yes\n",
    "match host": "Host node01\n HostName real\nMatch host real\n User m\nMatch originalhost node01\n Port 99\n",
    "match user": "User bob\nMatch user bob\n Port 77\nMatch user alice\n Port 78\n",
    "match negated": "Match !host node01\n Port 1\nMatch host node01,x !user zed\n Port 2\n",
    "match all": "Host nomatch\n Port 1\nMatch all\n Port 3\n",
    "match exec": 'Match exec "test %h = node01"\n Port 31\nMatch exec "false"\n User no\n',
    "match final": "Match final host real\n Port 55\nHost node01\n HostName real\nMatch final\n User fin\n",
    "host in final pass": "Host real\n Port 56\nHost node01\n HostName real\nMatch final all\n User f\n",
    "proxy jump": "Host node01\n ProxyJump me@gw:2200,inner\n",
    "proxy none": "Host node01\n ProxyJump none\nHost *\n ProxyJump gw\n",
    "proxy none by command": "Host node01\n ProxyCommand none\nHost *\n ProxyJump gw\n",
    "proxy command, then jump": "Host node01\n ProxyCommand nc %h %p\nHost *\n ProxyJump gw\n",
    "proxy jump, then command": "Host node01\n ProxyJump gw\nHost *\n ProxyCommand nc %h %p\n",
    "proxy jump none, then command": "Host node01\n ProxyJump none\nHost *\n ProxyCommand nc %h %p\n",
    "proxy command": "Host node01\n ProxyCommand nc -X 5 %h %p\n",
    "known hosts": "UserKnownHostsFile /a /b\nGlobalKnownHostsFile /c\nHostKeyAlias farm\n",
    "times": "Host node01\n ConnectTimeout 1m30s\n",
    "agent": "IdentityAgent /run/agent-%r\nUser q\n",
    "include": "Include extra.conf\nHost node01\n Port 5\n",
    "include in host": "Host other\n Include extra.conf\nHost node01\n Include extra.conf\n User late\n",
    "include glob": "Include conf.d/*.conf\n",
    "bracket is no wildcard": "Host node0[12]\n Port 9\nHost node01\n Port 10\n",
    "algorithms": "Ciphers aes128-ctr\nHostKeyAlgorithms +ssh-rsa\nBindAddress 127.0.0.1\nAddressFamily inet6\n",
}

INCLUDED = {
    "extra.conf": "Host node01\n HostName included\n IdentityFile /k/inc\n",
    "conf.d/20-b.conf": "User second\nPort 20\n",
    "conf.d/10-a.conf": "User first\n",
}

SSH = [tool for tool in [shutil.which("ssh")] if tool]


def home_with(tmp_path: Path, text: str) -> Sources:
    folder = tmp_path / ".ssh"
    for name, content in {**INCLUDED, "config": text}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return Sources(tmp_path, {"SSH_AUTH_SOCK": "/run/agent"}, folder / "config", system=False)


def resolved(tmp_path: Path, text: str, target: Host | None = None) -> Resolved:
    return resolve(target or Host("node01"), home_with(tmp_path, text))


def absolute(text: str, folder: Path) -> str:
    """`text` with its Includes in absolute words: ssh looks them up in the passwd home, which no test may write."""
    return text.replace("Include ", f"Include {folder}/")


def ssh_says(ssh: str, config: Path) -> dict[str, list[str]]:
    done = subprocess.run([ssh, "-G", "-F", config, "node01"], capture_output=True, text=True, check=True)
    said: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        key, _, value = line.partition(" ")
        said.setdefault(key, []).append(value)
    return said


@pytest.mark.parametrize("ssh", SSH)
@pytest.mark.parametrize("name", CORPUS)
def test_the_answer_is_that_of_ssh_G(ssh: str, name: str, tmp_path: Path) -> None:
    """Host, port, user, keys, jumps and timeouts are those `ssh -G` prints for the same file."""
    text = absolute(CORPUS[name], tmp_path / ".ssh")
    mine = resolved(tmp_path, text)
    said = ssh_says(ssh, tmp_path / ".ssh" / "config")
    assert mine.hostname == said["hostname"][0]
    assert (str(mine.port), mine.user) == (said["port"][0], said["user"][0])
    if "IdentityFile" in text:
        plain = [words.replace("%h", mine.hostname).replace("%n", "node01") for words in said["identityfile"]]
        plain = [words.replace("%p", "22").replace("%r", mine.user).replace("%%", "%") for words in plain]
        assert [str(path) for path in mine.identity_files] == plain
    assert list(mine.jumps) == [jump for jump in said.get("proxyjump", [""])[0].split(",") if jump]
    assert (mine.proxy_command is None) == ("proxycommand" not in said)
    assert mine.identities_only == (said["identitiesonly"] == ["yes"])
    if said["connecttimeout"] != ["none"]:
        assert said["connecttimeout"] == [f"{mine.connect_timeout:g}"]
    if mine.host_key_alias is not None:
        assert said["hostkeyalias"] == [mine.host_key_alias]
        assert [str(path) for path in mine.known_hosts] == [
            *said["userknownhostsfile"][0].split(),
            *said["globalknownhostsfile"][0].split(),
        ]


def test_a_jump_host_may_be_named_after_the_host(tmp_path: Path) -> None:
    """`%h`, `%n`, `%p` and `%r` stand in a ProxyJump as in a ProxyCommand."""
    text = "Host node01\n HostName a.lab\n User me\n ProxyJump %r@gw.%h:22,%n-gw\n"
    assert resolved(tmp_path, text).jumps == ("me@gw.a.lab:22", "node01-gw")


def test_includes_are_looked_up_beside_the_config_and_in_the_order_of_names(tmp_path: Path) -> None:
    """Relative names start at ~/.ssh; a glob is read sorted, so 10- comes before 20-."""
    found = resolved(tmp_path, CORPUS["include glob"])
    assert (found.user, found.port) == ("first", 20)
    assert resolved(tmp_path, CORPUS["include"]).hostname == "included"


def test_an_include_in_a_block_for_others_is_not_read(tmp_path: Path) -> None:
    """And one in our block does not open it for the lines after."""
    assert resolved(tmp_path, "Host other\n Include extra.conf\n").hostname == "node01"
    assert resolved(tmp_path, CORPUS["include in host"]).user == "late"


def test_hosts_yaml_fills_only_what_the_ssh_config_leaves_open(tmp_path: Path) -> None:
    """addr, port, user and connect_timeout count where ssh has no HostName, Port, User or ConnectTimeout."""
    target = Host("node01", addr="10.9.9.9", user="yaml", port=2022, connect_timeout=3.0)
    open_ = resolved(tmp_path, "", target)
    assert (open_.hostname, open_.port, open_.user, open_.connect_timeout) == ("10.9.9.9", 2022, "yaml", 3.0)
    text = "Host node01\n HostName h\n Port 1\n User u\n ConnectTimeout 9\n"
    closed = resolved(tmp_path, text, target)
    assert (closed.hostname, closed.port, closed.user, closed.connect_timeout) == ("h", 1, "u", 9.0)


def test_the_command_to_paste_goes_where_distui_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what hosts.yaml says, as the ssh config changes it; a host that ssh knows by itself is only named."""
    monkeypatch.setattr(homes.pwd, "getpwuid", lambda uid: pwd.struct_passwd(("u", "x", uid, 0, "", str(tmp_path), "")))
    target = Host("web1", addr="10.0.0.7", user="ubuntu", port=2222)
    words = "-p 2222 -o User=ubuntu -o HostName=10.0.0.7 web1"
    assert resolved(tmp_path, "", target).ssh_v == f"ssh -v {words}"
    assert resolved(tmp_path, "", target).ssh_copy_id == f"ssh-copy-id {words}"
    assert resolved(tmp_path, "", target).ssh_accept == f"ssh {words}"
    assert resolved(tmp_path, "Host web1\n Port 7\n", target).ssh_v.startswith("ssh -v -p 7 ")
    assert resolved(tmp_path, "Host web1\n Port 7\n User u\n", Host("web1")).ssh_v == "ssh -v web1"


def test_the_command_to_paste_names_the_config_that_ssh_would_not_read(tmp_path: Path) -> None:
    """OpenSSH takes the home of the login, whatever HOME says."""
    found = resolved(tmp_path, "", Host("node01", port=2222))
    config = tmp_path / ".ssh" / "config"
    assert found.ssh_v == f"ssh -v -p 2222 -F {config} node01"
    assert found.ssh_copy_id == f"ssh-copy-id -p 2222 -F {config} node01"
    known = f"-o 'UserKnownHostsFile=\"{tmp_path}/.ssh/known_hosts\"'"
    assert found.ssh_accept == f"ssh -p 2222 -F {config} {known} node01"
    config.unlink()
    assert found.ssh_v == "ssh -v -p 2222 node01"
    assert found.ssh_accept == f"ssh -p 2222 {known} node01", "the key is kept where it is looked for"


def test_without_any_file_ssh_defaults_hold(tmp_path: Path) -> None:
    """The alias is the address, the login is ours, the keys are the usual ones, the agent is the environment's."""
    sources = Sources(tmp_path, {"SSH_AUTH_SOCK": "/run/agent"}, tmp_path / ".ssh" / "config", system=False)
    found = resolve(Host("node01"), sources)
    assert (found.hostname, found.port, found.user) == ("node01", 22, getpass.getuser())
    assert found.identity_files[3] == tmp_path / ".ssh" / "id_ed25519"
    assert found.agent == "/run/agent"
    assert found.known_hosts[0] == tmp_path / ".ssh" / "known_hosts"


@pytest.mark.parametrize(
    ("setting", "agent"),
    [("none", None), ("SSH_AUTH_SOCK", "/run/agent"), ("$OTHER", "/o"), ("${OTHER}/x", "/o/x"), ("~/s", "HOME/s")],
)
def test_identity_agent(setting: str, agent: str | None, tmp_path: Path) -> None:
    """IdentityAgent may be none, a path, or a variable of the environment."""
    sources = home_with(tmp_path, f"IdentityAgent {setting}\n")
    sources = Sources(sources.home, {**sources.env, "OTHER": "/o"}, sources.user_config, system=False)
    expected = agent.replace("HOME", str(tmp_path)) if agent else None
    assert resolve(Host("node01"), sources).agent == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Host node01\n HostName\n", r"config:2: HostName has no value"),
        ('Host node01\n User "bob\n', r"config:2: a quote is not closed"),
        ("Match host\n", r"config:1: Match host has no value"),
        ("Match moon full\n", r"config:1: Match moon is not known"),
        ("Port many\n", "'many' is not a port"),
        ("ConnectTimeout soon\n", "'soon' is not a time"),
        (f"ConnectTimeout {'9' * 5000}\n", "'99*' is not a time"),
        ("Include loop.conf\n", "too deep"),
        ("IdentityFile ${NOPE}/id\n", "NOPE is not set"),
    ],
)
def test_bad_config_is_one_clear_error(text: str, words: str, tmp_path: Path) -> None:
    """It names the file and the line where it can."""
    sources = home_with(tmp_path, text)
    (tmp_path / ".ssh" / "loop.conf").write_text("Include loop.conf\n")
    with pytest.raises(ConfigError, match=words):
        resolve(Host("node01"), sources)


@pytest.mark.parametrize(
    ("jump", "words"),
    [
        ("gw", (None, "gw", None)),
        ("me@gw:2200", ("me", "gw", 2200)),
        ("ssh://me@gw:22", ("me", "gw", 22)),
        ("me@corp.example@[fe80::1]:7", ("me@corp.example", "fe80::1", 7)),
    ],
)
def test_jump_hosts_are_written_as_in_ssh(jump: str, words: tuple[str | None, str, int | None]) -> None:
    """user, host and port, the last two also as [v6]:port."""
    assert jump_words(jump) == words


@pytest.mark.parametrize("port", ["port", "0", "70000", "9" * 5000])
def test_a_bad_jump_host_is_refused(port: str) -> None:
    """Not everything is a host, or a port."""
    with pytest.raises(ConfigError, match="is not"):
        jump_words(f"gw:{port}")


def test_a_command_of_match_exec_that_does_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It kept every host waiting for ever, as did what another one leaves in the background."""
    monkeypatch.setattr(sshconfig, "EXEC_SECONDS", 0.2)
    with pytest.raises(ConfigError, match=r"config:1: Match exec did not end within 0.2 s: sleep 30"):
        resolved(tmp_path, 'Match exec "sleep 30"\n Port 31\n')
    monkeypatch.setattr(sshconfig, "EXEC_SECONDS", 20.0)
    began = time.monotonic()
    assert resolved(tmp_path, 'Match exec "sleep 15 &"\n Port 31\n').port == 31
    assert time.monotonic() - began < 10


async def test_a_command_of_match_exec_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many hosts are resolved at once, and everything else goes on, also what takes a thread."""
    monkeypatch.setattr(sshconfig, "EXEC_SECONDS", 60.0)
    go = tmp_path / "go"
    text = f'Match exec "until test -e {go}; do sleep 0.05; done"\n HostName 127.0.0.1\n Port 1\n'
    sources, names = home_with(tmp_path, text), [f"h{number}" for number in range(40)]
    connector = SshConnector(map(Host, names), home=tmp_path, config=sources.user_config, system=False, env={})
    connecting = [asyncio.ensure_future(connector.connect(name)) for name in names]
    await asyncio.sleep(0.1)
    other = asyncio.ensure_future(asyncio.to_thread(str, "done"))
    await asyncio.wait([other, *connecting], return_when=asyncio.FIRST_COMPLETED)
    first = other.done(), any(task.done() for task in connecting)
    go.touch()
    for error in await asyncio.gather(*connecting, return_exceptions=True):
        assert isinstance(error, HostUnreachable)
    assert first == (True, False)
    await connector.close()


def test_distui_ends_while_a_match_exec_hangs() -> None:
    """A stop by SIGTERM, or `q` in the app, came up to 20 seconds later: a pool's threads are waited for."""
    program = (
        "import asyncio, time\nfrom distui.remote.aside import aside\n"
        "async def main(): await asyncio.wait_for(aside(time.sleep, 600), 0.1)\n"
        "try: asyncio.run(main())\nexcept TimeoutError: print('left')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "left\n", "")


async def test_what_is_read_aside_is_given_and_raised() -> None:
    """Of more at once than there are threads."""
    assert await asyncio.gather(*(aside(int, str(number)) for number in range(20))) == list(range(20))
    with pytest.raises(ValueError, match="invalid literal"):
        await aside(int, "x")
