"""What ran out or was taken away: memory, disks, threads, ports; and processes that were killed or crashed."""

from __future__ import annotations

from distui.runs.verdict.lines.rules.cause import CRASH, HEAP, MEMORY, OTHERS, Cause


def _child(signals: str) -> str:
    """How launchers say by which of these signals the first process of theirs ended that did so badly: subprocess,
    DeepSpeed, Lightning and torch's spawn, xargs and time, torchrun, Open MPI, MPICH and Hydra, joblib.
    """
    return (
        rf"died with <Signals\.(?:{signals})\b|return code = -(?:{signals})\b"
        rf"|terminated (?:with|by) (?:code -|signal )(?:{signals})\b|\(exitcode: -(?:{signals})\)"
        rf"|exited on signal (?:{signals})\b"
        rf"|KILLED BY SIGNAL: (?:{signals})\b|EXIT STRING: .*\(signal (?:{signals})\)"
        rf"|^The exit codes of the workers are \{{.*\(-(?:{signals})\)"
    )


def _any_child(signals: str, message: str) -> str:
    """The same of any process, also of one that the launcher ended itself: torchrun's report, srun."""
    return rf"^\s*exitcode\s*: -(?:{signals})\b|srun: error: \S+: tasks? [\d,-]+: (?:{message})"


