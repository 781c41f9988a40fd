"""`wiresum bench gpu`."""

from typing import Annotated

import typer

from wiresum.bench.command import Output, RunsOption, command, measuring, show

SizeOption = Annotated[str, typer.Option("--size", help="Size of the tensor: 25MB, 1GB")]


@command("Packets, on one core", "--size 100MB", quick="--size 1MB --runs 1")
def gpu(size: SizeOption = "100MB", runs: RunsOption = 7, *, output: Output) -> None:
    """Time the conversion of floats to integers and back on a GPU, beside a copy within its memory."""
    from wiresum.bench.gpu.measure import measure
    from wiresum.commandline.quantities import parse_size

    with measuring("float32, float16 and bfloat16 to lanes and back", output):
        report = measure(parse_size(size), runs)
    show(report, output)
