"""`data:` of a job file: what may stand there, and every problem at its place."""

from __future__ import annotations

import pytest

from distui.errors import SpecError
from distui.spec.job.data_keys import nfs_parts
from distui.spec.job.job import DataMount, Job
from distui.spec.job.read_job import read_job

HEAD = "version: 1\nname: j\nimage: i\ncommand: [x]\n"


def job(text: str) -> Job:
    """The job with these lines below the head."""
    return read_job(HEAD + text, "job.yaml", environ={})


def problems(text: str) -> list[str]:
    """`LINE:COLUMN key: message` of each problem; line 1 is the first below the head."""
    with pytest.raises(SpecError) as caught:
        job(text)
    found = caught.value.problems
    return [f"{p.line - HEAD.count(chr(10))}:{p.column} {p.key}: {p.message}" for p in found]


def test_every_form() -> None:
    """A path with and without its keys, NFS, and paths that hold anything but a newline."""
    made = job(
        "data:\n"
        "  train: {path: /mnt/data, to: /data}\n"
        "  out: {path: ~/out, to: /out/, mode: rw, shared: true}\n"
        "  nas: {nfs: 'srv-1.lan:/export/a', options: 'nfsvers=4,soft', to: /nas}\n"
        "  odd: {path: '/a,b \"c\":-d', to: '/x:y,z'}\n"
    )
    assert made.data == {
        "train": DataMount("/data", path="/mnt/data"),
        "out": DataMount("/out/", path="~/out", mode="rw", shared=True),
        "nas": DataMount("/nas", nfs="srv-1.lan:/export/a", options="nfsvers=4,soft"),
        "odd": DataMount("/x:y,z", path='/a,b "c":-d'),
    }


def test_every_problem_at_its_line() -> None:
    """All at once, each where it is written."""
    messages = problems(
        "data:\n"
        "  -a: {path: /a, to: /a}\n"
        "  b: {to: /b, url: }\n"
        "  c: {path: /c, nfs: 's:/c', to: /c}\n"
        "  d: {path: d, to: d}\n"
        "  e: {nfs: /e, to: /e}\n"
        "  f: {path: /f, to: /f, options: soft}\n"
        "  g: {nfs: 's:/g', to: /g, shared: true}\n"
        "  h: {path: /h/../x, to: /}\n"
        "  i: {nfs: 's:/i', to: /i, options: 'addr=x'}\n"
        "  k: {nfs: 's:/k', to: /k, options: 'soft, ro'}\n"
        "  l: {nfs: 's:/l', to: /l, options: ro, mode: rw}\n"
        "  m: {path: /m, target: /m}\n"
        "  n: {path: /n, to: /n, shared: maybe}\n"
    )
    assert messages == [
        "2:3 data.-a: '-a' can't name a mount: letters, digits, '_', '.' and '-', at most 63",
        "3:6 data.b: says not where it comes from: add one of path, nfs, url",
        "4:22 data.c.nfs: can't stand beside path; choose one of path, nfs and url",
        "5:13 data.d.path: 'd' must be an absolute path on the hosts, or begin with ~/ (the login's home)",
        "5:20 data.d.to: 'd' must be an absolute path inside the container, such as /data",
        "6:12 data.e.nfs: '/e': expected server:/export",
        "7:34 data.f.options: only means something with nfs",
        "8:36 data.g.shared: only means something with path",
        "9:13 data.h.path: '/h/../x': write the path without '..'",
        "9:26 data.h.to: '/' must be an absolute path inside the container, such as /data",
        "10:37 data.i.options: addr follows from `nfs`; leave it out here",
        "11:37 data.k.options: ' ro' is not a mount option; write them as nfsvers=4,soft",
        "12:47 data.l.mode: rw contradicts the option ro; drop one of them",
        "13:6 data.m.to: missing: expected an absolute path inside the container",
        "13:17 data.m.target: unknown key, did you mean 'to'?",
        "14:33 data.n.shared: expected true or false",
    ]


