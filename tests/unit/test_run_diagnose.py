"""Why a rank ended, in words, and who was first."""

import pytest

from distui.runs.verdict.exit_words import exit_words
from distui.runs.verdict.lines.causes import NETWORK
from distui.runs.verdict.lines.diagnose import cause_of, cause_of_exit


@pytest.mark.parametrize(
    ("code", "oom", "words"),
    [
        (3, False, "exit 3"),
        (137, True, "out of memory: the kernel killed it (exit 137)"),
        (1, True, "out of memory: the kernel killed a process of it (exit 1)"),
        (0, True, "out of memory: the kernel killed a process of it, which ended with exit 0 all the same"),
        (137, False, "killed by SIGKILL, exit 137"),
        (139, False, "killed by SIGSEGV (segmentation fault), exit 139"),
        (129, False, "killed by SIGHUP, exit 129"),
        (128, False, "exit 128"),
        (127, False, "command not found (exit 127)"),
        (126, False, "the command can't be executed (exit 126)"),
        (125, False, "docker could not start it (exit 125)"),
        (None, False, "ended without an exit status"),
        (174, False, "exit 174"),
    ],
)
def test_exit_in_words(code: int | None, oom: bool, words: str) -> None:
    """137 is out-of-memory only when the engine says so."""
    assert exit_words(code, oom=oom) == words


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("RuntimeError: The server socket has failed to bind ... EADDRINUSE", "the port is already in use"),
        ("OSError: [Errno 98] Address already in use", "a port that it listens on is already in use"),
        (
            "OSError: [Errno 98] error while attempting to bind on address ('0.0.0.0', 6006): address already in use",
            "a port that it listens on is already in use",
        ),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "GPU ran out of memory"),
        ("ModuleNotFoundError: No module named 'einops'", "Python module is missing"),
        ("RuntimeError: RPCErr:1:RPC ran for more than set timeout (60000 ms) and will now be marked", "no answer in"),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'ninja'", "a program that it starts, or a file"),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'data/a.bin'", "a file the program needs"),
        ("RuntimeError: unable to find address for: ib9", "interface named does not exist"),
        ("[c10d] DistStoreError: Timed out after 9 seconds waiting for clients. 1/2 clients joined.", "rendezvous"),
        ("NET/IB : No device found.", "no InfiniBand device"),
        ("OSError: [Errno 28] No space left on device", "disk is full"),
        ("RuntimeError: [enforce fail at inline_container.cc:672] . unexpected pos 704 vs 598", "disk is full"),
        ("RuntimeError: PytorchStreamWriter failed writing file data/6: file write failed", "disk is full"),
        ("        An attempt has been made to start a new process before the", "while its own file is imported"),
        ("OSError: [Errno 28] No space left on device: '/data/shmidt/ckpt.pt'", "disk is full"),
        ("OSError: [Errno 28] No space left on device: '/psm_93a1'", "shared memory"),
        ("failed to extend /dev/shm/nccl-Jh3aQz to 33030532 bytes, error: No space left on device", "shared memory"),
        ("unable to write to file </torch_2243_30425_0>: No space left on device (28)", "shared memory"),
        ("ibv_reg_mr_iova2 failed with error Cannot allocate memory", "locked memory"),
        ("Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1, curr state INIT", "RDMA port"),
        ("Call to ibv_modify_qp failed with 22 Invalid argument errno 22", "wrong RoCE GID"),
        ("Cuda failure 802 'system not yet initialized'", "a service of the NVIDIA driver"),
        ("OSError: [Errno 107] Transport endpoint is not connected: '/mnt/data/a'", "shared folder went away"),
        ("ls: cannot access '/mnt/data': Transport endpoint is not connected", "shared folder went away"),
        ("cp: cannot stat 'data/a.bin': Transport endpoint is not connected", "shared folder went away"),
        ("OSError: [Errno 107] Transport endpoint is not connected: 'data/a.bin'", "shared folder went away"),
        ("OSError: [Errno 107] Transport endpoint is not connected: b'data/a.bin'", "shared folder went away"),
        (
            "  what():  filesystem error: cannot open directory: Transport endpoint is not connected [data]",
            "shared folder went away",
        ),
        ("  what():  shutdown: Transport endpoint is not connected [system:107]", "a peer went away"),
        ("RuntimeError: [gloo/transport/tcp/pair.cc:10] Transport endpoint is not connected", "a peer went away"),
        ("OSError: [Errno 107] Transport endpoint is not connected", "a peer went away"),
        ("RuntimeError: CUDA error: out of memory", "GPU ran out of memory"),
        ("torch.OutOfMemoryError: HIP out of memory.", "GPU ran out of memory"),
        ("OOM when allocating tensor with shape[9] on /job:worker/device:CPU:0 by allocator cpu", "the host's memory"),
        ("OOM when allocating tensor with shape[9] on /job:worker/device:GPU:0 by allocator GPU_0_bfc", "GPU ran out"),
        ("ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.", "host's memory"),
        ("ERROR: LoadError: OutOfMemoryError()", "the host's memory"),
        ("memory allocation of 23400000000 bytes failed", "the host's memory"),
        ("fatal error: runtime: out of memory", "the host's memory"),
        ("# There is insufficient memory for the Java Runtime Environment to continue.", "the host's memory"),
        ("bash: fork: Cannot allocate memory", "the host's memory"),
        ("bash: fork: retry: Resource temporarily unavailable", "no more threads or processes"),
        ("  what():  Resource temporarily unavailable", "no more threads or processes"),
        ("/usr/bin/python3: No module named pkg.trian", "`-m` names is not there"),
        ("/usr/bin/python3.14t: No module named trian", "`-m` names is not there"),
        ("EOFError: EOF when reading a line", "asked for input"),
        ("[rank0]: RuntimeError: Parent directory /out does not exist.", "a folder that it writes to is not there"),
        ("java.lang.OutOfMemoryError: unable to create native thread: possibly out of memory", "no more threads"),
        ('Exception in thread "main" java.lang.OutOfMemoryError: Java heap space', "the heap that its"),
        ("FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory", "the heap that its"),
        (
            "RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error. It is possible that dataloader's "
            "workers are out of shared memory. Please try to raise your shared memory limit.",
            "shared memory",
        ),
        ("RuntimeError: DataLoader worker (pid(s) 7) is killed by signal: Killed.", "DataLoader worker was killed"),
        ("RuntimeError: CUDA driver version is insufficient for CUDA runtime version", "do not fit"),
        ("[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)", "collective timed out"),
        ("SO_ERROR: Connection refused, remote=[127.0.1.1]:4242", "wrong address"),
        ("AssertionError: Torch not compiled with CUDA enabled", "built without CUDA"),
        ("RuntimeError: Distributed package doesn't have NCCL built in", "built without CUDA"),
        ("RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU", "no NVIDIA"),
        ("ValueError: ProcessGroupNCCL is only supported with GPUs, no GPUs found!", "no NVIDIA driver"),
        ("ImportError: libcuda.so.1: cannot open shared object file: No such file or directory", "no NVIDIA driver"),
        ("ImportError: libcudnn.so.9: cannot open shared object file: No such file", "shared library is missing"),
        ("Unable to locate sufficient 2 gpus to run this example. Exiting.", "fewer GPUs than it uses"),
        ("RuntimeError: CUDA error: no kernel image is available for execution on the device", "not built for this"),
        ("RuntimeError: CUDA error: device-side assert triggered", "assertion failed on the GPU"),
        ("torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered", "GPU is broken"),
        ("RuntimeError: CUDA error: an illegal memory access was encountered", "GPU kernel crashed"),
        ("RuntimeError: CUDA error: all CUDA-capable device(s) is/are busy or unavailable", "has this GPU for itself"),
        ("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", "out of memory"),
        ("Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000", "same GPU"),
        ("RuntimeError: DataLoader worker (pid 7) is killed by signal: Segmentation fault. ", "worker crashed"),
        ("RuntimeError: DataLoader worker (pid(s) 77, 78) exited unexpectedly", "DataLoader worker ended"),
        ("sh: 1: wait: Illegal option -n", "written for bash"),
        (
            "ray.exceptions.WorkerCrashedError: The worker died unexpectedly while executing this task.",
            "of Ray or Dask",
        ),
        (
            "distributed.scheduler.KilledWorker: Attempted to run task 'w-1' on 4 different workers, but",
            "of Ray or Dask",
        ),
        ("sh: 1: set: Illegal option -o pipefail", "written for bash"),
        ("/app/run.sh: 3: [[: not found", "written for bash"),
        ('sh: 1: Syntax error: "(" unexpected', "written for bash"),
        (
            "concurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated abruptly while",
            "a process of its pool ended",
        ),
        (
            "joblib.externals.loky.process_executor.TerminatedWorkerError: A worker process managed by the executor",
            "a process of its pool ended",
        ),
        (
            "RuntimeError: [enforce fail at alloc_cpu.cpp:127] . DefaultCPUAllocator: can't allocate memory: you tried "
            "to allocate 8000000000000 bytes. Error code 12 (Cannot allocate memory)",
            "host's memory",
        ),
        ("[rank1]: MemoryError", "host's memory"),
        ("malloc(): invalid size (unsorted)", "crashed in compiled code"),
        ("double free or corruption (!prev)", "crashed in compiled code"),
        ("slurmstepd: error: *** STEP 7.1 ON h1 CANCELLED AT 2026-01-05T14:27:50 DUE TO TIME LIMIT ***", "time limit"),
        ("slurmstepd: error: *** JOB 7 ON h1 CANCELLED AT 2026-01-05T14:27:50 DUE TO PREEMPTION ***", "another job"),
        ("RuntimeError: unable to open shared memory object </torch_1_2> in read-write mode", "shared memory is too"),
        (
            "RuntimeError: unable to open shared memory object </torch_1_2> in mode: No space (28)",
            "shared memory is too",
        ),
        (
            "RuntimeError: unable to open shared memory object </torch_1_2> in mode: Too many open files (24)",
            "too many files",
        ),
        ("CUDA error: the provided PTX was compiled with an unsupported toolchain.", "do not fit"),
        ("RuntimeError: CUDA error: misaligned address", "GPU kernel crashed"),
        ("Cuda failure 715 'an illegal instruction was encountered'", "GPU kernel crashed"),
        ("RuntimeError: CUDA error: the launch timed out and was terminated", "ran for too long"),
        ("CUDA error: uncorrectable NVLink error detected during the execution", "GPU is broken"),
        ("RuntimeError: CUDA error: device kernel image is invalid", "not built for this"),
        (
            "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before? "
            "Error 802: system not yet initialized",
            "does not run on this host",
        ),
        ("RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable", "has this GPU for itself"),
        (
            "ValueError: Free memory on device (12.4/79.1 GiB) on startup is less than desired GPU memory utilization",
            "too little of the GPU's memory",
        ),
        (
            "NCCL WARN Mismatched NCCL version detected : rank 0 version 22105 rank 1 version 22005",
            "different versions",
        ),
        (
            "ImportError: /x/flash_attn_2_cuda.so: undefined symbol: _ZN3c104cuda9SetDeviceEi",
            "built for other versions",
        ),
        ("ImportError: libc.so.6: version `GLIBC_2.34' not found (required by a.so)", "built for other versions"),
        ("AssertionError: Rank 3: found NaN in local forward loss calculation. Device: 3", "no number"),
        ("Fatal Python error: Segmentation fault", "crashed in compiled code"),
        (
            "[h2:12345:0:12399] Caught signal 11 (Segmentation fault: address not mapped to object)",
            "crashed in compiled",
        ),
        ("OSError: [Errno 12] Cannot allocate memory", "host's memory"),
        ("OSError: [Errno 24] Too many open files: '/data/7.npy'", "too many files"),
        ("OSError: [Errno 122] Disk quota exceeded: '/nfs/mp_rank_03.pt'", "quota"),
        ("OSError: [Errno 5] Input/output error: '/nfs/part-7'", "shared folder failed"),
        ("cat: /nfs/part-7: Input/output error", "shared folder failed"),
        ("safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer", "damaged"),
        ("RuntimeError: can't start new thread", "threads or processes"),
        ("OSError: [Errno 116] Stale file handle: '/data'", "shared folder went away"),
        ("OSError: [Errno 30] Read-only file system: '/out/last.pt'", "writes where it may not"),
        ("PermissionError: [Errno 13] Permission denied: '/out/last.pt'", "may not read or write"),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/data/train.bin'", "is not there"),
        (
            "python3: can't open file '/work/train.py': [Errno 2] No such file or directory",
            "program's file is not there",
        ),
        ("python3: can't open file '/work/sh': [Errno 2] No such file or directory", "image's own entry point"),
        ("/opt/conda/bin/python: can't open file 'python3.11': [Errno 2] No such file or directory", "own entry point"),
        ("exec /usr/bin/python3: exec format error", "another kind of CPU"),
        ("OSError: [Errno 8] Exec format error: './prepare.sh'", "a script without a `#!` line"),
        ("RuntimeError: HIP error: invalid device function", "not built for this GPU"),
        ("RuntimeError: No HIP GPUs are available", "fewer GPUs"),
        ("Memory access fault by GPU node-2 (Agent handle: 0x56) on address 0x7f. Reason: Page not", "kernel crashed"),
        ("RuntimeError: Triton Error [CUDA]: out of memory", "GPU ran out"),
        ("CudaAPIError: [2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY", "GPU ran out"),
        ("RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory", "damaged"),
        ("RuntimeError: Error(s) in loading state_dict for Net:", "does not fit the model"),
        ("Loss is nan, stopping training", "no number"),
        ("terminate called without an active exception", "still ran when the process ended"),
        ("RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one.", "DDP"),
        ("[enforce fail at gloo/transport/tcp/pair.cc:446] op.preamble.length <= op.nbytes. 8 vs 4", "same size"),
        (
            "ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable RANK "
            "expected, but not set",
            "without torch's environment",
        ),
        ("train.py: error: unrecognized arguments: --local-rank=0", "--local-rank"),
        (
            "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='h', port=443): Max retries exceeded "
            "with url: / (Caused by ConnectTimeoutError('Connection to h timed out. (connect timeout=10)'))",
            "download",
        ),
        (
            "XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Barrier_id: PjRT_Client_Connect",
            "collective timed out",
        ),
        ("[../gloo/transport/tcp/pair.cc:799] connect [10.0.0.2]:23: Connection timed out", "can't be reached"),
        ("RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:1269, unhandled system error", "system call of NCCL"),
        ("[Rank 0]: Rank 1 failed to pass monitoredBarrier in 10000 ms", "collective timed out"),
        (
            "[rank0]:[F ProcessGroupNCCL.cpp:1169] [PG 0 Rank 0] ProcessGroupNCCL's watchdog got stuck for 600 seconds "
            "without making progress in monitoring enqueued collectives.",
            "did not return",
        ),
        (
            "[rank4]:[E ProcessGroupNCCL.cpp:698] [Rank 4] To avoid data inconsistency, we are taking the entire "
            "process down.",
            "watchdog ended the process",
        ),
        ("NCCL WARN socketStartConnect: Connect to 10.0.0.2<4242> failed : No route to host", "can't be reached"),
        (
            "NCCL WARN socketPollConnect: Connect to 10.0.0.4<56849> returned 113(No route to host) errno 115",
            "can't be reached",
        ),
        (
            "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has "
            "failed. See inner exception for details.",
            "rendezvous",
        ),
        ("torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError", "rendezvous"),
        (
            "RuntimeError: Timed out initializing process group in store based barrier on rank: 0, for key: "
            "store_based_barrier_key:1 (world_size=2, worker_count=1, timeout=0:30:00)",
            "rendezvous",
        ),
        ("torch.distributed.DistStoreError: wait timeout after 300000ms, keys: /default_pg/0//cpu//0/1", "rendezvous"),
        ("RuntimeError: connect() timed out. Original timeout was 60000 ms.", "rendezvous"),
        ("RPC: /xla.coordination.CoordinationService/RegisterTask", "rendezvous"),
        ("socket.gaierror: [Errno -2] Name or service not known", "can't be resolved"),
        (
            "}) with an unsupported type (<class 'tensorflow.python.distribute.values.PerReplica'>) to a Tensor.",
            "`fit` of Keras 3",
        ),
        (
            "ValueError: To use this dataset, you need to pass this dataset to "
            "ClusterCoordinator.create_per_worker_dataset.",
            "`fit` of Keras 3",
        ),
    ],
)
def test_usual_messages_have_a_cause(line: str, part: str) -> None:
    """The usual messages of torch, NCCL and Docker are put in plain words."""
    cause = cause_of(["step 1", line, "more"])

    assert cause is not None
    assert part in cause.text
    assert cause.hint


