"""`wiresum bench codec`."""

from wiresum.bench.command import RunsOption, command, show
from wiresum.commandline import options
from wiresum.commandline.console import err


@command("Packets, on one core", "--json", {"codec": ""})
def codec(runs: RunsOption = 7, as_json: options.JsonOption = False) -> None:
    """Time the conversion of floats to integers and back, in cache and out of it."""
    from wiresum.bench import native

    with err().status("float32, float16 and bfloat16 to lanes and back"):
        report = native.codec(runs)
    show(report, as_json)
