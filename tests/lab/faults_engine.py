"""dockerd and the containers of a host."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from lab.fault_kinds import fault
from lab.paths import LabError
from lab.program import LIMIT

if TYPE_CHECKING:
    from lab.host import Host

START = """
pgrep -x dockerd >/dev/null || { rm -f /run/docker.sock; setsid dockerd >>/var/log/dockerd.log 2>&1 </dev/null & }
until docker version >/dev/null 2>&1; do sleep 0.05; done
"""
GONE = "while pgrep -x {0} >/dev/null; do sleep 0.02; done"


@fault("docker-kill", cure="docker-up")
def docker_kill(host: Host) -> None:
    """SIGKILL to dockerd: containers run on, unwatched."""
    host.exec("pkill -KILL -x dockerd; " + GONE.format("dockerd"))


@fault("docker-killall", cure="docker-up")
def docker_killall(host: Host) -> None:
    """SIGKILL to dockerd and containerd: shims and containers run on."""
    host.exec("pkill -KILL -x dockerd; pkill -KILL -x containerd; " + GONE.format("containerd"))


@fault("docker-down", cure="docker-up")
def docker_down(host: Host) -> None:
    """Stop dockerd as `systemctl stop` does: without live-restore it stops its containers first."""
    host.exec("pkill -TERM -x dockerd; " + GONE.format("dockerd"))


@fault("docker-up")
def docker_up(host: Host) -> None:
    """Start dockerd and wait until it answers."""
    host.exec(START)


@fault("docker-hang", cure="docker-cont")
def docker_hang(host: Host) -> None:
    """SIGSTOP to dockerd: every docker command hangs."""
    host.exec("pkill -STOP -x dockerd")


@fault("docker-cont")
def docker_cont(host: Host) -> None:
    """SIGCONT to dockerd."""
    host.exec("pkill -CONT -x dockerd || true")


@fault("docker-gone", cure="docker-back")
def docker_gone(host: Host) -> None:
    """The docker command is not installed (exit 127)."""
    host.exec("mv /usr/bin/docker /usr/bin/.docker-gone")


@fault("docker-back")
def docker_back(host: Host) -> None:
    """The docker command is installed again."""
    host.exec("test ! -e /usr/bin/.docker-gone || mv /usr/bin/.docker-gone /usr/bin/docker")


@fault("sudo", cure="sudo-gone")
def sudo(host: Host) -> None:
    """There is a sudo, which lets everybody be root without a password; `sudo-asks`: not without one."""
    host.exec("cp $(readlink -f /usr/bin/python3) /usr/bin/.lab-setuid && chmod 4755 /usr/bin/.lab-setuid")
    host.exec("install -m 755 /.lab/stubs/sudo /usr/bin/sudo")


@fault("sudo-asks", cure="sudo-gone")
def sudo_asks(host: Host) -> None:
    """sudo wants a password."""
    sudo(host)
    host.exec("touch /run/lab-sudo-asks")


@fault("sudo-gone")
def sudo_gone(host: Host) -> None:
    """No sudo, as the lab's hosts are."""
    host.exec("rm -f /usr/bin/sudo /usr/bin/.lab-setuid /run/lab-sudo-asks")


@fault("docker-slow", cure="docker-fast")
def docker_slow(host: Host, seconds: str) -> None:
    """`docker run` takes SECONDS longer before it does anything."""
    wrapper = f'#!/bin/sh\\n[ "$1" != run ] || sleep {int(seconds)}\\nexec /usr/bin/.docker-fast "$@"\\n'
    host.exec(
        f"mv /usr/bin/docker /usr/bin/.docker-fast; printf '{wrapper}' >/usr/bin/docker; chmod 755 /usr/bin/docker"
    )


HELD = r"""#!/bin/sh
[ "$1" != run ] || while [ -e /run/lab-held ]; do sleep 0.1; done
[ ! -x /usr/bin/.docker-fast ] || exec /usr/bin/.docker-fast "$@"
exec /usr/bin/docker "$@"
"""


