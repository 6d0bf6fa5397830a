"""From no hosts.yaml to the first run, by keys alone: over the demo, and over hosts of one's own ssh config."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from lab.terminal import Terminal

pytestmark = pytest.mark.cluster

JOB = """\
version: 1
name: steps
hosts: h[1-2]
image: lab/python:1
ranks: {per_host: 1}
command: [sh, -c, 'i=0; while :; do i=$((i+1)); echo "step $i loss 1.$i"; sleep 0.2; done']
progress: {regex: 'step (?P<step>\\d+) loss (?P<loss>[\\d.]+)'}
stop_grace: 1s
"""


def run_and_stop(term: Terminal, job: str) -> None:
    """From the launch form to a run that runs, and to its end."""
    term.wait(f"Jobs › {job}", "L  launch")
    term.keys("L")
    term.wait(re.compile(r"Launch \S+\?"), "Cancel")
    term.keys("Right", "Enter")
    term.wait("RUNNING", re.compile(r"step \d+\S* loss"))
    term.keys("S")
    term.wait(re.compile(r"Stop \S+"), "Cancel")
    term.keys("Right", "Enter")
    term.wait("STOPPED")


def test_from_an_empty_home_to_the_first_run(lab: Any, tmp_path: Path) -> None:
    """Nothing but distui: the demo's hosts are made, a job of it runs, and all is gone afterwards."""
    home = tmp_path / "empty"
    home.mkdir()
    with Terminal(lab, home) as term:
        term.enter("distui")
        term.wait("There is no hosts.yaml yet", "a adds hosts by name", "d opens the demo")
        term.keys("d")
        term.wait("demo: 2 hosts on this machine", "2 up")
        term.keys("2")
        term.wait("counting", "failing")
        term.keys("/")
        term.type("counting")
        term.keys("Enter", "Enter")
        run_and_stop(term, "counting.yaml")
        term.keys("C-q")
        term.wait_shell()
        assert not (home / "hosts.yaml").exists()


def test_hosts_of_the_ssh_config_are_picked_and_used(lab: Any, home: Path) -> None:
    """Those that answer are picked at once, hosts.yaml is written, and a job runs on them."""
    (home / "hosts.yaml").unlink()
    (home / "job.yaml").write_text(JOB)
    with Terminal(lab, home) as term:
        term.enter("distui")
        term.wait("There is no hosts.yaml yet", "~/.ssh/config", re.compile(r"h3 .*answers in \d+ ms"))
        term.wait(re.compile(r"3 of \d+ hosts answer"))
        term.keys("A", "Enter")
        term.wait("A new job that runs as it is", "torchrun")
        term.keys("Enter")
        term.wait("Jobs › new-job.yaml")
        assert re.search(r"h\[?1", (home / "hosts.yaml").read_text())
        term.keys("Escape")
        term.wait("steps", "job.yaml", without="new-job.yaml")
        term.keys("Enter")
        run_and_stop(term, "job.yaml")
        assert not any(host.out("docker", "ps", "-q", "--filter", "label=distui.run").split() for host in lab.hosts)
        term.keys("C-q")
        term.wait_shell()


@pytest.mark.usefixtures("trainers")
def test_the_first_run_is_the_template_s_as_it_is(lab: Any, home: Path) -> None:
    """From no hosts.yaml: pick the hosts, take the first template, launch it. It has a rank on each host that was
    picked, and the image of the job here.
    """
    (home / "hosts.yaml").unlink()
    (home / "job.yaml").write_text(JOB.replace("lab/python:1", "lab/pytorch:1"))
    with Terminal(lab, home) as term:
        term.enter("distui")
        term.wait(re.compile(r"3 of \d+ hosts answer"))
        term.keys("A", "Enter")
        term.wait("A new job that runs as it is", "torchrun")
        term.keys("Enter")
        term.wait("Jobs › new-job.yaml", "lab/pytorch:1", "L  launch")
        term.keys("L")
        term.wait(re.compile(r"Launch \S+\?"), "Cancel")
        term.keys("Right", "Enter")
        term.wait(re.compile(r"step \d+ of 20: sum of all ranks 3"))
        term.wait("SUCCEEDED")
        assert not any(host.out("docker", "ps", "-q", "--filter", "label=distui.run").split() for host in lab.hosts)
        term.keys("C-q")
        term.wait_shell()
