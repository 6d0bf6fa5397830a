"""What the usual last words of torch, NCCL, gloo, TensorFlow, Python and Docker mean, in plain words.

The patterns are those programs' own messages, over the versions that are in use (torch 1.10 to 2.9). The order counts:
of two rules that fit one line the first is taken, so what is more exact stands before what is more general.
"""

from __future__ import annotations

import re

from distui.frozen import frozen
from distui.regex import regex


@frozen
class Cause:
    """What the log says went wrong, and what to do about it. `secondary` marks a peer's failure echoing here."""

    text: str
    hint: str = ""
    secondary: bool = False
    network: bool = False
    """Whether a network that no longer carries would look like this."""
    vague: bool = False
    """Says that something ended but not why: any other cause that the log names, an echo too, is better."""
    killed: bool = False
    """A process of it was killed: what else went wrong here explains more, but that a peer went away does not."""
    waited: bool = False
    """It waited for others in vain: a rank that failed in another way comes before it."""
    unclear: bool = False
    """It may be a peer's end that it met, or a trouble of its own: its words fit both."""
    reported: bool = False
    """What else its line names is reported of another task, in that one's words."""


OTHERS = "look at what the other ranks said last"
"""What to do about an end that only follows from another's, where nobody knows whose."""
CRASH_HINT = "run it once with PYTHONFAULTHANDLER=1 in `env:`, which prints where"
CRASH = Cause("the program crashed in compiled code", CRASH_HINT)


TIMED_OUT = Cause(
    "a collective timed out: another rank is late, stuck or gone",
    "look at the ranks that are silent",
    waited=True,
    network=True,
)
WATCHDOG = Cause(
    "a call of NCCL or CUDA did not return, and NCCL's watchdog ended the process",
    "look at the ranks that are silent; `dmesg -T | grep -i xid` tells of broken GPUs",
    vague=True,
    waited=True,
    network=True,
)
MISMATCH = Cause(
    "the ranks did not do the same collectives with tensors of the same size",
    "TORCH_DISTRIBUTED_DEBUG=DETAIL in `env:` names them",
)
UNREACHED = Cause(
    "a service that it uses could not be reached",
    "the last error names its client; see whether this host reaches the service",
    unclear=True,
)
SERVICE = Cause(
    "a service that it uses closed a connection",
    "the last error names its client; where a rank serves it, look at that one",
    unclear=True,
)
MEMORY = Cause("the host's memory, or what the container may use of it, is used up", "use less, or raise `--memory`")
HEAP = Cause(
    "the heap that its runtime may use is full", "`-Xmx` for Java, `--max-old-space-size` for Node; or use less"
)
CUT_OFF = Cause(
    "what it read was cut off: a peer had ended, or a file is not whole",
    "its traceback tells what it was reading",
    unclear=True,
)
IN_VAIN = (TIMED_OUT, WATCHDOG)
"""Causes of ranks that waited in a collective in vain."""


def _child(signals: str) -> str:
    """How launchers say by which of these signals the first process of theirs ended that did so badly: subprocess,
    DeepSpeed, Lightning and torch's spawn, xargs and time, torchrun, Open MPI, MPICH and Hydra.
    """
    return (
        rf"died with <Signals\.(?:{signals})\b|return code = -(?:{signals})\b"
        rf"|terminated (?:with|by) (?:code -|signal )(?:{signals})\b|\(exitcode: -(?:{signals})\)"
        rf"|exited on signal (?:{signals})\b"
        rf"|KILLED BY SIGNAL: (?:{signals})\b|EXIT STRING: .*\(signal (?:{signals})\)"
    )


def _any_child(signals: str, message: str) -> str:
    """The same of any process, also of one that the launcher ended itself: torchrun's report, srun."""
    return rf"^\s*exitcode\s*: -(?:{signals})\b|srun: error: \S+: tasks? [\d,-]+: (?:{message})"


