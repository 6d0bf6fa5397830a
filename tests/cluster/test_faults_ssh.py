"""ssh as it is in the field: hosts out of reach, keys and host keys of every kind, sshd's limits, odd shells, jumps."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lab.runs import HELD_TICKS, TICKS, assert_clean, assert_complete, let_end, read_until, rest_of, until

pytestmark = pytest.mark.cluster

Found = dict[str, dict[str, Any]]
Ask = Callable[..., Found]

STRANGERS = """
import socket, sys, threading
SAY = {2301: b"", 2302: b"HTTP/1.1 400 Bad Request\\r\\n\\r\\n", 2303: b"Not allowed at this time\\r\\n"}
kept = []
def serve(port, words):
    listener = socket.create_server(("10.77.0.1", port))
    print("listening\\n", end="", flush=True)
    while True:
        conn = listener.accept()[0]
        print(f"{port}\\n", end="", flush=True)
        if words:
            conn.sendall(words)
            conn.close()
        else:
            kept.append(conn)
for item in SAY.items():
    threading.Thread(target=serve, args=item).start()
"""
"""On the login node: a port that takes connections and is silent, a web server's, one that has had enough of us."""


def aliases(home: Path, **lines: str) -> None:
    """Hosts in front of the home's ssh config: alias -> its lines, separated by semicolons."""
    config = home / ".ssh/config"
    own = [
        f"Host {name}\n" + "".join(f"  {line.strip()}\n" for line in text.split(";")) for name, text in lines.items()
    ]
    config.write_text("\n".join([*own, config.read_text()]))


def named(home: Path, *names: str) -> None:
    """A hosts.yaml with these names."""
    (home / "hosts.yaml").write_text("version: 1\nhosts:\n" + "".join(f"  {name}: {{}}\n" for name in names))


@pytest.fixture
def ask(lab: Any, home: Path) -> Ask:
    """`distui probe --json` of these names: each host's object."""

    def call(*names: str, code: int = 0, env: dict[str, str] | None = None, within: str = "60s") -> Found:
        named(home, *names)
        done = lab.distui("probe", "--json", "--connect-timeout", within, home=home, env=env)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        found: Found = {host["name"]: host for host in json.loads(done.stdout)["hosts"]}
        assert list(found) == list(names)
        return found

    return call


def codes(found: Found) -> dict[str, str]:
    """Host -> why it is down; "" when it is up."""
    return {name: (host.get("error") or {}).get("code", "") for name, host in found.items()}


def as_ssh_does(lab: Any, home: Path, found: Found, env: dict[str, str] | None = None) -> None:
    """Whoever OpenSSH lets in is up, and nobody else."""
    for name, host in found.items():
        argv = ("ssh", "-F", str(home / ".ssh/config"), "-o", "BatchMode=yes", "-o", "ConnectTimeout=30", name, "true")
        done = lab.spawn(*argv, home=home, env=env).finish()
        assert (host["state"] == "up") == (done.returncode == 0), f"{name}: {host.get('error')} {done.stderr}"


# 11, 12, 13, 21: no way in


def test_every_way_to_be_out_of_reach_has_its_own_words(lab: Any, home: Path, ask: Ask) -> None:
    """Dropped, refused, no route, no such name, silent, not ssh, penalised: all told at once, the others untouched."""
    lab.host("h1").fault("cutport", 22)
    lab.host("h2").fault("rejectport", 22)
    here = "HostName 10.77.0.1; Port"
    aliases(home, far="HostName 10.99.0.9", nameless="HostName no-such-host.invalid", silent=f"{here} 2301",
            web=f"{here} 2302", tired=f"{here} 2303")  # fmt: skip
    with lab.spawn("python3", "-c", STRANGERS, home=home) as strangers:
        for _ in range(3):
            assert strangers.stdout.readline() == "listening\n"
        found = ask("h1", "h2", "h3", "far", "nameless", "silent", "web", "tired", code=3, within="20s")
        strangers.kill()
        visits = strangers.stdout.read().split()

    wanted = {"h1": "timeout", "h2": "refused", "h3": "", "far": "no_route", "nameless": "dns", "silent": "timeout"}
    assert codes(found) == wanted | {"web": "not_ssh", "tired": "penalty"}
    words = {name: host["error"]["message"] for name, host in found.items() if "error" in host}
    assert "no TCP connection within 20 s" in words["h1"]
    assert "no ssh greeting" in words["silent"]
    assert "HTTP/1.1 400" in words["web"]
    assert "no-such-host.invalid" in words["nameless"]
    assert "refuses us for a while" in words["tired"]
    assert visits.count("2303") == 1
    assert all(host["error"]["hint"] for host in found.values() if "error" in host)


