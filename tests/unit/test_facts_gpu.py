"""GPU tables with every trap met on real hosts, in literals."""

from __future__ import annotations

from distui.facts.gpus import amd, gpu, gpu_list
from distui.facts.host import Gpu, GpuProcess, MigDevice
from distui.facts.values import Reply

HEADER = "uuid, index, power.draw [W], name, memory.total [MiB], memory.used [MiB], utilization.gpu [%], pci.bus_id\n"


def table(*rows: str) -> str:
    return HEADER + "".join(f"{row}\n" for row in rows)


def test_columns_are_found_by_name_and_units_are_dropped() -> None:
    """The order of columns is nvidia-smi's business, not ours."""
    (got,) = gpu.parse_query(table("GPU-a, 3, 61.50 W, NVIDIA L4, 23034 MiB, 1 MiB, 7 %, 00000000:C1:00.0"))
    assert (got.index, got.uuid, got.name, got.pci) == (3, "GPU-a", "NVIDIA L4", "00000000:C1:00.0")
    assert (got.power_w, got.memory_total_mib, got.memory_used_mib, got.utilization_pct) == (61.5, 23034, 1, 7.0)


def test_every_way_of_not_knowing_is_none() -> None:
    """A value that can't be known is unknown, never 0, and is no problem of the GPU."""
    for word in ("[N/A]", "N/A", "[Not Supported]", "ERR!", "[Unknown Error]", ""):
        (got,) = gpu.parse_query(table(f"GPU-a, 0, {word}, L4, 23034 MiB, {word}, {word}, {word}"))
        assert (got.power_w, got.memory_used_mib, got.utilization_pct, got.pci) == (None, None, None, None), word
        assert got.problem is None


def test_cells_that_say_lost_make_a_row_with_a_problem() -> None:
    """New drivers print the lost GPU's row with the reason in every cell."""
    lost = "[GPU is lost]"
    gpus = gpu.nvidia(
        Reply(
            table(
                f"{lost}, 1, {lost}, {lost}, {lost}, {lost}, {lost}, {lost}", "GPU-a, 0, 1 W, L4, 1 MiB, 0 MiB, 0 %, x"
            ),
            0,
        )
    ).gpus
    assert [(g.index, g.problem.code if g.problem else None) for g in gpus] == [(0, None), (1, "gpu_lost")]


def test_a_gpu_only_the_kernel_knows_gets_its_row() -> None:
    """Seven healthy GPUs of eight stay visible, and the eighth is named by the kernel's list."""
    healthy = [f"GPU-{i}, {i}, 60 W, H100, 81559 MiB, 0 MiB, 0 %, 00000000:{i:02X}:00.0" for i in range(8) if i != 5]
    kernel = [gpu.KernelGpu(f"0000:{i:02x}:00.0", "NVIDIA H100", f"GPU-{i}") for i in range(8)]
    text = table(*healthy) + "Unable to determine the device handle for GPU0000:05:00.0: Unknown Error\n"
    got = gpu.nvidia(Reply(text, 255), kernel=kernel)
    assert got.problem is None
    assert [g.index for g in got.gpus] == list(range(8))
    broken = got.gpus[5]
    assert (broken.uuid, broken.name) == ("GPU-5", "NVIDIA H100")
    assert broken.problem is not None and broken.problem.message == "Unknown Error"


def test_a_lost_gpu_is_found_in_every_spelling_of_the_complaint() -> None:
    """Old and new drivers; the new ones tell the index."""
    lines = {
        "Unable to determine the device handle for GPU 0000:2A:00.0: Unknown Error": (None, "gpu_unreadable"),
        "Unable to determine the device handle for GPU0000:2A:00.0: GPU is lost.  Reboot": (None, "gpu_lost"),
        "Unable to determine the device handle for GPU 6: 00000000:2A:00.0: GPU is lost.": (6, "gpu_lost"),
        "Unable to determine the device handle for GPU6: 0000:2A:00.0: GPU is lost.": (6, "gpu_lost"),
    }
    for line, (index, code) in lines.items():
        (found,) = gpu.broken_devices(line).values()
        assert (found.index, found.trouble.code) == (index, code), line
        (row,) = gpu.nvidia(Reply(line, 15)).gpus
        assert (row.index, row.pci) == (index or 0, "0000:2a:00.0")


def test_a_table_with_only_a_header_has_no_gpus_and_no_problem() -> None:
    """Nothing asked for, nothing wrong."""
    assert gpu.nvidia(Reply(HEADER, 0)) == gpu.Gpus()


def test_words_instead_of_a_table_are_the_reason_even_with_exit_0() -> None:
    """Some wrappers swallow the exit code."""
    problem = gpu.nvidia(Reply("No devices were found\n", 0)).problem
    assert problem is not None and problem.code == "no_devices"


