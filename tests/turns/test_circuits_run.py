"""`wiresum circuits run`: the driver as a process of its own, which may die."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress

import pytest
from tests.turns.networks import SLOT_S, network, star, three_jobs, timetable_of, workload
from tests.turns.test_adjustment import without
from typer.testing import CliRunner

from wiresum.cli.main import app
from wiresum.plan.schedule import Schedule
from wiresum.topology.circuits import fibres
from wiresum.turns.adjustment import adjust_schedule
from wiresum.turns.driver import BACK_S
from wiresum.turns.live import RANK, TurnsBed, job_environment
from wiresum.turns.online import Online
from wiresum.turns.plans import as_schedule, carried
from wiresum.workload.instance import instance

PATIENCE_S = 120.0


class Cluster:
    """Nodes, an optical switch and ranks, with a driver that is none of this process."""

    def __init__(self, folder, name, size=400_000, *, online=False, topology=None, jobs=None, **options):
        self.topology, self.jobs, self.online = topology or network(), jobs or three_jobs(size), online
        self.timetable = timetable_of(self.topology, self.jobs, **options)
        self.schedule = as_schedule(self.timetable, self.topology, self.jobs)
        rates = carried(instance(self.topology, self.jobs, SLOT_S), self.jobs)
        work = Online.of(self.topology, self.jobs, rates, "turns") if online else self.schedule
        self.bed = TurnsBed(self.topology, work, "polatis-rest", name)
        self.folder, self.listen = folder, folder / "turns.sock"
        (self.timetable if online else self.schedule).write(folder / "schedule.json")
        (folder / "jobs.json").write_text(self.jobs.model_dump_json(exclude_none=True))
        (folder / "topology.json").write_text(self.topology.model_dump_json(exclude_none=True))

    def __enter__(self):
        self.bed.__enter__()
        address = self.bed.bed.optical_switch("oxc").serve("calient-tl1")
        line = ["circuits", "run", self.folder / "schedule.json", "--topology", self.folder / "topology.json"]
        line += ["--driver", address, "--listen", self.listen, "--plans", self.folder / "plans", "--json"]
        line += ["--online", "--jobs", self.folder / "jobs.json", "--slot", f"{SLOT_S}s"] if self.online else []
        line += [part for name, path in self.bed.nodes.sockets.items() for part in ("--control", f"{name}={path}")]
        command = [sys.executable, "-m", "wiresum", *map(str, line)]
        self.command = [*command, "--probe", 'test "$WIRESUM_SOURCE_ADDRESS" != "$WIRESUM_TARGET_ADDRESS"']
        self.driver = self.start()
        self.await_driver()
        self.ranks = [self._rank(job, rank) for job, hosts in self.bed.hosts.items() for rank in range(len(hosts))]
        return self

    def have_ended(self):
        """Whether ranks end as if the schedule were over."""
        with suppress(subprocess.TimeoutExpired):
            return [rank.wait(timeout=1.0) for rank in self.ranks] == [0] * len(self.ranks)
        return False

    def await_driver(self):
        """Returns when it listens."""
        while True:
            with socket.socket(socket.AF_UNIX) as line, suppress(OSError):
                line.connect(str(self.listen))
                return
            assert self.driver.poll() is None, "the driver has ended"
            time.sleep(0.05)

    def start(self):
        with (self.folder / "said").open("ab") as said:
            return subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=said, start_new_session=True)

    def await_line(self, words):
        """Returns when a driver has said something."""
        while words not in (self.folder / "said").read_text():
            assert self.driver.poll() is None, "the driver has ended"
            time.sleep(0.01)

    def _rank(self, job, rank):
        told = {**job_environment(self.jobs.jobs[job - 1]), "WIRESUM_TURNS": str(self.listen)}
        file = self.folder / "plans" / f"job-{job}.json"
        plan = {"WIRESUM_SECRET_FILE": f"{file}.secret"} if self.online else {"WIRESUM_PLAN": str(file)}
        return self.bed.spawn(job, rank, RANK, {**told, **plan})

    def __exit__(self, *raised):
        if self.driver.poll() is None:
            os.killpg(self.driver.pid, signal.SIGKILL)
        self.driver.communicate()
        self.bed.__exit__(*raised)

    def await_begin(self):
        """Returns when the schedule has begun."""
        while not (self.folder / "plans" / "progress.json").exists():
            assert self.driver.poll() is None, "the driver has ended"
            time.sleep(0.02)

    def planned(self):
        """Pairs of ports that an interval of the schedule joins."""
        port = {fibre.link.id: fibre.port.name for fibre in fibres(self.topology)}
        return {
            frozenset(port[link] for link in circuit.links)
            for interval in self.schedule.intervals
            for circuit in interval.circuits
        }

    def outcomes(self):
        """Exit code and output of every rank."""
        return [(rank.returncode, out + errors) for rank in self.ranks for out, errors in [self._end(rank)]]

    def _end(self, rank):
        out, errors = rank.communicate(timeout=PATIENCE_S)
        return out.decode(), errors.decode()


def test_a_driver_in_a_process_of_its_own_carries_a_schedule_out(namespaces, name, tmp_path):
    with Cluster(tmp_path, name) as cluster:
        assert [code for code, _ in cluster.outcomes()] == [0] * 6
        out, _ = cluster.driver.communicate(timeout=PATIENCE_S)
        assert cluster.driver.returncode == 0
    seen = json.loads(out)
    assert seen["setups"] == cluster.timetable.cost.setups
    assert {turn["end"] for turn in seen["turns"].values()} == {"done"}


def test_a_driver_that_asks_a_scheduler_at_each_slot_serves_all_jobs(namespaces, name, tmp_path):
    with Cluster(tmp_path, name, online=True) as cluster:
        assert [code for code, _ in cluster.outcomes()] == [0] * 6
        out, _ = cluster.driver.communicate(timeout=PATIENCE_S)
        assert cluster.driver.returncode == 0
    assert {turn["end"] for turn in json.loads(out)["turns"].values()} == {"done"}


def killed(folder, name, seed):
    with Cluster(folder, name) as cluster:
        time.sleep(random.Random(seed).uniform(0.0, 2.0))
        os.killpg(cluster.driver.pid, signal.SIGKILL)
        crossbar = cluster.bed.bed.optical_switch("oxc").device.crossbar
        lit = crossbar.connections
        outcomes = cluster.outcomes()
        assert crossbar.connections == lit, f"seed {seed}: circuits have gone astray"
    for code, output in outcomes:
        assert "wrong sum" not in output, f"seed {seed}"
        # Whoever could not go on has said why, and nobody waits for the dead.
        assert code == 0 or "wiresum.errors." in output, f"seed {seed}: {output}"


def restarted(folder, name, seed, *, online=False):
    """A driver that is killed at a random moment and started again at once: its schedule is carried out."""
    with Cluster(folder, name, 1_500_000, online=online) as cluster:
        time.sleep(random.Random(seed).uniform(0.0, 4.0))
        before = cluster.driver
        os.killpg(before.pid, signal.SIGKILL)
        before.wait()
        killed_s = time.monotonic()
        has_begun = (folder / "plans" / "progress.json").exists()
        if not has_begun and cluster.have_ended():
            return
        before.stdout.close()
        cluster.driver = cluster.start()
        cluster.await_driver()
        is_in_time = time.monotonic() - killed_s < 0.5 * BACK_S
        outcomes = cluster.outcomes()
        cluster.driver.communicate(timeout=PATIENCE_S)
        assert cluster.driver.returncode == 0, f"seed {seed}"
        assert all(not cluster.bed.nodes.served(node) for node in cluster.bed.nodes.sockets), f"seed {seed}"
    assert not (folder / "plans" / "progress.json").exists()
    for code, output in outcomes:
        assert "wrong sum" not in output, f"seed {seed}"
        # On a busy machine a process may take so long to start that gates have opened by themselves.
        may_fail = not is_in_time and "wiresum.errors." in output
        assert code == 0 or may_fail, f"seed {seed}: {output}"


@pytest.mark.parametrize("seed", [1, 2])
def test_a_driver_that_is_killed_and_started_again_finds_its_ranks_and_goes_on(namespaces, name, tmp_path, seed):
    restarted(tmp_path, name, seed)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_driver_that_asks_a_scheduler_goes_on_after_it_was_killed(namespaces, name, tmp_path, seed):
    restarted(tmp_path, name, seed, online=True)


def gone_over(folder, name, *, seed=None, online=False, scheduler="fcfs"):
    """A driver that is killed when a job has gone over to the circuit of another one, or at some moment around that.

    Both circuits are the schedule's from its start, as others have no addresses without a scheduler that is asked.
    """
    topology = network(2, ports=2, servers=2)
    jobs = workload(*(star(f"job{count}", {"u0": 1}, "u1", 1_000_000, iterations=count) for count in (14, 42)))
    with Cluster(folder, name, topology=topology, jobs=jobs, online=online, scheduler=scheduler, sums=False) as cluster:
        cluster.await_begin()
        assert cluster.ranks[0].stdout.readline(), "no sum has come"
        crossbar = cluster.bed.bed.optical_switch("oxc").device.crossbar
        crossbar.faults.failing[min(crossbar.connections)[0]] = "dust"
        crossbar.order(time.monotonic(), crossbar.connections, crossbar.connections)
        if seed is None:
            cluster.await_line("goes over to circuit")
        else:
            time.sleep(random.Random(seed).uniform(0.0, 8.0))
        os.killpg(cluster.driver.pid, signal.SIGKILL)
        cluster.driver.communicate()
        cluster.driver = cluster.start()
        outcomes = cluster.outcomes()
        out, _ = cluster.driver.communicate(timeout=PATIENCE_S)
        assert cluster.driver.returncode == 0
        assert all(not cluster.bed.nodes.served(node) for node in cluster.bed.nodes.sockets)
        lit = {frozenset(one) for one in crossbar.connections}
        assert online or lit <= cluster.planned(), "circuits have gone astray"
    said = (folder / "said").read_text()
    assert [code for code, _ in outcomes] == [0, 0], (outcomes, said)
    # A job whose ranks have ended while there was no driver is gone, and summed right.
    assert {turn["end"] for turn in json.loads(out)["turns"].values()} <= {"done", "gone"}, said


@pytest.mark.parametrize("online", [False, True])
def test_a_driver_that_is_killed_after_a_job_went_over_goes_on(namespaces, name, tmp_path, online):
    gone_over(tmp_path, name, online=online)


@pytest.mark.soak
@pytest.mark.parametrize("online", [False, True])
@pytest.mark.parametrize("seed", range(500, 520))
def test_drivers_that_are_killed_while_jobs_go_over(namespaces, name, tmp_path, seed, online):
    gone_over(tmp_path, name, seed=seed, online=online, scheduler=("fcfs", "turns")[seed % 2])


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(300, 330))
def test_drivers_that_ask_a_scheduler_are_killed_and_started_again(namespaces, name, tmp_path, seed):
    restarted(tmp_path, name, seed, online=True)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 170))
def test_drivers_that_are_killed_and_started_again_at_random_moments(namespaces, name, tmp_path, seed):
    restarted(tmp_path, name, seed)


@pytest.mark.parametrize(("port", "lost"), [("u2-1", 3), ("u0-1", 2)])
def test_a_schedule_is_adjusted_while_it_runs(namespaces, name, tmp_path, port, lost):
    """A port fails in the first slot: one job has no way left, and the others go on with a new driver.

    It is `second`, which has not begun, or `first`, whose circuit is still there and has the only port of u1.
    """
    with Cluster(tmp_path, name, 1_500_000) as cluster:
        cluster.await_begin()
        os.killpg(cluster.driver.pid, signal.SIGKILL)
        cluster.driver.communicate()
        now = without(cluster.topology, port)
        after = adjust_schedule(Schedule.read(tmp_path / "plans" / "schedule.json"), now, at_s=0.1)
        after.schedule.write(tmp_path / "schedule.json")
        (tmp_path / "topology.json").write_text(now.model_dump_json(exclude_none=True))
        cluster.driver = cluster.start()
        outcomes = cluster.outcomes()
        out, _ = cluster.driver.communicate(timeout=PATIENCE_S)
        assert cluster.driver.returncode == 0
        assert all(not cluster.bed.nodes.served(node) for node in cluster.bed.nodes.sockets)
    assert after.given_up == [lost]
    # The gates of job 1 are open while there is no driver: its ranks may have ended before the next one listens, or
    # when it has heard them and they not yet it.
    is_back = all("the driver of turns is back" in said for _, said in outcomes[:2])
    ends = {job: turn["end"] for job, turn in json.loads(out)["turns"].items()}
    other = {2: 3, 3: 2}[lost]
    assert ends.keys() == {"1", str(other)}
    assert ends[str(other)] == "done"
    assert ends["1"] in ({"done"} if is_back else {"done", "gone"})
    of_job = {job: outcomes[2 * job - 2 : 2 * job] for job in (1, 2, 3)}
    assert [code for code, _ in of_job[1] + of_job[other]] == [0] * 4, outcomes
    assert all(f"job {lost} has no turn in this driver's schedule" in said for _, said in of_job[lost])


@pytest.mark.parametrize("seed", [1, 2])
def test_a_driver_that_is_killed_leaves_exact_sums_or_named_errors_and_no_gate_shut(namespaces, name, tmp_path, seed):
    killed(tmp_path, name, seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10, 40))
def test_drivers_that_are_killed_at_random_moments(namespaces, name, tmp_path, seed):
    killed(tmp_path, name, seed)


def without_a_rank(folder, name, seed):
    """A rank that is killed at a random moment of a schedule: others have exact sums or a named error."""
    drawn = random.Random(seed)
    with Cluster(folder, name, 1_500_000) as cluster:
        cluster.await_begin()
        time.sleep(drawn.uniform(0.0, 2.0))
        victim = drawn.randrange(len(cluster.ranks))
        cluster.ranks[victim].kill()
        outcomes = cluster.outcomes()
        cluster.driver.communicate(timeout=PATIENCE_S)
        assert cluster.driver.returncode == 0, f"seed {seed}"
        assert all(not cluster.bed.nodes.served(node) for node in cluster.bed.nodes.sockets), f"seed {seed}"
    for rank, (code, output) in enumerate(outcomes):
        assert "wrong sum" not in output, f"seed {seed}"
        of_its_job = rank // 2 == victim // 2
        assert code == 0 or rank == victim or (of_its_job and "wiresum.errors." in output), f"seed {seed}: {output}"
        is_peer = of_its_job and rank != victim and code != 0
        dead = f"rank {victim % 2} of job {victim // 2 + 1} has ended without a word"
        assert not is_peer or dead in output, f"seed {seed}: {output}"


def test_a_rank_that_is_killed_costs_its_own_job_at_most(namespaces, name, tmp_path):
    without_a_rank(tmp_path, name, 1)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(200, 230))
def test_ranks_that_are_killed_at_random_moments(namespaces, name, tmp_path, seed):
    without_a_rank(tmp_path, name, seed)


def mixed(folder, name, seed):
    """The driver, a rank and the device's process are killed at random moments, one to three of them, in any order.

    Sums are exact or errors have names, everybody ends, nodes serve nobody, and no circuit is lit that no interval has.
    """
    drawn = random.Random(seed)
    with Cluster(folder, name, 1_500_000) as cluster:
        switch, victims = cluster.bed.bed.optical_switch("oxc"), set()
        # Who is killed before it has come is waited for, as a command may take minutes until it does.
        cluster.await_begin()
        for what in drawn.choices(["driver", "rank", "device"], k=drawn.randint(1, 3)):
            time.sleep(drawn.uniform(0.0, 2.0))
            if what == "driver" and cluster.driver.poll() is None:
                os.killpg(cluster.driver.pid, signal.SIGKILL)
                cluster.driver.communicate()
                # Also where all ranks have ended meanwhile: nodes still serve the last jobs.
                if (folder / "plans" / "progress.json").exists():
                    cluster.driver = cluster.start()
            elif what == "rank":
                victim = drawn.randrange(len(cluster.ranks))
                victims.add(victim)
                cluster.ranks[victim].kill()
            elif what == "device":
                switch.restart(drawn.uniform(0.1, 1.5), forgets=drawn.random() < 0.5)
        outcomes = cluster.outcomes()
        cluster.driver.communicate(timeout=PATIENCE_S)
        assert all(not cluster.bed.nodes.served(node) for node in cluster.bed.nodes.sockets), f"seed {seed}"
        lit = {frozenset(one) for one in switch.device.crossbar.connections}
        planned = cluster.planned()
        assert lit <= planned, f"seed {seed}: circuits have gone astray"
    for rank, (code, output) in enumerate(outcomes):
        assert "wrong sum" not in output, f"seed {seed}"
        assert code == 0 or rank in victims or "wiresum.errors." in output, f"seed {seed}, rank {rank}: {output}"


def test_driver_ranks_and_device_are_killed_in_one_run(namespaces, name, tmp_path):
    mixed(tmp_path, name, 1)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(400, 500))
def test_drivers_ranks_and_devices_are_killed_at_random_moments(namespaces, name, tmp_path, seed):
    mixed(tmp_path, name, seed)


def test_bad_input_is_named(tmp_path):
    def run(*more):
        line = ["circuits", "run", str(tmp_path / "made.json"), "--topology", "optical:units=3,ports=1"]
        line += ["--plans", str(tmp_path / "plans")]
        return CliRunner().invoke(app, [*line, *more])

    topology, jobs = network(), three_jobs()
    assert "cannot be read" in str(run().exception)
    (tmp_path / "made.json").write_text(timetable_of(topology, jobs).model_dump_json(exclude_none=True))
    assert "give the workload that it is of, as --jobs" in str(run().exception)
    assert "give the workload that" in str(run("--online").exception)
    schedule = as_schedule(timetable_of(topology, jobs), topology, jobs)
    (tmp_path / "made.json").write_text(schedule.model_dump_json(exclude_none=True))
    assert "optical switch oxc has no driver" in str(run().exception)
    assert run("--driver", "oxc=emulated://127.0.0.1:1", "--control", "u0").exit_code == 2
    address, listen = "oxc=emulated://127.0.0.1:1", str(tmp_path / "turns.sock")
    assert "has no control socket" in str(run("--driver", address, "--listen", listen).exception)
