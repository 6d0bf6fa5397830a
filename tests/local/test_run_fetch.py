"""Fetching data on a host: the real script against a web server that breaks, lies and refuses, and stub clients."""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import http.server
import ipaddress
import os
import re
import shutil
import signal
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from distui.errors import HostError, HostUnreachable, SessionLost, UsageError
from distui.plan.content.fetch import client_argv, contained, fetch_of
from distui.plan.content.mounts import mounts_of
from distui.plan.model import Fetch
from distui.runs.hosts.link import HostLink
from distui.runs.launch.data import so_far
from distui.runs.launch.preflight import fetch_row
from distui.runs.task.fetch import HostFetch, There, look, script, secret_lines
from distui.session import Completed
from distui.spec.job.job import DataMount, Job
from fakehosts.hosts import FakeConnector, FakeHost
from fakehosts.interrupted import interrupt, moments
from fakehosts.runs import plan_for, until
from fakehosts.web import Web

BIG = bytes(range(256)) * 4000


@pytest.fixture
def web() -> Iterator[Web]:
    """A web server on a free port."""
    with Web() as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server
        server.shutdown()


class Host:
    """A home folder where the script runs."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.cache = home / "cache"
        self.dir = self.cache / "k"

    def argv(self, url: str, *, sha: str = "", sums: str = "", client: tuple[str, ...] = ("curl",)) -> tuple[str, ...]:
        kind = "folder" if url.endswith("/") else "file"
        return ("sh", "-c", script(), "distui-fetch", str(self.dir), "t0ken", url, kind, sha, sums, *client)

    def fetch(self, url: str, input: str = "", **more: Any) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "HOME": str(self.home), "PATH": f"{self.home}:{os.environ['PATH']}"}
        done = subprocess.run(self.argv(url, **more), input=input, capture_output=True, text=True, env=env, timeout=60)
        assert not (self.cache / "k.lock").exists()
        return done

    def stub(self, name: str, text: str) -> None:
        (self.home / name).write_text(f"#!/bin/sh\n{text}\n")
        (self.home / name).chmod(0o755)

    @property
    def left(self) -> list[str]:
        return sorted(str(p.relative_to(self.cache)) for p in self.cache.rglob("*") if p.is_file())


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """A host without data."""
    return Host(tmp_path)


def sha(data: bytes) -> str:
    """As sha256sum prints it."""
    return hashlib.sha256(data).hexdigest()


def test_once_and_then_it_is_there(host: Host, web: Web) -> None:
    """Fetched, checked, put in place readable for all; the second time nothing is asked for."""
    web.files["/a.bin?v=1"] = BIG
    assert host.fetch(f"{web.url}/a.bin?v=1", sha=sha(BIG)).stdout.split() == ["fetched"]
    assert host.left == ["k/about", "k/data"]
    assert (host.dir / "data").read_bytes() == BIG
    assert (host.dir / "data").stat().st_mode & 0o777 == 0o644
    web.asked.clear()
    assert host.fetch(f"{web.url}/a.bin?v=1", sha=sha(BIG)).stdout.split()[0] == "had"
    assert web.asked == []


def test_data_that_was_removed_alone_is_fetched_again(host: Host, web: Web) -> None:
    """What is left of it is no data: the start ended with the engine's "bind source path does not exist"."""
    web.files["/a"] = BIG
    assert host.fetch(f"{web.url}/a", sha=sha(BIG)).returncode == 0
    (host.dir / "data").unlink()
    assert host.fetch(f"{web.url}/a", sha=sha(BIG)).stdout.split() == ["fetched"]
    assert host.left == ["k/about", "k/data"]


def test_data_that_was_moved_to_a_disk_that_is_not_there_now(host: Host, web: Web) -> None:
    """The link that was put in its place stays, and a disk that may be too small is not filled."""
    web.files["/a"] = BIG
    assert host.fetch(f"{web.url}/a", sha=sha(BIG)).returncode == 0
    (host.dir / "data").unlink()
    (host.dir / "data").symlink_to(host.home / "nowhere")
    web.asked.clear()
    done = host.fetch(f"{web.url}/a", sha=sha(BIG))
    said = f"{host.dir}/data is a link that leads nowhere: is its disk mounted?\n"
    assert (done.returncode, done.stderr, web.asked) == (1, said, [])
    assert (host.dir / "data").is_symlink()


@pytest.mark.parametrize("link", [True, False])
def test_what_is_in_the_way_is_said_before_the_fetch(host: Host, web: Web, link: bool) -> None:
    """A link that leads nowhere (a disk that is not mounted) and a file are not removed; nothing is asked for."""
    web.files["/a"] = BIG
    host.cache.mkdir()
    host.dir.symlink_to(host.home / "nowhere") if link else host.dir.write_text("mine")
    done = host.fetch(f"{web.url}/a", sha=sha(BIG))
    assert (done.returncode, done.stderr) == (1, f"{host.dir} is in the way: it is no folder with data in it\n")
    assert web.asked == []
    assert host.dir.is_symlink() == link


def test_it_is_on_the_disk_before_it_counts(host: Host, web: Web) -> None:
    """Of a host that loses its power there is all of it, or it is fetched again."""
    web.files["/a"] = BIG
    host.stub("sync", f'ls {host.cache} >>"{host.home}/synced"; wc -c <{host.cache}/k.part/data >>"{host.home}/synced"')
    assert host.fetch(f"{web.url}/a", sha=sha(BIG)).returncode == 0
    assert (host.home / "synced").read_text().split() == ["k.lock", "k.part", str(len(BIG))]


@pytest.mark.parametrize("knows", [True, False], ids=["full", "an old sync"])
def test_what_the_disk_does_not_keep_is_not_put_in_place(host: Host, web: Web, knows: bool) -> None:
    """NFS over its quota takes everything, and says so when it is to be written; a sync without -f writes all disks."""
    web.files["/a"] = BIG
    host.stub(
        "sync",
        f"""[ "$*" = "-f /" ] && exit {0 if knows else 1}
[ -z "$*" ] || {{ echo "sync: error syncing '.': Disk quota exceeded" >&2; exit 1; }}""",
    )
    done = host.fetch(f"{web.url}/a", sha=sha(BIG))
    if knows:
        said = "what was fetched could not be written to the disk: sync: error syncing '.': Disk quota exceeded"
        assert (done.returncode, done.stderr.strip(), host.left) == (1, said, [])
    else:
        assert (done.stdout.split(), host.left) == (["fetched"], ["k/about", "k/data"])


