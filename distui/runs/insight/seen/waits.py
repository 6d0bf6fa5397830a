"""What it means that a thread waits in a function of Linux, in words. Pure."""

from __future__ import annotations

STARTED = "waits for a process that it started"
FIFO = "waits for somebody to open the other end of a fifo"
DISK = "waits for a disk"
SERVER = "waits for a file server (NFS)"
_FILE_LOCK = "waits for a lock on a file"
_ANY = "waits for something to come over a connection or a pipe"
_DATA = "waits for data from the network"
_SOCKET = "waits for data from a socket"
_FUSE = "waits for a file system that is a program (FUSE)"
_MEMORY = "waits for memory: its container is at its limit"
_PEER = "waits for the other end of a connection"

WAITS = {
    "hrtimer_nanosleep": "sleeps",
    "do_nanosleep": "sleeps",
    "clock_nanosleep": "sleeps",
    "wait_for_partner": FIFO,
    "fifo_open": FIFO,
    "pipe_read": "waits for data from a pipe",
    "anon_pipe_read": "waits for data from a pipe",
    "pipe_write": "waits for somebody to read from a full pipe",
    "anon_pipe_write": "waits for somebody to read from a full pipe",
    "do_wait": STARTED,
    "kernel_wait4": STARTED,
    "poll_schedule_timeout": _ANY,
    "do_poll": _ANY,
    "do_select": _ANY,
    "ep_poll": _ANY,
    "do_epoll_wait": _ANY,
    "sk_wait_data": _DATA,
    "__skb_wait_for_more_packets": _DATA,
    "wait_woken": _PEER,
    "sk_stream_wait_memory": _PEER,
    "unix_stream_read_generic": _SOCKET,
    "unix_stream_data_wait": _SOCKET,
    "sock_alloc_send_pskb": "waits for somebody to read from a full socket",
    "inet_csk_accept": "waits for somebody to connect",
    "inet_csk_wait_for_connect": "waits for somebody to connect",
    "inet_wait_for_connect": "waits for a server to let it connect",
    "locks_lock_inode_wait": _FILE_LOCK,
    "flock_lock_inode_wait": _FILE_LOCK,
    "posix_lock_inode_wait": _FILE_LOCK,
    "fcntl_setlk": _FILE_LOCK,
    "do_semtimedop": "waits for a semaphore",
    "do_sigtimedwait": "waits for a signal",
    "__do_sys_pause": "waits for a signal",
    "sigsuspend": "waits for a signal",
    "n_tty_read": "waits for somebody to type",
    "request_wait_answer": _FUSE,
    "rpc_wait_bit_killable": SERVER,
    "nfs_wait_bit_killable": SERVER,
    "nfs4_wait_bit_killable": SERVER,
    "mem_cgroup_handle_over_high": _MEMORY,
    "mem_cgroup_oom_synchronize": _MEMORY,
    "ptrace_stop": "is being traced",
}
"""Functions of Linux in which a thread waits -> what that means. How compilers split them (`do_poll.constprop.0`) is
left out.
"""

LOCKED = dict.fromkeys(
    ("futex_do_wait", "futex_wait_queue", "futex_wait_queue_me"), "waits for a lock or another thread"
)
"""The same of what every rank does that waits for others, too: nothing of it explains why one is late."""

ALSO_WHO_WAITS = frozenset({"sleeps", _ANY, _DATA, _SOCKET, _PEER, "is being traced", *LOCKED.values()})
"""What a program does, too, that asks again and again whether a collective is over, or waits for it in torch."""

AT_FILES = frozenset({FIFO, SERVER, _FILE_LOCK, _FUSE})
"""What a process does that waits for a file, or its server."""


def waits_of(function: str, *, disk: bool = False, locked: bool = True) -> str:
    """What a thread does that waits there; empty where that is not known. `disk`: it can't be woken, as of a disk;
    `locked` is whether locks count.
    """
    found = ((WAITS | LOCKED) if locked else WAITS).get(function.partition(".")[0], "")
    if not disk:
        return found
    return found if found in (SERVER, _FUSE, _MEMORY) else DISK
