"""The container images of the lab, built once into a golden Docker data-root that every host borrows.

The images are `lab/python:1` (Debian bookworm with Python 3.11 and the usual small tools), `lab/pytorch:1` (the same
and torch for CPU and numpy) and `lab/tensorflow:1` (the same and TensorFlow for CPU). A temporary dockerd without
network imports them; afterwards its data-root is split in two: `golden/` keeps the layers, `meta/` everything else with
empty layer folders.
A host copies `meta/` (a few MB) and binds the layers read-only, so bringing up a host costs no image load.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from lab import recipe
from lab.paths import HERE, LAB_DIR, LabError
from lab.shell import clean_env, sh

APART = ("setpriv", "--pdeathsig", "KILL", "unshare", "--kill-child", "-m", "-n", "-p", "--fork")
"""Namespaces of its own for a build step, without network, and an end when the builder is killed."""


def cache() -> Path:
    """The folder of this recipe's images. Its name says what made them, so it is never out of date."""
    made_of = (HERE / "recipe.py").read_bytes() + platform.machine().encode()
    return LAB_DIR / f"images-{hashlib.sha256(made_of).hexdigest()[:12]}"


def golden() -> Path:
    """The layers, which hosts bind read-only."""
    return cache() / "golden"


def meta() -> Path:
    """Docker's data-root without the layers' contents, which hosts copy."""
    return cache() / "meta"


