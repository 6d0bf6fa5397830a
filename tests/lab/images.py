"""The container images of the lab, built once into a golden Docker data-root that every host borrows.

The images are `lab/python:1` (Debian bookworm with Python 3.11 and the usual small tools) and `lab/pytorch:1`
(the same and torch for CPU and numpy). A temporary dockerd without network imports them; afterwards its
data-root is split in two: `golden/` keeps the layers, `meta/` everything else with empty layer folders.
A host copies `meta/` (a few MB) and binds the layers read-only, so bringing up a host costs no image load.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lab.paths import LAB_DIR, LabError
from lab.shell import clean_env, sh

GOLDEN = LAB_DIR / "golden"
META = LAB_DIR / "meta"
STAMP = LAB_DIR / "images.stamp"

BASE_PACKAGES = (
    "base-files base-passwd bash coreutils dash debianutils findutils grep hostname iproute2 libc-bin "
    "libgomp1 libpython3-stdlib libstdc++6 mawk procps python3-minimal sed util-linux"
).split()
EXCLUDED = ("doc", "man", "locale", "info")
WHEELS = ("torch==2.13.0", "numpy<3")
SITE = "usr/lib/python3/dist-packages"
UNUSED = ("torch/test", "torch/include", "torch/share", "torch/bin/protoc*")
CHANGES = (
    'CMD ["python3"]',
    "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "ENV LANG=C.UTF-8",
)
WARM_UP = """
import os, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
import torch.utils.data, torch.utils.data.distributed
os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT='29555', GLOO_SOCKET_IFNAME='lo')
dist.init_process_group('gloo', rank=0, world_size=1)
model = DDP(torch.nn.Linear(2, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(1, 2)).sum().backward()
optimizer.step()
dist.destroy_process_group()
"""


def recipe_hash() -> str:
    """Identifies how the images are made: the text of this file and the machine's architecture."""
    return hashlib.sha256(Path(__file__).read_bytes() + platform.machine().encode()).hexdigest()[:16]


def ensure_images() -> None:
    """Build the images unless the cache already holds the ones this recipe makes."""
    LAB_DIR.mkdir(parents=True, exist_ok=True)
    with (LAB_DIR / "images.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not images_ready():
            build_images()


def images_ready() -> bool:
    """Whether the cache holds the images of this recipe."""
    return STAMP.exists() and STAMP.read_text() == recipe_hash() and META.is_dir()


def build_images() -> None:
    """Build everything anew. About 45 s and 1.2 GB; raises LabError naming the step that failed."""
    STAMP.unlink(missing_ok=True)
    for folder in (GOLDEN, META):
        shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=LAB_DIR, prefix="build-") as scratch:
        base, torch = Path(scratch, "base"), Path(scratch, "torch")
        step("base system", lambda: build_base(base))
        step("torch", lambda: build_torch(base, torch))
        step("golden data-root", lambda: fill_golden(base, torch))
    split_golden()
    STAMP.write_text(recipe_hash())


def step(name: str, action: object) -> None:
    """Run one build step and say on standard error how long it took."""
    started = time.monotonic()
    assert callable(action)
    action()
    print(f"lab image: {name}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)


def build_base(root: Path) -> None:
    """Unpack (not configure) a small Debian, then do by hand the little configuration that is needed."""
    leave_out = [f"--dpkgopt=path-exclude=/usr/share/{folder}/*" for folder in EXCLUDED]
    include = "--include=" + ",".join(BASE_PACKAGES)
    sh("mmdebstrap", "--variant=extract", include, *leave_out, "bookworm", str(root))
    shutil.copy(root / "usr/share/base-passwd/passwd.master", root / "etc/passwd")
    shutil.copy(root / "usr/share/base-passwd/group.master", root / "etc/group")
    link(root / "usr/bin/awk", "mawk")
    link(root / "bin/sh", "dash")
    (root / "etc/hostname").write_text("lab\n")
    sh("ldconfig", "-r", str(root))
    for folder in ("var/cache/apt", "var/lib/apt", "var/lib/dpkg"):
        shutil.rmtree(root / folder, ignore_errors=True)


def link(path: Path, target: str) -> None:
    if not path.exists():
        path.symlink_to(target)


def build_torch(base: Path, layer: Path) -> None:
    """Install torch into a folder of its own, with the .pyc files of what a small DDP job imports."""
    site = layer / SITE
    site.mkdir(parents=True)
    where = ("--target", str(site), "--python-version", "3.11", "--only-binary=:all:", "--implementation", "cp")
    sh(*pip(), "install", "-q", "--no-compile", "--no-warn-script-location", *where, *WHEELS, env=pip_env())
    for unused in (path for pattern in UNUSED for path in site.glob(pattern)):
        sh("rm", "-rf", str(unused))
    warm_up(base, layer)


def pip() -> tuple[str, ...]:
    """The first pip that runs: this interpreter's, or the system's."""
    for candidate in ((sys.executable, "-m", "pip"), ("/usr/bin/python3", "-m", "pip")):
        if subprocess.run([*candidate, "--version"], capture_output=True).returncode == 0:
            return candidate
    raise LabError("no working pip to install torch into the image; install python3-pip")


def pip_env() -> dict[str, str]:
    """The caller's pip settings stay in force: where wheels come from is the machine's business."""
    settings = {key: value for key, value in os.environ.items() if key.startswith("PIP_")}
    return clean_env(PIP_ROOT_USER_ACTION="ignore", **settings)


def warm_up(base: Path, layer: Path) -> None:
    """Run one tiny DDP step on base + layer, so that the .pyc files land in the layer (1 s less per start)."""
    script = """set -e
mount -t tmpfs tmpfs "$1"; mkdir "$1/root" "$4"
mount -t overlay overlay -o "lowerdir=$2,upperdir=$3,workdir=$4" "$1/root"
mount -t proc proc "$1/root/proc"; mount -t tmpfs tmpfs "$1/root/dev"; mount -t tmpfs tmpfs "$1/root/tmp"
mknod "$1/root/dev/null" c 1 3; mknod "$1/root/dev/urandom" c 1 9; mkdir "$1/root/dev/shm"
ip link set lo up
chroot "$1/root" python3 -c "$WARM_UP"
umount "$1/root/tmp" "$1/root/dev" "$1/root/proc" "$1/root"
"""
    mounts, work = layer.with_name("mnt"), layer.with_name("work")
    mounts.mkdir()
    argv = ("unshare", "-m", "-n", "-p", "--fork", "sh", "-c", script, "sh")
    sh(*argv, str(mounts), str(base), str(layer), str(work), env=clean_env(WARM_UP=WARM_UP))


def fill_golden(base: Path, layer: Path) -> None:
    """Import both images with a real dockerd that has no network and a data-root of its own."""
    layer.joinpath("Dockerfile").write_text("FROM lab/python:1\nCOPY usr /usr\n")
    changes = " ".join(f"-c '{change}'" for change in CHANGES)
    script = f"""set -e
ip link set lo up
mount -t tmpfs tmpfs /run
dockerd --data-root "$1" --exec-root /run/docker --pidfile /run/docker.pid -H unix:///run/docker.sock \
  --bridge=none --iptables=false --ip6tables=false --storage-driver overlay2 --oom-score-adjust 0 \
  --exec-opt native.cgroupdriver=cgroupfs >"$1.log" 2>&1 &
daemon=$!
until test -S /run/docker.sock; do kill -0 $daemon; sleep 0.05; done
export DOCKER_HOST=unix:///run/docker.sock DOCKER_BUILDKIT=0
tar -C "$2" --one-file-system -cf - . | docker import {changes} - lab/python:1 >&2
docker build -q -t lab/pytorch:1 "$3" >&2
kill $daemon; wait $daemon || true
"""
    # In a pid namespace of its own, so that a containerd left over by a failure dies with the script.
    argv = ("unshare", "-m", "-n", "-p", "--fork", "--mount-proc", "sh", "-c", script, "sh")
    sh(*argv, str(GOLDEN), str(base), str(layer), env=clean_env())
    GOLDEN.with_name("golden.log").unlink(missing_ok=True)


def split_golden() -> None:
    """Make `meta/`: the data-root with empty layer folders; `golden/` keeps just the layers."""
    for noise in ("tmp", "runtimes", "containerd", "plugins", "swarm"):
        shutil.rmtree(GOLDEN / noise, ignore_errors=True)
    sh("mkdir", "-p", str(META))
    sh("sh", "-c", 'cd "$1" && tar --exclude="./overlay2/*/diff/*" -cf - . | tar -C "$2" -xf -',
       "sh", str(GOLDEN), str(META))  # fmt: skip
