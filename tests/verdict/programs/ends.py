"""A rank that ends as it is told: `ends.py --steps 20 2:5:raise 3:5+0.1:exit:3`.

Each action is RANK:STEP[+SECONDS]:NAME[:ARGUMENT]: after that step, and so many seconds, this rank does it. RANK is a
number or `all`. A step is 0.1 s, or with --gloo an all_reduce among all ranks. Ranks meet before the first step, by
files in --meet or by gloo itself. Only the standard library without --gloo.
"""

from __future__ import annotations

import argparse
import atexit
import ctypes
import datetime
import mmap
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
import urllib.request
from pathlib import Path

RANK = int(os.environ.get("RANK", "0"))
WORLD = int(os.environ.get("WORLD_SIZE", "1"))
CONNECT = int(os.environ.get("ENDS_PORT", "29888"))


def main() -> None:
    """Meet, step, and do what is meant for this rank."""
    options = arguments()
    actions = [split(action) for action in options.actions]
    mine = [action for action in actions if action[0] in ("all", str(RANK))]
    for _, _, _, name, argument in mine:
        if name == "on-term" and argument == "raise":
            signal.signal(signal.SIGTERM, raise_terminated)
        elif name == "on-term":
            signal.signal(signal.SIGTERM, lambda *_, code=argument: leave(int(code)))
    step = gloo(options) if options.gloo else files(options)
    print(f"rank {RANK} of {WORLD} met", flush=True)
    for number in range(1, options.steps + 1):
        for _, at, delay, name, argument in mine:
            if at == number and name != "on-term":
                time.sleep(delay)
                act(name, argument)
        step(number)
        if number % 5 == 0:
            print(f"step {number} loss {1 / number:.3f}", flush=True)
    print(f"rank {RANK} done", flush=True)
    if options.gloo:
        import torch.distributed as dist

        dist.destroy_process_group()


def arguments() -> argparse.Namespace:
    """What is to be done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--gloo", action="store_true", help="steps are collectives")
    parser.add_argument("--timeout", type=float, default=60, help="seconds, of gloo")
    parser.add_argument("--meet", help="folder that all hosts share")
    parser.add_argument("actions", nargs="*")
    return parser.parse_args()


def split(action: str) -> tuple[str, int, float, str, str]:
    """Rank, step, seconds after it, name, argument."""
    rank, when, name, *rest = action.split(":", 3)
    step, _, delay = when.partition("+")
    return rank, int(step), float(delay or 0), name, rest[0] if rest else ""


def files(options: argparse.Namespace):
    """Meet by files, if a folder is given; steps end at the same moments everywhere."""
    began = time.time()
    if options.meet:
        folder = Path(
            options.meet, os.environ.get("DISTUI_RUN", "run") + os.environ.get("TORCHELASTIC_RESTART_COUNT", "")
        )
        folder.mkdir(parents=True, exist_ok=True)
        folder.joinpath(str(RANK)).touch()
        while len(list(folder.iterdir())) < WORLD:
            time.sleep(0.01)
        began = max(path.stat().st_mtime for path in folder.iterdir())
    return lambda number: time.sleep(max(0.0, began + number / 10 - time.time()))


def gloo(options: argparse.Namespace):
    """Meet and step by collectives of gloo."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=options.timeout))
    value = torch.ones(1024)

    def step(number: int) -> None:
        dist.all_reduce(value)
        value.fill_(1.0)
        time.sleep(0.05)

    step(0)
    return step


def leave(code: int) -> None:
    """End at once after a SIGTERM, as programs do that save their state."""
    print(f"rank {RANK} saves its state and ends with {code}", flush=True)
    os._exit(code)


def act(name: str, argument: str) -> None:
    """One way to end, or to get there."""
    print(f"rank {RANK} does {name} {argument}".rstrip(), flush=True)
    ACTIONS[name](argument)


def fail(argument: str) -> None:
    kind, _, message = argument.partition(":")
    known = {"ValueError": ValueError, "AssertionError": AssertionError, "KeyError": KeyError}
    raise known.get(kind, RuntimeError)(message or "loss is nan at step 5")


def fail_late(argument: str) -> None:
    """Print the traceback, hang up on the others, and take so many seconds to end, as loggers do that upload."""
    import torch.distributed as dist

    atexit.register(time.sleep, float(argument or 1.5))
    try:
        raise RuntimeError("bad batch 17")
    except RuntimeError:
        dist.destroy_process_group()
        raise


def fail_handled(argument: str) -> None:
    """An exception that is logged with its traceback, and handled."""
    try:
        raise ConnectionResetError(argument or "[Errno 104] Connection reset by peer: storage, trying again")
    except ConnectionResetError:
        traceback.print_exc()


def raise_terminated(*_: object) -> None:
    raise RuntimeError("terminated by SIGTERM")


def spawn(argument: str) -> None:
    """Two workers of torch.multiprocessing, of which the second raises."""
    import torch.multiprocessing as mp

    mp.spawn(worker, nprocs=2)


def worker(index: int) -> None:
    time.sleep(0.5)
    if index == 1:
        raise ValueError("worker 1: image 17 is truncated")
    time.sleep(60)


def barrier(argument: str) -> None:
    """A barrier that names who is missing."""
    import torch.distributed as dist

    dist.monitored_barrier(timeout=datetime.timedelta(seconds=float(argument or 3)))


def fill_disk(argument: str) -> None:
    with open("/dev/shm/checkpoint", "wb") as file:  # noqa: PTH123
        while True:
            file.write(b"x" * (1 << 20))