# 22, 23, 24: whose key is it


def test_host_keys_of_every_kind(lab: Any, home: Path, ask: Ask) -> None:
    """Unknown and changed keys are told apart, hashed names, authorities, revocations and other ports are honoured."""
    keys, h1, h2 = home / ".ssh", lab.host("h1"), lab.host("h2")
    rows = {row.split(",")[0]: row for row in (keys / "known_hosts").read_text().splitlines()}
    key = {name: " ".join(row.split()[1:3]) for name, row in rows.items()}
    subprocess.run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", home / "ca"), check=True)
    public = home / "h1.pub"
    public.write_text(key["h1"] + "\n")
    sign = ("ssh-keygen", "-q", "-s", home / "ca", "-I", "h1", "-h", "-n", "10.77.0.11,lab-one", public)
    subprocess.run(sign, check=True)
    h1.exec("cat >/etc/ssh/lab-cert.pub", input=(home / "h1-cert.pub").read_text())
    h1.fault("ssh-set", "HostCertificate /etc/ssh/lab-cert.pub")
    h2.fault("ssh-set", "Port 22", "Port 2222")
    ca = (home / "ca.pub").read_text()
    files = {
        "unknown": "",
        "changed": f"10.77.0.11 {key['h2']}\n",
        "hashed": f"10.77.0.11 {key['h1']}\n",
        "signed": f"@cert-authority 10.77.0.* {ca}",
        "stranger": f"@cert-authority *.example {ca}",
        "revoked": f"10.77.0.12 {key['h2']}\n@revoked * {key['h2']}\n",
        "port": f"[10.77.0.12]:2222 {key['h2']}\n",
        "wrongport": f"[10.77.0.12]:2222 {key['h3']}\n",
        "alias": f"lab-two {key['h2']}\n",
    }
    for name, text in files.items():
        (home / name).write_text(text)
    subprocess.run(("ssh-keygen", "-q", "-H", "-f", home / "hashed"), check=True, capture_output=True)
    at = {"signed": 1, "unknown": 1, "changed": 1, "hashed": 1, "stranger": 1}
    more = {"port": "; Port 2222", "wrongport": "; Port 2222", "alias": "; HostKeyAlias lab-two"}
    stanza = "HostName 10.77.0.1{}; UserKnownHostsFile {}; User root; IdentityFile {}; IdentitiesOnly yes"
    for name in (*files, "nofile"):
        aliases(home, **{name: stanza.format(at.get(name, 2), home / name, keys / "id_ed25519") + more.get(name, "")})
    before = {name: (home / name).read_bytes() for name in files}
    found = ask(*files, "nofile", code=3)

    wanted = {"unknown": "host_key_unknown", "changed": "host_key_changed", "hashed": "", "signed": ""}
    wanted |= {"stranger": "host_key_unknown", "revoked": "host_key_revoked", "port": ""}
    assert codes(found) == wanted | {"wrongport": "host_key_changed", "alias": "", "nofile": "host_key_unknown"}
    as_ssh_does(lab, home, found)
    prints = {name: fingerprint(home, text) for name, text in key.items()}
    unknown, changed = found["unknown"]["error"], found["changed"]["error"]
    assert prints["h1"] in unknown["message"]
    assert re.search(r"accept it: `ssh .* unknown`", unknown["hint"])
    assert "HAS CHANGED" in changed["message"]
    assert prints["h1"] in changed["message"]
    assert f"{home}/changed:1" in changed["message"]
    assert prints["h2"] in changed["message"]
    assert "ssh-keygen -R" in changed["hint"]
    assert {name: (home / name).read_bytes() for name in files} == before
    assert not (home / "nofile").exists()


