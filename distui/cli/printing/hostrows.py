"""Facts of hosts as rows of a table that is printed while hosts still answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from distui.amounts import memory_words, size_words
from distui.facts.host import Engine, Gpu, HostDown, HostFacts, IbPort, ProbeResult
from distui.facts.limits import clock_words
from distui.facts.network import main_nic

HEADER = ("NAME", "STATE", "GPU", "NET", "IB", "ENGINE", "DISK")
WIDE = ("ADDR", "CPUS", "MEMORY", "CLOCK", "KERNEL")
_WIDTHS = {"STATE": 8, "GPU": 20, "NET": 10, "IB": 7, "ENGINE": 12, "DISK": 6, "ADDR": 15, "CPUS": 4, "MEMORY": 8}
_WIDTHS |= {"CLOCK": 7, "KERNEL": 12}


class Rows:
    """Formats one host a row; widths are fixed beforehand, since rows are printed as hosts answer."""

    def __init__(self, names: Sequence[str], *, wide: bool = False) -> None:
        self._wide = wide
        self._columns = HEADER + WIDE if wide else HEADER
        self._name = max([4, *map(len, names)])

    def header(self) -> str:
        """The heading line."""
        return self._line(dict(zip(self._columns, self._columns, strict=True)))

    def of(self, name: str, result: ProbeResult) -> list[str]:
        """The host's row, and below it, indented, what is wrong with it."""
        if isinstance(result, HostDown):
            row = f"{name.ljust(self._name)}  down      {result.error.words(name)}"
            return [row, f"{' ' * self._name}  try: {result.error.hint}"] if result.error.hint else [row]
        cells = _cells(result) | {"NAME": name}
        return [self._line(cells), *(f"{' ' * self._name}  ! {text}" for text in warnings(result, minor=self._wide))]

    def _line(self, cells: dict[str, str]) -> str:
        shown = [(cells[c] or "-").ljust(self._name if c == "NAME" else _WIDTHS[c]) for c in self._columns]
        return "  ".join(shown).rstrip()


def _cells(facts: HostFacts) -> dict[str, str]:
    nic = main_nic(facts)
    return {
        "STATE": "up" + (f" {facts.rtt_ms:.0f}ms" if facts.rtt_ms is not None else ""),
        "GPU": gpus(facts),
        "NET": f"{nic.name} {speed(nic.speed_mbps)}".strip() if nic else "",
        "IB": ib(facts.ib),
        "ENGINE": engine(facts.engine),
        "DISK": size_words(facts.disks[0].free) if facts.disks else "",
        "ADDR": nic.addresses[0].ip if nic and nic.addresses else "",
        "CPUS": str(facts.cpus or ""),
        "MEMORY": memory_words(facts.memory_total_mib) if facts.memory_total_mib else "",
        "CLOCK": f"{facts.clock_offset_ms:+.0f}ms" if facts.clock_offset_ms is not None else "",
        "KERNEL": facts.kernel or "",
    }


def speed(mbps: int | None) -> str:
    """`10G`, `100M`, or nothing when unknown."""
    if not mbps or mbps < 0:
        return ""
    return f"{mbps / 1000:g}G" if mbps >= 1000 else f"{mbps}M"


def gpu_name(gpu: Gpu) -> str:
    """A model in as few letters as tell it: `H100-80GB`."""
    words = gpu.name.replace("NVIDIA ", "").replace("AMD ", "").replace("Instinct ", "").replace("Tesla ", "").split()
    return "-".join(w for w in words if w not in ("HBM3", "HBM2e", "PCIe", "GeForce"))[:16] or gpu.vendor


def gpus(facts: HostFacts) -> str:
    """`8xH100-80GB 96%`, `7xH100-80GB+1! 96%` with a broken one, `no GPU`, `driver!` when the driver is silent."""
    found = facts.gpu.gpus
    if not found:
        return "driver!" if facts.gpu.problem else "no GPU"
    good = [g for g in found if not g.problem]
    kinds = "+".join(f"{n}x{name}" for name, n in Counter(gpu_name(g) for g in good or found).items())
    loads = [g.utilization_pct for g in found if g.utilization_pct is not None]
    broken = "" if len(good) == len(found) else f"+{len(found) - len(good)}!" if good else "!"
    return f"{kinds}{broken}" + (f" {sum(loads) / len(loads):.0f}%" if loads else "")


def ib(ports: Sequence[IbPort]) -> str:
    """`8x400G`, `7/8` when some ports are not active."""
    rdma = [p for p in ports if p.link_layer == "InfiniBand"]
    active = [p for p in rdma if p.active]
    if not rdma:
        return ""
    if len(active) < len(rdma):
        return f"{len(active)}/{len(rdma)}!"
    return f"{len(rdma)}x{max(p.rate_gbps or 0 for p in rdma):g}G"


def engine(found: Engine) -> str:
    """`docker 27.3`, `docker!` when it does not answer, or nothing."""
    if found.kind == "none":
        return ""
    if found.problem is not None:
        return f"{found.kind}!"
    return f"{found.kind} {'.'.join((found.server or found.client or '?').split('.')[:2])}"


def warnings(facts: HostFacts, *, minor: bool = False) -> Iterator[str]:
    """What is wrong with a host that answered, one sentence each; with `minor` also what distui copes with."""
    if facts.gpu.problem:
        yield _sentence("GPUs", facts.gpu.problem.message, facts.gpu.problem.hint)
    for gpu in facts.gpu.gpus:
        if gpu.problem:
            yield _sentence(f"GPU {gpu.index}", gpu.problem.message, gpu.problem.hint)
    for port in facts.ib:
        if port.link_layer == "InfiniBand" and not port.active:
            yield f"{port.hca} port {port.port} is {port.state or 'unreadable'}"
    if facts.engine.problem:
        yield _sentence(facts.engine.kind, facts.engine.problem.message, facts.engine.problem.hint)
    if clock := clock_words(facts):
        yield f"{clock}; run ntp or chrony there"
    if minor and facts.name_is_loopback:
        yield "its own name resolves to 127.0.x.1, which breaks gloo; distui names an interface instead"
    yield from facts.warnings


def _sentence(what: str, message: str, hint: str) -> str:
    return f"{what}: {message}" + (f"; try: {hint}" if hint else "")
