"""What distui starts torchrun with, as torchrun itself reads it."""

from __future__ import annotations

import pytest
from torch.distributed.run import get_args_parser

from distui.plan.command import torchrun
from distui.plan.network.rendezvous import RendezvousPoint
from distui.spec.job.read_job import read_job

HEAD = "version: 1\nname: x\nlauncher: torchrun\nimage: an/image\n"
MEET = RendezvousPoint("10.0.0.1", 29500, init_method="env://")


@pytest.mark.parametrize(
    ("command", "script", "left"),
    [
        (("t.py", "--max", "4"), "t.py", ["--max", "4"]),
        (("python3", "t.py", "--log", "x", "--", "y"), "t.py", ["--log", "x", "--", "y"]),
        (("torchrun", "t.py", "--node", "n1"), "t.py", ["--node", "n1"]),
        (("-m", "pkg.train", "--start", "3"), "pkg.train", ["--start", "3"]),
        (("--no-python", "./t.sh", "--local", "x"), "./t.sh", ["--local", "x"]),
        (("./t.sh", "--rdzv", "x"), "./t.sh", ["--rdzv", "x"]),
        (("torchrun", "--standalone", "t.py", "--epochs", "3"), "t.py", ["--epochs", "3"]),
        (("torchrun", "--standalone", "--", "t.py", "--max", "3"), "t.py", ["--max", "3"]),
    ],
)
def test_a_program_s_options_stay_its_own(command: tuple[str, ...], script: str, left: list[str]) -> None:
    """Python's argparse looks at all words before it knows where the program is, and ends with "ambiguous option: --max
    could match --max-restarts, --max_restarts"."""
    job = read_job(HEAD + "command: [t.py]\n", "x.yaml", environ={})
    words = torchrun.argv(job, command, MEET, run_id="x", node_rank=0, nnodes=1, nproc=2)
    own = 1 if words[0] == "torchrun" else 3
    read = get_args_parser().parse_args(words[own:])
    assert (read.training_script, read.training_script_args, read.nproc_per_node) == (script, left, "2")
