"""A helper's sample as the event that printers, journals and screens know."""

from __future__ import annotations

from dataclasses import replace

from distui.runs.lines.events import HostSampled
from distui.runs.state.samples import Sample


def host_sampled(at: float, host: str, sample: Sample) -> HostSampled:
    """The helper's figures as an event; interfaces whose rate is not known yet are left out.

    Times of the host's clock become times of ours.
    """
    gpus = tuple(g if g.xid_at is None else replace(g, xid_at=g.xid_at + at - sample.at) for g in sample.gpus)
    traffic = {**sample.net, **sample.ib}
    net = {
        name: (t.rx_rate, t.tx_rate)
        for name, t in traffic.items()
        if t.rx_rate is not None and t.tx_rate is not None and name != "lo"
    }
    free = min((pair[0] for pair in sample.disks.values()), default=None)
    memory = (sample.memory_total_mib, sample.memory_available_mib)
    return HostSampled(at, host, gpus, net, free, sample.cpu_pct, sample.load, *memory, sample.errors)
