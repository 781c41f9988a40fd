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
    for name in SCHEDULERS.keys() - BLIND - {"exact"}:
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
