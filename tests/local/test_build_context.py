"""The content of a build: what `.dockerignore` leaves out, one hash for one content, and the archive that is sent."""

from __future__ import annotations

import os
import re
import tarfile
import threading
from pathlib import Path

import pytest

from distui.errors import CheckFailed, UsageError
from distui.plan.content.build import build_argv, built_name
from distui.plan.model import BuildPlan
from distui.runs.code.git.lock import GivenUp
from distui.runs.images import context
from distui.runs.images.context import image_of, read_build
from distui.runs.images.dockerignore import DockerIgnore
from distui.spec.job.job import Build, Job


@pytest.mark.parametrize(
    ("patterns", "left_out", "kept"),
    [
        (["*.log"], ["a.log"], ["sub/a.log", "a.txt"]),
        (["**/*.log"], ["a.log", "sub/a.log", "x/y/a.log"], ["a.txt"]),
        (["*/temp*"], ["sub/temporary.txt", "sub/temp"], ["temporary.txt", "sub/sub/temp"]),
        (["*/*/temp*"], ["sub/sub/temporary.txt"], ["sub/temp"]),
        (["temp?"], ["tempa", "tempb", "tempa/below"], ["temp", "tempab"]),
        (["data/"], ["data", "data/x", "data/x/y"], ["more/data"]),
        (["/data"], ["data/x"], ["more/data"]),
        (["*.md", "!README.md"], ["a.md"], ["README.md"]),
        (["*.md", "!README*.md", "README-secret.md"], ["README-secret.md"], ["README-x.md"]),
        (["data", "!data/keep"], ["data/x"], ["data/keep", "data/keep/deep"]),
        (["# comment", "", "  spaced  "], ["spaced"], ["# comment"]),
        (["[ab].txt"], ["a.txt", "b.txt"], ["c.txt"]),
        (["[^ab].txt"], ["c.txt"], ["a.txt"]),
        (["[a\\]\\-z].txt"], ["].txt", "-.txt", "z.txt"], ["b.txt", "\\.txt"]),
        (["\\*.txt"], ["*.txt"], ["a.txt"]),
        (["a/../b"], ["b"], ["a"]),
        (["**"], ["a", "a/b"], []),
        (["**", "!src"], ["a"], ["src/main.py"]),
        (["**.log"], ["a.log", "sub/a.log", ".log"], ["a.log.gz"]),
        (["src/**.py"], ["src/.py", "src/sub/.py"], ["src/a.py", "src/sub/a.py"]),
        (["**a*"], ["a1", "sub/a1"], ["ba1", "sub/ba1"]),
        (["a**"], ["a", "ab", "ab/c"], ["b"]),
        (["docs/**/x"], ["docs/x", "docs/a/x", "docs/a/b/x"], ["x"]),
        (["a.b"], ["a.b"], ["axb"]),
        (["*a*b*c*"], ["a1b2c3", "abc/below"], ["a1b2", "sub/abc"]),
        (["."], [], ["a"]),
    ],
)
def test_dockerignore(patterns: list[str], left_out: list[str], kept: list[str]) -> None:
    """The rules of Docker's documentation: from the root, the last match decides."""
    ignored = DockerIgnore(patterns)
    assert [p for p in left_out if not ignored.has(p)] == []
    assert [p for p in kept if ignored.has(p)] == []


@pytest.mark.parametrize("wrong", ["a[b", "!", "[z-a]", "[\\]", "[^]"])
def test_what_is_no_pattern(wrong: str) -> None:
    """It is refused; nothing is sent that was meant to stay."""
    with pytest.raises(ValueError, match=r"\[|!"):
        DockerIgnore([wrong])


