"""Servers and relays where they pay, and nowhere else."""

import pytest
from typer.testing import CliRunner

from wiresum.cli.main import app
from wiresum.schedule import schedule
from wiresum.topology.generators.optical import optical
from wiresum.workload.instance import instance
from wiresum.workload.model import Workload
from wiresum.workload.placement import placed
from wiresum.workload.poisson import poisson
from wiresum.workload.relays import relayed

SLOT_S = 1.0
QUICK = {"rounds": 100}
RATE_BPS = 80e6
SLOT = 10_000_000
"""Bytes that a circuit, or a worker's link, carries in a slot."""


def network(units=3, ports=1):
    return optical(units, 4, 4, ports=ports, rate_bps=RATE_BPS, places=0, dark_s=0.1)


def star(name, workers, server, slots, **more):
    return {"name": name, "workers": workers, "server": server, "bytes": round(slots * SLOT), **more}


def workload(*jobs):
    return Workload.model_validate({"name": "jobs", "jobs": list(jobs)})


def cost(topology, jobs):
    return schedule(instance(topology, jobs, SLOT_S), "turns", bound=False, **QUICK).cost


def test_a_server_goes_where_most_workers_are():
    """Two jobs need the port of u2 for 3.1 slots each; in their own units only their servers' links hold them up."""
    topology = network()
    jobs = workload(star("a", {"u0": 3}, "u2", 1.0), star("b", {"u1": 3}, "u2", 1.0))
    found = placed(topology, jobs, SLOT_S)
    assert [job.server for job in found.jobs] == ["u0", "u1"]
    before, after = cost(topology, jobs), cost(topology, found)
    assert (before.completion_s, after.completion_s, after.setups) == (8.0, 3.0, 0)


def test_servers_do_not_all_meet_at_one_port():
    """Two jobs fill two circuits between two units; with both servers in u0 they need four of its three ports."""
    topology = optical(3, 4, 4, ports=3, rate_bps=RATE_BPS, circuit_rate_bps=RATE_BPS / 4, places=0, dark_s=0.1)
    jobs = workload(*(star(name, {"u0": 1, "u1": 1, "u2": 1}, "u0", 0.8 / 4) for name in "ab"))
    found = placed(topology, jobs, SLOT_S)
    assert len({job.server for job in found.jobs}) == 2
    assert (cost(topology, jobs).completion_s, cost(topology, found).completion_s) == (2.0, 1.0)


def test_jobs_in_too_many_units_are_placed_where_they_can_be_served():
    topology, jobs = network(), workload(star("a", {"u0": 3, "u1": 1}, "u2", 0.25))
    assert placed(topology, jobs, SLOT_S).jobs[0].server == "u0"


@pytest.mark.parametrize("what", ["servers", "all"])
@pytest.mark.parametrize("seed", range(5))
def test_new_places_are_never_worse_and_keep_all_jobs(seed, what):
    topology = network(4, ports=2)
    jobs = poisson(topology, 10, 4.0, [2, 4], (SLOT // 8, SLOT), spread=0.5, seed=seed)
    found = placed(topology, jobs, SLOT_S, what, **QUICK)
    assert [job.name for job in found.jobs] == [job.name for job in jobs.jobs]
    assert [job.worker_count for job in found.jobs] == [job.worker_count for job in jobs.jobs]
    before, after = cost(topology, jobs), cost(topology, found)
    assert (after.completion_s, after.setups) <= (before.completion_s, before.setups)


def hub():
    """A unit with two ports in the middle of two with one, which have little for each other."""
    topology = optical(3, 4, 4, ports=2, rate_bps=RATE_BPS, places=0, dark_s=0.1)
    switch = topology.node("oxc")
    assert switch.oxc is not None
    taken = {next(port.link for port in switch.oxc.ports if str(port.link).startswith(unit)) for unit in ("u0-", "u1-")}
    ports = [port for port in switch.oxc.ports if port.link not in taken]
    bare = switch.model_copy(update={"oxc": switch.oxc.model_copy(update={"ports": ports})})
    nodes = [bare if node is switch else node for node in topology.nodes]
    return topology.model_copy(update={"nodes": nodes, "links": [one for one in topology.links if one.id not in taken]})


def three_jobs():
    return workload(
        star("out", {"u0": 1}, "u2", 1.6), star("in", {"u2": 1}, "u1", 1.6), star("little", {"u0": 1}, "u1", 0.1)
    )


def test_little_is_relayed_where_that_saves_circuits_of_its_own():
    topology = hub()
    found = relayed(topology, three_jobs(), SLOT_S)
    assert [job.via for job in found.jobs] == [{}, {}, {"u0": "u2"}]
    before, after = cost(topology, three_jobs()), cost(topology, found)
    assert (before.completion_s, before.setups, after.completion_s, after.setups) == (3.0, 3, 2.0, 2)


@pytest.mark.parametrize("seed", range(5))
def test_relays_are_never_worse(seed):
    topology = network(4, ports=2)
    jobs = poisson(topology, 10, 8.0, [2, 4], (SLOT // 50, SLOT // 2), spread=0.5, seed=seed)
    before, after = cost(topology, jobs), cost(topology, relayed(topology, jobs, SLOT_S, **QUICK))
    assert (after.completion_s, after.setups) <= (before.completion_s, before.setups)


def test_the_commands_print_jobs(tmp_path):
    jobs, topology = tmp_path / "jobs.json", tmp_path / "hub.json"
    jobs.write_text(three_jobs().to_json())
    topology.write_text(hub().to_json())
    for command in (["relay"], ["place"], ["place", "--all"]):
        ran = CliRunner().invoke(app, ["workload", *command, str(jobs), "--topology", str(topology)])
        assert ran.exit_code == 0, ran.output
        text = ran.stdout
        assert len(Workload.model_validate_json(text[text.index("{") :]).jobs) == len(three_jobs().jobs)
