"""What the keys of a job file must be to each other."""

from __future__ import annotations

from distui.spec.job.data_keys import check_targets
from distui.spec.job.job import Rendezvous, Torchrun, destination
from distui.spec.job.job_forms import variables, volume_parts
from distui.spec.job.placeholders import slips
from distui.spec.job.role_keys import CONFIG, MADE, check_tf
from distui.spec.yaml.nodes import Items, Node, Scalar, Table
from distui.spec.yaml.problems import shown
from distui.spec.yaml.shapes import Look

SET_FOR_EACH_RANK = frozenset({"RANK", "LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"})
"""One value for all ranks can't be right, so a job may not set them."""


def check_job(look: Look) -> None:
    """Note every contradiction between keys."""
    _something_to_run(look)
    _limit(look)
    _hang(look)
    _gpus(look)
    _torchrun(look)
    check_tf(look)
    _command(look)
    _variables(look)
    _secrets(look)
    _code(look)
    check_targets(look)
    _build(look)


def _something_to_run(look: Look) -> None:
    if not any(map(look.written, ("command", "image", "build"))):
        look.problems.add(look.table, "command", "missing: there is neither a command nor an image to run")
    elif not look.written("command") and look.values.get("launcher") == "torchrun":
        look.note("launcher", "torchrun needs a command: the program and its arguments, such as [train.py]")
    elif not look.written("command") and look.values.get("launcher") == "command":
        look.note("launcher", "command needs a command: the launcher and its arguments")


def _limit(look: Look) -> None:
    if look.values.get("max_duration") is not None and not look.written("command"):
        look.note("max_duration", "needs a command to put `timeout` around; the image's own is not known")


def _hang(look: Look) -> None:
    """What is done at a hang needs ranks that can be asked, a time, and an attempt that follows."""
    given = {key: look.values.get(key) for key in ("on_hang", "insight", "launcher", "retries")}
    if given["on_hang"] in (None, "tell"):
        return
    if given["insight"] == "off" or (given["launcher"] == "tf" and given["insight"] != "on"):
        look.note("on_hang", f"{given['on_hang']} needs ranks that can be asked where they are: set insight: on")
    if look.values.get("stall_after") == 0:
        look.note("on_hang", f"{given['on_hang']} needs the time after which ranks hang, but stall_after is 0")
    if given["on_hang"] == "restart" and not given["retries"]:
        look.note("on_hang", "restart needs attempts: set retries, or on_hang: stop")


def _gpus(look: Look) -> None:
    ranks = look.values.get("ranks")
    per_gpu = ranks is not None and ranks.per_gpu is not None
    if per_gpu and look.has("gpus_per_rank"):
        look.note("gpus_per_rank", "can't stand beside ranks.per_gpu; choose one")
    if look.values.get("gpus_per_host") == 0:
        if per_gpu:
            look.note("ranks", "per_gpu needs GPUs, but gpus_per_host is 0")
        if look.has("gpus_per_rank"):
            look.note("gpus_per_rank", "needs GPUs, but gpus_per_host is 0")
    if look.has("gpus_per_host") and look.has("gpus_by_host"):
        look.note("gpus_by_host", "can't stand beside gpus_per_host; choose one")


def _torchrun(look: Look) -> None:
    if look.values.get("launcher", "env") != "torchrun":
        if look.written("torchrun"):
            look.note("torchrun", "only means something with launcher: torchrun")
        return
    if look.values.get("visible_gpus") == "own":
        look.note("visible_gpus", "own can't work with torchrun, whose ranks share one container; use launcher: env")
    rendezvous = look.values.get("rendezvous")
    if isinstance(rendezvous, Rendezvous) and rendezvous.kind != "env":
        look.note("rendezvous", "torchrun's programs always meet by env; use torchrun.rdzv, or launcher: env")
    settings = look.values.get("torchrun", Torchrun())
    if settings.rdzv == "static" and settings.nnodes and settings.nnodes[0] < settings.nnodes[1]:
        look.note("torchrun", "nodes can only come and go with rdzv: c10d")
    if settings.rdzv == "static" and settings.last_call is not None:
        look.note("torchrun", "last_call only means something with rdzv: c10d")
    port = look.values.get("master_port")
    if port and settings.port and port != settings.port:
        look.note("master_port", f"torchrun.port says {settings.port}; write only one of them")
    if isinstance(look.values.get("command"), str):
        look.note("command", "torchrun needs a list: the program and its arguments, such as [train.py, --epochs, 3]")


def _command(look: Look) -> None:
    if look.values.get("launcher", "env") != "command":
        if look.written("task_per"):
            look.note("task_per", "only means something with launcher: command")
        return
    for name, value in look.values.get("env", {}).items():
        for word, near in slips(value):
            look.note("env", f"{name}: unknown placeholder {{{word}}}, did you mean {{{near}}}?")
    if look.values.get("task_per", "host") == "rank":
        return
    if look.values.get("visible_gpus") == "own":
        look.note("visible_gpus", "own needs a task for each rank; write task_per: rank")
    ranks = look.values.get("ranks")
    if ranks is not None and ranks.by_host:
        look.note("ranks", "a launcher on each host numbers ranks itself; write {per_host: N}, or task_per: rank")


def _variables(look: Look) -> None:
    """Variables that distui sets itself, differently for each task."""
    launcher = look.values.get("launcher", "env")
    for node, at, name in (found for key in ("env", "secrets") for found in variables(look.table.get(key), key)):
        if name in SET_FOR_EACH_RANK and launcher in ("env", "torchrun"):
            look.problems.add(node, at, "distui sets this for each rank; remove it")
        elif name == CONFIG and launcher == "tf":
            look.problems.add(node, at, MADE)


def _secrets(look: Look) -> None:
    """A secret may get its value from --env-file, but not from the job file."""
    both = set(look.values.get("secrets", ())) & _names_in_file(look.table.get("env"))
    node = look.table.get("secrets")
    for item in node.items if both and isinstance(node, Items) else ():
        if isinstance(item, Scalar) and item.text in both:
            message = f"{shown(item.text)} is also in env, where it would be shown; remove it there"
            look.problems.add(item, "secrets", message)


def _build(look: Look) -> None:
    """What is given to a build stays in the image, where everybody who has it can read it."""
    build = look.values.get("build")
    if build is None:
        return
    for name in sorted(set(build.args) & set(look.values.get("secrets", ()))):
        look.note("build", f"args: {name} is a secret; build arguments stay readable in the image")
    if "@" in (look.values.get("image") or ""):
        look.note("image", "what is built gets a name with a tag, not a digest")
    if look.values.get("pull") == "never":
        look.note("pull", "never can't stand beside build, which may fetch what the Dockerfile begins from")


def _code(look: Look) -> None:
    """Two things can't be mounted at one place."""
    code = look.values.get("code")
    place = destination(code, look.values.get("workdir")) if code is not None else None
    for volume in look.values.get("volumes", ()):
        if place is not None and volume_parts(volume)[1].rstrip("/") == place:
            look.note("code", f"{place} is the target of volume {shown(volume)} too; write code: {{to: ...}}")


def _names_in_file(env: Node | None) -> set[str]:
    """The variables that the job file itself sets."""
    match env:
        case Table():
            return {name for name, (word, _) in env.pairs.items() if not word.source.is_flag}
        case Items():
            lines = [n.text for n in env.items if isinstance(n, Scalar) and not n.source.is_flag]
            return {line.partition("=")[0] for line in lines}
        case _:
            return set()
