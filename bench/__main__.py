"""`python -m bench`: distui beside its peers in the same run. Read the ratios; the seconds are this machine's."""

from __future__ import annotations

import argparse
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from bench import asking, code_sync, data_fetch, hangs, hook, image_push, probe, rest, scale, start, tui
from bench import help as help_measure
from bench.cluster import cluster, refusal
from bench.peers import Peers, peers
from bench.report import machine, missed, note, title

MEASURES = (
    "help", "hook", "asking", "scale", "tui", "probe", "start", "code", "image", "data", "rest", "hangs", "follow",
)  # fmt: skip
_NEED_HOSTS = ("probe", "start", "code", "image", "data", "rest", "hangs")


def main() -> int:
    """Take the measures that were asked for and that this machine allows."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("measures", nargs="*", metavar="MEASURE", help=f"{', '.join(MEASURES)}; all when left out")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, some four minutes in all")
    parser.add_argument("--no-install", action="store_true", help="only peers that are here; nothing from PyPI")
    parser.add_argument("--check", action="store_true", help="exit 1 when a target is missed, and name it")
    args = parser.parse_args()
    unknown = sorted(set(args.measures) - set(MEASURES))
    if unknown:
        parser.error(f"there is no measure {unknown[0]}; there are {', '.join(MEASURES)}")
    chosen = args.measures or MEASURES
    print(machine(), flush=True)
    needs_peers = {"help", "probe"} & set(chosen)
    with peers(install=bool(needs_peers) and not args.no_install) as found:
        _take(chosen, found, quick=args.quick)
    if args.check and missed:
        print("\nmissed:", *missed, sep="\n  ")
    return int(args.check and bool(missed))


def _take(chosen: list[str] | tuple[str, ...], found: Peers, *, quick: bool) -> None:
    if "help" in chosen:
        help_measure.measure(found, quick=quick)
    if "hook" in chosen:
        hook.measure(quick=quick)
    if "asking" in chosen:
        asking.measure(quick=quick)
    if "scale" in chosen:
        scale.measure(quick=quick)
    if "tui" in chosen:
        tui.measure(quick=quick)
    on_hosts = [name for name in _NEED_HOSTS if name in chosen]
    reason = refusal()
    for name in (n for n in (*_NEED_HOSTS, "follow") if n in chosen and reason):
        title(name)
        note(f"not measured: {reason}")
    if reason:
        return
    if on_hosts:
        _on_hosts(on_hosts, found, quick=quick)
    if "follow" in chosen:
        _follow(quick=quick)


def _on_hosts(names: list[str], found: Peers, *, quick: bool) -> None:
    with ExitStack() as stack:
        hosts = stack.enter_context(cluster())
        if "probe" in names:
            probe.measure(hosts, found, quick=quick)
        if "start" in names:
            start.measure(hosts, quick=quick)
        if "code" in names:
            code_sync.measure(hosts, quick=quick)
        if "image" in names:
            image_push.measure(hosts, quick=quick)
        if "data" in names:
            data_fetch.measure(hosts, quick=quick)
        if "rest" in names:
            rest.measure(hosts, quick=quick)
        if "hangs" in names:
            hangs.measure(hosts, quick=quick)


def _follow(*, quick: bool) -> None:
    title("follow: logs beside `ssh host docker logs >file`")
    size = ("--lines", "200000", "--seconds", "12") if quick else ()
    subprocess.run((sys.executable, str(Path(__file__).with_name("follow.py")), *size), check=False)


if __name__ == "__main__":
    sys.exit(main())
