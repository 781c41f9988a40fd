"""What every planner can be told beyond topology and job."""

from typing import Annotated

from pydantic import Field

from wiresum.document import Document, WaitSeconds
from wiresum.plan.aggregation_plan import MAX_U16, U32
from wiresum.plan.choices import DEFAULT_TIME_LIMIT_S, MAX_TRIES, Engine
from wiresum.plan.convergence import Convergence
from wiresum.plan.evaluation import Evaluation
from wiresum.wire import DEFAULT_PORT, MAX_CONTRIBUTORS


class PlanOptions(Document):
    """Choices that are the operator's, not the planner's.

    Attributes:
        engine: what runs the aggregators.
        port: where they receive.
        k: most children of an aggregator, for planners of k-ary trees; chosen by them where absent.
        evaluation: a measured round of each worker, for planners that put similar workers together.
        convergence: what is known of the training, for planners that choose how many workers a round waits for.
        seed: of planners that choose at random.
        tries: how often these choose, with seeds from `seed` on; the best counts.
        time_limit_s: how long a planner that searches may take; it then answers with the best that it has found.
    """

    engine: Engine = "xdp"
    port: Annotated[int, Field(ge=1, le=MAX_U16)] = DEFAULT_PORT
    k: Annotated[int, Field(ge=2, le=MAX_CONTRIBUTORS)] | None = None
    evaluation: Evaluation | None = None
    convergence: Convergence | None = None
    seed: U32 = 0
    tries: Annotated[int, Field(ge=1, le=MAX_TRIES)] = 1
    time_limit_s: WaitSeconds = DEFAULT_TIME_LIMIT_S