def download(argument: str) -> None:
    urllib.request.urlopen("http://127.0.0.1:9/shard-00017.tar")


def fail_and_sum_up(argument: str) -> None:
    """Raise, and print so many lines at the end, as programs do that sum up."""
    atexit.register(lambda: [print(f"summary row {row}: ok", flush=True) for row in range(int(argument))])
    raise RuntimeError("bad batch 17")


def fail_in_thread(argument: str) -> None:
    """A thread raises; the program goes on."""
    thread = threading.Thread(target=fail, args=("",))
    thread.start()
    thread.join()


def fill_shared(argument: str) -> None:
    """Map more than /dev/shm holds and write to it: SIGBUS."""
    file = os.open("/dev/shm/x", os.O_RDWR | os.O_CREAT)
    os.ftruncate(file, 1 << 28)
    shared = mmap.mmap(file, 1 << 28)
    for at in range(0, 1 << 28, 4096):
        shared[at] = 1


def fail_once(argument: str) -> None:
    """Raise in the first life that torchrun gives this rank."""
    if os.environ.get("TORCHELASTIC_RESTART_COUNT") == "0":
        raise RuntimeError("loss is nan at step 5")


def fail_lingering(argument: str) -> None:
    """Raise, and take so many seconds to end."""
    atexit.register(time.sleep, float(argument))
    raise RuntimeError("bad batch 17")


def kill_self(argument: str) -> None:
    os.kill(os.getpid(), getattr(signal, argument))
    time.sleep(60)


def crash(argument: str) -> None:
    ctypes.string_at(0)


def hang(argument: str) -> None:
    time.sleep(float(argument or 600))


def quit_now(argument: str) -> None:
    print(f"rank {RANK} done", flush=True)
    sys.stdout.flush()
    os._exit(int(argument or 0))


def use_cuda(argument: str) -> None:
    import torch

    torch.ones(1, device="cuda")


def use_nccl(argument: str) -> None:
    import torch.distributed as dist

    dist.new_group(backend="nccl")


def fill_memory(argument: str) -> None:
    held = []
    while True:
        held.append(bytearray(1 << 20))


def child_fills_memory(argument: str) -> None:
    """A child takes too much and is killed; with an argument its parent raises, else it goes on and ends well."""
    child = subprocess.run([sys.executable, "-c", "x = []\nwhile True: x.append(bytearray(1 << 20))"])
    print(f"child ended with {child.returncode}", flush=True)
    if argument:
        raise RuntimeError(f"preprocessing ended with {child.returncode}")
    sys.exit(0)


class Data:
    """A data set whose worker is killed when it comes to the third sample."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> int:
        if index >= 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return index


def lose_worker(argument: str) -> None:
    from torch.utils.data import DataLoader

    for _ in DataLoader(Data(), batch_size=2, num_workers=1, multiprocessing_context="fork"):  # type: ignore[arg-type]
        pass


def no_module(argument: str) -> None:
    __import__(argument or "flash_attn")


def run_program(argument: str) -> None:
    subprocess.run(argument, shell=True, check=True)  # noqa: S602 - written by whoever records


def serve(argument: str) -> None:
    """Another program's server: takes one connection of each other rank and fails; its clients learn it 0.4 s later."""
    peers = clients()
    atexit.register(time.sleep, 0.4)
    raise ValueError(f"shard 17 is corrupt, {len(peers)} clients")


def serve_late(argument: str) -> None:
    """The same, but its clients learn it at once, and it takes 1.5 s to end."""
    peers = clients()
    atexit.register(time.sleep, 1.5)
    try:
        raise ValueError(f"shard 17 is corrupt, {len(peers)} clients")
    except ValueError:
        traceback.print_exc()
        time.sleep(0.2)
        for peer in peers:
            peer.close()
        sys.exit(1)


def clients() -> list[socket.socket]:
    """A connection of each other rank."""
    server = socket.create_server(("", CONNECT))
    peers = [server.accept()[0] for _ in range(WORLD - 1)]
    print(f"serves {len(peers)} clients", flush=True)
    time.sleep(0.5)
    return peers


def ask(argument: str) -> None:
    """A client of that server, which says in words of its own that it lost it; `quiet` ends without any."""
    address = (os.environ.get("MASTER_ADDR", "127.0.0.1"), CONNECT)
    for _ in range(600):
        try:
            peer = socket.create_connection(address)
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
    if not peer.recv(1):
        if argument == "quiet":
            sys.exit(4)
        raise EOFError("the sample server gave no more samples")


ACTIONS = {
    "raise": fail,
    "raise-late": fail_late,
    "raise-linger": fail_lingering,
    "raise-once": fail_once,
    "handled": fail_handled,
    "raise-sum-up": fail_and_sum_up,
    "thread": fail_in_thread,
    "bus": fill_shared,
    "spawn": spawn,
    "barrier": barrier,
    "disk": fill_disk,
    "download": download,
    "exit": lambda argument: sys.exit(int(argument or 0)),
    "quit": quit_now,
    "signal": kill_self,
    "crash": crash,
    "abort": lambda argument: os.abort(),
    "hang": hang,
    "say": lambda argument: print(argument, flush=True),
    "cuda": use_cuda,
    "nccl": use_nccl,
    "oom": fill_memory,
    "child-oom": child_fills_memory,
    "worker": lose_worker,
    "import": no_module,
    "run": run_program,
    "serve": serve,
    "serve-late": serve_late,
    "ask": ask,
}

if __name__ == "__main__":
    main()
