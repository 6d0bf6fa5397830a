"""Data that is fetched to each host before the start: where it is kept there, by which program, and in words."""

from __future__ import annotations

import hashlib

from distui.plan.model import Fetch
from distui.spec.job.data_keys import CLIENTS
from distui.spec.job.job import DataMount

CACHE = "~/.cache/distui/data"
"""Below the login's home on each host."""

Argv = tuple[str, ...]


def fetch_of(mount: DataMount) -> Fetch | None:
    """What a mount fetches; None for one that is there already."""
    if mount.url is None:
        return None
    return Fetch(
        folder=f"{CACHE}/{_key(mount)}",
        is_folder=mount.url.endswith("/"),
        sha256=mount.sha256 or "",
        sums=mount.sums or "",
        clients=(mount.client,) if mount.client else CLIENTS[mount.url.partition("://")[0]],
        client_image=mount.client_image,
        endpoint=mount.endpoint or "",
        secrets=mount.secrets,
    )


def _key(mount: DataMount) -> str:
    """Names what is fetched: the same data has the same folder on a host, whatever job asks for it."""
    parts = (mount.url or "", mount.endpoint or "", mount.sha256 or "", mount.sums or "")
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def client_argv(client: str, url: str, fetch: Fetch) -> Argv:
    """How `client` copies `url` to `data` in the folder it starts in. `curl` fetches file by file: see fetch.sh."""
    source = url.rstrip("/")
    match client:
        case "aws" if fetch.is_folder:
            flags = ("--only-show-errors", "--delete")  # what is left of an earlier fetch, and is not there any more
            return ("aws", *_flag("--endpoint-url", fetch), "s3", "sync", *flags, f"{source}/", "data/")
        case "aws":
            return ("aws", *_flag("--endpoint-url", fetch), "s3", "cp", "--only-show-errors", source, "data")
        case "s5cmd":
            verb = ("sync", f"{source}/*", "data/") if fetch.is_folder else ("cp", source, "data")
            return ("s5cmd", *_flag("--endpoint-url", fetch), *verb)
        case "ossutil":
            what = ("-r", "-f", "-u", f"{source}/", "data/") if fetch.is_folder else ("-f", source, "data")
            return ("ossutil", "cp", *what, *_flag("-e", fetch))
        case "rclone":
            command = "sync" if fetch.is_folder else "copyto"  # which also removes what is not there any more
            return ("rclone", command, "--retries", "5", _rclone_source(source, fetch), "data")
        case _:
            return ("curl",)


def _flag(name: str, fetch: Fetch) -> Argv:
    return (name, fetch.endpoint) if fetch.endpoint else ()


def _rclone_source(source: str, fetch: Fetch) -> str:
    """A remote described in the argument itself; its keys are in the environment."""
    scheme, _, rest = source.partition("://")
    provider = "Alibaba" if scheme == "oss" else "Other" if fetch.endpoint else "AWS"
    endpoint = f',endpoint="{fetch.endpoint}"' if fetch.endpoint else ""
    return f":s3,provider={provider},env_auth=true{endpoint}:{rest}"


def contained(argv: Argv, engine_command: Argv, fetch: Fetch, folder: str, *, own_user: bool) -> Argv:
    """The client in a container, with `folder` as the place where it starts; secrets by name only.

    `@user@` stands for the login's uid and gid, known on the host only.
    """
    if fetch.client_image is None:
        return argv
    names = [word for name in fetch.secrets for word in ("-e", name)]
    user = ["--user", "@user@", "-e", "HOME=/tmp"] if own_user else []
    place = ["-v", f"{folder}:/fetch", "-w", "/fetch"]
    flags = ["--rm", "--init", "--network", "host", *user, *names, *place, "--entrypoint", argv[0]]
    return (*engine_command, "run", *flags, fetch.client_image, *argv[1:])


def words(url: str, fetch: Fetch) -> str:
    """In words: what is fetched where to, by what, and how it is checked."""
    image = f" of image {fetch.client_image}" if fetch.client_image else ""
    by = " or ".join(fetch.clients) + image
    return f"{url}, fetched to {fetch.folder} on every host before the start by {by}; {_check(fetch)}"


def _check(fetch: Fetch) -> str:
    if fetch.sums:
        pinned = f" (itself sha256 {fetch.sha256[:12]}...)" if fetch.sha256 else ""
        return f"every file checked by {fetch.sums}{pinned}"
    if fetch.sha256:
        return f"sha256 {fetch.sha256[:12]}..."
    return "not checked, since the job has no checksum; once fetched it is kept as it is"
