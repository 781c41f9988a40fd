"""Every exception that Wiresum raises, as one tree.

The message says what happened, where, and what to do; the class says which kind of answer fits: mend the plan,
start a node, mend the caller, or restart the job.
"""


class WiresumError(Exception):
    """Anything that Wiresum raises by itself."""


class PlanError(WiresumError, ValueError):
    """A plan has a field that no runner can honour; the message names the field."""


class NotWorthwhileError(PlanError):
    """Summing in the network would not make this job faster; the message says why, and what to use instead."""


class TopologyError(WiresumError, ValueError):
    """A topology has a field that cannot be; the message names the field."""


class ScenarioError(WiresumError, ValueError):
    """A scenario has a field that cannot be; the message names file, line and field."""


class TraceError(WiresumError, ValueError):
    """A trace's description or file has a field that cannot be; the message names the field."""


class WorkloadError(WiresumError, ValueError):
    """A file of jobs, or a trace, has a field that cannot be; the message names the job or the line."""


class ScheduleError(WiresumError, ValueError):
    """An instance, a timetable or a request for one cannot be; the message names the job, the field and the remedy."""


class SimulationError(WiresumError, RuntimeError):
    """A simulation made no progress, or broke a rule; the message says which worker waits for what."""


class TestbedError(WiresumError, RuntimeError):
    """A testbed could not be set up, does not deliver, or a process in it could not be started."""

    __test__ = False  # not a test, whatever pytest makes of the name


class SupportError(WiresumError, OSError):
    """This machine lacks a privilege, a program or a kernel feature; the message says how to get it."""


class DeploymentError(WiresumError, RuntimeError):
    """A daemon of a deployment does not start, or is not there; the message has its node and its last words."""


class ControlError(WiresumError, RuntimeError):
    """A running aggregator refuses what it was asked for, or does not answer; the message says why, with numbers."""


class CircuitError(WiresumError, RuntimeError):
    """An optical switch cannot be as ordered, or is not what it says; the message names the ports and the remedy."""


class CircuitSessionError(CircuitError, ConnectionError):
    """An optical switch does not answer, or answers what makes no sense. What it did meanwhile is unknown: read it."""


class CircuitStuckError(CircuitError):
    """An optical switch has not done what it was ordered to, however often; what is connected can be read."""


class SettingError(WiresumError, ValueError):
    """An environment variable has a value that makes no sense; the message names it and what it may be."""


class ExtensionError(WiresumError, ImportError):
    """The C++ extension for PyTorch is missing, or was built for another PyTorch; the message names the command."""


class JoinError(WiresumError, ConnectionError):
    """A worker was not admitted to its job: no node answered, one refused, or the address is not this host's."""


class NoTurnError(JoinError):
    """The driver of turns has none for a job, and says why, before anything of the job was sent."""


class CollectiveError(WiresumError, RuntimeError):
    """A collective did not end in a sum.

    Every class below but `NotFiniteError` and `UnforeseenError` ends the job in the network: later collectives fail
    with the same reason.
    """


class NotFiniteError(CollectiveError, ArithmeticError):
    """A value on some rank is Inf or NaN, or does not fit the codec.

    Every rank gets it for the same collective, with its buffer untouched, so that all can take another path.
    """


class UnforeseenError(CollectiveError, ArithmeticError):
    """Values flowed with the exponents expected of them (`exponents: expected` in the plan), and those were wrong.

    Every rank gets it for the same collective, with its buffer untouched, so that all can take another path.
    """


class NotServedError(CollectiveError):
    """The driver of turns has none for the job, or no more, and has told all ranks to sum without the network.

    Every rank gets it for every collective from then on, with its buffer untouched if it has sent nothing before. Some
    ranks may have results of collectives that others have not.
    """


class MismatchError(CollectiveError, ValueError):
    """Ranks passed different numbers of elements, element types or operations to one collective."""


class CollectiveTimeoutError(CollectiveError, TimeoutError):
    """A collective's deadline passed; the message names who did not deliver, or the node that is silent."""


class WorkerLostError(CollectiveTimeoutError):
    """Nothing is heard any more from a worker, long before any deadline; the message names its rank and its node.

    Every other rank gets it for its open collective and for all later ones. A buffer is as it was unless the worker was
    lost while the values of that collective were under way: then some results may be in it.
    """


class SparseError(WiresumError, RuntimeError):
    """A row cannot be pulled or pushed, or a round cannot end; the message names the row, or the node."""


class ClosedError(CollectiveError):
    """The engine was closed, by `close()` or by leaving its `with` block."""