def test_a_broken_connection_goes_on_where_it_was(host: Host, web: Web) -> None:
    """Twice cut, each byte is asked for once."""
    web.files["/a"] = BIG
    web.cut, web.cuts = 400_000, 2
    assert host.fetch(f"{web.url}/a", sha=sha(BIG)).returncode == 0
    assert web.asked == ["/a", "/a bytes=400000-", "/a bytes=800000-"]
    assert (host.dir / "data").read_bytes() == BIG


def test_an_earlier_fetch_is_gone_on_with(host: Host, web: Web) -> None:
    """What is there is not fetched again, where a checksum can tell that it was right."""
    web.files["/a"] = BIG
    part = host.cache / "k.part"
    part.mkdir(parents=True)
    (part / "data").write_bytes(BIG[:1000])
    assert host.fetch(f"{web.url}/a", sha=sha(BIG)).returncode == 0
    assert web.asked == ["/a bytes=1000-"]


def test_without_a_checksum_it_begins_again(host: Host, web: Web) -> None:
    """Nobody could tell that the two halves are of one file."""
    web.files["/a"] = BIG
    part = host.cache / "k.part"
    part.mkdir(parents=True)
    (part / "data").write_bytes(b"of another version")
    assert host.fetch(f"{web.url}/a").returncode == 0
    assert (host.dir / "data").read_bytes() == BIG


OTHER = bytes(reversed(range(256))) * 4000


def test_without_a_checksum_the_rest_is_of_the_same_file(host: Host, web: Web) -> None:
    """The server says so of a file that is as it was: each byte is asked for once."""
    web.files["/a"] = BIG
    web.cut, web.cuts = 400_000, 2
    assert host.fetch(f"{web.url}/a").returncode == 0
    assert web.asked == ["/a", "/a bytes=400000-", "/a bytes=800000-"]
    assert (host.dir / "data").read_bytes() == BIG


@pytest.mark.parametrize(("states", "head"), [(True, True), (False, True), (True, False)])
@pytest.mark.parametrize("when", ["broken", "asked"])
def test_a_source_that_changes_is_not_two_files_in_one(
    host: Host, web: Web, when: str, states: bool, head: bool
) -> None:
    """As the connection breaks, or as the rest is asked for: what is put in place is one of them, whole."""
    web.files["/a"] = BIG
    web.cut, web.cuts, web.states, web.head = 400_000, 1, states, head
    web.broken, web.then = (OTHER, {}) if when == "broken" else (b"", {2: OTHER})
    done = host.fetch(f"{web.url}/a")
    assert (done.returncode, done.stderr) == (0, "")
    assert (host.dir / "data").read_bytes() == OTHER


def test_a_connection_that_always_breaks_needs_a_checksum(host: Host, web: Web) -> None:
    """Where the server does not tell one state of the file from another, it is not begun again for ever."""
    web.files["/a"] = BIG
    web.cut, web.cuts, web.states = 400_000, 99, False
    done = host.fetch(f"{web.url}/a")
    assert done.returncode == 1
    assert "with its sha256 it goes on where it was" in done.stderr
    assert host.left == []


def short_pauses(host: Host) -> None:
    """They are noted; the beat is as it was."""
    host.stub("sleep", '[ "$1" = 3 ] || { echo "$1" >>"$HOME/pauses"; exec /bin/sleep 0.01; }; exec /bin/sleep 3')


def outage(host: Host, *calls: int) -> None:
    """These calls of curl find no way to the server."""
    short_pauses(host)
    numbers = " ".join(map(str, calls))
    host.stub(
        "curl",
        f"""n=$(($(cat "$HOME/n" 2>/dev/null || echo 0) + 1)); echo "$n" >"$HOME/n"
case " {numbers} " in *" $n "*) echo "curl: (6) Could not resolve host: w" >&2; exit 6;; esac
exec {shutil.which("curl")} "$@\"""",
    )


def pauses(host: Host) -> list[int]:
    """How long the script would have slept."""
    return [int(word) for word in (host.home / "pauses").read_text().split()]


@pytest.mark.parametrize(
    ("sum_known", "calls"),
    [(True, range(3, 10)), (False, range(3, 10)), (False, range(5, 12))],
    ids=["with its sum", "without", "without, as all of it is there"],
)
def test_an_outage_of_a_minute_or_two_throws_nothing_away(
    host: Host, web: Web, sum_known: bool, calls: Sequence[int]
) -> None:
    """That the server is out of reach tells nothing of the file: each byte is asked for once."""
    web.files["/a"] = BIG
    web.cut, web.cuts = 400_000, 1
    outage(host, *calls)
    done = host.fetch(f"{web.url}/a", sha=sha(BIG) if sum_known else "")
    assert (done.returncode, done.stderr) == (0, "")
    assert web.asked == ["/a", "/a bytes=400000-"]
    assert (host.dir / "data").read_bytes() == BIG
    assert sum(pauses(host)) > 90


@pytest.mark.parametrize("sum_known", [True, False])
def test_an_outage_that_does_not_end(host: Host, web: Web, sum_known: bool) -> None:
    """It is given up after two minutes, in the client's words; what is there stays."""
    web.files["/a"] = BIG
    web.cut, web.cuts = 400_000, 1
    outage(host, *range(3, 60))
    done = host.fetch(f"{web.url}/a", sha=sha(BIG) if sum_known else "")
    assert (done.returncode, done.stderr) == (
        1,
        f"can't fetch {web.url}/a: curl: (6) Could not resolve host: w\n",
    )
    assert (host.cache / "k.part/data").read_bytes() == BIG[:400_000]
    assert pauses(host) == [1, 2, 4, 8, 16, 30, 30, 30]


def test_an_address_that_never_answers(host: Host, web: Web) -> None:
    """It is a wrong one, say: nobody waits two minutes for that."""
    outage(host, *range(1, 60))
    assert "Could not resolve host" in host.fetch(f"{web.url}/a", sha=sha(BIG)).stderr
    assert pauses(host) == [1, 2]


