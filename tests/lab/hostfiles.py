"""The files a lab host is born with, written into its folder before it starts.

`files/` is copied over the host's root, `infiniband/` becomes /sys/class/infiniband, and `docker/` is
/var/lib/docker.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from lab import cgroups, gpus, images
from lab.keys import SSHD_CONFIG
from lab.network import ETH, address
from lab.paths import LAB_DIR, REPO
from lab.shell import sh

USUAL = "bin boot dev etc home lib lib32 lib64 libx32 lost+found media mnt opt proc root run sbin srv sys tmp usr var"
"""The usual folders at the top of a machine; hostinit.sh sees to those that a host must have for itself."""

CONTAINERS_CONF = """[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
[engine.runtimes]
runc = ["/usr/local/sbin/runc"]
[containers]
cgroupns = "host"
log_driver = "k8s-file"
init_path = "/usr/bin/tini-static"
"""


@dataclass(frozen=True, slots=True)
class HostFiles:
    """Where a host's folder is and what is to be in it."""

    folder: Path
    lab: str
    host: str
    index: int
    hosts: int

    def write(self, host_key: Path, client_key: Path, known: list[str], live_restore: bool) -> None:
        """Write everything; `known` are the known_hosts rows, so that hosts can log in to one another."""
        root = self.folder / "files"
        (root / "etc").mkdir(parents=True)
        (root / "etc/hostname").write_text(self.host + "\n")
        (root / "etc/machine-id").write_text(f"{self.index:032x}\n")
        (root / "etc/hosts").write_text(hosts_file(self.hosts))
        (root / "etc/resolv.conf").write_text("")
        self.write_ssh(root, host_key, client_key, known)
        self.write_engines(root, live_restore)
        gpus.write_gpus(root / "etc/lab", self.index)
        gpus.write_infiniband(self.folder / "infiniband", self.index)

    def write_ssh(self, root: Path, host_key: Path, client_key: Path, known: list[str]) -> None:
        etc, home = root / "etc/ssh", root / "root/.ssh"
        etc.mkdir(mode=0o755)
        home.mkdir(parents=True, mode=0o700)
        (root / "root").chmod(0o700)
        (etc / "sshd_config").write_text(SSHD_CONFIG)
        (etc / "ssh_known_hosts").write_text("\n".join(known) + "\n")
        for suffix in ("", ".pub"):
            shutil.copy(host_key.with_name(host_key.name + suffix), etc / f"ssh_host_ed25519_key{suffix}")
        shutil.copy(client_key, home / "id_ed25519")
        shutil.copy(client_key.with_name(client_key.name + ".pub"), home / "authorized_keys")
        for secret in (etc / "ssh_host_ed25519_key", home / "id_ed25519", home / "authorized_keys"):
            secret.chmod(0o600)

    def write_engines(self, root: Path, live_restore: bool) -> None:
        docker, containers = root / "etc/docker", root / "etc/containers"
        docker.mkdir()
        containers.mkdir()
        daemon = {
            "cgroup-parent": cgroups.parent(self.lab, self.host),
            "exec-opts": ["native.cgroupdriver=cgroupfs"],
            "live-restore": live_restore,
            "oom-score-adjust": 0,
            "storage-driver": "overlay2",
        }
        (docker / "daemon.json").write_text(json.dumps(daemon, indent=2) + "\n")
        (containers / "containers.conf").write_text(CONTAINERS_CONF)
        (containers / "registries.conf").write_text('unqualified-search-registries = ["docker.io"]\n')
        (containers / "policy.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}\n')

    def copy_docker_root(self) -> None:
        """Give the host a data-root of its own: everything of the golden one but the layers."""
        sh("cp", "-a", str(images.meta()), str(self.folder / "docker"))


def hosts_file(hosts: int) -> str:
    rows = [f"{address(ETH, index)} h{index}" for index in range(1, hosts + 1)]
    return "\n".join(["127.0.0.1 localhost", "::1 localhost ip6-localhost", *rows]) + "\n"


def hidden_folders() -> list[str]:
    """Folders of the machine that a host must not see: the cache, the checkout, anything unusual at the top."""
    unusual = [f"/{path.name}" for path in Path("/").iterdir() if path.is_dir() and path.name not in USUAL.split()]
    own = [str(folder) for folder in (LAB_DIR, REPO) if not folder.is_relative_to("/var/tmp")]
    inside = [path for path in own if not any(Path(path).is_relative_to(top) for top in unusual)]
    return [path for path in unusual + inside if " " not in path]
