"""RDMA ports from sysfs, and which network interface belongs to each.

RoCE ports (link layer Ethernet) are listed too: whether a port is InfiniBand is its link layer, not its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from distui.facts.host import IbPort, Nic
from distui.facts.values import integer, number
from distui.regex import regex

_PORT = regex(r"(?:.*/)?([^/]+)/ports/(\d{1,3})/(state|rate|link_layer)")
_PCI_HCA = regex(r".*/([0-9a-fA-F:.]+)/infiniband/([^/]+)/.*")
_PCI_NET = regex(r".*/([0-9a-fA-F:.]+)/net/([^/]+)/.*")


def state(text: str | None) -> str | None:
    """The port's state in sysfs's words: `4: ACTIVE` and `ACTIVE` are the same."""
    return (text or "").rpartition(":")[2].strip().upper() or None


def ports_from_tree(values: Mapping[str, str]) -> tuple[IbPort, ...]:
    """Ports of a sysfs listing: any path that ends in HCA/ports/N/{state,rate,link_layer}.

    The interface of a port is found by, in order: the port's GID table (`ports/N/ndev`), the device's own
    folder (`HCA/netdev/NAME`, with `dev_port` when it has several), a shared PCI address. Names prove nothing:
    on a DGX A100 mlx5_6 is ib4.
    """
    found: dict[tuple[str, int], dict[str, str]] = {}
    for path, value in values.items():
        match = _PORT.fullmatch(path)
        if match:
            found.setdefault((match[1], int(match[2])), {})[match[3]] = value
    return tuple(_port(hca, number_, fields, values) for (hca, number_), fields in found.items())


def _port(hca: str, number_: int, fields: Mapping[str, str], values: Mapping[str, str]) -> IbPort:
    return IbPort(
        hca=hca,
        port=number_,
        state=state(fields.get("state")),
        link_layer=fields.get("link_layer") or None,
        rate_gbps=number(fields.get("rate")),  # `200 Gb/sec (4X HDR)`
        netdev=values.get(f"ib/{hca}/ports/{number_}/ndev") or _netdev(hca, number_, values),
    )


def _netdev(hca: str, port: int, values: Mapping[str, str]) -> str | None:
    own = [path.rpartition("/")[2] for path in values if path.startswith(f"ib/{hca}/netdev/")]
    names = own or _by_pci(hca, values)
    if len(names) <= 1:
        return names[0] if names else None
    exact = [n for n in names if integer(values.get(f"net/{n}/dev_port")) == port - 1]
    return exact[0] if exact else names[0]


def _by_pci(hca: str, values: Mapping[str, str]) -> list[str]:
    """Interfaces at the PCI address of `hca`."""
    address = values.get(f"ib/{hca}/pci") or next(
        (m[1] for path in values if (m := _PCI_HCA.fullmatch(path)) and m[2] == hca), None
    )
    if not address:
        return []
    listed = [m[2] for path in values if (m := _PCI_NET.fullmatch(path)) and m[1] == address]
    known = [p.split("/")[1] for p, v in values.items() if re.fullmatch(r"net/[^/]+/pci", p) and v == address]
    return list(dict.fromkeys([*listed, *known]))


def with_port_speed(nics: Iterable[Nic], ports: Iterable[IbPort]) -> tuple[Nic, ...]:
    """InfiniBand interfaces with the rate of their port: IPoIB drivers report no or a wrong link speed.

    A partition's interface (`ib0.8001`) runs over that of the port.
    """
    rates = {p.netdev: p.rate_gbps for p in ports if p.netdev and p.rate_gbps}

    def of_port(nic: Nic) -> Nic:
        rate = next((rates[name] for name in (nic.name, *nic.over) if name in rates), None)
        return replace(nic, speed_mbps=int(rate * 1000)) if nic.kind == "infiniband" and rate else nic

    return tuple(map(of_port, nics))
