"""Circuits that change in packets and trains: as planned where changes are announced, exact sums where they are not."""

import json
from random import Random

import pytest

from wiresum.cli.simulate import load
from wiresum.errors import ScenarioError, WiresumError
from wiresum.schedule import schedule
from wiresum.sim import ScenarioFile, run
from wiresum.sim.resolve import resolve
from wiresum.topology.generators.optical import optical
from wiresum.turns import plans
from wiresum.turns.plans import carried
from wiresum.workload.instance import instance
from wiresum.workload.model import Workload

SLOT_S = 1.0
FIDELITIES = ["flows", "trains", "packets"]
SAME = 0.01
"""Simulated completion over planned, less 1."""
TOPOLOGY = "optical:units=3,hosts-per-unit=4,servers-per-unit=4,ports=1,rate=20mbit,places=1,dark=20ms"
JOBS = """
format = "wiresum-scenario/1"
topology = "{topology}"
fidelity = "{fidelity}"
check_sums = {check}
patience_s = 20.0
[circuits]
workload = "jobs.json"
slot_s = 1.0
"""


def network():
    return optical(3, 4, 4, ports=1, rate_bps=20e6, places=1, dark_s=0.02)


def star(name, workers, server, size, **more):
    return {"name": name, "workers": workers, "server": server, "bytes": size, **more}


JOBS_IN_TURNS = Workload.model_validate({
    "name": "jobs",
    "jobs": [
        star("local", {"u0": 3}, "u0", 1_500_000),
        star("first", {"u0": 1, "u1": 1}, "u1", 700_000, iterations=2),
        star("second", {"u1": 1, "u2": 1}, "u2", 450_000, iterations=2),
        star("third", {"u0": 1, "u2": 2}, "u0", 600_000),
        star("late", {"u2": 2}, "u2", 900_000, arrival_s=0.6),
    ],
})  # fmt: skip


@pytest.fixture
def written(tmp_path):
    """Makes a scenario of the jobs and their timetable, by fidelity and more lines; and says what was planned."""
    timetable = schedule(carried(instance(network(), JOBS_IN_TURNS, SLOT_S), JOBS_IN_TURNS), "turns")
    (tmp_path / "jobs.json").write_text(JOBS_IN_TURNS.to_json())
    (tmp_path / "timetable.json").write_text(timetable.model_dump_json(exclude_none=True))

    def made(fidelity, more='timetable = "timetable.json"\n'):
        head = JOBS.format(topology=TOPOLOGY, fidelity=fidelity, check=str(fidelity == "packets").lower())
        path = tmp_path / f"{fidelity}.toml"
        path.write_text(head + more)
        return ScenarioFile.read(path)

    return made, timetable


@pytest.mark.parametrize("fidelity", FIDELITIES)
def test_what_is_announced_is_simulated_as_it_is_planned(written, fidelity):
    made, timetable = written
    outcome = run(made(fidelity), load)
    assert outcome.end["at_s"] == pytest.approx(timetable.cost.completion_s, rel=SAME)
    assert outcome.totals["setups"] == timetable.cost.setups
    assert outcome.totals.get("dark_bytes", 0) == 0
    ends = {record["job"]: record["end_s"] for record in outcome.rounds}
    planned = {JOBS_IN_TURNS.jobs[job.job - 1].name: job.end_s for job in timetable.cost.jobs}
    assert ends == pytest.approx(planned, rel=2 * SAME)


