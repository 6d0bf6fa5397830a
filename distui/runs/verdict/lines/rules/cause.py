"""A cause of an end in plain words, and those that have a name since more than one place needs them."""

from __future__ import annotations

from distui.frozen import frozen


@frozen
class Cause:
    """What the log says went wrong, and what to do about it. `secondary` marks a peer's failure echoing here."""

    text: str
    hint: str = ""
    secondary: bool = False
    network: bool = False
    """Whether a network that no longer carries would look like this."""
    vague: bool = False
    """Says that something ended but not why: any other cause that the log names, an echo too, is better."""
    killed: bool = False
    """A process of it was killed: what else went wrong here explains more, but that a peer went away does not."""
    waited: bool = False
    """It waited for others in vain: a rank that failed in another way comes before it."""
    unclear: bool = False
    """It may be a peer's end that it met, or a trouble of its own: its words fit both."""
    reported: bool = False
    """What else its line names is reported of another task, in that one's words."""
    aftermath: bool = False
    """Of how a process ends that has failed already: an error that it raised before says why."""
    with_code: str = ""
    """What to do in place of `hint` where the job's code was sent."""


OF_THE_CODE = "check `command:`; a program of the code that was sent is written `./NAME`, and others are found by PATH"
"""Of a program that is not there."""
OTHERS = "look at what the other ranks said last"
"""What to do about an end that only follows from another's, where nobody knows whose."""
CRASH_HINT = "run it once with PYTHONFAULTHANDLER=1 in `env:`, which prints all stacks"
CRASH = Cause("the program crashed in compiled code", CRASH_HINT)

TIMED_OUT = Cause(
    "a collective timed out: another rank is late, stuck or gone",
    "look at the ranks that are silent",
    waited=True,
    network=True,
)
WATCHDOG = Cause(
    "a call of NCCL or CUDA did not return, and NCCL's watchdog ended the process",
    "look at the ranks that are silent; `dmesg -T | grep -i xid` tells of broken GPUs",
    vague=True,
    waited=True,
    network=True,
)
MISMATCH = Cause(
    "the ranks did not do the same collectives with tensors of the same size",
    "TORCH_DISTRIBUTED_DEBUG=DETAIL in `env:` names them",
)
UNREACHED = Cause(
    "a service that it uses could not be reached",
    "the last error names its client; see whether this host reaches the service",
    unclear=True,
)
SERVICE = Cause(
    "a service that it uses closed a connection",
    "the last error names its client; where a rank serves it, look at that one",
    unclear=True,
)
MEMORY = Cause("the host's memory, or what the container may use of it, is used up", "use less, or raise `--memory`")
HEAP = Cause(
    "the heap that its runtime may use is full", "`-Xmx` for Java, `--max-old-space-size` for Node; or use less"
)
CUT_OFF = Cause(
    "what it read was cut off: a peer had ended, or a file is not whole",
    "its traceback tells what it was reading",
    unclear=True,
)
IN_VAIN = (TIMED_OUT, WATCHDOG)
"""Causes of ranks that waited in a collective in vain."""
