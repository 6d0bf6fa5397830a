"""AMD GPUs from amd-smi (monitor CSV, static JSON) or, on older hosts, `rocm-smi -a --json`.

Columns and keys moved between ROCm releases: everything is found by name, in any of its known spellings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from distui.facts.gpus.gpu import rows
from distui.facts.host import Gpu, Gpus, Trouble
from distui.facts.values import JsonObject, Reply, as_object, as_objects, as_text, integer, load_json, mib, number
from distui.regex import regex

_CARD = regex(r"card(\d{1,4})")


def parse_monitor(text: str) -> dict[int, Mapping[str, str]]:
    """Rows of `amd-smi monitor --csv` by the index of their GPU: what each does now."""
    found = ((integer(row.get("gpu")), row) for row in rows(text, "gpu"))
    return {index: row for index, row in found if index is not None}


def sampled(gpu: Gpu, row: Mapping[str, str]) -> Gpu:
    """A GPU with what a row tells, read by column name (ROCm 6.4 renamed and reordered them); their "MB" are MiB."""
    total = gpu.memory_total_mib
    return replace(
        gpu,
        memory_total_mib=integer(row.get("vram_total")) if total is None else total,
        memory_used_mib=integer(row.get("vram_used")),
        utilization_pct=number(row.get("gfx", row.get("gfx_util"))),
        temperature_c=number(row.get("hotspot_temperature", row.get("gpu_t", row.get("gpu_temp")))),
        power_w=number(row.get("power_usage", row.get("power"))),
    )


def parse_static(text: str) -> tuple[Gpu, ...]:
    """GPUs of `amd-smi static --json`: an object with `gpu_data` (ROCm 6.4 on) or a bare array (before)."""
    value = load_json(text)
    items = as_objects(value) or as_objects(as_object(value).get("gpu_data"))
    return tuple(gpu for item in items if (gpu := _static_gpu(item)) is not None)


def _static_gpu(item: JsonObject) -> Gpu | None:
    index = integer(item.get("gpu"))
    if index is None:
        return None
    asic, bus, driver = (as_object(item.get(key)) for key in ("asic", "bus", "driver"))
    size = as_object(as_object(item.get("vram")).get("size"))
    return Gpu(
        index=index,
        uuid=as_text(item.get("uuid")) or as_text(asic.get("asic_serial")) or "",
        name=as_text(asic.get("market_name")) or "unknown AMD GPU",
        vendor="amd",
        memory_total_mib=integer(size.get("value")),
        driver=as_text(driver.get("version")) or as_text(driver.get("driver_version")),
        pci=as_text(bus.get("bdf")),
    )


def parse_rocm(text: str) -> tuple[Gpu, ...]:
    """GPUs of `rocm-smi -a --json`: keys `cardN`, numbers as strings, spellings that differ by release."""
    value = as_object(load_json(text))
    driver = as_text(as_object(value.get("system")).get("Driver version"))
    cards = ((m, as_object(card)) for key, card in value.items() if (m := _CARD.fullmatch(key)))
    gpus = (_rocm_gpu(int(m[1]), card, driver) for m, card in cards)
    return tuple(sorted(gpus, key=lambda gpu: gpu.index))


def _rocm_gpu(index: int, card: JsonObject, driver: str | None) -> Gpu:
    values = {key.strip().lower(): value for key, value in card.items()}
    return Gpu(
        index=index,
        uuid=as_text(values.get("unique id")) or "",
        name=_first(values, ("card series", "device name", "card model")) or "unknown AMD GPU",
        vendor="amd",
        memory_total_mib=mib(values.get("vram total memory (b)")),
        memory_used_mib=mib(values.get("vram total used memory (b)")),
        utilization_pct=number(values.get("gpu use (%)")),
        temperature_c=_temperature(values),
        power_w=_power(values),
        driver=driver,
        pci=as_text(values.get("pci bus")),
    )


def _first(values: JsonObject, keys: Sequence[str]) -> str | None:
    return next((text for key in keys if (text := as_text(values.get(key)))), None)


def _temperature(values: JsonObject) -> float | None:
    """The junction (hot spot) sensor, else the edge sensor, in degrees Celsius."""
    keys = [f"temperature (sensor {sensor}) (c)" for sensor in ("junction", "edge")]
    return next((t for key in keys if (t := number(values.get(key))) is not None), None)


def _power(values: JsonObject) -> float | None:
    keys = ("average graphics package power (w)", "current socket graphics package power (w)", "power (w)")
    return next((w for key in keys if (w := number(values.get(key))) is not None), None)


def amd(static: Reply, monitor: Reply, rocm: Reply) -> Gpus:
    """All AMD GPUs of a host, from whichever tool is there; no tool is no problem."""
    gpus = parse_static(static.text)
    if gpus:
        now = parse_monitor(monitor.text)
        return Gpus(tuple(sampled(gpu, now[gpu.index]) if gpu.index in now else gpu for gpu in gpus))
    cards = parse_rocm(rocm.text)
    return Gpus(cards, None if cards else _problem(static, rocm))


def _problem(static: Reply, rocm: Reply) -> Trouble | None:
    """The reason of the first tool that is there; None when neither is installed or they say there is no GPU."""
    for tool, reply in (("amd-smi", static), ("rocm-smi", rocm)):
        if reply.missing or reply.ok:
            continue
        if reply.timed_out:
            return Trouble("amd_smi_timeout", f"{tool} does not answer", "the amdgpu driver hangs; look at dmesg")
        words = next((line.strip()[:200] for line in reply.text.splitlines() if line.strip()), "no message")
        return Trouble(
            "amd_smi_failed",
            f"{tool} failed with exit code {reply.status}: {words}",
            "check that the amdgpu driver is loaded and that this login is in groups video and render",
        )
    return None
