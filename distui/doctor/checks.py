"""All checks over facts: `distui doctor` and the app's fourth view show the same rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import get_args

from distui.doctor.finding import Answer, Check, CheckRow, Finding, Group
from distui.doctor.host_checks import HOST_CHECKS, OK, PORT_FREE, HostCheck, data_address
from distui.doctor.images import ImageId, Images, short_id, usual_id
from distui.doctor.reach import ReachReport
from distui.doctor.reach_check import reach_row
from distui.facts.host import GpuProcess, HostDown, HostFacts, ProbeResult, Trouble
from distui.facts.limits import slow_shell_words
from distui.plan.network.fabric import select_hcas
from distui.spec.hosts.inventory import DataNetwork, Host

LOGIN = Check("login", "Reach", "ssh login", "ssh, by your own configuration of it")
EQUAL_DRIVERS = Check("drivers", "Software", "same NVIDIA driver everywhere", "nvidia-smi --query-gpu=driver_version")
EQUAL_GPUS = Check("same_gpus", "GPUs", "same GPUs everywhere", "nvidia-smi --query-gpu=name")
IDLE = Check("idle", "GPUs", "no foreign process on a GPU", "nvidia-smi --query-compute-apps=...")
EQUAL_RATES = Check("ib_rates", "Network", "same InfiniBand rate everywhere", "/sys/class/infiniband/*/ports/*/rate")


def check_hosts(
    results: Mapping[str, ProbeResult],
    *,
    images: Images | None = None,
    ours: Collection[str] = (),
    given: Mapping[str, Collection[int]] | None = None,
    proving: Collection[str] = (),
    reach: ReachReport | None = None,
    more: Iterable[CheckRow] = (),
    hosts: Iterable[Host] = (),
) -> tuple[CheckRow, ...]:
    """Every check on every host, grouped in the order of a start: reach, software, GPUs, network, limits.

    `more` are rows of checks made elsewhere. `ours` are ids of distui's own containers, and `given` the GPUs of each
    host that runs of processes have: what is on them is not foreign. `proving` are hosts that were asked while distui
    itself listened there, to prove that they are reached. A host that does not answer has one finding; whatever else
    would be asked of it is skipped. `hosts` are these hosts in hosts.yaml: RDMA ports that its `hcas` leaves out are of
    no concern, and an interface or address that it pins is the one for data.
    """
    hosts = tuple(hosts)
    pins = {host.name: host.data for host in hosts}
    results = _meant(results, hosts)
    rows = [CheckRow(LOGIN, tuple(_login(host, result) for host, result in results.items()))]
    rows += [_undisturbed(_row(check, results, _asked(function, pins)), proving) for check, function in HOST_CHECKS]
    rows += [_across(EQUAL_DRIVERS, results, _driver, "driver"), _across(EQUAL_GPUS, results, _cards, "GPUs")]
    rows += [_across(EQUAL_RATES, results, _ib_rate, "rate")]
    rows += [_row(IDLE, results, lambda facts: _idle(facts, ours, (given or {}).get(facts.host, ())))]
    rows += [_image(image, results, found) for image, found in (images or {}).items()]
    rows += [reach_row(tuple(results), reach)] if reach is not None and len(results) > 1 else []
    rows += more
    order = get_args(Group)
    return tuple(sorted(rows, key=lambda row: order.index(row.check.group)))


def _meant(results: Mapping[str, ProbeResult], hosts: Iterable[Host]) -> Mapping[str, ProbeResult]:
    """The results with those RDMA ports that hosts.yaml says are for data."""
    named = {host.name: host.data.hcas for host in hosts if host.data.hcas}

    def one(name: str, result: ProbeResult) -> ProbeResult:
        pattern = named.get(name)
        if pattern is None or not isinstance(result, HostFacts):
            return result
        return replace(result, ib=select_hcas(pattern, result.ib))

    return {name: one(name, result) for name, result in results.items()}


def _asked(function: HostCheck, pins: Mapping[str, DataNetwork]) -> HostCheck:
    """The check, where it is about addresses of those that hosts.yaml pins."""
    return (lambda facts: data_address(facts, pins.get(facts.host))) if function is data_address else function


def counts(rows: Iterable[CheckRow]) -> Counter[str]:
    """How many findings there are of each verdict."""
    return Counter(finding.verdict for row in rows for finding in row.findings)


def _login(host: str, result: ProbeResult) -> Finding:
    match result:
        case HostDown(error=error):
            return Finding(LOGIN.id, host, "fail", error.message, "this host cannot be probed", error.hint)
        case HostFacts():
            if words := slow_shell_words(result.shell_s):
                return Finding(
                    LOGIN.id, host, "warn", words, do=f"look at what they do; `time ssh {host} true` shows how long"
                )
            took = f"{result.connect_ms:.0f} ms to log in" if result.connect_ms is not None else ""
            return Finding(LOGIN.id, host, "ok", took)


def _row(check: Check, results: Mapping[str, ProbeResult], ask: Callable[[HostFacts], Answer]) -> CheckRow:
    return CheckRow(check, tuple(_one(check, host, result, ask) for host, result in results.items()))


def _one(check: Check, host: str, result: ProbeResult, ask: Callable[[HostFacts], Answer]) -> Finding:
    answer = ask(result) if isinstance(result, HostFacts) else Answer("skip")
    return Finding(check.id, host, answer.verdict, answer.saw, answer.means, answer.do)


# Over several hosts: who differs from most.


def _across(check: Check, results: Mapping[str, ProbeResult], value: Callable[[HostFacts], str], noun: str) -> CheckRow:
    """The hosts whose value is not the most frequent one are warned; hosts without a value are fine."""
    values = {host: value(r) for host, r in results.items() if isinstance(r, HostFacts) and value(r)}
    common = Counter(values.values()).most_common(1)
    usual = common[0][0] if common else ""

    def ask(facts: HostFacts) -> Answer:
        own = value(facts)
        if not own or own == usual:
            return Answer("ok", own)
        return Answer(
            "warn",
            f"{own} here, {usual} elsewhere",
            f"runs over hosts with different {noun} may fail late or go at the pace of the slowest",
            f"choose hosts with the same {noun}, or make them the same",
        )

    return _row(check, results, ask)


def _driver(facts: HostFacts) -> str:
    return next((g.driver for g in facts.gpu.gpus if g.driver and g.vendor == "nvidia"), "")


def _cards(facts: HostFacts) -> str:
    kinds = Counter(g.name for g in facts.gpu.gpus if g.problem is None)
    return ", ".join(f"{count} x {name}" for name, count in sorted(kinds.items()))


def _ib_rate(facts: HostFacts) -> str:
    rates = sorted({p.rate_gbps for p in facts.ib if p.active and p.link_layer == "InfiniBand" and p.rate_gbps})
    return ", ".join(f"{rate:.0f} Gb/s" for rate in rates)


# Foreign processes, images.


def _undisturbed(row: CheckRow, proving: Collection[str]) -> CheckRow:
    """The row about the port without what distui's own proof did to it."""
    if row.check.id != PORT_FREE or not proving:
        return row
    words = "distui itself listened on it then, to prove that hosts reach each other"
    own = tuple(
        replace(f, verdict="skip", saw=words, means="", do="") if f.verdict == "warn" and f.host in proving else f
        for f in row.findings
    )
    return replace(row, findings=own)


