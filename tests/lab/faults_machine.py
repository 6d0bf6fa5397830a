"""The machine itself: power, freezing, CPU, disks, the shared folder, GPUs, InfiniBand."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from lab import cgroups, gpus, network
from lab.fault_kinds import fault
from lab.faults_engine import docker_down, docker_up
from lab.faults_network import plug, unplug
from lab.paths import LabError

if TYPE_CHECKING:
    from lab.host import Host

SMALL_DISK = 2 << 20  # KiB; nothing larger is ever filled


@fault("poweroff", cure="poweron")
def poweroff(host: Host) -> None:
    """Power cut: the cables go dead, then everything is gone. Peers see silence only."""
    unplug(host)
    host.kill()


@fault("crash", cure="poweron")
def crash(host: Host) -> None:
    """Everything is killed while the network is up, so peers see connections closed."""
    host.kill()


@fault("poweron")
def poweron(host: Host) -> None:
    """Boot again. Containers are there as Exited; files outside /var/lib/docker are as new."""
    if host.is_up:
        plug(host)
        return
    cgroups.remove(host.lab.name, host.name)
    network.remove_host(host.lab.name, host.name)
    network.add_host(host.lab.name, host.name, host.index)
    host.start()
    host.wait_ready()


@fault("freeze", cure="thaw")
def freeze(host: Host) -> None:
    """A hung machine: no process runs any more, the kernel still answers TCP."""
    cgroups.freeze(host.lab.name, host.name, True)


@fault("thaw")
def thaw(host: Host) -> None:
    """Let it run again."""
    cgroups.freeze(host.lab.name, host.name, False)


@fault("cpu", cure="cpu-free")
def cpu(host: Host, percent: str) -> None:
    """A slow machine: all of it together gets PERCENT of one core."""
    cgroups.limit_cpu(host.lab.name, host.name, int(percent))


@fault("cpu-free")
def cpu_free(host: Host) -> None:
    """All the CPU again."""
    cgroups.limit_cpu(host.lab.name, host.name, 0)


@fault("fill", cure="unfill")
def fill(host: Host, folder: str = "/tmp") -> None:
    """Fill the disk under FOLDER: /tmp, /data, /, or /var/lib/docker after docker-small."""
    kib = int(host.out("df", "--output=size", "-k", folder).split()[-1])
    if kib > SMALL_DISK:
        raise LabError(f"{host.name}: {folder} is a large disk shared with this machine; use docker-small first")
    host.exec(f"echo '{folder}' >>/run/lab-filled; dd if=/dev/zero of='{folder}/.lab-fill' bs=1M 2>/dev/null; true")


@fault("unfill")
def unfill(host: Host) -> None:
    """Take the ballast away."""
    host.exec('while read -r folder; do rm -f "$folder/.lab-fill"; done </run/lab-filled; rm -f /run/lab-filled')


@fault("nfs-gone", cure="nfs-ok")
def nfs_gone(host: Host) -> None:
    """The shared folder is not mounted: /mnt/pytorch is an empty folder."""
    host.exec("mount -t tmpfs -o size=1m tmpfs /mnt/pytorch")


@fault("nfs-ro", cure="nfs-ok")
def nfs_ro(host: Host) -> None:
    """The shared folder is read-only on this host."""
    host.exec("mount -o bind,ro /mnt/pytorch /mnt/pytorch")


@fault("nfs-ok")
def nfs_ok(host: Host) -> None:
    """The shared folder as it was."""
    host.exec('while [ "$(grep -c " /mnt/pytorch " /proc/self/mountinfo)" -gt 1 ]; do umount -l /mnt/pytorch; done')


@fault("hosts-loopback", cure="hosts-ok")
def hosts_loopback(host: Host) -> None:
    """`127.0.1.1 NAME` in /etc/hosts, as Debian's installer writes it."""
    host.exec(f"cp /etc/hosts /run/lab-hosts; sed -i '1i 127.0.1.1 {host.name}' /etc/hosts")


@fault("hosts-ok")
def hosts_ok(host: Host) -> None:
    """/etc/hosts as it was."""
    host.exec("test ! -e /run/lab-hosts || cat /run/lab-hosts >/etc/hosts; rm -f /run/lab-hosts")


