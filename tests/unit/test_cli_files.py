"""`distui hosts`, `job` and `schema`: files on disk, nothing contacted."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from distui.cluster.jobs.job_templates import TEMPLATES

HOSTS = "version: 1\nhosts:\n  node[01-02]: {labels: {gpu: h100}, gpus: [0, 1]}\ngroups:\n  g: node[01-02]\n"
JOB = "version: 1\nname: smoke\nimage: img\nranks: {per_host: 1}\nhosts: node[01-02]\ncommand: [python, a b.py]\n"


def test_hosts_ls(cli: Any) -> None:
    """The inventory as a table, as names and as JSON."""
    Path("hosts.yaml").write_text(HOSTS)

    assert cli("hosts", "ls").out.splitlines()[1].split() == ["node01", "-", "docker", "0,1", "gpu=h100", "g"]
    assert cli("hosts", "ls", "-q").out == "node01\nnode02\n"
    assert [h["name"] for h in json.loads(cli("hosts", "ls", "--json").out)["hosts"]] == ["node01", "node02"]


def test_without_hosts_the_commands_that_create_hosts_yaml_are_named(cli: Any) -> None:
    """Exit 2, and each command of the hint is one that there is."""
    done = cli("probe")

    assert done.code == 2
    named = re.findall(r"`distui (\w+ \w+)", done.err)
    assert named == ["hosts import", "hosts add"]
    assert all(cli(*one.split(), "--help").code == 0 for one in named)


def test_hosts_show_tells_where_ssh_goes(cli: Any, home: Path) -> None:
    """`hosts show` joins hosts.yaml with ~/.ssh/config; an unknown host is exit 7."""
    Path("hosts.yaml").write_text(HOSTS)
    (home / ".ssh").mkdir()
    (home / ".ssh/config").write_text("Host node01\n  HostName 10.9.8.7\n  Port 2222\n  User ubuntu\n")

    shown = json.loads(cli("hosts", "show", "node01", "--json").out)
    assert (shown["ssh"]["host"], shown["ssh"]["port"], shown["ssh"]["user"]) == ("10.9.8.7", 2222, "ubuntu")
    assert cli("hosts", "show", "nodo1").code == 7


def test_hosts_show_leaves_out_what_cannot_be_looked_at(cli: Any, home: Path) -> None:
    """A key in a folder that may not be searched, or with a name that no file can have."""
    Path("hosts.yaml").write_text(HOSTS)
    (home / ".ssh").mkdir()
    long = "k" * 300
    (home / ".ssh/config").write_text(f"IdentityFile ~/.ssh/{long}\nUserKnownHostsFile ~/.ssh/{long}\n")
    done = cli("hosts", "show", "node01", "--json")
    assert done.code == 0, done.err
    ssh = json.loads(done.out)["ssh"]
    assert not [name for name in (*ssh["keys"], *ssh["known_hosts"]) if long in name]


def test_hosts_validate_tells_every_problem(cli: Any) -> None:
    """Line, column, caret and the nearest key, all problems at once, exit 2."""
    Path("bad.yaml").write_text("version: 1\nhosts:\n  a: {prot: 22}\n  b: {gpus: many}\n")
    done = cli("hosts", "validate", "bad.yaml")

    assert done.code == 2
    assert "bad.yaml:3:7: " in done.err
    assert "did you mean 'port'" in done.err
    assert "bad.yaml:4:" in done.err
    assert "      ^" in done.err
    assert "2 problems" in done.err

    problems = json.loads(cli("hosts", "validate", "bad.yaml", "--json").out)
    assert [p["line"] for p in problems["problems"]] == [3, 4]


def test_job_validate_ls_and_show(cli: Any) -> None:
    """A job file is checked, listed from ./jobs and shown with its defaults."""
    Path("jobs").mkdir()
    Path("jobs/smoke.yaml").write_text(JOB)
    Path("jobs/bad.yaml").write_text("nmae: x\n")

    assert cli("job", "validate", "jobs/smoke.yaml").code == 0
    assert cli("job", "validate", "jobs/bad.yaml").code == 2
    Path("jobs/idle.yaml").write_text("version: 1\nname: idle\nimage: img\n")
    idle = cli("job", "validate", "jobs/idle.yaml")
    assert idle.code == 2, "run refuses it as well"
    assert "jobs/idle.yaml: job idle: the job has no command" in idle.err
    Path("jobs/idle.yaml").unlink()
    listed = cli("job", "ls").out
    assert "smoke" in listed
    assert "bad.yaml" in listed
    assert cli("job", "ls", "-q").out == "smoke\n"
    shown = cli("job", "show", "smoke")
    assert shown.code == 0
    assert "python 'a b.py'" in shown.out
    job = json.loads(cli("job", "show", "smoke", "--json").out)["job"]
    assert job["launcher"] == "env" and "image_variables" not in job


def test_job_ls_shows_the_jobs_of_this_folder(cli: Any, home: Path) -> None:
    """./*.yaml first, of these only what looks like a job; then ./jobs and the user's own."""
    for folder in (Path("jobs"), home / ".config/distui/jobs"):
        folder.mkdir(parents=True)
    Path("here.yaml").write_text(JOB.replace("smoke", "here"))
    Path("two.yml").write_text(JOB.replace("smoke", "one") + "---\n" + JOB.replace("smoke", "two"))
    Path("json.yaml").write_text(json.dumps(yaml.safe_load(JOB.replace("smoke", "json")), indent=1))
    Path("line.yaml").write_text(json.dumps(yaml.safe_load(JOB.replace("smoke", "line"))))
    Path("hosts.yaml").write_text("version: 1\nhosts: {node01: {}}\n")
    Path("compose.yaml").write_text("services: {web: {image: x}}\n")
    Path("jobs/in.yaml").write_text(JOB.replace("smoke", "in"))
    (home / ".config/distui/jobs/own.yaml").write_text(JOB.replace("smoke", "own"))
    Path("folder.yaml").mkdir()

    assert cli("job", "ls", "-o", "name").out.split() == ["here", "json", "line", "one", "two", "in", "own"]
    assert cli("job", "ls", "jobs", "-o", "name").out.split() == ["in"]


def test_templates_answer_to_their_earlier_names(cli: Any) -> None:
    """A script that names them goes on."""
    for before, now in (("gloo", "torch"), ("tf-mwms", "tf")):
        assert cli("job", "new", "--template", before).out == cli("job", "new", "--template", now).out != ""
    assert cli("job", "new", "--template", "glo").code == 2


def test_job_validate_refuses_what_run_would_before_it_asks_a_host(cli: Any) -> None:
    """Unknown hosts and folders that are not there, at their lines; hosts only where there is an inventory."""
    text = "version: 1\nname: j\nimage: i\ncommand: [a]\nhosts: node[01-02]\ncode: {path: ./src}\nbuild: img\n"
    Path("j.yaml").write_text(text)
    done = cli("job", "validate", "j.yaml")
    assert done.code == 2
    assert f"j.yaml:6:7: code: {Path('src').absolute()}: there is no such folder on this machine" in done.err
    assert f"j.yaml:7:8: build: {Path('img').absolute()}: there is no such folder" in done.err
    assert "node" not in done.err

    Path("src").mkdir()
    Path("img").mkdir()
    assert cli("job", "validate", "j.yaml").code == 0
    Path("hosts.yaml").write_text("version: 1\nhosts: {node01: {}}\n")
    done = cli("job", "validate", "j.yaml")
    assert done.code == 2
    assert (
        "j.yaml:5:8: hosts: unknown host 'node02': not in hosts.yaml, did you mean 'node01'?\n    5 | hosts:"
        in done.err
    )
    Path("j.yaml").write_text(text.replace("node[01-02]", "{group: big}"))
    assert "there is no group @big" in cli("job", "validate", "j.yaml").err

    Path("hosts.yaml").write_text("version: 1\n")
    done = cli("job", "validate", "j.yaml")
    assert done.code == 0
    assert "hosts are not looked up: hosts.yaml:1:1: hosts: missing" in done.err


def test_a_new_job_mounts_nothing_of_the_hosts(cli: Any, home: Path) -> None:
    """Nor sends anything there: what it runs is in it."""
    from distui.spec.job.read_job import read_job

    for template in TEMPLATES:
        job = read_job(cli("job", "new", "--template", template).out, "j.yaml", environ={})
        assert (job.volumes, job.code, job.image) == ((), None, TEMPLATES[template].image)


def test_job_new_with_a_dash_prints(cli: Any) -> None:
    """`-` is standard output, also where nothing may be changed; no file of that name is made."""
    done = cli("job", "new", "-", "--readonly")

    assert (done.code, done.out, done.err) == (0, cli("job", "new").out, "")
    assert not Path("-").exists()


def test_job_new_gives_files_that_are_valid(cli: Any) -> None:
    """Each template passes validation; an existing file is left alone."""
    for template in TEMPLATES:
        assert cli("job", "new", f"{template}.yaml", "--template", template).code == 0
        assert cli("job", "validate", f"{template}.yaml").code == 0
    again = cli("job", "new", "torch.yaml")
    assert again.code == 2
    assert "exists" in again.err


@pytest.mark.parametrize("hosts", ["gpu[1-9]", "a", "007", "b,a"])
def test_a_new_job_is_for_hosts_that_there_are(cli: Any, hosts: str) -> None:
    """Those of the inventory that -H chooses; one that is wrong is no reason not to begin."""
    Path("hosts.yaml").write_text(f"version: 1\nhosts:\n  z: {{}}\n  {json.dumps(hosts)}: {{}}\n")
    for template in TEMPLATES:
        for words in ((), ("-H", hosts)):
            name = f"{template}{len(words)}.yaml"
            assert cli("job", "new", name, "--template", template, *words).code == 0
            assert cli("job", "validate", name).code == 0, Path(name).read_text()
    assert "hosts: z" not in cli("job", "new", "-H", hosts).out
    Path("hosts.yaml").write_text("version: 1\n")
    assert 'hosts: "node[01-02]"\n' in cli("job", "new").out


def test_schema_is_json(cli: Any) -> None:
    """Both schemas are JSON Schema documents."""
    for kind in ("hosts", "job"):
        assert json.loads(cli("schema", kind).out)["$schema"].startswith("https://json-schema.org/")
    assert cli("schema", "cat").code == 2


def test_an_empty_host_list_is_one_clear_message(cli: Any) -> None:
    """A hosts.yaml without hosts says so, with the file's name."""
    Path("hosts.yaml").write_text("version: 1\nhosts: {}\n")
    done = cli("plan", "-H", "a", "--image", "i", "--", "true")

    assert done.code == 2
    assert "hosts.yaml" in done.err