def fingerprint(home: Path, public: str) -> str:
    """As ssh-keygen shows it."""
    (home / "shown.pub").write_text(public + "\n")
    output = subprocess.check_output(("ssh-keygen", "-l", "-f", home / "shown.pub"), text=True)
    return output.split()[1]


# 25, 26: who are you


@contextmanager
def agent(lab: Any, home: Path) -> Iterator[dict[str, str]]:
    """An ssh-agent on the login node; the environment that leads to it."""
    env = {"SSH_AUTH_SOCK": str(home / "agent")}
    with lab.spawn("ssh-agent", "-D", "-a", env["SSH_AUTH_SOCK"], home=home) as program:
        assert "SSH_AUTH_SOCK" in program.stdout.readline()
        yield env


def test_locked_keys_and_agents_with_many(lab: Any, home: Path, ask: Ask) -> None:
    """No agent: the key is named, nothing asks. With one it is used; of 21 keys the right one comes within six."""
    keys = home / ".ssh"
    locked = keys / "locked"
    subprocess.run(("cp", "-p", keys / "id_ed25519", locked), check=True)
    subprocess.run(("ssh-keygen", "-q", "-p", "-P", "", "-N", "a secret", "-f", locked), check=True)
    subprocess.run(("cp", "-p", keys / "id_ed25519.pub", keys / "locked.pub"), check=True)
    to = f"HostName 10.77.0.11; User root; UserKnownHostsFile {keys}/known_hosts; IdentityFile {keys}"
    aliases(home, shut=f"{to}/locked; IdentitiesOnly yes", many=f"{to}/locked", first=f"{to}/id_ed25519")
    alone = ask("shut", code=3)
    as_ssh_does(lab, home, alone)
    error = alone["shut"]["error"]
    assert error["code"] == "key_passphrase"
    assert str(locked) in error["message"]
    assert f"ssh-add {locked}" in error["hint"]

    with agent(lab, home) as env:
        spare = [home / f"spare{n}" for n in range(20)]
        for path in spare:
            subprocess.run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path), check=True)
        subprocess.run(("ssh-add", "-q", *spare, keys / "id_ed25519"), check=True, env=env, capture_output=True)
        lab.host("h1").fault("ssh-set", "MaxAuthTries 6")
        found = ask("shut", "many", "first", env=env)
        as_ssh_does(lab, home, found, env)
    assert set(codes(found).values()) == {""}


def test_logins_that_lead_nowhere(lab: Any, home: Path, ask: Ask) -> None:
    """A password wanted, a password that has expired, a forced command, a shell that says no: told, never asked."""
    lab.host("h1").fault("ssh-set", "PubkeyAuthentication no", "KbdInteractiveAuthentication yes",
                         "PasswordAuthentication yes")  # fmt: skip
    h2, h3 = lab.host("h2"), lab.host("h3")
    h2.fault("ssh-set", "UsePAM yes")
    h2.exec("usermod -p x trainer && chage -d 0 trainer && usermod -s /usr/sbin/nologin noisy")
    h3.fault("ssh-set", "ForceCommand echo 'Choose: 1 mail, 2 games'")
    keys = home / ".ssh"
    to = f"UserKnownHostsFile {keys}/known_hosts; IdentityFile {keys}/id_ed25519; HostName 10.77.0.12; User"
    aliases(home, expired=f"{to} trainer", nologin=f"{to} noisy")
    try:
        found = ask("h1", "expired", "nologin", "h3", code=3)
        as_ssh_does(lab, home, {name: found[name] for name in ("h1", "expired", "nologin")})
    finally:
        h2.exec("chage -d 19000 trainer; usermod -s /bin/bash noisy")

    words = {name: f"{e['message']} {e['hint']}" for name, e in ((n, h["error"]) for n, h in found.items())}
    assert "it offers" in words["h1"]
    assert "keyboard-interactive" in words["h1"]
    assert "never asks" in words["h1"]
    assert "not available" in words["nologin"]
    assert "password" in words["expired"].lower()
    assert "Choose: 1 mail, 2 games" in words["h3"]
    assert codes(found) | {"expired": ""} == {"h1": "auth", "expired": "", "nologin": "rubbish", "h3": "rubbish"}


