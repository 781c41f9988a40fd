"""`wiresum selftest`: a fragment from this host through every node of a plan."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from wiresum.commandline.console import note, out, print_json
from wiresum.commandline.options import JsonOption, PlanArgument, SecretOption

if TYPE_CHECKING:
    from wiresum.plan.aggregation_plan import AggregationPlan
    from wiresum.selftest.diagnosis import Finding
    from wiresum.selftest.trial import Step
    from wiresum.selftest.way import Way

FAILED = 1


def selftest(
    plan: PlanArgument,
    secret: SecretOption = None,
    timeout: Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds that each step may take")] = 3.0,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Take the job's seats even from a training, which then ends")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Send fragments from this host through every node of a plan, and say what they met.

    This host takes all seats of the job by the plan's secret and sums with itself: one value, full packets, full
    windows. A training that runs under the plan goes on undisturbed. Exit code 1: a fragment failed.

    Example: `wiresum selftest plan.json`
    """
    from wiresum.plan.aggregation_plan import AggregationPlan
    from wiresum.plan.incarnation import next_incarnation, quiet_incarnation
    from wiresum.selftest import diagnosis
    from wiresum.selftest.trial import require_servers, trial
    from wiresum.selftest.way import way_to

    read = AggregationPlan.read(plan, secret)
    require_servers(read)
    ways = {node.id: way_to(read, node) for node in read.nodes}
    findings = [found for node in read.nodes if (found := diagnosis.of_way(node, ways[node.id]))]
    steps: list[Step] = []
    if not findings:
        incarnation = next_incarnation() if take_over else quiet_incarnation()
        steps = list(trial(read, incarnation, timeout))
        findings = [diagnosis.of_step(read, ways, step) for step in steps if step.problem]
    if as_json:
        print_json(_plain(read, ways, steps, findings))
    else:
        _show(read, ways, steps, findings)
    if findings:
        raise typer.Exit(FAILED)


def _plain(
    plan: AggregationPlan, ways: dict[int, Way], steps: list[Step], findings: list[Finding]
) -> dict[str, object]:
    nodes = [
        {"node": node.id, "name": node.name, "address": node.address, "engine": node.engine, **asdict(ways[node.id])}
        for node in plan.nodes
    ]
    return {
        "fine": not findings,
        "nodes": nodes,
        "steps": [asdict(step) for step in steps],
        "findings": [asdict(finding) for finding in findings],
    }


def _show(plan: AggregationPlan, ways: dict[int, Way], steps: list[Step], findings: list[Finding]) -> None:
    for node in plan.nodes:
        way = ways[node.id]
        out().print(f"node {node.id}: {node.name}, {node.engine} at {node.address}, MTU {way.mtu_bytes or 'unknown'}")
    for step in steps:
        again = f", {step.repetitions} packets sent again" if step.repetitions else ""
        told = "FAILED" if step.problem else f"ok, {step.seconds * 1e3:.1f} ms{again}"
        out().print(f"{step.name}: {told}")
    for finding in findings:
        note(f"{finding}")
    if not findings:
        out().print(f"every node sums what this host sends, in the name of {len(plan.workers)} workers")