@pytest.mark.parametrize(
    "line",
    [
        "subprocess.CalledProcessError: Command '['python3', 'x.py']' died with <Signals.{name}: {number}>.",
        "[launch.py:321:sigkill_handler] ['python3', '-u', 'x.py'] exits with return code = -{number}",
        "[rank: 1] Child process with PID 41 terminated with code -{number}. Forcefully terminating all",
        "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal {name}",
        "torch/distributed/elastic/multiprocessing/api.py:826] failed (exitcode: -{number}) local_rank: 0 (pid: 30)",
        "  exitcode  : -{number} (pid: 30)",
        "mpirun noticed that process rank 2 with PID 0 on node h2 exited on signal {number} ({words}).",
        "=   KILLED BY SIGNAL: {number} ({words})",
        "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: {words} (signal {number})",
        "The exit codes of the workers are {{{name}(-{number})}}",
        "srun: error: node03: task 5: {words}",
        "srun: error: node03: tasks 4-7: {words} (core dumped)",
    ],
)
def test_a_launcher_that_tells_how_its_process_ended(line: str) -> None:
    """Killed is not crashed, and neither is said of a process that ended with a status."""
    killed = cause_of([line.format(name="SIGKILL", number=9, words="Killed")])
    crashed = cause_of([line.format(name="SIGSEGV", number=11, words="Segmentation fault")])
    ended = cause_of([line.format(name="SIGTERM", number=15, words="Terminated")])

    assert killed is not None and "was killed" in killed.text
    assert crashed is not None and "crashed" in crashed.text
    bus = cause_of([line.format(name="SIGBUS", number=7, words="Bus error")])
    assert (killed.killed or killed.vague) and crashed.vague
    assert bus is not None and "shared memory" in bus.text and bus.vague
    assert ended is None