# 27: ~/.ssh/config, and a run through jump hosts


def test_a_run_through_a_chain_of_jump_hosts(lab: Any, home: Path, start: Callable[..., Any]) -> None:
    """h2 only by way of h1, h3 only by way of h2, with Include, Match and wildcards, as `ssh` does it."""
    for name in ("h2", "h3"):
        lab.host(name).fault("cut", "ctl")
    keys = home / ".ssh"
    (keys / "inner").mkdir()
    (keys / "inner/hosts.conf").write_text(
        f"Host n-*\n  User root\n  IdentityFile {keys}/id_ed25519\n  UserKnownHostsFile {keys}/known_hosts\n"
        "Host n-two\n  HostName 10.77.0.12\n  ProxyJump h1\n"
        "Match originalhost n-three\n  HostName 10.77.0.13\n  ProxyJump n-two\n"
    )
    config = keys / "config"
    config.write_text(f"Include {keys}/inner/*.conf\n" + config.read_text())
    for name in ("n-two", "n-three"):
        assert lab.ssh(name, "hostname", home=home).stdout.strip() == {"n-two": "h2", "n-three": "h3"}[name]
    named(home, "n-two", "n-three")
    program = start(TICKS % 100, "-o", "ndjson", "--log-to", "none", wait=False, job={"hosts": ["n-two", "n-three"]})
    *_, result = rest_of(program)

    assert (result["state"], result["leftovers"]) == ("succeeded", []), program.stderr.read()
    assert_complete(result, 100)
    assert_clean(lab)


# 19, 20: as much as sshd allows


def test_sixteen_tasks_a_host_with_one_session_a_connection(lab: Any, start: Callable[..., Any]) -> None:
    """MaxSessions 1 on h1 and 2 on h2: 32 ranks are started, followed and cleaned up, each line once."""
    for number, name in enumerate(("h1", "h2"), 1):
        lab.host(name).fault("ssh-set", f"MaxSessions {number}")
    program = start(TICKS % 50, "-o", "ndjson", "--log-to", "none", wait=False, job={"ranks": {"per_host": 16}})
    *_, result = rest_of(program)

    assert (result["state"], result["leftovers"]) == ("succeeded", []), program.stderr.read()
    assert_complete(result, 50, range(32))
    assert_clean(lab)


def test_forty_names_on_a_server_that_takes_two_logins_at_a_time(lab: Any, home: Path, ask: Ask) -> None:
    """MaxStartups 2:100:3 drops the others at random; all are in in the end."""
    lab.host("h1").fault("ssh-set", "MaxStartups 2:100:3")
    keys = home / ".ssh"
    to = f"HostName 10.77.0.11; User root; UserKnownHostsFile {keys}/known_hosts; IdentityFile {keys}/id_ed25519"
    names = [f"n{number}" for number in range(40)]
    aliases(home, **dict.fromkeys(names, to))

    assert set(codes(ask(*names, within="240s")).values()) == {""}


# 28, 29, 30: shells, paths, addresses


def test_a_slow_noisy_shell_and_a_session_in_another_language(lab: Any, home: Path, start: Callable[..., Any]) -> None:
    """A .bashrc that talks and takes over a second a command; docker and nvidia-smi not on PATH, German words: the
    same run.
    """
    h1, h2 = lab.host("h1"), lab.host("h2")
    h1.exec("cp /home/noisy/.bashrc /home/noisy/.bashrc.lab; echo 'sleep 1; echo ready' >>/home/noisy/.bashrc")
    h2.exec("mkdir /opt/bin && mv /usr/bin/docker /usr/bin/nvidia-smi /opt/bin")
    h2.fault("ssh-setenv", "PATH=/usr/bin:/bin LC_ALL=de_DE.UTF-8 LANG=de_DE.UTF-8")
    aliases(home, h1="User noisy")
    try:
        lacking = lab.ssh("h2", "command -v docker nvidia-smi", home=home)
        program = start(TICKS % 100, "-o", "ndjson", "--log-to", "none", wait=False)
        *_, result = rest_of(program)
        found = json.loads(lab.distui("probe", "h2", "--json", home=home).stdout)["hosts"][0]
    finally:
        h1.exec("mv /home/noisy/.bashrc.lab /home/noisy/.bashrc")
        h2.exec("mv /opt/bin/docker /opt/bin/nvidia-smi /usr/bin && rmdir /opt/bin")

    assert lacking.returncode != 0
    assert (len(found["gpus"]), found["docker"]["problem"]) == (2, None)
    assert (result["state"], result["leftovers"]) == ("succeeded", []), program.stderr.read()
    assert_complete(result, 100)
    assert_clean(lab)


