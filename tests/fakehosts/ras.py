"""A STAND-IN for NCCL's RAS thread, not NVIDIA's: it speaks its lines on a port, for machines without a GPU.

What it prints has the shape that NCCL's src/ras/client_support.cc prints (2.29.2 for JSON, 2.27.7 for text). As a
program it is a rank that hangs: it does its steps, and its answers say how many each rank has launched.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

OPERATIONS = ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce")


def json_report(
    places: Sequence[tuple[str, int]],
    launched: Mapping[int, Mapping[str, int]],
    missing: Mapping[int, Mapping[str, bool]] | None = None,
    *,
    comm: int = 0x5F3A9C0E12345678,
    version: str = "2.29.2",
    error: Mapping[int, int] | None = None,
) -> str:
    """One communicator of these processes; `missing` has the state of ranks that did not answer."""
    ranks = [
        {
            "rank": rank, "host": places[rank][0], "pid": places[rank][1], "cuda_dev": 0, "nvml_dev": 0,
            "status": {
                "init_state": 0, "async_error": (error or {}).get(rank, 0), "finalize_called": False,
                "destroy_flag": False, "abort_flag": False,
            },
            "collective_counts": {name: counts.get(name, 0) for name in OPERATIONS},
        }
        for rank, counts in launched.items()
    ]  # fmt: skip
    gone = [
        {
            "rank": rank, "host": places[rank][0], "pid": places[rank][1], "cuda_dev": 0, "nvml_dev": 0,
            "status": {"unresponsive": False, "considered_dead": False, **status},
        }
        for rank, status in (missing or {}).items()
    ]  # fmt: skip
    one = {
        "hash": f"0x{comm:x}", "secondary_hash": "0x1a2b:0x3c4d", "size": len(places), "ranks_count": len(ranks),
        "missing_ranks_count": len(gone), "ranks": ranks, "missing_ranks": gone,
    }  # fmt: skip
    whole = {
        "nccl_version": version, "cuda_runtime_version": 13000, "cuda_driver_version": 13000,
        "timestamp": "2026-11-24 04:30:00", "communicators_count": 1, "communicators": [one],
        "ras": {"collection_time_sec": 0.002, "timeouts_count": 0},
    }  # fmt: skip
    return json.dumps(whole, indent=2) + "\n"


class Server:
    """Listens as RAS does; `answer` gets whether JSON is wanted. `heard` is what it was told."""

    def __init__(self, answer: Callable[[bool], str], *, port: int = 0, knows_json: bool = True) -> None:
        self.answer, self.knows_json = answer, knows_json
        self.heard: list[str] = []
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self.socket.bind(("127.0.0.1", port))
        self.socket.listen()
        self.port = int(self.socket.getsockname()[1])
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        """One client after the other."""
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            with client, suppress(OSError):
                self.talk(client)

    def talk(self, client: socket.socket) -> None:
        """With one client. Raises OSError when it goes away."""
        rest = b""
        while data := client.recv(4096):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                if self.take(line.decode(), lambda text: client.sendall(text.encode())):
                    return

    def take(self, line: str, say: Callable[[str], object]) -> bool:
        """One line; whether the talk is over."""
        self.heard.append(line)
        if line in ("STATUS", "VERBOSE STATUS"):
            say(self.answer(self.knows_json and "SET FORMAT json" in self.heard))
            return True
        if line.startswith("CLIENT PROTOCOL "):
            say("SERVER PROTOCOL 2\n")
        elif line.startswith("TIMEOUT ") or (self.knows_json and line == "SET FORMAT json"):
            say("OK\n")
        else:
            say(f"ERROR: Unknown command {line}\n")
        return False

    def close(self) -> None:
        """Listen no longer."""
        self.socket.close()


def main() -> None:
    """A rank of a job of which one rank stops launching: which, and the hosts' addresses, are the arguments."""
    who, *addresses = sys.argv[1:]
    each = int(os.environ["WORLD_SIZE"]) // len(addresses)
    places = [(addresses[rank // each], os.getpid()) for rank in range(each * len(addresses))]
    done = [0]

    def answer(_: bool) -> str:
        counts = [done[0] - (done[0] == 20 and rank == int(who)) for rank in range(len(places))]
        return json_report(places, {rank: {"AllReduce": count} for rank, count in enumerate(counts)})

    Server(answer, port=28028)
    for step in range(20):
        done[0] = step + 1
        print("step", step, flush=True)
        time.sleep(0.01)
    time.sleep(600)


if __name__ == "__main__":
    main()
