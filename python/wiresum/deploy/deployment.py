"""The daemons of a plan's nodes, started, asked, changed and ended together."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from wiresum.deploy.daemon import Daemon, start_daemon
from wiresum.deploy.hosts import Hosts
from wiresum.document import write_text
from wiresum.errors import ControlError, DeploymentError
from wiresum.plan.aggregation_plan import AggregationPlan, PlanNode

Quota = Mapping[str, int]
"""What bounds a job at each node: `memory_bytes`, `bytes_per_second`."""


class Deployment:
    """One daemon at each node of a plan.

    Args:
        hosts: where the daemons run.
        plan: whose job they serve first.
        options: of each daemon, as `--memory`.

    Example:
        >>> with Deployment(ThisHost(folder), plan) as deployment:  # doctest: +SKIP
        ...     deployment.add(another, {"bytes_per_second": 10**8})
        ...     print(deployment.status()["switch"])
    """

    def __init__(self, hosts: Hosts, plan: AggregationPlan, options: Sequence[str] = ()) -> None:
        self.plan = hosts.adapt(plan)
        self.daemons: dict[str, Daemon] = {}
        self._hosts = hosts
        self._options = list(options)
        self._is_idle = False
        self._added: dict[int, tuple[AggregationPlan, Quota]] = {}
        self._starts = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def plan_file(self) -> Path:
        """The plan that daemons and workers read."""
        return self._hosts.folder / "plan.json"

    def start(self, *, idle: bool = False) -> None:
        """Starts the daemons and waits until all serve; if one does not, none stays.

        Args:
            idle: the daemons listen at the plan's addresses but do not serve its job; jobs come by `add`.

        Raises:
            DeploymentError: a daemon does not start; the message has its node and its last words.
            SupportError: the daemon is not built.
        """
        self._is_idle = idle
        self.plan.write(self.plan_file)
        try:
            for node in self.plan.nodes:
                self.daemons[node.name] = self._start_daemon(node.name)
            for daemon in self.daemons.values():
                daemon.await_ready()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> dict[str, dict[str, Any]]:
        """Ends the daemons; their last counters by node, empty where one had crashed."""
        for daemon in self.daemons.values():
            daemon.process.terminate()
        for daemon in self.daemons.values():
            daemon.await_end()
        counters = {name: daemon.counters() for name, daemon in self.daemons.items()}
        self.daemons.clear()
        self._added.clear()
        return counters

    def replace(self, plan: AggregationPlan) -> dict[str, dict[str, Any]]:
        """Ends the daemons and starts those of another plan; workers then join again.

        The plan's file stays where it is, so a worker finds the new plan under the name that it has.

        Returns:
            The last counters of the old plan's daemons, by node.

        Raises:
            TestbedError: the hosts were not made for the plan; then the old one goes on.
            DeploymentError: a daemon does not start.
        """
        adapted = self._hosts.adapt(plan)
        counters = self.stop()
        self._hosts.prepare(adapted)
        self.plan = adapted
        self.start()
        return counters

    def add(self, plan: AggregationPlan, quota: Quota | None = None) -> Path:
        """Has the daemons serve one more job, at all nodes of its plan or at none.

        The plan's nodes get the addresses and engines of the daemons that run.

        Returns:
            The file of the plan, which the job's workers read.

        Raises:
            DeploymentError: the plan has a node at which no daemon of that number runs.
            ControlError: a daemon refuses the job; the message has its node and its reason.
        """
        daemons = [self._daemon_of(node.name, node.id) for node in plan.nodes]
        there = [
            node.model_copy(update={"address": daemon.node.address, "engine": daemon.node.engine})
            for node, daemon in zip(plan.nodes, daemons, strict=True)
        ]
        adapted = self._hosts.adapt(plan).model_copy(update={"nodes": there})
        served: list[Daemon] = []
        try:
            for daemon in daemons:
                _serve(daemon, adapted, quota or {})
                served.append(daemon)
        except ControlError:
            for daemon in served:
                daemon.ask("remove", job=plan.job.id)
            raise
        self._added[plan.job.id] = adapted, quota or {}
        file = self._hosts.folder / f"plan-{plan.job.id}.json"
        adapted.write(file)
        return file

    def remove(self, job: int) -> None:
        """Has the daemons that serve a job serve it no more; its workers get errors.

        Raises:
            DeploymentError: none of them serves it.
        """
        serving = [self.daemons[name] for name, seen in self.status().items() if job in _jobs(seen)]
        if not serving:
            raise DeploymentError(f"no daemon serves job {job}; `status` has the jobs of each")
        for daemon in serving:
            daemon.ask("remove", job=job)
        self._added.pop(job, None)

    def status(self) -> dict[str, dict[str, Any]]:
        """What each daemon says about itself and its jobs, by node.

        Raises:
            ControlError: a daemon does not answer; the message names its node.
        """
        return {name: daemon.ask("status") for name, daemon in self.daemons.items()}

    def dead(self) -> dict[str, str]:
        """Daemons that have ended though no one asked them to, with their last words, by node."""
        return {name: one.last_words() for name, one in self.daemons.items() if one.process.poll() is not None}

    def upgrade(self, node: str) -> float:
        """Has a new process take over a daemon in the middle of whatever it does.

        Returns:
            Seconds for which packets of the node's socket have waited.

        Raises:
            DeploymentError: there is no such daemon, or the new process does not take over; then the old one goes on.
        """
        running = self.daemon(node)
        successor = self._start_daemon(node, "--take-over")
        waited = running.hand_over(successor)
        self.daemons[node] = successor
        return waited

    def revive(self, node: str) -> None:
        """Starts a daemon that has ended again, with its jobs, as a service manager would, and waits until it serves.

        Raises:
            DeploymentError: there is no such daemon, or it does not start.
        """
        self.daemon(node)
        self.daemons[node] = started = self._start_daemon(node)
        started.await_ready()
        for plan, quota in self._added.values():
            if any(one.name == node for one in plan.nodes):
                _serve(started, plan, quota)

    def daemon(self, node: str) -> Daemon:
        """The daemon at a node.

        Raises:
            DeploymentError: there is none.
        """
        if node not in self.daemons:
            there = ", ".join(self.daemons) or "none at all: start the deployment"
            raise DeploymentError(f"no daemon of this deployment is at {node}; there are {there}")
        return self.daemons[node]

    def _daemon_of(self, node: str, number: int) -> Daemon:
        daemon = self.daemon(node)
        if daemon.node.id != number:
            problem = f"{daemon.what} serves node {daemon.node.id}, and {node} is node {number} of this plan"
            raise DeploymentError(f"{problem}; number the nodes of all jobs alike")
        return daemon

    def _plan_of(self, node: PlanNode) -> list[str]:
        """Options with the plan and the keys of a node, which needs no more of the secret."""
        options = ["--plan", str(self.plan_file)]
        keys = self.plan.held_by(node.id).job.secret
        if keys is None:
            return options
        file = self._hosts.folder / f"{node.name}.keys"
        write_text(file, keys + "\n", "keys", DeploymentError, is_secret=True)
        return [*options, "--secret", str(file)]

    def _start_daemon(self, name: str, *options: str) -> Daemon:
        node = next(node for node in self.plan.nodes if node.name == name)
        job = ["--listen", str(node.address)] if self._is_idle else self._plan_of(node)
        self._starts += 1
        log = self._hosts.folder / (f"{name}-{self._starts}.log" if options else f"{name}.log")
        return start_daemon(self._hosts, node, log, [*job, *self._options, *options])


def _serve(daemon: Daemon, plan: AggregationPlan, quota: Quota) -> None:
    daemon.ask("add", plan=json.loads(plan.held_by(daemon.node.id).to_json()), quota=dict(quota))


def _jobs(status: dict[str, Any]) -> set[int]:
    return {job["job"] for job in status["jobs"]}
