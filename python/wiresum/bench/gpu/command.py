"""`wiresum bench gpu`."""

from typing import Annotated

import typer

from wiresum.bench.command import Output, RunsOption, command, measuring, show

SizeOption = Annotated[str, typer.Option("--size", help="Size of the tensor: 25MB, 1GB")]
WorkersOption = Annotated[int, typer.Option("--workers", help="Ranks that share the GPU; 0 for no all-reduces")]


@command("Packets, on one core", "--size 100MB", quick="--size 1MB --runs 1")
def gpu(size: SizeOption = "100MB", workers: WorkersOption = 2, runs: RunsOption = 7, *, output: Output) -> None:
    """Time the codec on a GPU beside a copy within its memory, and all-reduces of tensors there beside Gloo's."""
    from wiresum.bench.gpu.measure import measure
    from wiresum.commandline.quantities import parse_size

    with measuring("float32, float16 and bfloat16 to lanes and back, and all-reduces", output):
        report = measure(parse_size(size), workers, runs)
    show(report, output)
