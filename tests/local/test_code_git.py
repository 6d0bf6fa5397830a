"""git on this machine: one commit for all hosts, clear words for a ref that is none, and no token anywhere."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import shutil
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from distui.cluster.start.planning import read_sources
from distui.errors import CheckFailed, UsageError
from distui.runs.code import source as source_module
from distui.runs.code.changes import State, state_of
from distui.runs.code.git import call as git_call
from distui.runs.code.git import kept as git_kept
from distui.runs.code.git import lock as git_lock
from distui.runs.code.git import repository as git_module
from distui.runs.code.git.lock import fetching_alone
from distui.runs.code.git.repository import Repository
from distui.runs.code.ignore import Ignored
from distui.runs.code.limits import Limits
from distui.runs.code.scan import scan
from distui.runs.code.source import CodeReader
from distui.spec.job.job import Code, Job
from fakehosts.git import ENV, git


def commit(folder: Path, message: str = "c") -> str:
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", message)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """Two commits on main, a tag on the first, a branch; a link, an x bit, attributes that would change files."""
    root = tmp_path / "repo"
    (root / "src").mkdir(parents=True)
    git(tmp_path, "init", "-q", "-b", "main", str(root))
    (root / "train.py").write_text("one\r\n")
    (root / "src" / "run.sh").write_text("#!/bin/sh\n")
    (root / "src" / "run.sh").chmod(0o755)
    (root / "src" / "link").symlink_to("run.sh")
    (root / ".gitattributes").write_text("* text=auto\nsrc export-ignore\n")
    (root / ".gitignore").write_text("kept.log\n")
    (root / "kept.log").write_text("tracked though ignored\n")
    git(root, "add", "-f", "kept.log")
    commit(root)
    git(root, "tag", "-a", "v1.0", "-m", "first")
    (root / "train.py").write_text("two\n")
    commit(root)
    git(root, "branch", "feature/fast")
    return root


def repository(repo: Path, cache: Path, **options: str) -> Repository:
    return Repository(f"file://{repo}", cache, ENV, **options)


@pytest.mark.parametrize("asked", [{"GIT_DEFAULT_HASH": "sha256"}, {"GIT_TRACE2": "1", "GIT_TRACE": "1"}])
def test_what_the_login_asks_of_its_own_git_is_no_matter(repo: Path, tmp_path: Path, asked: dict[str, str]) -> None:
    """Its new repositories are of another kind; its git tells of all that it does."""
    there = Repository(f"file://{repo}", tmp_path / "cache", ENV | asked)
    assert there.checkout("main", None).commit == git(repo, "rev-parse", "main")
    with pytest.raises(CheckFailed, match=r"none: unable to connect"):
        Repository("git://127.0.0.1:1/none", tmp_path / "cache", ENV | asked).checkout("main", None)


@pytest.mark.parametrize(
    "warning",
    [
        "Warning: Permanently added 'h' (ED25519) to the list of known hosts.",
        "** WARNING: connection is not using a post-quantum key exchange algorithm.",
    ],
)
def test_what_ssh_only_warns_of_is_not_the_reason(tmp_path: Path, warning: str) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text(f'#!/bin/sh\necho "{warning}" >&2\necho "git@h: Permission denied (publickey)." >&2\nexit 255\n')
    ssh.chmod(0o700)
    with pytest.raises(CheckFailed, match=r"ssh://git@h/x: git@h: Permission denied") as raised:
        Repository("ssh://git@h/x", tmp_path / "cache", ENV | {"GIT_SSH_COMMAND": str(ssh)}).checkout("main", None)
    assert "ssh key" in raised.value.hint


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            "@@@@@\n@ WARNING: X! @\n@@@@@\nPermissions 0644 for '/k' are too open.\nIt is ignored.\n",
            "Permissions 0644",
        ),
        ("@@@@@\n@ WARNING: X! @\n@@@@@\nIT IS POSSIBLE\nHost key for h has changed and\nfailed.\n", "Host key for h"),
    ],
)
def test_the_reason_stands_behind_the_frames_that_ssh_draws(tmp_path: Path, said: str, reason: str) -> None:
    (tmp_path / "said").write_text(said)
    ssh = {"GIT_SSH_COMMAND": f"cat {tmp_path / 'said'} >&2; exit 1; :"}
    with pytest.raises(CheckFailed, match=f"ssh://git@h/x: {reason}"):
        Repository("ssh://git@h/x", tmp_path / "cache", ENV | ssh).checkout("main", None)


def test_a_ref_is_one_commit(repo: Path, tmp_path: Path) -> None:
    """HEAD, branch, tag, whole commit and the beginning of one; the files as they were committed."""
    first, second = git(repo, "rev-parse", "v1.0^{commit}"), git(repo, "rev-parse", "main")
    there = repository(repo, tmp_path / "cache")
    found = {ref: there.checkout(ref, None) for ref in (None, "main", "feature/fast", "v1.0", first, first[:9])}
    assert [found[ref].commit for ref in found] == [second, second, second, first, first, first]
    old = found["v1.0"].folder
    assert (old / "kept.log").read_text() == "tracked though ignored\n"
    assert (old / "src" / "run.sh").stat().st_mode & 0o100
    assert os.readlink(old / "src" / "link") == "run.sh"  # noqa: PTH115
    for name in ("src/", "./src", "src/./"):
        assert sorted(p.name for p in there.checkout("main", name).folder.iterdir()) == ["link", "run.sh"]
    assert there.checkout("main", ".").folder == there.checkout("main", None).folder
    assert found[None].folder == found["main"].folder


def test_a_branch_that_moves_is_looked_up_again(repo: Path, tmp_path: Path) -> None:
    """Each time the newest commit."""
    there = repository(repo, tmp_path / "cache")
    there.checkout("main", None)
    (repo / "train.py").write_text("three\n")
    newest = commit(repo)
    found = repository(repo, tmp_path / "cache").checkout("main", None)
    assert found.commit == newest
    assert (found.folder / "train.py").read_text() == "three\n"


def kept(cache: Path) -> list[str]:
    return sorted(path.name for path in (cache / "git").glob("*.trees/*"))


def aged(path: Path, days: float) -> None:
    then = time.time() - days * 86400
    os.utime(path, (then, then))


def test_a_commit_s_files_are_not_kept_for_ever(repo: Path, tmp_path: Path) -> None:
    """Those that were used last are, and are there without being written again; each start kept its own for ever."""
    cache, commits = tmp_path / "cache", []
    for number in range(git_kept.MOST_TREES + 4):
        (repo / "train.py").write_text(f"{number}\n")
        commits.append(commit(repo))
        aged(repository(repo, cache).checkout("main", None).folder, 20 - number)
    assert len(kept(cache)) == git_kept.MOST_TREES
    again = repository(repo, cache).checkout(commits[0], None)
    assert (again.folder / "train.py").read_text() == "0\n"
    assert not list(cache.glob("git/*.trees/.*"))


def test_a_commit_s_files_are_there_for_as_long_as_a_start_reads_them(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of this process or another; also where they were not used for long."""
    monkeypatch.setattr(git_kept, "MOST_TREES", 0)
    cache = tmp_path / "cache"
    first = repository(repo, cache).checkout("v1.0", None)
    aged(first.folder, 99)
    for _ in range(2):
        second = repository(repo, cache).checkout("main", None)
    assert kept(cache) == sorted([first.folder.name, second.folder.name])
    folder = first.folder
    del first
    repository(repo, cache).checkout("main", None)
    assert (kept(cache), folder.exists()) == ([second.folder.name], False)


