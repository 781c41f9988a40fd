from __future__ import annotations

from collections.abc import Callable

import pytest

from wiresum import _native
from wiresum.bench import native
from wiresum.bench.result import Result
from wiresum.bench.rows import measure
from wiresum.wire import POLICIES


def test_codec_is_measured_with_its_rivals() -> None:
    rows = _native.bench_codec(runs=1)
    assert {"exponent", "encode", "decode", "memcpy", "naive encode"} <= {row["step"] for row in rows}
    assert all(len(row["runs"]) == 1 and row["runs"][0] > 0 and row["unit"] == "GB/s" for row in rows)
    assert len({row["name"] for row in rows}) == len(rows)
    assert len({row["working_set_bytes"] for row in rows}) == 2


def test_user_space_aggregator_is_measured() -> None:
    rows = [row for row in _native.bench_aggregator(runs=1) if row["engine"] == "udp"]
    assert [row["values"] for row in rows] == [64, 128, 256, 512, 736]
    assert all(len(row["runs"]) == 1 and row["runs"][0] > 0 and row["unit"] == "ns" for row in rows)


@pytest.mark.needs("bpf")
def test_xdp_aggregator_is_measured_hot_and_cold() -> None:
    rows = _native.bench_xdp(runs=1)
    assert {row["engine"] for row in rows} == {"xdp", "feed", "empty", "protocol", "memory"}
    assert {row["values"] for row in rows} >= {32, 256, 736}
    assert {row["working_set"] for row in rows} == {0, 64 << 20}
    assert all(len(row["runs"]) == 1 and row["runs"][0] > 0 for row in rows)


@pytest.mark.needs("bpf")
def test_switch_policies_are_measured_in_one_run() -> None:
    rows = _native.bench_switch(runs=1)
    assert {row["policy"] for row in rows} == {*POLICIES, "admitted", "bounded", "feed", "aggregator"}
    assert {row["values"] for row in rows} == {32, 256, 736}
    assert all(len(row["runs"]) == 1 and row["runs"][0] > 0 and row["unit"] == "ns" for row in rows)


@pytest.mark.needs("bpf")
def test_hot_rows_of_both_kinds_are_measured_in_one_run() -> None:
    rows = _native.bench_rows(runs=1)
    assert {(row["engine"], row["lanes"]) for row in rows} >= {("xdp", "int32"), ("xdp", "float32"), ("feed", "int32")}
    assert {row["engine"] for row in rows} == {"xdp", "user space", "feed", "acknowledgement"}
    assert all(len(row["runs"]) == 1 and row["runs"][0] > 0 and row["unit"] == "ns" for row in rows)


def test_servers_tables_are_measured_beside_pytorch() -> None:
    rows = [native.to_result(row) for row in _native.bench_tables(runs=1, rows=10_000)]
    assert {(r.extra["ids"], r.extra["step"]) for r in rows} == {
        (ids, step) for ids in ("range", "hashed") for step in ("sum", "apply", "look up")
    }
    compared = measure.ratios([*rows, *measure.torch_results(1, 10_000)])
    assert {ratio.name for ratio in compared} == {
        f"server, {step}, {ids} / PyTorch, {step}" for step in ("apply", "look up") for ids in ("range", "hashed")
    }


def test_switch_policies_are_compared_without_the_making_of_packets() -> None:
    def row(policy: str, time: float) -> Result:
        return Result(policy, "ns", [time], {"policy": policy, "values": 256, "workers": 4})

    ratios = native.switch_ratios([row("feed", 40), row("hash", 160), row("cache", 140), row("aggregator", 130)])
    assert [(ratio.name, ratio.value) for ratio in ratios] == [("hash / cache", 1.2)]


@pytest.mark.needs("bpf")
def test_scaling_is_measured_beside_its_ceiling() -> None:
    rows = _native.bench_scaling(runs=1)
    assert {row["placement"] for row in rows} == {"apart", "own", "shared"}
    assert {row["batch"] for row in rows} == {1, 8}
    assert 1 in {row["cpus"] for row in rows}
    assert all(len(row["runs"]) == 1 and row["runs"][0] > 0 and row["unit"] == "packets/s" for row in rows)


def test_ratios_compare_cpus_at_equal_placement() -> None:
    def row(placement: str, cpus: int, rate: float) -> Result:
        place = {"placement": placement, "values": 256, "batch": 8, "cpus": cpus}
        return Result(f"{placement}, {cpus} CPUs", "packets/s", [rate], place)

    ratios = native.scaling_ratios([row("own", 1, 2.0), row("own", 2, 3.0), row("shared", 2, 1.0)])
    assert [(ratio.name, ratio.value) for ratio in ratios] == [("own, 2 CPUs / 1 CPU", 1.5)]


@pytest.mark.parametrize(
    "bench",
    [
        _native.bench_codec,
        _native.bench_aggregator,
        _native.bench_xdp,
        _native.bench_switch,
        _native.bench_scaling,
        _native.bench_rows,
        _native.bench_tables,
    ],
)
def test_no_runs_are_no_measurement(bench: Callable[..., object]) -> None:
    with pytest.raises(ValueError, match="at least one"):
        bench(runs=0)


def test_ways_of_packing_are_measured_on_both_layouts() -> None:
    rows = [native.to_result(row) for row in _native.bench_packaging(runs=1)]
    assert {(r.extra["layout"], r.extra["packaging"]) for r in rows} == {
        (layout, way) for layout in ("heat", "random") for way in ("arrival", "rank", "algorithm-1", "dealing")
    }
    assert all(r.unit == "pairs/s" and r.runs[0] > 0 and r.extra["packets"] >= 1 for r in rows)
