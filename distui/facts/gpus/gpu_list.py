"""`nvidia-smi -L`: the GPUs of a host and what MIG makes of them."""

from __future__ import annotations

from distui.facts.host import MigDevice
from distui.frozen import frozen
from distui.regex import regex

_GPU = regex(r"GPU (\d{1,4}): (.+?)(?: \(UUID: ([^)]+)\))?\s*")
_MIG = regex(r"\s+MIG\s+(\S+)\s+Device\s+(\d{1,4}):(?: \(UUID: ([^)]+)\))?\s*")


@frozen
class ListedGpu:
    """One physical GPU of `nvidia-smi -L` with its MIG devices."""

    index: int
    name: str
    uuid: str
    mig: tuple[MigDevice, ...] = ()


def parse_list(text: str) -> tuple[ListedGpu, ...]:
    """GPUs of `nvidia-smi -L`. The indented MIG lines below a GPU are its parts, not GPUs."""
    found: list[ListedGpu] = []
    for line in text.splitlines():
        gpu, mig = _GPU.fullmatch(line), _MIG.fullmatch(line)
        if gpu:
            found.append(ListedGpu(int(gpu[1]), gpu[2], gpu[3] or ""))
        elif mig and found:
            last = found[-1]
            part = MigDevice(int(mig[2]), mig[1], mig[3] or "")
            found[-1] = ListedGpu(last.index, last.name, last.uuid, (*last.mig, part))
    return tuple(found)
