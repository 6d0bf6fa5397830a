"""The lab itself: that its hosts are what the other tests take them for, break as asked, and leave nothing."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import cleanup
from lab.host import Host
from lab.lab import Lab
from lab.network import spaces_of
from lab.paths import LabError
from lab.program import LIMIT
from lab.runs import until
from lab.state import locked

pytestmark = pytest.mark.cluster

OWNER = """
import sys
sys.path.insert(0, sys.argv[1])
from lab.lab import Lab
lab = Lab(sys.argv[2])
lab.up(1, docker=False)
print(lab.guard.pid, flush=True)
sys.stdin.read()
"""

DDP = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.full((4 << 20,), float(dist.get_rank() + 1))
dist.all_reduce(total)
print("sum", int(total[0]), "of", dist.get_world_size())
dist.destroy_process_group()
"""


@pytest.fixture
def h1(lab: Lab) -> Host:
    """The first host."""
    return lab.host("h1")


@pytest.fixture
def sleeper(h1: Host) -> Iterator[str]:
    """A container on h1 that sleeps, with an init as distui's have."""
    h1.exec("docker", "run", "-d", "--init", "--name", "sleeper", "lab/python:1", "sleep", "600")
    yield "sleeper"
    h1.heal()
    h1.exec("docker", "rm", "-f", "sleeper")


def state_of(host: Host, name: str) -> str:
    """Status, exit code and OOM flag of a container."""
    return host.out("docker", "inspect", "-f", "{{.State.Status}} {{.State.ExitCode}} {{.State.OOMKilled}}", name)


# --- hosts as they are


def test_every_host_takes_ssh_logins_with_its_own_host_key(lab: Lab, home: Path) -> None:
    """OpenSSH logs in with the known_hosts that the lab wrote, and reaches three different machines."""
    names = [lab.ssh(name, "hostname; pgrep -c sshd", home=home).stdout.split()[0] for name in ("h1", "h2", "h3")]
    assert names == ["h1", "h2", "h3"]


@pytest.mark.parametrize(
    ("user", "shell", "may_docker"),
    [
        ("trainer", "bash", True),
        ("nodocker", "bash", False),
        ("fishy", "fish", True),
        ("cshy", "tcsh", True),
        ("noisy", "bash", True),
    ],
)
def test_accounts(lab: Lab, home: Path, user: str, shell: str, may_docker: bool) -> None:
    """There are users with and without Docker, with other login shells, and with a noisy .bashrc."""
    done = lab.ssh(f"{user}@h1", "docker ps -q", home=home)
    listed = lab.host("h1").out("getent", "passwd", user)
    assert listed.endswith(shell)
    assert (done.returncode == 0) == may_docker
    assert ("monitored" in done.stdout) == (user == "noisy")


def test_containers_run_and_the_machine_is_not_seen(h1: Host) -> None:
    """Docker runs the lab's image, and a host does not see the checkout nor the cache."""
    assert h1.out("docker", "run", "--rm", "lab/python:1", "python3", "-c", "print(6 * 7)") == "42"
    assert h1.out("ls -A /root /var/tmp /opt /usr/local/bin").count("distui") == 0


def test_resource_limits_of_rdma_recipes_are_accepted(h1: Host) -> None:
    """`--ulimit memlock=-1` and `--privileged` work, even on a machine that may not raise limits."""
    options = ("--rm", "--privileged", "--ulimit", "memlock=-1", "--ulimit", "stack=67108864")
    assert h1.out("docker", "run", *options, "lab/python:1", "echo", "ran") == "ran"
    assert h1.out("docker", "run", "-d", "--name", "limits", "--ulimit", "memlock=-1", "lab/python:1", "true")
    assert h1.out("docker", "inspect", "-f", "{{.HostConfig.Ulimits}}", "limits") == "[memlock=-1:-1]"
    h1.exec("docker", "rm", "limits")