@pytest.mark.parametrize(
    "line",
    [
        "timeout: unrecognized option '--foreground'",
        "timeout: unrecognized option: foreground",
        "[FATAL tini (7)] exec timeout failed: No such file or directory",
        'exec: "timeout": executable file not found in $PATH: unknown',
    ],
    ids=["busybox on glibc", "busybox on musl", "init", "docker"],
)
def test_an_image_without_gnu_timeout_is_reported(line: str) -> None:
    """busybox has a `timeout` that knows no --foreground; others have none; both can't keep `max_duration`."""
    cause = cause_of([line, "BusyBox v1.36.1 multi-call binary."])

    assert cause is not None
    assert cause.text == "the image has no GNU `timeout`, which max_duration needs"
    assert cause.hint == "add coreutils to it, or use --timeout"


def test_a_working_directory_that_is_not_there_is_the_cause() -> None:
    """A task without a container ends with 126 then, as one whose command can't be executed."""
    cause = cause_of(["sh: 17: cd: can't cd to /data/mnist", "distui: cannot enter /data/mnist"])

    assert cause is not None and cause.text == "its working directory is not on its host, or closed to the login"


@pytest.mark.parametrize("gpu, tool", [("CUDA", "CUDA_LAUNCH_BLOCKING"), ("HIP", "AMD_SERIALIZE_KERNEL")])
def test_a_kernel_is_looked_for_by_its_own_makers_means(gpu: str, tool: str) -> None:
    cause = cause_of([f"torch.AcceleratorError: {gpu} error: an illegal memory access was encountered"])
    assert cause is not None and tool in cause.hint


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: DataLoader worker (pid 7) is killed by signal: Terminated. ",
        "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
        "NCCL WARN socketProgress: Connection closed by remote peer h2<51234>",
        "NCCL WARN NET/IB : Got completion from peer 10.0.0.2<4> with status=12 opcode=0 len=0 vendor err 129 (Recv)",
        "[PG ID 0 PG GUID 0(default_pg) Rank 0] Received a dump signal due to a collective timeout from  rank 1 and we",
        "torch.distributed.elastic.rendezvous.api.RendezvousClosedError",
        "UNAVAILABLE: Task /job:worker/replica:0/task:1 heartbeat timeout. This indicates that the remote task",
        "UnavailableError: Collective ops is aborted by: Socket closed",
        "torch.distributed.DistNetworkError: failed to recv, got 0 bytes",
        "RuntimeError: Stop_waiting response is expected",
        "socketPollConnect: Connect to 10.0.0.2<5> returned 111(Connection refused) errno 115 - retried 35 times",
        "NCCL WARN socketStartConnect: Connect to 10.0.0.2<45113> failed : Connection refused",
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:799] connect [10.0.0.2]:23: Connection refused",
        "tensorflow.python.framework.errors_impl.CancelledError: RPC Request was cancelled",
        "tensorflow.python.framework.errors_impl.AbortedError: {{function_node f}} Cleanup 0",
        "ORTE has lost communication with a remote daemon.",
        "PMIX ERROR: LOST_CONNECTION in file server/pmix_server.c at line 123",
        "ABORTED: /job:jax_worker/replica:0/task:1 unexpectedly tried to connect with a different incarnation. It has",
        "UNAVAILABLE: Failed to send RPC to coordination service. Either the leader task was preempted/died/restarted",
    ],
)
def test_what_only_tells_of_another_rank_is_secondary(line: str) -> None:
    """Whoever says this followed another's end."""
    cause = cause_of([line])
    assert cause is not None and cause.secondary


