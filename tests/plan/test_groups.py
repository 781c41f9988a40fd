"""Groups of a plan's workers, from a mesh or by rank."""

from __future__ import annotations

import json
from itertools import combinations

import pytest
from typer.testing import CliRunner

from wiresum.cli.main import app
from wiresum.errors import PlanError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.groups import groups_of_mesh, parse_mesh
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.topology.generators.star import star


def meshed(**job: object) -> AggregationPlan:
    return plan(star(workers=4), Job(copies=True, **job), PlanOptions(engine="udp"))


@pytest.mark.parametrize("sizes", [(2, 2), (2, 4), (3, 2, 4)])
def test_each_rank_of_a_mesh_is_in_one_group_of_each_axis(sizes: tuple[int, ...]) -> None:
    groups = groups_of_mesh(sizes)
    ranks = range(max(max(group) for group in groups) + 1)
    assert all(sum(rank in group for group in groups) == len(sizes) for rank in ranks)
    assert all(len(set(one) & set(other)) <= 1 for one, other in combinations(groups, 2))


@pytest.mark.parametrize("text", ["", "4", "1x4", "2x", "2x4x2x2x2", "-2x4", "2x4\n", "two", "2x999999"])
def test_what_is_no_mesh_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="2 to 4 axes of at least 2 ranks each, as 2x4"):
        parse_mesh(text)


def test_a_group_is_a_job_of_its_own() -> None:
    made = meshed(id=5, mesh=(2, 2), groups=[[0, 1, 3]])
    group = made.group(5)
    assert [worker.name for worker in group.workers] == [made.workers[rank].name for rank in (0, 1, 3)]
    assert (group.job.id, group.job.groups) == (10, None)
    assert group.job.secret not in (None, made.job.secret, made.group(1).job.secret)
    assert made.group(5) == group
    for number in (0, 6):
        with pytest.raises(PlanError, match=r"job\.groups.*gives 5 jobs"):
            made.group(number)


def test_nodes_have_the_keys_of_their_groups_and_no_secret_of_them() -> None:
    made = meshed(mesh=(2, 2))
    keys = json.loads(made.keys_of(0))
    assert list(keys["groups"]) == ["1", "2", "3", "4"]
    secrets = {made.job.secret, *(made.group(number).job.secret for number in range(1, 5))}
    assert len(secrets) == 5
    assert not any(secret in made.keys_of(0) for secret in secrets if secret)


def test_jobs_are_found_by_ranks_in_their_order() -> None:
    made = meshed(groups=[[0, 1], [0, 1], [0, 1, 2, 3]])
    assert [job.job.id for job in made.jobs_of([0, 1])] == [2, 3]
    assert [job.job.id for job in made.jobs_of(range(4))] == [1, 4]
    assert made.jobs_of([1, 0]) == made.jobs_of([1, 2]) == []


def test_threads_have_jobs_behind_that_of_their_group() -> None:
    made = meshed(id=5, groups=[[0, 1], [0, 1, 2, 3]], threads=3)
    assert made.job.threads == 3
    assert [job.job.id for job in made.jobs_of([0, 1])] == [8]
    assert [job.job.id for job in made.jobs_of(range(4))] == [5, 11]
    assert [(made.group(number).job.id, made.group(number).job.threads) for number in (1, 3, 4)] == [
        (6, 1),
        (8, 3),
        (9, 1),
    ]
    assert made.group(3).group(1) == made.group(4), "a group's plan has its threads"
    assert sorted(json.loads(made.keys_of(0))["groups"], key=int) == [str(number) for number in range(1, 9)]


@pytest.mark.parametrize(
    ("topology", "options", "words"),
    [
        (["star", "--workers", "4"], ["--exponents", "expected"], "job.threads do not go with exponents"),
        (["star", "--workers", "4"], ["--participants", "3"], "do not go with rounds without late workers"),
        (["star", "--workers", "4"], ["--switched", "pool"], "do not go with switches that sum"),
    ],
)
def test_what_does_not_go_with_threads_is_refused(topology: list[str], options: list[str], words: str) -> None:
    done = CliRunner().invoke(app, ["plan", *topology, "--threads", "2", *options])
    assert done.exit_code != 0
    assert words in " ".join(f"{done.output} {done.exception}".replace("│", " ").replace(":", "").split())


@pytest.mark.parametrize(
    ("group", "words"),
    [
        ([1], "fewer than two seats"),
        ([0, 0], "ascending order, each once"),
        ([2, 0], "ascending order"),
        ([0, 4], "has no seat 4: workers are 0 to 3"),
    ],
)
def test_sets_that_are_none_are_refused(group: list[int], words: str) -> None:
    with pytest.raises(PlanError, match=words):
        meshed(groups=[group])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--mesh", "4"], "4 is no mesh"),
        (["--mesh", "2x4"], "a mesh of 2x4 is of 8 ranks, not of the 4 workers"),
        (["--ranks", "0"], "0 are no ranks"),
        (["--ranks", "0,7"], "no seat 7"),
        (["--mesh", "2x2", "--participants", "3"], "do not go with rounds without late workers"),
    ],
)
def test_the_command_says_what_is_wrong(options: list[str], words: str) -> None:
    done = CliRunner().invoke(app, ["plan", "star", "--workers", "4", *options])
    assert done.exit_code != 0
    assert words in " ".join(f"{done.output} {done.exception}".replace("│", " ").split())


def test_the_command_writes_groups() -> None:
    words = ["plan", "star", "--workers", "4", "--mesh", "2x2", "--ranks", "0,1,2", "--ranks", "1,3"]
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["job"]["groups"] == [[0, 2], [1, 3], [0, 1], [2, 3], [0, 1, 2], [1, 3]]