def test_gpus_reach_containers_through_docker(h1: Host) -> None:
    """`--gpus` gives the chosen GPUs, renumbered from 0, and the hook's log says which were asked for."""
    asked = ("docker", "run", "--rm", "--gpus", '"device=1"', "lab/python:1")
    listed = h1.out(*asked, "nvidia-smi", "-L")
    assert re.fullmatch(r"GPU 0: NVIDIA H100 80GB HBM3 \(UUID: GPU-00000001-.*0001\)", listed)
    assert h1.out(*asked, "sh", "-c", "ls /dev | grep nvidia[0-9]") == "nvidia1"
    assert h1.out("tail -1 /var/log/nvidia-hook.log").endswith("devices=1 capabilities=")


def test_a_gpu_that_is_not_there_is_refused(h1: Host) -> None:
    """Docker exits 125 with the words of NVIDIA's container tools."""
    done = h1.exec("docker", "run", "--rm", "--gpus", "device=5", "lab/python:1", "true", check=False)
    assert done.returncode == 125
    assert "nvidia-container-cli: device error: 5: unknown device" in done.stderr


def test_nvidia_smi_answers_as_the_real_one(h1: Host) -> None:
    """Queries with and without header and units, an unknown field, an unknown GPU, loop mode."""
    query = ("nvidia-smi", "--query-gpu=index,memory.total,utilization.gpu")
    assert h1.out(*query, "--format=csv").splitlines() == [
        "index, memory.total [MiB], utilization.gpu [%]",
        "0, 81559 MiB, 0 %",
        "1, 81559 MiB, 0 %",
    ]
    assert h1.out(*query, "--format=csv,noheader,nounits", "-i", "1") == "1, 81559, 0"
    bad = h1.exec("nvidia-smi", "--query-gpu=indx", "--format=csv", check=False)
    assert (bad.returncode, bad.stdout) == (2, 'Field "indx" is not a valid field to query.\n\n')
    assert h1.exec("nvidia-smi", "-i", "9", "-L", check=False).returncode == 6
    looped = h1.out("nvidia-smi --query-gpu=index --format=csv,noheader -lms 20 | head -5")
    assert looped.split() == ["0", "1", "0", "1", "0"]


def test_infiniband_port_in_sysfs(h1: Host) -> None:
    """mlx5_0 is an active InfiniBand port whose network interface is ib0, of the hardware type InfiniBand."""
    port = "/sys/class/infiniband/mlx5_0/ports/1"
    assert h1.out(f"cat {port}/state {port}/link_layer {port}/rate").splitlines() == [
        "4: ACTIVE",
        "InfiniBand",
        "200 Gb/sec (4X HDR)",
    ]
    assert h1.out("ls /sys/class/infiniband/mlx5_0/device/net") == "ib0"
    assert h1.out("cat /sys/class/net/ib0/type /sys/class/net/eth0/type").split() == ["32", "1"]
    assert h1.out("ls /dev/infiniband").split() == ["rdma_cm", "umad0", "uverbs0"]


def test_the_infiniband_port_counts_what_ib0_does_in_words_of_four_bytes(h1: Host, lab: Lab) -> None:
    """As a real port does."""

    def counted() -> list[int]:
        port = "/sys/class/infiniband/mlx5_0/ports/1/counters"
        return [4 * int(words) for words in h1.out(f"cat {port}/port_rcv_data {port}/port_xmit_data").split()]

    before = counted()
    address = (lab.host("h2").ib, 9)
    send = f"s = socket.socket(type=socket.SOCK_DGRAM); [s.sendto(bytes(60000), {address}) for _ in range(5)]"
    h1.exec("python3", "-c", f"import socket; {send}")
    until(lambda: all(0 <= of - words < 4 for of, words in zip(h1.bytes("ib0"), counted(), strict=True)))
    assert counted()[1] >= before[1] + 5 * 60000