@pytest.mark.parametrize(
    ("lines", "part"),
    [
        (
            [
                "RuntimeError: DataLoader worker (pid 77) is killed by signal: Killed. ",
                "RuntimeError: DataLoader worker (pid(s) 77) exited unexpectedly",
            ],
            "was killed",
        ),
        (
            [
                "[Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE)",
                "[Rank 2] To avoid data inconsistency, we are taking the entire process down.",
                "what():  [Rank 2] NCCL watchdog thread terminated with exception: x",
            ],
            "collective timed out",
        ),
        (
            [
                "[Rank 2] Process group watchdog thread terminated with exception: CUDA error: device-side assert "
                "triggered",
                "To avoid data inconsistency, we are taking the entire process down.",
            ],
            "assertion failed",
        ),
        (
            [
                "RuntimeError: Connection reset by peer",
                "what(): [Rank 1] NCCL watchdog thread terminated with exception: unknown",
            ],
            "a peer went away",
        ),
        (["Connection reset by peer", "x.py'] exits with return code = -9"], "was killed"),
        (["x.py'] exits with return code = -9", "Connection reset by peer"], "was killed"),
        (["OSError: [Errno 28] No space left on device", "x.py'] exits with return code = -9"], "disk is full"),
        (["Connection reset by peer", "  exitcode  : -9 (pid: 7)"], "a peer went"),
        (["Connection reset by peer", "x.py'] exits with return code = -11"], "a peer went"),
        (["[Rank 1] NCCL watchdog thread terminated with exception: NCCL error: remote process exited"], "a peer went"),
    ],
)
def test_a_line_that_says_why_is_better_than_a_later_one_that_does_not(lines: list[str], part: str) -> None:
    """Programs say last that they end, and before that why."""
    cause = cause_of(lines)
    assert cause is not None and part in cause.text


