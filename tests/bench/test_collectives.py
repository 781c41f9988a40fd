"""Wire limits of collectives, by hand for a small case, and what a report says of measured runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wiresum.bench.collectives.command import Options
from wiresum.bench.collectives.measure import cases, shape_of, to_report
from wiresum.errors import TestbedError
from wiresum.plan.choices import COLLECTIVES
from wiresum.plan.job import Job
from wiresum.predict.collectives import Shape

HEADERS = 14 + 28 + 38
PACKET = 2944 + HEADERS
BARRIER = 32 + HEADERS
SHAPE = Shape(elements=128 * 736, element_bytes=4, workers=4, payload_bytes=2944)
"""128 packets, which two barriers are about."""


@pytest.mark.parametrize(
    ("collective", "up", "down"),
    [
        ("all_reduce", 129 * PACKET, 129 * PACKET),
        ("reduce", 129 * PACKET + 2 * BARRIER, 129 * PACKET + 2 * BARRIER),
        ("reduce_scatter", 97 * PACKET + 2 * BARRIER, 33 * PACKET + 2 * BARRIER),
        ("all_gather", 33 * PACKET + 2 * BARRIER, 97 * PACKET + 2 * BARRIER),
        ("broadcast", 129 * PACKET + 2 * BARRIER, 129 * PACKET + 2 * BARRIER),
        ("pair", 130 * PACKET + 4 * BARRIER, 130 * PACKET + 4 * BARRIER),
        ("gather", 33 * PACKET + 2 * BARRIER, 97 * PACKET + 2 * BARRIER),
        ("scatter", 97 * PACKET + 2 * BARRIER, 33 * PACKET + 2 * BARRIER),
    ],
)
def test_own_parts_stay_and_headers_count(collective, up, down):
    traffic = SHAPE.traffic(collective)
    assert (traffic.up, traffic.down) == (up, down)
    assert traffic.seconds(8e6) == pytest.approx(max(up, down) / 1e6)


def test_narrow_types_are_copied_as_they_are_and_summed_in_lanes():
    options = Options(size_bytes=128 * 736 * 2, dtype="bfloat16")
    shape = shape_of(replace(options, lanes="int32-le"), Job())
    assert shape.traffic("all_reduce").up == SHAPE.traffic("all_reduce").up
    assert shape.traffic("broadcast").up == 65 * PACKET + BARRIER
    assert shape_of(options, Job()).traffic("all_reduce").up == (64 + 1) * PACKET


def test_a_tensor_that_cannot_be_shared_is_refused():
    with pytest.raises(TestbedError, match="--size"):
        shape_of(Options(size_bytes=12), Job())


def test_ratios_are_named_by_collective():
    options = Options(collectives=("pair",), workers=4, rate_bps=500e6)
    limit = SHAPE.traffic("pair").seconds(500e6)
    runs = [
        {"collective": "pair", "backend": backend, "seconds": seconds, "bytes_up": up, "bytes_down": 2 * up}
        for backend, seconds, up in (("wiresum", 2 * limit, 7), ("gloo", 5 * limit, 9))
    ]
    report = to_report(options, {"wiresum": {"pair": limit}}, runs, [])
    assert {ratio.name: pytest.approx(ratio.value) for ratio in report.ratios} == {
        "pair: wiresum / limit": 2, "pair: gloo / wiresum": 2.5
    }  # fmt: skip
    ours = report.to_json()["results"][0]
    assert {key: ours[key] for key in ("collective", "backend", "dtype", "bytes_up", "bytes_down")} == {
        "collective": "pair", "backend": "wiresum", "dtype": "float32", "bytes_up": 7, "bytes_down": 14
    }  # fmt: skip
    assert ours["limit_seconds"] == pytest.approx(limit)


def test_servers_exchange_alone_and_together():
    options = Options(workers=4, servers=4, rate_bps=200e6, size_bytes=10_000_000, collectives=("pair",))
    job = Job(copies=True, gradient_bytes=options.size_bytes)
    alone, together = cases(options, job, shape_of(options, job))
    assert [case.name for case in (alone, together)] == ["wiresum by 1 of 4", "wiresum by 4 of 4"]
    # One link carries what four workers exchange; four carry a quarter each.
    assert alone.limits["pair"] == pytest.approx(4 * together.limits["pair"], rel=0.01)
    seconds = {alone.name: 4.0, together.name: 1.0, "gloo": 2.0}
    runs = [
        {"collective": "pair", "backend": name, "seconds": value, "bytes_up": 1, "bytes_down": 1}
        for name, value in seconds.items()
    ]
    report = to_report(options, {case.name: case.limits for case in (alone, together)}, runs, [])
    assert [(ratio.name, ratio.value) for ratio in report.ratios if "limit" not in ratio.name] == [
        ("pair: gloo / wiresum by 1 of 4", 0.5),
        ("pair: wiresum by 1 of 4 / wiresum by 4 of 4", 4.0),
        ("pair: gloo / wiresum by 4 of 4", 2.0),
    ]


def test_every_collective_has_a_limit():
    assert all(SHAPE.traffic(name).up > 0 for name in COLLECTIVES)