@pytest.mark.parametrize("line", ["*a" * 20 + "*b", "***a" * 20 + "***b", "*[^/b]" * 20 + "*b", "*?" * 20 + "*b"])
def test_a_pattern_that_would_take_for_ever_is_refused(folder: Path, line: str) -> None:
    """It may come with a cloned repository."""
    (folder / ".dockerignore").write_text(f"{line}\n")
    (folder / ("a" * 200)).touch()
    with pytest.raises(UsageError, match="too slow") as caught:
        read_build(job(folder))
    assert line in caught.value.message


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A context with a Dockerfile and more."""
    root = tmp_path / "docker"
    (root / "src/deep").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / "Dockerfile").write_text("FROM x\n")
    (root / "src/run.sh").write_text("#!/bin/sh\n")
    (root / "src/run.sh").chmod(0o711)
    (root / "src/deep/data.bin").write_bytes(bytes(range(256)) * 9000)
    (root / "src/link").symlink_to("/etc/hostname")
    return root


def job(folder: Path, **build: object) -> Job:
    """A job in the folder above the context."""
    return Job("my_Job", path=str(folder.parent / "job.yaml"), build=Build(**({"context": "docker"} | build)))  # type: ignore[arg-type]


def names(folder: Path, **build: object) -> set[str]:
    """What would be sent."""
    source = read_build(job(folder, **build))
    assert source is not None
    return {e.path for e in source.tree.entries}


def test_what_is_sent(folder: Path) -> None:
    """Files, links as they are, empty folders; the archive is nobody's and without times."""
    source = read_build(job(folder))
    assert source is not None
    with source.archive() as file:
        file.seek(0)
        with tarfile.open(fileobj=file) as tar:
            found = {m.name: m for m in tar}
            data = tar.extractfile("src/deep/data.bin")
            assert data is not None and data.read() == bytes(range(256)) * 9000
    assert set(found) == {"Dockerfile", "empty", "src/run.sh", "src/deep/data.bin", "src/link"}
    assert (found["src/link"].linkname, found["empty"].isdir()) == ("/etc/hostname", True)
    assert (found["src/run.sh"].mode, found["Dockerfile"].mode) == (0o755, 0o644)
    assert {(m.uid, m.gid, m.mtime, m.uname) for m in found.values()} == {(0, 0, 0, "")}
    assert (source.plan.files, source.plan.bytes) == (3, 7 + 10 + 256 * 9000)


def test_ignore_files(folder: Path) -> None:
    """What is left out is not in the hash either; the Dockerfile always goes, and its own ignore file comes first."""
    before = read_build(job(folder))
    (folder / ".dockerignore").write_text("*\n!src\nsrc/deep\n")
    assert names(folder) == {".dockerignore", "Dockerfile", "src/run.sh", "src/link"}
    (folder / "Dockerfile.dockerignore").write_text("src\nempty\n")
    assert names(folder) == {".dockerignore", "Dockerfile", "Dockerfile.dockerignore"}
    (folder / "Dockerfile.dockerignore").unlink()
    (folder / ".dockerignore").write_text("junk\n")
    same = read_build(job(folder))
    (folder / "junk").mkdir()
    os.mkfifo(folder / "junk/pipe")
    again = read_build(job(folder))
    assert before is not None and same is not None and again is not None
    assert same.plan.content == again.plan.content != before.plan.content


def test_one_hash_for_one_content(folder: Path) -> None:
    """Times do not count; content, mode, arguments, stage and Dockerfile do; the place of building does not."""
    (folder / "other").write_text("FROM y\n")

    def content(**build: object) -> str:
        source = read_build(job(folder, **build))
        assert source is not None
        return source.plan.content

    first = content()
    os.utime(folder / "Dockerfile", (1, 1))
    assert content() == content(where="first") == first
    changed = [content(args={"A": "1"}), content(args={"A": "2"}), content(target="x"), content(dockerfile="other")]
    (folder / "src/run.sh").chmod(0o600)
    changed.append(content())
    (folder / "src/run.sh").write_text("#!/bin/sh -e\n")
    changed.append(content())
    assert len({first, *changed}) == 7


def test_names(folder: Path) -> None:
    """Without a name another content is another image; a name that is given is kept."""
    source = read_build(job(folder))
    assert source is not None
    assert image_of(job(folder)) == f"distui-my-job:{source.plan.content[:12]}"
    assert built_name("--", "0123456789abcdef") == "distui-job:0123456789ab"
    assert image_of(Job("j", image="a/b:1", build=Build("nowhere"))) == "a/b:1"
    assert image_of(Job("j")) is None


@pytest.mark.parametrize(
    ("build", "said"),
    [
        ({"context": "nowhere"}, "nowhere does not exist"),
        ({"context": "job.yaml"}, "is not a folder"),
        ({"dockerfile": "Containerfile"}, "there is no Containerfile in"),
        ({"dockerfile": "src"}, "there is no src in"),
    ],
)
def test_what_is_refused(folder: Path, build: dict[str, object], said: str) -> None:
    """Before any host is asked."""
    (folder.parent / "job.yaml").write_text("")
    with pytest.raises(UsageError, match=said):
        read_build(job(folder, **build))


