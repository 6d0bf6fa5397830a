"""The probe script, run for real under every POSIX shell this machine has, and read back."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from distui.errors import HostCommandError
from distui.facts import probe
from distui.facts.host import HostFacts
from distui.session import Completed
from distui.spec.hosts.inventory import Host

DATA = Path(__file__).parents[1] / "data"
NONCE = "5fd1c09e2b7a44d0"
SHELLS = [
    words
    for words in (
        ("sh",),
        ("dash",),
        ("bash", "--posix"),
        ("bash",),
        ("busybox", "sh"),
        ("ksh",),
        ("zsh", "--emulate", "sh"),
    )
    if shutil.which(words[0])
]
QUERY_HEADER = (
    "index, uuid, name, pci.bus_id, memory.total [MiB], memory.used [MiB], utilization.gpu [%], "
    "temperature.gpu, power.draw [W], driver_version, mig.mode.current"
)

Run = Callable[..., HostFacts]
Shim = Callable[[str, str], Path]


@pytest.fixture
def shim(tmp_path: Path) -> Shim:
    """Puts a small sh program in front of the host's PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()

    def add(name: str, body: str) -> Path:
        path = folder / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return path

    return add


def environment(folder: Path) -> dict[str, str]:
    """Of a login whose PATH begins with the small programs, and whose Docker is not this machine's."""
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "DOCKER_HOST": f"unix://{folder / 'docker.sock'}"}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs the script as a host would and reads its answer."""

    def go(
        host: Host | None = None, *, shell: tuple[str, ...] = ("sh",), limit: int = 8, noise: bytes = b""
    ) -> HostFacts:
        asked = host or Host("node01", engine="process", engine_command=())
        env = environment(tmp_path)
        sent = time.time()
        done = subprocess.run(
            shell,
            input=probe.script(NONCE, asked, limit=limit).encode(),
            capture_output=True,
            env=env,
            check=True,
            timeout=60,
        )
        assert done.stderr == b""
        return probe.read(asked, noise + done.stdout, NONCE, sent_at=sent, received_at=time.time(), connect_ms=80.0)

    return go


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_this_machine_is_read_alike_by_every_shell(run: Run, shell: tuple[str, ...]) -> None:
    """Whatever /bin/sh is, the same script finds the same machine, without a word on stderr."""
    facts = run(shell=shell)
    assert (facts.hostname, facts.kernel, facts.arch) == (os.uname().nodename, os.uname().release, os.uname().machine)
    assert (facts.uid, facts.cpus) == (os.getuid(), os.sysconf("SC_NPROCESSORS_ONLN"))
    assert facts.memory_total_mib == pytest.approx(
        os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**20, rel=0.02
    )
    assert [n.name for n in facts.nics if n.kind == "loopback"] == ["lo"]
    assert facts.python3 is not None and facts.clock_offset_ms is not None
    assert "/" in {d.path for d in facts.disks}
    assert facts.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_a_login_shell_that_is_slow_to_start_is_named(run: Run, shell: tuple[str, ...]) -> None:
    """As one with `sleep` in its .bashrc, which becomes the shell that reads the script."""
    slow = ("sh", "-c", f"sleep 2.1; exec {' '.join(shell)}")
    facts = run(shell=slow)
    assert facts.shell_s is not None and facts.shell_s >= 2
    assert [words for words in facts.warnings if words.startswith("its login shell takes ")]


def test_this_machines_clock_is_our_clock(run: Run) -> None:
    """However busy it is: no offset without proof."""
    facts = run()
    assert facts.clock_offset_ms == 0 and facts.rtt_ms is not None


def test_a_noisy_login_shell_changes_nothing(run: Run) -> None:
    """Words before the frame, even without a newline or valid UTF-8, are not part of the answer."""
    facts = run(noise=b"Welcome!\n\xff\xfe 3 updates\nabc part system\nhostname\tliar\n> ")
    assert facts.hostname == os.uname().nodename


def test_without_timeout_and_ip_the_kernel_tables_serve(run: Run, shim: Shim) -> None:
    """A host with neither timeout(1) nor a modern iproute2 gives the same addresses."""
    with_tools = {n.name: {a.ip for a in n.addresses if a.family == 4} for n in run().nics if n.up}
    shim("timeout", "exit 127")
    shim("ip", 'echo "Option \\"-j\\" is unknown, try \\"ip -help\\"." >&2; exit 255')
    facts = run()
    assert {n.name: {a.ip for a in n.addresses if a.family == 4} for n in facts.nics if n.up} == with_tools
    assert {n.name: n.kind for n in facts.nics}["lo"] == "loopback"


@pytest.fixture
def port() -> Iterator[int]:
    """One that is listened on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def test_without_python3_other_programs_tell_the_same(run: Run, shim: Shim, port: int) -> None:
    """And one that hangs takes nothing with it but its own version."""
    before = run()
    shim("python3", "exit 127")
    without = run()
    assert without.python3 is None and port in before.ports_in_use and port in without.ports_in_use
    assert (without.name_is_loopback, without.default_route_nic) == (before.name_is_loopback, before.default_route_nic)
    shim("python3", f"exec sleep {long(613)}")
    shim("docker", f"[ $1 = version ] && cat {DATA / 'version_up.json'} || cat {DATA / 'info_no_gpu.json'}")
    hanging = run(Host("node01"), limit=3)
    assert hanging.python3 is None and port in hanging.ports_in_use
    assert "`python3` did not answer in time" in hanging.warnings
    assert (hanging.engine.problem, hanging.engine.live_restore) == (None, True)
    assert processes_with(long(613)) == []


