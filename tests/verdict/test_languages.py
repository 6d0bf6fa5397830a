"""Programs in any language: a rank that fails by itself is first, though its peer's loss of it is told before.

Each way to fail meets each way to tell that a peer has gone. The words are those of the languages' own runtimes and of
libraries that train over several hosts.
"""

from __future__ import annotations

from typing import Any

import pytest

from distui.runs.verdict.judge import judge
from distui.runs.verdict.outcome import Verdict
from verdict.load import evidence_of

OWN: dict[str, tuple[int, str]] = {
    "py": (
        1,
        (
            "Traceback (most recent call last):\n"
            '  File "/code/train.py", line 88, in main\n'
            "    run(cfg)\n"
            "ValueError: shapes differ"
        ),
    ),
    "rust": (
        101,
        ("thread 'main' panicked at src/m.rs:210:9:\nassertion `left == right` failed\n  left: 128\n right: 127"),
    ),
    "rust-old": (
        101,
        (
            "thread 'main' panicked at 'index out of bounds: the len is 3 but the index is 3', src/m.rs:4:5\n"
            "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace"
        ),
    ),
    "go": (
        2,
        (
            "panic: assignment to entry in nil map\n"
            "\n"
            "goroutine 1 [running]:\n"
            "main.main()\n"
            "\t/src/main.go:9 +0x1d\n"
            "exit status 2"
        ),
    ),
    "gofatal": (
        2,
        (
            "fatal error: all goroutines are asleep - deadlock!\n"
            "\n"
            "goroutine 1 [chan receive]:\n"
            "main.main()\n"
            "\t/src/main.go:9 +0x1d"
        ),
    ),
    "java": (
        1,
        ('Exception in thread "main" java.lang.IllegalArgumentException: width 3\n\tat train.Main.main(Main.java:19)'),
    ),
    "node": (
        1,
        (
            "/app/train.js:14\n"
            "    throw new Error('shape 3');\n"
            "    ^\n"
            "\n"
            "Error: shape 3\n"
            "    at main (/app/train.js:14:11)\n"
            "    at node:internal/main/run_main_module:23:47\n"
            "\n"
            "Node.js v20.10.0"
        ),
    ),
    "nodetype": (
        1,
        (
            "/app/train.js:14\n"
            "    x.y.z()\n"
            "      ^\n"
            "\n"
            "TypeError: Cannot read properties of undefined (reading 'z')\n"
            "    at main (/app/train.js:14:11)\n"
            "\n"
            "Node.js v20.10.0"
        ),
    ),
    "julia": (
        1,
        (
            "ERROR: LoadError: DimensionMismatch: arrays could not be broadcast\n"
            "Stacktrace:\n"
            " [1] step(m::Model)\n"
            "   @ Main /app/train.jl:40\n"
            "in expression starting at /app/train.jl:30"
        ),
    ),
    "cpp": (
        134,
        (
            "terminate called after throwing an instance of 'std::out_of_range'\n"
            "  what():  vector::_M_range_check: __n (which is 3) >= this->size() (which is 3)"
        ),
    ),
    "cppshell": (
        134,
        (
            "terminate called after throwing an instance of 'std::out_of_range'\n"
            "  what():  vector::_M_range_check: __n (which is 3)\n"
            "Aborted (core dumped)"
        ),
    ),
    "assert": (134, ("train: src/ring.c:44: send: Assertion `n > 0' failed.\nAborted (core dumped)")),
    "dotnet": (
        134,
        (
            "Unhandled exception. System.IndexOutOfRangeException: Index was outside the bounds of the array.\n"
            "   at Train.Main() in /src/P.cs:line 19"
        ),
    ),
    "fortran": (
        2,
        (
            "At line 44 of file model.f90 (unit = 10, file = 'x.dat')\n"
            "Fortran runtime error: End of file\n"
            "\n"
            "Error termination. Backtrace:\n"
            "#0  0x7f1c in ???\n"
            "#1  0x55d0 in MAIN__\n"
            "\tat model.f90:44"
        ),
    ),
    "gfortran-segv": (
        139,
        (
            "\n"
            "Program received signal SIGSEGV: Segmentation fault - invalid memory reference.\n"
            "\n"
            "Backtrace for this error:\n"
            "#0  0x7f1c in ???\n"
            "#1  0x55d0 in MAIN__\n"
            "\tat model.f90:44"
        ),
    ),
    "forrtl": (
        174,
        (
            "forrtl: severe (174): SIGSEGV, segmentation fault occurred\n"
            "Image              PC                Routine            Line        Source\n"
            "model.exe          0000000000407C1D  MAIN__                    214  model.f90"
        ),
    ),
    "ompi-segv": (
        139,
        (
            "[gpu02:00077] *** Process received signal ***\n"
            "[gpu02:00077] Signal: Segmentation fault (11)\n"
            "[gpu02:00077] Signal code: Invalid permissions (2)\n"
            "[gpu02:00077] Failing at address: 0x9c5c12400\n"
            "[gpu02:00077] [ 0] /lib/x86_64-linux-gnu/libc.so.6(+0x42520)[0x7f39b8619520]\n"
            "[gpu02:00077] *** End of error message ***"
        ),
    ),
    "mpiabort": (
        13,
        (
            "--------------------------------------------------------------------------\n"
            "MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD\n"
            "with errorcode 13.\n"
            "--------------------------------------------------------------------------"
        ),
    ),
    "mpich-own": (
        15,
        (
            "Fatal error in PMPI_Bcast: Invalid root, error stack:\n"
            "PMPI_Bcast(432): MPI_Bcast(buf=0x7ffe, count=1, MPI_INT, root=9, comm=MPI_COMM_WORLD) failed\n"
            "PMPI_Bcast(389): Invalid root (value given was 9)"
        ),
    ),
    "glogcheck": (
        134,
        (
            "F0929 17:42:48.594192 104 shard.cc:77] Check failed: n == m (3 vs. 4)\n"
            "*** Check failure stack trace: ***\n"
            "    @     0x7fc206b23890  google::LogMessage::Fail()"
        ),
    ),
    "asan": (
        1,
        (
            "==77==ERROR: AddressSanitizer: heap-use-after-free on address 0x50\n"
            "READ of size 9\n"
            "    #0 0x7c in memcpy\n"
            "SUMMARY: AddressSanitizer: heap-use-after-free (/app/train) in f\n"
            "==77==ABORTING"
        ),
    ),
    "ubsan": (
        1,
        (
            "src/a.cc:4:9: runtime error: index 3 out of bounds for type 'int [3]'\n"
            "SUMMARY: UndefinedBehaviorSanitizer: undefined-behavior src/a.cc:4:9 in"
        ),
    ),
    "jvm": (
        134,
        (
            "#\n"
            "# A fatal error has been detected by the Java Runtime Environment:\n"
            "#\n"
            "#  SIGSEGV (0xb) at pc=0x00007f47f721a1e9, pid=77, tid=91\n"
            "#\n"
            "# Core dump will be written. Default location: /app/core.77\n"
            "#"
        ),
    ),
    "R": (
        1,
        (
            "Error in solve.default(a) : \n"
            "  Lapack routine dgesv: system is exactly singular: U[2,2] = 0\n"
            "Calls: main -> solve -> solve.default\n"
            "Execution halted"
        ),
    ),
    "perl": (2, ("Illegal division by zero at train.pl line 14.")),
    "ruby": (1, ("train.rb:4:in `/': divided by 0 (ZeroDivisionError)\n\tfrom train.rb:4:in `<main>'")),
    "silent": (3, ""),
    "ocaml": (
        2,
        (
            'Fatal error: exception Invalid_argument("index out of bounds")\n'
            'Raised at Train.step in file "train.ml", line 4'
        ),
    ),
    "hs": (
        1,
        (
            "train: Prelude.!!: index too large\n"
            "CallStack (from HasCallStack):\n"
            "  error, called at libraries/base/GHC/List.hs:1368:14 in base:GHC.List"
        ),
    ),
    "lua": (
        1,
        (
            "lua: train.lua:4: attempt to index a nil value (local 'x')\n"
            "stack traceback:\n"
            "\ttrain.lua:4: in main chunk\n"
            "\t[C]: in ?"
        ),
    ),
    "bashu": (1, ("run.sh: line 9: DATA: unbound variable")),
    "bash127": (127, ("run.sh: line 9: torchrum: command not found")),
    "syntax": (2, ("run.sh: line 9: syntax error near unexpected token `fi'")),
    "segv": (139, ("Segmentation fault (core dumped)")),
    "usage": (2, ("usage: train.py [-h] [--lr LR]\ntrain.py: error: argument --lr: invalid float value: 'x'")),
}
"""Exit status and last words of a rank that failed by itself."""