def test_the_walk_of_a_folder_ends(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before all is looked at, where that is too large or too much; and when nobody waits any more."""
    for number in range(30):
        (folder / f"src/{number}.bin").write_bytes(b"x" * 100)
    monkeypatch.setattr(context, "ENOUGH", 20)
    with pytest.raises(UsageError, match=r"and more, not all was looked at, in the first \d+ files, more than 1k"):
        read_build(job(folder, max_size=1 << 10))
    monkeypatch.setattr(context, "MOST", 20)
    with pytest.raises(UsageError, match=r"holds more than 20 files") as caught:
        read_build(job(folder))
    assert "write src into .dockerignore" in caught.value.hint
    given_up = threading.Event()
    monkeypatch.setattr(context, "refuse_too_deep", lambda *_: given_up.set())
    with pytest.raises(GivenUp):
        list(context._walk(folder, "", DockerIgnore([]), frozenset(), given_up))


def test_special_files_are_refused(folder: Path) -> None:
    """No archive can hold a pipe; the message names it and where to leave it out."""
    os.mkfifo(folder / "pipe")
    with pytest.raises(UsageError, match="pipe is neither file") as caught:
        read_build(job(folder))
    assert ".dockerignore" in caught.value.hint


@pytest.mark.parametrize("change", ["longer by a bit", "short", "#!/bin/zsh"])
def test_a_file_that_changes_after_the_plan(folder: Path, change: str) -> None:
    """What is built is what was planned, or nothing is."""
    (folder / "src/run.sh").write_text("#!/bin/sh!")
    source = read_build(job(folder))
    assert source is not None
    (folder / "src/run.sh").write_text(change)
    with pytest.raises(CheckFailed, match=r"src/run.sh changed since the plan"):
        source.archive().close()


def test_what_is_appended_after_the_plan_is_left_out(folder: Path) -> None:
    """It may be the log of this very call, as of `distui run job.yaml > run.log`."""
    (folder / "src/run.sh").write_text("one\n")
    source = read_build(job(folder))
    assert source is not None
    with (folder / "src/run.sh").open("a") as file:
        file.write("two\n" * 20_000)
    with source.archive() as archive:
        archive.seek(0)
        with tarfile.open(fileobj=archive) as tar:
            member = tar.extractfile("src/run.sh")
            assert member is not None and member.read() == b"one\n"


@pytest.mark.parametrize("put", ["", "folder", "link"])
def test_a_file_that_is_gone_after_the_plan(folder: Path, put: str) -> None:
    """It is named, and not the folder into which the archive is written."""
    source = read_build(job(folder))
    assert source is not None
    (folder / "src/run.sh").unlink()
    if put == "folder":
        (folder / "src/run.sh").mkdir()
    elif put:
        (folder / "src/run.sh").symlink_to("deep/data.bin")
    with pytest.raises(CheckFailed, match=r"^build: src/run.sh changed since the plan"):
        source.archive().close()


def test_the_command() -> None:
    """Words, no shell: whatever an argument holds stays one word."""
    build = BuildPlan("./docker", "f" * 32, 1, 1, "a b/Dockerfile", {"A": "x; rm -rf /", "B": "$(id)"}, "last")
    assert build_argv(("sudo", "docker"), "my:1", build, "always") == (
        "sudo", "docker", "build", "--force-rm", "--pull", "--tag", "my:1", "--label", f"distui.build={'f' * 32}",
        "--file", "a b/Dockerfile", "--build-arg", "A=x; rm -rf /", "--build-arg", "B=$(id)", "--target", "last", "-",
    )  # fmt: skip


def test_a_folder_with_a_data_set_in_it_is_refused_before_it_is_read(folder: Path) -> None:
    """It was read to its end, twice. What .dockerignore leaves out does not count."""
    (folder / "data set").mkdir()
    with (folder / "data set" / "train.bin").open("wb") as file:
        file.truncate(200 << 30)
    (folder / "w.bin").write_bytes(bytes(2 << 20))
    with pytest.raises(UsageError) as caught:
        read_build(job(folder))
    assert re.search(
        r"is 21\d GB in \d+ files, more than 10g \(max_size\): data set/ 21\d GB, src/ 2.3 MB, w.bin 2.1 MB",
        caught.value.message,
    )
    assert caught.value.hint == (
        r"leave it out: write data set into .dockerignore; for data there are `volumes`, or raise max_size"
    )
    (folder / ".dockerignore").write_text("data set\n")
    source = read_build(job(folder))
    assert source is not None and source.plan.bytes < 5 << 20
    with pytest.raises(UsageError, match=r"more than 1m \(max_size\)"):
        read_build(job(folder, max_size=1 << 20))


def test_nobody_waits_any_more(folder: Path) -> None:
    """Ctrl-C ends reading and packing: distui ends with its last thread only."""
    given_up = threading.Event()
    source = read_build(job(folder))
    assert source is not None
    given_up.set()
    with pytest.raises(GivenUp):
        source.archive(given_up)
    (folder / "new").write_text("new")
    with pytest.raises(GivenUp):
        read_build(job(folder), given_up)