def test_a_host_with_nothing_but_ipv6(lab: Any, home: Path, ask: Ask, start: Callable[..., Any]) -> None:
    """By a global and by a scoped address; a run on it is followed to its end."""
    h3 = lab.host("h3")
    for argv in (lab.command("ip", "addr", "add", "fd77::1/64", "dev", "eth0", "nodad"),
                 h3.command("ip", "addr", "add", "fd77::13/64", "dev", "eth0", "nodad")):  # fmt: skip
        subprocess.run(argv, check=True)
    scoped = h3.out("ip -6 -o addr show dev eth0 scope link | awk '{print $4}'").partition("/")[0]
    row = next(row for row in (home / ".ssh/known_hosts").read_text().splitlines() if row.startswith("h3,"))
    (home / "known").write_text(f"fd77::13,{scoped}%eth0 {' '.join(row.split()[1:3])}\n")
    to = f"User root; UserKnownHostsFile {home}/known; IdentityFile {home}/.ssh/id_ed25519; HostName"
    aliases(home, six=f"{to} fd77::13", linked=f"{to} {scoped}%%eth0")
    h3.exec("ip -4 addr flush dev eth0; ip -4 addr flush dev ib0")
    try:
        found = ask("six", "linked")
        as_ssh_does(lab, home, found)
        program = start(TICKS % 50, "-o", "ndjson", "--log-to", "none", wait=False, job={"hosts": ["six"]})
        *_, result = rest_of(program)
    finally:
        h3.exec(f"ip addr add {h3.eth}/24 dev eth0; ip addr add {h3.ib}/24 dev ib0; ip addr del fd77::13/64 dev eth0")
        subprocess.run(lab.command("ip", "addr", "del", "fd77::1/64", "dev", "eth0"), check=True)

    assert [host["hostname"] for host in found.values()] == ["h3", "h3"]
    assert (result["state"], result["leftovers"]) == ("succeeded", []), program.stderr.read()
    assert_complete(result, 50, [0])


def test_one_machine_under_two_names_is_not_booked_twice(lab: Any, home: Path) -> None:
    """The same machine-id and addresses: refused before the start when both would use its GPUs, else said."""
    keys = home / ".ssh"
    aliases(home, twin=f"HostName 10.77.0.11; User root; UserKnownHostsFile {keys}/known_hosts; "
                       f"IdentityFile {keys}/id_ed25519")  # fmt: skip
    named(home, "h1", "twin")
    job = {"version": 1, "name": "twice", "hosts": ["h1", "twin"], "image": "lab/python:1", "command": ["true"]}
    (home / "job.yaml").write_text(json.dumps(job | {"gpus_per_host": "all"}))
    refused = lab.distui("run", "job.yaml", "--headless", "-y", home=home)
    (home / "job.yaml").write_text(json.dumps(job))
    warned = lab.distui("run", "job.yaml", "--headless", "-y", home=home)

    assert refused.returncode == 3, refused.stderr
    assert "twin" in refused.stderr
    assert "is the same machine as h1" in refused.stderr
    assert warned.returncode == 0, warned.stderr
    assert "h1 and twin are the same machine under two names" in warned.stderr
    assert_clean(lab)


# 14, 16, 17: links that break


