"""What the benchmark of kills makes of what the workers say."""

from __future__ import annotations

import json

import pytest

from wiresum.bench.kills import measure as kills
from wiresum.bench.kills import ranks, root, tables
from wiresum.bench.kills.command import Options
from wiresum.bench.kills.measure import Kill, Watch
from wiresum.errors import TestbedError
from wiresum.plan.job import Job
from wiresum.planners import plan
from wiresum.topology.generators.star import star
from wiresum.topology.generators.xagg import xagg


def watch(*steps: dict[int, int]) -> Watch:
    """A watch of ranks that ended each step a second after the one before, with these checksums."""
    made = Watch()
    for number, checksums in enumerate(steps):
        for rank, checksum in checksums.items():
            seen = {"rank": rank, "step": number, "checksum": checksum, "at": float(number)}
            made.take(rank, False, json.dumps(seen))
    return made


def test_all_servers_but_the_root_are_killed():
    below_s1, below_s2 = {(rank, "S1") for rank in range(3)}, {(rank, "S2") for rank in range(3, 6)}
    planned = plan(xagg(), Job())
    assert kills.removable(planned) == {"S1": below_s1, "S2": below_s2}
    deep = kills.put_below(planned, "S1", "S2")
    assert kills.removable(deep) == {"S1": below_s1, "S2": below_s1 | below_s2}
    with pytest.raises(TestbedError, match="can be removed"):
        kills.removable(plan(star(2), Job()))


def test_the_workers_log_is_understood():
    seen = Watch()
    left = "wiresum: rank 1: left node S1 for PS in collective 7, as it is silent; pause 280 ms"
    for line in (left, "wiresum: rank 1: back at node S1 in collective 9", "Traceback"):
        seen.take(1, True, line)
    assert (seen.pauses_ms, seen.returns, seen.errors) == ([280.0], [(1, "S1")], ["Traceback"])


def test_a_gap_counts_where_it_overlaps_a_kill():
    seen = Watch()
    seen.times[0] = [0.0, 1.0, 5.0, 6.0]
    seen.times[1] = [0.0, 2.0, 4.5, 6.5]
    assert seen.longest_gap_s(1.5, 2.0) == 4.0
    assert seen.longest_gap_s(5.5, 5.6) == 2.0


@pytest.mark.parametrize(
    ("killed", "problem"),
    [
        ([{0: 1, 1: 1}, {0: 2, 1: 3}], "step 1 differs"),
        ([{0: 1, 1: 1}, {0: 3, 1: 3}], "step 1 differs"),
        ([{0: 1, 1: 1}, {0: 2}], "step 1 is missing on 1 ranks"),
        ([{0: 1, 1: 1}], "step 1 is missing on 2 ranks"),
    ],
)
def test_a_lost_or_wrong_step_fails_the_benchmark(killed: list[dict[int, int]], problem: str):
    calm = watch({0: 1, 1: 1}, {0: 2, 1: 2})
    kills.compare(calm, calm, workers=2)
    with pytest.raises(TestbedError, match=problem):
        kills.compare(watch(*killed), calm, workers=2)


def test_the_report_lists_every_kill():
    calm = watch(*({0: n, 1: n} for n in range(6)))
    report = kills.to_report(kills.Options(kills=2), [Kill("S1", 1.2, 2.5), Kill("S2", 3.1, 4.9)], calm, calm)
    gap, back, _, step = report.results
    assert (gap.runs, step.median) == ([1.0, 1.0], 1.0)
    assert back.runs == pytest.approx([1.3, 1.8])
    assert gap.extra["kills"] == [{"server": "S1", "at": 0.0}, {"server": "S2", "at": 1.9}]


def test_a_killed_root_is_timed_by_what_ranks_say() -> None:
    seen = root.LeavingWatch()
    for step in range(2):
        for rank in range(root.WORKERS):
            at = 10.0 * step + rank
            seen.take(rank, False, json.dumps({"rank": rank, "step": step, "checksum": 7 + step, "at": at}))
    seen.take(0, True, "wiresum: WARNING: all ranks go over to Gloo until the network is back (rank 1: silent)")
    seen.take(0, True, "wiresum: WARNING: all ranks are back in the network")
    assert (len(seen.left_at), len(seen.returned_at)) == (1, 1)
    assert seen.first_step_after(5.0) == 10.0 + root.WORKERS - 1
    assert seen.first_step_after(11.0) == float("inf")
    root.fail_unless_equal(seen, range(root.WORKERS))
    report = root.to_report(kills.Options(root=True), [root.RootKill(1.0, 2.5, 3.0, 5.0)], seen)
    assert [result.median for result in report.results] == [1.5, 2.0]
    seen.steps[1][0] += 1
    with pytest.raises(TestbedError, match="step 1 differs between ranks"):
        root.fail_unless_equal(seen, range(root.WORKERS))
    del seen.steps[0][2]
    with pytest.raises(TestbedError, match="step 0 is missing on 1 ranks"):
        root.fail_unless_equal(seen, range(root.WORKERS))


def test_the_pause_of_a_table_server_s_kill_is_the_longest_gap_of_any_rank():
    kills = [tables.Kill(0, 10.0, 11.0), tables.Kill(1, 20.0, 21.0)]
    times = [[9.9, 10.1, 10.9, 15.0, 15.1, 19.9, 20.9], [9.9, 10.7, 10.9, 15.0, 15.2, 20.0, 20.3]]
    report = tables.to_report(Options(), kills, times)
    pauses, calm = report.results
    assert pauses.runs == pytest.approx([4.1, 4.8])
    assert sorted(calm.runs) == pytest.approx([0.1, 0.2, 4.8]), "the last one overlaps no kill"
    assert report.notes == ["7 rounds, after each of which every row had its bits"]


@pytest.mark.needs("namespaces")
def test_servers_of_tables_are_killed_and_no_row_differs():
    seen = []
    report = tables.measure(Options(kills=2, down_s=0.0), lambda done, _all: seen.append(done))
    assert seen == [0, 1, 2]
    assert len(report.results[0].runs) == 2
    assert min(report.results[0].runs) > 0


def test_a_killed_rank_is_timed_by_what_the_others_say() -> None:
    seen = ranks.RankWatch()
    for step in range(3):
        for rank in (0, 1) if step else (0, 1, 2):
            line = {"rank": rank, "step": step, "checksum": 7 + step, "at": 10.0 * step + rank, "pid": 100 + rank}
            seen.take(rank, False, json.dumps(line))
    seen.take(0, True, "wiresum: WARNING: 2 of 3 ranks go on without ranks 1, 2 (worker w2 (rank 2) is lost: nothing)")
    seen.take(0, True, "wiresum: WARNING: all ranks are back in the network")
    assert (len(seen.left_at), len(seen.returned_at), seen.pids[2]) == (1, 1, 102)
    root.fail_unless_equal(seen, [0])
    report = ranks.to_report(Options(ranks=True), [ranks.RankKill(2, 1.5, 1.2, 2.0)], steps=3, trainings=1)
    assert [result.median for result in report.results] == [1.2, 1.5, 2.0]
    seen.steps[1][1] += 1
    with pytest.raises(TestbedError, match="step 1 differs between ranks"):
        root.fail_unless_equal(seen, [0])
    del seen.steps[2][0]
    seen.steps[1][1] -= 1
    with pytest.raises(TestbedError, match="step 2 is missing on 1 ranks"):
        root.fail_unless_equal(seen, [0])
