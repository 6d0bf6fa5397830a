"""The lab's command line: `python3 tests/lab up --hosts 3`, `down`, `status`, `exec`, `fault`, `image`, `home`."""

from __future__ import annotations

import argparse
import os
import select
import sys
from pathlib import Path

from lab import cleanup, images
from lab.faults import KINDS
from lab.lab import DEFAULT, Lab, check_machine, why_not
from lab.packages import ensure_packages
from lab.paths import LabError
from lab.state import read_state


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="lab", description="A test cluster of real hosts on this machine (root).")
    verbs = top.add_subparsers(dest="verb", required=True)
    up = verbs.add_parser("up", help="bring the hosts up; they stay until `down`")
    up.add_argument("--hosts", type=int, default=3)
    up.add_argument("--no-docker", action="store_true", help="sshd only")
    up.add_argument("--live-restore", action="store_true", help="containers outlive dockerd")
    down = verbs.add_parser("down", help="take everything away and check that nothing is left")
    status = verbs.add_parser("status", help="which hosts are up")
    run = verbs.add_parser("exec", help="run a command inside a host: exec h1 -- docker ps")
    run.add_argument("host")
    run.add_argument("command", nargs=argparse.REMAINDER)
    ctl = verbs.add_parser("ctl", help="run a command on the login node: ctl -- ssh h1")
    ctl.add_argument("command", nargs=argparse.REMAINDER)
    fault = verbs.add_parser("fault", help="break or mend a host: fault h1 unplug ib0; fault list")
    fault.add_argument("host")
    fault.add_argument("kind", nargs="?")
    fault.add_argument("args", nargs="*")
    image = verbs.add_parser("image", help="build the container images into the cache, without bringing hosts up")
    packages = verbs.add_parser("packages", help="install what the tests need, where a lab can be brought up")
    home = verbs.add_parser("home", help="make a folder a HOME that can ssh to the hosts")
    home.add_argument("folder", type=Path)
    guard = verbs.add_parser("guard")
    guard.add_argument("pid", type=int)
    for each in (up, down, status, run, ctl, fault, image, packages, home, guard):
        each.add_argument("--name", default=os.environ.get("DISTUI_LAB_NAME", DEFAULT))
    return top


def main() -> int:
    """Run one verb; a LabError becomes one line and exit status 1."""
    args = parser().parse_args()
    try:
        return int(globals()[f"verb_{args.verb}"](args) or 0)
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1


def verb_up(args: argparse.Namespace) -> None:
    lab = Lab(args.name)
    lab.up(args.hosts, docker=not args.no_docker, live_restore=args.live_restore, keep=True)
    verb_status(args)


def verb_down(args: argparse.Namespace) -> None:
    check_machine()
    Lab(args.name).down()


def verb_status(args: argparse.Namespace) -> int:
    if read_state(args.name) is None:
        print(f"lab {args.name} is not up")
        for line in cleanup.leftovers(args.name):
            print(f"  left: {line}")
        return 1
    for host in Lab(args.name).attach().hosts:
        print(f"{host.name}  {host.eth}  {host.ib}  {'up' if host.is_up else 'off'}")
    return 0


def words(command: list[str]) -> list[str]:
    return command[1:] if command[:1] == ["--"] else command


def verb_exec(args: argparse.Namespace) -> None:
    host = Lab(args.name).attach().host(args.host)
    argv = host.command(*(words(args.command) or ["bash", "-l"]))
    os.execvpe(argv[0], argv, host.exec_env() | {"TERM": os.environ.get("TERM", "dumb")})


def verb_ctl(args: argparse.Namespace) -> None:
    argv = Lab(args.name).attach().command(*(words(args.command) or ["bash"]))
    os.execvp(argv[0], argv)


def verb_fault(args: argparse.Namespace) -> None:
    if args.host == "list":
        for kind, action in sorted(KINDS.items()):
            print(f"{kind:18} {(action.__doc__ or '').splitlines()[0]}")
        return
    if not args.kind:
        raise LabError("which fault? `fault list` names them")
    Lab(args.name).attach().host(args.host).fault(args.kind, *args.args)


def verb_image(args: argparse.Namespace) -> None:
    check_machine()
    ensure_packages()
    images.ensure_images()


def verb_packages(args: argparse.Namespace) -> None:
    if reason := why_not():
        print(f"lab: nothing installed: {reason}")
    else:
        ensure_packages()


def verb_home(args: argparse.Namespace) -> None:
    Lab(args.name).attach().ssh_home(args.folder.resolve())


def verb_guard(args: argparse.Namespace) -> None:
    """Wait for a process to end, then take its lab down. A lab that has a new owner by then is left alone."""
    try:
        watched = os.pidfd_open(args.pid)
        select.select([watched], [], [])
    except ProcessLookupError:
        pass
    state = read_state(args.name)
    if state is not None and state.owner is not None and state.owner.pid == args.pid:
        Lab(args.name).attach().down()
