"""Schedules through the binding: everybody before the judge, bounds below the exact programme below everybody."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from wiresum import _native
from wiresum.bench.schedule.instances import Case, instance
from wiresum.cli.main import app
from wiresum.errors import ScheduleError
from wiresum.schedule import SCHEDULERS, Timetable, judge, schedule
from wiresum.schedule.conflict import Search, conflict, require
from wiresum.schedule.programme import SlotProgramme
from wiresum.schedule.sharp import bound as sharp_bound
from wiresum.schedule.words import words
from wiresum.workload.instance import FORMAT

SMALL = Case(units=4, jobs=10, ports=2, places=1)
BLIND = {"fullest", "window-fixed", "round-robin", "matching", "uniform", "solstice", "eclipse", "spectra"}
"""They may find no way for a job."""
SLACK = 1 + 1e-6


@pytest.mark.parametrize("seed", range(1, 5))
@pytest.mark.parametrize("paper", [True, False])
def test_bound_is_below_exact_and_exact_below_everybody(seed, paper):
    asked = instance(SMALL, seed, paper)
    best = schedule(asked, "exact", time_limit_s=20)
    assert judge(asked, best.intervals) == best.cost
    by_prices = _native.schedule_bound(json.dumps(asked))
    in_whole_numbers = sharp_bound(asked, best.cost.completion_s, 20)
    assert by_prices <= in_whole_numbers * SLACK
    assert in_whole_numbers <= best.cost.completion_s * SLACK
    for name in SCHEDULERS.keys() - BLIND - {"exact", "events"}:
        assert best.bound_s <= schedule(asked, name).cost.completion_s * SLACK, name
    if best.status == "optimal":
        assert best.cost.completion_s <= schedule(asked, "turns").cost.completion_s * SLACK


def test_a_timetable_survives_its_file_and_a_changed_one_is_refused(tmp_path):
    asked = instance(SMALL, 1)
    made = schedule(asked, "turns", seed=3)
    file = tmp_path / "timetable.json"
    file.write_text(made.model_dump_json(exclude_none=True))
    read = Timetable.read(file)
    assert read == made
    slower = [
        interval.model_copy(
            update={"rates": [rate.model_copy(update={"rate_bps": rate.rate_bps / 2}) for rate in interval.rates]}
        )
        for interval in read.intervals
    ]
    with pytest.raises(ScheduleError, match="has sent"):
        judge(asked, slower)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"slot_s": 0.0}, "`slot_s`"),
        ({"jobs": []}, "`jobs`"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_wrong_instances_are_refused_by_field(change, message):
    with pytest.raises(ScheduleError, match=message):
        schedule({**instance(SMALL, 1), **change})


def test_exact_refuses_what_it_does_not_model():
    with pytest.raises(ScheduleError, match="darkens"):
        schedule({**instance(SMALL, 1), "darkens": "all"}, "exact")
    with pytest.raises(ScheduleError, match="set `slots` to true"):
        schedule({**instance(SMALL, 1), "slots": False}, "exact")


def test_exact_says_that_its_time_was_too_short():
    """The start of the solver's process alone takes longer."""
    with pytest.raises(ScheduleError, match=r"`exact` has no answer after 0\.001 s: allow more \(`--time-limit`\)"):
        schedule(instance(SMALL, 1), "exact", time_limit_s=0.001)


@pytest.mark.parametrize("seed", range(1, 4))
def test_sums_in_every_unit_are_known_to_the_exact_programme(seed):
    asked = {**instance(SMALL, seed), "trees": True}
    best = schedule(asked, "exact", time_limit_s=20)
    assert judge(asked, best.intervals) == best.cost
    assert _native.schedule_bound(json.dumps(asked)) <= best.cost.completion_s * SLACK
    ours = schedule(asked, "turns").cost
    assert best.bound_s <= ours.completion_s * SLACK
    # A server may still sum what a tree could.
    assert best.bound_s <= schedule({**asked, "trees": False}, "turns").cost.completion_s * SLACK