def test_a_start_whose_connection_is_cut_happens_once(lab: Any, start: Callable[..., Any]) -> None:
    """The sessions die while `docker run` is under way and lives on: the host is asked, one container is all."""
    h2 = lab.host("h2")
    h2.fault("docker-slow", 2)
    program = start(TICKS % 100, "--name", "once", "-o", "ndjson", "--log-to", "none", wait=False)
    read_until(program, type="rank", rank=1, state="starting")
    h2.fault("ssh-killall")
    *_, result = rest_of(program)

    assert (result["state"], result["leftovers"]) == ("succeeded", []), program.stderr.read()
    assert_complete(result, 100)
    assert_clean(lab)


@pytest.mark.long
def test_a_host_that_is_cut_off_while_runs_are_started(lab: Any, home: Path, start: Callable[..., Any]) -> None:
    """Without a word, while one run is in the middle of `docker run` there and another of sending its code.

    Both end in bounded time with the host and what may be there; what comes up behind the cut is ended by `stop`.
    """
    h2 = lab.host("h2")
    (home / "src").mkdir()
    (home / "src/big.bin").write_bytes(os.urandom(32 << 20))
    h2.fault("docker-hold")
    program = start("sleep 3000", "--name", "held", "-o", "ndjson", "--log-to", "none", wait=False)
    until(lambda: h2.out("pgrep -fc '[d]ocker run .*distui-held-1' || true") != "0")
    h2.fault("rate", 4)
    sending = start("true", "--name", "sent", "-o", "ndjson", "--log-to", "none", wait=False, job={"code": "./src"})
    until(lambda: ".new-" in h2.out("ls -A /root/.local/state/distui/code 2>/dev/null || true"))
    h2.fault("blackhole")
    ends = [rest_of(run)[-1] for run in (program, sending)]
    h2.fault("docker-fast")
    until(lambda: h2.containers() == ["distui-held-1"])
    for cure in ("unblackhole", "unshape"):
        h2.fault(cure)
    until(lambda: lab.ssh("h2", "true", home=home).returncode == 0)  # the network has to find it again
    late = [lab.distui("stop", name, "-y", home=home) for name in ("held", "sent")]
    until(lambda: h2.out("ls -A /root/.local/state/distui/code 2>/dev/null || true") in ("", ".lock"))
    again = lab.distui("rm", "sent", "--purge", "-y", home=home), start("true", "--name", "sent", wait=False).finish()

    for end in ends:
        assert (end["state"], end["exit"]) == ("launch_failed", 5)
        assert len(end["leftovers"]) == 1
        assert end["leftovers"][0].startswith("h2: may still have rank1 (")
    assert [done.returncode for done in (*late, *again)] == [0, 0, 0, 0], [d.stderr for d in (*late, *again)]
    assert lab.distui("hosts", "clean", "-y", home=home).returncode == 0
    assert_clean(lab)


def test_sshd_that_is_away_for_a_while_is_not_stormed(lab: Any, start: Callable[..., Any]) -> None:
    """Stopped with all its sessions for six seconds, then the link flaps and loses packets: few logins, every line."""
    h2 = lab.host("h2")
    program = start(HELD_TICKS % 900, "-o", "ndjson", "--log-to", "none")
    read_until(program, type="rank", rank=1, state="running")
    h2.exec("iptables -I INPUT -p tcp --dport 22 --syn -m comment --comment lab-syn")
    began = time.monotonic()
    try:
        h2.fault("ssh-down")
        h2.fault("ssh-killall")
        read_until(program, type="host", host="h2", state="lost")
        h2.exec("sleep 6")
        until(lambda: knocks(h2) >= 2)
        knocked, away = knocks(h2), time.monotonic() - began
        h2.fault("ssh-up")
        read_until(program, type="host", host="h2", state="back")
        h2.fault("loss", 20)
        for _ in range(4):
            h2.fault("unplug", "eth0")
            h2.exec("sleep 0.5")
            h2.fault("plug", "eth0")
            h2.exec("sleep 0.5")
        h2.fault("uncut")
        let_end(lab)
        *_, result = rest_of(program)
    finally:
        h2.exec("iptables -D INPUT -p tcp --dport 22 --syn -m comment --comment lab-syn")

    assert knocked <= 8 + away / 7.5  # the pauses between them double, to 7.5 to 15 s
    assert (result["state"], result["leftovers"]) == ("succeeded", []), program.stderr.read()
    assert_complete(result, 900)
    assert_clean(lab)