def test_what_is_fetched() -> None:
    """A file with its sum; a folder with its file of sums; an object store with everything."""
    digest = "0a" * 32
    made = job(
        "data:\n"
        f"  a: {{url: 'https://h:8443/x/set%20a.tar?v=1', sha256: {digest}, to: /a.tar}}\n"
        "  b: {url: 'http://h/set/', sums: SHA256SUMS, to: /b}\n"
        "  c: {url: 's3://bucket/p/', endpoint: 'http://minio:9000', client: rclone, client_image: 'rclone/rclone:1',\n"
        "      secrets: [AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY], to: /c}\n"
        "secrets: [HF_TOKEN]\n"
    )
    keys = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    assert made.data == {
        "a": DataMount("/a.tar", url="https://h:8443/x/set%20a.tar?v=1", sha256=digest),
        "b": DataMount("/b", url="http://h/set/", sums="SHA256SUMS"),
        "c": DataMount(
            "/c",
            url="s3://bucket/p/",
            endpoint="http://minio:9000",
            client="rclone",
            client_image="rclone/rclone:1",
            secrets=keys,
        ),
    }
    assert (made.secrets, made.all_secrets) == (("HF_TOKEN",), ("HF_TOKEN", *keys))


@pytest.mark.parametrize(
    ("mount", "problem"),
    [
        ("url: 'ftp://h/x'", "url: 'ftp://h/x': expected https://, http://, s3:// or oss:// and a file, or a folder"),
        ("url: 'https://u:p@h/x'", "url: a URL is shown and kept: leave user and password out"),
        ("url: 'https://h/x?X-Amz-Signature=0'", "url: a URL is shown and kept, and this one holds a signature or key"),
        ("url: 's3://b/../x'", "url: 's3://b/../x': write the path without '..'"),
        ("url: 's3://b/a b'", "url: 's3://b/a b': expected"),
        ("url: 'https://h/set/'", "url: a web server can't be asked what is in a folder"),
        ("url: 's3://b/x', sha256: abc", "sha256: expected 64 hex digits"),
        ("url: 's3://b/p/', sha256: %s", "sha256: is for one file; name the folder's file of sums"),
        ("url: 's3://b/x', sums: S", "sums: is for a folder: end the url with /"),
        ("url: 's3://b/x/', sums: ../S", "sums: '../S' must be the plain name of a file in the folder"),
        ("url: 's3://b/x', client: curl", "client: can't fetch s3://; one of aws, s5cmd, rclone can"),
        ("url: 's3://b/x', client_image: i", "client_image: needs `client`, the program in it"),
        ("url: 'https://h/x', client: curl, client_image: i", "client_image: is not for http"),
        ("url: 'https://h/x', endpoint: 'http://h'", "endpoint: is for object stores"),
        ("url: 's3://b/x', endpoint: '\"x'", "endpoint: expected a URL"),
        ("url: 's3://b/x', mode: rw", "mode: what is fetched is kept for other runs: it can only be read"),
        ("url: 's3://b/x', path: /x", "url: can't stand beside path; choose one of path, nfs and url"),
        ("path: /x, secrets: [A]", "secrets: only means something with url"),
    ],
)
def test_what_can_not_be_fetched(mount: str, problem: str) -> None:
    """One problem each."""
    (messages,) = problems("data:\n  d: {to: /d, " + mount.replace("%s", "0" * 64) + "}\n")
    assert messages.partition(" ")[2].startswith(f"data.d.{problem}")


def test_one_place_in_the_container_for_each() -> None:
    """Two mounts, or a mount and a volume, at one target."""
    messages = problems(
        "volumes: ['/v:/data/']\ndata:\n  a: {path: /a, to: /data}\n  b: {path: /b, to: /b}\n  c: {path: /c, to: /b/}\n"
    )
    assert messages == [
        "3:21 data.a.to: '/data' is taken by volume '/v:/data/'",
        "5:21 data.c.to: '/b' is taken by data.b",
    ]


def test_not_at_the_place_of_the_code() -> None:
    """Which is `/work` where nothing else is said."""
    assert problems("code: ./\ndata:\n  a: {path: /a, to: /work}\n") == ["3:21 data.a.to: '/work' is taken by the code"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("nas:/a:b", ("nas", "/a:b")),
        ("[fd00::1]:/x", ("fd00::1", "/x")),
        ("10.0.0.1:/", ("10.0.0.1", "/")),
        ("/x", ("", "")),
        ("-o:/x", ("", "")),
        ("nas:x", ("", "")),
    ],
)
def test_nfs_sources(text: str, parts: tuple[str, str]) -> None:
    """Server and export; IPv6 in brackets."""
    assert nfs_parts(text) == parts
