"""Cut an OCI process down to what this machine allows: capabilities, resource limits, OOM score."""

import json
import pathlib
import resource
import sys

DENIED = pathlib.Path("/var/log/runc-denied.log")
SYS_RESOURCE = 24


def bounding() -> int:
    """This process's capability bounding set, as a bit mask."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapBnd:"):
            return int(line.split()[1], 16)
    return 0


def option(argv: list[str], *names: str) -> str | None:
    """The value of a command line option, given as `--name value` or `--name=value`."""
    for index, word in enumerate(argv):
        if word in names:
            return argv[index + 1]
        for name in names:
            if word.startswith(name + "="):
                return word.partition("=")[2]
    return None


def cut_limits(process: dict, denied: list[str]) -> None:
    """Lower limits above this process's own hard limit, which only CAP_SYS_RESOURCE may exceed."""
    for limit in process.get("rlimits") or []:
        hard = resource.getrlimit(getattr(resource, limit["type"]))[1]
        if hard != resource.RLIM_INFINITY and limit["hard"] > hard:
            denied.append(f"{limit['type']}={limit['hard']}")
            limit["hard"], limit["soft"] = hard, min(limit["soft"], hard)


def cut_oom_score(process: dict, denied: list[str]) -> None:
    """An OOM score below our own needs CAP_SYS_RESOURCE."""
    own = int(pathlib.Path("/proc/self/oom_score_adj").read_text())
    if process.get("oomScoreAdj", own) < own:
        denied.append(f"oomScoreAdj={process['oomScoreAdj']}")
        process["oomScoreAdj"] = own


def cut_capabilities(process: dict, denied: list[str]) -> None:
    """Only CAP_SYS_RESOURCE is looked at: the others are Docker's own business."""
    for names in (process.get("capabilities") or {}).values():
        if "CAP_SYS_RESOURCE" in names:
            names.remove("CAP_SYS_RESOURCE")
            denied.append("CAP_SYS_RESOURCE")


def main(argv: list[str]) -> None:
    """Rewrite the file that runc is about to read."""
    if bounding() >> SYS_RESOURCE & 1:
        return
    given = option(argv, "--process", "-p")
    bundle = option(argv, "--bundle", "-b") or "."
    path = pathlib.Path(given) if given else pathlib.Path(bundle, "config.json")
    if not path.exists():
        return
    spec = json.loads(path.read_text())
    process = spec if given else spec.get("process") or {}
    denied: list[str] = []
    for cut in (cut_limits, cut_oom_score, cut_capabilities):
        cut(process, denied)
    if denied:
        path.write_text(json.dumps(spec))
        with DENIED.open("a") as log:
            log.write(f"{pathlib.Path(bundle).resolve().name[:12]} {' '.join(sorted(set(denied)))}\n")


main(sys.argv[1:])
