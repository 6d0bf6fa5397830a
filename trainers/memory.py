"""Says what memory was used when there was not enough of it."""

from __future__ import annotations

import re
import resource
import sys

import torch

_GIB = 1 << 30
_LESS = "give a smaller --batch-size (with ddp.py a larger --accumulate makes up for it)"


def explain(problem: BaseException) -> str | None:
    """What ran out of memory and how much this rank had at its peak; None for any other problem."""
    words = str(problem)
    if isinstance(problem, torch.cuda.OutOfMemoryError) or ("CUDA" in words and "out of memory" in words):
        return _gpu(_asked(words))
    if isinstance(problem, MemoryError) or "can't allocate memory" in words:
        return f"out of memory{_asked(words)}: this rank's peak was {_peak_of_process() / _GIB:.2f} GiB; {_LESS}"
    return None


def _asked(words: str) -> str:
    """What torch could not get, in its words: "Tried to allocate 2.00 GiB" on a GPU, bytes on the CPU."""
    if found := re.search(r"tried to allocate (\d+) bytes", words):
        return f" asking for {int(found[1]) / _GIB:.2f} GiB"
    if found := re.search(r"Tried to allocate ([\d.]+ \w+)", words):
        return f" asking for {found[1]}"
    return ""


def _gpu(asked: str) -> str:
    """The shares of the GPU's memory; what neither is free nor this rank's is another process's."""
    try:
        device = torch.cuda.current_device()
        free, total = torch.cuda.mem_get_info(device)
    except RuntimeError:  # so full that not even CUDA itself could start
        return f"CUDA out of memory{asked}: other processes hold the GPU; see nvidia-smi"
    peak, held = torch.cuda.max_memory_allocated(device), torch.cuda.memory_reserved(device)
    others = max(total - free - held, 0)
    return (
        f"CUDA out of memory on cuda:{device}{asked}: it has {total / _GIB:.2f} GiB, the peak of this rank's "
        f"tensors was {peak / _GIB:.2f} GiB, its cache holds {held / _GIB:.2f}, CUDA and other processes "
        f"{others / _GIB:.2f}; {_LESS}"
    )


def _peak_of_process() -> int:
    """Bytes of memory this process has had at most; Linux counts KiB, macOS bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
