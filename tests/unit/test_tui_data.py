"""A job's data on the launch screen: in its form, and among what happens before the start."""

from __future__ import annotations

from distui.facts.host import Address, Engine, HostFacts, Nic
from distui.plan.model import RunPlan
from distui.plan.plan import plan
from distui.spec.hosts.inventory import Host, HostPick, Inventory
from distui.spec.job.job import DataMount, Job
from distui.tui.launch.before_lines import before_lines
from distui.tui.launch.form.form_rest import rest_lines
from distui.tui.paint.glyphs import ASCII
from distui.tui.paint.paint import Line
from distui.tui.paint.theme import DARK, palette, variables

LOOK = palette(DARK, DARK.to_color_system().generate() | variables(DARK) | dict(DARK.variables))
JOB = Job(
    "j",
    image="i",
    command=("x",),
    volumes=("/v:/w:ro",),
    data={
        "set": DataMount("/set", path="/mnt/set\x1b[2J", shared=True),
        "nas": DataMount("/nas", nfs="s:/x", mode="rw"),
        "big": DataMount("/big", url="https://h/big", sha256="0" * 64),
    },
)


def planned() -> RunPlan:
    """Its plan on one host."""
    nic = Nic("eth0", "ethernet", True, 1500, addresses=(Address("10.0.0.1", 24),))
    facts = HostFacts(
        host="h1", hostname="h1", home="/home/u", nics=(nic,), engine=Engine("docker"), default_route_nic="eth0"
    )
    made = plan(JOB, Inventory((Host("h1"),)), (HostPick("h1"),), {"h1": facts}, run_id="j-1", owner="o", version="1")
    assert isinstance(made, RunPlan), made
    return made


def test_the_form_lists_data_beside_volumes() -> None:
    """Where it comes from, where ranks see it, and how; what could drive the terminal is written out."""
    lines = [line.plain for line in rest_lines(JOB, None, 100, LOOK, ASCII)]
    (at,) = (i for i, line in enumerate(lines) if line.startswith(" Mounts") or "Mounts" in line)
    output = [" ".join(line.replace(ASCII.more, " ").split()) for line in lines[at + 2 :]]
    assert output == [
        "/v /w read-only",
        r"/mnt/set\x1b[2J /set read-only, shared",
        "s:/x /nas",
        "https://h/big /big read-only",
    ]


def test_before_the_start() -> None:
    """What is proved and what is fetched."""
    lines = [line.plain for line in before_lines(planned(), None, None, Line(), 300, LOOK, ASCII)]
    output = [" ".join(line.split()) for line in lines]
    (at,) = (i for i, line in enumerate(output) if line.startswith("data "))
    assert "set: /set (ro) is the hosts'" in output[at]
    assert "proved before the start" in output[at]
    assert output[at + 1].startswith("nas: /nas (rw) is NFS s:/x")
    assert "fetched to ~/.cache/distui/data/" in output[at + 2]
