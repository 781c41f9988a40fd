"""The ring, in closed form: what in-network sums are compared with."""

from collections.abc import Mapping, Sequence

from wiresum.errors import PlanError
from wiresum.predict.flow import Flow, Span
from wiresum.predict.prediction import Prediction
from wiresum.topology.model import Topology
from wiresum.topology.paths import RoutedTopology

FEWEST_RANKS = 2


def predict_ring(
    topology: Topology,
    bytes: float,
    workers: Sequence[str] | None = None,
    starts: Mapping[str, float] | None = None,
) -> Prediction:
    """Predicts a ring all-reduce: 2(n−1)/n of the gradient from every worker to the next, all in step.

    The rate of all is that of the slowest edge, each link shared by the edges that cross it; the latest start delays
    all. Without headers: a bound for any ring.

    Args:
        topology: where the workers are.
        bytes: of the gradient.
        workers: in the ring's order; all of the topology in its order where absent.
        starts: seconds at which workers have their gradients; 0 for those that are not named.

    Raises:
        PlanError: fewer than two workers, or two without a path.
    """
    names = list(workers) if workers is not None else [worker.name for worker in topology.workers]
    if len(names) < FEWEST_RANKS:
        raise PlanError(f"a ring has at least {FEWEST_RANKS} workers, not {len(names)}; add workers to the topology")
    network = RoutedTopology(topology)
    size = 2 * (len(names) - 1) / len(names) * bytes
    begin = max((starts or {}).values(), default=0.0)
    edges = list(zip(names, [*names[1:], names[0]], strict=True))
    paths = [network.path(source, target) for source, target in edges]
    crossed = [capacity for path in paths for capacity in path]
    rate_bps = min(network.capacities[capacity] / crossed.count(capacity) for capacity in set(crossed))
    flows = [
        Flow("ring", "gradient", source, target, path, size, begin, lockstep="ring")
        for (source, target), path in zip(edges, paths, strict=True)
    ]
    span = Span(begin, begin + size * 8 / rate_bps, rate_bps)
    return Prediction.of(flows, [[span]] * len(flows), {c: network.capacities[c] for c in crossed})