@fault("docker-hold", cure="docker-fast")
def docker_hold(host: Host) -> None:
    """`docker run` waits before it does anything, until docker-fast."""
    host.exec("mv /usr/bin/docker /usr/bin/.docker-fast; touch /run/lab-held")
    host.exec("cat >/usr/bin/docker && chmod 755 /usr/bin/docker", input=HELD)


@fault("docker-fast")
def docker_fast(host: Host) -> None:
    """`docker run` as it was; one that is held goes on."""
    host.exec("test ! -e /usr/bin/.docker-fast || mv /usr/bin/.docker-fast /usr/bin/docker; rm -f /run/lab-held")


@fault("docker-small", cure="docker-large")
def docker_small(host: Host, mib: str = "64") -> None:
    """Restart dockerd with /var/lib/docker on a disk of MIB; `fill /var/lib/docker` then fills it."""
    docker_down(host)
    host.exec(f"mount -t tmpfs -o size={int(mib)}m tmpfs /var/lib/docker && cp -a /.lab/host/docker/. /var/lib/docker/")
    docker_up(host)


@fault("docker-large")
def docker_large(host: Host) -> None:
    """Give dockerd its own disk back; containers made on the small one are lost."""
    if host.out("stat", "-f", "-c", "%T", "/var/lib/docker") == "tmpfs":
        docker_down(host)
        host.exec("umount -R /var/lib/docker")
    docker_up(host)


def ranks(host: Host, container: str) -> list[str]:
    """Pids, as the host sees them, of a container's processes without the init that --init adds.

    One that has just started has only that for a moment, under its own name or as runc.
    """
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        rows = host.out("docker", "top", container, "-eo", "pid,comm").splitlines()[1:]
        if pids := [row.split()[0] for row in rows if "docker-init" not in row and "runc" not in row]:
            return pids
        time.sleep(0.05)
    raise LabError(f"{host.name}: container {container} has no process")


@fault("docker-log-opts", cure="docker-log-own")
def docker_log_opts(host: Host, driver: str, *options: str) -> None:
    """An admin's daemon.json sets the log DRIVER and NAME=VALUE options for containers that name none."""
    host.exec("test -e /etc/docker/daemon.json.own || cp /etc/docker/daemon.json /etc/docker/daemon.json.own")
    settings = json.loads(host.out("cat /etc/docker/daemon.json.own"))
    settings |= {"log-driver": driver, "log-opts": dict(option.split("=", 1) for option in options)}
    docker_down(host)
    host.exec("cat >/etc/docker/daemon.json", input=json.dumps(settings))
    docker_up(host)


@fault("docker-log-own")
def docker_log_own(host: Host) -> None:
    """daemon.json as it was."""
    docker_down(host)
    host.exec("test ! -e /etc/docker/daemon.json.own || mv /etc/docker/daemon.json.own /etc/docker/daemon.json")
    docker_up(host)


@fault("rank-kill")
def rank_kill(host: Host, container: str) -> None:
    """SIGKILL to the processes of a container: it ends with 137, OOMKilled false."""
    host.exec(f"for pid in {' '.join(ranks(host, container))}; do kill -KILL $pid 2>/dev/null; done; true")


@fault("rank-stop", cure="rank-cont")
def rank_stop(host: Host, container: str) -> None:
    """SIGSTOP to the processes of a container: it stays Running and does nothing."""
    stopped: set[str] = set()
    while new := set(ranks(host, container)) - stopped:  # one that is being stopped may just have started another
        host.exec(f"for pid in {' '.join(new)}; do kill -STOP $pid 2>/dev/null; done; true")
        stopped |= new
    host.exec(f"echo {' '.join(stopped)} >>/run/lab-stopped")


@fault("rank-cont")
def rank_cont(host: Host) -> None:
    """SIGCONT to every process that rank-stop has stopped."""
    host.exec(
        "for pid in $(cat /run/lab-stopped 2>/dev/null); do kill -CONT $pid 2>/dev/null; done; rm -f /run/lab-stopped"
    )


HOG = "import time; held = bytearray(96 << 20); time.sleep(30)"


