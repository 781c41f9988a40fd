"""Scenarios with optical circuits: who decides, what fails, and what the file may say."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from wiresum.cli.main import app
from wiresum.cli.simulate import load
from wiresum.errors import ScenarioError
from wiresum.schedule import schedule
from wiresum.sim import ScenarioFile, run
from wiresum.sim.resolve import resolve
from wiresum.topology.generators.optical import optical
from wiresum.workload.instance import instance
from wiresum.workload.poisson import poisson

TEXT = """
format = "wiresum-scenario/1"
topology = "optical:units=4,hosts-per-unit=4,ports=2"
fidelity = "flows"
[circuits]
workload = "jobs.json"
"""
FAILURE = '[[failure]]\nlink = "{}"\nat_s = 0.5\n'


@pytest.fixture
def network():
    return optical(4, 4, ports=2)


@pytest.fixture
def jobs(tmp_path, network):
    made = poisson(network, 12, 4.0, [2, 4], (102_000_000, 528_000_000), spread=0.3, seed=3)
    (tmp_path / "jobs.json").write_text(made.model_dump_json())
    return made


def scenario(tmp_path, text, **changes):
    path = tmp_path / "it.toml"
    path.write_text(text)
    return ScenarioFile.read(path, changes)


def test_a_timetable_is_simulated_as_it_is_planned(tmp_path, network, jobs):
    planned = schedule(instance(network, jobs, 1.0), "turns")
    (tmp_path / "timetable.json").write_text(planned.model_dump_json(exclude_none=True))
    outcome = run(scenario(tmp_path, TEXT + 'timetable = "timetable.json"\n'), load)
    assert outcome.end["at_s"] == pytest.approx(planned.cost.completion_s, rel=0.01)
    assert outcome.totals["setups"] == planned.cost.setups or outcome.totals["late_bytes"]
    waits = [record["end_s"] - record["begin_s"] for record in outcome.rounds]
    assert sum(waits) / len(waits) == pytest.approx(planned.cost.sojourn_s.mean, rel=0.01)


def test_a_timetable_without_slots_is_simulated_as_it_is_planned(tmp_path, network, jobs):
    planned = schedule(instance(network, jobs, 1.0, slots=False), "events")
    (tmp_path / "timetable.json").write_text(planned.model_dump_json(exclude_none=True))
    outcome = run(scenario(tmp_path, TEXT + 'slots = false\ntimetable = "timetable.json"\n'), load)
    assert outcome.end["at_s"] == pytest.approx(planned.cost.completion_s, rel=1e-6)
    assert (outcome.totals["setups"], outcome.totals["late_bytes"]) == (planned.cost.setups, 0)


@pytest.mark.parametrize("scheduler", ["turns", "window", "fcfs", "events"])
def test_whoever_decides_serves_all_jobs_on_less_light_too(tmp_path, jobs, scheduler):
    slots = str(scheduler != "events").lower()
    text = TEXT + f'scheduler = "{scheduler}"\nslots = {slots}\nbefore = "even"\n'
    whole = run(scenario(tmp_path, text), load)
    less = run(scenario(tmp_path, text + FAILURE.format("u0-1")), load)
    for outcome in (whole, less):
        assert sorted(outcome.jobs) == sorted(job.name for job in jobs.jobs)
    assert less.end["trace"] != whole.end["trace"]


BAD = {
    "both": (TEXT + "[[job]]\nbytes = 4\n", "tables `job`, `circuits` with the jobs of a workload, or `rows`"),
    "workload": (TEXT.replace("jobs.json", "none.json"), ":6: circuits: "),
    "slot": (TEXT + "slot_s = 0.01\n", "make it longer"),
    "not a fibre": (TEXT + FAILURE.format("w0-u0"), "what fails is a fibre, as u0-1"),
    "timetable": (TEXT + 'timetable = "none.json"\n', ":7: timetable none.json cannot be read"),
}


@pytest.mark.parametrize(("text", "problem"), BAD.values(), ids=BAD)
def test_what_is_wrong_is_named_with_its_line(tmp_path, jobs, text, problem):
    with pytest.raises(ScenarioError) as refused:
        resolve(scenario(tmp_path, text), load)
    assert problem in str(refused.value)


def test_a_timetable_for_other_jobs_is_refused(tmp_path, network, jobs):
    planned = schedule(instance(network, jobs, 1.0), "fcfs")
    document = json.loads(planned.model_dump_json(exclude_none=True))
    document["intervals"].pop()
    (tmp_path / "timetable.json").write_text(json.dumps(document))
    with pytest.raises(Exception, match=r"job .* has sent"):
        run(scenario(tmp_path, TEXT + 'timetable = "timetable.json"\n'), load)


def test_the_example_runs_and_says_what_was_set_up():
    example = Path(__file__).parents[2] / "docs" / "examples" / "circuits.toml"
    result = CliRunner().invoke(app, ["simulate", str(example)])
    assert result.exit_code == 0, result.output
    assert "setups" in result.output
