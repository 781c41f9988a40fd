"""`wiresum predict`: how long a collective of a plan takes, and what holds it up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from wiresum.cli.sharded import PredictedStep, StepOptions, predicted_step
from wiresum.commandline import completion, options
from wiresum.commandline.console import note, out, print_json
from wiresum.commandline.groups import grouped, present, refuse
from wiresum.commandline.progress import working
from wiresum.commandline.quantities import parse_size, parse_starts
from wiresum.commandline.tables import figures
from wiresum.plan.choices import COLLECTIVES, ELEMENT_BYTES, FSDP, MAX_PACKED_WORKERS, ElementType

if TYPE_CHECKING:
    from wiresum.plan.aggregation_plan import AggregationPlan
    from wiresum.predict import Prediction
    from wiresum.predict.hosts import HostLoad
    from wiresum.topology.model import Topology

DEFAULT_SIZE = "25MB"
ASKED = (*COLLECTIVES, FSDP)
WITHOUT = "is predicted without it; leave it out"


@grouped
def predict(
    plan: options.PlanArgument,
    topology: options.TopologyOption,
    network: options.NetworkOptions,
    step: StepOptions,
    collective: Annotated[
        str,
        typer.Option(
            "--collective",
            help=f"Collective: {', '.join(COLLECTIVES)} (a reduce-scatter and an all-gather at once is a pair), or "
            f"{FSDP}, a step of a sharded model",
            autocompletion=completion.name(ASKED),
        ),
    ] = COLLECTIVES[0],
    size: Annotated[
        str | None,
        typer.Option("--bytes", help="Size of the unsharded tensor [default: 25MB; none beside tables]"),
    ] = None,
    dtype: Annotated[ElementType, typer.Option("--dtype", help="Element type of the tensor")] = "float32",
    eight_bits: Annotated[
        bool, typer.Option("--eight-bits", help="Elements travel as 8 bits, as those of wiresum.torch.eight_bits do")
    ] = False,
    start: Annotated[
        list[str] | None, typer.Option("--start", help="Delay of a worker's gradient, as WORKER=SECONDS; repeatable")
    ] = None,
    upload_only: Annotated[
        bool, typer.Option("--upload-only", help="Stop counting when the root has the sum, as XAgg does")
    ] = False,
    barrier: Annotated[
        bool | None,
        typer.Option(
            "--barrier/--no-barrier",
            help="Wait for the last worker before values flow [default: by codec and exponents]",
        ),
    ] = None,
    trace: Annotated[
        str | None, typer.Option("--trace", help="Trace whose rows a plan with tables carries [default: the plan's]")
    ] = None,
    hosts: Annotated[
        str | None,
        typer.Option("--hosts", help="Profile of hosts (`bench line --profile`): is it links or processors?"),
    ] = None,
    plot: options.PlotOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Predict the time of a plan's collective by max-min fair sharing of each link, without running it.

    A round of a plan with tables is predicted by the fullest direction of any link, --bytes of dense gradient counted.

    Example: `wiresum predict plan.json --topology xagg --bytes 97MB --start W3=2`
    """
    from wiresum.plan.aggregation_plan import AggregationPlan
    from wiresum.predict import predict as predict_plan

    if collective not in ASKED:
        raise typer.BadParameter(f"{collective} is not one of {', '.join(ASKED)}", param_hint="--collective")
    step.refuse_beside(collective)
    given, starts = AggregationPlan.read_public(plan), parse_starts(start or [])
    is_other = collective != COLLECTIVES[0]
    alone = {
        "--start": start, "--upload-only": upload_only, "--barrier": barrier is not None, "--hosts": hosts,
        "--eight-bits": eight_bits,
    }  # fmt: skip
    if given.sparse is not None:
        refuse(present({**alone, "--plot": plot, "--collective": is_other}), f"a round with tables {WITHOUT}")
        dense_bytes = given.job.as_float32(parse_size(size), ELEMENT_BYTES[dtype]) if size else 0
        _predict_rows(network.load(topology), given, dense_bytes, trace, as_json=as_json)
        return
    refuse(present({"--trace": trace}), f"plan {plan} has no tables; leave it out")
    if eight_bits:
        _check_eight_bits(given)
    there, tensor_bytes = network.load(topology), parse_size(size or DEFAULT_SIZE)
    as_float32 = given.job.as_float32(tensor_bytes, ELEMENT_BYTES[dtype], eight_bits=eight_bits)
    steps: PredictedStep | None = None
    if is_other:
        refuse(present(alone), f"a {'step of fsdp' if collective == FSDP else collective} {WITHOUT}")
    if collective == FSDP:
        steps = predicted_step(there, given, tensor_bytes, step, ELEMENT_BYTES[dtype])
        found = steps.asked
    elif is_other:
        from wiresum.predict.collectives import predict_collective

        found = predict_collective(there, given, tensor_bytes, collective, ELEMENT_BYTES[dtype])
    else:
        found = predict_plan(there, given, as_float32, starts, upload_only, barrier=barrier)
    if plot:
        from wiresum.predict.plot import draw

        draw(found, plot)
        note(f"{plot}: rates over time")
    load = _host_load(given, as_float32, hosts, found) if hosts else None
    if as_json:
        told = (steps or found).to_json()
        print_json({"collective": collective, **told, **({"hosts": load.to_json()} if load else {})})
    else:
        show(found, collective)
        if steps:
            steps.show()
        if load:
            show_hosts(load)


