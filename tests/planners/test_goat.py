"""GOAT's problem against all of its answers written down, and KRGS against its lemmas and limits."""

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wiresum.errors import PlanError
from wiresum.plan.assignment import Assignment, Instance, excess_memory, validate
from wiresum.plan.job import Job, JobSubModel
from wiresum.plan.models import equal_parts
from wiresum.plan.options import PlanOptions
from wiresum.planners import assign, plan
from wiresum.planners.goat import solver
from wiresum.planners.goat.coverage import Coverage
from wiresum.planners.goat.problem import Problem, proven, to_nearest
from wiresum.planners.goat.repair import repaired
from wiresum.planners.goat.rounding import CORRECTED, leximin, list_scheduling, rounded
from wiresum.planners.goat.solver import Answer, Clock, exact
from wiresum.planners.goat.theorems import Bounds
from wiresum.predict.cost import cost_of
from wiresum.topology.generators.fat_tree import fat_tree
from wiresum.topology.generators.goat import goat
from wiresum.topology.generators.leaf_spine import leaf_spine
from wiresum.topology.graph import UNREACHABLE

ANY = proven(0.0, None, solver="test", status="heuristic")


def instance(topology, *sizes: int) -> Instance:
    return Instance.of(
        topology, Job(sub_models=[JobSubModel(name=f"g{i}", bytes=size) for i, size in enumerate(sizes)])
    )


@st.composite
def small(draw) -> Instance:
    """At most four switches that sum and three sub-models, so that all answers can be written down."""
    topology = leaf_spine(
        leaves=3, spines=2, hosts_per_leaf=draw(st.integers(1, 3)), programmable=draw(st.sampled_from([0.4, 0.6, 0.8])),
        memory_bytes=draw(st.integers(60, 150)), seed=draw(st.integers(0, 20)),
    )  # fmt: skip
    return instance(topology, *draw(st.lists(st.integers(10, 60), min_size=1, max_size=3)))


def least(problem: Problem) -> int:
    """Eq. (1) by enumeration."""
    shape = (len(problem.climb) - 1, len(problem.sizes))
    best = problem.value(problem.nothing)
    for bits in itertools.product([False, True], repeat=shape[0] * shape[1]):
        opened = np.vstack([np.ones(shape[1], dtype=bool), np.array(bits).reshape(shape)])
        if not problem.excess(opened).any():
            best = min(best, problem.value(opened))
    return best


def last(problem: Problem) -> Answer:
    *_, answer = exact(problem, Clock(20.0))
    return answer


@settings(max_examples=12)
@given(small())
def test_no_answer_is_better_than_the_exact_one(question):
    problem = Problem.of(question)
    answer = last(problem)
    assert problem.value(answer.x > 0) == least(problem)
    assert not problem.excess(answer.x > 0).any()
    assert answer.bound == pytest.approx(least(problem), rel=1e-6)


@given(small(), st.randoms(use_true_random=False))
def test_the_value_is_the_cost(question, random):
    """Eq. (1) as the programmes count it, as written, and as the network carries it."""
    problem, coverage = Problem.of(question), Coverage.of(Problem.of(question))
    opened = np.array(
        [[True] * len(problem.sizes)] + [[random.random() < 0.5 for _ in problem.sizes] for _ in problem.climb[1:]]
    )
    within = (coverage.members.astype(int) @ opened[1:]) > 0
    by_balls = coverage.base - coverage.weight @ within + problem.climb @ opened
    # A switch that is open and gets nothing still climbs in Eq. (1); it sends nothing, so it costs nothing there.
    assignment = to_nearest(question, opened, ANY, "oversubscribed")
    assert by_balls @ problem.sizes == problem.value(opened)
    assert problem.value(assignment.summed_at) == pytest.approx(cost_of(assignment, predict=False).total_bytes)
    assert cost_of(assignment, predict=False).total_bytes <= problem.value(opened)


@given(small(), st.randoms(use_true_random=False))
def test_whatever_is_repaired_fits_and_is_no_worse_than_nothing(question, random):
    problem = Problem.of(question)
    opened = np.array([[random.random() < 0.7 for _ in problem.sizes] for _ in problem.climb])
    fit = repaired(problem, opened)
    assert not problem.excess(fit).any()
    assert problem.value(fit) <= problem.value(problem.nothing)


@pytest.mark.parametrize("planner", ["goat", "krgs"])
def test_goats_example_is_solved_as_the_paper_does(planner):
    fig2 = assign(goat(2, 1000), Job(sub_models=equal_parts("fragment", 3000, 3)), planner=planner)
    cost = cost_of(fig2)
    assert (cost.server_ingress_bytes, cost.total_bytes) == (3000, 25_000)
    assert fig2.solution.value == 25_000


@pytest.mark.parametrize(
    ("topology", "sub_models"),
    [(leaf_spine(programmable=0.25), 16), (fat_tree(8, hosts_per_edge=6), 16), (fat_tree(8, hosts_per_edge=6), 110)],
    ids=["leaf-spine", "fat-tree", "fat-tree-110"],
)
def test_the_papers_networks_are_solved_with_proof(topology, sub_models):
    found = assign(topology, Job(sub_models=equal_parts("alexnet", 221_000_000, sub_models)), planner="goat")
    assert (found.solution.status, found.solution.gap) == ("optimal", 0.0)
    assert found.solution.value == cost_of(found, predict=False).total_bytes


