"""Run a job on some hosts, wait for it, and read how it ended: `python run_and_read.py job.yaml 'node[01-02]'`."""

from __future__ import annotations

import sys
from pathlib import Path

import distui


def main(job: str, *hosts: str) -> int:
    """Blocks; Ctrl-C stops the run. Hosts in `hosts` take the place of those that the job names."""
    try:
        result = distui.run(job, hosts=hosts)
    except distui.DistuiError as error:  # wrong files, hosts out of reach, no plan, a failed check
        print(f"not started: {error}", file=sys.stderr)
        return error.exit_code
    if result.failure is not None:
        print(f"{result.failure.where} failed first: {result.failure.words}. {result.failure.cause}".strip())
        for line in result.failure.excerpt:
            print(f"  | {line}")
    for log in sorted(Path(result.log_dir).glob("rank-*.log")):
        lines = log.read_text(errors="replace").splitlines()
        print(f"{log.stem}: {len(lines)} lines, the last one: {lines[-1] if lines else ''}")
    print(result.outcome)
    return result.exit


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
