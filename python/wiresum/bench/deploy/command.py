"""`wiresum bench deploy`."""

from wiresum.bench.command import Output, RunsOption, command, measuring, show


@command("Running aggregators", "--json", {"deploy": "--runs 5"}, quick="--runs 1")
def deploy(runs: RunsOption = 7, *, output: Output) -> None:
    """Time from the start of an aggregator to ready to sum, beside XAgg's figures."""
    from wiresum.bench.deploy import measure as benchmark

    with measuring("a server with two ports", output) as status:
        report = benchmark.measure(runs, status.say)
    show(report, output)
