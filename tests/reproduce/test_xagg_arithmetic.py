"""Every recomputed figure of XAgg, by hand."""

from __future__ import annotations

import pytest

from wiresum.predict import predict_tree
from wiresum.reproduce.xagg import arithmetic, management, microbenchmark, printed, training
from wiresum.topology.generators.xagg import xagg


def test_x2_goodput_has_48_bytes_of_overhead():
    assert arithmetic.overhead_bytes() == 48
    assert arithmetic.goodput(320, 48) == pytest.approx(1280 / 1328) == pytest.approx(0.9639, abs=5e-5)
    assert arithmetic.goodput(32, 48) == pytest.approx(128 / 176) == pytest.approx(0.7273, abs=5e-5)
    assert "84 B of headers: 256 values 92.42 %" in microbenchmark.own_goodput(), "1024 / (1024 + 84)"


def test_x3_times_of_packets_and_the_line_through_them():
    few, many = (arithmetic.packet_ns(rate) for rate in printed.PACKETS_PER_S.values())
    assert (round(few), round(many)) == (239, 901)
    slope = (many - few) / 288
    assert slope == pytest.approx(2.30, abs=5e-3)
    assert few - 32 * slope == pytest.approx(165, abs=0.5)
    assert arithmetic.affine_packets_per_s(256) == pytest.approx(1.33e6, rel=5e-3)
    assert arithmetic.affine_packets_per_s(320) == pytest.approx(1.11e6)


def test_x4_one_core_is_faster_than_that_line():
    gradient = arithmetic.packets_per_s(13.03e9, 256)
    frames = arithmetic.packets_per_s(13.03e9, 256, overhead=48)
    assert gradient == pytest.approx(1.59e6, rel=5e-3)
    assert frames == pytest.approx(1.52e6, rel=5e-3)
    assert frames > arithmetic.affine_packets_per_s(256)
    assert [round(arithmetic.packet_ns(rate)) for rate in (gradient, frames)] == [629, 658]


def test_x6_ten_cores_are_three_quarters_of_linear():
    assert arithmetic.scaling_efficiency() == pytest.approx(99.5 / 130.3)
    assert microbenchmark._scaling().startswith("linear from one core: 7.6 cores (DPDK 6.7); ten give 76.4 %")


def test_x7_and_x8_growth_of_latency_and_reduction_of_loss():
    assert microbenchmark._latency_growth() == "+40.0 %"
    assert arithmetic.reduction(0.00261, 0.015) == pytest.approx(0.826)
    assert "82.6 % lower, not 87 %" in microbenchmark._loss_reduction()


def test_x9_means_over_ten_machines():
    assert arithmetic.mean_over_nodes(printed.INITIALIZATION_MS) == pytest.approx((7 * 12 + 2 * 5 + 2) / 10) == 9.6
    assert arithmetic.mean_over_nodes(printed.UPDATE_MS) == pytest.approx((7 * 2 + 2 * 1 + 1) / 10) == 1.7
    assert "9.6 and 1.7 ms" in management._negotiation()


def test_x10_reductions_of_communication():
    found = arithmetic.reductions(printed.RESNET50_COMMUNICATION_S)
    expected = {"TCP-Agg": 0.492, "SwitchML": 0.813, "NCCL": 0.699, "BytePS": 0.667}
    assert {rival: round(value, 3) for rival, value in found.items()} == expected


def test_x10_times_as_a_fluid():
    """PS takes in three gradients at 100 Gbit/s while S1's children send at 25; W1's link; seven gradients at PS."""
    gradient_ms = 1e3 * 8 * training.RESNET50_BYTES / 1e9
    xagg_ms, switch_ms, ps_ms = gradient_ms / 25, gradient_ms / 40, 7 * gradient_ms / 100
    text = training.fluid_times()
    assert f"XAgg {xagg_ms:.1f} ms, summing switch {switch_ms:.1f} ms, parameter server {ps_ms:.1f} ms" in text


def test_x11_peak_rates_as_a_fluid():
    """PS takes in 100 Gbit/s: half of it W7's while S1 and S2 bring a quarter each; a seventh without servers."""
    assert training.peaks() == "fluid, fastest worker: XAgg 50.0 Gbit/s, parameter server 14.3 Gbit/s: 3.50 ×"


def test_x13_speedups_are_quotients_of_times():
    found = arithmetic.speedups(printed.VGG16_S)
    expected = {"TCP-Agg": 1.20, "SwitchML": 1.51, "NCCL": 1.45, "BytePS": 1.37}
    assert {rival: round(value, 2) for rival, value in found.items()} == expected
    reductions = arithmetic.reductions(printed.VGG16_S)
    assert [round(1 + value, 2) for value in reductions.values()] == [1.16, 1.34, 1.31, 1.27], "what is printed"


@pytest.mark.parametrize(("computation", "ours", "theirs"), [(3.5, 0.31, 1.66), (1.0, 1.0, 4.0), (0.0, 1.0, 2.0)])
def test_x12_to_x14_the_model_of_an_epoch_gives_back_what_it_was_made_from(computation, ours, theirs):
    whole = arithmetic.reduction(computation + ours, computation + theirs)
    share = arithmetic.communication_share(whole, arithmetic.reduction(ours, theirs))
    assert share == pytest.approx(theirs / (computation + theirs))
    assert arithmetic.epoch_reduction(share, theirs / ours) == pytest.approx(whole)


def test_x18_three_children_are_the_fastest_tree_of_the_test_bed():
    text = management.trees()
    assert "it takes k = 3" in text
    assert "80 % of 128 GB = 102.4 GB" in text
    network = xagg(1.0)
    figure_12 = {node.name: node.sums_at for node in network.nodes if node.kind == "worker" or node.sums}
    seconds = predict_tree(network, figure_12, training.RESNET50_BYTES).seconds
    assert f"k = 3 {1e3 * seconds:.1f} ms" in text, "as quick as the paper's own tree"
