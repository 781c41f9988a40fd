"""`wiresum bench tracking`."""

from typing import Annotated

import typer

from wiresum.bench.command import Output, RunsOption, command, measuring, show

RoundsOption = Annotated[int, typer.Option("--rounds", min=21, help="Rounds of a run; the first 20 do not count")]


@command("Planners, simulator, networks of switches", "--rounds 120 --runs 3", {"tracking": ""}, quick="--rounds 21")
def tracking(runs: RunsOption = 1, rounds: RoundsOption = 120, *, output: Output) -> None:
    """Follow drifting popularity: what the hot set gets, beside one who knows the truth of the round before."""
    from wiresum.bench.tracking.measure import measure

    with measuring("a million rows, 10,000 of them hot, while their popularity drifts", output):
        report = measure(rounds, runs)
    show(report, output)