@pytest.mark.parametrize("fidelity", ["trains", "packets"])
def test_a_timetable_without_slots_is_simulated_as_it_is_planned(written, tmp_path, fidelity):
    """An interval begins when those have ended that end before it, so that nobody waits for the timetable's end."""
    made, _ = written
    rates = carried(instance(network(), JOBS_IN_TURNS, SLOT_S, slots=False), JOBS_IN_TURNS)
    timetable = schedule(rates, "events")
    (tmp_path / "events.json").write_text(timetable.model_dump_json(exclude_none=True))
    outcome = run(made(fidelity, 'timetable = "events.json"\nslots = false\n'), load)
    assert outcome.end["at_s"] == pytest.approx(timetable.cost.completion_s, rel=SAME)
    assert outcome.totals["setups"] == timetable.cost.setups
    assert outcome.totals.get("dark_bytes", 0) == 0
    ends = {record["job"]: record["end_s"] for record in outcome.rounds}
    planned = {JOBS_IN_TURNS.jobs[job.job - 1].name: job.end_s for job in timetable.cost.jobs}
    assert ends == pytest.approx(planned, rel=2 * SAME)


@pytest.mark.parametrize("scheduler", ["turns", "fcfs"])
@pytest.mark.parametrize("fidelity", ["trains", "packets"])
def test_a_scheduler_in_the_loop_does_as_it_plans_where_nothing_is_in_the_way(written, fidelity, scheduler):
    made, _ = written
    asked = carried(instance(network(), JOBS_IN_TURNS, SLOT_S), JOBS_IN_TURNS)
    planned = schedule(asked, scheduler, online=True)
    outcome = run(made(fidelity, f'scheduler = "{scheduler}"\n'), load)
    assert outcome.end["at_s"] == pytest.approx(planned.cost.completion_s, rel=SAME)
    assert outcome.totals["setups"] == planned.cost.setups
    assert {record["job"] for record in outcome.rounds} == {job.name for job in JOBS_IN_TURNS.jobs}
    assert run(made(fidelity, f'scheduler = "{scheduler}"\n'), load).end["trace"] == outcome.end["trace"]


@pytest.mark.parametrize("fidelity", ["trains", "packets"])
def test_a_scheduler_in_the_loop_makes_up_for_a_circuit_without_light(written, fidelity):
    """A timetable serves who is late at its end; who is asked lets others go first, and serves it in the light."""
    made, _ = written
    fault = FAULTS["no light"]
    followed = run(made(fidelity, 'timetable = "timetable.json"\n' + fault), load)
    asked = run(made(fidelity, 'scheduler = "turns"\n' + fault), load)
    assert asked.end["at_s"] < followed.end["at_s"]
    assert {record["job"] for record in asked.rounds} == {job.name for job in JOBS_IN_TURNS.jobs}


@pytest.mark.parametrize("fidelity", ["trains", "packets"])
def test_a_port_that_never_works_again_ends_the_loop_with_a_reason(written, fidelity):
    made, _ = written
    stuck = 'scheduler = "fcfs"\n[[failure]]\nlink = "u0-1"\nat_s = 0.0\n'
    with pytest.raises(WiresumError, match=r"first|job 2"):
        run(made(fidelity, stuck), load)


@pytest.mark.parametrize("fidelity", ["trains", "packets"])
def test_what_meets_darkness_is_sent_again(written, fidelity):
    """All sums are compared with the exact ones in packets; without any that was lost no test would be needed."""
    made, timetable = written
    outcome = run(made(fidelity, 'timetable = "timetable.json"\nannounced = false\n'), load)
    assert outcome.totals["setups"] >= timetable.cost.setups
    assert sum(record["dropped_bytes"] for record in outcome.links) + outcome.totals["dark_bytes"] > 0
    assert {record["job"] for record in outcome.rounds} == {job.name for job in JOBS_IN_TURNS.jobs}


FAULTS = {
    "a stuck port": '[[failure]]\nlink = "u0-1"\nat_s = 0.3\nuntil_s = 2.5\n',
    "no light": '[[failure]]\nbetween = ["u0", "u1"]\nat_s = 0.0\nuntil_s = 3.5\n',
}


@pytest.mark.parametrize("fidelity", FIDELITIES)
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_what_fails_delays_and_loses_no_sum(written, fidelity, fault):
    made, _ = written
    outcome = run(made(fidelity, 'timetable = "timetable.json"\n' + fault), load)
    assert outcome.end["at_s"] > run(made(fidelity), load).end["at_s"] * (1 + SAME)
    assert sorted({record["job"] for record in outcome.rounds}) == sorted(job.name for job in JOBS_IN_TURNS.jobs)


