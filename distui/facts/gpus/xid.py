"""XIDs in words: the numbers the NVIDIA driver writes into the kernel's log (NVIDIA's "XID Errors" guide)."""

from __future__ import annotations

_WORDS = {
    13: "the program's kernel failed (illegal instruction or address)",
    31: "the program touched memory that is not its own",
    43: "the program's work on the GPU stopped",
    45: "the program was ended",
    48: "a memory error that ECC could not correct",
    61: "the GPU's microcontroller failed",
    62: "the GPU's microcontroller halted",
    63: "a memory page or row was put out of use",
    64: "a bad memory page or row could not be put out of use",
    74: "an NVLink failed",
    79: "the GPU has fallen off the bus",
    92: "many memory errors that ECC corrected",
    94: "a memory error, contained to one program",
    95: "a memory error that was not contained",
    119: "the GPU's system processor does not answer",
    120: "the GPU's system processor failed",
}

_PROGRAM = {13, 31, 43, 45, 94}
"""Those a program causes, or that end with it: the GPU itself goes on."""


def words(number: int) -> str:
    """What an XID means; empty for those that are rare."""
    return _WORDS.get(number, "")


def of_program(number: int) -> bool:
    """Whether the program is to be looked at, and not the GPU."""
    return number in _PROGRAM