@pytest.mark.parametrize(
    "line",
    [
        "UserWarning: CUDA initialization: Found no NVIDIA driver on your system. Please check that",
        "UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version 11040).",
        "h1:41:88 [0] NCCL INFO NET/IB : No device found.",
        "h1:41:41 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0",
        "INFO: CUDA out of memory was handled",
        "CUDA out of memory at batch size 64. Retrying with batch size 32.",
        "2026-11-22 20:18:55,123 - data - INFO - FileNotFoundError: [Errno 2] is tried elsewhere",
        "2026-11-22 20:18:55.123 | DEBUG    | data:get:7 - Connection reset by peer",
        "[W socket.cpp:663] The IPv6 network addresses of (h1, 29400) cannot be retrieved (gai error: -2 - Name or "
        "service not known).",
        "Parent directory /out/run-7 does not exist. Creating it.",
        "cuda_driver.cc:738] failed to allocate 14.93G (16032268288 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out",
    ],
)
def test_a_warning_is_no_cause(line: str) -> None:
    """Programs that need no GPU print these, too, and fail for other reasons; so it is with what is only told."""
    assert cause_of([line, "ValueError: 7"]) is None


def test_an_exception_that_was_raised_for_good_has_its_cause() -> None:
    """Though its words tell of what was tried before."""
    cause = cause_of(["RuntimeError: CUDA out of memory, and retrying did not help"])
    assert cause is not None and "GPU ran out" in cause.text