@pytest.mark.parametrize("fidelity", FIDELITIES)
@pytest.mark.parametrize("scheduler", ["turns", "events"])
def test_a_timetable_of_the_other_kind_is_refused_with_what_to_do(written, tmp_path, fidelity, scheduler):
    made, _ = written
    slots = scheduler == "turns"
    planned = schedule(carried(instance(network(), JOBS_IN_TURNS, SLOT_S, slots=slots), JOBS_IN_TURNS), scheduler)
    (tmp_path / "planned.json").write_text(planned.model_dump_json(exclude_none=True))
    with pytest.raises(ScenarioError) as refused:
        resolve(made(fidelity, f'timetable = "planned.json"\nslots = {str(not slots).lower()}\n'), load)
    told = "planned.json was made in slots; leave `slots` out" if slots else "without slots; add `slots = false`"
    assert told in str(refused.value)


@pytest.mark.parametrize("fidelity", ["trains", "packets"])
def test_intervals_of_a_timetable_wait_for_jobs_that_are_late_as_they_do_live(written, fidelity):
    made, _ = written
    assert json.loads(resolve(made(fidelity), load))["turns"]["waits"]


LIT_BEFORE = {"given": [{"between": ["u0", "u1"], "circuits": 1}]}
COFLOW = {"name": "shuffle", "synchrony": "coflow", "workers": {"u0": 1}, "sinks": {"u1": 100_000}}


@pytest.mark.parametrize("fidelity", ["trains", "packets"])
@pytest.mark.parametrize("slots", [True, False])
@pytest.mark.parametrize("what", ["lit before", "trees", "coflows"])
def test_a_timetable_that_plans_cannot_follow_is_refused_by_name(written, tmp_path, fidelity, slots, what):
    made, _ = written
    jobs = [star("far", {"u0": 1}, "u1", 700_000)]
    jobs += [star("tree", {"u0": 2, "u1": 2}, "u1", 700_000)] if what == "trees" else []
    jobs += [COFLOW] if what == "coflows" else []
    workload = Workload.model_validate({"name": "jobs", "jobs": jobs})
    rates = carried(instance(network(), workload, SLOT_S, slots=slots, trees=what == "trees"), workload)
    rates |= {"before": LIT_BEFORE} if what == "lit before" else {}
    planned = schedule(rates, "turns" if slots else "events")
    (tmp_path / "jobs.json").write_text(workload.to_json())
    (tmp_path / "planned.json").write_text(planned.model_dump_json(exclude_none=True))
    with pytest.raises(ScenarioError) as refused:
        resolve(made(fidelity, f'timetable = "planned.json"\nslots = {str(planned.slots).lower()}\n'), load)
    assert {"lit before": "lit before", "trees": "add `trees = true`", "coflows": "coflow"}[what] in str(refused.value)


@pytest.mark.parametrize("fidelity", ["trains", "packets"])
@pytest.mark.parametrize("slots", [True, False])
def test_a_timetable_whose_jobs_are_summed_in_trees_is_followed(written, tmp_path, fidelity, slots):
    """Every value of every sum is compared with the exact one."""
    made, _ = written
    topology = TOPOLOGY.replace("hosts-per-unit=4", "hosts-per-unit=8")
    jobs = [star("far", {"u0": 1}, "u1", 700_000), star("tree", {"u0": 2, "u1": 2}, "u1", 1_400_000, iterations=2)]
    workload = Workload.model_validate({"name": "jobs", "jobs": jobs})
    rates = instance(
        optical(3, 8, 4, ports=1, rate_bps=20e6, places=1, dark_s=0.02), workload, SLOT_S, slots=slots, trees=True
    )
    planned = schedule(carried(rates, workload), "turns" if slots else "events")
    assert planned.cost.jobs[1].by == "switch"
    (tmp_path / "jobs.json").write_text(workload.to_json())
    (tmp_path / "planned.json").write_text(planned.model_dump_json(exclude_none=True))
    more = f'timetable = "planned.json"\nslots = {str(planned.slots).lower()}\ntrees = true\n'
    scenario = made(fidelity, more)
    path = tmp_path / "trees.toml"
    written_as = scenario.path.read_text().replace("check_sums = false", "check_sums = true")
    path.write_text(written_as.replace(TOPOLOGY, topology))
    outcome = run(ScenarioFile.read(path), load)
    assert outcome.end["checked_values"] > 0
    if not planned.slots:
        assert outcome.end["at_s"] == pytest.approx(planned.cost.completion_s, rel=SAME)


