"""Errors of sums: the lanes' bound, rings hop by hop, figures by hand, and a small run."""

from __future__ import annotations

import json
import math

import pytest
from typer.testing import CliRunner

import torch
from wiresum.bench.accuracy.data import KINDS
from wiresum.bench.accuracy.measure import PRODUCT, RIVAL, WAYS, relative_rms
from wiresum.bench.accuracy.sums import by_lanes, chunk_elements, ring
from wiresum.cli.main import app
from wiresum.plan.choices import lane_bytes

PAYLOAD_BYTES = 2944
RANKS = [1, 2, 3, 4, 8, 64, 128]


def rows(*values):
    return torch.tensor(values, dtype=torch.bfloat16)


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("lanes", ["int16-le", "int32-le"])
def test_lanes_are_within_their_bound_and_one_rounding(ranks, lanes):
    """docs/pytorch.md: n · 2^⌈log₂ n⌉ of the packet's largest value in units of a lane, before bfloat16 rounds."""
    tensors = KINDS["scales"](ranks, 2000, seed=ranks)
    exact, total = tensors.double().sum(0), by_lanes(tensors, lanes, PAYLOAD_BYTES).double()
    packet = PAYLOAD_BYTES // lane_bytes(lanes)
    for begin in range(0, 2000, packet):
        one = slice(begin, begin + packet)
        unit = 2.0 ** (1 - 8 * lane_bytes(lanes)) * tensors[:, one].double().abs().max()
        bound = ranks * 2 ** math.ceil(math.log2(ranks)) * unit
        assert (total[one] - exact[one]).abs().max() <= bound + 2**-8 * (exact[one].abs().max() + bound)


def test_whole_numbers_are_exact_and_every_type_keeps_its_own():
    tensors = rows([1, -2, 3], [4, 5, -6])
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        total = by_lanes(tensors.to(dtype), "int32-le", PAYLOAD_BYTES)
        assert total.dtype == dtype
        assert total.tolist() == [5, 3, -3]


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_what_the_network_hands_to_gloo_is_refused(value):
    with pytest.raises(ValueError, match="hands such tensors to Gloo"):
        by_lanes(rows([1.0, value], [1.0, 1.0]), "int16-le", PAYLOAD_BYTES)


def test_too_many_ranks_for_lanes_are_refused():
    with pytest.raises(ValueError, match="129 workers do not fit 16-bit lanes"):
        by_lanes(torch.ones(129, 4, dtype=torch.bfloat16), "int16-le", PAYLOAD_BYTES)


def test_a_ring_rounds_at_each_hop_in_the_order_of_its_chunks():
    """In bfloat16 256 + 1 is 256 and 1 + 1 + 256 is 258, so the order shows; chunk c begins at rank c - 1."""
    tensors = torch.ones(3, 6, dtype=torch.bfloat16)
    tensors[0] = 256
    assert ring(tensors).tolist() == [258, 258, 256, 256, 256, 256]
    assert ring(tensors.float()).tolist() == [258] * 6


@pytest.mark.parametrize(
    ("elements", "element_bytes", "ranks", "chunk"),
    [(1, 2, 3, 2), (6, 2, 3, 2), (7, 2, 3, 4), (1000, 2, 4, 250), (1001, 2, 4, 252), (5 << 20, 4, 4, 5 << 18)],
)
def test_chunks_of_a_ring(elements, element_bytes, ranks, chunk):
    """The last: 20 MiB of float32 are 20 segments of 1 MiB, five for each rank."""
    assert chunk_elements(elements, ranks, element_bytes) == chunk


@pytest.mark.parametrize("kind", KINDS)
def test_tensors_follow_from_their_seed(kind):
    first, again, other = (KINDS[kind](3, 100, seed) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert not torch.equal(first[0], first[1])
    assert first.isfinite().all()
    assert first.dtype == torch.bfloat16


def test_scales_are_those_of_positions():
    sizes = KINDS["scales"](64, 4096, seed=1).double().square().mean(0).sqrt()
    assert sizes.min() < 2**-3.5
    assert sizes.max() > 2**3.5


def test_errors_by_hand():
    tensors = rows([1, 10, 10, 10], [2, 10, 10, 10])
    whole, smallest = relative_rms(tensors, torch.tensor([4.0, 20.0, 20.0, 17.0]))
    assert whole == pytest.approx(math.sqrt((1 + 9) / (9 + 1200)))
    assert smallest == pytest.approx(1 / 3)
    assert relative_rms(tensors, tensors.sum(0)) == (0, 0)


def test_nobody_beats_one_rounding_and_float32_rounds_least():
    tensors = KINDS["gaussian"](8, 4096, seed=1)
    errors = {way: relative_rms(tensors, total(tensors, PAYLOAD_BYTES))[0] for way, total in WAYS.items()}
    assert errors["float32 ring"] < errors["rounded once"] <= errors["32-bit lanes"] <= errors[PRODUCT]
    assert errors["rounded once"] < errors[RIVAL]


def test_a_quick_run():
    done = CliRunner().invoke(app, ["bench", "accuracy", "--quick", "--json"])
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    cases = {(result["data"], result["ranks"], result["way"]) for result in report["results"]}
    assert cases == {(data, ranks, way) for data in KINDS for ranks in (4, 8) for way in WAYS}
    assert f"gradients, 8 ranks: {PRODUCT} / {RIVAL}, smallest quarter" in {r["name"] for r in report["ratios"]}
    assert all(result["median"] < 0.1 for result in report["results"])
    assert all(result["median"] > 0 for result in report["results"] if result["way"] != "float32 ring")


def test_a_table_has_a_column_for_each_number_of_ranks():
    done = CliRunner().invoke(app, ["bench", "accuracy", "--quick", "--data", "gaussian"])
    assert done.exit_code == 0, done.output
    assert "gaussian: 16-bit lanes" in done.stdout
    assert "exact to the bit" in " ".join(done.stdout.split())


@pytest.mark.parametrize("given", ["", "1", "4,x", "4,,8", "129"])
def test_numbers_of_ranks_are_bounded(given):
    done = CliRunner().invoke(app, ["bench", "accuracy", "--ranks", given])
    assert done.exit_code != 0
    assert "not a list of numbers from 2 to 128" in " ".join(done.output.split())


def test_unknown_tensors_are_refused():
    done = CliRunner().invoke(app, ["bench", "accuracy", "--data", "uniform"])
    assert done.exit_code != 0
    assert "uniform is not one of gaussian, scales, gradients" in " ".join(done.output.split())
