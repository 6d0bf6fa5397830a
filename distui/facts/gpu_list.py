"""The other faces of nvidia-smi: `-L`, `-q` as text and `-q -x` as XML of any DTD version."""

from __future__ import annotations

import re
from dataclasses import dataclass
from xml.etree import ElementTree

from distui.facts.host import Gpu, Gpus, MigDevice, Trouble
from distui.facts.values import integer, known, number

_GPU = re.compile(r"GPU (\d{1,4}): (.+?)(?: \(UUID: ([^)]+)\))?\s*")
_MIG = re.compile(r"\s+MIG\s+(\S+)\s+Device\s+(\d{1,4}):(?: \(UUID: ([^)]+)\))?\s*")
_BLOCK = re.compile(r"GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s*")
_XML_DRIVER = re.compile(r"<driver_version>[^<]*</driver_version>")
_INCOMPLETE = Trouble("incomplete", "the output of nvidia-smi ends before its end", "ask again; the driver may hang")
_RUBBISH = Trouble("rubbish", "nvidia-smi printed something that is not its XML")


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class FullQuery:
    """`nvidia-smi -q` as text. `complete` is False when fewer GPUs are described than are attached."""

    attached: int | None
    gpus: tuple[Gpu, ...]
    complete: bool


def parse_q(text: str) -> FullQuery:
    """Read `nvidia-smi -q`. Output that ends early is said to be incomplete, never taken for fewer GPUs."""
    blocks = _blocks(text)
    head = _fields(text.splitlines()[: blocks[0][0]] if blocks else text.splitlines())
    attached = integer(head.get("Attached GPUs"))
    gpus = tuple(_q_gpu(i, pci, lines, head) for i, (_, pci, lines) in enumerate(blocks))
    ended = bool(blocks) and any(line.strip().startswith("Processes") for line in blocks[-1][2])
    return FullQuery(attached, gpus, ended and attached == len(gpus))


def _blocks(text: str) -> list[tuple[int, str, list[str]]]:
    """(line number, PCI address, lines) of each GPU's block."""
    lines = text.splitlines()
    starts = [(i, m[1]) for i, line in enumerate(lines) if (m := _BLOCK.fullmatch(line))]
    ends = [i for i, _ in starts[1:]] + [len(lines)]
    return [(i, pci, lines[i + 1 : end]) for (i, pci), end in zip(starts, ends, strict=False)]


def _fields(lines: list[str]) -> dict[str, str]:
    """`key : value` lines; nested ones as `Section/key`."""
    values: dict[str, str] = {}
    section = ""
    for line in lines:
        key, colon, value = line.partition(" : ")
        if not colon:
            section = line.strip()
            continue
        depth = len(line) - len(line.lstrip())
        name = f"{section}/{key.strip()}" if depth > 4 else key.strip()
        values.setdefault(name, value.strip())
    return values


def _q_gpu(index: int, pci: str, lines: list[str], head: dict[str, str]) -> Gpu:
    values = _fields(lines)
    return Gpu(
        index=index,
        uuid=known(values.get("GPU UUID")) or "",
        name=known(values.get("Product Name")) or "unknown GPU",
        memory_total_mib=integer(values.get("FB Memory Usage/Total")),
        memory_used_mib=integer(values.get("FB Memory Usage/Used")),
        utilization_pct=number(values.get("Utilization/Gpu", values.get("Utilization/GPU"))),
        temperature_c=number(values.get("Temperature/GPU Current Temp")),
        power_w=number(values.get("GPU Power Readings/Power Draw", values.get("Power Readings/Power Draw"))),
        driver=known(head.get("Driver Version")),
        mig={"Enabled": True, "Disabled": False}.get(values.get("MIG Mode/Current", "")),
        pci=pci,
    )


def parse_xml(text: str) -> Gpus:
    """GPUs of `nvidia-smi -q -x`. Elements missing in old DTDs are None; `attached_gpus` is not trusted.

    Text with entity declarations is refused (no nvidia-smi writes any). Output that ends early keeps the
    GPUs that are whole and says `incomplete`.
    """
    if "<!ENTITY" in text or "<nvidia_smi_log" not in text:
        return Gpus(problem=_RUBBISH)
    root = _element(text)
    if root is not None:
        return Gpus(tuple(_xml_gpu(i, gpu, root) for i, gpu in enumerate(root.findall("gpu"))))
    return _partial_xml(text)


def _element(text: str) -> ElementTree.Element | None:
    try:
        return ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError):
        return None


def _partial_xml(text: str) -> Gpus:
    """The GPUs that are whole in a text that is not."""
    head = _element(f"<head>{''.join(_XML_DRIVER.findall(text)[:1])}</head>")
    parts = (part.partition("</gpu>") for part in text.split("<gpu id=")[1:])
    blocks = [e for body, end, _ in parts if end and (e := _element(f"<gpu id={body}{end}")) is not None]
    root = head if head is not None else ElementTree.Element("head")
    return Gpus(tuple(_xml_gpu(i, gpu, root) for i, gpu in enumerate(blocks)), _INCOMPLETE)


def _xml_gpu(index: int, gpu: ElementTree.Element, root: ElementTree.Element) -> Gpu:
    mig = {"Enabled": True, "Disabled": False}.get(gpu.findtext("mig_mode/current_mig", ""))
    total, used = _memory(gpu, mig)
    return Gpu(
        index=index,
        uuid=known(gpu.findtext("uuid")) or "",
        name=known(gpu.findtext("product_name")) or "unknown GPU",
        memory_total_mib=total,
        memory_used_mib=used,
        utilization_pct=number(gpu.findtext("utilization/gpu_util")),
        temperature_c=number(gpu.findtext("temperature/gpu_temp")),
        power_w=_power(gpu),
        driver=known(root.findtext("driver_version")),
        mig=mig,
        pci=known(gpu.get("id")) or known(gpu.findtext("pci/pci_bus_id")),
    )


def _memory(gpu: ElementTree.Element, mig: bool | None) -> tuple[int | None, int | None]:
    """(total, used) of the card; with MIG on and no answer for the card, the sum of its MIG devices."""
    own = integer(gpu.findtext("fb_memory_usage/total")), integer(gpu.findtext("fb_memory_usage/used"))
    if not mig or own != (None, None):
        return own
    parts = gpu.findall("mig_devices/mig_device/fb_memory_usage")
    totals = [v for p in parts if (v := integer(p.findtext("total"))) is not None]
    useds = [v for p in parts if (v := integer(p.findtext("used"))) is not None]
    return (sum(totals) if totals else None), (sum(useds) if useds else None)


def _power(gpu: ElementTree.Element) -> float | None:
    """The draw in watts: the element was renamed from power_readings to gpu_power_readings in DTD v12."""
    places = ("gpu_power_readings/power_draw", "gpu_power_readings/instant_power_draw", "power_readings/power_draw")
    return next((w for place in places if (w := number(gpu.findtext(place))) is not None), None)