def test_a_python3_that_nobody_can_end_takes_nothing_with_it(run: Run, shim: Shim, port: int) -> None:
    """It holds its pipe open for ever: what others tell in its place is read all the same, as is the engine."""
    shim("python3", f"setsid sleep {long(615)} & wait")
    shim("docker", f"[ $1 = version ] && cat {DATA / 'version_up.json'} || cat {DATA / 'info_no_gpu.json'}")
    try:
        facts = run(Host("node01"), limit=3)
    finally:
        for pid in processes_with(long(615)):
            os.kill(pid, signal.SIGKILL)
    assert facts.python3 is None and port in facts.ports_in_use
    assert (facts.engine.problem, facts.engine.live_restore) == (None, True)


def test_a_mount_that_hangs_hides_no_other_disk(run: Run, shim: Shim, tmp_path: Path) -> None:
    """df of all disks at once never ends then: each is asked for alone."""
    everywhere = {d.path for d in run().disks}
    real = f'exec {shutil.which("df")} "$@"'
    shim("df", f"""case "$*" in *" / "* | */dev/shm) exec sleep {long(614)} ;; *) {real} ;; esac""")
    assert {d.path for d in run(limit=4).disks} == everywhere - {"/dev/shm"}
    shim("df", f"""[ $# = 2 ] || exit 1; exec {shutil.which("df")} "$@" """)
    assert {d.path for d in run(limit=4).disks} == everywhere
    assert processes_with(long(614)) == []


def test_a_clock_in_whole_seconds_is_said_to_be_coarse(run: Run, shim: Shim) -> None:
    """Where date has no %N and there is no python3, the offset is right to half a second and says so."""
    shim("date", 'case $1 in +%s%N) echo "$(/bin/date +%s)%N";; *) /bin/date "$@";; esac')
    shim("python3", "exit 127")
    facts = run()
    assert facts.python3 is None
    assert any("whole seconds" in warning for warning in facts.warnings)
    assert facts.clock_offset_ms == 0


@pytest.mark.parametrize(
    "body", ["exec sleep SECONDS", "trap '' TERM; sleep SECONDS", "sleep SECONDS & exit 0", "exec yes"]
)
def test_a_clock_needs_no_python3_that_answers(run: Run, shim: Shim, body: str) -> None:
    """Where date has no %N: one that hangs, or prints without end, costs seconds and not the probe."""
    shim("date", 'case $1 in +%s%N) echo "$(/bin/date +%s)%N";; *) /bin/date "$@";; esac')
    shim("python3", body.replace("SECONDS", long(616)))
    try:
        facts = run(limit=2)
    finally:
        for pid in processes_with(long(616)):
            os.kill(pid, signal.SIGKILL)
    assert facts.disks and facts.python3 is None
    assert any("whole seconds" in warning for warning in facts.warnings)