def _idle(facts: HostFacts, ours: Collection[str], given: Collection[int]) -> Answer:
    foreign = [
        (gpu.index, process)
        for gpu in facts.gpu.gpus
        for process in gpu.processes
        if _foreign(process, ours) and not (process.container is None and gpu.index in given)
    ]
    if not foreign:
        return OK
    index, process = foreign[0]
    who = f"{process.user} " if process.user else ""
    more = f" and {len(foreign) - 1} more" if len(foreign) > 1 else ""
    return Answer(
        "warn",
        f"GPU {index}: {who}{process.name.rpartition('/')[2] or 'process'} (pid {process.pid}){more}",
        "it takes memory and time from a run on that GPU",
        "ask its owner, or pick other GPUs",
    )


def _foreign(process: GpuProcess, ours: Collection[str]) -> bool:
    box = process.container
    return box is None or not any(box.startswith(own[:12]) or own.startswith(box) for own in ours)


def _image(image: str, results: Mapping[str, ProbeResult], found: Mapping[str, ImageId]) -> CheckRow:
    check = Check(f"image:{image}", "Software", f"image {image}", f"docker image inspect {image}")
    usual = usual_id(found)
    return CheckRow(check, tuple(_present(check, host, found.get(host), usual) for host in results))


def _present(check: Check, host: str, there: ImageId | None, usual: str) -> Finding:
    match there:
        case Trouble(message=message, hint=hint):
            return Finding(check.id, host, "skip", message, do=hint)
        case None:
            return Finding(check.id, host, "skip")
        case "":
            return Finding(check.id, host, "pull", "is not there", "the start pulls it first", "pull it beforehand")
        case str() if there != usual:
            words = f"{short_id(there)} here, {short_id(usual)} elsewhere"
            means = "ranks would run different programs: the name was pushed again after it was pulled here"
            return Finding(check.id, host, "warn", words, means, "pull it on every host, or `pull: always` in the job")
        case _:
            return Finding(check.id, host, "ok", f"is there, {short_id(there)}")


def problems(rows: Iterable[CheckRow]) -> Iterator[tuple[CheckRow, Finding]]:
    """Every warning and failure, the grave ones first."""
    found = [(row, f) for row in rows for f in row.findings if f.verdict in ("warn", "fail")]
    yield from sorted(found, key=lambda pair: pair[1].verdict != "fail")
