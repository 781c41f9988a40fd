"""`wiresum bench deploy`."""

from wiresum.bench.command import RunsOption, command, show
from wiresum.commandline import options
from wiresum.commandline.console import err


@command("Running aggregators", "--json", {"deploy": "--runs 5"})
def deploy(runs: RunsOption = 7, as_json: options.JsonOption = False) -> None:
    """Time from the start of an aggregator to ready to sum, beside XAgg's figures."""
    from wiresum.bench.deploy import measure as benchmark

    with err().status("a server with two ports") as status:
        report = benchmark.measure(runs, status.update)
    show(report, as_json)