def test_gpus_with_mig_and_processes(run: Run, shim: Shim) -> None:
    """Two GPUs, one cut by MIG, one used by this very process: memory, slices, user and pid are all there."""
    shim(
        "nvidia-smi",
        f"""
case "$*" in
  *--query-gpu*) echo "{QUERY_HEADER}"
    echo "0, GPU-aa, NVIDIA H100, 00000000:0A:00.0, 81559 MiB, 11125 MiB, [N/A], 53, 433.78 W, 590.48.01, Enabled"
    echo "1, GPU-bb, NVIDIA H100, 00000000:0B:00.0, 81559 MiB, 0 MiB, 0 %, 41, 69.85 W, 590.48.01, Disabled" ;;
  *compute-apps*) echo "gpu_uuid, pid, used_gpu_memory [MiB], process_name"
    echo "GPU-bb, {os.getpid()}, 512 MiB, python train.py, --fast" ;;
  -L) echo "GPU 0: NVIDIA H100 (UUID: GPU-aa)"; echo "  MIG 3g.40gb     Device  0: (UUID: MIG-1)"
    echo "GPU 1: NVIDIA H100 (UUID: GPU-bb)" ;;
esac""",
    )
    gpus = run().gpu
    assert gpus.problem is None
    assert [(g.index, g.mig, g.utilization_pct, g.memory_used_mib) for g in gpus.gpus] == [
        (0, True, None, 11125),
        (1, False, 0.0, 0),
    ]
    assert [(m.profile, m.uuid) for m in gpus.gpus[0].mig_devices] == [("3g.40gb", "MIG-1")]
    (process,) = gpus.gpus[1].processes
    assert (process.pid, process.memory_mib, process.name) == (os.getpid(), 512, "python train.py, --fast")
    assert process.user


def test_an_old_driver_that_knows_no_mig_is_asked_again(run: Run, shim: Shim) -> None:
    """One field the driver does not know must not hide the GPUs."""
    header = QUERY_HEADER.removesuffix(", mig.mode.current")
    shim(
        "nvidia-smi",
        f"""
case "$*" in
  *mig.mode*) echo 'Field "mig.mode.current" is not a valid field to query.'; exit 2 ;;
  *--query-gpu*) echo "{header}"; echo "0, GPU-aa, Tesla K80, 0000:0A:00.0, 11441 MiB, 0 MiB, 0 %, 41, 69 W, 390.30" ;;
esac""",
    )
    (gpu,) = run().gpu.gpus
    assert (gpu.name, gpu.mig, gpu.driver) == ("Tesla K80", None, "390.30")


def test_what_mig_makes_of_gpus_is_asked_for_where_there_is_mig(run: Run, shim: Shim, tmp_path: Path) -> None:
    """Or where the table failed: each call of nvidia-smi costs the host more than all the rest of the probe."""
    row = "GPU-aa, NVIDIA H100, 00000000:0A:00.0, 81559 MiB, 0 MiB, 0 %, 53, 433.78 W, 590.48.01"
    asked = tmp_path / "asked"

    def calls(mig: str, status: int = 0) -> list[str]:
        asked.unlink(missing_ok=True)
        shim(
            "nvidia-smi",
            f"""echo "${{1%%=*}}" >>{asked}
case "$*" in *--query-gpu*) echo "{QUERY_HEADER}"; echo "0, {row}, {mig}"; exit {status} ;; esac""",
        )
        assert len(run().gpu.gpus) == 1
        return sorted(asked.read_text().split())

    assert calls("Disabled") == calls("[N/A]") == ["--query-compute-apps", "--query-gpu"]
    assert calls("Enabled") == calls("Disabled", 15) == ["--query-compute-apps", "--query-gpu", "-L"]


def refusing(*refused: str) -> str:
    """An nvidia-smi of two GPUs whose driver does not know some fields, in the words and with the status of the real
    one: it names the first of them that was asked for.
    """
    return f"""
exec python3 - "$@" <<'END'
import sys
cells = {GPU_CELLS!r}
if sys.argv[1] == "-L":
    sys.exit(print("GPU 0: NVIDIA H100 (UUID: GPU-aa)\\nGPU 1: NVIDIA H100 (UUID: GPU-bb)"))
what, fields = sys.argv[1].split("=")
fields = fields.split(",")
for field in fields:
    if field in {refused!r} or what == "--query-gpu" and field not in cells:
        print('Field "%s" is not a valid field to query.\\n' % field)
        sys.exit(2)
if what == "--query-compute-apps":
    apps = dict(gpu_uuid="GPU-bb", pid="{os.getpid()}", used_memory="512 MiB", process_name="python train.py")
    print(", ".join(fields) + "\\n" + ", ".join(apps[f] for f in fields))
else:
    print(", ".join(fields))
    for row in zip(*(cells[f] for f in fields)):
        print(", ".join(row))
END"""