@pytest.mark.parametrize("code", [503, 429])
@pytest.mark.parametrize(
    ("sum_known", "requests"),
    [(True, range(3, 6)), (False, range(3, 6)), (False, range(4, 5)), (False, range(5, 8)), (True, range(1, 3))],
    ids=["the rest", "whether it is the same", "the rest of it", "whether it was the same", "the first ones"],
)
def test_a_server_that_is_too_busy_is_asked_again(
    host: Host, web: Web, sum_known: bool, requests: Sequence[int], code: int
) -> None:
    """That is no word about the file, nor about ranges: what is there was thrown away."""
    web.files["/a"] = BIG
    web.cut, web.cuts, web.refuses = 400_000, 1, dict.fromkeys(requests, code)
    short_pauses(host)
    done = host.fetch(f"{web.url}/a", sha=sha(BIG) if sum_known else "")
    assert (done.returncode, done.stderr) == (0, "")
    assert web.asked == ["/a", "/a bytes=400000-"]
    assert (host.dir / "data").read_bytes() == BIG


@pytest.mark.parametrize("code", [403, 404])
@pytest.mark.parametrize(("sum_known", "first"), [(True, 3), (False, 3), (False, 4), (False, 5)])
def test_a_server_that_refuses_the_rest(host: Host, web: Web, sum_known: bool, first: int, code: int) -> None:
    """Its words, at once; what is there stays."""
    web.files["/a"] = BIG
    web.cut, web.cuts, web.refuses = 400_000, 1, dict.fromkeys(range(first, 60), code)
    short_pauses(host)
    done = host.fetch(f"{web.url}/a", sha=sha(BIG) if sum_known else "")
    said = f"can't fetch {web.url}/a: curl: (22) The requested URL returned error: {code}\n"
    assert (done.returncode, done.stderr) == (1, said)
    there = BIG if first == 5 else BIG[:400_000]
    assert (host.cache / "k.part/data").read_bytes() == there
    assert pauses(host) == [1]


def test_an_old_curl_says_that_there_is_no_such_range(host: Host, web: Web) -> None:
    """A new one takes it for success. The beginning of other data is thrown away, for once."""
    web.files["/a"] = BIG
    part = host.cache / "k.part"
    part.mkdir(parents=True)
    (part / "data").write_bytes(b"x" * 1000)
    said = "curl: (22) The requested URL returned error: 416 Requested Range Not Satisfiable"
    host.stub(
        "curl",
        f"""case $* in *" -C - "*) [ ! -s data ] || {{ echo "{said}" >&2; exit 22; }};; esac
exec {shutil.which("curl")} "$@\"""",
    )
    done = host.fetch(f"{web.url}/a", sha=sha(BIG))
    assert (done.returncode, done.stderr, web.asked) == (0, "", ["/a"])
    assert (host.dir / "data").read_bytes() == BIG