@pytest.mark.parametrize("name", ["train.py", "src/run.sh", "src/link"])
def test_a_commit_s_files_that_lost_what_was_in_them_are_written_again(repo: Path, tmp_path: Path, name: str) -> None:
    """This machine lost its power a moment after they were written: hosts got empty files for thirty days."""
    for harm in (Path.unlink, lambda path: path.write_text("")):
        first = repository(repo, tmp_path / "cache").checkout("main", None).folder
        harm(first / name)
        again = repository(repo, tmp_path / "cache").checkout("main", None).folder
        assert (again / "train.py").read_text() == "two\n"
        assert (again / "src" / "run.sh").read_text() == (again / "src" / "link").read_text() == "#!/bin/sh\n"
        assert not list(tmp_path.glob("cache/git/*.trees/.*"))


def test_a_commit_s_folder_that_became_a_file_is_written_again(repo: Path, tmp_path: Path) -> None:
    """As a file system that was checked after a power cut may leave it."""
    first = repository(repo, tmp_path / "cache").checkout("main", None).folder
    shutil.rmtree(first / "src")
    (first / "src").touch()
    again = repository(repo, tmp_path / "cache").checkout("main", None).folder
    assert (again / "src" / "run.sh").read_text() == "#!/bin/sh\n"


def test_a_repository_that_was_not_used_for_long_goes(repo: Path, tmp_path: Path) -> None:
    """With its files, but not while somebody fetches into it."""
    cache, other = tmp_path / "cache", tmp_path / "other"
    shutil.copytree(repo, other, symlinks=True)
    aged(repository(repo, cache).checkout("main", None).folder, 99)
    (bare,) = (path for path in (cache / "git").iterdir() if "." not in path.name)
    aged(bare, 99)
    with git_lock.fetching_alone(bare, "x", threading.Event()):
        repository(other, cache).checkout("main", None)
        repository(other, cache).checkout("main", None)
        assert bare.exists()
    repository(other, cache).checkout("main", None)
    assert not bare.exists()
    assert (repository(repo, cache).checkout("main", None).folder / "train.py").read_text() == "two\n"


