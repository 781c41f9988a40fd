"""The demo's table, JSON and picture."""

from __future__ import annotations

import json

import pytest

from wiresum.demo.outcome import DemoOutcome, Training, smooth


def training(backend, seconds, busiest):
    return Training(
        backend=backend, data="digits", workers=4, parameters=2_500_000, steps=3, step_seconds=[0.5, 0.5],
        losses=[2.0, 1.0, 0.5], images_per_second=256.0, accuracy=0.975, all_reduce_seconds=seconds,
        busiest_link_bytes=busiest,
    )  # fmt: skip


@pytest.fixture
def outcome():
    return DemoOutcome(
        [training("wiresum", 0.4, 10_000_000), training("gloo", 0.8, 20_000_000)], 250e6, 0.36, "for a test"
    )


def test_the_share_of_the_limit_is_what_part_of_it_is_reached(outcome):
    assert dict(outcome.rows())["share of the wire limit"] == ["90 %", "45 %"]
    assert [t["share_of_wire_limit"] for t in outcome.to_json()["trainings"]] == pytest.approx([0.9, 0.45])


def test_unshaped_links_have_no_limit():
    outcome = DemoOutcome([training("wiresum", 0.4, None)], None, None, "loopback")
    rows = dict(outcome.rows())
    assert rows["share of the wire limit"] == ["–"]
    assert rows["bytes on the busiest link"] == ["–"]


def test_json_is_json(outcome):
    assert json.loads(json.dumps(outcome.to_json()))["limit_seconds"] == pytest.approx(0.36)


def test_a_picture_is_drawn(outcome, tmp_path):
    outcome.draw(tmp_path / "demo.png")
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")


def test_smoothing_keeps_the_mean_of_what_is_there():
    assert smooth([4.0, 2.0, 0.0], width=2) == [4.0, 3.0, 1.0]
