"""NVIDIA GPUs from what nvidia-smi prints: tables read by header name, failures as classified troubles.

Exit codes are those of the nvidia-smi man page ("RETURN VALUE"). A lost or broken GPU keeps its row with a
problem and never hides the healthy ones.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from distui.facts.gpus.gpu_list import ListedGpu
from distui.facts.host import Gpu, GpuProcess, Gpus, Trouble
from distui.facts.values import CUT_OFF, Reply, integer, known, number
from distui.frozen import frozen
from distui.regex import regex

_LOST = regex(r"GPU is lost|fallen off the bus", re.IGNORECASE)
_HANDLE = regex(
    r"device handle for (?:GPU\s*(\d{1,4}):\s*)?(?:GPU\s*)?([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]):\s*(.+)",
    re.IGNORECASE,
)
_MOST_ROWS = 10_000  # more than any host has processes on its GPUs; bounds what endless output costs
_REBOOT = "reboot the host, or reset the GPU with `nvidia-smi -r`; `dmesg | grep -i xid` tells why"
_HUNG = Trouble(
    "nvidia_smi_timeout",
    "nvidia-smi does not answer",
    "the driver hangs; look at `dmesg | grep -i -e xid -e nvrm` and reboot the host",
)

_ENDLESS = Trouble(
    "nvidia_smi_endless",
    "nvidia-smi prints without end",
    "run `nvidia-smi` on the host, and see which program it is: `command -v nvidia-smi`",
)


def classify(text: str, status: int | None) -> Trouble | None:
    """Why nvidia-smi did not answer, or None when it did. `status` is its exit code, None if it hung.

    Decides by exit code first (messages are translated and change), by text where the code says little.
    """
    if status == 0:
        return None
    if status is None or status in (124, 137):
        return _HUNG
    if status == CUT_OFF:
        return _ENDLESS
    if status in (126, 127):
        return Trouble("not_installed", "nvidia-smi is not installed")
    for code, codes, words, message, hint in _FAILURES:
        if status in codes or (words and words.lower() in text.lower()):
            return Trouble(code, message, hint)
    hint = _ASKED if status == _BAD_ARGUMENT else _REBOOT
    return Trouble("nvidia_smi_failed", f"nvidia-smi failed with exit code {status}: {_first_line(text)}", hint)


_BAD_ARGUMENT = 2
_ASKED = "its driver does not know what it was asked for: `nvidia-smi --help-query-gpu` lists what it knows"


_FAILURES: tuple[tuple[str, tuple[int, ...], str, str, str], ...] = (
    ("driver_mismatch", (18,), "driver/library version mismatch",
     "the NVIDIA kernel module and library have different versions",
     "the driver was updated while loaded: reboot the host, or unload and load the nvidia modules"),
    ("driver_not_loaded", (9,), "couldn't communicate with the nvidia driver",
     "the NVIDIA driver is not loaded",
     "`sudo modprobe nvidia`; after a kernel update the driver must be rebuilt (dkms)"),
    ("gpu_lost", (15,), "gpu is lost", "a GPU has fallen off the bus", _REBOOT),
    ("no_devices", (6,), "no devices were found", "the NVIDIA driver is loaded but finds no GPU",
     "look at `lspci | grep -i nvidia` and `dmesg | grep -i nvrm`"),
    ("insufficient_permissions", (4,), "insufficient permissions", "this login may not use the GPUs",
     "give it access to /dev/nvidia* (group video or render)"),
    ("driver_library_missing", (12,), "couldn't find libnvidia-ml", "the NVIDIA library libnvidia-ml.so is missing",
     "install the driver's user-space libraries of the same version as the kernel module"),
)  # fmt: skip


def _first_line(text: str) -> str:
    return next((line.strip()[:200] for line in text.splitlines() if line.strip()), "no message")


def rows(text: str, *keys: str) -> tuple[Mapping[str, str], ...]:
    """Rows of a `--format=csv` table by header name without units; `keys` names columns of which every table has one.

    Lines before the header and lines with fewer cells are not rows. Process names may hold commas: cells
    beyond the header's belong to the name column.
    """
    lines = [line for line in text.splitlines() if line.strip()][:_MOST_ROWS]
    start = next((i for i, line in enumerate(lines) if any(key in line for key in keys) and _heads(line, keys)), None)
    if start is None:
        return ()
    header = _header(lines[start])
    cells = (_cells(line, header) for line in lines[start + 1 :])
    return tuple(dict(zip(header, row, strict=True)) for row in cells if len(row) == len(header))


def _heads(line: str, keys: Sequence[str]) -> bool:
    return not set(keys).isdisjoint(_header(line))


def _header(line: str) -> list[str]:
    return [re.sub(r"\s*\[.*\]$", "", cell) for cell in _split(line)]


def _split(line: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([line], skipinitialspace=True), [])]
    except csv.Error:
        return []


def _cells(line: str, header: Sequence[str]) -> list[str]:
    cells = _split(line)
    extra = len(cells) - len(header)
    at = next((i for i, name in enumerate(header) if name in ("process_name", "name")), None)
    if extra > 0 and at is not None:
        cells[at : at + extra + 1] = [", ".join(cells[at : at + extra + 1])]
    return cells


def parse_query(text: str) -> tuple[Gpu, ...]:
    """GPUs of `nvidia-smi --query-gpu=... --format=csv`, by header name, in the order of their index.

    Any column may be missing: a driver that does not know a field was asked without it.
    """
    seen: dict[int, Gpu] = {}
    for place, row in enumerate(rows(text, "uuid", "index")):
        gpu = _gpu(row, place)
        if gpu is not None:
            seen.setdefault(gpu.index, gpu)
    return tuple(seen[i] for i in sorted(seen))


def _gpu(row: Mapping[str, str], place: int) -> Gpu | None:
    index = integer(row.get("index")) if "index" in row else place
    if index is None:
        return None
    return Gpu(
        index=index,
        uuid=known(row.get("uuid")) or "",
        name=known(row.get("name")) or "unknown GPU",
        memory_total_mib=integer(row.get("memory.total")),
        memory_used_mib=integer(row.get("memory.used")),
        utilization_pct=number(row.get("utilization.gpu")),
        temperature_c=number(row.get("temperature.gpu")),
        power_w=number(row.get("power.draw")),
        driver=known(row.get("driver_version")),
        mig={"enabled": True, "disabled": False}.get(row.get("mig.mode.current", "").strip().lower()),
        pci=known(row.get("pci.bus_id")),
        problem=_row_problem(row),
    )


_FAILED = ("unknown error", "err!")


def _row_problem(row: Mapping[str, str]) -> Trouble | None:
    """Lost when any cell says so; unreadable when neither uuid nor memory could be read, or the memory's size failed.

    A size that is not given (`[N/A]`) is none of that: a GPU that shares the host's memory (GB10, Jetson) has none.
    """
    if any(_LOST.search(cell) for cell in row.values()):
        return lost()
    if any("requires reset" in cell.lower() for cell in row.values()):
        return Trouble("gpu_reset_required", "the GPU must be reset", "`sudo nvidia-smi -r -i INDEX`, or reboot")
    total = row.get("memory.total", "")
    if (known(row.get("uuid")) is None and known(total) is None) or total.strip("[] ").lower() in _FAILED:
        return Trouble("gpu_unreadable", "the GPU gives no values", _REBOOT)
    return None


def lost(message: str = "GPU is lost") -> Trouble:
    """The trouble of one GPU that has fallen off the bus."""
    return Trouble("gpu_lost", message, _REBOOT)


def parse_apps(text: str) -> tuple[GpuProcess, ...]:
    """Processes of `nvidia-smi --query-compute-apps=... --format=csv`; a table with only a header has none."""
    return tuple(p for row in rows(text, "pid") if (p := _process(row)) is not None)


def _process(row: Mapping[str, str]) -> GpuProcess | None:
    pid = integer(row.get("pid"))
    if pid is None:
        return None
    memory = row.get("used_gpu_memory", row.get("used_memory"))
    return GpuProcess(
        pid=pid,
        name=known(row.get("process_name", row.get("name"))) or "",
        memory_mib=integer(memory),
        gpu_uuid=known(row.get("gpu_uuid")) or "",
    )


@frozen
class BrokenGpu:
    """A GPU nvidia-smi only complains about; new drivers give its index too."""

    trouble: Trouble
    index: int | None = None


def broken_devices(text: str) -> dict[str, BrokenGpu]:
    """PCI address -> trouble, from lines such as `Unable to determine the device handle for GPU0000:0B:00.0: ...`."""
    found = (_HANDLE.search(line) for line in text.splitlines())
    return {pci_key(m[2]): BrokenGpu(_device_trouble(m[3]), integer(m[1])) for m in found if m}


def _device_trouble(message: str) -> Trouble:
    text = message.strip()[:200]
    return lost(text) if _LOST.search(text) else Trouble("gpu_unreadable", text, _REBOOT)


def pci_key(pci: str | None) -> str:
    """A PCI address in one spelling: `00000000:0B:00.0`, `0000:0b:00.0:` and, without its function as the kernel's log
    has it, `0000:0b:00` are the same device.
    """
    parts = (pci or "").strip().rstrip(":").lower().split(":")
    if len(parts) != 3:
        return ":".join(parts)
    domain, bus, device = parts
    return f"{domain[-4:].rjust(4, '0')}:{bus}:{device if '.' in device else f'{device}.0'}"


@frozen
class KernelGpu:
    """A GPU as the kernel module lists it in /proc/driver/nvidia/gpus, which also names lost ones."""

    pci: str
    name: str | None = None
    uuid: str | None = None


def nvidia(
    query: Reply,
    *,
    listed: Sequence[ListedGpu] = (),
    kernel: Sequence[KernelGpu] = (),
    processes: Sequence[GpuProcess] = (),
) -> Gpus:
    """All NVIDIA GPUs of a host: the table's rows, plus a row with a problem for every GPU it leaves out.

    The problem of the whole is set only when not one GPU answered; no nvidia-smi is no problem.
    """
    healthy = _with_ids(parse_query(query.text), listed)
    missing = _missing(healthy, listed, kernel, broken_devices(query.text))
    gpus = tuple(sorted((*healthy, *missing), key=lambda g: g.index))
    if query.missing:
        return Gpus()
    problem = None if healthy else classify(query.text, query.status)
    if problem is None and not gpus and query.text.strip():
        problem = _silent(query.text)
    return Gpus(_with_extras(gpus, listed, processes), problem)


def _with_ids(gpus: Sequence[Gpu], listed: Sequence[ListedGpu]) -> tuple[Gpu, ...]:
    """Each GPU with the id that `nvidia-smi -L` gives it, where the table has no such column."""
    ids = {item.index: item.uuid for item in listed}
    return tuple(gpu if gpu.uuid else replace(gpu, uuid=ids.get(gpu.index, "")) for gpu in gpus)


def _silent(text: str) -> Trouble | None:
    """Exit 0 and no row: fine with a header alone, else the words are taken as the reason."""
    header_only = any("uuid" in line and "uuid" in _header(line) for line in text.splitlines())
    return None if header_only else classify(text, 1)


def _missing(
    healthy: Sequence[Gpu],
    listed: Sequence[ListedGpu],
    kernel: Sequence[KernelGpu],
    broken: Mapping[str, BrokenGpu],
) -> tuple[Gpu, ...]:
    """Rows for GPUs that the kernel, the listing or an error message names and the table lacks."""
    if not healthy and not broken:
        return ()
    ids = {g.uuid for g in healthy if g.uuid}
    seen = {pci_key(g.pci) for g in healthy} | {pci_key(k.pci) for k in kernel if k.uuid in ids}
    by_uuid = {item.uuid: item for item in listed}
    known_devices = {pci_key(k.pci): k for k in kernel}
    addresses = sorted((set(known_devices) | set(broken)) - seen)
    taken = {g.index for g in healthy}
    out = []
    for pci in addresses:
        device = known_devices.get(pci, KernelGpu(pci))
        reason = broken.get(pci, _UNSHOWN)
        index = reason.index if reason.index is not None and reason.index not in taken else None
        if index is None:
            index = _index(pci, device, sorted(known_devices), by_uuid, taken)
        taken.add(index)
        out.append(Gpu(index, device.uuid or "", device.name or "unknown GPU", pci=pci, problem=reason.trouble))
    return tuple(out)


_UNSHOWN = BrokenGpu(Trouble("gpu_unreadable", "nvidia-smi does not show this GPU", _REBOOT))


def _index(
    pci: str,
    device: KernelGpu,
    order: Sequence[str],
    by_uuid: Mapping[str, ListedGpu],
    taken: Iterable[int],
) -> int:
    """The index nvidia-smi gives a GPU it can't read: as listed, else its place in PCI order, else the next free."""
    used = set(taken)
    item = by_uuid.get(device.uuid or "")
    if item is not None and item.index not in used:
        return item.index
    if pci in order and order.index(pci) not in used:
        return order.index(pci)
    return next(i for i in range(len(used) + 1) if i not in used)


def _with_extras(gpus: Sequence[Gpu], listed: Sequence[ListedGpu], processes: Sequence[GpuProcess]) -> tuple[Gpu, ...]:
    """Each GPU with its processes and MIG devices."""
    mig = {item.uuid: item.mig for item in listed if item.uuid}
    return tuple(replace(gpu, mig_devices=mig.get(gpu.uuid, ())) for gpu in with_processes(gpus, processes))


def with_processes(gpus: Sequence[Gpu], processes: Sequence[GpuProcess]) -> tuple[Gpu, ...]:
    """Each GPU with its processes. A process without a GPU id belongs to the only GPU there is."""
    only = gpus[0].uuid if len(gpus) == 1 else None
    return tuple(
        replace(gpu, processes=tuple(p for p in processes if gpu.uuid and (p.gpu_uuid or only) == gpu.uuid))
        for gpu in gpus
    )