def ensure_images() -> None:
    """Build the images unless the cache holds them; two that come at once build them once.

    The lock begins with a dot, which no lab's name does: a lab called `images` would wait for itself.
    """
    LAB_DIR.mkdir(parents=True, exist_ok=True)
    with (LAB_DIR / ".images.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not cache().is_dir():
            remove_old()
            build_images()


def remove_old() -> None:
    """Remove what killed builds left, and images of other recipes unless a running lab may use them."""
    old = [*LAB_DIR.glob("build-*")]
    if not any((LAB_DIR / "labs").glob("*")):
        old += LAB_DIR.glob("images-*")
    for folder in old:
        shutil.rmtree(folder)


def build_images() -> None:
    """Build everything again. About 75 s and 1.8 GB; raises LabError naming the step that failed."""
    with tempfile.TemporaryDirectory(dir=LAB_DIR, prefix="build-") as scratch:
        base, layers, made = Path(scratch, "base"), Path(scratch, "layers"), Path(scratch, "made")
        made.mkdir()
        step("base system", lambda: build_base(base))
        for layer in recipe.LAYERS:
            step(layer.image, functools.partial(build_layer, base, layers, layer))
        step("golden data-root", lambda: fill_golden(base, layers, made / "golden"))
        split(made / "golden", made / "meta")
        made.rename(cache())


def step(name: str, action: Callable[[], None]) -> None:
    """Run one build step and say on standard error how long it took."""
    started = time.monotonic()
    action()
    print(f"lab image: {name}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)


def build_base(root: Path) -> None:
    """Unpack (not configure) a small Debian, then do by hand the little configuration that is needed."""
    leave_out = [f"--dpkgopt=path-exclude=/usr/share/{folder}/*" for folder in recipe.EXCLUDED]
    include = "--include=" + ",".join(recipe.BASE_PACKAGES)
    sh("mmdebstrap", "--variant=extract", include, *leave_out, recipe.SUITE, str(root))
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


def build_layer(base: Path, layers: Path, made: recipe.Layer) -> None:
    """Install wheels into a folder of their own in `layers`, with the .pyc files of what a small job imports."""
    folder = layer_folder(layers, made)
    site = folder / recipe.SITE
    site.mkdir(parents=True)
    where = ("--target", str(site), "--python-version", recipe.PYTHON, "--only-binary=:all:", "--implementation", "cp")
    sh(*pip(), "install", "-q", "--no-compile", "--no-warn-script-location", *where, *made.wheels, env=pip_env())
    for unused in (path for pattern in made.unused for path in site.glob(pattern)):
        sh("rm", "-rf", str(unused))
    for library in made.stripped:
        sh("strip", "--strip-unneeded", str(site / library))
    (site / "lab.pth").write_text(recipe.COLLECTS_SELDOM)
    warm_up(base, folder, made.warm_up)


def layer_folder(layers: Path, made: recipe.Layer) -> Path:
    """What an image adds to the base system, before it is an image."""
    return layers / made.image.replace("/", "-").replace(":", "-")


def pip() -> tuple[str, ...]:
    """The first pip that runs: this interpreter's, or the system's."""
    for candidate in ((sys.executable, "-m", "pip"), ("/usr/bin/python3", "-m", "pip")):
        if subprocess.run([*candidate, "--version"], capture_output=True).returncode == 0:
            return candidate
    raise LabError("no working pip to install wheels into the images; install python3-pip")


def pip_env() -> dict[str, str]:
    """The caller's pip settings stay in force: where wheels come from is the machine's business."""
    settings = {key: value for key, value in os.environ.items() if key.startswith("PIP_")}
    return clean_env(PIP_ROOT_USER_ACTION="ignore", **settings)


def warm_up(base: Path, layer: Path, program: str) -> None:
    """Run one tiny job on base + layer, so that the .pyc files land in the layer (1 s less per start)."""
    script = """set -e
mount -t tmpfs tmpfs "$1"; mkdir "$1/root" "$4"
mount -t overlay overlay -o "lowerdir=$2,upperdir=$3,workdir=$4" "$1/root"
mount -t proc proc "$1/root/proc"; mount -t tmpfs tmpfs "$1/root/dev"; mount -t tmpfs tmpfs "$1/root/tmp"
mknod "$1/root/dev/null" c 1 3; mknod "$1/root/dev/urandom" c 1 9; mkdir "$1/root/dev/shm"
ip link set lo up
chroot "$1/root" python3 -c "$WARM_UP"
umount "$1/root/tmp" "$1/root/dev" "$1/root/proc" "$1/root"
"""
    mounts, work = layer.with_name(f"{layer.name}-mnt"), layer.with_name(f"{layer.name}-work")
    mounts.mkdir()
    argv = (*APART, "sh", "-c", script, "sh")
    sh(*argv, str(mounts), str(base), str(layer), str(work), env=clean_env(WARM_UP=program))


def fill_golden(base: Path, layers: Path, root: Path) -> None:
    """Import the images with a real dockerd that has no network and a data-root of its own."""
    builds = []
    for made in recipe.LAYERS:
        folder = layer_folder(layers, made)
        folder.joinpath("Dockerfile").write_text("FROM lab/python:1\nCOPY usr /usr\n")
        builds.append(f"docker build -q -t {made.image} {shlex.quote(str(folder))} >&2")
    changes = " ".join(f"-c '{change}'" for change in recipe.CHANGES)
    script = f"""set -e
ip link set lo up
mount -t tmpfs tmpfs /run
dockerd --data-root "$1" --exec-root /run/docker --pidfile /run/docker.pid -H unix:///run/docker.sock \
  --bridge=none --iptables=false --ip6tables=false --storage-driver overlay2 --oom-score-adjust 0 \
  --exec-opt native.cgroupdriver=cgroupfs >/run/dockerd.log 2>&1 &
daemon=$!
until test -S /run/docker.sock; do kill -0 $daemon; sleep 0.05; done
export DOCKER_HOST=unix:///run/docker.sock DOCKER_BUILDKIT=0
tar -C "$2" --one-file-system -cf - . | docker import {changes} - lab/python:1 >&2
{chr(10).join(builds)}
kill $daemon; wait $daemon || true
"""
    argv = (*APART, "--mount-proc", "sh", "-c", script, "sh")
    sh(*argv, str(root), str(base))


def split(layers: Path, rest: Path) -> None:
    """Copy a data-root with its layer folders empty; then `layers` is only good for its layers."""
    for noise in ("tmp", "runtimes", "containerd", "plugins", "swarm"):
        shutil.rmtree(layers / noise, ignore_errors=True)
    rest.mkdir()
    copy = 'cd "$1" && tar --exclude="./overlay2/*/diff/*" -cf - . | tar -C "$2" -xf -'
    sh("sh", "-c", copy, "sh", str(layers), str(rest))