def test_git_writes_nothing_beside_what_is_read_of_it(
    repo: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The app may be on the terminal."""
    (tmp_path / "bin").mkdir()
    wrapper = tmp_path / "bin" / "git"
    wrapper.write_text('#!/bin/sh\necho "warning: of git" >&2\nPATH=${PATH#*:}\nexec git "$@"\n')
    wrapper.chmod(0o755)
    found = Repository(f"file://{repo}", tmp_path / "cache", {**ENV, "PATH": f"{tmp_path / 'bin'}:{ENV['PATH']}"})
    assert (found.checkout("main", None).folder / "train.py").is_file()
    assert capfd.readouterr().err == ""


def test_a_ref_that_is_none_is_reported_with_near_names(repo: Path, tmp_path: Path) -> None:
    """Also a commit nobody has, and a folder that is not in it."""
    there = repository(repo, tmp_path / "cache")
    with pytest.raises(UsageError, match=r"has no branch, tag or commit 'mian', did you mean 'main'\?"):
        there.checkout("mian", None)
    with pytest.raises(UsageError, match=r"commit 'zzz'; it has feature/fast, main, v1\.0"):
        there.checkout("zzz", None)
    with pytest.raises(UsageError, match=r"has no commit 0{40}"):
        there.checkout("0" * 40, None)
    with pytest.raises(UsageError, match=r"has no folder 'nope'"):
        there.checkout("main", "nope")


def test_a_repository_that_is_none_is_reported_in_git_s_words(tmp_path: Path) -> None:
    with pytest.raises(CheckFailed, match=r"git can't read file:///nowhere/x: .*does not (appear|exist)"):
        Repository("file:///nowhere/x", tmp_path, ENV).checkout("main", None)


@pytest.mark.parametrize(
    ("mode", "words"),
    [(None, "git is not installed on this machine"), (0o644, "git can't be started: Permission denied")],
)
def test_a_git_that_does_not_start_is_reported(repo: Path, tmp_path: Path, mode: int | None, words: str) -> None:
    """As where a folder on the PATH may not be searched."""
    if mode is not None:
        (tmp_path / "git").touch(mode)
    with pytest.raises(CheckFailed, match=words):
        Repository(f"file://{repo}", tmp_path / "cache", ENV | {"PATH": str(tmp_path)}).checkout("main", None)


def test_no_program_is_run_by_a_url(tmp_path: Path) -> None:
    """Should such a URL ever come through the reader, git itself refuses the transport."""
    with pytest.raises(CheckFailed, match="transport 'ext' not allowed"):
        Repository(f"ext::touch {tmp_path}/made", tmp_path / "cache", ENV).checkout("main", None)
    assert not (tmp_path / "made").exists()


def test_a_commit_too_large_is_left_out_of_by_the_rules_of_a_folder(repo: Path, tmp_path: Path) -> None:
    """Its ignore files are read as those of a folder are, though its files are not written yet."""
    (repo / "data").write_bytes(bytes(5000))
    (repo / ".distuiignore").write_text("\ufeffdata\n")
    commit(repo)
    made = repository(repo, tmp_path / "cache").checkout(None, None, (), Limits(total=1024))
    assert not (made.folder / "data").exists()
    assert (made.folder / "train.py").exists()


def test_submodules_and_large_file_pointers_are_reported(repo: Path, tmp_path: Path) -> None:
    """They are not fetched, and a program would stumble over them."""
    (repo / "model.bin").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 5\n")
    git(repo, "update-index", "--add", "--cacheinfo", f"160000,{git(repo, 'rev-parse', 'HEAD')},third/party")
    git(repo, "add", "model.bin")
    git(repo, "commit", "-qm", "more")
    found = repository(repo, tmp_path / "cache").checkout("main", None)
    assert found.left_out[0] == "left out: submodule third/party"
    assert "such files are pointers (model.bin)" in found.left_out[1]


def test_the_token_is_in_git_s_environment_only(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never in argv; the askpass script does not hold it and is gone after; nothing in the cache does."""
    calls: list[tuple[tuple[str, ...], dict[str, str], str]] = []
    real = git_module.call

    def call(argv: tuple[str, ...], env: dict[str, str], *more: Any) -> object:
        script = Path(env["GIT_ASKPASS"])
        calls.append((argv, env, script.read_text() if script.is_absolute() else ""))
        return real(argv, env, *more)

    monkeypatch.setattr(git_module, "call", call)
    repository(repo, tmp_path / "cache", token="s3cret").checkout("main", None)
    asked = [c for c in calls if "ls-remote" in c[0] or "fetch" in c[0]]
    assert asked
    for argv, env, script in asked:
        assert env["DISTUI_GIT_TOKEN"] == "s3cret"
        assert "s3cret" not in " ".join(argv) + script
        assert "credential.helper=" in argv
        assert argv.index("--") < argv.index(f"{repo}/.git")
        assert not Path(env["GIT_ASKPASS"]).exists()
    assert not any(b"s3cret" in p.read_bytes() for p in (tmp_path / "cache").rglob("*") if p.is_file())


class GitServer(BaseHTTPRequestHandler):
    """git's own http-backend, for those who bring the token."""

    token = "s3cret"
    root = ""

    def do_GET(self) -> None:
        user, _, password = (
            base64.b64decode(self.headers.get("Authorization", "").partition(" ")[2]).decode().partition(":")
        )
        if (user, password) != ("oauth2", self.token):
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="x"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        path, _, query = self.path.partition("?")
        env = {
            **ENV, "GIT_PROJECT_ROOT": self.root, "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path, "QUERY_STRING": query,
            "REQUEST_METHOD": self.command, "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
        }  # fmt: skip
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        reply = subprocess.run(("git", "http-backend"), env=env, input=body, capture_output=True, check=True).stdout
        head, _, rest = reply.partition(b"\r\n\r\n")
        self.send_response(200)
        for line in head.decode().splitlines():
            name, _, value = line.partition(": ")
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        self.wfile.write(rest)

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_a_private_repository_wants_the_token(repo: Path, tmp_path: Path) -> None:
    """It arrives by askpass; without it, and with a wrong one, the words say what to do, and nobody is asked."""
    handler = type("Here", (GitServer,), {"root": str(repo.parent)})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            url = f"http://127.0.0.1:{server.server_port}/repo/.git"
            found = Repository(url, tmp_path / "cache", ENV, token="s3cret").checkout("v1.0", None)
            assert found.commit == git(repo, "rev-parse", "v1.0^{commit}")
            for token, hint in ((None, "needs token: NAME"), ("wr0ng", "is the token right?")):
                with pytest.raises(CheckFailed) as caught:
                    Repository(url, tmp_path / "other", ENV, token=token).checkout("main", None)
                assert hint in caught.value.hint
                assert "wr0ng" not in caught.value.message
        finally:
            server.shutdown()


def state(folder: Path) -> State | None:
    return state_of(folder, scan(folder, Ignored()).tree, ENV)


def test_what_is_not_committed_is_reported(repo: Path) -> None:
    """Commit, a line for each changed and each new file, and the diff; a clean folder has none."""
    clean = state(repo)
    assert clean is not None
    assert (clean.commit, clean.stat, clean.diff) == (git(repo, "rev-parse", "HEAD"), "", "")
    (repo / "train.py").write_text("changed\n")
    (repo / "new file.py").write_text("")
    dirty = state(repo)
    assert dirty is not None
    assert "train.py | 2 +-" in dirty.stat
    assert "new file.py | new" in dirty.stat
    assert "-two\n+changed\n" in dirty.diff
    below = state(repo / "src")
    assert below is not None
    assert below.stat == ""
    assert state(repo.parent) is None


@pytest.mark.parametrize("name", [".cfg", "cfg.", "...", "..a", ".github/workflows"])
def test_a_folder_with_dots_in_its_name_has_its_commit(repo: Path, name: str) -> None:
    folder = repo / name
    folder.mkdir(parents=True)
    (folder / "a.py").write_text("one\n")
    newest = commit(repo)
    (folder / "a.py").write_text("two\n")
    found = state(folder)
    assert found is not None
    assert found.commit == newest
    assert "a.py | 2 +-" in found.stat
    assert "-one\n+two\n" in found.diff


def test_what_differs_is_said_for_every_kind_of_change(repo: Path) -> None:
    """Gone, other mode, other link, a file in a link's place; names that need quoting; refs packed, HEAD detached."""
    (repo / 'o"dd \n\\name').write_text("x\n")
    newest = commit(repo)
    git(repo, "pack-refs", "--all")
    (repo / "train.py").unlink()
    (repo / "src" / "run.sh").chmod(0o644)
    (repo / "src" / "link").unlink()
    (repo / "src" / "link").symlink_to("elsewhere")
    (repo / 'o"dd \n\\name').write_text("y\n")
    found = state(repo)
    assert found is not None
    assert found.commit == newest
    assert "4 files changed" in found.stat
    assert "deleted file mode 100644" in found.diff
    assert "old mode 100755\nnew mode 100644" in found.diff
    assert "-run.sh\n\\ No newline at end of file\n+elsewhere" in found.diff
    assert "-x\n+y\n" in found.diff
    (repo / "src" / "link").unlink()
    (repo / "src" / "link").write_text("a file\n")
    git(repo, "checkout", "-q", "--detach", "-f", "v1.0^{commit}")
    (repo / "src" / "run.sh").write_text("other\n")
    below = state(repo / "src")
    assert below is not None
    assert below.commit == git(repo, "rev-parse", "v1.0^{commit}")
    assert "run.sh | 2 +-" in below.stat
    assert "train.py" not in below.stat


def test_ends_of_lines_and_large_file_pointers_make_no_difference(repo: Path) -> None:
    """What git stores differently by attributes: the filters themselves are not run."""
    content = b"model" * 1000
    pointer = (
        f"version https://git-lfs.github.com/spec/v1\noid sha256:{hashlib.sha256(content).hexdigest()}\nsize 5000\n"
    )
    (repo / "model.bin").write_text(pointer)
    (repo / "dos.txt").write_bytes(b"one\r\ntwo\r\n")
    commit(repo)
    (repo / "model.bin").write_bytes(content)
    found = state(repo)
    assert found is not None
    assert (found.stat, found.diff) == ("", "")
    (repo / "model.bin").write_bytes(b"other" * 1000)
    assert (changed := state(repo)) is not None
    assert "model.bin" in changed.stat


def test_a_repository_that_can_t_be_read_is_none(repo: Path) -> None:
    """No commit yet, HEAD that leads nowhere or out of it, a pipe in place of a file: no words, and no waiting."""
    head = repo / ".git" / "HEAD"
    for text in ("ref: refs/heads/nope\n", "ref: ../../secret\n", "ref: refs/../../x\n", "0" * 40, "\0", ""):
        head.write_text(text)
        assert state(repo) is None
    head.unlink()
    os.mkfifo(head)
    assert state(repo) is None
    shutil.rmtree(repo / ".git")
    (repo / ".git").write_text("gitdir: loop\n")
    (repo / "loop").symlink_to("loop")
    assert state(repo) is None


def test_a_repository_with_long_hashes(tmp_path: Path) -> None:
    """git's sha256 format."""
    root = tmp_path / "new"
    git(tmp_path, "init", "-q", "--object-format=sha256", str(root))
    (root / "a.py").write_text("a\n")
    newest = commit(root)
    (root / "a.py").write_text("b\n")
    found = state(root)
    assert found is not None
    assert (found.commit, "-a\n+b\n" in found.diff) == (newest, True)


def test_the_plan_s_words_of_a_commit(repo: Path, tmp_path: Path) -> None:
    """Source without what nobody may see, ref and commit, and the same tree id as the folder itself would have."""
    reader = CodeReader(tmp_path / "cache", ENV)
    found = reader.read(Job("j", code=Code(git=f"file://{repo}", ref="v1.0")))
    assert found is not None
    assert (found.plan.source, found.plan.ref) == (f"file://{repo}", "v1.0")
    assert found.plan.commit == git(repo, "rev-parse", "v1.0^{commit}")
    assert {e.path for e in found.tree.entries} == {
        ".gitattributes", ".gitignore", "kept.log", "src/link", "src/run.sh", "train.py",
    }  # fmt: skip
    assert reader.read(Job("j")) is None


def test_a_folder_is_relative_to_the_job_file(tmp_path: Path) -> None:
    """And one that is not there is told by its whole path."""
    (tmp_path / "jobs").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("")
    job = Job("j", code=Code(path="../src"), path=str(tmp_path / "jobs" / "j.yaml"))
    found = CodeReader(tmp_path / "cache", ENV).read(job)
    assert found is not None
    assert [e.path for e in found.tree.entries] == ["a.py"]
    with pytest.raises(UsageError, match=f"{tmp_path}/jobs/../nope does not exist"):
        CodeReader(tmp_path / "cache", ENV).read(Job("j", code=Code(path="../nope"), path=job.path))


def test_a_url_that_is_being_typed_is_asked_for_once_it_stands_still(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many that come one after the other only the last is asked for; what failed is not asked for again at once."""
    monkeypatch.setattr(source_module, "STILL_SECONDS", 2.0)
    asked: list[str] = []
    real = CodeReader._repository

    def counted(self: CodeReader, code: Code, *more: Any) -> object:
        asked.append(code.git or "")
        return real(self, code, *more)

    monkeypatch.setattr(CodeReader, "_repository", counted)
    reader = CodeReader(tmp_path / "cache", ENV)
    urls = [f"file://{repo}"[:-n] for n in (3, 2, 1)] + [f"file://{repo}"]
    with ThreadPoolExecutor(4) as pool:
        results = []
        for url in urls:
            results.append(pool.submit(reader.read, Job("j", code=Code(git=url)), typing=True))
            while reader._newest is None or reader._newest[0].git != url:
                time.sleep(0.001)
        wait(results)
    assert asked == [urls[-1]]
    assert results[-1].result() is not None
    for _ in range(2):
        with pytest.raises(CheckFailed, match="git can't read"):
            reader.read(Job("j", code=Code(git=urls[0])), typing=True)
    assert asked == [urls[-1], urls[0]]


def test_a_fetch_that_fails_leaves_what_another_is_writing(repo: Path, tmp_path: Path) -> None:
    """Two launches may fetch into one cache at a time; what was ended at its limit, or long ago, goes."""
    found = Repository(f"file://{repo}", tmp_path / "cache", ENV)
    found.checkout("main", None)
    (cached,) = (tmp_path / "cache").rglob("objects/pack")
    now, old = cached / "tmp_pack_now", cached / "tmp_pack_old"
    for part in (now, old):
        part.write_bytes(b"x")
    os.utime(old, (0, 0))
    with pytest.raises(CheckFailed):
        found._fetch("--depth=1", "--", f"file://{repo}", "refs/heads/none")
    assert (now.exists(), old.exists()) == (True, False)


def test_a_fetch_that_was_killed_leaves_no_lock_in_the_way(repo: Path, tmp_path: Path) -> None:
    """Nor does a power cut: git would say for ever that the file exists."""
    found = repository(repo, tmp_path / "cache")
    found.checkout("v1.0", None)
    for name in ("shallow.lock", "refs/distui/tip.lock"):
        (found._folder / name).parent.mkdir(exist_ok=True)
        (found._folder / name).touch()
    assert found.checkout("main", None).commit == git(repo, "rev-parse", "main")
    assert list(found._folder.rglob("*.lock")) == []


def test_two_starts_at_once_fetch_one_after_the_other(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second waits, and says who was in its way where that one takes too long; git's locks are not touched then."""
    found = repository(repo, tmp_path / "cache")
    found.checkout("v1.0", None)
    lock = found._folder / "shallow.lock"
    with ThreadPoolExecutor() as pool:
        with fetching_alone(found._folder, "another", threading.Event()):
            lock.touch()
            second = pool.submit(repository(repo, tmp_path / "cache").checkout, "main", None)
            time.sleep(0.5)
            assert not second.done()
            lock.unlink()
        assert second.result(60).commit == git(repo, "rev-parse", "main")

    (repo / "new").write_text("")
    commit(repo)
    monkeypatch.setattr(git_lock, "PATIENCE", 0.3)
    with fetching_alone(found._folder, "another", threading.Event()):
        lock.touch()
        with pytest.raises(CheckFailed, match="another distui has been fetching file://"):
            found.checkout("main", None)
        assert lock.exists()


def test_what_is_there_waits_for_nobody(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many starts of a sweep at once the last ones waited for two minutes while the others asked, and failed."""
    monkeypatch.setattr(git_lock, "PATIENCE", 0.3)
    found = repository(repo, tmp_path / "cache")
    made = found.checkout("main", None)
    with fetching_alone(found._folder, "another", threading.Event()):
        assert found.checkout("main", None) == made
        assert found.checkout(made.commit, None) == made


@pytest.mark.parametrize("slow", ["another fetch", "git"])
async def test_a_start_that_is_given_up_waits_for_no_fetch(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow: str
) -> None:
    """Ctrl-C ends it, and nothing of that is kept as the repository's answer."""
    place, reader = tmp_path / "cache", CodeReader(tmp_path / "cache", ENV)
    job = Job("j", code=Code(git=f"file://{repo}"))
    held = repository(repo, place)._folder if slow == "another fetch" else tmp_path / "none"
    held.parent.mkdir(parents=True, exist_ok=True)
    with monkeypatch.context() as patched, fetching_alone(held, "another", threading.Event()):
        if slow == "git":
            patched.setattr(Repository, "_argv", lambda self, *words: ("sleep", "60"))
        began = time.monotonic()
        reading = asyncio.create_task(read_sources(reader, SimpleNamespace(job=job, token=None)))  # type: ignore[arg-type]
        await asyncio.sleep(1)
        assert not reading.done()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await asyncio.get_running_loop().shutdown_default_executor()
        assert time.monotonic() - began < 20
    assert reader.read(job) is not None


def test_git_may_remove_its_locks_before_it_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that does not end by itself is killed all the same."""
    lock = tmp_path / "shallow.lock"
    tidy = f'trap \'rm -f "{lock}"; exit 1\' TERM; : >"{lock}"; sleep 60 >/dev/null 2>&1 & wait'
    deaf = "trap '' TERM; exec sleep 60"
    monkeypatch.setattr(git_call, "_TIDY_SECONDS", 1.0)
    for script in (tidy, deaf):
        began = time.monotonic()
        with pytest.raises(CheckFailed, match="did not finish"):
            git_call.call(("sh", "-c", script), ENV, 0.5, tmp_path)
        assert time.monotonic() - began < 20
    assert not lock.exists()