def _host_load(plan: AggregationPlan, size: int, profile: str, found: Prediction) -> HostLoad:
    from wiresum.predict.hosts import HostProfile, host_load

    return host_load(plan, size, HostProfile.read(profile), found)


def _predict_rows(
    network: Topology, plan: AggregationPlan, dense_bytes: int, trace: str | None, *, as_json: bool
) -> None:
    from wiresum.cli.rows import show as show_rows
    from wiresum.planners.row_plans import predicted

    with working("counting rows") as status:
        part = predicted(network, plan, dense_bytes, trace, status.say)
    if as_json:
        print(part.to_json(), end="")
    else:
        show_rows(part)


def _check_eight_bits(plan: AggregationPlan) -> None:
    """They have room for the sums of few workers, and need exponents.

    Raises:
        typer.BadParameter: the plan's sums do not fit.
    """
    if len(plan.workers) > MAX_PACKED_WORKERS or plan.job.codec != "block":
        problem = f"8 bits are for plans of up to {MAX_PACKED_WORKERS} workers with the codec `block`"
        raise typer.BadParameter(f"--eight-bits: {problem}; this one has {len(plan.workers)} and `{plan.job.codec}`")


def show(found: Prediction, collective: str = COLLECTIVES[0]) -> None:
    """The time, what holds it up, and the load of every link, the busiest first."""
    from wiresum.topology.paths import UNLIMITED_BPS

    links = figures(("link", "Mbit/s", "MB on the wire", "busy"), ("link",))
    for load in sorted(found.links, key=lambda one: -one.utilisation):
        rate = "unlimited" if load.bandwidth_bps == UNLIMITED_BPS else f"{load.bandwidth_bps / 1e6:,.0f}"
        links.add_row(str(load.capacity), rate, f"{load.wire_bytes / 1e6:,.1f}", f"{100 * load.utilisation:.0f} %")
    out().print(links)
    if not all(load.capacity.link for load in found.links):
        out().print("all figures count headers, so a node that adds takes more than its `aggregation_rate_bps`")
    if collective == COLLECTIVES[0]:
        out().print(f"all-reduce: {found.seconds:.4f} s; the root has the sum at {found.root_done_seconds:.4f} s")
    else:
        out().print(f"{collective}: {found.seconds:.4f} s")
    out().print(f"bottleneck: {found.bottleneck.capacity}, {found.bottleneck.busy_seconds:.4f} s on its own")


def show_hosts(load: HostLoad) -> None:
    """Links beside processors, by a measured profile and its linear model."""
    holds = "the processor holds it up" if load.bottleneck == "processor" else "the network holds it up"
    out().print(
        f"with hosts of this profile: {load.seconds:.4f} s; {holds} (network {load.links_seconds:.4f} s, a worker's "
        f"thread {load.thread_seconds:.4f} s); on links above {load.limit_bps / 1e9:.2f} Gbit/s threads would"
    )
    for rate_bps, (worker, node) in load.cores.items():
        threads = load.threads[rate_bps]
        out().print(
            f"{rate_bps / 1e9:g} Gbit/s would take {worker:.1f} cores of a worker with {threads} threads or more, "
            f"{node:.1f} of its node"
        )
