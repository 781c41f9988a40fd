"""`wiresum bench start`."""

from wiresum.bench.command import Output, RunsOption, command, measuring, show


@command("The command line", "--runs 3", {"start": ""}, quick="--runs 1")
def start(runs: RunsOption = 7, *, output: Output) -> None:
    """Measure processor time and time of the twelve commonest commands, beside a bare Python and PyTorch's import."""
    from wiresum.bench.start_up.measure import measure

    with measuring("the twelve commonest commands", output) as task:
        report = measure(runs, task.say)
    show(report, output)
