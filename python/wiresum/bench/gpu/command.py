"""`wiresum bench gpu`."""

from typing import Annotated

import typer

from wiresum.bench.command import RunsOption, command, show
from wiresum.commandline import options
from wiresum.commandline.console import err

SizeOption = Annotated[str, typer.Option("--size", help="Size of the tensor: 25MB, 1GB")]


@command("Packets, on one core", "--size 100MB")
def gpu(size: SizeOption = "100MB", runs: RunsOption = 7, as_json: options.JsonOption = False) -> None:
    """Time the conversion of floats to integers and back on a GPU, beside a copy within its memory."""
    from wiresum.bench.gpu.measure import measure
    from wiresum.commandline.quantities import parse_size

    with err().status("float32, float16 and bfloat16 to lanes and back"):
        report = measure(parse_size(size), runs)
    show(report, as_json)
