"""`nvidia-smi topo -m`: how GPUs and NICs are connected, and which CPUs are near each GPU."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from distui.facts.values import integer

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_DEVICE = re.compile(r"(?:GPU|NIC)\d{1,4}|mlx\d+_\w+")
_LEGEND = re.compile(r"\s*(NIC\d{1,4}): (\S+)\s*")


@dataclass(frozen=True, slots=True)
class GpuPlace:
    """Where one GPU sits. `cpus` is "" and `numa` None when the driver does not say."""

    name: str
    cpus: str
    numa: int | None


@dataclass(frozen=True, slots=True)
class Topology:
    """The matrix: `links[("GPU0", "NIC1")]` is `NV18`, `PIX`, `PXB`, `PHB`, `NODE` or `SYS`."""

    gpus: tuple[GpuPlace, ...] = ()
    nics: tuple[str, ...] = ()
    """RDMA device names (`mlx5_0`), in column order."""
    links: Mapping[tuple[str, str], str] = field(default_factory=dict)


def parse_topology(text: str) -> Topology:
    """Read the matrix. It is split at tabs: CPU affinity may be empty, and cells hold spaces.

    The header is underlined with terminal escapes even into a pipe; they are stripped.
    """
    lines = _ANSI.sub("", text).splitlines()
    start = next((i for i, line in enumerate(lines) if "GPU0" in line.split("\t")), None)
    if start is None:
        return Topology()
    header = [cell.strip() for cell in lines[start].split("\t")]
    rows = [[c.strip() for c in line.split("\t")] for line in lines[start + 1 :]]
    rows = [row for row in rows if _DEVICE.fullmatch(row[0])]
    names = {m[1]: m[2] for line in lines if (m := _LEGEND.fullmatch(line))}
    columns = [cell for cell in header if _DEVICE.fullmatch(cell)]
    return Topology(
        gpus=tuple(_place(row, header) for row in rows if row[0].startswith("GPU")),
        nics=tuple(names.get(c, c) for c in columns if not c.startswith("GPU")),
        links=_links(rows, header, names),
    )


def _place(row: Sequence[str], header: Sequence[str]) -> GpuPlace:
    cells = dict(zip(header, row, strict=False))
    return GpuPlace(row[0], cells.get("CPU Affinity", ""), integer(cells.get("NUMA Affinity")))


def _links(
    rows: Sequence[Sequence[str]], header: Sequence[str], names: Mapping[str, str]
) -> Mapping[tuple[str, str], str]:
    return {
        (names.get(row[0], row[0]), names.get(column, column)): cell
        for row in rows
        for column, cell in zip(header, row, strict=False)
        if _DEVICE.fullmatch(column) and cell not in ("X", "")
    }
