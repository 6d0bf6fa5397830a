"""sshd of a host: stopped, hung, with another key, or refusing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.fault_kinds import fault

if TYPE_CHECKING:
    from lab.host import Host

HOMES = "/root /home/*"


@fault("ssh-down", cure="ssh-up")
def ssh_down(host: Host) -> None:
    """Stop the listening sshd: new logins are refused, sessions go on."""
    host.exec(
        'pid=$(cat /run/sshd.pid 2>/dev/null) || exit 0; kill "$pid"; while kill -0 "$pid" 2>/dev/null; do :; done'
    )


@fault("ssh-up")
def ssh_up(host: Host) -> None:
    """Start sshd, unless it listens, and return when it does: it goes to the background before, and says so after."""
    host.exec("""up() { kill -0 "$(cat /run/sshd.pid 2>/dev/null)" 2>/dev/null; }
up && exit
$(command -v sshd) && until up; do sleep 0.02; done""")


@fault("ssh-killall")
def ssh_killall(host: Host) -> None:
    """Kill every ssh session; the listener stays, and what the sessions had started lives on."""
    host.exec('pgrep -x sshd | grep -vx "$(cat /run/sshd.pid)" | xargs -r kill -KILL 2>/dev/null || true')


@fault("ssh-hang", cure="ssh-cont")
def ssh_hang(host: Host) -> None:
    """SIGSTOP to every sshd: connections are taken, but no banner comes, and sessions stand still."""
    host.exec("pkill -STOP -x sshd")


@fault("ssh-cont")
def ssh_cont(host: Host) -> None:
    """SIGCONT to every sshd."""
    host.exec("pkill -CONT -x sshd || true")


def restart(host: Host) -> None:
    """As SIGHUP, but it returns when sshd listens again; sessions go on."""
    ssh_down(host)
    ssh_up(host)


@fault("ssh-hostkey", cure="ssh-hostkey-old")
def ssh_hostkey(host: Host) -> None:
    """A new host key, as after a reinstallation: clients must refuse."""
    host.exec("""set -e
cd /etc/ssh
test -e key.old || cp -p ssh_host_ed25519_key key.old
rm ssh_host_ed25519_key
ssh-keygen -q -t ed25519 -N '' -f ssh_host_ed25519_key
""")
    restart(host)


@fault("ssh-hostkey-old")
def ssh_hostkey_old(host: Host) -> None:
    """The host key that known_hosts has."""
    host.exec("cd /etc/ssh; test ! -e key.old || mv key.old ssh_host_ed25519_key")
    restart(host)


@fault("ssh-setenv", cure="ssh-unsetenv")
def ssh_setenv(host: Host, setting: str) -> None:
    """New sessions get NAME=VALUE: PATH=/bin hides docker, LC_ALL=de_DE.UTF-8 changes the language."""
    host.exec("sh", "-c", 'echo "SetEnv $1" >>/etc/ssh/sshd_config', "sh", setting)
    restart(host)


@fault("ssh-unsetenv")
def ssh_unsetenv(host: Host) -> None:
    """Sessions get sshd's own environment again."""
    host.exec("sed -i '/^SetEnv /d' /etc/ssh/sshd_config")
    restart(host)


@fault("ssh-set", cure="ssh-unset")
def ssh_set(host: Host, *lines: str) -> None:
    """These lines come first in sshd_config and win: `MaxSessions 1`, `ForceCommand /bin/menu`."""
    script = """cd /etc/ssh && { test -e sshd_config.lab || cp sshd_config sshd_config.lab; }
{ printf '%s\\n' "$@"; cat sshd_config.lab; } >sshd_config"""
    host.exec("sh", "-ec", script, "sh", *lines)
    restart(host)


@fault("ssh-unset")
def ssh_unset(host: Host) -> None:
    """sshd_config as it was."""
    host.exec("cd /etc/ssh; test ! -e sshd_config.lab || mv sshd_config.lab sshd_config")
    restart(host)


@fault("ssh-deny", cure="ssh-allow")
def ssh_deny(host: Host) -> None:
    """No key is accepted any more: Permission denied (publickey)."""
    host.exec(f"for home in {HOMES}; do mv $home/.ssh/authorized_keys $home/.ssh/denied 2>/dev/null; done; true")


@fault("ssh-allow")
def ssh_allow(host: Host) -> None:
    """Keys are accepted again."""
    host.exec(f"for home in {HOMES}; do mv $home/.ssh/denied $home/.ssh/authorized_keys 2>/dev/null; done; true")
