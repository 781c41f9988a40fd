import re

import pytest

from wiresum.errors import PlanError
from wiresum.plan.explanation import explain
from wiresum.plan.job import Job
from wiresum.plan.models import equal_parts
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.planners.comparison import compare, sample_workers
from wiresum.topology.generators.fat_tree import fat_tree
from wiresum.topology.generators.goat import goat
from wiresum.topology.generators.leaf_spine import leaf_spine
from wiresum.topology.generators.star import star

FRAGMENT = 4_000_000
FIG2 = Job(sub_models=equal_parts("fragment", 3 * FRAGMENT, 3), gradient_bytes=3 * FRAGMENT)


def test_planners_of_both_kinds_are_judged_alike():
    found = {
        one.planner: one for one in compare(goat(2, FRAGMENT), FIG2, PlanOptions(), ["ps", "goat", "forest", "direct"])
    }
    assert found["goat"].cost.total_bytes < found["ps"].cost.total_bytes
    assert (found["ps"].cost.memory_share, found["goat"].cost.memory_share) == (0.0, 1.0)
    assert found["forest"].cost.predicted_seconds > 0
    assert found["direct"].cost is None
    assert "must meet in one root" in found["direct"].refusal
    assert found["goat"].to_json()["solution"]["gap"] == 0.0


def test_a_ring_is_compared_and_never_planned():
    (ring,) = compare(star(4), FIG2, PlanOptions(), ["ring"])
    assert ring.cost.total_bytes == pytest.approx(4 * 2 * 2 * 3 / 4 * 3 * FRAGMENT)  # 4 edges of 2 links
    assert ring.cost.predicted_seconds == pytest.approx(2 * 3 / 4 * 3 * FRAGMENT * 8 / 500e6)
    assert (ring.cost.in_network_share, ring.solution) == (0.0, None)
    with pytest.raises(PlanError, match="there is no planner ring"):
        plan(star(4), FIG2, PlanOptions(), "ring")


def test_a_forest_proves_what_it_states():
    (one,) = compare(goat(2, FRAGMENT), FIG2, PlanOptions(), ["forest"])
    assert one.solution.gap == pytest.approx(0.0, abs=1e-6)
    assert one.solution.value == pytest.approx(one.cost.bound_seconds)


def test_an_unknown_planner_is_named_before_any_is_asked():
    with pytest.raises(PlanError, match=r"no planner gaot; did you mean goat\? Or choose from direct"):
        list(compare(goat(), FIG2, PlanOptions(), ["ps", "gaot"]))


def test_a_network_without_a_server_is_a_reason_not_a_crash():
    (only,) = compare(star(2), FIG2, PlanOptions(), ["ps"])
    assert only.refusal == "topology star has no parameter server; give exactly one node the kind `ps`"


def test_workers_are_sampled_in_order_and_by_seed():
    topology = fat_tree(8)
    one = sample_workers(topology, 40, seed=1)
    assert one == sample_workers(topology, 40, seed=1) != sample_workers(topology, 40, seed=2)
    assert sorted(one, key=lambda name: int(name[1:])) == one
    with pytest.raises(PlanError, match=re.escape("has 127 workers, not 128; ask for 1 to 127")):
        sample_workers(topology, 128, seed=0)


def test_a_plan_in_words():
    words = explain(plan(goat(2, FRAGMENT), FIG2, PlanOptions(engine="udp"), "goat"))
    assert "4 workers (w0, w1, w2 and w3) sum their gradients at 4 nodes" in words
    assert "33.33 % of it, as `values1`:\n  ps is the root and adds S" in words
    assert re.search(r"S1 adds w0, w1, w2 and w3, and sends the sum to ps\.", words)
    proof = (
        "No answer is better, and none is below 1e+08 (gap 0.00%). The proof is about this number, and not about the"
    )
    assert f"{proof} time that `wiresum predict` simulates." in words


def test_long_lists_are_cut():
    words = explain(plan(star(9), Job(lanes="int16-le", codec="fixed:100")))
    assert "9 workers (w0, w1, w2, w3, w4, w5 and 3 more)" in words
    assert "1472 values of 16 bits, with the factor 100" in words


def test_lanes_of_both_widths_are_told():
    words = explain(plan(star(4), Job()))
    assert "Packets carry 736 float32 or 1472 narrower elements, with block exponents" in words


def test_networks_are_drawn(tmp_path):
    from wiresum.errors import SupportError
    from wiresum.plan.assignment.plot import draw

    (ps,) = compare(leaf_spine(), FIG2, PlanOptions(), ["ps"])
    draw(ps.cost.traffic, "leaf-spine", tmp_path / "loads.png")
    assert (tmp_path / "loads.png").read_bytes().startswith(b"\x89PNG")
    (large,) = compare(fat_tree(16), FIG2, PlanOptions(), ["ps"])
    with pytest.raises(SupportError, match="more than a picture shows"):
        draw(large.cost.traffic, "fat-tree", tmp_path / "large.png")