GPU_CELLS = {
    "index": ("0", "1"),
    "uuid": ("GPU-aa", "GPU-bb"),
    "name": ("NVIDIA H100", "NVIDIA H100"),
    "pci.bus_id": ("00000000:0A:00.0", "00000000:0B:00.0"),
    "memory.total": ("81559 MiB", "81559 MiB"),
    "memory.used": ("11125 MiB", "0 MiB"),
    "utilization.gpu": ("97 %", "0 %"),
    "temperature.gpu": ("53", "41"),
    "power.draw": ("433.78 W", "69.85 W"),
    "driver_version": ("590.48.01", "590.48.01"),
    "mig.mode.current": ("Disabled", "Disabled"),
}


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_a_driver_is_asked_again_without_what_it_refuses(run: Run, shim: Shim, shell: tuple[str, ...]) -> None:
    """Three fields it does not know, of two tables, cost these figures and nothing else."""
    shim("nvidia-smi", refusing("power.draw", "mig.mode.current", "used_memory"))
    gpus = run(shell=shell).gpu
    assert gpus.problem is None
    assert [(g.index, g.uuid, g.memory_used_mib, g.temperature_c, g.power_w, g.mig) for g in gpus.gpus] == [
        (0, "GPU-aa", 11125, 53.0, None, None),
        (1, "GPU-bb", 0, 41.0, None, None),
    ]
    (process,) = gpus.gpus[1].processes
    assert (process.pid, process.memory_mib) == (os.getpid(), None)


@pytest.mark.parametrize("field", GPU_CELLS)
def test_whichever_field_is_refused_every_gpu_is_there(run: Run, shim: Shim, field: str) -> None:
    """With its index and id, and without a problem."""
    shim("nvidia-smi", refusing(field))
    gpus = run().gpu
    assert gpus.problem is None
    assert [(g.index, g.uuid, g.problem) for g in gpus.gpus] == [(0, "GPU-aa", None), (1, "GPU-bb", None)]
    assert [len(g.processes) for g in gpus.gpus] == [0, 1]


def test_a_driver_that_refuses_what_nobody_asked_for_is_not_asked_for_ever(run: Run, shim: Shim) -> None:
    """Or all there is: its own words are the reason then."""
    shim("nvidia-smi", """echo 'Field "x" is not a valid field to query.'; exit 2""")
    gpus = run().gpu
    assert gpus.gpus == () and gpus.problem is not None
    assert 'Field "x" is not a valid field' in gpus.problem.message
    shim("nvidia-smi", refusing(*GPU_CELLS))
    assert run().gpu.problem is not None


def test_a_lost_gpu_keeps_its_row_and_hides_no_other(run: Run, shim: Shim) -> None:
    """Exit 15 with a row and an error line: one healthy GPU, one with the reason."""
    shim(
        "nvidia-smi",
        f"""
case "$*" in *--query-gpu*) echo "{QUERY_HEADER}"
  echo "0, GPU-aa, NVIDIA A100, 00000000:0A:00.0, 40960 MiB, 0 MiB, 0 %, 41, 69.85 W, 535.1, Disabled"
  echo "Unable to determine the device handle for GPU0000:0B:00.0: GPU is lost.  Reboot the system" ;;
esac
exit 15""",
    )
    gpus = run().gpu
    assert gpus.problem is None
    assert [(g.index, g.problem.code if g.problem else None) for g in gpus.gpus] == [(0, None), (1, "gpu_lost")]


@pytest.mark.parametrize(
    ("words", "status", "code"),
    [
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", 9, "driver_not_loaded"),
        ("Failed to initialize NVML: Driver/library version mismatch", 18, "driver_mismatch"),
        ("No devices were found", 6, "no_devices"),
        ("Keine Geräte gefunden", 6, "no_devices"),
    ],
)
def test_a_driver_that_fails_is_a_reason(run: Run, shim: Shim, words: str, status: int, code: str) -> None:
    """A host whose driver is broken is not a host without GPUs."""
    shim("nvidia-smi", f'echo "{words}"; exit {status}')
    gpus = run().gpu
    assert gpus.gpus == ()
    assert gpus.problem is not None and gpus.problem.code == code