@pytest.mark.parametrize("seed", range(1, 5))
def test_without_slots_the_batch_ends_sooner_and_not_before_its_bound(seed):
    asked = {**instance(SMALL, seed), "slots": False}
    made = schedule(asked, "events")
    assert judge(asked, made.intervals) == made.cost
    assert made.bound_s == sharp_bound(asked, made.cost.completion_s, 1)
    assert made.bound_s <= made.cost.completion_s * SLACK
    assert made.cost.completion_s <= schedule(asked, "turns").cost.completion_s * SLACK
    with pytest.raises(ScheduleError, match="begin and end with slots"):
        judge({**asked, "slots": True}, made.intervals)
    with pytest.raises(ScheduleError, match="`slots`: `events` changes circuits at any time"):
        schedule({**asked, "slots": True}, "events")


def by_unit(unit, ports, places=0):
    return {"name": unit, "ports": ports, "switch_bps": 800e6, "places": places}


def job(number, workers, server, size):
    return {"id": number, "traffic": {"star": {"workers": workers, "server": server, "bytes": size}}}


def two_for_one_port():
    """Jobs 1 and 2 need the only port of u0 for a second each, as u0 sums none; job 3 is in a rack, job 4 elsewhere."""
    jobs = [job(1, {"u0": 1}, "u1", 10e6), job(2, {"u0": 1}, "u2", 10e6), job(3, {"u2": 2}, "u2", 5e6)]
    return {
        "format": FORMAT,
        "slot_s": 1.0,
        "dark_s": 0.02,
        "port_bps": 100e6,
        "host_bps": 100e6,
        "units": [by_unit("u0", 1), by_unit("u1", 2), by_unit("u2", 2)],
        "jobs": [*jobs, job(4, {"u1": 1}, "u2", 1e6)],
    }


@pytest.mark.parametrize("slots", [True, False])
def test_the_smallest_set_that_is_in_the_way_is_named(slots):
    asked = {**two_for_one_port(), "slots": slots}
    found = conflict(asked, 1.0)
    assert sorted(found.parts) == [("job", 1), ("job", 2), ("places", "u0"), ("ports", "u0")]
    assert found.is_least
    assert conflict(asked, 2.1) is None
    made = schedule(asked, "turns" if slots else "events")
    require(made, asked, made.cost.completion_s)
    with pytest.raises(ScheduleError, match=r"jobs 1 and 2 cannot all be complete by 1 s with the 0 .*1 port of u0\. "):
        require(made, asked, 1.0)


def test_a_job_that_is_too_slow_alone_is_in_the_way_without_any_port():
    asked = two_for_one_port()
    asked["jobs"] = [job(7, {"u0": 1}, "u1", 60e6), *asked["jobs"]]
    assert conflict(asked, 3.0).parts == [("job", 7)]
    with pytest.raises(ScheduleError, match="job 7 cannot be complete by 3 s, as their own links take longer"):
        require(schedule(asked), asked, 3.0)


def test_places_are_in_the_way_where_only_they_would_help():
    """Two jobs of a rack whose server could take them only one after the other, and one place to sum them."""
    units = [{**by_unit("u0", 0, places=1), "switch_bps": 1600e6}]
    jobs = [job(number, {"u0": 4}, "u0", 8e6) for number in (1, 2)]
    found = conflict({**two_for_one_port(), "units": units, "jobs": jobs, "server_bps": 100e6}, 1.0)
    assert sorted(found.parts) == [("job", 1), ("job", 2), ("places", "u0")]


@pytest.mark.parametrize("seed", range(1, 7))
def test_nothing_that_is_named_can_be_left_out(seed):
    asked = instance(SMALL, seed)
    by_s = _native.schedule_bound(json.dumps(asked)) * 0.999
    found = conflict(asked, by_s)
    search = Search(asked, by_s, True)
    rest = set(search.parts()) - set(found.parts)
    assert not search.holds_without(rest), "what is named is in the way"
    assert all(search.holds_without(rest | {part}) for part in found.parts)


def test_a_search_that_is_cut_short_says_so(monkeypatch):
    monkeypatch.setattr("wiresum.schedule.conflict.MOST_QUESTIONS", 3)
    asked = two_for_one_port()
    found = conflict(asked, 1.0)
    assert not found.is_least
    assert {("job", 1), ("job", 2), ("ports", "u0")} <= set(found.parts)
    with pytest.raises(ScheduleError, match="the search was cut short"):
        require(schedule(asked), asked, 1.0)


