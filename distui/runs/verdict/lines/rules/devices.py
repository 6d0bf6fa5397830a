"""GPUs, InfiniBand and network interfaces, and the drivers and libraries for them."""

from __future__ import annotations

from distui.runs.verdict.lines.rules.cause import Cause

RULES: tuple[tuple[str, Cause], ...] = (
    (
        r"ibv_(reg_mr|create_qp|create_cq).*(Cannot allocate memory|failed)",
        Cause("locked memory is limited", "`ulimits: {memlock: -1}` and the daemon's own limit"),
    ),
    (
        r"ibv_modify_qp.*Connection timed out",
        Cause(
            "a peer's RDMA port can't be reached from the one that NCCL takes here",
            "ports of RoCE have to reach each other; `hcas:` chooses them; newer NCCL names both addresses",
            network=True,
        ),
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
        r"|(?:CUDA|HIP) error: (?:device kernel image is invalid|invalid device function)",
        Cause("torch in the image was not built for this GPU", "use an image whose CUDA or ROCm build knows this GPU"),
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
        r"Invalid access of peer GPU memory over nvlink",
        Cause(
            "the memory of another GPU is not there any more: its rank had ended, or an NVLink or GPU is broken",
            "look at what the other ranks said last; `dmesg -T | grep -i xid` there tells of a broken one",
            unclear=True,
        ),
    ),
    (
        r"Memory access fault by GPU node|HIP error: (?:an illegal memory access|unspecified launch failure)",
        Cause("a GPU kernel crashed", "AMD_SERIALIZE_KERNEL=3 in `env:` shows which; see `dmesg -T | grep -i amdgpu`"),
    ),
    (
        r"an illegal memory access was encountered"
        r"|(?:CUDA error: |Cuda failure (?:\d+ )?')(?:unspecified launch failure|misaligned address"
        r"|an illegal instruction was encountered|invalid program counter|hardware stack error)",
        Cause("a GPU kernel crashed", "CUDA_LAUNCH_BLOCKING=1 in `env:` shows which; `dmesg -T | grep -i xid` there"),
    ),
    (
        r"the launch timed out and was terminated",
        Cause(
            "a GPU kernel ran for too long, and the driver ended it",
            "a GPU that shows a display, too, allows some seconds: use another, or do less at once",
        ),
    ),
    (
        r"cudaGetDeviceCount.*\b802\b|(?:CUDA error: |Cuda failure (?:\d+ )?')system not yet initialized",
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
        r"no (?:CUDA|ROCm)-capable device|(?:CUDA|HIP) error: invalid device ordinal|No (?:CUDA|HIP) GPUs are available"
        r"|Unable to locate sufficient \S+ gpus|You requested gpus: .* But your machine only has"
        r"|insufficient CUDA devices for DDP",
        Cause("the program sees fewer GPUs than it uses", "check `gpus_per_host:` and LOCAL_RANK"),
    ),
)