def knocks(host: Any) -> int:
    """How often a connection to the host's sshd was begun since the rule is there."""
    rows = [row.split() for row in host.out("iptables", "-nvxL", "INPUT").splitlines() if "lab-syn" in row]
    return int(rows[0][0])


def test_a_host_that_does_not_return_ends_the_run_with_its_name(
    lab: Any, home: Path, start: Callable[..., Any]
) -> None:
    """After `lost_after` the run ends with 6, says what may live on h2, and `distui stop` ends it once h2 is back."""
    h2 = lab.host("h2")
    program = start("sleep 3000", "--name", "gone", "-o", "ndjson", DISTUI_LOST_AFTER="3s")
    begun = read_until(program, type="phase", phase="follow")
    h2.fault("ssh-down")
    h2.fault("ssh-killall")
    events = begun + rest_of(program)
    result, words = events[-1], program.stderr.read()

    assert (result["state"], result["exit"]) == ("unknown", 6), words
    (left,) = result["leftovers"]
    assert left.startswith("h2: may still have rank1 ")
    assert [e["state"] for e in events if e["type"] == "rank" and e["rank"] == 1] == ["starting", "running", "lost"]
    assert lab.host("h2").containers() == ["distui-gone-1"]
    early = lab.distui("stop", "gone", "-y", home=home)
    h2.fault("ssh-up")
    late = lab.distui("stop", "gone", "-y", home=home)

    assert early.returncode == 6, early.stderr
    assert "h2" in early.stderr
    assert late.returncode == 0, late.stderr
    assert_clean(lab)


def test_a_run_that_ended_for_a_restarted_host_says_so(lab: Any, home: Path, start: Callable[..., Any]) -> None:
    """h2 came back after `lost_after`: all that was said of the run was "stopped, exit 6"."""
    h2 = lab.host("h2")
    program = start("sleep 3000", "--name", "late", "-o", "ndjson", DISTUI_LOST_AFTER="3s")
    read_until(program, type="phase", phase="follow")
    h2.fault("crash")
    *_, result = rest_of(program)
    assert (result["state"], result["exit"]) == ("unknown", 6), program.stderr.read()
    h2.fault("poweron")
    until(lambda: lab.distui("stop", "late", "-y", home=home).returncode != 6 or not h2.containers())

    shown = lab.distui("show", "late", home=home).stdout
    assert "the other ranks were stopped since h2 was out of reach" in shown
    assert "its host was restarted" in shown
    assert_clean(lab)


def test_a_host_that_starts_anew_takes_its_rank_along(lab: Any, start: Callable[..., Any]) -> None:
    """A power cut and a boot: lost first, then the rank's end is known and its cause told, and the run has failed."""
    h2 = lab.host("h2")
    program = start("sleep 3000", "--name", "boot", "-o", "ndjson", "--log-to", "none")
    read_until(program, type="phase", phase="follow")
    h2.fault("crash")
    read_until(program, type="rank", rank=1, state="lost")
    h2.fault("poweron")
    *_, result = rest_of(program)

    assert (result["state"], result["exit"], result["leftovers"]) == ("failed", 1, []), program.stderr.read()
    first = result["first_failure"]
    assert (first["rank"], first["exit"]) == (1, 255)
    assert first["words"] == "exit 255: its host was restarted"
    assert_clean(lab)


def test_whoever_attaches_after_a_restart_is_reported(
    lab: Any, home: Path, start: Callable[..., Any], tmp_path: Path
) -> None:
    """The containers remember the boot that they were planned in, so another machine can tell, too."""
    started = start("sleep 3000", "-d", "--name", "later", wait=False).finish()
    assert started.returncode == 0, started.stderr
    lab.host("h2").fault("crash")
    lab.host("h2").fault("poweron")
    other = lab.ssh_home(tmp_path / "other")
    shutil.copy(home / "hosts.yaml", other)
    attached = lab.distui("attach", "later", "--headless", home=other)

    assert attached.returncode == 1, attached.stderr
    assert "exit 255: its host was restarted" in attached.stderr
    assert_clean(lab)