def put_gpus(
    host: Host,
    count: int = gpus.HOST_GPUS,
    used: dict[int, int] | None = None,
    state: str = "ok",
    changes: dict[int, dict[str, object]] | None = None,
) -> None:
    """Write the host's GPU files and device nodes."""
    staged = host.folder / "gpus"
    gpus.write_gpus(staged, host.index, count, used, changes)
    (staged / "gpu-state").write_text(state + "\n")
    host.exec("cp /.lab/host/gpus/* /etc/lab/ && sh /.lab/stubs/gpu-nodes")
    shutil.rmtree(staged)


@fault("gpus", cure="gpu-ok")
def gpu_count(host: Host, count: str) -> None:
    """The host has COUNT GPUs."""
    put_gpus(host, int(count))


@fault("gpu-used", cure="gpu-ok")
def gpu_used(host: Host, gpu: str = "0", mib: str = "40000") -> None:
    """A stranger's process holds MIB of GPU number GPU and keeps it busy."""
    put_gpus(host, used={int(gpu): int(mib)})


@fault("gpu-hot", cure="gpu-ok")
def gpu_hot(host: Host, gpu: str = "1", celsius: str = "84") -> None:
    """GPU number GPU is at CELSIUS degrees; from 87 on it is slowed down."""
    put_gpus(host, changes={int(gpu): gpus.heat(int(celsius))})


@fault("gpu-sick", cure="gpu-ok")
def gpu_sick(host: Host, gpu: str = "1") -> None:
    """GPU number GPU has counted memory errors that ECC could not correct, and its driver wants it reset."""
    reported = {"ecc.errors.uncorrected.volatile.total": 2, "gpu_recovery_action": "Reset"}
    put_gpus(host, changes={int(gpu): reported})


@fault("gpu-lost", cure="gpu-ok")
def gpu_lost(host: Host, gpu: str = "1") -> None:
    """GPU number GPU has fallen off the bus: the others are listed, nvidia-smi exits 15."""
    put_gpus(host, state=f"lost {int(gpu)}")


@fault("gpu-nodriver", cure="gpu-ok")
def gpu_nodriver(host: Host) -> None:
    """The driver is not loaded: nvidia-smi exits 9, the container hook refuses."""
    put_gpus(host, state="nodriver")


@fault("gpu-mismatch", cure="gpu-ok")
def gpu_mismatch(host: Host) -> None:
    """Driver and library differ, as after an upgrade without a reboot: exit 18."""
    put_gpus(host, state="mismatch")


@fault("gpu-hang", cure="gpu-ok")
def gpu_hang(host: Host) -> None:
    """nvidia-smi never answers."""
    put_gpus(host, state="hang")


@fault("gpu-gone", cure="gpu-ok")
def gpu_gone(host: Host) -> None:
    """A host without GPUs: no nvidia-smi, no device nodes."""
    put_gpus(host, 0)
    host.exec("rm -f /usr/bin/nvidia-smi /dev/nvidia*")


@fault("gpu-nohook", cure="gpu-hook")
def gpu_nohook(host: Host) -> None:
    """NVIDIA's container toolkit is not installed: docker run --gpus is refused. Restarts dockerd."""
    host.exec("rm -f /usr/bin/nvidia-container-runtime-hook")
    docker_down(host)
    docker_up(host)


@fault("gpu-hook")
def gpu_hook(host: Host) -> None:
    """The container toolkit is installed again. Restarts dockerd."""
    host.exec("install -m 755 /.lab/stubs/nvidia-container-runtime-hook /usr/bin/")
    docker_down(host)
    docker_up(host)


@fault("gpu-ok")
def gpu_ok(host: Host) -> None:
    """Two idle GPUs and a working driver."""
    host.exec("install -m 755 /.lab/stubs/nvidia-smi /usr/bin/nvidia-smi")
    put_gpus(host)


def put_port(host: Host, active: bool) -> None:
    staged = host.folder / "port"
    (staged / "mlx5_0/ports/1").mkdir(parents=True)
    gpus.write_port_state(staged, active)
    host.exec("cp -r /.lab/host/port/. /sys/class/infiniband/")
    shutil.rmtree(staged)


@fault("ib-down", cure="ib-up")
def ib_down(host: Host) -> None:
    """The InfiniBand port is DOWN in /sys (ib0 itself: unplug ib0)."""
    put_port(host, active=False)


@fault("ib-up")
def ib_up(host: Host) -> None:
    """The InfiniBand port is ACTIVE."""
    put_port(host, active=True)