SEEDS = range(1, 9)


def random_jobs(seed):
    """Eight stars over four units, in one of them or in two, with servers in one of their units."""
    chance = Random(seed)
    jobs = []
    for arrival_s in sorted(chance.choice([0.0, round(chance.random(), 2)]) for _ in range(8)):
        home, other = chance.sample([f"u{unit}" for unit in range(4)], 2)
        workers = {home: chance.randint(2, 3)} if chance.random() < 0.3 else {home: 1, other: chance.randint(1, 2)}
        more = {"iterations": chance.randint(1, 3), "arrival_s": arrival_s}
        jobs.append(
            star(f"job{len(jobs)}", workers, chance.choice([home, other]), chance.randint(150_000, 10**6), **more)
        )
    return Workload.model_validate({"name": "random", "jobs": jobs})


def random_trees(seed):
    """Eight jobs in one to three of four units, whose switches may sum them together."""
    chance = Random(seed)
    jobs = []
    for arrival_s in sorted(chance.choice([0.0, round(chance.random(), 2)]) for _ in range(8)):
        units = chance.sample([f"u{unit}" for unit in range(4)], chance.choice([1, 2, 2, 3]))
        workers = {unit: chance.randint(1, 2) for unit in units} if len(units) > 1 else {units[0]: chance.randint(2, 3)}
        more = {"iterations": chance.randint(1, 3), "arrival_s": arrival_s}
        jobs.append(star(f"job{len(jobs)}", workers, chance.choice(units), chance.randint(150_000, 10**6), **more))
    return Workload.model_validate({"name": "random", "jobs": jobs})


def planned_and_simulated(folder, workload, fidelity, *, ports, slots=False, trees=False):
    """A timetable of jobs over four units, and when it says that all have ended; and when they have."""
    topology = optical(4, 24, 8, ports=ports, rate_bps=20e6, places=1, dark_s=0.02)
    rates = carried(instance(topology, workload, SLOT_S, slots=slots, trees=trees), workload)
    planned = schedule(rates, "turns" if slots else "events")
    (folder / "jobs.json").write_text(workload.to_json())
    (folder / "timetable.json").write_text(planned.model_dump_json(exclude_none=True))
    name = f"optical:units=4,hosts-per-unit=24,servers-per-unit=8,ports={ports},rate=20mbit,places=1,dark=20ms"
    path = folder / "random.toml"
    said = f"slots = {str(planned.slots).lower()}\ntrees = {str(trees).lower()}\n"
    head = JOBS.format(topology=name, fidelity=fidelity, check="false")
    path.write_text(head + 'timetable = "timetable.json"\n' + said)
    return planned, run(ScenarioFile.read(path), load)


@pytest.mark.parametrize("fidelity", ["trains", "packets"])
@pytest.mark.parametrize("seed", SEEDS)
def test_random_jobs_that_share_circuits_are_simulated_as_they_are_planned(tmp_path, seed, fidelity):
    planned, outcome = planned_and_simulated(tmp_path, random_jobs(seed), fidelity, ports=1)
    assert outcome.end["at_s"] == pytest.approx(planned.cost.completion_s, rel=SAME)


