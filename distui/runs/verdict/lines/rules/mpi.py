"""What mpirun says where it could not start processes, or bring them together, or one of another host was killed.

By the words of Open MPI 4 and 5 (prterun); those of MPICH and Hydra are among the others.
"""

from __future__ import annotations

from distui.runs.verdict.lines.rules.cause import Cause

UNSTARTED = Cause(
    "mpirun could not start the program on one of its hosts",
    "the last lines name the host and what is missing there; program and `-wdir` have the same path on all hosts",
)
"""Open MPI then ends with an error number of its own (132, 134, 135), which looks like a signal's status."""

RULES: tuple[tuple[str, Cause], ...] = (
    (r"^(?:mpirun|mpiexec|prterun) was unable to (?:launch|find) the specified (?:application|executable)", UNSTARTED),
    (
        "^There are not enough slots available in the system",
        Cause(
            "mpirun was asked for more processes than its hosts have slots",
            "`-np {world_size}` and `--hostfile {hostfile}` in `command:` fit each other",
        ),
    ),
    (
        "^ORTE was unable to reliably start one or more daemons|^A daemon failed to report back after being spawned",
        Cause(
            "mpirun could not log in to another host by ssh, or start its daemon there",
            "ssh from the first host to the others has to work without a question; Open MPI has the same path on all",
        ),
    ),
    (
        "^At least one pair of MPI processes are unable to reach each other",
        Cause(
            "MPI found no network between two of its processes",
            "an interface that `btl_tcp_if_include` names has to be there, and up, on every host",
        ),
    ),
    (
        r"^(?:mpirun|prterun) noticed that process rank \d+ with PID \d+ on node \S+ exited on signal 9\b",
        Cause(
            "a process that it had started was killed, most likely for lack of memory",
            "`dmesg -T | grep -i 'killed process'` on the node that mpirun names tells whether it ran out of memory",
            killed=True,
        ),
    ),
)
