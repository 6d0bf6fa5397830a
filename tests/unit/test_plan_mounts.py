"""`data:` in a plan: the flags as Docker reads them, refusals, words, JSON."""

from __future__ import annotations

import csv
import dataclasses
import json
import posixpath
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from distui.facts.host import Address, Engine, HostFacts, Nic
from distui.plan import serialize
from distui.plan.content import mounts
from distui.plan.model import Mount, NoPlan, RunPlan
from distui.plan.plan import plan
from distui.plan.text.render import render_text
from distui.spec.hosts.inventory import Host, HostPick, Inventory
from distui.spec.job.job import DataMount, Job, Rendezvous

JOB = Job("j", image="i", command=("x",), insight="off")
SITE = mounts.Site("/home/u", "j-1")


def make(job: Job, *, engine: Any = "docker") -> RunPlan | NoPlan:
    """A plan on one host."""
    nic = Nic("eth0", "ethernet", True, 1500, addresses=(Address("10.0.0.1", 24),))
    facts = HostFacts(
        host="h1", hostname="h1", home="/home/u", nics=(nic,), engine=Engine("docker"), default_route_nic="eth0"
    )
    inventory = Inventory((Host("h1", engine=engine),))
    return plan(job, inventory, (HostPick("h1"),), {"h1": facts}, run_id="j-1", owner="o", version="1")


def planned(**data: DataMount) -> RunPlan:
    """The plan of a job with these mounts."""
    made = make(dataclasses.replace(JOB, data=data))
    assert isinstance(made, RunPlan), made
    return made


def refused(data: DataMount, engine: Any, **more: Any) -> list[str]:
    """Why there is no plan."""
    made = make(dataclasses.replace(JOB, data={"d": data}, **more), engine=engine)
    assert isinstance(made, NoPlan), made
    return [str(p) for p in made.problems]


def mount_flags(made: RunPlan) -> list[str]:
    """The values of --mount in the first task's line."""
    start = made.tasks[0].start
    return [start[i + 1] for i, word in enumerate(start) if word == "--mount"]


def test_paths_are_bind_mounts() -> None:
    """Read-only unless said otherwise; `~/` is the login's home there."""
    made = planned(a=DataMount("/data/", path="/mnt//d"), b=DataMount("/out", path="~/o", mode="rw", shared=True))
    assert mount_flags(made) == [
        "type=bind,source=/mnt/d,target=/data,readonly",
        "type=bind,source=/home/u/o,target=/out",
    ]


def test_the_home_itself_and_what_is_beside_it() -> None:
    """`~/` has no name of its own below the home, and `..` leads out of it."""
    made = planned(
        a=DataMount("/a", path="~/"), b=DataMount("/b", path="~/x/.."), c=DataMount("/c", path="~/../shared/")
    )
    assert [mount.source for mount in made.mounts] == ["~", "~", "~/../shared"]
    assert mount_flags(made) == [
        "type=bind,source=/home/u,target=/a,readonly",
        "type=bind,source=/home/u,target=/b,readonly",
        "type=bind,source=/home/shared,target=/c,readonly",
    ]


def test_nfs_is_a_volume_described_in_the_line() -> None:
    """Nothing has to be made before; `ro` is in the options, since Docker refuses readonly for anonymous volumes."""
    made = planned(
        n=DataMount("/n", nfs="[fd00::1]:/ex", options="nfsvers=4,rw"), w=DataMount("/w", nfs="s:/w", mode="rw")
    )
    assert mount_flags(made) == [
        'type=volume,volume-driver=local,volume-opt=type=nfs,"volume-opt=o=addr=fd00::1,nfsvers=4,ro",'
        "volume-opt=device=:/ex,volume-label=distui.run=j-1,target=/n",
        "type=volume,volume-driver=local,volume-opt=type=nfs,volume-opt=o=addr=s,volume-opt=device=:/w,"
        "volume-label=distui.run=j-1,target=/w",
    ]


@given(st.text(st.characters(exclude_characters="\0\r\n", exclude_categories=("Cs",)), max_size=20))
def test_any_path_comes_back_from_the_flag(name: str) -> None:
    """Commas, quotes, colons, dashes, blanks: the flag is one CSV record whose fields hold them as they are."""
    source = f"/{name}"
    flag = mounts.flags([Mount("m", "path", source, f"{source}t", "ro", False)], SITE)[1]
    fields = next(csv.reader([flag], strict=True))
    assert fields == ["type=bind", f"source={source}", f"target={source}t", "readonly"]