def processes_below(folder: Path) -> list[str]:
    """What runs with a program of this folder in its PATH."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(folder / "bin").encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_text().replace("\0", " ")[:80])
    return found


def long(seconds: int) -> str:
    """Seconds that nobody else sleeps: these tests may run twice at one time on a machine."""
    return f"{seconds}.{os.getpid()}"


def processes_with(marker: str) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if marker.encode() in words:
            found.append(int(path.parent.name))
    return found


def test_hanging_tools_are_ended_and_hide_nothing_else(run: Run, shim: Shim) -> None:
    """nvidia-smi and docker that never answer cost their own facts only, and are gone afterwards."""
    shim("nvidia-smi", f"exec sleep {long(611)}")
    shim("docker", f"exec sleep {long(611)}")
    facts = run(Host("node01"), limit=4)
    assert facts.gpu.problem is not None and facts.gpu.problem.code == "nvidia_smi_timeout"
    assert facts.engine.problem is not None and facts.engine.problem.code == "engine_timeout"
    assert facts.nics and facts.disks
    assert processes_with(long(611)) == []


def test_a_process_nobody_can_end_does_not_hold_the_probe(run: Run, shim: Shim, tmp_path: Path) -> None:
    """A driver stuck in the kernel keeps its pipe open whatever is sent to it: the reader gives up instead."""
    pid_file = tmp_path / "pid"
    shim("nvidia-smi", f"setsid sleep {long(612)} & echo $! > {pid_file}; wait")
    try:
        facts = run(limit=4)
    finally:
        for pid in processes_with(long(612)):
            os.kill(pid, signal.SIGKILL)
    assert facts.gpu.problem is not None and facts.gpu.problem.code == "nvidia_smi_timeout"
    assert facts.nics


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_output_without_end_is_cut(run: Run, shim: Shim, tmp_path: Path, shell: tuple[str, ...]) -> None:
    """Commands that print forever are cut off; the rest of the host is still read, and no shell goes on with them."""
    for name in ("nvidia-smi", "docker"):
        shim(name, "exec yes rubbish")
    facts = run(Host("node01"), limit=4, shell=shell)
    assert facts.gpu.gpus == () and facts.gpu.problem is not None
    assert facts.nics
    end = time.monotonic() + 60
    while left := processes_below(tmp_path):
        assert time.monotonic() < end, left
        time.sleep(0.05)


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
def test_a_context_without_end_is_left_at_once(run: Run, shim: Shim, tmp_path: Path, shell: tuple[str, ...]) -> None:
    """A docker that prints for ever where it should name its socket: nobody reads on until its time is up."""
    cut = tmp_path / "cut"
    endless = f"trap 'echo yes >{cut}; exit 1' PIPE; while :; do echo rubbish; done"
    shim(
        "docker",
        f"""
case $1 in
  version) cat {DATA / "version_up.json"} ;;
  info) cat {DATA / "info_no_gpu.json"} ;;
  *) {endless} ;;
esac""",
    )
    facts = run(Host("node01"), shell=shell)
    assert facts.engine.problem is None
    end = time.monotonic() + 60
    while processes_below(tmp_path):
        assert time.monotonic() < end
        time.sleep(0.05)
    assert cut.exists(), "it was ended by its time limit"


def docker(shim: Shim, version: str, info: str, *, status: int = 0, stderr: str = "") -> None:
    shim(
        "docker",
        f"""
case $1 in
  version) cat {DATA / version} ;;
  info) cat {DATA / info} ;;
  *) exit 1 ;;
