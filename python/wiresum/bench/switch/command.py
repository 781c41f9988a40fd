"""`wiresum bench switch`."""

from wiresum.bench.command import Output, RunsOption, command, measuring, show


@command("Packets, on one core", "--runs 5", quick="--runs 1")
def switch(runs: RunsOption = 7, *, output: Output) -> None:
    """Time one packet through the kernel's switch under each slot policy, in the kernel's test-run."""
    from wiresum.bench import native

    with measuring("packets through the kernel's test-run", output):
        report = native.switch(runs)
    show(report, output)