def test_large_problems_go_in_blocks(monkeypatch):
    monkeypatch.setattr(solver, "MAX_COLUMNS", 100)
    monkeypatch.setattr(solver, "BLOCK_COLUMNS", 120)
    monkeypatch.setattr(solver, "GAP", -1.0)  # so that no greedy answer is good enough
    problem = Problem.of(instance(fat_tree(8, hosts_per_edge=6), *[14_000_000] * 16))
    *_, answer = exact(problem, Clock(60.0))
    value = problem.value(answer.x > 0)
    assert not problem.excess(answer.x > 0).any()
    assert answer.bound <= value <= answer.bound * 1.05


def test_without_time_there_is_an_answer():
    found = assign(
        leaf_spine(), Job(sub_models=equal_parts("m", 221_000_000, 16)), PlanOptions(time_limit_s=1e-6), planner="goat"
    )
    assert found.solution.status in {"time_limit", "optimal"}
    assert cost_of(found, predict=False).in_network_share > 0


def test_answers_survive_their_lines():
    problem = Problem.of(instance(goat(), 1000, 2000))
    again = Problem.parse(problem.to_json())
    assert again.value(again.nothing) == problem.value(problem.nothing)
    assert np.array_equal(again.memory, problem.memory)
    answer = last(problem)
    assert Answer.parse(answer.to_json()).to_json() == answer.to_json()


@given(st.lists(st.floats(1e-3, 1.0), min_size=1, max_size=9))
def test_every_knapsack_has_more_than_half(fractions):
    """Lemma 3, which needs k to be rounded down and the knapsacks to be even."""
    count = int(sum(fractions))
    packed = leximin(fractions, count)
    assert sorted(index for one in packed for index in one) == (sorted(range(len(fractions))) if count else [])
    assert all(sum(fractions[index] for index in one) > 0.5 - 1e-6 for one in packed)


def test_list_scheduling_breaks_the_lemma():
    fractions = [1 / 3, 1 / 3, 1 / 3, 1.0, 1.0]
    lightest = min(sum(fractions[index] for index in one) for one in list_scheduling(fractions, 3))
    assert lightest < 1
    assert min(sum(fractions[index] for index in one) for one in leximin(fractions, 3)) == pytest.approx(1.0)


@given(small(), st.integers(0, 1000))
def test_rounding_opens_what_it_sends_to(question, seed):
    problem = Problem.of(question)
    random = np.random.default_rng(seed)
    x = np.vstack([np.ones((1, len(problem.sizes))), random.random((len(problem.climb) - 1, len(problem.sizes)))])
    found = rounded(problem, x, question.groups.of, CORRECTED, random)
    assert found.opened[found.target, np.arange(len(problem.sizes))].all()
    assert (found.opened[1:].sum(axis=0) == np.floor(x[1:].sum(axis=0) + 1e-9)).all()
    validate(Assignment(question, found.target, ANY, allocation="oversubscribed"))


def test_krgs_is_feasible_and_more_seeds_are_no_worse():
    job = Job(sub_models=equal_parts("m", 221_000_000, 16))
    topology = leaf_spine(programmable=0.25)
    one = assign(topology, job, PlanOptions(seed=5), planner="krgs")
    many = assign(topology, job, PlanOptions(seed=5, tries=8), planner="krgs")
    assert not excess_memory(one).any()
    assert one.solution.bound <= many.solution.value <= one.solution.value
    assert assign(topology, job, PlanOptions(seed=5), planner="krgs").target.tolist() == one.target.tolist()


def test_krgs_as_printed_breaks_memory_limits_and_shows_it():
    job = Job(sub_models=equal_parts("m", 221_000_000, 16))
    topology = leaf_spine(programmable=0.25)
    found = [assign(topology, job, PlanOptions(seed=seed), planner="krgs-paper") for seed in range(4)]
    assert any(excess_memory(one).any() for one in found)
    broken = next(one for one in found if excess_memory(one).any())
    with pytest.raises(PlanError, match="bytes of sub-models and has"):
        validate(replace(broken, allocation="exclusive"))


def test_a_plan_that_breaks_memory_limits_is_not_made():
    topology, job = leaf_spine(programmable=0.25), Job(sub_models=equal_parts("m", 221_000_000, 16))
    options = (PlanOptions(seed=seed) for seed in range(20))
    broken = next(one for one in options if excess_memory(assign(topology, job, one, "krgs-paper")).any())
    with pytest.raises(PlanError, match="bytes of sub-models and has"):
        plan(topology, job, broken, "krgs-paper")


def test_theorem_5_with_the_papers_figures():
    """§IV-D: 64 MB, 2 MB a sub-model, 20 switches; ν is 64, and the factor 4."""
    bounds = Bounds(nu=2 * 64 / 2, switches=20)
    assert bounds.nu == 64
    assert bounds.is_tight
    assert bounds.stated_factor == 4
    assert bounds.memory_factor == pytest.approx(2.66, abs=0.01)
    assert not Bounds(nu=4, switches=20).is_tight


@pytest.mark.parametrize("planner", ["goat", "krgs", "krgs-paper"])
def test_what_has_no_answer_is_named(planner):
    whole = Job(sub_models=equal_parts("m", 221_000_000, 2))
    for topology, named in (
        (leaf_spine(programmable=0.0), "no switch of topology leaf-spine sums"),
        (leaf_spine(), "sub-model m/1 has 110500000 bytes, and no switch more than 64000000"),
    ):
        with pytest.raises(PlanError, match=re.escape(named)):
            assign(topology, whole, planner=planner)


def test_switches_behind_the_server_are_never_nearer():
    problem = Problem.of(instance(goat(), 1000))
    assert (problem.useful[:, 0] < UNREACHABLE).all()
    assert ((problem.useful == UNREACHABLE) | (problem.useful <= problem.hops[:, [0]])).all()