esac
printf %s '{stderr}' >&2
exit {status}""",
    )


def test_docker_is_read(run: Run, shim: Shim) -> None:
    """A running daemon: versions and the lack of a GPU runtime."""
    docker(shim, "version_up.json", "info_no_gpu.json")
    engine = run(Host("node01")).engine
    assert (engine.kind, engine.client, engine.server) == ("docker", "28.2.2", "20.10.24+dfsg1")
    assert (engine.problem, engine.live_restore, engine.command) == (None, True, ("docker",))


def test_docker_down_is_not_an_empty_docker(run: Run, shim: Shim) -> None:
    """The client prints JSON of zeros and exits 1: no daemon, no runtime known."""
    words = (DATA / "daemon_down.stderr.txt").read_text()
    docker(shim, "version_down.stdout.json", "info_down.stdout.json", status=1, stderr=words)
    engine = run(Host("node01")).engine
    assert engine.problem is not None and engine.problem.code == "daemon_down"
    assert (engine.server, engine.nvidia_runtime, engine.socket, engine.client) == (None, None, None, "28.2.2")


def test_docker_denied_says_so(run: Run, shim: Shim) -> None:
    """A login outside group docker gets that as the reason, with what to do."""
    words = (DATA / "err_permission_denied.txt").read_text()
    docker(shim, "version_down.stdout.json", "info_down.stdout.json", status=1, stderr=words)
    problem = run(Host("node01")).engine.problem
    assert problem is not None and problem.code == "docker_permission" and "usermod" in problem.hint


def test_sudo_that_asks_for_a_password_says_so(run: Run, shim: Shim) -> None:
    """`docker: sudo -n docker` in hosts.yaml is called as written."""
    shim("sudo", '[ "$1 $2" = "-n docker" ] && echo "sudo: a password is required" >&2; exit 1')
    problem = run(Host("node01", engine_command=("sudo", "-n", "docker"))).engine.problem
    assert problem is not None and problem.code == "sudo_password"


def test_a_missing_engine_is_named_with_the_one_that_is_there(run: Run, shim: Shim) -> None:
    """No such client: said by its name, and Podman offered when it is there."""
    shim("podman", "exit 0")
    shim("docker", "exit 0").unlink()
    engine = run(Host("node01", engine_command=("dockr",))).engine
    assert engine.problem is not None and engine.problem.code == "engine_missing"
    assert "dockr" in engine.problem.message


def test_podman_is_read(run: Run, shim: Shim) -> None:
    """Podman's own shape of the same facts."""
    shim(
        "podman",
        """
case $1 in
  version) echo '{"Client":{"Version":"4.3.1","APIVersion":"4.3.1"}}' ;;
  info) echo '{"host":{"arch":"amd64"},"version":{"Version":"4.3.1"}}' ;;
esac""",
    )
    engine = run(Host("node01", engine="podman", engine_command=("podman",))).engine
    assert (engine.kind, engine.server, engine.problem, engine.nvidia_runtime) == ("podman", "4.3.1", None, False)


def test_amd_gpus_are_read(run: Run, shim: Shim) -> None:
    """amd-smi gives the GPU, its monitor what it does now."""
    shim(
        "amd-smi",
        """
case $1 in
  static) echo '{"gpu_data":[{"gpu":0,"asic":{"market_name":"AMD Instinct MI300X","asic_serial":"0x1"},
    "bus":{"bdf":"0000:05:00.0"},"driver":{"version":"6.10.5"},"vram":{"size":{"value":196592,"unit":"MB"}}}]}' ;;
  monitor) case "$*" in *-p*) echo "unknown -p"; exit 2;; esac
    echo "gpu,gfx_clk,gfx,vram_used,vram_free,vram_total,vram_percent"; echo "0,132,10,283,196309,196592,0.0" ;;
esac""",
    )
    (gpu,) = run().gpu.gpus
    assert (gpu.vendor, gpu.name, gpu.uuid, gpu.pci) == ("amd", "AMD Instinct MI300X", "0x1", "0000:05:00.0")
    assert (gpu.memory_total_mib, gpu.memory_used_mib, gpu.utilization_pct) == (196592, 283, 10.0)


@pytest.mark.parametrize("path", ["empty", "unset"])
def test_a_login_without_path_still_finds_the_usual_places(tmp_path: Path, path: str) -> None:
    """sshd with no PATH in its environment is no obstacle."""
    env = {"PATH": ""} if path == "empty" else {}
    shell = shutil.which("sh")
    assert shell
    done = subprocess.run(
        [shell], input=probe.script(NONCE).encode(), capture_output=True, env=env, check=True, timeout=60
    )
    facts = probe.read(Host("h"), done.stdout, NONCE, sent_at=0, received_at=1)
    assert facts.hostname == os.uname().nodename and facts.nics