def test_exit_codes_decide_before_words() -> None:
    """Messages are translated; the man page's exit codes are not."""
    codes = {4: "insufficient_permissions", 6: "no_devices", 9: "driver_not_loaded", 12: "driver_library_missing",
             15: "gpu_lost", 18: "driver_mismatch", 127: "not_installed", None: "nvidia_smi_timeout",
             124: "nvidia_smi_timeout", 141: "nvidia_smi_endless", 255: "nvidia_smi_failed"}  # fmt: skip
    for status, code in codes.items():
        trouble = gpu.classify("irgendein Fehler", status)
        assert trouble is not None and trouble.code == code
    assert gpu.classify("", 0) is None


def test_a_library_that_is_there_is_not_called_missing() -> None:
    """Every failure to begin names NVML, not only that of a missing one."""
    words = "Failed to initialize NVML: Unknown Error"
    trouble = gpu.classify(words, 255)
    assert trouble is not None and trouble.code == "nvidia_smi_failed" and words in trouble.message


def test_processes_go_to_their_gpu() -> None:
    """By UUID; where the driver names none, to the only GPU there is."""
    one, two = table("GPU-a, 0, 1 W, L4, 1 MiB, 0 MiB, 0 %, x"), "GPU-b, 1, 1 W, L4, 1 MiB, 0 MiB, 0 %, y\n"
    process = GpuProcess(7, "python", 12, "GPU-b")
    gpus = gpu.nvidia(Reply(one + two, 0), processes=[process]).gpus
    assert [g.processes for g in gpus] == [(), (process,)]
    nameless = GpuProcess(7, "python", 12)
    assert gpu.nvidia(Reply(one, 0), processes=[nameless]).gpus[0].processes == (nameless,)


def test_process_names_may_hold_commas() -> None:
    """The name column takes what is too much."""
    text = "pid, process_name, used_gpu_memory [MiB]\n12, a, b, c, 100 MiB\n13, [N/A], [N/A]\n"
    assert [(p.pid, p.name, p.memory_mib) for p in gpu.parse_apps(text)] == [(12, "a, b, c", 100), (13, "", None)]


def test_mig_lines_are_parts_of_the_gpu_above() -> None:
    """Indented lines are not GPUs."""
    text = "GPU 0: A100 (UUID: GPU-x)\n  MIG 1g.5gb      Device  0: (UUID: MIG-y)\nGPU 1: A100 (UUID: GPU-z)\n"
    assert gpu_list.parse_list(text) == (
        gpu_list.ListedGpu(0, "A100", "GPU-x", (MigDevice(0, "1g.5gb", "MIG-y"),)),
        gpu_list.ListedGpu(1, "A100", "GPU-z"),
    )


def test_amd_monitor_is_read_by_name() -> None:
    """ROCm 6.4 swapped the clock and use columns."""
    old = amd.parse_monitor("gpu,gfx,gfx_clock,vram_used,vram_total\n1,97,2100,1000,65520\n")
    new = amd.parse_monitor("gpu,power_usage,gfx_clk,gfx,vram_used,vram_total\n1,300,2100,97,1000,65520\n")
    before, now = (amd.sampled(Gpu(1, "", "AMD"), found[1]) for found in (old, new))
    assert (before.utilization_pct, now.utilization_pct, now.power_w, now.memory_total_mib) == (97, 97, 300, 65520)


def test_amd_tools_that_fail_are_a_reason() -> None:
    """A tool that is there and fails is a problem; no tool at all is none."""
    none = Reply(status=127)
    assert amd.amd(none, none, none) == amd.Gpus()
    hung = amd.amd(Reply(status=124), none, none).problem
    failed = amd.amd(none, none, Reply("Driver not initialized (amdgpu not found in modules)", 2)).problem
    assert hung is not None and hung.code == "amd_smi_timeout"
    assert failed is not None and "amdgpu not found" in failed.message


def test_a_gpu_whose_memory_cannot_be_read_is_not_healthy() -> None:
    """`[Unknown Error]` is a failure of the driver, `[N/A]` is how GPUs tell that share the host's memory."""
    head = "index, uuid, name, memory.total [MiB], power.draw [W]\n"
    rows = "0, GPU-a, NVIDIA GB10, [N/A], [Unknown Error]\n1, GPU-b, [Unknown Error], [Unknown Error], ERR!\n"
    sound, failed = gpu.parse_query(head + rows)
    assert (sound.problem, sound.memory_total_mib, sound.power_w) == (None, None, None)
    assert failed.problem is not None and failed.problem.code == "gpu_unreadable"
