"""`wiresum simulate`: a scenario file becomes times, loads and pictures."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wiresum.commandline import completion, options
from wiresum.commandline.console import note, out, print_json
from wiresum.commandline.tables import figures

if TYPE_CHECKING:
    from wiresum.sim import ScenarioFile, SimulationOutcome
    from wiresum.sim.outcome import Record
    from wiresum.sim.sweep import Sweep
    from wiresum.topology.model import Topology

SHOWN_LINKS = 8
"""Busiest directions in the table."""


def load(name: str) -> Topology:
    """A topology as `--topology` takes it; a function of a module, so that other processes can call it."""
    return options.load_topology(name)


def simulate(
    scenario: Annotated[
        Path,
        typer.Argument(
            metavar="SCENARIO",
            help="Scenario file (TOML); docs/simulator.md has its fields",
            autocompletion=completion.name((), ".toml"),
        ),
    ],
    change: Annotated[
        list[str] | None, typer.Option("--set", help="FIELD=VALUE to change, as links.loss=0.01; repeatable")
    ] = None,
    sweep: Annotated[
        list[str] | None,
        typer.Option("--sweep", help="FIELD=VALUES to try, as job.*.bytes=1000000,4000000; repeatable, for all pairs"),
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option("--store", help="File for a sweep's results; results that it has are not computed again"),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option("--ray", help="Run a sweep on the Ray cluster at this address, as auto or ray://HOST:PORT"),
    ] = None,
    jsonl: Annotated[Path | None, typer.Option("--jsonl", help="File for records, written as they come")] = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", help="File for a picture of workers, links and slots over time, as .png or .svg"),
    ] = None,
    as_json: options.JsonOption = False,
) -> None:
    """Simulate jobs in virtual time, packet by packet with the code that runs live, or as flows.

    Example: `wiresum simulate docs/examples/star.toml --plot star.png`
    """
    from wiresum.sim import ScenarioFile
    from wiresum.sim.sweep import Sweep

    changes = parse_changes(change or [])
    if ray and not sweep:
        raise typer.BadParameter("a cluster is for sweeps; give several values by --sweep", param_hint="--ray")
    if sweep:
        values = {
            place: [_value(one) for one in text.split(",")] for place, text in (_split(s, "--sweep") for s in sweep)
        }
        _sweep(
            Sweep(scenario, load, {**{place: [value] for place, value in changes.items()}, **values}, store, ray),
            as_json,
        )
        return
    outcome = _run(ScenarioFile.read(scenario, changes), jsonl, timeline=plot is not None)
    if plot:
        from wiresum.sim.plot import draw

        draw(outcome, plot)
        note(f"{plot}: workers, links and slots over time")
    if as_json:
        print_json(outcome.to_json())
    else:
        show(outcome)


def _run(file: ScenarioFile, jsonl: Path | None, timeline: bool) -> SimulationOutcome:
    from wiresum.commandline.progress import working
    from wiresum.sim import run

    with ExitStack() as stack:
        lines = stack.enter_context(jsonl.open("w", encoding="utf-8")) if jsonl else None
        task = stack.enter_context(working("rounds"))

        def heard(record: Record) -> None:
            if lines and record["record"] != "progress":
                lines.write(json.dumps(record) + "\n")
                lines.flush()
            if record["record"] == "progress":
                task.say(f"{record['at_s']:.3f} s of virtual time")
                task.reach(record["rounds"], record["of_rounds"])

        return run(file, load, heard, timeline)


def show(outcome: SimulationOutcome) -> None:
    """Times of each job, the busiest links, and what was checked."""
    jobs = figures(("job", "rounds", "mean s", "median s", "max s"), ("job",))
    for name, job in outcome.summary()["jobs"].items():
        jobs.add_row(name, str(job["rounds"]), *(f"{job[key]:.6f}" for key in ("mean_s", "median_s", "max_s")))
    out().print(jobs)
    _show_links(outcome)
    if outcome.totals:
        out().print(", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in outcome.totals.items()))
    end = outcome.end
    checked = f", {end['checked_values']:,} sums compared" if end["checked_values"] else ""
    out().print(f"{end['events']:,} events{checked}; trace {end['trace']}")


def _show_links(outcome: SimulationOutcome) -> None:
    """The busiest directions of links; one that joins the same nodes as another is named."""
    links = figures(("link", "Mbit/s", "MB", "busy", "dropped", "lost", "queue kB"), ("link",))
    alike = Counter((link["source"], link["target"]) for link in outcome.links)
    for link in outcome.busiest(SHOWN_LINKS):
        name = f"{link['link']}: " if alike[link["source"], link["target"]] > 1 else ""
        rate = f"{link['rate_bps'] / 1e6:,.0f}" if link["rate_bps"] else "unlimited"
        busy = outcome.utilisation_of(link)
        links.add_row(
            f"{name}{link['source']} → {link['target']}", rate, f"{link['wire_bytes'] / 1e6:,.2f}",
            f"{100 * busy:.0f} %" if busy is not None else "", f"{link['dropped_bytes'] / 1e6:,.2f}",
            f"{link['lost_bytes'] / 1e6:,.2f}", f"{link['queue_bytes_max'] / 1e3:,.0f}",
        )  # fmt: skip
    out().print(links)
    if len(outcome.links) > SHOWN_LINKS:
        out().print(f"the busiest {SHOWN_LINKS} of {len(outcome.links)} directions; --json has all")


def _sweep(sweep: Sweep, as_json: bool) -> None:
    from wiresum.commandline.progress import working

    results: list[dict[str, Any]] = []
    try:
        with working("points") as task:
            for result in sweep.results():
                results.append(result)
                task.reach(len(results), len(sweep.points))
                if as_json:
                    print(json.dumps(result), flush=True)
    finally:  # Ctrl-C leaves the points that were complete.
        if results and not as_json:
            _show_sweep(sweep, results)


def _show_sweep(sweep: Sweep, results: list[dict[str, Any]]) -> None:
    """A row for each point and job, in the order of the points."""
    shown = figures((*sweep.values, "job", "mean s", "median s", "max s"), (*sweep.values, "job"))
    order = sweep.points
    for result in sorted(results, key=lambda result: order.index(result["point"])):
        point = [str(value) for value in result["point"].values()]
        if "error" in result:
            shown.add_row(*point, result["error"])
            continue
        for name, job in result["summary"]["jobs"].items():
            shown.add_row(*point, name, *(f"{job[key]:.6f}" for key in ("mean_s", "median_s", "max_s")))
    out().print(shown)


def parse_changes(given: Sequence[str]) -> dict[str, Any]:
    """Values of `--set`, by field."""
    return {place: _value(text) for place, text in (_split(one, "--set") for one in given)}


def _split(text: str, option: str) -> tuple[str, str]:
    place, equals, value = text.partition("=")
    if not equals or not place:
        raise typer.BadParameter(f"{option} {text}: give a field and a value, as links.loss=0.01")
    return place, value


def _value(text: str) -> Any:
    """A number, a truth value, or text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
