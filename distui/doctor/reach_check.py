"""Who reaches whom: between which addresses to try it, and the proof of `reach.py` as a row of Doctor and a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from distui.amounts import counted
from distui.doctor.finding import Check, CheckRow, Finding
from distui.doctor.host_checks import PORT
from distui.doctor.reach import Endpoint, Reached, ReachProblem, ReachReport
from distui.doctor.reach_words import in_words, whom
from distui.facts.host import HostFacts, ProbeResult
from distui.plan.model import HostNetwork, Notes, RunPlan
from distui.plan.network.routes import choose_routes
from distui.spec.hosts.inventory import Host
from distui.spec.hosts.names import fold
from distui.spec.job.job import Job

REACH = Check(
    "reach",
    "Network",
    "hosts reach each other",
    "python3 on every host: listen on its data address, connect to all others from it",
)
MEANS = "ranks there wait for each other until a time-out of minutes, and then fail"


def endpoints(hosts: Sequence[Host], results: Mapping[str, ProbeResult]) -> tuple[Endpoint, ...]:
    """Where a run over all hosts that answered would meet, on the port people expect where it is free.

    Without a network that all share, () : the plan of a job then says why. Hosts of one machine share an address, so
    that just one of them gets the port.
    """
    up = [(host, found) for host in hosts if isinstance(found := results.get(host.name), HostFacts)]
    taken: set[str] = set()
    ends = []
    for network in choose_routes(Job("doctor"), "gloo", up, Notes()):
        facts = results[network.host]
        assert isinstance(facts, HostFacts)
        free = PORT not in facts.ports_in_use and network.addr not in taken
        taken.add(network.addr)
        ends.append(Endpoint(network.host, network.addr, PORT if free else 0))
    return tuple(ends)


def endpoints_of_plan(plan: RunPlan) -> tuple[Endpoint, ...]:
    """The plan's data addresses, with the ports that must be free there: those of the host's tasks (launcher `tf`), or
    the rendezvous port where rank 0 is."""
    return tuple(_endpoint_of_plan(plan, network) for network in plan.networks)


def _endpoint_of_plan(plan: RunPlan, network: HostNetwork) -> Endpoint:
    own = tuple(t.port for t in plan.tasks_on(network.host) if t.port)
    if own:
        return Endpoint(network.host, network.addr, own[0], own[1:])
    return Endpoint(network.host, network.addr, plan.master_port if network.host == plan.tasks[0].host else 0)


def reach_row(hosts: Sequence[str], report: ReachReport) -> CheckRow:
    """One finding a host: whom it can't reach, or how many it reaches and how long the slowest took."""
    by_host: dict[str, list[ReachProblem]] = {}
    for problem in report.problems:
        by_host.setdefault(problem.host, []).append(problem)
    alike = Counter(map(_peers, by_host.values()))
    return CheckRow(
        REACH,
        tuple(
            _failed(host, problems, report, alone=alike[_peers(problems)] == 1)
            if (problems := by_host.get(host))
            else _finding(host, report)
            for host in hosts
        ),
    )


def _peers(problems: Sequence[ReachProblem]) -> frozenset[str]:
    return frozenset(problem.peer for problem in problems)


def _failed(host: str, problems: Sequence[ReachProblem], report: ReachReport, *, alone: bool) -> Finding:
    """What is wrong, in words that hosts share which can't reach the same ones, or nobody: they are one line then."""
    first, saw = problems[0], problems[0].message
    if first.peer:
        nobody = 1 < len(problems) == report.hosts - 1
        them = f"any of the {len(problems)} others" if nobody else whom(problems, alone=alone)
        saw = f"can't reach {them}: {' or '.join(dict.fromkeys(problem.message for problem in problems))}"
    return Finding(REACH.id, host, "fail", saw, MEANS, first.hint)


def _finding(host: str, report: ReachReport) -> Finding:
    if host in report.unproved:
        return Finding(
            REACH.id, host, "skip", "no python3: that its peers reach it is not proved", do="install python3"
        )
    row = report.table.get(host)
    if row is None:
        return Finding(REACH.id, host, "skip")
    others = counted(len(row), "other")
    if len(row) < report.hosts - 1:
        others = f"{len(row)} of {report.hosts - 1} others"
    slowest = max((r.ms for r in row.values() if r.ms is not None), default=0.0)
    return Finding(REACH.id, host, "ok", f"reaches {others}, slowest {slowest:.1f} ms")


def reach_table(report: ReachReport, names: Sequence[str]) -> str:
    """The N x N table as text, one row a host: milliseconds, `x` where it failed; what failed follows in words.

    Columns are numbered as the rows are: names of 64 hosts fit no screen.
    """
    width = max((len(n) for n in names), default=4)
    digits = len(str(len(names)))
    cell = max(5, digits)
    head = " " * (digits + 2 + width) + "".join(f"  {i:>{cell}}" for i in range(1, len(names) + 1))
    lines = ["from row to column, milliseconds to connect", "", head]
    for i, host in enumerate(names, 1):
        row = report.table.get(host, {})
        cells = "".join(f"  {_cell(host, peer, row.get(peer)):>{cell}}" for peer in names)
        lines.append(f"{i:>{digits}}  {host:<{width}}{cells}")
    return "\n".join([*lines, *_below(report)])


def pairs_words(report: ReachReport) -> str:
    """How many pairs were tried of how many, each in both directions, and how many of them reach each other."""
    failed = sum(bool(reached.error) for row in report.table.values() for reached in row.values())
    untried = report.possible - report.pairs
    all_ = "all of them reach" if not failed else f"{report.pairs - failed} of them reach"
    tried = (
        f"{report.pairs} of {report.possible} pairs tried" if untried > 0 else f"{counted(report.pairs, 'pair')} tried"
    )
    return f"{tried}, {all_} each other" if report.pairs else f"{tried}: nothing is proved"


def _cell(host: str, peer: str, reached: Reached | None) -> str:
    if host == peer:
        return "."
    if reached is None or (not reached.error and reached.ms is None):
        return "?"
    return "x" if reached.error else f"{reached.ms:.1f}"


def _below(report: ReachReport) -> Iterator[str]:
    yield ""
    yield pairs_words(report)
    for words, hint in in_words(report.problems):
        yield f"x  {words}"
        if hint:
            yield f"     do  {hint}"
    if report.unproved:
        yield f"?  not proved, for lack of python3: {fold(report.unproved)}"