@fault("rank-oom")
def rank_oom(host: Host, container: str) -> None:
    """The kernel's OOM killer takes a container's processes: 137 with OOMKilled true. Needs python3 in the image."""
    for pid in ranks(host, container):
        host.exec(f"echo 1000 >/proc/{pid}/oom_score_adj", check=False)  # it may just have ended
    host.exec("docker", "update", "--memory", "256m", "--memory-swap", "256m", container)
    # Several small hogs: one large one would score as high as a process marked 1000.
    hogs = " & ".join([f"python3 -c '{HOG}'"] * 4)
    host.exec("docker", "exec", container, "sh", "-c", f"{hogs} & wait", check=False)


@fault("container-kill")
def container_kill(host: Host, container: str) -> None:
    """docker kill."""
    host.exec("docker", "kill", container)


@fault("container-pause")
def container_pause(host: Host, container: str) -> None:
    """docker pause."""
    host.exec("docker", "pause", container)


@fault("container-unpause")
def container_unpause(host: Host, container: str) -> None:
    """docker unpause."""
    host.exec("docker", "unpause", container)


@fault("container-stop")
def container_stop(host: Host, container: str) -> None:
    """docker stop: SIGTERM; a second for that would be too little where everything is slow, so no SIGKILL follows."""
    ranks(host, container)  # a signal to an init that is just starting is lost
    host.exec("docker", "stop", "-t", "60", container)


@fault("container-rm")
def container_rm(host: Host, container: str) -> None:
    """docker rm -f: somebody removes the container while it runs."""
    host.exec("docker", "rm", "-f", container)


FLAKY = r"""#!/bin/sh
[ "$1" != run ] || exec /usr/bin/.docker-fast "$@"
count=$(cat /run/lab-flaky 2>/dev/null || echo 0)
echo $((count + 1)) >/run/lab-flaky
[ $((count % 4)) != 3 ] || { echo 'Error response from daemon: i/o timeout' >&2; exit 1; }
exec /usr/bin/.docker-fast "$@"
"""


@fault("docker-flaky", cure="docker-fast")
def docker_flaky(host: Host) -> None:
    """Every fourth call of the client fails, but for `docker run`."""
    host.exec("mv /usr/bin/docker /usr/bin/.docker-fast; rm -f /run/lab-flaky")
    host.exec("cat >/usr/bin/docker && chmod 755 /usr/bin/docker", input=FLAKY)


@fault("tool-gone", cure="tools-back")
def tool_gone(host: Host, name: str) -> None:
    """A program of the base system is not there."""
    host.exec(f"path=$(command -v {name}); mv $path $path.lab-gone; echo $path >>/run/lab-gone")


@fault("tools-back")
def tools_back(host: Host) -> None:
    """All such programs are there again."""
    back = "while read -r path; do mv $path.lab-gone $path; done </run/lab-gone; rm -f /run/lab-gone"
    host.exec(f"[ ! -e /run/lab-gone ] || {{ {back}; }}")


HELD_RM = r"""#!/bin/sh
case "$*" in "-rf -- "*/distui/hosts/*)
  echo $PPID $$ >>/run/lab-rm-held
  while :; do sleep 0.1; done ;;
esac
exec /usr/bin/.lab-rm "$@"
"""


@fault("rm-hold", cure="rm-back")
def rm_hold(host: Host) -> None:
    """Whatever removes a run's folder waits, until rm-back ends it before it has removed anything."""
    host.exec("mv /usr/bin/rm /usr/bin/.lab-rm; : >/run/lab-rm-held")
    host.exec("cat >/usr/bin/rm && chmod 755 /usr/bin/rm", input=HELD_RM)


@fault("rm-back")
def rm_back(host: Host) -> None:
    """As it was; who waits is killed, with the shell that called it."""
    host.exec(
        "[ -e /usr/bin/.lab-rm ] || exit 0; for pid in $(cat /run/lab-rm-held); do kill -KILL $pid 2>/dev/null; done;"
        " mv /usr/bin/.lab-rm /usr/bin/rm; rm -f /run/lab-rm-held"
    )
