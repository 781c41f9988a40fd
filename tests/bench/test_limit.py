"""The wire limit, by hand for small cases."""

from __future__ import annotations

import pytest

from wiresum.bench.limit import StarTraffic

HEADERS = 14 + 28 + 38


def test_one_value_fills_a_block_and_the_preamble_a_packet():
    traffic = StarTraffic(elements=1, workers=4, payload_bytes=2944, lane_bytes=4)
    assert (traffic.value_fragments, traffic.preamble_fragments) == (1, 1)
    assert traffic.bytes == (32 + HEADERS) + (2944 + HEADERS)


def test_full_packets_have_no_padding():
    traffic = StarTraffic(elements=2 * 736, workers=4, payload_bytes=2944, lane_bytes=4)
    assert traffic.bytes == 3 * (2944 + HEADERS)


def test_16_bit_lanes_need_half_the_packets():
    wide = StarTraffic(elements=736_000, workers=8, payload_bytes=2944, lane_bytes=4)
    narrow = StarTraffic(elements=736_000, workers=8, payload_bytes=2944, lane_bytes=2)
    assert (wide.value_fragments, narrow.value_fragments) == (1000, 500)


def test_seconds_are_bits_over_the_rate():
    traffic = StarTraffic(elements=736, workers=1, payload_bytes=2944, lane_bytes=4)
    assert traffic.seconds(8e6) == pytest.approx(traffic.bytes / 1e6)
