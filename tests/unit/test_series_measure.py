"""What events of a run measure, and that whoever follows a run keeps it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from distui.plan.model import HostNetwork, RunPlan
from distui.runs.lines.events import GpuReading, HostSampled, Notice, Progressed, RunEnded
from distui.runs.series.measure import Measure
from distui.runs.series.reader import SeriesReader
from distui.runs.series.values import Series, unit_of
from distui.runs.series.writer import SeriesWriter
from distui.tui.metrics.reading import RunReader
from fakehosts.runs import Cluster, facts_of, plan_for

T0 = 1_760_000_000.0


def reported(at: float, seconds: float | None = None, **values: float) -> Progressed:
    return Progressed(at, 0, "h1", values, {}, seconds)


@pytest.fixture
def plan() -> RunPlan:
    """Two ranks on h1, with a GPU and with two."""
    made = plan_for("h1")
    task = dataclasses.replace(made.tasks[0], ranks=(0, 1), gpus=(0, 1, 2), rank_gpus=((0,), (1, 2)))
    return dataclasses.replace(made, tasks=(task,), networks=(HostNetwork("h1", "10.0.0.11", "eth0", "tcp"),))


def test_a_sample_is_of_the_ranks_whose_gpus_they_are(plan: RunPlan) -> None:
    """Means of load, sums of memory and power; what is unknown is not measured, nor what no rank has."""
    gpus = (
        GpuReading(0, utilization_pct=90.0, memory_used_mib=100, power_w=300.0),
        GpuReading(1, utilization_pct=10.0, memory_used_mib=10),
        GpuReading(2, utilization_pct=30.0, memory_used_mib=20),
        GpuReading(7, utilization_pct=99.0),
    )
    sample = HostSampled(1.0, "h1", gpus, {"eth0": (5.0, 6.0), "lo": (9.0, 9.0)}, cpu_pct=50.0)
    assert dict(Measure(plan).figures(sample)) == {
        Series("cpu_load", host="h1"): 50.0, Series("net_rx", host="h1"): 5.0, Series("net_tx", host="h1"): 6.0,
        Series("gpu_load", 0): 90.0, Series("gpu_memory", 0): 100, Series("gpu_power", 0): 300.0,
        Series("gpu_load", 1): 20.0, Series("gpu_memory", 1): 30,
    }  # fmt: skip
    assert Measure(plan).figures(HostSampled(1.0, "elsewhere", gpus)) == []
    assert Measure(plan).figures(Notice(1.0, "info", "x")) == []


def test_progress_is_what_the_job_tells_and_what_follows_from_it(plan: RunPlan) -> None:
    """Its values but counts; time of a step; throughput from a rate, an amount a step, or a count so far."""
    measure = Measure(plan)
    first = measure.figures(reported(10.0, 0.5, step=7, total=100, loss=2.0, tokens_per_step=64, samples=1000))
    assert dict(first) == {
        Series("loss"): 2.0, Series("tokens_per_step"): 64, Series("samples"): 1000, Series("step_time"): 0.5,
        Series("tokens_per_s"): 128.0,
    }  # fmt: skip
    later = dict(measure.figures(reported(12.0, None, step=9, samples=1500, tokens_per_s=3.0)))
    assert later == {Series("samples"): 1500, Series("samples_per_s"): 250.0, Series("tokens_per_s"): 3.0}
    again = dict(measure.figures(reported(13.0, samples=10)))
    assert again == {Series("samples"): 10}
    assert unit_of(Series("step_time")) == "s"
    assert unit_of(Series("loss")) == ""


async def test_who_follows_a_run_keeps_what_it_measures(cluster: Cluster) -> None:
    """A run from start to end: its loss with its step, and what its hosts did, in its folder."""
    for task, host in enumerate(cluster.hosts):
        host.engine.exits[task] = 0
        host.files[f"log-{task}"] = b"step 7 loss 1.5\n"
    plan = dataclasses.replace(cluster.plan(), progress=r"step (?P<step>\d+) loss (?P<loss>\S+)")
    controller = cluster.controller(plan)
    assert (await cluster.drive(controller)).outcome == "succeeded"
    stored = cluster.store.need("r1")
    reader = SeriesReader(stored.series_dir)
    assert reader.refresh()
    (row,) = reader.rows({Series("loss")})
    assert (row.last_step, row.bins[Series("loss")].mean) == (7, 1.5)


async def test_samples_are_kept_by_the_second(cluster: Cluster, tmp_path: Path) -> None:
    """What the emitter gets is on the disk as soon as the second is over for two, and all of it once the run has ended:
    before that is said.
    """
    controller = cluster.controller(plan_for("h1", facts={"h1": facts_of("h1")}))
    events = controller._run.events
    events.measure(controller.plan)
    reader = SeriesReader(controller.stored.series_dir)
    with events.writing():
        for i in range(4):
            await events.emit(HostSampled(1_700_000_000.0 + i, "h1", cpu_pct=10.0 * i))
        reader.refresh()
        assert [row.bins[Series("cpu_load", host="h1")].mean for row in reader.rows()] == [0.0]
        await events.emit(RunEnded(1_700_000_004.0, "succeeded", 0))
        reader.refresh()
        assert len(reader.rows()) == 4


def test_a_checkpoint_measures_no_loss_again(plan: RunPlan) -> None:
    """It is said with the step of before, maybe long after it: then nothing was learned."""
    measure = Measure(plan)

    def names(event: Progressed) -> list[str]:
        return [series.name for series, _ in measure.figures(event)]

    assert names(reported(T0, 1.0, step=5.0, loss=2.0)) == ["loss", "step_time"]
    assert names(reported(T0 + 40, 1.0, step=5.0, loss=2.0, checkpoint=5.0)) == ["checkpoint"]
    named = dataclasses.replace(reported(T0 + 60, 1.0, step=5.0, loss=2.0, checkpoint=5.0), words={"ckpt": "a.pt"})
    assert names(named) == ["checkpoint"]
    assert names(reported(T0 + 61, 1.0, step=6.0, loss=2.0, checkpoint=5.0)) == ["loss", "checkpoint", "step_time"]
    assert names(reported(T0 + 62, 1.0, step=6.0, loss=2.0, checkpoint=5.0)) == ["loss", "checkpoint", "step_time"]


def test_the_epoch_is_kept_and_no_other_count_is(plan: RunPlan, tmp_path: Path) -> None:
    """It tells which steps of two runs are the same; it is no curve of its own."""
    measure, writer = Measure(plan), SeriesWriter(tmp_path)
    for second in range(8):
        event = reported(
            T0 + second, step=float(second % 4), total=4.0, epoch=float(1 + second // 4), epochs=2.0, loss=1.0
        )
        writer.put(event.at, measure.figures(event), event.values["step"])
    writer.close()
    found = RunReader(lambda: SeriesReader(tmp_path)).read()
    assert [epoch for _, epoch in found.epochs] == [1.0] * 4 + [2.0] * 4
    assert (found.epoch_at(T0 + 3.5), found.epoch_at(T0 + 4.5), found.epoch_at(T0 - 1)) == (1.0, 2.0, None)
    assert found.names == ("loss",)
