"""What the trainers read from their environment, without torch or TensorFlow."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distui.trainers import env

CLUSTER = {"chief": ["10.0.0.1:2222"], "worker": ["10.0.0.2:2222", "10.0.0.2:2223"], "ps": ["10.0.0.3:2222"]}


def tf_config(**changed: Any) -> dict[str, str]:
    return {"TF_CONFIG": json.dumps({"cluster": CLUSTER, "task": {"type": "worker", "index": 1}} | changed)}


def refusal(environ: dict[str, str]) -> str:
    """What tf_task says; always one line."""
    with pytest.raises(env.EnvError) as caught:
        env.tf_task(environ)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_mpirun_says_the_rank_in_its_own_words() -> None:
    """Open MPI's and MPICH's variables are read where torch's are missing; with MPI no address is needed."""
    by_open_mpi = {
        f"OMPI_COMM_WORLD_{name}": text for name, text in (("RANK", "3"), ("SIZE", "4"), ("LOCAL_RANK", "1"))
    }
    by_mpich = {"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1"}
    for environ in (by_open_mpi, by_mpich):
        assert env.place(environ, by_mpi=True, timeout=1) == env.Process(3, 4, 1, None, 1)


def test_torch_s_variables_win_over_mpirun_s() -> None:
    """torchrun inside of mpirun counts differently, and is nearer."""
    environ = {"RANK": "1", "WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"}
    found = env.place(environ, init_method="tcp://h:1", timeout=1)
    assert (found.rank, found.world_size) == (1, 2)


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({}, "WORLD_SIZE is not in the environment: start this under a launcher (distui, torchrun), or alone"),
        (tf_config(), "only TF_CONFIG, which TensorFlow programs read (in distui `launcher: env`, not `tf`)"),
        ({"SLURM_PROCID": "0"}, 'under srun give --rank "$SLURM_PROCID" --world-size "$SLURM_NTASKS"'),
    ],
)
def test_started_by_hand_or_by_another_launcher(environ: dict[str, str], words: str) -> None:
    """The message says what is missing, what there is instead, and how to start."""
    with pytest.raises(env.EnvError) as caught:
        env.place(environ, timeout=1)
    assert words in str(caught.value)


def test_a_line_is_written_in_one_piece(capfd: pytest.CaptureFixture[str]) -> None:
    """Every line of a rank says whose it is."""
    env.Process(1, 2, 0, None, 1).say("step 3")
    assert capfd.readouterr().out == "rank 1/2 step 3\n"


def test_a_task_finds_itself_in_its_cluster() -> None:
    """Type, index, address, and how many of its kind there are."""
    task = env.tf_task(tf_config())
    assert (task.type, task.index, task.address, task.name) == ("worker", 1, "10.0.0.2:2223", "worker 1/2")
    assert task.cluster == {kind: tuple(addresses) for kind, addresses in CLUSTER.items()}


@given(st.integers(1, 5), st.integers(-2, 7), st.booleans())
def test_exactly_the_indices_of_the_cluster_are_taken(workers: int, index: int, as_text: bool) -> None:
    """Any index of the list, also as a text, as TensorFlow takes it; no other."""
    environ = tf_config(
        cluster={"worker": [f"h:{port}" for port in range(1, workers + 1)]},
        task={"type": "worker", "index": str(index) if as_text else index},
    )
    if 0 <= index < workers:
        assert env.tf_task(environ).index == index
    else:
        assert f"worker goes from 0 to {workers - 1}" in refusal(environ)


def test_without_tf_config_it_says_how_to_start() -> None:
    """The cluster of one that the message shows is one that is taken."""
    said = refusal({})
    assert said.startswith("TF_CONFIG is not in the environment: start this under a launcher")
    assert env.tf_task({"TF_CONFIG": said.split("'")[1]}).name == "worker 0/1"
    assert "only RANK, which torch programs read" in refusal({"RANK": "0"})


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"cluster": None}, "TF_CONFIG has no cluster"),
        ({"cluster": {"master": ["h:1"]}}, "has a 'master': TensorFlow knows chief, worker, ps, evaluator"),
        ({"cluster": {"worker": []}}, "no list of addresses for worker"),
        ({"cluster": {"worker": {"0": "h:1"}}}, "no list of addresses for worker"),
        ({"cluster": {"worker": ["h"]}}, "has 'h' as a worker: give HOST:PORT"),
        ({"cluster": {"worker": ["h:0"]}}, "has 'h:0' as a worker"),
        ({"cluster": {"worker": [5]}}, "has 5 as a worker"),
        ({"cluster": {"worker": ["h:1", "h:2"], "ps": ["h:1"]}}, "has h:1 twice: every task needs a port of its own"),
        ({"cluster": {"chief": ["h:1", "h:2"]}}, "has 2 of chief: there is at most one"),
        ({"cluster": {"evaluator": ["h:1", "h:2"]}}, "has 2 of evaluator: there is at most one"),
        ({"cluster": {}}, "its cluster has nothing"),
        ({"task": None}, "task has the type None: its cluster has chief, worker, ps"),
        ({"task": {"type": "evaluator", "index": 0}}, "task has the type 'evaluator'"),
        ({"task": {"type": ["worker"], "index": 0}}, "task has the type ['worker']"),
        ({"task": {"type": "worker"}}, "task has the index None: worker goes from 0 to 1"),
        ({"task": {"type": "worker", "index": True}}, "task has the index True"),
    ],
)
def test_a_wrong_tf_config_is_told(changed: dict[str, Any], words: str) -> None:
    """Each way to be wrong has its own words."""
    assert words in refusal(tf_config(**changed))


@pytest.mark.parametrize("text", ["{", "worker", "[1]", "3", '"cluster"'])
def test_what_is_no_object_is_shown_how_it_looks(text: str) -> None:
    """A text cut by a shell's quotes is the usual mistake."""
    assert "it looks like {" in refusal({"TF_CONFIG": text})