ECHOES: dict[str, tuple[int, str]] = {
    "gloo": (
        1,
        (
            "Traceback (most recent call last):\n"
            '  File "/code/train.py", line 88, in main\n'
            "    run(cfg)\n"
            "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer "
            "[10.0.0.12]:36642"
        ),
    ),
    "rust": (
        101,
        (
            "thread 'main' panicked at src/ring.rs:51:14:\n"
            "called `Result::unwrap()` on an `Err` value: Os { code: 104, kind: ConnectionReset, message: "
            '"Connection reset by peer" }\n'
            "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace"
        ),
    ),
    "rust-eof": (
        101,
        (
            "thread 'main' panicked at src/ring.rs:51:14:\n"
            'called `Result::unwrap()` on an `Err` value: Error { kind: UnexpectedEof, message: "failed to '
            'fill whole buffer" }'
        ),
    ),
    "rust-anyhow": (
        1,
        (
            "Error: allreduce with rank 1\n"
            "\n"
            "Caused by:\n"
            "    0: transport error\n"
            "    1: Connection reset by peer (os error 104)"
        ),
    ),
    "go": (1, ("2024/04/01 10:00:00 rpc error: code = Unavailable desc = error reading from server: EOF")),
    "gopanic": (
        2,
        (
            "panic: read tcp 10.0.0.11:41012->10.0.0.12:7000: read: connection reset by peer\n"
            "\n"
            "goroutine 1 [running]:\n"
            "main.main()\n"
            "\t/src/main.go:9 +0x1d"
        ),
    ),
    "java": (
        1,
        ('Exception in thread "main" java.net.SocketException: Connection reset\n\tat train.Ring.recv(Ring.java:61)'),
    ),
    "java-eof": (
        1,
        (
            'Exception in thread "main" java.io.EOFException\n'
            "\tat java.base/java.io.DataInputStream.readInt(DataInputStream.java:397)\n"
            "\tat train.Ring.recv(Ring.java:61)"
        ),
    ),
    "java-ioe": (
        1,
        (
            'Exception in thread "main" java.lang.RuntimeException: ring broken\n'
            "\tat train.Ring.recv(Ring.java:61)\n"
            "Caused by: java.io.IOException: Connection reset by peer\n"
            "\t... 3 more"
        ),
    ),
    "grpc-java": (
        1,
        (
            'Exception in thread "main" io.grpc.StatusRuntimeException: UNAVAILABLE: io exception\n'
            "\tat train.Ring.recv(Ring.java:61)\n"
            "Caused by: io.netty.channel.unix.Errors$NativeIoException: recvAddress(..) failed: Connection "
            "reset by peer"
        ),
    ),
    "node": (
        1,
        (
            "node:events:497\n"
            "      throw er; // Unhandled 'error' event\n"
            "      ^\n"
            "\n"
            "Error: read ECONNRESET\n"
            "    at TCP.onStreamRead (node:internal/stream_base_commons:218:20) {\n"
            "  errno: -104,\n"
            "  code: 'ECONNRESET',\n"
            "  syscall: 'read'\n"
            "}\n"
            "\n"
            "Node.js v20.10.0"
        ),
    ),
    "node-hang": (
        1,
        (
            "/app/ring.js:9\n"
            "        throw err;\n"
            "        ^\n"
            "\n"
            "Error: socket hang up\n"
            "    at connResetException (node:internal/errors:787:14)\n"
            "    at Socket.socketOnEnd (node:_http_client:519:23) {\n"
            "  code: 'ECONNRESET'\n"
            "}\n"
            "\n"
            "Node.js v20.10.0"
        ),
    ),
    "julia": (
        1,
        (
            "ERROR: LoadError: IOError: read: connection reset by peer (ECONNRESET)\n"
            "Stacktrace:\n"
            " [1] wait_readnb(x::Sockets.TCPSocket, nb::Int64)\n"
            "   @ Base ./stream.jl:410\n"
            "in expression starting at /app/train.jl:30"
        ),
    ),
    "julia-worker": (
        1,
        (
            "Worker 3 terminated.\n"
            "ERROR: LoadError: ProcessExitedException(3)\n"
            "Stacktrace:\n"
            " [1] try_yieldto(undo::typeof(Base.ensure_rescheduled))\n"
            "in expression starting at /app/train.jl:30"
        ),
    ),
    "cpp": (
        134,
        (
            "terminate called after throwing an instance of 'std::system_error'\n"
            "  what():  recv: Connection reset by peer\n"
            "Aborted (core dumped)"
        ),
    ),
    "asio": (
        134,
        (
            "terminate called after throwing an instance of 'boost::wrapexcept<boost::system::system_error>'\n"
            "  what():  read: End of file [asio.misc:2]"
        ),
    ),
    "dotnet": (
        134,
        (
            "Unhandled exception. System.IO.IOException: Unable to read data from the transport connection: "
            "Connection reset by peer.\n"
            " ---> System.Net.Sockets.SocketException (104): Connection reset by peer\n"
            "   at Train.Ring.Recv() in /src/Ring.cs:line 61"
        ),
    ),
    "ompi": (
        75,
        (
            "[gpu01:00031] *** An error occurred in MPI_Allreduce\n"
            "[gpu01:00031] *** MPI_ERR_PROC_FAILED: Process Failure\n"
            "[gpu01:00031] *** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort,"
        ),
    ),
    "ompi-btl": (
        1,
        (
            "[gpu01][[22441,1],0][btl_tcp_frag.c:241:mca_btl_tcp_frag_recv] mca_btl_tcp_frag_recv: readv "
            "failed: Connection reset by peer (104)\n"
            "[gpu01:00031] pml_ob1_sendreq.c:189 FATAL"
        ),
    ),
    "mpich": (
        15,
        (
            "Fatal error in PMPI_Allreduce: Unknown error class, error stack:\n"
            "PMPI_Allreduce(434)...: MPI_Allreduce(sbuf=0x7f) failed\n"
            "MPIDU_Sock_wait(2)...: connection failure (set=0,sock=1,errno=104:Connection reset by peer)"
        ),
    ),
    "mpich-ofi": (
        15,
        (
            "Abort(15) on node 0 (rank 0 in comm 0): Fatal error in internal_Allreduce: Other MPI error, "
            "error stack:\n"
            "internal_Allreduce(121)..: MPI_Allreduce(count=1) failed\n"
            "MPIDI_OFI_handle_cq_error(793): OFI poll failed "
            "(ofi_events.c:793:MPIDI_OFI_handle_cq_error:Transport endpoint is not connected)"
        ),
    ),
    "mpich-ch4-ucx": (
        15,
        (
            "Abort(15) on node 0 (rank 0 in comm 0): Fatal error in internal_Wait: Other MPI error, error stack:\n"
            "internal_Wait(68)........: MPI_Wait() failed\n"
            "(unknown)(): Endpoint timeout"
        ),
    ),
    "ucx": (
        1,
        ("[gpu01:31   :0:31]    ud_ep.c:278  Fatal: UD endpoint 0x55 to <no debug data>: unhandled timeout error"),
    ),
    "jax": (
        134,
        (
            "F0929 17:42:48.594200 104 client.h:77] Terminating process because the JAX distributed service "
            "detected fatal errors. This most likely indicates that another task died; see the other task "
            "logs for more details."
        ),
    ),
    "jax-abort": (
        1,
        (
            "Traceback (most recent call last):\n"
            '  File "/code/train.py", line 88, in main\n'
            "    run(cfg)\n"
            "jaxlib.xla_extension.XlaRuntimeError: UNKNOWN: Gloo all-reduce failed: "
            "[external/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [10.0.0.12]:3977"
        ),
    ),
    "jax-nccl": (
        1,
        (
            "Traceback (most recent call last):\n"
            '  File "/code/train.py", line 88, in main\n'
            "    run(cfg)\n"
            "jaxlib.xla_extension.XlaRuntimeError: INTERNAL: NCCL operation ncclAllReduce() failed: remote "
            "process exited or there was a network error. Last NCCL warning(error) log entry (may be "
            "unrelated) 'socketProgress: Connection closed by remote peer gpu02<51234>'."
        ),
    ),
    "hvd": (
        1,
        (
            "Traceback (most recent call last):\n"
            '  File "/code/train.py", line 88, in main\n'
            "    run(cfg)\n"
            "horovod.common.exceptions.HorovodInternalError: [/tmp/gloo/transport/tcp/pair.cc:589] Read "
            "error [10.0.0.12]:3977: Connection reset by peer"
        ),
    ),
    "tf": (
        1,
        (
            "Traceback (most recent call last):\n"
            '  File "/code/train.py", line 88, in main\n'
            "    run(cfg)\n"
            "tensorflow.python.framework.errors_impl.UnavailableError: Collective ops is aborted by: failed "
            "to connect to all addresses\n"
            "Additional GRPC error information from remote target /job:worker/replica:0/task:1:\n"
            ':{"created":"@1","description":"Failed to pick subchannel"}\n'
            "The error could be from a previous operation. Restart your program to reset. [Op:CollectiveReduceV2]"
        ),
    ),
    "tf-cancel": (
        1,
        (
            "Traceback (most recent call last):\n"
            '  File "/code/train.py", line 88, in main\n'
            "    run(cfg)\n"
            "tensorflow.python.framework.errors_impl.CancelledError: Graph execution error:\n"
            "\n"
            "Collective ops is aborted by: Task /job:worker/replica:0/task:1 was cancelled\n"
            "\t [[{{node CollectiveReduceV2}}]] [Op:__inference_step_9]"
        ),
    ),
    "tf-unavail": (
        1,
        (
            "Traceback (most recent call last):\n"
            '  File "/code/train.py", line 88, in main\n'
            "    run(cfg)\n"
            "tensorflow.python.framework.errors_impl.UnavailableError: 10 root error(s) found.\n"
            "  (0) UNAVAILABLE:  recvmsg:Connection reset by peer\n"
            "Additional GRPC error information from remote target /job:ps/replica:0/task:0:"
        ),
    ),
    "tf-oserr": (
        1,
        (
            "Traceback (most recent call last):\n"
            '  File "/code/train.py", line 88, in main\n'
            "    run(cfg)\n"
            "tensorflow.python.framework.errors_impl.UnavailableError: OS Error"
        ),
    ),
    "tf-endpoint": (
        1,
        (
            "Traceback (most recent call last):\n"
            '  File "/code/train.py", line 88, in main\n'
            "    run(cfg)\n"
            "tensorflow.python.framework.errors_impl.UnavailableError: Endpoint read failed"
        ),
    ),
    "ray": (
        1,
        (
            "Traceback (most recent call last):\n"
            '  File "/code/train.py", line 88, in main\n'
            "    run(cfg)\n"
            "ray.exceptions.RayActorError: The actor died unexpectedly before finishing this task.\n"
            "        class_name: Trainer"
        ),
    ),
    "ray-worker": (
        1,
        (
            "Traceback (most recent call last):\n"
            '  File "/code/train.py", line 88, in main\n'
            "    run(cfg)\n"
            "ray.exceptions.WorkerCrashedError: The worker died unexpectedly while executing this task. "
            "Check python-core-worker-*.log files for more information."
        ),
    ),
    "ray-actor2": (
        1,
        (
            "Traceback (most recent call last):\n"
            '  File "/code/train.py", line 88, in main\n'
            "    run(cfg)\n"
            "ray.exceptions.ActorDiedError: The actor died because its node has died. Node Id: 2eea4c"
        ),
    ),
    "ray-local": (
        1,
        (
            "Traceback (most recent call last):\n"
            '  File "/code/train.py", line 88, in main\n'
            "    run(cfg)\n"
            "ray.exceptions.LocalRayletDiedError: The task's local raylet died. Check raylet.out for more "
            "information."
        ),
    ),
    "dask": (
        1,
        (
            "Traceback (most recent call last):\n"
            '  File "/code/train.py", line 88, in main\n'
            "    run(cfg)\n"
            "distributed.comm.core.CommClosedError: in <TCP (closed) ConnectionPool.gather "
            "local=tcp://10.0.0.11:1 remote=tcp://10.0.0.12:2>: Stream is closed"
        ),
    ),
    "dask-killed": (
        1,
        (
            "Traceback (most recent call last):\n"
            '  File "/code/train.py", line 88, in main\n'
            "    run(cfg)\n"
            "distributed.scheduler.KilledWorker: Attempted to run task step-1 on 4 different workers, but "
            "all those workers died while running it."
        ),
    ),
    "zmq": (
        1,
        (
            "Traceback (most recent call last):\n"
            '  File "/code/train.py", line 88, in recv\n'
            "    return conn.recv()\n"
            "EOFError"
        ),
    ),
    "rpyc": (
        1,
        (
            "Traceback (most recent call last):\n"
            '  File "/code/train.py", line 88, in recv\n'
            "    x\n"
            "EOFError: connection closed by peer"
        ),
    ),
    "websockets": (
        1,
        (
            "Traceback (most recent call last):\n"
            '  File "/code/train.py", line 88, in main\n'
            "    run(cfg)\n"
            "websockets.exceptions.ConnectionClosedError: no close frame received or sent"
        ),
    ),
    "grpcpy": (
        1,
        (
            "Traceback (most recent call last):\n"
            '  File "/code/t.py", line 4, in f\n'
            "    stub.Reduce(x)\n"
            "grpc._channel._InactiveRpcError: <_InactiveRpcError of RPC that terminated with:\n"
            "\tstatus = StatusCode.UNAVAILABLE\n"
            '\tdetails = "Socket closed"\n'
            ">"
        ),
    ),
    "incomplete": (
        1,
        (
            "Traceback (most recent call last):\n"
            '  File "/code/train.py", line 88, in main\n'
            "    run(cfg)\n"
            "asyncio.exceptions.IncompleteReadError: 0 bytes read on a total of 8 expected bytes"
        ),
    ),
    "mxnet": (
        255,
        (
            "terminate called after throwing an instance of 'dmlc::Error'\n"
            "  what():  [10:00:00] src/van.cc:123: Check failed: recv_bytes != -1 Connection reset by peer\n"
        ),
    ),
    "xgb": (
        1,
        (
            "Traceback (most recent call last):\n"
            '  File "/code/train.py", line 88, in main\n'
            "    run(cfg)\n"
            "xgboost.core.XGBoostError: [10:00:00] /src/rabit/socket.h:120: Connection reset by peer\n"
            "Stack trace:\n"
            "  [bt] (0) /usr/lib/libxgboost.so(+0x1)"
        ),
    ),
    "lightgbm": (
        1,
        (
            "Traceback (most recent call last):\n"
            '  File "/code/train.py", line 88, in main\n'
            "    run(cfg)\n"
            "lightgbm.basic.LightGBMError: Socket recv error, Connection reset by peer (code: 104)"
        ),
    ),
    "pickle": (
        1,
        (
            "Traceback (most recent call last):\n"
            '  File "/code/train.py", line 88, in main\n'
            "    run(cfg)\n"
            "_pickle.UnpicklingError: pickle data was truncated"
        ),
    ),
}
"""The same of a rank whose peer has gone."""