@pytest.mark.parametrize("fidelity", ["trains", "packets"])
def test_jobs_that_have_a_second_circuit_for_a_while_are_dealt_circuits_that_carry_them(
    tmp_path, fidelity, monkeypatch
):
    """With the youngest circuit always the one that goes, a circuit has a third more to carry than it can."""
    planned, outcome = planned_and_simulated(tmp_path, random_jobs(21), fidelity, ports=2)
    assert outcome.end["at_s"] == pytest.approx(planned.cost.completion_s, rel=SAME)
    monkeypatch.setattr(plans, "deal", lambda *_: None)
    _, late = planned_and_simulated(tmp_path, random_jobs(21), fidelity, ports=2)
    assert late.end["at_s"] > outcome.end["at_s"] * (1 + SAME)


@pytest.mark.parametrize("slots", [True, False])
@pytest.mark.parametrize("fidelity", ["trains", "packets"])
@pytest.mark.parametrize("seed", SEEDS)
def test_random_jobs_in_trees_are_simulated_as_they_are_planned(tmp_path, seed, fidelity, slots):
    planned, outcome = planned_and_simulated(tmp_path, random_trees(seed), fidelity, ports=2, slots=slots, trees=True)
    assert outcome.end["at_s"] == pytest.approx(planned.cost.completion_s, rel=SAME)
    assert outcome.totals.get("dark_bytes", 0) == 0


BAD = {
    "paper": ("paper = true\n", "`paper` is for flows"),
    "trees": ("trees = true\n", "for packets and trains that follow a timetable"),
    "lit before": ('before = "even"\n', "`before` is for flows"),
    "no slots": ("slots = false\n", "without `slots` a timetable is followed"),
    "a strange unit": ('[[failure]]\nbetween = ["u0", "u9"]\nat_s = 0.0\n', "there is no unit u9"),
    "no timetable": ('timetable = "none.json"\n', "none.json cannot be read"),
}


@pytest.mark.parametrize(("more", "problem"), BAD.values(), ids=BAD)
def test_what_plans_cannot_say_is_refused_with_its_line(written, more, problem):
    made, _ = written
    with pytest.raises(ScenarioError) as refused:
        resolve(made("packets", more), load)
    assert problem in str(refused.value)


SLOW = "optical:units=2,hosts-per-unit=2,servers-per-unit=2,ports=1,rate=20mbit,places=0,dark=20ms"


@pytest.mark.parametrize("fidelity", ["trains", "packets"])
def test_a_shift_halves_the_slowdown_of_jobs_that_share_a_circuit(tmp_path, fidelity):
    """Each computes for 0.1 s and has a circuit of 20 Mbit/s for 0.08 s, ten times."""

    def seconds(more=""):
        jobs = [star(f"job{n}", {"u0": 1}, "u1", 200_000, iterations=10, compute_s=0.1) for n in range(2)]
        workload = Workload.model_validate({"name": "jobs", "jobs": jobs})
        topology = optical(2, 2, 2, ports=1, rate_bps=20e6, places=0, dark_s=0.02)
        timetable = schedule(carried(instance(topology, workload, SLOT_S), workload), "turns")
        assert len(timetable.intervals[0].rates) == 2, "they share the circuit"
        (tmp_path / "jobs.json").write_text(workload.to_json())
        (tmp_path / "timetable.json").write_text(timetable.model_dump_json(exclude_none=True))
        path = tmp_path / "shared.toml"
        path.write_text(
            JOBS.format(topology=SLOW, fidelity=fidelity, check="false") + 'timetable = "timetable.json"\n' + more
        )
        return run(ScenarioFile.read(path), load).end["at_s"]

    alone = 10 * (0.1 + 8 * 200_000 / 20e6)
    together, shifted = seconds("shifts = false\n"), seconds()
    assert shifted / alone - 1 < (together / alone - 1) / 2
