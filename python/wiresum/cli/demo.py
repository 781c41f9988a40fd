"""`wiresum demo`: the main job, end to end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wiresum.commandline import options
from wiresum.commandline.console import note, out, print_json
from wiresum.commandline.options import choose_engine
from wiresum.commandline.progress import working
from wiresum.commandline.quantities import parse_rate

if TYPE_CHECKING:
    from wiresum.demo.outcome import DemoOutcome
    from wiresum.demo.sparse import SparseDemoOutcome

EPOCHS, BATCH_SIZE = 5, 32
QUICK_STEPS = 20
RATE, SPARSE_RATE = "250mbit", "20mbit"
"""Links that are slower than processors: rows cost more of these than dense values do."""
PICTURE, DATA = "wiresum-demo.png", "wiresum-demo.json"
SPARSE_PICTURE, SPARSE_DATA = "wiresum-demo-sparse.png", "wiresum-demo-sparse.json"


def demo(
    workers: Annotated[
        int, typer.Option("--workers", "-n", min=1, help="Number of hosts around a switch that sums")
    ] = 4,
    rate: Annotated[
        str | None,
        typer.Option("--rate", help=f"Rate of each link, each way [default: {RATE}, with --sparse {SPARSE_RATE}]"),
    ] = None,
    epochs: Annotated[int, typer.Option("--epochs", min=1, help="Passes over the data with each backend")] = EPOCHS,
    batch_size: Annotated[int, typer.Option("--batch-size", min=1, help="Images per worker and step")] = BATCH_SIZE,
    max_steps: Annotated[int | None, typer.Option("--max-steps", min=1, help="Stop after this many steps")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help=f"Stop after {QUICK_STEPS} steps, unless --max-steps is given")
    ] = False,
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", help="Folder with CIFAR-10 or CIFAR-100 in its original files")
    ] = None,
    sparse: Annotated[
        bool, typer.Option("--sparse", help="Train a DLRM with tables at servers instead, and show its tiers")
    ] = False,
    output: Annotated[Path, typer.Option("--output", help="Folder for the picture and the JSON file")] = Path(),
    loopback: Annotated[
        bool, typer.Option("--loopback", help="Run processes on this host, without namespaces")
    ] = False,
    as_json: options.JsonOption = False,
) -> None:
    """Train a network on real images over links that sum gradients, then over Gloo, and compare.

    With --sparse it is a DLRM with Criteo-like clicks, beside servers without sums and Gloo's DDP.

    The training script is ordinary DDP. Without the privilege for namespaces or XDP it runs over loopback with the
    user-space aggregator, and says what that leaves out.

    Example: `wiresum demo --workers 4 --rate 250mbit`
    """
    from wiresum.demo import run

    if sparse:
        if (epochs, batch_size, max_steps, data_dir) != (EPOCHS, BATCH_SIZE, None, None):
            raise typer.BadParameter(
                "its data and steps are fixed; give --workers and --rate alone", param_hint="--sparse"
            )
        steps = QUICK_STEPS if quick else None
        _sparse(workers, rate or SPARSE_RATE, steps, output, loopback=loopback, as_json=as_json)
        return
    rate_bps = _limited(rate or RATE)
    chosen = run.Options(
        workers=workers,
        rate_bps=rate_bps,
        epochs=epochs,
        batch_size=batch_size,
        max_steps=max_steps or (QUICK_STEPS if quick else None),
        data_dir=data_dir,
        engine=choose_engine("auto", loopback),
        loopback=loopback or None,
    )
    with working("training") as task:
        task.say("workers import PyTorch")

        def advance(backend: str, step: int, steps: int, loss: float) -> None:
            task.say(f"{backend}, loss {loss:.3f}")
            task.reach(run.BACKENDS.index(backend) * steps + step, len(run.BACKENDS) * steps)

        outcome = run.compare(chosen, advance)
    _show(outcome, output / PICTURE, output / DATA, as_json=as_json)
    if not as_json:
        out().print(outcome.trainings[0].report)


def _sparse(workers: int, rate: str, steps: int | None, output: Path, *, loopback: bool, as_json: bool) -> None:
    from wiresum.demo import sparse

    engine = choose_engine("auto", loopback)
    with working("a DLRM with tables at servers") as task:
        steps = steps or sparse.STEPS
        outcome = sparse.compare(workers, _limited(rate), engine, steps, loopback=loopback or None, progress=task.say)
    _show(outcome, output / SPARSE_PICTURE, output / SPARSE_DATA, as_json=as_json)


def _show(outcome: DemoOutcome | SparseDemoOutcome, image: Path, data: Path, *, as_json: bool) -> None:
    image.parent.mkdir(parents=True, exist_ok=True)
    outcome.draw(image)
    data.write_text(json.dumps(outcome.to_json(), indent=2) + "\n")
    if as_json:
        print_json(outcome.to_json())
    else:
        out().print(outcome.table())
    note(f"picture: {image}; figures: {data}")


def _limited(rate: str) -> float:
    rate_bps = parse_rate(rate)
    if rate_bps is None:
        raise typer.BadParameter("the wire limit needs a rate; give one, as 250mbit", param_hint="--rate")
    return rate_bps