def test_late_without_a_proof_is_said_as_that():
    asked = two_for_one_port()
    made = schedule(asked)
    late = made.model_copy(update={"cost": made.cost.model_copy(update={"completion_s": 9.0})})
    with pytest.raises(ScheduleError, match=r"after 9 s, not by 5 s.* ask `turns` or `exact`, or allow more time"):
        require(late, asked, 5.0)


GIVEN = {"given": [{"between": ["u1", "u0"], "circuits": 1}]}


@pytest.mark.parametrize("before", ["none", "even", GIVEN], ids=["none", "even", "given"])
@pytest.mark.parametrize("seed", range(1, 4))
def test_words_say_what_was_proven_and_which_circuits_are_new(seed, before):
    asked = {**instance(SMALL, seed), "before": before}
    made = schedule(asked, "turns")
    said = list(words(made, asked))
    assert f"{made.cost.completion_s:.4g} s" in said[0]
    assert f"{made.bound_s:.4g} s" in said[1]
    new = [int(count) for line in said[3:] for count in re.findall(r"u\d-u\d x (\d+)", line)]
    assert sum(new) == made.cost.setups


@pytest.fixture
def files(tmp_path):
    """A topology, its jobs, and an instance."""
    run = CliRunner().invoke
    topology, jobs, asked = (tmp_path / name for name in ("optical.json", "jobs.json", "instance.json"))
    topology.write_text(run(app, ["topology", "optical", "--units", "4", "--ports", "3", "--dark", "20ms"]).stdout)
    maker = ["workload", "poisson", "--jobs", "6", "--topology", str(topology), "--workers", "2", "--seed", "1"]
    jobs.write_text(run(app, maker).stdout)
    asked.write_text(json.dumps(instance(SMALL, 1)))
    return topology, jobs, asked


def test_the_command_schedules_a_topology_with_jobs(files, tmp_path):
    topology, jobs, _ = files
    made, drawn = tmp_path / "timetable.json", tmp_path / "gantt.png"
    asked = ["schedule", str(topology), "--jobs", str(jobs), "--explain", "--plot", str(drawn), "-o", str(made)]
    answer = CliRunner().invoke(app, asked)
    assert answer.exit_code == 0, answer.output
    assert "6 jobs are complete" in answer.stdout
    assert len(Timetable.read(made).cost.jobs) == 6
    assert drawn.stat().st_size > 0


def test_the_command_schedules_an_instance_and_answers_in_json(files):
    *_, asked = files
    answer = CliRunner().invoke(app, ["schedule", str(asked), "--scheduler", "fcfs", "--no-sums", "--json"])
    assert answer.exit_code == 0, answer.output
    assert json.loads(answer.stdout)["cost"]["share_summed"] == 0.0


def test_the_command_schedules_without_slots_and_along_trees(files):
    topology, jobs, _ = files

    def completion_s(*options):
        asked = ["schedule", str(topology), "--jobs", str(jobs), "--json", *options]
        answer = CliRunner().invoke(app, asked, catch_exceptions=False)
        assert answer.exit_code == 0, answer.output
        return json.loads(answer.stdout)["cost"]["completion_s"]

    in_slots = completion_s()
    assert completion_s("--no-slots") <= in_slots * SLACK
    assert completion_s("--scheduler", "events") <= in_slots * SLACK
    assert completion_s("--trees") > 0


