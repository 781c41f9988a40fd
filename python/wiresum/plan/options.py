"""What every planner can be told beyond topology and job."""

from typing import Annotated

from pydantic import Field

from wiresum.plan.aggregation_plan import MAX_U16, Engine
from wiresum.plan.document import Document
from wiresum.wire import DEFAULT_PORT


class PlanOptions(Document):
    """Choices that are the operator's, not the planner's.

    Attributes:
        engine: what runs the aggregators.
        port: their UDP port.
    """

    engine: Engine = "xdp"
    port: Annotated[int, Field(ge=1, le=MAX_U16)] = DEFAULT_PORT
