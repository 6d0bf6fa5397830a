"""`stop`: its exit code is what is known of the run, and it finds what `ps` lists, as every verb that takes a run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from distui.cli.actions import stop as action
from distui.cluster.attach import ending
from distui.cluster.attach.front_end import Ended
from distui.runs.store.runs import RunStore

NOTHING = "version: 1\nname: j\ncommand: [sleep, '1000']\nlauncher: env\ngpus_per_host: 0\nstop_grace: 1s\n"


def start(cli: Any, run: str, host: str) -> None:
    """A run on one host that nobody follows."""
    Path("j.yaml").write_text(NOTHING)
    done = cli("run", "j.yaml", "-d", "-y", "-H", host, "--name", run)
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    ("ended", "code"),
    [
        (Ended(), 0),
        (Ended(failed=("h1: not reached",)), 6),
        (Ended(remaining=("r1 is still being read to its end",)), 6),
        (Ended(remaining=("h1: distui-r1-1, kept for its log, which is not complete here",)), 6),
        (Ended(agreed=False), 130),
    ],
)
def test_it_is_0_only_where_nothing_is_left(
    cli: Any, home: Path, monkeypatch: pytest.MonkeyPatch, ended: Ended, code: int, fake_hosts: Any
) -> None:
    """What remains though nothing failed is said."""

    async def end(*_: Any, **__: Any) -> Ended:
        return ended

    fake_hosts()
    Path("hosts.yaml").write_text("version: 1\nhosts:\n  h1: {}\n")
    monkeypatch.setattr(action, "end_run", end)
    done = cli("-q", "stop", "r1", "-y")
    assert done.code == code
    assert all(words in done.err for words in ended.remaining)


def test_a_follower_that_takes_too_long_is_no_success(
    cli: Any, demo_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the run still, though no rank runs any more; once it is gone, a stop reads the run to its end."""
    start(cli, "slow", "demo1")
    stored = RunStore(demo_home / ".local/state/distui").need("slow")
    with monkeypatch.context() as patch, stored.followed():
        patch.setattr(ending, "DRAIN_SECONDS", 0.0)
        done = cli("stop", "slow", "-y", "--grace", "0")
        assert done.code == 6, done.err
        assert "slow is still being read to its end" in done.err
        assert "slow is stopped" not in done.err
    assert cli("stop", "slow", "-y").code == 0
    assert json.loads(cli("ps", "--json").out)["runs"] == []


def test_every_verb_finds_what_ps_lists(cli: Any, demo_home: Path) -> None:
    """A run that is not recorded here, on a host that no inventory names but another recorded run was started on."""
    start(cli, "known", "demo2")
    start(cli, "stray", "demo2")
    shutil.rmtree(demo_home / ".local/state/distui/runs/stray")
    Path("hosts.yaml").write_text("version: 1\ndefaults: {docker: process}\nhosts:\n  demo1: {}\n")
    assert "stray" in cli("ps", "-q").out.split()
    assert cli("show", "stray").code == 0
    assert cli("wait", "stray", "--for", "running").code == 0
    assert cli("logs", "stray").code == 0
    assert cli("show", "stray", "-H", "demo1").code == 7, "a call about chosen hosts is about no others"
    Path("hosts.yaml").unlink()
    assert cli("stop", "stray", "-y").code == 0
    assert cli("ps", "-q").out.split() == ["known"]
    assert cli("stop", "known", "-y").code == 0
    assert cli("stop", "never-was", "-y").code == 7, "nobody is left to be asked"


def test_a_stop_on_chosen_hosts_is_no_success_while_others_may_have_the_rest(cli: Any, demo_home: Path) -> None:
    """Of a run that is not recorded here only what the chosen host has is known, and its rest goes on."""
    Path("j.yaml").write_text(NOTHING)
    assert cli("run", "j.yaml", "-d", "-y", "-H", "demo[1-2]", "--name", "two").code == 0
    shutil.rmtree(demo_home / ".local/state/distui/runs/two")
    done = cli("stop", "two", "-y", "-H", "demo1")
    assert done.code == 6, done.err
    assert "1 of its 2 tasks may be on hosts that were not asked; `distui stop two` asks all" in done.err
    shutil.rmtree(demo_home / ".local/state/distui/runs/two")
    done = cli("stop", "two", "-y", "-H", "demo[1-2]")
    assert (done.code, "were not asked; `distui" in done.err) == (0, False), "-H names all hosts that there are"
    assert not list(demo_home.glob("demo*/.local/state/distui/hosts/*/two"))


def test_a_stop_on_some_hosts_of_a_recorded_run_is_refused(cli: Any, demo_home: Path) -> None:
    """It was stopped on all of them, without a word. Its ranks there can be ended alone."""
    Path("j.yaml").write_text(NOTHING)
    assert cli("run", "j.yaml", "-d", "-y", "-H", "demo[1-2]", "--name", "two").code == 0
    for word in ("stop", "kill"):
        done = cli(word, "two", "-y", "-H", "demo1")
        assert done.code == 2, done.err
        assert f"two has tasks on demo2, too, and {word} ends it on all its hosts" in done.err
        assert f"leave out -H; `distui {word} two --rank 0` ends rank 0 alone" in done.err
    inventory = Path("hosts.yaml").read_text()
    Path("hosts.yaml").write_text(inventory.replace("  demo[1-2]: {}", "  demo1: {labels: {gpu: old}}\n  demo2: {}"))
    done = cli("stop", "two", "-y", "-l", "gpu=old")
    assert done.code == 2, done.err
    assert "leave out -l; `distui stop two --rank 0` ends rank 0 alone" in done.err
    Path("hosts.yaml").unlink()
    done = cli("stop", "two", "-y", "-l", "gpu=old")
    assert (done.code, "there is no inventory" in done.err) == (2, True), done.err
    Path("hosts.yaml").write_text(inventory)
    assert cli("run", "j.yaml", "-d", "-y", "-H", "demo2", "--name", "one").code == 0
    done = cli("stop", "one", "-y", "-H", "demo1")
    assert done.code == 2, done.err
    assert "one has tasks on demo2, and stop ends it on all its hosts" in done.err
    assert "leave out -H" in done.err and "--rank" not in done.err, "it has no ranks there to be named"
    assert cli("stop", "one", "-y").code == 0
    assert cli("ps", "-q").out.split() == ["two"]
    assert cli("stop", "two", "-y", "-H", "demo[1-2]").code == 0
    assert cli("ps", "-q").out.split() == []