def test_schedulers_are_compared_on_the_same_jobs(files):
    topology, jobs, _ = files
    asked = ["compare", "-t", str(topology), "--jobs", str(jobs), "--no-sums", "--schedulers"]

    def answer(schedulers, *options):
        done = CliRunner().invoke(app, [*asked, schedulers, *options], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stdout

    rows = {one["scheduler"]: one for one in json.loads(answer("turns,window,events,spectra", "--json"))}
    assert "contiguous" in rows["spectra"]["refusal"]
    for one in (rows["turns"], rows["window"]):
        assert one["cost"]["share_summed"] == 0.0
        assert one["cost"]["completion_s"] == pytest.approx((1 + one["gap"]) * one["bound_s"])
    # One bound for all whose circuits change with slots; without slots, jobs may be complete sooner.
    assert rows["turns"]["bound_s"] == rows["window"]["bound_s"] >= rows["events"]["bound_s"]
    shown = answer("turns,spectra")
    assert "over bound" in shown
    assert "spectra: job" in shown


def test_a_comparison_says_what_it_lacks(files):
    topology, jobs, _ = files
    given = ["compare", "-t", str(topology), "--jobs", str(jobs)]
    with pytest.raises(ScheduleError, match="did you mean turns"):
        CliRunner().invoke(app, [*given, "--schedulers", "turn"], catch_exceptions=False)
    for options, said in ((["--schedulers", "turns", "-n", "4"], "--workers"), (["--planners", "ps"], "--jobs")):
        refused = CliRunner().invoke(app, [*given, *options])
        assert refused.exit_code == 2
        assert said in refused.output
    assert "--topology" in CliRunner().invoke(app, ["compare", "--schedulers", "turns"]).output


def test_the_command_says_what_is_missing_or_too_much(files):
    topology, jobs, asked = files
    with pytest.raises(ScheduleError, match="give `--jobs FILE`"):
        CliRunner().invoke(app, ["schedule", str(topology)], catch_exceptions=False)
    with pytest.raises(ScheduleError, match="leave `--jobs` out"):
        CliRunner().invoke(app, ["schedule", str(asked), "--jobs", str(jobs)], catch_exceptions=False)
    listed = CliRunner().invoke(app, ["schedule", "-", "--scheduler", "list"]).stdout
    assert all(name in listed for name in SCHEDULERS)


def test_a_job_of_the_programme_that_sends_nothing_in_between_does_not_pause():
    star = {"workers": {"u0": 1}, "server": "u1", "bytes": 2e9}
    unit = {"ports": 1, "switch_bps": 1e12, "places": 0}
    document = {
        "format": FORMAT, "slot_s": 1.0, "dark_s": 0.0, "port_bps": 8e9, "host_bps": 8e9, "before": "even",
        "units": [{"name": name, **unit} for name in ("u0", "u1")], "jobs": [{"id": 1, "traffic": {"star": star}}],
    }  # fmt: skip
    problem = json.loads(_native.schedule_problem(json.dumps(document), True))
    programme = SlotProgramme(problem, document["units"], document["slot_s"], until_s=4.0)
    found = np.zeros(len(programme.upper))
    for key, share in programme.shares.items():
        found[share], found[programme.sends[key]] = (0.5 if key[-1] in {0, 2} else 0.0), 1.0
    slots = programme.answer(found)
    assert [len(slot["shares"]) for slot in slots] == [1, 1, 1], "from its first byte to its last"


def test_the_programme_slot_by_slot_proves_what_no_count_over_slots_can():
    def job(number, workers, server, **known):
        arrival_s = known.pop("arrival_s", 0.0)
        star = {"workers": workers, "server": server, "bytes": 1e9, **known}
        return {"id": number, "arrival_s": arrival_s, "traffic": {"star": star}}

    # Job 1 needs u0 and u1 at once. u0 is busy in the second slot, as job 2 arrives then; u1 in the first, as job 3 has
    # to be updated in the second.
    jobs = [
        job(1, {"u0": 1, "u1": 1}, "u2"),
        job(2, {"u0": 1}, "u3", arrival_s=1.0),
        job(3, {"u1": 1}, "u4", update_s=1.0),
    ]
    units = [{"name": f"u{unit}", "ports": 2 if unit == 2 else 1, "switch_bps": 1e12, "places": 0} for unit in range(5)]
    asked = {
        "format": FORMAT, "slot_s": 1.0, "dark_s": 0.0, "port_bps": 8e9, "host_bps": 8e9, "server_bps": 16e9,
        "units": units, "jobs": jobs,
    }  # fmt: skip
    found = schedule(asked, "turns")
    assert (found.bound_s, found.cost.completion_s) == (2.0, 3.0)
    assert sharp_bound(asked, 3.0, 30) == 3.0
    assert schedule(asked, "exact", time_limit_s=30).status == "optimal"