def test_a_question_that_is_not_answered_can_be_stopped(host: Host, web: Web) -> None:
    """The fetch ends and the lock is free while a server keeps it waiting for the file's length."""
    process = subprocess.Popen(
        host.argv(f"{web.url}/hangs"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True
    )
    assert web.hangs.wait(60)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert not (host.cache / "k.lock").exists()


def test_no_question_waits_for_ever(host: Host) -> None:
    """Each call of curl has a limit, for the whole of it or for its speed."""
    host.stub("curl", f'echo "$*" >>{host.home}/calls; exit 7')
    assert host.fetch("http://127.0.0.1:1/a").returncode == 1
    calls = (host.home / "calls").read_text().splitlines()
    assert calls and all("--max-time" in call or "--speed-time" in call for call in calls)


@pytest.mark.parametrize("old", [b"x" * 1000, b"x" * len(BIG), b"x" * (len(BIG) + 1)])
def test_the_beginning_of_other_data_is_thrown_away(host: Host, web: Web, old: bytes) -> None:
    """Shorter, as long, longer: the file is fetched from its beginning once, and right."""
    web.files["/a"] = BIG
    part = host.cache / "k.part"
    part.mkdir(parents=True)
    (part / "data").write_bytes(old)
    done = host.fetch(f"{web.url}/a", sha=sha(BIG))
    assert (done.returncode, done.stderr) == (0, "")
    assert (host.dir / "data").read_bytes() == BIG


def test_a_server_without_ranges(host: Host, web: Web) -> None:
    """It sends everything again."""
    web.files["/a"] = BIG
    web.ranges, web.cut, web.cuts = False, 5000, 1
    assert host.fetch(f"{web.url}/a", sha=sha(BIG)).returncode == 0
    assert (host.dir / "data").read_bytes() == BIG


def test_a_wrong_checksum(host: Host, web: Web) -> None:
    """Both sums are said; nothing is put in place and nothing stays."""
    web.files["/a"] = BIG
    done = host.fetch(f"{web.url}/a", sha="0" * 64)
    assert done.returncode == 1
    assert f"{web.url}/a has sha256 {sha(BIG)}, expected {'0' * 64}" in done.stderr
    assert list(host.cache.iterdir()) == []


class Downgrade(http.server.BaseHTTPRequestHandler):
    """Leads from https to an address without."""

    to = ""

    def do_GET(self) -> None:
        self.send_response(302)
        self.send_header("Location", f"{self.to}{self.path}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET

    def log_message(self, format: str, *args: object) -> None:
        pass


def certificate(path: Path) -> Path:
    """A key and a certificate of its own for 127.0.0.1."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    place = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.IPv4Address("127.0.0.1"))])
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now - day, now + day)
    signed = made.add_extension(place, critical=False).sign(key, hashes.SHA256())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + signed.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.mark.parametrize("sum_known", [True, False])
def test_https_does_not_lead_to_http(
    host: Host, web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sum_known: bool
) -> None:
    """A server of https that redirects to http: nothing is asked there, whoever sits in between."""
    web.files["/f"] = b"forged"
    pem = certificate(tmp_path / "server.pem")
    monkeypatch.setenv("CURL_CA_BUNDLE", str(pem))
    secure = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("To", (Downgrade,), {"to": web.url}))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    secure.socket = context.wrap_socket(secure.socket, server_side=True)
    threading.Thread(target=secure.serve_forever, args=(0.02,), daemon=True).start()
    try:
        done = host.fetch(f"https://127.0.0.1:{secure.server_port}/f", sha=sha(b"forged") if sum_known else "")
    finally:
        secure.shutdown()
        secure.server_close()
    assert done.returncode != 0
    assert "it leads to an address that is not https, which is not followed" in done.stdout + done.stderr
    assert web.asked == []
    assert host.left == []


def test_what_is_not_there(host: Host, web: Web) -> None:
    """The server's answer; nothing stays."""
    done = host.fetch(f"{web.url}/no")
    assert done.stderr.strip() == f"can't fetch {web.url}/no: curl: (22) The requested URL returned error: 404"
    assert list(host.cache.iterdir()) == []


def test_a_disk_that_is_too_small(host: Host, web: Web) -> None:
    """Known before anything is fetched; `df` of a full disk is a stand-in here."""
    web.files["/a"] = BIG
    host.stub("df", "echo Filesystem; echo d 100 90 10 90% /")
    done = host.fetch(f"{web.url}/a", sha=sha(BIG))
    assert "has 1024000 bytes" in done.stderr
    assert "only 0 MB are free" in done.stderr
    assert web.asked == []
    assert list(host.cache.iterdir()) == []


FILES = {"a.bin": BIG, "sub/b #1?%.txt": b"b", "sub/deep/ü": b"u"}
SUMS = "".join(f"{sha(data)}  {name}\n" for name, data in FILES.items()).encode()


def serve(web: Web) -> None:
    """A folder with its file of sums."""
    web.files = {f"/set/{name}": data for name, data in FILES.items()}
    web.files["/set/SUMS"] = SUMS


def test_a_folder_by_its_sums(host: Host, web: Web) -> None:
    """Every file that the sums name, whatever its name."""
    serve(web)
    done = host.fetch(f"{web.url}/set/", sums="SUMS", sha=sha(SUMS))
    assert (done.returncode, done.stderr) == (0, "")
    found = {
        str(p.relative_to(host.dir / "data")): p.read_bytes() for p in (host.dir / "data").rglob("*") if p.is_file()
    }
    assert found == {**FILES, "SUMS": SUMS}


def test_folders_and_files_of_other_data_that_an_earlier_fetch_began(host: Host, web: Web) -> None:
    """Where the source has a file now there was a folder, and the other way round: they were in the way for ever."""
    serve(web)
    data = host.cache / "k.part/data"
    (data / "a.bin/of").mkdir(parents=True)
    (data / "sub").write_text("a file")
    done = host.fetch(f"{web.url}/set/", sums="SUMS")
    assert (done.returncode, done.stderr) == (0, "")
    assert (host.dir / "data/a.bin").read_bytes() == BIG
    assert (host.dir / "data/sub/deep/ü").is_file()


def test_a_folder_with_one_wrong_file(host: Host, web: Web) -> None:
    """It is named with both sums; the next fetch gets that one only."""
    serve(web)
    web.files["/set/a.bin"] = b"other"
    done = host.fetch(f"{web.url}/set/", sums="SUMS")
    assert f"a.bin has sha256 {sha(b'other')}, expected {sha(BIG)}" in done.stderr
    assert not host.dir.exists()
    web.files["/set/a.bin"] = BIG
    web.asked.clear()
    assert host.fetch(f"{web.url}/set/", sums="SUMS").returncode == 0
    assert web.asked == ["/set/SUMS", "/set/a.bin"]


@pytest.mark.parametrize(
    "line", ["no sum", f"{'0' * 64}  ../x", f"{'0' * 64}  /etc/x", f"{'0' * 64}  a//b", f"{'0' * 63}  a"]
)
def test_sums_that_lead_elsewhere(host: Host, web: Web, line: str) -> None:
    """No file outside the folder is ever written."""
    web.files["/set/SUMS"] = line.encode() + b"\n"
    done = host.fetch(f"{web.url}/set/", sums="SUMS")
    assert "not a line of sha256sum" in done.stderr
    assert list(host.home.rglob("x")) == []


@pytest.mark.parametrize("client", ["curl", "aws"])
def test_the_last_sum_may_have_no_line_s_end(host: Host, web: Web, client: str) -> None:
    """Its file is fetched and checked as all others are; it was passed over, unchecked."""
    serve(web)
    web.files["/set/SUMS"] = SUMS.rstrip(b"\n")
    (host.home / "given").write_bytes(web.files["/set/SUMS"])
    host.stub("aws", f"mkdir -p data/sub/deep; cp {host.home}/given data/SUMS; echo x >data/sub/deep/ü")
    if client == "curl":
        web.files["/set/sub/deep/ü"] = b"wrong"
    done = host.fetch(f"{web.url}/set/", sums="SUMS", client=(client,))
    assert done.returncode == 1
    assert "sub/deep/ü has sha256" in done.stderr
    assert not host.dir.exists()


@pytest.mark.parametrize("text", [b"", b"\n# none\r\n", b"\0\0"])
@pytest.mark.parametrize("client", ["curl", "aws"])
def test_sums_that_name_nothing(host: Host, web: Web, text: bytes, client: str) -> None:
    """Nothing was checked by them, and nothing is put in place."""
    web.files["/set/SUMS"] = text
    (host.home / "given").write_bytes(text)
    host.stub("aws", f"mkdir -p data; cp {host.home}/given data/SUMS; echo x >data/x")
    done = host.fetch(f"{web.url}/set/", sums="SUMS", client=(client,))
    assert (done.returncode, done.stderr) == (1, "SUMS names no file, so that nothing could be checked by it\n")
    assert not host.dir.exists()


def test_a_client_of_the_host(host: Host) -> None:
    """It starts in the folder, has the secrets in its environment only, and what it says last is what is told."""
    host.stub("aws", 'echo "$AWS_KEY $*" >data; [ "$AWS_KEY" = "a b" ] || { echo first >&2; echo denied >&2; exit 1; }')
    argv = ("aws", "s3", "cp", "s3://b/k", "data")
    assert host.fetch("s3://b/k", client=argv, input="AWS_KEY=wrong\n").stderr == "s3://b/k: denied\n"
    assert host.fetch("s3://b/k", client=argv, input="AWS_KEY=a b\n").stdout.split() == ["fetched"]
    assert (host.dir / "data").read_text() == "a b s3 cp s3://b/k data\n"


def test_secrets_do_not_steer_the_script(host: Host) -> None:
    """Whatever they are called."""
    host.stub("aws", "echo x >data")
    taken = "".join(f"{name}=/nowhere\n" for name in ("dir", "part", "lock", "token", "kind", "sums"))
    assert host.fetch("s3://b/k", client=("aws",), input=taken).stdout.split() == ["fetched"]
    assert host.left == ["k/about", "k/data"]


def test_a_folder_by_a_client(host: Host) -> None:
    """Checked by the sums that came with it; a file that did not come is named."""
    host.stub(
        "aws", f"mkdir -p data; echo x >data/x; printf '{sha(b'x' + bytes([10]))}  x\\n{'0' * 64}  y\\n' >data/SUMS"
    )
    done = host.fetch("s3://b/p/", sums="SUMS", client=("aws",))
    assert "the checksum is wrong: y is missing" in done.stderr
    assert not host.dir.exists()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("s3://b/typo/", "s3://b/typo/ has no file\n"),
        ("s3://b/typo", "s3://b/typo is not there: its client ended without an error, and left nothing\n"),
    ],
)
def test_a_client_that_finds_nothing(host: Host, url: str, said: str) -> None:
    """`aws s3 sync` of a prefix without objects succeeds: no empty folder is kept as the data for ever."""
    host.stub("aws", "exit 0")
    done = host.fetch(url, client=("aws",))
    assert (done.returncode, done.stderr) == (1, said)
    assert not host.dir.exists()


