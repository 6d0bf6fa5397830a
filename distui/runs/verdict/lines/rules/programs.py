"""What a program was started with, read and computed: modules, files, checkpoints, its loss, its command."""

from __future__ import annotations

from distui.runs.verdict.lines.rules.cause import MISMATCH, OF_THE_CODE, Cause

RULES: tuple[tuple[str, Cause], ...] = (
    (
        r"ModuleNotFoundError: No module named '?([\w.]+)'?",
        Cause("a Python module is missing", "install it in the image; on the host where the job has no container"),
    ),
    (
        r"^(?:/\S{1,999}/)?python[\d.]*t?: No module named ",  # of `python -m`
        Cause(
            "the module that `-m` names is not there",
            "check `command:` and `workdir:`, or install it in the image; `code: ./` (--set code=./) sends your folder",
            with_code="check its name, or install it in the image; `distui plan` says what was left out of the code",
        ),
    ),
    (
        r"^EOFError: EOF when reading a line$",
        Cause("it asked for input, of which a rank has none", "answer it by an option or variable of the program"),
    ),
    (
        r"Error: Parent directory .{1,999} does not exist\.$",  # torch.save
        Cause("a folder that it writes to is not there", "make it in the program, or name one of `volumes:`"),
    ),
    (
        r"An attempt has been made to start a new process before the\b",  # of multiprocessing, "spawn"
        Cause(
            "it starts processes while its own file is imported, which each of them does again",
            '`if __name__ == "__main__":` in front of what starts them',
        ),
    ),
    (
        r"^\S{0,999}sh: (?:line )?(?:\d+: )?(?:(?:set|wait): Illegal option -(?:o pipefail|n)$|Bad substitution$"
        r"|(?:\[\[|source|shopt|declare|pushd|let|mapfile|readarray): not found$"
        r"|Syntax error: (?:\"\(\" unexpected|Bad for loop variable|redirection unexpected))",
        Cause(
            "it is written for bash, and another shell runs it",
            '`command: [bash, -c, "..."]`, or `bash` in front of a script',
        ),
    ),
    (
        r"exec format error",
        Cause(
            "what it starts was built for another kind of CPU, or is a script without a `#!` line",
            "pull or build the image for this host's architecture; a script begins with `#!/bin/sh`",
        ),
    ),
    (
        r"ImportError: .*cannot open shared object file",
        Cause("a shared library is missing", "install it in the image; on the host where the job has no container"),
    ),
    (
        r"ImportError: .*(?:undefined symbol: |version `GLIBC(?:XX)?_[\d.]+' not found)",
        Cause(
            "a compiled module was built for other versions of its libraries",
            "install the build of it that fits the image's",
        ),
    ),
    (
        r"FileNotFoundError: \[Errno 2\] No such file or directory: '[\w+-]+'$",
        Cause(
            "a program that it starts, or a file, is not there",
            "a program: install it in the image, or see PATH; a file: check `volumes:`, `data:` and `workdir:`",
        ),
    ),
    (
        r"FileNotFoundError: \[Errno 2\]",
        Cause("a file the program needs is not there", "check `volumes:`, `data:` and `workdir:` on this host"),
    ),
    (
        r"PytorchStreamReader failed|failed finding central directory|unexpected EOF, expected \d+ more bytes"
        r"|SafetensorError: Error while deserializing header",
        Cause("a checkpoint is damaged or was cut off", "start from the one before it"),
    ),
    (
        r"Error\(s\) in loading state_dict",
        Cause("the checkpoint does not fit the model", "load one of this very model"),
    ),
    (
        r"Loss is nan, stopping|FloatingPointError: .*(nan|inf)"
        r"|: found (?:NaN|Inf) in local |loss returned in `training_step` is (?:nan|inf)"
        r"|Minimum loss scale reached|loss scale already at minimum",
        Cause("the loss is no number any more", "a lower learning rate, gradient clipping, or a look at the data"),
    ),
    (
        r"^(\[rank\d+\]: ?)?terminate called without an active exception$",  # pytorch issues 117762, 190489
        Cause(
            "a thread of compiled code still ran when the process ended",
            "with torch: torch.distributed.destroy_process_group() at the end of the program, once its model is"
            " gone; with DDP also `import torch.distributed.nn` before init_process_group()",
            aftermath=True,
        ),
    ),
    (
        r"Expected to have finished reduction in the prior iteration",
        Cause("parameters took no part in the loss, which DDP waits for", "find_unused_parameters=True in the program"),
    ),
    (
        r"Detected mismatch between collectives|op\.preamble\.length <= op\.nbytes",
        MISMATCH,
    ),
    (
        r"environment variable \w+ expected, but not set"
        r"|KeyError: '(RANK|LOCAL_RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT)'",
        Cause("the program was started without torch's environment", "`launcher: env` or `torchrun` sets it"),
    ),
    (
        r"unrecognized arguments: .*--local[-_]rank",
        Cause("the program does not know --local-rank", "read LOCAL_RANK in it, and use `launcher: torchrun`"),
    ),
    (
        r"HTTPS?ConnectionPool|couldn't connect to 'https?://|urlopen error",
        Cause(
            "a download, or something else that it asked a web service for, failed",
            "let this host reach the network, or give it as `data:`",
        ),
    ),
    (
        r"\[FATAL tini.*exec .* failed: No such file",
        Cause(
            "the command is not in the image",
            "check `command:` and the image's PATH; `code: ./` sends the job's own folder",
            with_code=OF_THE_CODE,
        ),
    ),
    (
        r"can't open file '(?:.*/)?(?:sh|timeout|python[\d.]*|torchrun)': \[Errno 2\]",
        Cause(
            "the image's own entry point took the command as its arguments",
            "`entrypoint: env` in the job runs the command itself",
        ),
    ),
    (
        r"can't open file '.*': \[Errno 2\]",
        Cause(
            "the program's file is not there",
            "send your folder with `code: ./` (--set code=./), or check `volumes:` and `workdir:` on this host",
            with_code="check its path in `command:`; `distui plan` says what was left out of the code",
        ),
    ),
    (
        r"with an unsupported type \(<class '[\w.]*\.PerReplica'>\)"
        r"|you need to pass this dataset to ClusterCoordinator",
        Cause(
            "most likely `fit` of Keras 3, which does not know this strategy",
            "tf_keras in the image and TF_USE_LEGACY_KERAS=1 in `env:`, or a loop of your own",
        ),
    ),
)