def test_two_host_ddp_by_hand_uses_the_interface_that_gloo_is_reported(lab: Lab, home: Path) -> None:
    """torch.distributed works between hosts, and its bytes are seen on ib0, not on eth0."""
    (lab.share / "ddp.py").write_text(DDP)
    ranks = [lab.host("h1"), lab.host("h2")]
    before = [(host.bytes("eth0")[1], host.bytes("ib0")[1]) for host in ranks]
    env = "-e MASTER_ADDR=10.78.0.11 -e MASTER_PORT=29400 -e WORLD_SIZE=2 -e GLOO_SOCKET_IFNAME=ib0"
    run = f"docker run --rm --net=host -v /mnt/pytorch:/x {env} -e RANK=%d lab/pytorch:1 python3 /x/ddp.py"
    options = ("ssh", "-F", str(home / ".ssh/config"))
    programs = [lab.spawn(*options, host.name, run % rank, home=home) for rank, host in enumerate(ranks)]
    printed = [program.finish().stdout for program in programs]
    assert printed == ["sum 3 of 2\n"] * 2
    for host, (eth, ib) in zip(ranks, before, strict=True):
        assert host.bytes("ib0")[1] - ib > 8 << 20
        assert host.bytes("eth0")[1] - eth < 1 << 20


def test_podman_runs_the_same_image(h1: Host) -> None:
    """podman takes an image over from Docker and runs it with the same options."""
    h1.podman_image("lab/python:1")
    options = ("--rm", "--init", "--net=host", "-v", "/mnt/pytorch:/x", "--ulimit", "memlock=-1")
    assert h1.out("podman", "run", *options, "lab/python:1", "python3", "-c", "print(1 + 1)") == "2"


# --- faults


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (("unplug",), "timed out"),
        (("ifdown", "eth0"), "timed out"),
        (("blackhole", "eth0"), "timed out"),
        (("cutport", "22"), "timed out"),
        (("rejectport", "22"), "refused"),
        (("ssh-down",), "refused"),
        (("ssh-hang",), "banner exchange"),
        (("ssh-hostkey",), "Host key verification failed"),
        (("ssh-deny",), "Permission denied (publickey)"),
        (("freeze",), "banner exchange"),
        (("poweroff",), "timed out"),
        (("crash",), "refused"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else "",
)
def test_a_host_that_cannot_be_reached(lab: Lab, home: Path, h1: Host, fault: tuple[str, ...], said: str) -> None:
    """Each fault gives OpenSSH's own message for it, and heal brings the host back at once."""
    h1.fault(*fault)
    limit = "1" if said in ("timed out", "banner exchange") else "600"  # a host that answers may be slow to
    done = lab.spawn(
        *("ssh", "-F", str(home / ".ssh/config"), "-o", f"ConnectTimeout={limit}", "h1", "true"), home=home
    ).finish()
    assert (done.returncode, said in done.stderr) == (255, True), done.stderr
    h1.heal()
    assert lab.ssh("h1", "hostname", home=home).stdout == "h1\n"


def test_what_is_left_on_a_host_is_seen_and_removed(h1: Host) -> None:
    """Files and links of distui, and processes that a run has started, by their pid there; of nobody else."""
    folder, link, file = "/root/.local/state/distui/hosts/h1/gone", "/dev/shm/distui-link", "/tmp/distui-file"
    h1.exec(f"mkdir -p {folder}; touch {folder}/kept {file} /tmp/other; ln -s / {link}")
    sleeps = "sleep 600 >/dev/null 2>&1 & until grep -q sleep /proc/$!/comm; do sleep 0.1; done; echo $!"
    pid = h1.out(f"DISTUI_RUN=gone-1 {sleeps}")
    other = h1.out(f"RUN=DISTUI_RUN=gone-1 {sleeps}")
    files = [f"file {link}", f"file {folder}/kept", f"file {file}"]
    assert h1.leftovers() == [*files, f"process {pid} sleep 600"]
    assert h1.leftovers("gone-1") == h1.leftovers() and h1.leftovers("gone") == files
    h1.remove_leftovers()
    until(lambda: h1.leftovers() == [])
    h1.exec(f"rm /tmp/other; kill {other}; ! test -e {folder}")