RULES: tuple[tuple[str, Cause], ...] = (
    (
        "^distui: cannot enter /",  # of plan/command/process.py
        Cause(
            "its working directory is not on its host, or closed to the login", "make it there, or change `workdir:`"
        ),
    ),
    (
        r"exec timeout failed|exec: \"timeout\": executable file not found|timeout: (unrecognized|invalid) option",
        Cause("the image has no GNU `timeout`, which max_duration needs", "add coreutils to it, or use --timeout"),
    ),
    (
        r"^(?=.{0,999}?(?:c10d|TCPStore|server socket|DistNetworkError|ProcessGroup|rdzv|[Rr]endezvous))"
        r".*(?:EADDRINUSE|address already in use)",
        Cause("the port is already in use", "pick another with `master_port:`, or stop what holds it"),
    ),
    (
        r"EADDRINUSE|address already in use|\[Errno 98\]",
        Cause(
            "a port that it listens on is already in use",
            "give the program another one, or stop what holds it; the ranks' own is `master_port:`",
        ),
    ),
    (
        r"OOM when allocating tensor .*\b(?:device:CPU:|allocator (?:mkl)?_?cpu\b)"
        r"|insufficient memory for the Java Runtime"
        r"|OutOfMemoryError: (?:Direct buffer|Cannot reserve \d+ bytes of direct)"
        r"|^fatal error: (?:runtime: )?(?:out of memory|cannot allocate memory)"  # Go
        r"|\bmemory allocation of \d+ bytes failed"  # Rust
        r"|OutOfMemoryError\(\)|: cannot allocate vector of size [\d.]+ [KMGT]b"  # Julia, R
        r"|Task was killed due to the node running low on memory"  # Ray
        r"|ArrowMemoryError|\bfork: (?:retry: )?Cannot allocate memory",
        MEMORY,
    ),
    (
        r"java\.lang\.OutOfMemoryError: (?!unable to create)|JavaScript heap out of memory",
        HEAP,
    ),
    (
        r"\b(?:CUDA|HIP|NPU|XPU|MPS backend)(?: error:)? out of memory|OOM when allocating tensor"
        r"|\b(?:torch|cupy|numba)(?:\.\w+)*\.OutOfMemoryError|^OutOfMemoryError: Out of memory allocating"
        r"|(?<!from device: )CUDA_ERROR_OUT_OF_MEMORY|Triton Error \[(?:CUDA|HIP)\]: out of memory"
        r"|RESOURCE_EXHAUSTED: Out of memory|Cuda failure (\d+ )?'out of memory'",
        Cause("the GPU ran out of memory", "smaller batch, or `nvidia-smi` for who else uses it"),
    ),
    (
        r"No space left on device.*(/dev/shm|\bshm\b|'/psm_)|(/dev/shm|</torch_).*No space left on device"
        r"|(?:unable to open shared memory|creating shared memory segment /dev/shm)(?!.*\((?:[12]|1[237]|2[34])\)$)"
        r"|bus error.*(shm|shared memory)"
        r"|insufficient shared memory|shared memory ?\(shm\)",
        Cause("shared memory is too small", "raise `shm_size:` or set `ipc: host`"),
    ),
    (
        r"DataLoader worker .*is killed by signal: Killed",
        Cause("a DataLoader worker was killed, most likely for lack of memory", "fewer workers, or smaller batches"),
    ),
    (
        r"DataLoader worker .*is killed by signal: (Terminated|Interrupt)",
        Cause("a DataLoader worker was stopped from outside", OTHERS, secondary=True),
    ),
    (
        r"DataLoader worker .*is killed by signal: (?!Terminated|Interrupt)",
        Cause("a DataLoader worker crashed", "`num_workers=0` in the program shows where"),
    ),
    (
        _child("9|SIGKILL"),
        Cause(
            "a process that it had started was killed, most likely for lack of memory",
            "`dmesg -T | grep -i 'killed process'` there tells whether the host ran out of memory",
            killed=True,
        ),
    ),
    (
        rf"{_any_child('9', 'Killed')}|: line \d+: +\d+ Killed\b",  # the last by bash
        Cause(
            "a process that it had started was killed",
            "`dmesg -T | grep -i 'killed process'` there tells whether the host ran out of memory",
            vague=True,
        ),
    ),
    (
        r"slurmstepd\S*: error: Detected \d+ oom.?kill event|srun: error: \S+: tasks? [\d,-]+: Out Of Memory",
        Cause("Slurm killed a process of it for lack of memory", "ask Slurm for more, or use less", killed=True),
    ),
    (
        r"slurmstepd\S*: error: \*\*\* .*CANCELLED AT .*DUE TO TIME LIMIT",
        Cause("Slurm's time limit was reached", "ask Slurm for more time, or save checkpoints and go on from them"),
    ),
    (
        r"slurmstepd\S*: error: \*\*\* .*CANCELLED AT .*DUE TO PREEMPTION",
        Cause("Slurm gave its place to another job", "go on from its last checkpoint"),
    ),
    (
        r"^(?:malloc|realloc|free|munmap_chunk)\(\): |double free or corruption|stack smashing detected"
        r"|^corrupted (?:size vs\. prev_size|double-linked list)"
        r"|Fatal Python error: Segmentation fault|Caught signal 11 \("
        r"|^\*\*\* SIG(?:SEGV|BUS|ILL|FPE) \(@|^# +SIG(?:SEGV|BUS|ILL|FPE) \(0x"  # glog, Java
        r"|\bsignal \((?:11|7|8|4)(?:\.\d+)?\): |\bSignal: .{0,40} \((?:11|7|8|4)\)$"  # Julia, Open MPI
        r"|^forrtl: severe \(174\)|^Program received signal SIG(?:SEGV|BUS|ILL|FPE)"
        r"|ERROR: AddressSanitizer: (?!out.of.memory|allocation.size)",
        CRASH,
    ),
    (
        f"{_child('7|SIGBUS')}|{_any_child('7', 'Bus error')}",
        Cause(
            "a process that it had started had a bus error: shared memory is probably too small",
            "raise `shm_size:` or set `ipc: host`",
            vague=True,
        ),
    ),
    (
        f"{_child('4|6|8|11|SIG(?:ILL|ABRT|FPE|SEGV)')}|{_any_child('4|6|8|11', 'Segmentation fault|Aborted')}",
        Cause(
            "a process that it had started crashed in compiled code",
            "the first error above; PYTHONFAULTHANDLER=1 in `env:` prints where",
            vague=True,
        ),
    ),
    (
        r"DataLoader worker .*exited unexpectedly",
        Cause("a DataLoader worker ended", "its own last words, or `num_workers=0`, tell why", vague=True),
    ),
    (
        r"\bBrokenProcessPool: |\bTerminatedWorkerError: ",  # concurrent.futures, joblib
        Cause(
            "a process of its pool ended without a word",
            "most often one is killed for lack of memory: `dmesg -T | grep -i 'killed process'` there tells",
            vague=True,
        ),
    ),
    (r"No space left on device|\[Errno 28\]", Cause("the disk is full", "free space where the program writes")),
    (
        r"inline_container\.cc:\d+\] \. unexpected pos \d|PytorchStreamWriter failed writing",  # torch.save
        Cause(
            "a checkpoint could not be written: its disk is full, most likely",
            "`df -h` there; free space where the program writes",
            vague=True,
        ),
    ),
    (
        r"Disk quota exceeded|\[Errno 122\]",
        Cause("the quota of the disk is used up", "free space of this user there, or have the quota raised"),
    ),
    (
        r"OSError: \[Errno 5\]|: Input/output error$",
        Cause("a disk or a shared folder failed", "`dmesg -T` there, and on the host that shares the folder"),
    ),
    (
        r"DefaultCPUAllocator: (can't allocate|not enough) memory|Unable to allocate [\d.]+ [KMGT]?iB for an array"
        r"|std::bad_alloc|^(\[rank\d+\]: )?MemoryError\b|OSError: \[Errno 12\]",
        MEMORY,
    ),
    (
        r"Too many open files|\[Errno 24\]|received 0 items of ancdata",
        Cause("too many files are open", "`ulimits: {nofile: 65536}`, or fewer DataLoader workers"),
    ),
    (
        r"can't start new thread|pthread_create failed|blas_thread_init: .*failed"
        r"|unable to create (?:new )?native thread"
        r"|\bfork: (?:retry: )?Resource temporarily unavailable"
        r"|libgomp: Thread creation failed|^\s*what\(\):\s+Resource temporarily unavailable$",
        Cause("no more threads or processes may be started", "raise `--pids-limit` in `docker_args:` or `nproc`"),
    ),
    (
        r"Stale file handle|/[^:]{0,999}: Transport endpoint is not connected"
        r"|Transport endpoint is not connected: b?['\"/]"  # sockets name no file
        r"|cannot \w+ ['‘][^:]{0,999}: Transport endpoint is not connected"
        r"|filesystem(?: error|::\w+): .{0,999}Transport endpoint is not connected",
        Cause("a shared folder went away on this host", "mount it there again; `distui doctor --job` proves `data:`"),
    ),
    (
        r"Read-only file system",
        Cause("the program writes where it may not", "a folder of `volumes:` with `rw`; `code:` is read-only"),
    ),
    (
        r"PermissionError: \[Errno 13\]",
        Cause("the program may not read or write a file", "check its owner on the host, and `user:`"),
    ),
)
