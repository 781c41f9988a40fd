"""`wiresum demo`: the main job, end to end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wiresum.commandline import options
from wiresum.commandline.console import err, note, out, print_json, progress_bar
from wiresum.commandline.options import choose_engine
from wiresum.commandline.quantities import parse_rate

if TYPE_CHECKING:
    from wiresum.demo.outcome import DemoOutcome
    from wiresum.demo.sparse import SparseDemoOutcome

EPOCHS, BATCH_SIZE = 5, 32
PICTURE, DATA = "wiresum-demo.png", "wiresum-demo.json"
SPARSE_PICTURE, SPARSE_DATA = "wiresum-demo-sparse.png", "wiresum-demo-sparse.json"


def demo(
    workers: Annotated[
        int, typer.Option("--workers", "-n", min=1, help="Number of hosts around a switch that sums")
    ] = 4,
    rate: Annotated[str, typer.Option("--rate", help="Rate of each link, each way")] = "250mbit",
    epochs: Annotated[int, typer.Option("--epochs", min=1, help="Passes over the data with each backend")] = EPOCHS,
    batch_size: Annotated[int, typer.Option("--batch-size", min=1, help="Images per worker and step")] = BATCH_SIZE,
    max_steps: Annotated[int | None, typer.Option("--max-steps", min=1, help="Stop after this many steps")] = None,
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
    """
    from wiresum.demo import run

    if sparse:
        if (epochs, batch_size, max_steps, data_dir) != (EPOCHS, BATCH_SIZE, None, None):
            raise typer.BadParameter(
                "its data and steps are fixed; give --workers and --rate alone", param_hint="--sparse"
            )
        _sparse(workers, rate, output, loopback=loopback, as_json=as_json)
        return
    rate_bps = _limited(rate)
    chosen = run.Options(
        workers=workers,
        rate_bps=rate_bps,
        epochs=epochs,
        batch_size=batch_size,
        max_steps=max_steps,
        data_dir=data_dir,
        engine=choose_engine("auto", loopback),
        loopback=loopback or None,
    )
    with progress_bar() as bar:
        tasks = {backend: bar.add_task(backend, total=None) for backend in run.BACKENDS}

        def advance(backend: str, step: int, steps: int, loss: float) -> None:
            bar.update(tasks[backend], completed=step, total=steps, description=f"{backend}, loss {loss:.3f}")

        outcome = run.compare(chosen, advance)
    _show(outcome, output / PICTURE, output / DATA, as_json=as_json)
    if not as_json:
        out().print(outcome.trainings[0].report)


def _sparse(workers: int, rate: str, output: Path, *, loopback: bool, as_json: bool) -> None:
    from wiresum.demo import sparse

    with err().status("") as status:
        engine = choose_engine("auto", loopback)
        outcome = sparse.compare(workers, _limited(rate), engine, loopback=loopback or None, progress=status.update)
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