@pytest.mark.parametrize(
    ("says", "said"),
    [
        ("printf '\\rProgress 1%%\\rProgress 2%%\\rError: AccessDenied' >&2; exit 3", "Error: AccessDenied"),
        (
            "echo 'docker: pull access denied.' >&2; echo \"See 'docker run --help'.\" >&2; exit 125",
            "docker: pull access denied.",
        ),
        (
            "echo 'docker: denied' >&2; echo; echo \"Run 'docker run --help' for more information\" >&2; exit 125",
            "docker: denied",
        ),
        ("exit 3", "its client ended with exit 3 and said nothing"),
    ],
)
def test_the_last_words_of_a_client(host: Host, says: str, said: str) -> None:
    """Progress is written over with carriage returns; of a silent one its exit is said."""
    host.stub("ossutil", says)
    assert host.fetch("oss://b/p/", client=("ossutil",)).stderr == f"oss://b/p/: {said}\n"


@pytest.mark.parametrize(
    ("client", "goes_on"),
    [
        (("aws",), True),
        (("rclone",), True),
        (("docker", "run", "--entrypoint", "rclone", "img", "sync"), True),
        (("s5cmd",), False),
        (("ossutil",), False),
        (("docker", "run", "--entrypoint", "s5cmd", "img", "sync"), False),
    ],
)
def test_a_folder_without_sums_goes_on_where_its_client_knows_what_is_whole(
    host: Host, client: tuple[str, ...], goes_on: bool
) -> None:
    """Others take a file with holes for whole, and leave what is not in the source any more."""
    host.stub(client[0], "mkdir -p data; echo x >data/whole; exit 1")
    assert host.fetch("s3://b/p/", client=client).returncode == 1
    host.stub(client[0], "echo z >data/next")
    assert host.fetch("s3://b/p/", client=client).stdout.split() == ["fetched"]
    assert host.left == ["k/about", "k/data/next", *["k/data/whole"] * goes_on]


@pytest.mark.parametrize("how", ["killed", "client killed"])
def test_a_folder_without_sums_of_a_fetch_that_was_killed(host: Host, how: str) -> None:
    """Nobody knows which files are whole."""
    if how == "killed":
        (host.cache / "k.part/data").mkdir(parents=True)
        (host.cache / "k.part/data/half").write_text("half")
        (host.cache / "k.part/begun").touch()
    else:
        host.stub("aws", "echo half >data/half; kill -9 $$")
        assert "its client ended with exit 137" in host.fetch("s3://b/p/", client=("aws",)).stderr
        assert "k.part/data/half" in host.left
    host.stub("aws", "echo z >data/next")
    assert host.fetch("s3://b/p/", client=("aws",)).stdout.split() == ["fetched"]
    assert host.left == ["k/about", "k/data/next"]


@pytest.mark.skipif(not shutil.which("setsid"), reason="no setsid here")
def test_what_a_client_started_ends_with_it(host: Host) -> None:
    """A script around the program that fetches: without that program it would go on, and write into data in place."""
    host.stub("aws", "sleep 600 & echo $! >child; wait")
    env = {**os.environ, "HOME": str(host.home), "PATH": f"{host.home}:{os.environ['PATH']}"}
    argv = host.argv("s3://b/p/", client=("aws",))
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=env, start_new_session=True)
    child = host.cache / "k.part/child"
    while not (child.exists() and child.read_text().strip()):
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    stat = Path(f"/proc/{child.read_text().strip()}/stat")
    for _ in range(200):
        if not stat.exists() or stat.read_text().split()[2] == "Z":
            return
        time.sleep(0.02)
    raise AssertionError("the client's program goes on")


@pytest.mark.parametrize("slow", [False, True])
def test_a_client_that_talks_without_end(host: Host, slow: bool) -> None:
    """It does not fill the disk with that, and its last words are still there. A look in the middle cuts what was said
    up to then: what comes after it may stay, also what is said while the host is `slow` to cut.
    """
    if slow:
        host.stub("cat", '/bin/sleep 0.5; exec /bin/cat "$@"')
    said = host.cache / "k.lock/said"
    host.stub("sleep", "exec /bin/sleep 0.1")  # the beat's
    host.stub(
        "aws",
        f"head -c 5000000 /dev/zero | tr '\\0' a >&2; i=0; while [ $i -lt 300 ] && [ $(wc -c <{said}) -gt 2000000 ]; do"
        f" /bin/sleep 0.1; i=$((i+1)); done; wc -c <{said} >'{host.home}/size'; echo; echo denied >&2; exit 1",
    )
    assert host.fetch("s3://b/p/", client=("aws",)).stderr == "s3://b/p/: denied\n"
    assert int((host.home / "size").read_text()) <= 2000000


