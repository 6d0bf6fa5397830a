"""Says what memory was used when there was not enough of it."""

from __future__ import annotations

import resource
import sys

import torch

_GIB = 1 << 30
_LESS = "give a smaller --batch-size (with ddp.py a larger --accumulate makes up for it)"


def explain(problem: BaseException) -> str | None:
    """What ran out of memory and how much this rank had at its peak; None for any other problem."""
    words = str(problem)
    if isinstance(problem, torch.cuda.OutOfMemoryError) or ("CUDA" in words and "out of memory" in words):
        return _gpu()
    if isinstance(problem, MemoryError) or "can't allocate memory" in words:
        return f"out of memory: this rank's peak was {_peak_of_process() / _GIB:.2f} GiB; {_LESS}"
    return None


def _gpu() -> str:
    """The shares of the GPU's memory; what neither this rank nor nobody holds is another process's."""
    device = torch.cuda.current_device()
    free, total = torch.cuda.mem_get_info(device)
    peak, held = torch.cuda.max_memory_allocated(device), torch.cuda.memory_reserved(device)
    others = max(total - free - held, 0)
    return (
        f"CUDA out of memory on cuda:{device}, which has {total / _GIB:.2f} GiB: the peak of this rank's tensors was "
        f"{peak / _GIB:.2f} GiB, its cache holds {held / _GIB:.2f}, CUDA and other processes {others / _GIB:.2f}; "
        f"{_LESS}"
    )


def _peak_of_process() -> int:
    """Bytes of memory this process has had at most; Linux counts KiB, macOS bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
