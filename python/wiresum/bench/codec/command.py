"""`wiresum bench codec`."""

from wiresum.bench.command import Output, RunsOption, command, measuring, show


@command("Packets, on one core", "--json", {"codec": ""}, quick="--runs 1")
def codec(runs: RunsOption = 7, *, output: Output) -> None:
    """Time the conversion of floats to integers and back, in cache and out of it."""
    from wiresum.bench import native

    with measuring("float32, float16 and bfloat16 to lanes and back", output):
        report = native.codec(runs)
    show(report, output)
