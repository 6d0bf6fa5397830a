"""What blank jobs start runs as it is, with real torch: as ranks that meet over loopback, and under torchrun."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from distui.cluster.jobs.job_templates import TEMPLATES, blank_job
from distui.spec.job.placeholders import fill
from distui.spec.job.read_job import read_job
from fakehosts.ports import free_port

PLACE = {"backend": "gloo", "node_rank": "0", "nnodes": "1", "master_addr": "127.0.0.1", "master_port": "29611"}
"""What placeholders stand for; ranks that really meet do so at a free port."""


def environment() -> dict[str, str]:
    """Ranks meet over loopback."""
    return {**os.environ, "GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo"}


def command(template: str) -> list[str]:
    """The words that a host would start, with this Python."""
    job = read_job(blank_job(template, "x", ("h1", "h2"), "an/image"), "x.yaml", environ={})
    words = [fill(word, PLACE) for word in job.command]
    return [sys.executable if word == "python3" else word for word in words]


def figures(template: str, line: str) -> dict[str, str]:
    """What the job's `progress` reads in a line."""
    job = read_job(blank_job(template, "x", ("h1", "h2"), "an/image"), "x.yaml", environ={})
    found = re.search(job.progress or "nothing", line)
    assert found is not None, line
    return found.groupdict()


@pytest.mark.parametrize("template", list(TEMPLATES))
@pytest.mark.parametrize("image", [None, "an/image:1"])
def test_it_is_a_job(template: str, image: str | None) -> None:
    """With and without an image, on hosts or on none."""
    job = read_job(blank_job(template, "a-name", ("h1", "h2") if image else (), image), "x.yaml", environ={})
    assert (job.name, job.image, job.hosts is not None) == ("a-name", image, image is not None)
    assert job.launcher == {"torch": "env", "tf-ps": "tf"}.get(template, template)


@pytest.mark.parametrize("template", sorted(TEMPLATES.keys() - {"tf-ps"}))
def test_gpus_are_asked_for_by_a_line_that_is_there(template: str) -> None:
    """As a comment, so that it runs where there are none."""
    text = blank_job(template, "x", ("h1", "h2"), "an/image")
    assert read_job(text, "x.yaml", environ={}).gpus_per_host is None
    asked = text.replace("# gpus_per_host", "gpus_per_host")
    assert read_job(asked, "x.yaml", environ={}).gpus_per_host == "all"


def test_torch(tmp_path: Path) -> None:
    """Two ranks add up what they have."""
    meet = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2", "LOCAL_RANK": "0"}
    ranks = [
        subprocess.Popen(
            command("torch"), text=True, stdout=-1, stderr=-1, cwd=tmp_path, env=environment() | meet | {"RANK": rank}
        )
        for rank in "01"
    ]
    for rank in ranks:
        out, err = rank.communicate(timeout=600)
        last = out.splitlines()[-1:]
        assert (rank.returncode, last) == (0, ["step 20 of 20: sum of all ranks 2, loss 0.0019"]), err
        assert figures("torch", last[0]) == {"step": "20", "total": "20", "loss": "0.0019"}


def test_torchrun(tmp_path: Path) -> None:
    """The words after torchrun's own; both print to one pipe, unbuffered as in a run, and keep lines whole."""
    argv = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(free_port())]
    done = subprocess.run(
        [*argv, *command("torchrun")], check=False, text=True, capture_output=True, timeout=600, cwd=tmp_path,
        env=environment() | {"PYTHONUNBUFFERED": "1", "TMPDIR": str(tmp_path)},  # where torchrun leaves a folder
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert sorted(line.split(", loss ")[0] for line in done.stdout.splitlines()) == sorted(
        2 * [f"step {step} of 20: sum of all ranks 2" for step in range(1, 21)]
    )
    assert all(figures("torchrun", line)["loss"] for line in done.stdout.splitlines())


def test_command() -> None:
    """A shell loop, told where it is."""
    done = subprocess.run(command("command"), check=True, text=True, capture_output=True, timeout=600)
    last = done.stdout.splitlines()[-1]
    assert last == "step 10 of 10: node 0 of 1, the first is 127.0.0.1:29611"
    assert figures("command", last) == {"step": "10", "total": "10"}


@pytest.mark.parametrize(
    ("template", "line"),
    [("tf", "step 7 of 20: sum of all workers 2"), ("tf-ps", "step 7 of 20: counted by workers 7")],
)
def test_what_tensorflow_prints_is_read(template: str, line: str) -> None:
    assert line.split(":")[1].split()[0] in TEMPLATES[template].text
    assert figures(template, line) == {"step": "7", "total": "20"}