def test_a_lock_from_a_clock_that_went_ahead(host: Host) -> None:
    """Its owner is gone, and its time lies in the future, where it never gets old: it is taken over all the same."""
    host.stub("sleep", "exit 0")
    host.stub("aws", "echo x >data")
    lock = host.cache / "k.lock"
    lock.mkdir(parents=True)
    os.utime(lock, (time.time() + 9000,) * 2)
    assert host.fetch("s3://b/k", client=("aws",)).stdout.replace(".", "").split() == ["fetched"]
    assert host.left == ["k/about", "k/data"]


def test_a_lock_whose_time_is_old_but_goes_on(host: Host) -> None:
    """The clock was set while its owner works: it is not taken away from it."""
    host.stub("sleep", "exec /bin/sleep 0.1")
    lock = host.cache / "k.lock"
    lock.mkdir(parents=True)
    os.utime(lock, (1, 1))
    argv = host.argv("s3://b/k", client=("aws",))
    env = {**os.environ, "HOME": str(host.home), "PATH": f"{host.home}:{os.environ['PATH']}"}
    waiting = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=env)
    for second in range(2, 32):
        time.sleep(0.1)
        os.utime(lock, (second, second))
    assert not (lock / "owner").exists()
    (host.dir / "data").mkdir(parents=True)
    lock.rmdir()
    assert "had" in waiting.communicate(timeout=30)[0]
    assert not list(host.cache.glob("*.at-*"))


def test_a_lock_that_is_touched_where_its_time_cannot_be_kept(host: Host) -> None:
    """Of a full disk, say: its own time has to do, and it is not taken away after a while all the same."""
    host.stub("sleep", "exec /bin/sleep 0.001")
    host.stub("touch", "echo x >>" + str(host.home / "looks") + "; exit 1")
    lock = host.cache / "k.lock"
    lock.mkdir(parents=True)
    argv = host.argv("s3://b/k", client=("aws",))
    env = {**os.environ, "HOME": str(host.home), "PATH": f"{host.home}:{os.environ['PATH']}"}
    waiting = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=env)
    looks = host.home / "looks"
    while not looks.exists() or looks.stat().st_size < 2 * 130:
        assert waiting.poll() is None
        time.sleep(0.02)
    assert not (lock / "owner").exists()
    (host.dir / "data").mkdir(parents=True)
    lock.rmdir()
    assert "had" in waiting.communicate(timeout=30)[0]


def test_a_lock_that_was_taken_over_and_is_gone_again(host: Host) -> None:
    """Whoever took it over was quick: that is said, not where a file could not be made."""
    host.stub("curl", f"rm -rf {host.cache}/k.lock")
    done = host.fetch("http://127.0.0.1:1/a", client=("curl",))
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, "another fetch has taken this one over")