RULES: tuple[tuple[re.Pattern[str], Cause], ...] = tuple(
    (regex(pattern, re.IGNORECASE), cause)
    for pattern, cause in (
        (
            r"exec timeout failed|exec: \"timeout\": executable file not found|timeout: (unrecognized|invalid) option",
            Cause("the image has no GNU `timeout`, which max_duration needs", "add coreutils to it, or use --timeout"),
        ),
        (
            r"EADDRINUSE|address already in use|\[Errno 98\]",
            Cause("the port is already in use", "pick another with `master_port:`, or stop what holds it"),
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
            Cause(
                "a DataLoader worker was killed, most likely for lack of memory", "fewer workers, or smaller batches"
            ),
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
        (r"No space left on device|\[Errno 28\]", Cause("the disk is full", "free space where the program writes")),
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
            r"|libgomp: Thread creation failed",
            Cause("no more threads or processes may be started", "raise `--pids-limit` in `docker_args:` or `nproc`"),
        ),
        (
            r"Stale file handle|/[^:]{0,999}: Transport endpoint is not connected"
            r"|Transport endpoint is not connected: b?['\"/]"  # sockets name no file
            r"|cannot \w+ ['‘][^:]{0,999}: Transport endpoint is not connected"
            r"|filesystem(?: error|::\w+): .{0,999}Transport endpoint is not connected",
            Cause(
                "a shared folder went away on this host", "mount it there again; `distui doctor --job` proves `data:`"
            ),
        ),
        (r"Read-only file system", Cause("the program writes where it may not", "`rw` for this folder in `volumes:`")),
        (
            r"PermissionError: \[Errno 13\]",
            Cause("the program may not read or write a file", "check its owner on the host, and `user:`"),
        ),
        (
            r"ibv_(reg_mr|create_qp|create_cq).*(Cannot allocate memory|failed)",
            Cause("locked memory is limited", "`ulimits: {memlock: -1}` and the daemon's own limit"),
        ),
        (
            r"ibv_modify_qp.*(Invalid argument|failed)|wrong gid",
            Cause("wrong RoCE GID or partition", "leave NCCL_IB_GID_INDEX unset, check `show_gids` on both hosts"),
        ),
        (
            r"NET/IB : No device found|network IB not found|No IB device|NCCL_NET.{0,99}?IB.{0,99}?not",
            Cause("NCCL found no InfiniBand device in the container", "`fabric: {kind: ib}` adds /dev/infiniband"),
        ),
        (
            r"unable to find address for|Bootstrap : no socket interface found|SOCKET_IFNAME"
            r"|no interface (found|matching)",
            Cause("the network interface named does not exist there", "see the plan's interface for this host"),
        ),
        (
            r"CUDA driver version is insufficient|forward compatibility was attempted"
            r"|driver/library version mismatch|NVIDIA driver on your system is too old"
            r"|PTX was compiled with an unsupported toolchain|unsupported display driver / cuda driver combination",
            Cause("CUDA in the image and the host's driver do not fit", "update the driver or use an older image"),
        ),
        (
            r"Torch not compiled with CUDA enabled|Distributed package doesn't have NCCL built in",
            Cause(
                "torch in the image was built without CUDA",
                "use an image with a CUDA build of torch, or train on the CPU (`backend: gloo`)",
            ),
        ),
        (
            r"Found no NVIDIA driver on your system|ProcessGroupNCCL is only supported with GPUs, no GPUs found"
            r"|libcuda\.so(\.1)?: cannot open shared object file",
            Cause(
                "the program sees no NVIDIA driver in its container",
                "ask for GPUs with `gpus_per_host:`; the host needs the driver and the NVIDIA Container Toolkit",
            ),
        ),
        (
            r"no kernel image is available for execution on the device"
            r"|CUDA error: (?:device kernel image is invalid|invalid device function)",
            Cause("torch in the image was not built for this GPU", "use an image whose CUDA build knows this GPU"),
        ),
        (
            r"device-side assert triggered",
            Cause(
                "an assertion failed on the GPU, most often for an index or label out of range",
                "`Assertion ... failed` above names it; CUDA_LAUNCH_BLOCKING=1 in `env:` shows where",
            ),
        ),
        (
            r"uncorrectable ECC error encountered|GPU is lost|GPU has fallen off the bus|uncorrectable NVLink error",
            Cause("the GPU is broken or lost", "`dmesg -T | grep -i xid` there; leave this host out until it is reset"),
        ),
        (
            r"an illegal memory access was encountered"
            r"|(?:CUDA error: |Cuda failure (?:\d+ )?')(?:unspecified launch failure|misaligned address"
            r"|an illegal instruction was encountered|invalid program counter|hardware stack error)",
            Cause(
                "a GPU kernel crashed", "CUDA_LAUNCH_BLOCKING=1 in `env:` shows which; `dmesg -T | grep -i xid` there"
            ),
        ),
        (
            r"the launch timed out and was terminated",
            Cause(
                "a GPU kernel ran for too long, and the driver ended it",
                "a GPU that shows a display, too, allows some seconds: use another, or do less at once",
            ),
        ),
        (
            r"cudaGetDeviceCount.*\b802\b|CUDA error: system not yet initialized",
            Cause(
                "a service of the NVIDIA driver does not run on this host",
                "`systemctl status nvidia-fabricmanager` there, where its GPUs have an NVSwitch",
            ),
        ),
        (
            r"(CUBLAS|CUDNN)_STATUS_ALLOC_FAILED",
            Cause("the GPU ran out of memory", "smaller batch, or `nvidia-smi` for who else uses it"),
        ),
        (
            r"CUDA-capable device(?:\(s\) is/are|s are) busy or unavailable",
            Cause("another process has this GPU for itself", "`nvidia-smi` there tells which, and the compute mode"),
        ),
        (
            r"Free memory on device .* is less than desired GPU memory utilization",  # vLLM
            Cause("too little of the GPU's memory is free", "`nvidia-smi` there tells who uses it"),
        ),
        (
            r"Mismatched NCCL version detected",
            Cause("the ranks have different versions of NCCL", "use the same image on all hosts"),
        ),
        (
            r"Duplicate GPU detected",
            Cause(
                "two ranks use the same GPU, which NCCL refuses",
                "let each rank take the device LOCAL_RANK, or set `visible_gpus: own`",
            ),
        ),
        (
            r"no CUDA-capable device|CUDA error: invalid device ordinal|No CUDA GPUs are available"
            r"|Unable to locate sufficient \S+ gpus|You requested gpus: .* But your machine only has"
            r"|insufficient CUDA devices for DDP",
            Cause("the program sees fewer GPUs than it uses", "check `gpus_per_host:` and LOCAL_RANK"),
        ),
        (
            r"ModuleNotFoundError: No module named '?([\w.]+)'?",
            Cause("a Python module is missing", "install it in the image; on the host where the job has no container"),
        ),
        (
            r"exec format error",
            Cause("the image was built for another kind of CPU", "pull or build it for this host's architecture"),
        ),
        (
            r"ImportError: .*cannot open shared object file",
            Cause("a shared library is missing", "install it in the image; on the host where the job has no container"),
        ),
        (
            r"ImportError: .*(?:undefined symbol: |version `GLIBC(?:XX)?_[\d.]+' not found)",
            Cause(
                "a compiled module was built for other versions of its libraries",
                "install the build of it that fits the image's",
            ),
        ),
        (
            r"FileNotFoundError: \[Errno 2\]",
            Cause("a file the program needs is not there", "check `volumes:`, `data:` and `workdir:` on this host"),
        ),
        (
            r"PytorchStreamReader failed|failed finding central directory|unexpected EOF, expected \d+ more bytes"
            r"|SafetensorError: Error while deserializing header",
            Cause("a checkpoint is damaged or was cut off", "start from the one before it"),
        ),
        (
            r"Error\(s\) in loading state_dict",
            Cause("the checkpoint does not fit the model", "load one of this very model"),
        ),
        (
            r"Loss is nan, stopping|FloatingPointError: .*(nan|inf)"
            r"|: found (?:NaN|Inf) in local |loss returned in `training_step` is (?:nan|inf)"
            r"|Minimum loss scale reached|loss scale already at minimum",
            Cause("the loss is no number any more", "a lower learning rate, gradient clipping, or a look at the data"),
        ),
        (
            r"^(\[rank\d+\]: ?)?terminate called without an active exception$",  # pytorch issues 117762, 190489
            Cause(
                "a thread of compiled code still ran when the process ended",
                "with torch: torch.distributed.destroy_process_group() at the end of the program, once its model is"
                " gone; with DDP also `import torch.distributed.nn` before init_process_group()",
            ),
        ),
        (
            r"Expected to have finished reduction in the prior iteration",
            Cause(
                "parameters took no part in the loss, which DDP waits for", "find_unused_parameters=True in the program"
            ),
        ),
        (
            r"Detected mismatch between collectives|op\.preamble\.length <= op\.nbytes",
            MISMATCH,
        ),
        (
            r"environment variable \w+ expected, but not set"
            r"|KeyError: '(RANK|LOCAL_RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT)'",
            Cause("the program was started without torch's environment", "`launcher: env` or `torchrun` sets it"),
        ),
        (
            r"unrecognized arguments: .*--local[-_]rank",
            Cause("the program does not know --local-rank", "read LOCAL_RANK in it, and use `launcher: torchrun`"),
        ),
        (
            r"HTTPS?ConnectionPool|couldn't connect to 'https?://|urlopen error",
            Cause(
                "a download, or something else that it asked a web service for, failed",
                "let this host reach the network, or give it as `data:`",
            ),
        ),
        (
            r"\[FATAL tini.*exec .* failed: No such file",
            Cause("the command is not in the image", "check `command:` and the image's PATH"),
        ),
        (
            r"can't open file '.*': \[Errno 2\]",
            Cause("the program's file is not there", "check `volumes:` and `workdir:` on this host"),
        ),
        (
            r"with an unsupported type \(<class '[\w.]*\.PerReplica'>\)"
            r"|you need to pass this dataset to ClusterCoordinator",
            Cause(
                "most likely `fit` of Keras 3, which does not know this strategy",
                "tf_keras in the image and TF_USE_LEGACY_KERAS=1 in `env:`, or a loop of your own",
            ),
        ),
        (
            r"reached monitoredBarrier, but received errors while waiting for send/recv from rank \d+",
            Cause("another rank gave a barrier up", "look at the rank it names", secondary=True, network=True),
        ),
        (
            r"Watchdog caught collective operation timeout|Timed out waiting \d+ms for (recv|send)"
            r"|DEADLINE_EXCEEDED: Barrier timed out|CollectiveExecutor::StartAbort DEADLINE_EXCEEDED"
            r"|timed out in monitoredBarrier|failed to pass monitoredBarrier|Application timeout caused pair closure",
            TIMED_OUT,
        ),
        (
            r"dump signal due to a collective timeout from\s+rank \d+",
            Cause("a collective of another rank timed out", "look at the rank it names", secondary=True, network=True),
        ),
        (r"watchdog got stuck for \d+ seconds|Heartbeat monitor timed out", WATCHDOG),
        (
            r"watchdog thread terminated with exception|we are taking the entire process down",
            Cause(
                "NCCL's watchdog ended the process after an error",
                "the first line above with an error of NCCL or CUDA tells which",
                vague=True,
            ),
        ),
        (
            r"NET/IB ?: Got completion .*(status=(\w+\()?|error )(5|12)\b",
            Cause(
                "a peer does not answer on InfiniBand", "it had ended, or a link is down", secondary=True, network=True
            ),
        ),
        (
            r"NCCL communicator was aborted",
            Cause(
                "NCCL gave its connections up after an error",
                OTHERS,
                secondary=True,
                network=True,
            ),
        ),
        (
            r"RendezvousClosedError",
            Cause("the rendezvous was closed: another node has ended or given up", "look at that one", secondary=True),
        ),
        (
            r"(?:connect|connection|connecting) to .{0,200}?"
            r"(?:failed.{0,200}?|returned (?:-?\d{1,9} ?\()?(?:Connection )?)"
            r"(?:timed out|No route to host|Network is unreachable)"
            r"|pair\.cc:\d+\] connect \[.*: (No route to host|Connection timed out|Network is unreachable)"
            r"|SO_ERROR: (No route to host|Connection timed out|Network is unreachable)",
            Cause(
                "a peer's address can't be reached from here", "`distui doctor` proves who reaches whom", network=True
            ),
        ),
        (
            r"Timed out after \d+ seconds waiting for (clients|workers)|DistStoreError|client socket has timed out"
            r"|Connection to (?:(?!returned ).){1,99} timed out|RendezvousTimeoutError|RendezvousConnectionError"
            r"|connection to the C10d store has failed|in store based barrier|Timeout waiting for key"
            r"|failed to connect to any network address|failed to connect/validate to host .*timed out"
            r"|got error: (Socket Timeout|wait timeout)"
            r"|connect\(\) timed out\. Original timeout|calling /tensorflow\.CoordinationService/RegisterTask",
            Cause(
                "not every rank reached the rendezvous",
                "check that MASTER_ADDR is reachable from this host and that all ranks started",
                waited=True,
                network=True,
            ),
        ),
        (
            r"^(?!.*IPv6 network addresses).*(Name or service not known|Temporary failure in name resolution)",
            Cause("a host's name can't be resolved", "use addresses, or check DNS on this host", vague=True),
        ),
        (
            r"(connectFullMesh failed|Connection refused).*\b127\.\d+\.\d+\.\d+",
            Cause("gloo used the wrong address", "the host's own name resolves to 127.0.1.1: name an interface"),
        ),
        (
            r"connectFullMesh failed|SO_ERROR: Connection refused|pair\.cc:\d+\] connect \[.*: Connection refused",
            Cause(
                "gloo could not connect to a peer",
                "it had ended, or something between the hosts refuses it: `distui doctor` proves who reaches whom",
                secondary=True,
                network=True,
            ),
        ),
        (
            r"socket\w*Connect: Connect to \S+ (?:returned (?:\d+ ?\()?|failed : )Connection refused",
            Cause(
                "NCCL could not connect to a peer",
                "it had ended, or something between the hosts refuses it: `distui doctor` proves who reaches whom",
                secondary=True,
                network=True,
            ),
        ),
        (
            r"unhandled system error|ncclSystemError: System call",
            Cause(
                "a system call of NCCL failed",
                "NCCL_DEBUG=WARN in `env:` tells which",
                vague=True,
                unclear=True,
                network=True,
            ),
        ),
        (
            r"\bUnexpectedEof\b|\bjava\.io\.EOFException|^EOFError$|\bIncompleteReadError: "
            r"|UnpicklingError: pickle data was truncated",
            CUT_OFF,
        ),
        (
            r"\bError: socket hang up$|\bwebsockets\.exceptions\.ConnectionClosed",
            SERVICE,
        ),
        (
            r"Error reported from /job:",  # by TensorFlow's coordination service
            Cause("another task failed", "look at the task that it names", secondary=True, reported=True),
        ),
        (
            r"Connection (closed|reset) by (remote )?peer|ECONNRESET|Broken pipe|remote process exit(ed|ing)"
            r"|Socket closed|recvValue failed|failed to recv, got 0 bytes|Stop_waiting response is expected"
            r"|Connection was likely closed|Collective ops is aborted by"
            r"|RPC Request was cancelled|AbortedError: .*Cleanup \d|has lost communication with a remote daemon"
            r"|PMIX ERROR: (?:PMIX_ERR_)?LOST[-_]CONNECTION"
            r"|heartbeat timeout\b(?! ?[:=\d])|heartbeat has timed out"
            r"|failed to connect to all addresses|\[Errno (32|104)\]"
            r"|(?:Read|Write) error \[.{1,99}\]:\d+: (?:Connection timed out|No route to host)"
            r"|SocketException: Connection reset|Software caused connection abort"
            r"|Socket recv failed while polling for opId"
            r"|Transport endpoint is not connected|Transport retry count exceeded"
            r"|handle_cq_error[:)].{0,99}(?:Input/output error|CANCELED|canceled|Connection|Transport endpoint)"
            r"|\bEndpoint timeout(?! ?[:=\d])|: unhandled timeout error|\[asio\.misc:2\]"
            r"|\bcode = Unavailable\b|\bUNAVAILABLE: io exception|errors_impl\.UnavailableError\b"
            r"|ray\.exceptions\.(?:(?:Ray|Worker|Node|Owner|Object|Actor|LocalRaylet)\w*(?:Died|Crashed|Unavailable|Lost)"
            r"Error|RayActorError)(?!: The actor died because of an error raised in its creation)"
            r"|\bCommClosedError\b|\bKilledWorker\b|\bProcessExitedException\(\d+\)"
            r"|MPI_ERR_PROC_FAILED|Communication error with rank \d+|actor died unexpectedly"
            r"|(eof|end of file|pipe closed|connection refused) \(this error originated at tensorpipe/"
            r"|expects a different device incarnation|incarnation doesn't match"
            r"|Horovod has been shut down|most likely indicates that another task died|tasks are unhealthy",
            Cause("a peer went away", OTHERS, secondary=True, network=True),
        ),
    )
)


NETWORK = frozenset(cause.text for _, cause in RULES if cause.network)
"""Texts of causes behind which a network that no longer carries may stand."""

ECHOES = frozenset(cause.text for _, cause in RULES if cause.secondary)
"""Texts of causes that only follow from another rank's failure."""


def may_be_network(text: str) -> bool:
    """Whether a failure's cause is one of them; what ranks answered may follow it."""
    return text in NETWORK or any(text.startswith(f"{cause}; ") for cause in NETWORK)
