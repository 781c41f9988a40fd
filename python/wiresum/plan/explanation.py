"""A plan in plain words."""

from __future__ import annotations

from collections.abc import Iterator

from wiresum.plan.aggregation_plan import AggregationPlan, PlanStream, Solution, agrees
from wiresum.plan.exchanges import servers_of
from wiresum.plan.placement import parents_of
from wiresum.plan.rows import PlanSparse
from wiresum.plan.tracking import Decaying, Once, Sampling

MAX_NAMES = 6
"""The longest list that is written out; of longer ones, the first names and the number of the others."""
STATUS = {
    "optimal": "No answer is better",
    "feasible": "A better answer may exist",
    "time_limit": "The time limit ended the search",
    "heuristic": "Nothing is proven",
}
SCOPE = "The proof is about this number, and not about the time that `wiresum predict` simulates."
"""Follows every bound: of two optimal plans, one may be slower."""


def explain(plan: AggregationPlan) -> str:
    """Who sums what for whom, what a worker sends, and how good the planner says that is.

    Example:
        >>> from wiresum.plan.job import Job
        >>> from wiresum.planners import plan
        >>> from wiresum.topology.generators.star import star
        >>> print(explain(plan(star(2), Job())))
        2 workers (w0, w1) sum their gradients at 1 node, `switch` (xdp).
        The whole gradient:
          switch is the root and adds w0 and w1.
        Packets carry 736 float32 or 1472 narrower elements, with block exponents; a worker has 192 in flight.
        Planned by: direct.
    """
    return "\n".join(_lines(plan))


def _lines(plan: AggregationPlan) -> Iterator[str]:
    count, nodes = len(plan.workers), len(plan.nodes)
    names = _listed([f"`{node.name}`" for node in plan.nodes])
    engines = ", ".join(sorted({node.engine for node in plan.nodes}))
    yield (
        f"{_counted(count, 'worker')} ({_listed([worker.name for worker in plan.workers])}) sum their gradients at "
        f"{_counted(nodes, 'node')}, {names} ({engines})."
    )
    streams = [one for one in plan.streams if one.role == "values"]
    for stream in streams:
        yield "The whole gradient:" if len(streams) == 1 else f"{100 * stream.share:.4g} % of it, as `{stream.name}`:"
        yield from _tree(plan, stream)
    codec = plan.job.codec
    said = "block exponents" if agrees(codec) else f"the factor {codec.removeprefix('fixed:')}"
    window = sum(stream.window for stream in streams)
    yield f"Packets carry {_packets(plan)}, with {said}; a worker has {window} in flight."
    if plan.job.sealed:
        yield "Sums are sealed: nodes learn nothing of the values, and what they change is found."
    if plan.job.proven:
        yield "Values are proven: who reads packets and forges addresses changes no sum."
    shares = servers_of(plan)
    if shares:
        whose = "a reduce-scatter's sums go to one worker each"
        yield f"All-gathers and broadcasts are copied at {_sharing(shares)}; {whose}."
    if plan.sparse is not None:
        yield from _rows(plan, plan.sparse)
    yield f"Planned by: {plan.planner}."
    if plan.solution is not None:
        yield _proof(plan.solution)


def _sharing(shares: dict[str, float]) -> str:
    """The only server, or several with what each of them carries."""
    if len(shares) == 1:
        return next(iter(shares))
    return _listed([f"{name} ({100 * share:.3g} %)" for name, share in shares.items()])


def _packets(plan: AggregationPlan) -> str:
    values = plan.job.packet_values
    if plan.job.lanes == "auto":
        return f"{values} float32 or {2 * values} narrower elements"
    bits = 8 * plan.job.value_bytes
    return f"{values * 32 // bits} values of {bits} bits"


def _tree(plan: AggregationPlan, stream: PlanStream) -> Iterator[str]:
    parents = parents_of(plan, stream)
    workers = {worker.name for worker in plan.workers}
    for name, above in parents.items():
        if name in workers:
            continue
        children = [child for child, parent in parents.items() if parent == name]
        role = "is the root and adds" if above is None else "adds"
        up = "" if above is None else f", and sends the sum to {above}"
        yield f"  {name} {role} {_listed(children)}{up}."


def _rows(plan: AggregationPlan, sparse: PlanSparse) -> Iterator[str]:
    rows = sum(table.rows for table in sparse.tables)
    servers = _listed([server.name for server in sparse.servers])
    hot, names = sparse.hot, {node.id: node.name for node in plan.nodes}
    tables = f"{_counted(len(sparse.tables), 'table')} with {rows:,} rows"
    verb = "are" if len(sparse.tables) > 1 else "is"
    yield f"{tables} {verb} kept by {_counted(len(sparse.servers), 'server')} ({servers}), in equal shares."
    if hot is None:
        yield "  No row is hot: workers push gradients to the servers, and pull rows from there."
        return
    switches = _listed([names[switch.node] for switch in sparse.switches])
    yield (
        f"  {switches} adds the {hot.replicated + hot.summed:,} hot rows of {hot.file}: every worker keeps "
        f"{hot.replicated:,}, whose sums go to all workers; the sums of {hot.summed:,} go to the servers."
    )
    if sparse.tracking is not None:
        yield f"  {_following(sparse.tracking)}"


def _following(tracking: Decaying | Once | Sampling) -> str:
    match tracking:
        case Decaying():
            return (
                f"Every {tracking.period} rounds, rows that have overtaken hot ones change places with them, but for "
                f"those that are among {tracking.reach:g} times as many as there may be."
            )
        case Once():
            return f"After round {tracking.after}, the rows that were touched most by then are hot."
        case Sampling():
            share = f"{100 * tracking.rate:g} %"
            return f"After round {tracking.after}, the rows are hot that {share} of the gradients show to be popular."


def _proof(solution: Solution) -> str:
    if not solution.is_searched:
        return f"It follows a rule and compares no answers: {solution.objective} {solution.value:.6g}."
    what = f"It minimised {solution.objective}, by {solution.solver}: {solution.value:.6g}."
    bound = "" if solution.bound is None else f", and none is below {solution.bound:.6g} (gap {solution.gap or 0:.2%})"
    scope = "" if solution.bound is None else f" {SCOPE}"
    return f"{what} {STATUS[solution.status]}{bound}.{scope}"


def _listed(names: list[str]) -> str:
    if len(names) > MAX_NAMES + 1:  # one more takes as long to name as to count
        return f"{', '.join(names[:MAX_NAMES])} and {len(names) - MAX_NAMES} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"