def test_hosts_are_told_apart_by_machine_and_boot(lab: Lab) -> None:
    """machine-id is each host's own, and boot_id changes with a reboot and only then."""
    ids = "cat /etc/machine-id /proc/sys/kernel/random/boot_id"
    first = [host.out(ids).split() for host in lab.hosts]
    assert len({machine for machine, _ in first}) == len({boot for _, boot in first}) == len(lab.hosts)
    lab.host("h1").fault("crash")
    lab.host("h1").heal()
    second = [host.out(ids).split() for host in lab.hosts]
    assert [old == new for old, new in zip(first, second, strict=True)] == [False, True, True]
    assert first[0][0] == second[0][0]


def test_a_session_without_docker_on_its_path(lab: Lab, home: Path, h1: Host) -> None:
    """ssh-setenv changes what a session finds; after heal it finds docker again."""
    h1.fault("ssh-setenv", "PATH=/nowhere")
    assert lab.ssh("h1", "docker ps", home=home).returncode == 127
    h1.heal()
    assert lab.ssh("h1", "docker ps", home=home).returncode == 0


def test_killed_sessions_leave_the_remote_command_alive(lab: Lab, home: Path, h1: Host) -> None:
    """ssh-killall ends the client with 255; what it had started lives on, and new logins work."""
    options = ("ssh", "-F", str(home / ".ssh/config"), "h1")
    with lab.spawn(*options, "echo $$; exec sleep 4711", home=home) as program:
        assert program.stdout is not None
        pid = program.stdout.readline().strip()
        h1.fault("ssh-killall")
        assert program.wait(LIMIT) == 255
    assert h1.out("cat", f"/proc/{pid}/comm") == "sleep"
    h1.exec("kill", pid)
    assert lab.ssh("h1", "hostname", home=home).stdout == "h1\n"


@pytest.mark.parametrize(
    ("fault", "code", "said"),
    [
        ("docker-kill", 1, "Cannot connect to the Docker daemon"),
        ("docker-down", 1, "Cannot connect to the Docker daemon"),
        ("docker-hang", 124, ""),
        ("docker-gone", 127, "No such file"),
    ],
)
def test_docker_that_does_not_answer(h1: Host, fault: str, code: int, said: str) -> None:
    """docker's exit code and words for each way it can be away, and it is back after heal."""
    h1.fault(fault)
    done = h1.exec(f"timeout {2 if code == 124 else 600} docker ps || exit $?", check=False)
    assert (done.returncode, said in done.stderr) == (code, True), done.stderr
    h1.heal()
    assert h1.out("docker", "run", "--rm", "lab/python:1", "echo", "back") == "back"


@pytest.mark.parametrize(
    ("fault", "state"),
    [
        ("rank-kill", "exited 137 false"),
        ("rank-oom", "exited 137 true"),
        ("rank-stop", "running 0 false"),
        ("container-kill", "exited 137 false"),
        ("container-stop", "exited 143 false"),
        ("container-pause", "paused 0 false"),
    ],
)
def test_a_container_that_is_killed_or_stopped(h1: Host, sleeper: str, fault: str, state: str) -> None:
    """Docker's own account of it: status, exit code and whether memory was the cause."""
    h1.fault(fault, sleeper)
    if state.startswith("exited"):
        h1.exec("docker", "wait", sleeper)
    assert state_of(h1, sleeper) == state


def test_a_power_cut_leaves_containers_as_exited(h1: Host, sleeper: str) -> None:
    """After poweroff and poweron the container is there, with exit code 255."""
    h1.fault("poweroff")
    assert not h1.is_up
    h1.heal()
    assert state_of(h1, sleeper) == "exited 255 false"