def test_what_engines_can_not_do() -> None:
    """Without a container nothing is mounted; podman does not take NFS in its line."""
    path = DataMount("/data", path="/mnt/d")
    assert refused(path, "process") == [
        "h1: data.d: without a container ranks see the host's own /mnt/d, not /data (write to: /mnt/d)"
    ]
    nfs = DataMount("/n", nfs="s:/n")
    assert refused(nfs, "process") == [
        "h1: data.d: without a container NFS can't be mounted (mount it on the host, and write its path)"
    ]
    assert refused(nfs, "podman") == [
        "h1: data.d: only Docker mounts NFS by itself (mount it on the host, and write its path)"
    ]
    same = make(dataclasses.replace(JOB, data={"d": DataMount("/home/u/x", path="~/x")}), engine="process")
    assert isinstance(same, RunPlan)


def test_a_rendezvous_file_in_a_mount() -> None:
    """It is known on the host, to be removed after; ranks must be allowed to write it."""
    rendezvous = {"rendezvous": Rendezvous("file", "/data/meet")}
    job = dataclasses.replace(JOB, data={"d": DataMount("/data", path="/mnt", mode="rw")}, **rendezvous)  # type: ignore[arg-type]
    made = make(job)
    assert isinstance(made, RunPlan)
    assert posixpath.dirname(made.rendezvous_host_path or "") == "/mnt/meet"
    assert refused(DataMount("/data", path="/mnt"), "docker", **rendezvous) == [
        "h1: data.d: ranks can't meet at a file in it, since they may not write there (write mode: rw)"
    ]


def test_text_and_json() -> None:
    """Both say the kind, where it comes from and what is proved; the JSON gives the same plan."""
    made = planned(
        a=DataMount("/data", path="/mnt/d", shared=True),
        b=DataMount("/b", path="/mnt/b"),
        n=DataMount("/n", nfs="s:/n", mode="rw"),
    )
    section = render_text(made, width=200).partition("Data\n")[2].partition("\n\n")[0]
    assert section.splitlines() == [
        "  a: /data (ro) is the hosts' /mnt/d; must be one storage on all hosts, proved before the start",
        "  b: /b (ro) is the hosts' /mnt/b; must be on every host",
        "  n: /n (rw) is NFS s:/n (addr=s), mounted by each host's Docker as a volume of the container",
    ]
    written = json.loads(json.dumps(serialize.to_json(made)))
    assert written["mounts"][0] == {
        "name": "a", "kind": "path", "source": "/mnt/d", "target": "/data", "mode": "ro", "shared": True, "options": "",
        "fetch": None,
    }  # fmt: skip
    assert serialize.from_json(written) == made
    del written["mounts"]
    assert serialize.from_json(written).mounts == ()


def test_what_is_fetched() -> None:
    """Mounted from the cache of each host's login, read-only; the text says by what and how it is checked."""
    made = planned(
        f=DataMount("/f", url="https://h/f", sha256="ab" * 32),
        p=DataMount("/p", url="s3://b/p/", sums="SUMS", client="rclone", client_image="img", secrets=("K",)),
        n=DataMount("/n", url="oss://b/n"),
    )
    folders = [mount.fetch.folder for mount in made.mounts if mount.fetch is not None]
    assert mount_flags(made) == [
        f"type=bind,source=/home/u{folder[1:]}/data,target=/{name},readonly"
        for folder, name in zip(folders, "fpn", strict=True)
    ]
    section = render_text(made, width=300).partition("Data\n")[2].partition("\n\n")[0]
    assert section.splitlines() == [
        f"  f: /f (ro) is https://h/f, fetched to {folders[0]} on every host before the start by curl; "
        "sha256 abababababab...",
        f"  p: /p (ro) is s3://b/p/, fetched to {folders[1]} on every host before the start by rclone of image img; "
        "every file checked by SUMS",
        f"  n: /n (ro) is oss://b/n, fetched to {folders[2]} on every host before the start by ossutil or rclone; "
        "not checked, since the job has no checksum; once fetched it is kept as it is",
    ]
    assert made.tasks[0].secrets == ()
    assert serialize.from_json(json.loads(json.dumps(serialize.to_json(made)))) == made
    assert refused(DataMount("/f", url="https://h/f"), "process") == [
        "h1: data.d: without a container what is fetched can't be put at /f "
        "(fetch it in the command, or have it on the host)"
    ]
