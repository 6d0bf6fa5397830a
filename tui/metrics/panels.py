"""Which plots a run has, in which order, and in which unit each one's axis is. Pure."""

from __future__ import annotations

from collections.abc import Collection

from distui.frozen import frozen
from distui.runs.series.values import UNITS
from distui.runs.state.progress import figure_name

_TITLES = {
    "step_time": "Step time", "tokens_per_s": "Tokens", "samples_per_s": "Samples", "gpu_load": "GPU load",
    "gpu_memory": "GPU memory", "gpu_power": "GPU power", "cpu_load": "CPU load", "late": "Late",
}  # fmt: skip
_ORDER = ("step_time", "tokens_per_s", "samples_per_s", "gpu_load", "gpu_memory", "gpu_power")
_AFTER = ("late", "cpu_load")
NETWORK = ("net_rx", "net_tx")


@frozen
class Panel:
    """One plot: the names of the series in it, which have one unit."""

    title: str
    names: tuple[str, ...]

    @property
    def name(self) -> str:
        """Its first series, by which it is known."""
        return self.names[0]

    @property
    def has_zero(self) -> bool:
        """Whether its axis begins at zero: what has a unit is an amount, what the job calls its own may be anything."""
        return self.name in UNITS

    @property
    def per(self) -> str:
        """What one value is the sum of, where that is not plain: the GPUs of a rank."""
        return "per rank" if self.name in ("gpu_memory", "gpu_power") else ""

    @property
    def top(self) -> float | None:
        """Where its axis ends at least."""
        return 100.0 if UNITS.get(self.name) == "%" else None


def panels_of(names: Collection[str]) -> tuple[Panel, ...]:
    """The job's figure first, then speed, GPUs, network, and what else the job tells."""
    figure = figure_name(name for name in names if name not in UNITS)
    found = [Panel(figure.capitalize() if figure.islower() else figure, (figure,))] if figure else []
    found += [Panel(_TITLES[name], (name,)) for name in _ORDER if name in names]
    if network := tuple(name for name in NETWORK if name in names):
        found.append(Panel("Network", network))
    found += [Panel(_TITLES[name], (name,)) for name in _AFTER if name in names]
    shown = {name for panel in found for name in panel.names}
    return (*found, *(Panel(name, (name,)) for name in sorted(names) if name not in shown))


def unit_at(name: str, top: float) -> tuple[float, str]:
    """How many of a series' own unit the axis counts as one, and what that is called, for values up to `top`."""
    match UNITS.get(name, ""):
        case "MiB" if top >= 1024:
            return 1024.0, "GiB"
        case "B/s":
            return next(((f, u) for f, u in ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s")) if top >= f), (1.0, "B/s"))
        case "s" if top < 1:
            return 1e-3, "ms"
        case "1/s":
            return 1.0, "per s"
        case unit:
            return 1.0, unit