@pytest.mark.parametrize("folder", ["/tmp", "/data", "/var/lib/docker"])
def test_a_full_disk(h1: Host, folder: str) -> None:
    """Writes fail with ENOSPC, and work again after heal; the machine's own disk is never filled."""
    if folder == "/var/lib/docker":
        with pytest.raises(LabError, match="large disk"):
            h1.fault("fill", folder)
        h1.fault("docker-small", 64)
    h1.fault("fill", folder)
    write = f"head -c 1000000 /dev/zero >{folder}/probe"
    assert "No space left on device" in h1.exec(write, check=False).stderr
    h1.heal()
    h1.exec(f"{write} && rm {folder}/probe")


@pytest.mark.parametrize(
    ("fault", "code", "said"),
    [
        (("gpu-nodriver",), 9, "couldn't communicate with the NVIDIA driver"),
        (("gpu-mismatch",), 18, "Driver/library version mismatch"),
        (("gpu-lost", "1"), 15, "GPU is lost"),
        (("gpu-used", "0", "1234"), 0, "0, 1234, 97"),
        (("gpus", "4"), 0, "3, 0, 0"),
        (("gpu-gone",), 127, ""),
        (("gpu-hang",), 124, ""),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else "",
)
def test_gpu_trouble(h1: Host, fault: tuple[str, ...], code: int, said: str) -> None:
    """nvidia-smi's own messages, on standard output, and its exit codes."""
    fields = "--query-gpu=index,memory.used,utilization.gpu --format=csv,noheader,nounits"
    h1.fault(*fault)
    done = h1.exec(f"timeout {1 if code == 124 else 600} nvidia-smi {fields} || exit $?", check=False)
    assert (done.returncode, said in done.stdout) == (code, True), done.stdout
    h1.heal()
    assert h1.out(f"nvidia-smi {fields}") == "0, 0, 0\n1, 0, 0"


def test_a_partition_between_two_hosts(lab: Lab, h1: Host) -> None:
    """After `cut h2` the two do not reach each other on either network, while h3 reaches both."""
    h1.fault("cut", "h2")
    connect = "timeout %d bash -c '</dev/tcp/%s/22'"
    assert h1.exec(connect % (1, "10.77.0.12"), check=False).returncode == 124
    assert lab.host("h2").exec(connect % (1, "10.78.0.11"), check=False).returncode == 124
    assert lab.host("h3").exec(connect % (600, "10.77.0.11"), check=False).returncode == 0


def test_other_trouble_of_the_machine(h1: Host) -> None:
    """A shared folder that is away, a loopback name in /etc/hosts, a dead InfiniBand port: there and mended."""
    h1.fault("nfs-gone")
    h1.fault("hosts-loopback")
    h1.fault("ib-down")
    state = "cat /sys/class/infiniband/mlx5_0/ports/1/state; getent hosts h1; findmnt -n -o FSTYPE /mnt/pytorch"
    broken = h1.out(state).split()
    assert (broken[:2], broken[2], broken[-1]) == (["1:", "DOWN"], "127.0.1.1", "tmpfs")
    h1.heal()
    mended = h1.out(state).split()
    assert (mended[:2], mended[2], mended[-1] == "tmpfs") == (["4:", "ACTIVE"], "10.77.0.11", False)


def test_an_unknown_fault_names_the_known_ones(h1: Host) -> None:
    """The message lists what there is; a wrong number of arguments quotes what the fault is for."""
    with pytest.raises(LabError, match="no fault 'unplugg'; there are: heal, blackhole"):
        h1.fault("unplugg")
    with pytest.raises(LabError, match=r"fault cutport: .*PORT"):
        h1.fault("cutport")


# --- nothing is left


def start_owner(name: str) -> tuple[subprocess.Popen[str], int]:
    """A process that has a small lab up; with it the pid of the lab's guard."""
    tests = str(Path(__file__).resolve().parents[1])
    pipe = subprocess.PIPE
    owner = subprocess.Popen((sys.executable, "-c", OWNER, tests, name), stdin=pipe, stdout=pipe, text=True)
    assert owner.stdout is not None
    return owner, int(owner.stdout.readline())


def end(owner: subprocess.Popen[str]) -> None:
    """SIGKILL the owner of a lab."""
    with owner:
        owner.kill()


def own_name(letter: str) -> str:
    """A lab's name that nobody else has who runs these tests at the same time."""
    return f"{letter}{os.getpid()}"


def test_killing_the_owner_takes_the_lab_down(lab: Lab) -> None:
    """SIGKILL to the process that brought a lab up: nothing of it remains, and other labs are not touched."""
    name = own_name("k")
    owner, guard = start_owner(name)
    watched = os.pidfd_open(guard)
    assert len(spaces_of(name)) == 3
    end(owner)
    assert select.select([watched], [], [], LIMIT)[0], "the guard did not end"
    os.close(watched)
    until(lambda: cleanup.leftovers(name) == [])  # whoever brings up a lab just now may be the one that does it
    assert all(host.is_up for host in lab.hosts)


def test_the_next_up_clears_what_a_killed_lab_left(lab: Lab) -> None:
    """With guard and owner killed the lab stays; bringing up another one takes it away. Nobody else does before that is
    seen: the lab is locked.
    """
    name = own_name("o")
    owner, guard = start_owner(name)
    with locked(name):
        os.kill(guard, signal.SIGKILL)
        end(owner)
        assert {line.split()[0] for line in cleanup.leftovers(name)} == {
            *("namespace", "process", "control", "mount", "folder")
        }
    with Lab(own_name("a")) as after:
        after.up(1, docker=False)
        until(lambda: cleanup.leftovers(name) == [])
    assert cleanup.leftovers(after.name) == []


def test_a_second_lab_of_the_same_name_is_refused(lab: Lab) -> None:
    """The message names the process that has it, and the running lab is not harmed."""
    with pytest.raises(LabError, match=f"lab '{lab.name}' is "):
        Lab(lab.name).up(1)
    assert all(host.is_up for host in lab.hosts)


def test_the_machine_s_own_network_is_untouched(lab: Lab) -> None:
    """No interface and no route of the lab is in the machine's own network namespace."""
    shown = subprocess.run(("ip", "-o", "addr"), capture_output=True, text=True, check=True).stdout
    routes = subprocess.run(("ip", "route"), capture_output=True, text=True, check=True).stdout
    assert not re.search(r"10\.7[78]\.0\.|docker0|br-eth|-eth@", shown + routes)


def test_timeouts_kill_the_whole_program(lab: Lab, home: Path) -> None:
    """A program that runs too long is killed with its children, and what it printed is in the error."""
    child = f"sleep {4712 + os.getpid()}"  # nobody else's

    def running() -> str:
        return subprocess.run(("pgrep", "-fx", child), capture_output=True, text=True).stdout

    program = lab.spawn("sh", "-c", f"echo begun; {child} & wait", home=home)
    until(running)
    with pytest.raises(subprocess.TimeoutExpired) as caught:
        program.finish(timeout=0.5)
    assert str(caught.value.stdout) == "begun\n"
    assert running() == ""


CHURN = """
import sys
from concurrent.futures import ThreadPoolExecutor
sys.path.insert(0, sys.argv[1])
from lab.network import add_space, remove_netns_folder
from lab.shell import sh

def churn(space):
    for turn in range(25):
        add_space(space)
        sh("ip", "netns", "del", space)
        remove_netns_folder()

with ThreadPoolExecutor(12) as pool:
    list(pool.map(churn, [f"race{number}-sw" for number in range(12)]))
"""


def test_labs_that_come_and_go_at_once_do_not_take_the_folder_of_namespaces_from_each_other() -> None:
    """In a mount namespace of their own, where theirs are the only ones: each finds the folder or makes it."""
    tests = str(Path(__file__).resolve().parents[1])
    script = 'umount -l /run/netns 2>/dev/null; mount -t tmpfs none /run && "$@" && test ! -e /run/netns'
    argv = ("unshare", "--mount", "--", "bash", "-c", script, "churn", sys.executable, "-c", CHURN, tests)
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT, check=False)

    assert done.returncode == 0, done.stderr