def test_two_at_once(host: Host, web: Web) -> None:
    """One fetches, the other waits and finds it there."""
    web.files["/a"] = BIG
    web.slow = 0.5
    argv = host.argv(f"{web.url}/a", sha=sha(BIG))
    both = [subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = sorted(p.communicate(timeout=30)[0].replace(".", "").split()[0] for p in both)
    assert said == ["fetched", "had"]
    assert web.asked == ["/a"]


def test_a_lock_whose_owner_is_gone(host: Host, web: Web) -> None:
    """Nobody has touched it for a while: it is taken over."""
    web.files["/a"] = BIG
    lock = host.cache / "k.lock"
    lock.mkdir(parents=True)
    (lock / "owner").write_text("somebody\n")
    os.utime(lock, (1, 1))
    assert host.fetch(f"{web.url}/a").returncode == 0


@pytest.mark.parametrize("client", ["curl", "aws"])
def test_a_lock_that_is_taken_over(host: Host, client: str) -> None:
    """The host stood still, and another fetch goes on: that is said, no word of a client that is not started."""
    lock = host.cache / "k.lock"
    host.stub(client, f"echo another >'{lock}/owner'; exit 22")
    host.stub("sleep", f"while [ -d '{lock}' ]; do /bin/sleep 0.1; done")  # the beat would end it at once
    env = {**os.environ, "HOME": str(host.home), "PATH": f"{host.home}:{os.environ['PATH']}"}
    argv = host.argv("https://h/f", client=(client,))
    done = subprocess.run(argv, input="", capture_output=True, text=True, env=env, timeout=60)
    assert (done.returncode, done.stderr) == (1, "another fetch has taken this one over\n")
    assert (lock / "owner").read_text() == "another\n"
    shutil.rmtree(lock)


def test_killed_in_the_middle(host: Host, web: Web) -> None:
    """The client ends with it, the lock is free, what was fetched waits for the next try."""
    web.files["/a"] = BIG
    web.cut, web.cuts, web.slow = 500_000, 1, 30.0
    process = subprocess.Popen(
        host.argv(f"{web.url}/a", sha=sha(BIG)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    part = host.cache / "k.part/data"
    while not (part.exists() and part.stat().st_size):
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert host.left == ["k.part/data"]
    web.slow = 0.0
    assert host.fetch(f"{web.url}/a", sha=sha(BIG)).returncode == 0
    assert int(web.asked[-1].removeprefix("/a bytes=").removesuffix("-")) > 0


def test_a_fetch_that_is_given_up_leaves_no_lock(host: Host) -> None:
    """Signals at any moment, one or two: the next fetch need not wait until the lock is old, and no client goes on."""
    host.stub("aws", "exec sleep 600")
    env = {**os.environ, "HOME": str(host.home), "PATH": f"{host.home}:{os.environ['PATH']}"}
    for waits in moments(60, 0.03):
        interrupt(host.argv("s3://b/k", client=("aws",)), waits, env=env)
        assert not (host.cache / "k.lock").exists()


# what a host has


class Asked:
    """A session to this machine, whose PATH is one folder."""

    def __init__(self, path: Path, error: HostError | None = None) -> None:
        self.path, self.error = path, error

    async def run(self, argv: Sequence[str], **_: Any) -> Completed:
        if self.error is not None:
            raise self.error
        done = await asyncio.to_thread(
            subprocess.run, ["/bin/sh", *argv[1:]], capture_output=True, env={"PATH": str(self.path)}
        )
        return Completed(tuple(argv), done.returncode, b"Welcome!\n" + done.stdout, done.stderr)


async def test_what_a_host_has(host: Host) -> None:
    """The first client of those that fit; or the data itself, and since when."""
    (mount,) = mounts_of(Job("j", data={"d": DataMount("/d", url="s3://b/k")}))
    assert mount.fetch is not None
    asked = Asked(host.home)
    assert await look(asked.run, mount, str(host.home)) == There()
    host.stub("rclone", "")
    host.stub("s5cmd", "")
    assert await look(asked.run, mount, str(host.home)) == There(client="s5cmd")
    folder = host.home / mount.fetch.folder.removeprefix("~/")
    folder.mkdir(parents=True)
    (folder / "about").write_text("s3://b/k\n2026-11-21 10:00 UTC\n")
    (host.home / "tail").symlink_to("/usr/bin/tail")
    assert await look(asked.run, mount, str(host.home)) == There(client="s5cmd"), "somebody removed the data alone"
    (folder / "data").mkdir()
    assert await look(asked.run, mount, str(host.home)) == There("2026-11-21 10:00 UTC")


async def test_the_row_of_the_preflight(host: Host) -> None:
    """Hosts that can't fetch it fail, those that will are told; one that is gone is not judged."""
    ready = host.home / "ready"
    ready.mkdir()
    host.stub("ready/aws", "")
    (mount,) = mounts_of(Job("j", data={"d": DataMount("/d", url="s3://b/k")}))
    homes = dict.fromkeys(("h1", "h2", "h3"), str(host.home))
    gone = Asked(host.home, HostUnreachable("h3", "h3 is gone"))
    row = await fetch_row(mount, {"h1": Asked(host.home), "h2": Asked(ready), "h3": gone}, homes)  # type: ignore[dict-item]
    assert [(f.verdict, f.saw) for f in row.findings] == [
        ("fail", "has none of aws, s5cmd, rclone to fetch it with"),
        ("pull", "is not there"),
        ("skip", "h3 is gone"),
    ]
    assert row.findings[1].means == "the start fetches it with aws"


# argv


def fetched(url: str, **more: Any) -> Fetch:
    """The plan of a mount from this URL."""
    found = fetch_of(DataMount("/d", url=url, **more))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("client", "url", "argv"),
    [
        ("aws", "s3://b/k.tar", "aws s3 cp --only-show-errors s3://b/k.tar data"),
        ("aws", "s3://b/p/", "aws s3 sync --only-show-errors --delete s3://b/p/ data/"),
        ("s5cmd", "s3://b/p/", "s5cmd sync s3://b/p/* data/"),
        ("s5cmd", "s3://b/k", "s5cmd cp s3://b/k data"),
        ("rclone", "s3://b/p/", "rclone sync --retries 5 :s3,provider=AWS,env_auth=true:b/p data"),
        ("rclone", "oss://b/k", "rclone copyto --retries 5 :s3,provider=Alibaba,env_auth=true:b/k data"),
        ("ossutil", "oss://b/p/", "ossutil cp -r -f -u oss://b/p/ data/"),
        ("ossutil", "oss://b/k", "ossutil cp -f oss://b/k data"),
        ("curl", "https://h/x", "curl"),
    ],
)
def test_clients(client: str, url: str, argv: str) -> None:
    """Each in its own words."""
    assert list(client_argv(client, url, fetched(url))) == argv.split()


def test_an_endpoint() -> None:
    """Of an object store of one's own."""
    call = fetched("s3://b/k", endpoint="http://minio:9000")
    assert client_argv("aws", "s3://b/k", call)[:3] == ("aws", "--endpoint-url", "http://minio:9000")
    assert client_argv("s5cmd", "s3://b/k", call)[:3] == ("s5cmd", "--endpoint-url", "http://minio:9000")
    assert (
        client_argv("rclone", "s3://b/k", call)[4]
        == ':s3,provider=Other,env_auth=true,endpoint="http://minio:9000":b/k'
    )
    assert client_argv("ossutil", "oss://b/k", call)[-2:] == ("-e", "http://minio:9000")


def test_a_client_in_a_container() -> None:
    """Secrets by name only; what it writes belongs to the login."""
    call = fetched("s3://b/k", client="rclone", client_image="rclone/rclone", secrets=("KEY",))
    argv = contained(("rclone", "copyto", "x", "data"), ("docker",), call, "/h/k.part", own_user=True)
    assert " ".join(argv) == (
        "docker run --rm --init --network host --user @user@ -e HOME=/tmp -e KEY -v /h/k.part:/fetch -w /fetch "
        "--entrypoint rclone rclone/rclone copyto x data"
    )
    assert contained(("curl",), ("docker",), fetched("https://h/x"), "/h", own_user=True) == ("curl",)


def test_one_folder_for_what_is_the_same() -> None:
    """Where it comes from and its checksum name it, not the job's word for it, nor where ranks see it."""
    one = fetched("s3://b/k", sha256="a" * 64)
    assert fetch_of(DataMount("/elsewhere", url="s3://b/k", sha256="a" * 64)) == one
    assert len({one.folder, fetched("s3://b/k").folder, fetched("s3://b/k", endpoint="http://x").folder}) == 3
    assert re.fullmatch(r"~/\.cache/distui/data/[0-9a-f]{16}", one.folder)


def test_secrets_go_over_stdin() -> None:
    """One that is missing, or can't be a line, is named without its value."""
    assert secret_lines(("A",), {"A": "x y", "B": "z"}) == b"A=x y\n"
    with pytest.raises(UsageError, match="secret A is not set"):
        secret_lines(("A",), {})
    with pytest.raises(UsageError, match="secret A: the value holds a newline") as caught:
        secret_lines(("A",), {"A": "hunter\n2"})
    assert "hunter" not in str(caught.value)


async def test_a_host_that_is_gone_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither as it fetches, nor before; meanwhile it is said of it that nobody knows, and how much the others have."""
    monkeypatch.setattr("distui.runs.task.fetch.LOST_FOR", 0.0)
    fetches = []
    for name in ("h1", "h2"):
        host = FakeHost(name)
        connector = FakeConnector(host)
        link = HostLink(connector, name, session=await connector.connect(name))
        host.fails["fetch"] = host.fails["data"] = Completed((), 0, b"2000\n", b"")
        if name == "h2":
            host.fails["fetch"] = host.fails["data"] = SessionLost(name, f"{name}: the connection broke")
            connector.down[name] = HostUnreachable(name, f"{name} refuses connections", code="refused")
        mounts = mounts_of(Job("j", data={"d": DataMount("/d", url="http://w/a")}))
        fetches.append((HostFetch(name, link, plan_for(name).tasks[0], mounts, "/home/u", give_up=0.0), link))
    async with asyncio.timeout(20):
        for ask in (fetches[1][0].lacking, lambda: fetches[1][0].fetch({"d": "curl"}, {}), fetches[1][0].so_far):
            with pytest.raises(HostError, match="h2"):
                await ask()
        known, gone = [await so_far(fetch) for fetch, _ in fetches]
        assert known == "h1 2.0 MB"
        assert gone.startswith("h2 unknown (h2")
        for _, link in fetches:
            await link.close()


async def test_what_another_run_fetches_is_waited_for_and_said_to_be(host: Host) -> None:
    """Before it begins and as it goes on, until it is this run's own turn: that it fetches would not be true."""
    host.stub("aws", 'touch "$HOME/asked"; while [ ! -e "$HOME/go" ]; do sleep 0.1; done; exit 1')
    env = {**os.environ, "HOME": str(host.home), "PATH": f"{host.home}:{os.environ['PATH']}"}

    async def run(argv: Sequence[str], **_: Any) -> Completed:
        done = await asyncio.to_thread(subprocess.run, argv, input=b"", capture_output=True, env=env)
        return Completed(tuple(argv), done.returncode, done.stdout, done.stderr)

    link: Any = SimpleNamespace(run=run)
    asked = host.home / "asked"
    mounts = mounts_of(Job("j", data={"d": DataMount("/d", url="s3://b/k")}))
    first, second = (
        HostFetch("h1", link, plan_for("h1").tasks[0], mounts, str(host.home), give_up=0.0) for _ in range(2)
    )
    async with asyncio.timeout(60):
        assert (await first.lacking(), first.busy) == ({"d": "aws"}, set())
        fetching = asyncio.ensure_future(first.fetch({"d": "aws"}, {}))
        await until(asked.exists)
        assert (await second.lacking(), second.busy) == ({"d": "aws"}, {"d"})
        waiting = asyncio.ensure_future(second.fetch({"d": "aws"}, {}))
        await until(lambda: second._now is not None)
        said = await so_far(second)
        assert said.startswith("h1 ") and said.endswith(" (waiting for another fetch of d)")
        assert "waiting" not in await so_far(first)
        asked.unlink()
        (host.home / "go").touch()
        await until(asked.exists)
        assert "waiting" not in await so_far(second)
        for done in await asyncio.gather(fetching, waiting, return_exceptions=True):
            assert isinstance(done, HostError)


async def test_a_lock_that_is_given_up_just_now_is_no_other_s(host: Host) -> None:
    """It was there at one look and gone at the next, and so counted as another's."""
    host.stub("cat", 'rm -f -- "$1"; exec /bin/cat -- "$1"')
    env = {**os.environ, "HOME": str(host.home), "PATH": f"{host.home}:{os.environ['PATH']}"}

    async def run(argv: Sequence[str], **_: Any) -> Completed:
        done = await asyncio.to_thread(subprocess.run, argv, input=b"", capture_output=True, env=env)
        return Completed(tuple(argv), done.returncode, done.stdout, done.stderr)

    link: Any = SimpleNamespace(run=run)
    mounts = mounts_of(Job("j", data={"d": DataMount("/d", url="s3://b/k")}))
    fetch = HostFetch("h1", link, plan_for("h1").tasks[0], mounts, str(host.home), give_up=0.0)
    assert mounts[0].fetch is not None
    lock = Path(f"{mounts[0].fetch.folder.replace('~', str(host.home), 1)}.lock")
    lock.mkdir(parents=True)  # noqa: ASYNC240
    (lock / "owner").write_text("t\n")
    fetch._now = mounts[0], "t"
    assert (await fetch.so_far()).waits_for == ""
    assert not (lock / "owner").exists()


async def test_how_much_a_host_has_fetched(host: Host) -> None:
    """Of what this run fetches: while it is on its way, and when it is there; it said 0 B of a host that had all."""

    async def run(argv: Sequence[str], **_: Any) -> Completed:
        if "distui-fetch" in argv:
            return Completed(tuple(argv), 137, b"", b"")
        done = await asyncio.to_thread(subprocess.run, argv, capture_output=True)
        return Completed(tuple(argv), done.returncode, done.stdout, done.stderr)

    link: Any = SimpleNamespace(run=run)
    new, old = mounts_of(Job("j", data={n: DataMount(f"/{n}", url=f"http://w/{n}") for n in ("new", "old")}))
    assert new.fetch is not None and old.fetch is not None
    fetch = HostFetch("h1", link, plan_for("h1").tasks[0], [new, old], str(host.home), give_up=0.0)
    folder, other = (host.home / m.fetch.folder.removeprefix("~/") for m in (new, old))
    for path, size in ((folder.with_name(f"{folder.name}.part"), 600_000), (other, 9_000_000)):
        path.mkdir(parents=True)
        (path / "data").write_bytes(bytes(size))
    with pytest.raises(HostError, match="the fetch ended without a word, exit 137"):
        await fetch.fetch({"new": "curl"}, {})
    assert 600_000 <= (await fetch.so_far()).size < 700_000
    folder.with_name(f"{folder.name}.part").rename(folder)
    assert 600_000 <= (await fetch.so_far()).size < 700_000
