"""The command line of the trainers, without torch."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distui.trainers import arguments
from distui.trainers.arguments import Options

TORCHRUN = {
    "RANK": "3",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "MASTER_ADDR": "10.0.0.1",
    "MASTER_PORT": "29500",
    "OMP_NUM_THREADS": "2",
}


def parse(argv: Sequence[str], environ: Mapping[str, str]) -> Options:
    return arguments.parse(arguments.training("a trainer"), Options, argv, environ)


def options(*argv: str, **environ: str) -> Options:
    return parse(argv, environ)


def from_command_line(line: str, **environ: str) -> Options:
    return parse(shlex.split(line), environ)


def refusal(capsys: pytest.CaptureFixture[str], *argv: str, **environ: str) -> str:
    """What the program says on stderr before it ends with 2."""
    with pytest.raises(SystemExit) as ended:
        parse(argv, environ)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said.split("error: ", 1)[1].strip()


def test_the_classic_command_line_needs_no_environment() -> None:
    """`--rank --world-size --init-method --backend` say all there is to say."""
    given_options = from_command_line("--rank 1 --world-size 2 --init-method tcp://10.0.0.1:29500 --backend gloo")
    place = given_options.place
    assert (place.rank, place.world_size, place.local_rank) == (1, 2, 0)
    assert place.meeting == ("10.0.0.1", 29500)
    assert given_options.backend == "gloo"


def test_torchrun_s_environment_needs_no_arguments() -> None:
    """Every argument a launcher knows defaults from the environment."""
    from_environment = options(**TORCHRUN)
    place = from_environment.place
    assert (place.rank, place.world_size, place.local_rank) == (3, 4, 1)
    assert place.meeting == ("10.0.0.1", 29500)
    assert from_environment.threads == 2


def test_an_argument_wins_over_the_environment() -> None:
    """Given on the command line beats the environment, for each of them."""
    given_options = from_command_line(
        "--rank 0 --world-size 2 --local-rank 0 --init-method tcp://h:1 --threads 3", **TORCHRUN
    )
    place = given_options.place
    assert (place.rank, place.world_size, place.local_rank, place.meeting) == (0, 2, 0, ("h", 1))
    assert given_options.threads == 3


@pytest.mark.parametrize("flag", ["--local-rank=1", "--local_rank=1"])
def test_torch_distributed_launch_may_pass_the_local_rank(flag: str) -> None:
    """Both spellings that torch.distributed.launch has used are taken."""
    assert options(flag, "--world-size", "1").place.local_rank == 1


def test_a_rank_alone_needs_no_place_to_meet() -> None:
    """`--world-size 1` is enough."""
    place = options("--world-size", "1").place
    assert (place.rank, place.meeting) == (0, None)


def test_a_rank_alone_meets_where_it_is_told_to() -> None:
    """A launcher that gives one rank an address gets that address used."""
    assert options(**TORCHRUN | {"RANK": "0", "WORLD_SIZE": "1"}).place.meeting == ("10.0.0.1", 29500)


@given(rank=st.integers(-3, 6), world_size=st.integers(-1, 4))
def test_exactly_the_ranks_below_the_world_size_are_taken(rank: int, world_size: int) -> None:
    """Any other pair ends with 2."""
    argv = [f"--rank={rank}", f"--world-size={world_size}", "--init-method", "tcp://h:1"]
    if 0 <= rank < world_size:
        assert parse(argv, {}).place.rank == rank
    else:
        with pytest.raises(SystemExit):
            parse(argv, {})


def test_a_file_in_a_shared_folder_is_a_place_to_meet(tmp_path: Path) -> None:
    """file:// with three slashes and a folder that is there; the file itself need not be."""
    place = options("--rank=0", "--world-size=2", "--init-method", f"file://{tmp_path}/meeting").place
    assert place.meeting == tmp_path / "meeting"
    assert place.meeting_text == f"file://{tmp_path}/meeting"