def test_a_host_without_head_is_read_all_the_same(run: Run, shim: Shim) -> None:
    """What the engine says is kept whole, and the probe's own parts are not lost."""
    engine = Host("node01", engine="docker", engine_command=("docker",))
    shim("docker", 'case $1 in info) echo \'{"ServerVersion":"27.1.1","DockerRootDir":"/"}\' ;; *) echo "{}" ;; esac')
    before = run(engine)
    shim("head", "exit 127")
    facts = run(engine)
    assert facts.hostname == os.uname().nodename
    assert [nic.name for nic in facts.nics] == [nic.name for nic in before.nics]
    assert facts.engine == before.engine and "27.1.1" in repr(facts.engine)


def test_a_word_with_shell_characters_stays_one_word() -> None:
    """The engine's command comes from a file of the user's: it is quoted, never run as shell code."""
    text = probe.script(NONCE, Host("h", engine_command=("$(touch /tmp/x); docker", "a'b")))
    assert """'$(touch /tmp/x); docker' 'a'"'"'b'""" in text


def test_a_nonce_is_only_letters_and_digits() -> None:
    """The frame's word is pasted into the script, so nothing else is taken."""
    with pytest.raises(ValueError, match="letters and digits"):
        probe.script("x'; rm -rf /")


def test_one_group_alone(tmp_path: Path, shim: Shim) -> None:
    """Only what tells of processes is run; the answer is framed and read as that of a whole probe."""
    shim(
        "nvidia-smi",
        f"""echo "$*" >>{tmp_path}/asked
echo 'gpu_uuid, pid, used_gpu_memory [MiB], process_name'
echo 'GPU-7, {os.getpid()}, 512 MiB, /opt/train me.py'""",
    )
    found = asyncio.run(probe.probe_processes(Local(f"{tmp_path / 'bin'}:{os.environ['PATH']}"), Host("n1")))
    assert [(p.pid, p.name, p.memory_mib, p.gpu_uuid) for p in found] == [
        (os.getpid(), "/opt/train me.py", 512, "GPU-7")
    ]
    assert found[0].user is not None
    assert (tmp_path / "asked").read_text().count("\n") == 1


def test_processes_that_nobody_tells(tmp_path: Path, shim: Shim) -> None:
    """No nvidia-smi: nothing is there. One that fails: its own words. A shell that answers something else: that."""
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    assert asyncio.run(probe.probe_processes(Local(path), Host("n1"))) == ()
    shim("nvidia-smi", "echo 'NVIDIA-SMI has failed: no driver'; exit 9")
    with pytest.raises(HostCommandError, match="n1: nvidia-smi does not tell its processes: NVIDIA-SMI has failed"):
        asyncio.run(probe.probe_processes(Local(path), Host("n1")))
    with pytest.raises(HostCommandError, match="did not run the probe"):
        asyncio.run(probe.probe_processes(Local(path, "echo", "hello"), Host("n1")))


def test_a_shell_that_may_start_no_process_says_so() -> None:
    """What it said as it gave up counts, not the answer that it had begun."""
    shell = ("sh", "-c", "echo begun; echo 'sh: 5: Cannot fork' >&2; exit 2")
    with pytest.raises(HostCommandError, match="broke off there with exit 2: sh: 5: Cannot fork") as caught:
        asyncio.run(probe.probe_host(Local(os.environ["PATH"], *shell), Host("n1")))
    assert "ulimit" in caught.value.hint


def test_a_whole_answer_counts_however_the_shell_ended() -> None:
    """A trap of the login's, or an ssh server that tells no exit status, beside what a preloaded library says."""
    shell = ("sh", "-c", "sh; echo 'ld.so: object x cannot be preloaded' >&2; exit 3")
    assert asyncio.run(probe.probe_host(Local(os.environ["PATH"], *shell), Host("n1"))).host == "n1"


class Local:
    """A session on this machine."""

    host, connected_ms = "n1", 1.0

    def __init__(self, path: str, *shell: str) -> None:
        self._path, self._shell = path, shell or ("sh",)

    async def run_script(self, script: str, **_: Any) -> Completed:
        """See Session."""
        env = {**os.environ, "PATH": self._path}
        child = await asyncio.create_subprocess_exec(*self._shell, stdin=-1, stdout=-1, stderr=-1, env=env)
        out, err = await child.communicate(script.encode())
        return Completed((), child.returncode or 0, out, err)
