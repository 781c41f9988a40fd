from __future__ import annotations

from collections.abc import Callable

import pytest

from wiresum.errors import SupportError

_native = pytest.importorskip("wiresum._native", reason="wiresum._native is not built: run `make build`")


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


def test_xdp_aggregator_is_measured_hot_and_cold() -> None:
    try:
        rows = _native.bench_xdp(runs=1)
    except SupportError as missing:
        pytest.skip(str(missing))
    assert {row["engine"] for row in rows} == {"xdp", "feed", "empty", "protocol", "memory"}
    assert {row["values"] for row in rows} >= {32, 256, 736}
    assert {row["working_set"] for row in rows} == {0, 64 << 20}
    assert all(len(row["runs"]) == 1 and row["runs"][0] > 0 for row in rows)


@pytest.mark.parametrize("bench", [_native.bench_codec, _native.bench_aggregator, _native.bench_xdp])
def test_no_runs_are_no_measurement(bench: Callable[..., object]) -> None:
    with pytest.raises(ValueError, match="at least one"):
        bench(runs=0)
