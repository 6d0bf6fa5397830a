"""Collectives, the rendezvous and connections between ranks: what others did, or did not do."""

from __future__ import annotations

from distui.runs.verdict.lines.rules.cause import CUT_OFF, OTHERS, SERVICE, TIMED_OUT, WATCHDOG, Cause

RULES: tuple[tuple[str, Cause], ...] = (
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
        r"\bRPC ran for more than set timeout\b",  # torch.distributed.rpc
        Cause(
            "a call to another rank got no answer in time",
            "look at the ranks that are silent",
            waited=True,
            network=True,
        ),
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
            aftermath=True,
        ),
    ),
    (
        r"NET/IB ?: Got completion .*(status=(\w+\()?|error )(5|12)\b",
        Cause("a peer does not answer on InfiniBand", "it had ended, or a link is down", secondary=True, network=True),
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
        Cause("a peer's address can't be reached from here", "`distui doctor` proves who reaches whom", network=True),
    ),
    (
        r"Timed out after \d+ seconds waiting for (clients|workers)|DistStoreError|client socket has timed out"
        r"|Connection to (?:(?!returned ).){1,99} timed out|RendezvousTimeoutError|RendezvousConnectionError"
        r"|connection to the C10d store has failed|in store based barrier|Timeout waiting for key"
        r"|failed to connect to any network address|failed to connect/validate to host .*timed out"
        r"|got error: (Socket Timeout|wait timeout)"
        r"|connect\(\) timed out\. Original timeout"
        r"|(?:calling |^RPC: )/(?:tensorflow|xla\.coordination)\.CoordinationService/RegisterTask",
        Cause(
            "not every rank reached the rendezvous",
            "see that all ranks started, that none waits for more than those, and that this host reaches MASTER_ADDR",
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
        r"\bray\.exceptions\.\w*CrashedError\b|\bKilledWorker\b",
        Cause(
            "a worker of Ray or Dask died",
            "its own lines tell which, and where; `dmesg -T | grep -i 'killed process'` there tells of lack of memory",
            secondary=True,
            network=True,
        ),
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
        r"|ray\.exceptions\.(?:(?:Ray|Worker|Node|Owner|Object|Actor|LocalRaylet)\w*(?:Died|Unavailable|Lost)"
        r"Error|RayActorError)(?!: The actor died because of an error raised in its creation)"
        r"|\bCommClosedError\b|\bProcessExitedException\(\d+\)"
        r"|MPI_ERR_PROC_FAILED|Communication error with rank \d+|actor died unexpectedly"
        r"|(eof|end of file|pipe closed|connection refused) \(this error originated at tensorpipe/"
        r"|expects a different device incarnation|incarnation doesn't match"
        r"|tried to connect with a different incarnation|Failed to send RPC to coordination service"  # JAX
        r"|Horovod has been shut down|most likely indicates that another task died|tasks are unhealthy",
        Cause("a peer went away", OTHERS, secondary=True, network=True),
    ),
)