def verdict(own: str, echo: str, later: float) -> Verdict:
    """Of two ranks: rank 1 fails by itself, and says so `later` seconds after rank 0 says that it lost it."""
    hosts = {host: {"offset_ms": 0.2, "rtt_ms": 6.0, "rebooted": False, "lost_at": None} for host in ("h1", "h2")}
    return judge(
        evidence_of(
            {
                "launcher": "env",
                "engine": "docker",
                "hosts": hosts,
                "tasks": [task(0, *ECHOES[echo], 30.0, 30.4), task(1, *OWN[own], 30.0 + later, 30.3)],
                "stops": [{"at": 30.5, "reason": "failure"}],
            }
        )
    )


@pytest.mark.parametrize("before", ["1: ", "[1]<stderr>:", "2024-05-01T10:00:00.123Z "])
def test_what_a_launcher_puts_before_each_line_changes_nothing(before: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever lost its peer is told by the same words."""
    for words in (ECHOES, OWN):
        for name, (code, text) in words.items():
            labelled = "\n".join(before + line for line in text.split("\n")) if text else ""
            monkeypatch.setitem(words, name, (code, labelled))

    found = {echo: verdict("py", echo, 0.02) for echo in ECHOES}

    assert {echo: one.first for echo, one in found.items()} == dict.fromkeys(ECHOES, (1,))


def task(rank: int, code: int, text: str, said: float, over: float) -> dict[str, Any]:
    """A task that worked until it said these words and ended."""
    work = [[float(at), rank, f"step {at} loss {3 / at:.3f}"] for at in range(2, 29, 3)]
    words = [[said + n * 0.0002, rank, line] for n, line in enumerate(text.split("\n"))]
    return {
        "index": rank,
        "host": f"h{rank + 1}",
        "ranks": [rank],
        "role": "worker",
        "end": {
            "state": "exited",
            "code": code,
            "oom": False,
            "error": "",
            "finished_at": over,
            "started_at": 1.0,
            "signalled": False,
            "seen_at": over + 0.05,
        },
        "lines": [*work, *(words if text else [])],
    }


@pytest.mark.parametrize("echo", ECHOES)
@pytest.mark.parametrize("later", [0.02, -0.02])
def test_who_lost_a_peer_is_not_first(echo: str, later: float) -> None:
    """Whatever the rank that failed said, and whether that was said before or after."""
    found = {own: verdict(own, echo, later) for own in OWN}

    assert {own: (one.first, one.ranks[0].relation) for own, one in found.items()} == dict.fromkeys(
        OWN, ((1,), "followed")
    )
    assert {one.certainty for one in found.values()} == {"certain"}