def test_an_echo_does_not_hide_the_cause() -> None:
    """A root cause wins over a peer's failure echoing in the same log."""
    cause = cause_of(["CUDA out of memory", "Connection reset by peer"])

    assert cause is not None
    assert not cause.secondary


def test_an_echo_alone_is_secondary() -> None:
    """Connection loss to a peer is marked as following another's failure."""
    cause = cause_of(["RuntimeError: Connection closed by peer [10.77.0.12]:4242"])

    assert cause is not None
    assert cause.secondary


def test_a_refused_peer_is_no_wrong_address() -> None:
    """Gloo that is refused by a peer's real address follows that peer's end; only 127.x is the wrong address."""
    line = "RuntimeError: Gloo connectFullMesh failed with [...] SO_ERROR: Connection refused, remote=[10.77.0.12]:4242"
    cause = cause_of([line])

    assert cause is not None
    assert (cause.secondary, "wrong" in cause.text) == (True, False)


@pytest.mark.parametrize(
    ("code", "part"),
    [(135, "shm_size"), (139, "FAULTHANDLER"), (137, "dmesg"), (126, "chmod"), (127, "code: ./")],
)
def test_an_exit_status_alone_has_a_hint(code: int, part: str) -> None:
    """Where the log says nothing; the engine's own words are better where there are some."""
    cause = cause_of_exit(code)

    assert cause is not None
    assert part in cause.hint
    assert cause_of_exit(code, error="somebody stopped it") is None


@pytest.mark.parametrize(
    ("line", "network"),
    [
        ("[rank0]: Watchdog got stuck for 480 seconds without making progress", True),
        ("Received a dump signal due to a collective timeout from  rank 1 and we will try our best to dump", True),
        ("RuntimeError: Connection closed by peer [10.0.0.11]:4711", True),
        ("socket.gaierror: [Errno -2] Name or service not known", False),
        ("torch.OutOfMemoryError: CUDA out of memory.", False),
        ("ModuleNotFoundError: No module named 'numpy'", False),
    ],
)
def test_whether_a_network_that_carries_nothing_looks_like_this(line: str, network: bool) -> None:
    """Then the network is asked before a rank is blamed."""
    cause = cause_of([line])
    assert cause is not None and (cause.text in NETWORK) is network