@pytest.mark.parametrize("url", ["tcp://10.0.0.1:29500", "tcp://[fe80::1]:29500", "tcp://node01.example:1"])
def test_the_place_reads_as_it_was_written(url: str) -> None:
    """Messages name the address in the words of the command line."""
    assert options("--rank=0", "--world-size=2", "--init-method", url).place.meeting_text == url


def test_nothing_given_names_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    """Started bare, the program says how to start it."""
    said = refusal(capsys)
    assert said.startswith("--world-size is not given and WORLD_SIZE is not in the environment")
    assert "--world-size 1" in said


def test_a_missing_rank_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """With several ranks nobody can guess which this is."""
    said = refusal(capsys, "--world-size=2", "--init-method=tcp://h:1")
    assert said.startswith("--rank is not given and RANK is not in the environment")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ("--rank=2 --world-size=2", "rank 2 does not exist in a world of 2: they go from 0 to 1"),
        ("--rank=0 --world-size=0", "the world size is 0: it counts all ranks"),
        ("--rank=one --world-size=2", "--rank is 'one', which is not a whole number"),
        ("--world-size=1 --local-rank=-1", "local rank -1 does not exist"),
        ("--rank=0 --world-size=2", "needs MASTER_ADDR and MASTER_PORT in the environment"),
        ("--rank=0 --world-size=2 --init-method=tcp://10.0.0.1", "as tcp://10.0.0.1:29500"),
        ("--rank=0 --world-size=2 --init-method=tcp://h:99999", "--init-method tcp://h:99999: Port out of range"),
        ("--rank=0 --world-size=2 --init-method=10.0.0.1:29500", "give tcp://HOST:PORT, file:///PATH or env://"),
        ("--rank=0 --world-size=2 --init-method=file://shared/x", "give three slashes and an absolute path"),
        ("--rank=0 --world-size=2 --init-method=file:///no/such/x", "this host has no folder /no/such"),
        ("--rank=0 --world-size=2 --init-method=file:///tmp", "/tmp is a folder"),
        ("--world-size=1 --device=cpu --backend=nccl", "use --backend gloo with --device cpu"),
        ("--world-size=1 --backend=smoke", "invalid choice: 'smoke'"),
        ("--world-size=1 --epochs=0", "argument --epochs: '0' is not a whole number above 0"),
        ("--world-size=1 --batch-size=many", "argument --batch-size: 'many' is not a whole number above 0"),
        ("--world-size=1 --lr=nan", "argument --lr: 'nan' is not a number above 0"),
        ("--world-size=1 --timeout=inf", "argument --timeout: 'inf' is not a number above 0"),
        ("--world-size=1 --wrold-size=1", "unrecognized arguments: --wrold-size=1"),
    ],
)
def test_a_wrong_argument_gets_one_line(capsys: pytest.CaptureFixture[str], argv: str, said: str) -> None:
    """What is wrong, where, and what to do, on one line of stderr."""
    assert said in refusal(capsys, *argv.split())


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"RANK": "4"}, "rank 4 does not exist in a world of 4"),
        ({"RANK": "x"}, "RANK is 'x', which is not a whole number"),
        ({"WORLD_SIZE": ""}, "WORLD_SIZE is not in the environment"),
        ({"MASTER_ADDR": ""}, "needs MASTER_ADDR in the environment"),
        ({"MASTER_PORT": "http"}, "MASTER_PORT=http in the environment: a port is a number"),
        ({"MASTER_PORT": "65536"}, "MASTER_PORT=65536 in the environment: a port is a number"),
    ],
)
def test_a_wrong_variable_is_named(capsys: pytest.CaptureFixture[str], changed: dict[str, str], said: str) -> None:
    """A variable that is wrong is named as a variable."""
    assert said in refusal(capsys, **TORCHRUN | changed)


@pytest.mark.parametrize("value", [{}, {"OMP_NUM_THREADS": "0"}, {"OMP_NUM_THREADS": "4,2"}])
def test_a_rank_takes_one_thread_by_default(value: dict[str, str]) -> None:
    """Ranks of one host don't fight for its cores unless told to."""
    assert options("--world-size=1", **value).threads == 1
