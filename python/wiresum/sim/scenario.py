"""What is to be simulated, as people write it. `docs/simulator.md` documents every field."""

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from wiresum.document import (
    MAX_WAIT_S,
    BitsPerSecond,
    Count,
    Document,
    FileDocument,
    PositiveBytes,
    PositiveCount,
    WaitSeconds,
)
from wiresum.errors import ScenarioError, WiresumError
from wiresum.plan.aggregation_plan import MAX_SLOTS
from wiresum.plan.choices import (
    DEFAULT_BLOCKS,
    DEFAULT_MTU_BYTES,
    DEFAULT_TIME_LIMIT_S,
    DEFAULT_WINDOW,
    FSDP,
    MAX_BLOCKS,
    MAX_TRIES,
    Exponents,
    Lanes,
    Policy,
    RoundName,
)
from wiresum.registry import spelled
from wiresum.topology.names import Name
from wiresum.wire import PolicyName

Fidelity = Literal["packets", "trains", "flows"]

DEFAULT_QUEUE_BYTES = 1 << 20
"""A megabyte a port: what shallow-buffered switches have."""
DEFAULT_PATIENCE_S = 60.0
"""Virtual seconds: longer than any recovery, and than most late workers."""

Probability = Annotated[float, Field(ge=0, lt=1)]
Seconds = Annotated[float, Field(ge=0, le=MAX_WAIT_S)]
"""Seconds of virtual time."""
Rounds = Annotated[int, Field(ge=1, lt=1 << 32)]
"""As many as the engine counts."""
Slots = Annotated[int, Field(ge=1, le=MAX_SLOTS)]
"""As in a plan."""
MAX_JOB_BYTES = 1 << 40
"""More than any model has; more packets than the engine numbers would not fit."""
MAX_SIGMA = 10.0
"""One time in six is then e¹⁰, or 22,000, times the median."""
MAX_PARTS = 1 << 12
"""Streams of a plan that is still read in a second."""


class Constant(Document):
    """Always the same.

    Attributes:
        kind: `constant`.
        seconds: how long.
    """

    kind: Literal["constant"] = "constant"
    seconds: Seconds = 0.0


class Uniform(Document):
    """Equally likely between two bounds.

    Attributes:
        kind: `uniform`.
        least_s: shortest.
        most_s: longest.
    """

    kind: Literal["uniform"]
    least_s: Seconds
    most_s: Seconds


class Normal(Document):
    """Normal; what would be below 0 is 0.

    Attributes:
        kind: `normal`.
        mean_s: mean.
        deviation_s: standard deviation.
    """

    kind: Literal["normal"]
    mean_s: Seconds
    deviation_s: Seconds


class Exponential(Document):
    """Exponential, after a constant.

    Attributes:
        kind: `exponential`.
        least_s: the constant.
        mean_s: mean of what comes on top.
    """

    kind: Literal["exponential"]
    least_s: Seconds = 0.0
    mean_s: Seconds


class Lognormal(Document):
    """Log-normal.

    Attributes:
        kind: `lognormal`.
        median_s: median.
        sigma: standard deviation of the logarithm.
    """

    kind: Literal["lognormal"]
    median_s: Seconds
    sigma: Annotated[float, Field(ge=0, le=MAX_SIGMA)]


Times = Annotated[Constant | Uniform | Normal | Exponential | Lognormal, Field(discriminator="kind")]
"""A random number of seconds."""
NO_TIME = Constant()


class LinkConditions(Document):
    """What links do beyond their rate and delay, each direction alike.

    Attributes:
        queue_bytes: bytes that wait at most; what comes then is dropped.
        ecn_bytes: bytes that wait when a packet that joins them is marked; none is where absent.
        loss: chance that a packet is lost; the topology's where absent.
        duplication: chance that it comes twice.
        reordering: chance that it comes up to `jitter_s` late.
        jitter_s: longest that such a packet, or a second copy, is late.
    """

    queue_bytes: PositiveBytes | None = None
    ecn_bytes: Annotated[int, Field(ge=0, lt=1 << 63)] | None = None
    loss: Probability | None = None
    duplication: Probability | None = None
    reordering: Probability | None = None
    jitter_s: Seconds | None = None


class LinkChange(LinkConditions):
    """One link that differs from the others.

    Attributes:
        id: the link's, in the topology.
    """

    id: Name


class SwitchProgram(Document):
    """How switches with little memory sum a job: those that its planner or its plan names, else all that sum.

    Attributes:
        policy: of its switches, one of `crates/switch`; by planner where absent.
        server: the parameter server that completes sums, or, for `pool`, `cache` and `segment`, the switch at the top;
            where planner and plan name none.
        node: the switch that is addressed, for policies that address one; where planner and plan name none.
        slots: fragments that each switch holds of the job; by the planner's memory where absent.
        base: first slot of the job.
        memory_slots: fragments that each switch holds of all jobs; as many as this job needs where absent.
        priority: urgency, for `preempt`.
        timeout_s: how long nothing is heard before the oldest fragment is sent again.
        once: whether contributions are summed once, at the first switch of the planner's tree, and then by the server.
        bypass: workers that no switch sums, as GOAT's evaluation has the late ones of ATP.
    """

    policy: PolicyName | None = None
    server: Name | None = None
    node: Name | None = None
    slots: Annotated[int, Field(gt=0, lt=1 << 32)] | None = None
    base: Annotated[int, Field(ge=0, lt=1 << 32)] = 0
    memory_slots: Annotated[int, Field(gt=0, lt=1 << 32)] | None = None
    priority: Annotated[int, Field(ge=0, le=255)] = 0
    timeout_s: WaitSeconds = 0.01
    once: bool = False
    bypass: list[Name] = Field(default_factory=list)


class PlannerChoices(Document):
    """What a planner is told.

    Attributes:
        seed: of planners that choose at random.
        tries: how often these choose; the best counts.
        time_limit_s: of planners that search.
    """

    seed: Annotated[int, Field(ge=0, lt=1 << 32)] = 0
    tries: Annotated[int, Field(ge=1, le=MAX_TRIES)] = 1
    time_limit_s: WaitSeconds = DEFAULT_TIME_LIMIT_S


class ScenarioJob(Document):
    """Collectives of a group of workers.

    Attributes:
        name: for people; unique.
        plan: file of its plan, beside the scenario; made by `planner` where absent.
        planner: who makes the plan.
        options: what the planner is told.
        model: what planners of switch networks place, by name; `bytes` of one part where absent. Its size and the
            switches' memory are scaled to `bytes` together.
        parts: equal sub-models of it; layers of a model where absent.
        bytes: float32 bytes of each collective's unsharded tensor.
        collective: what workers pass in each round; `pair` is a reduce-scatter and an all-gather at once. The root,
            where there is one, is rank 0.
        copies: whether servers' plan has streams for copies, as `wiresum plan --copies` makes them: all-gathers,
            broadcasts, gathers and scatters want them, and reduce-scatters then bring each worker its own part alone.
        rounds: collectives, one after another.
        blocks: with the collective `fsdp`, which is a step of a model of `bytes` that FSDP2 has sharded: equal parts of
            the model, each sharded by itself.
        overlap: likewise, whether collectives run ahead, as after `overlap(model)` on a CPU. A script without that
            line, where each collective ends before the next thing begins, is the default.
        policy: slot policy of the values.
        codec: `block` or `fixed:<factor>`.
        exponents: `agreed` or `expected`.
        lanes: width and byte order on the wire.
        window: fragments in flight at each worker.
        slots: slots at each node; by policy where absent.
        mtu_bytes: of the largest IP packet.
        jumbo: packets as long as that allows, which only servers sum.
        workers: names in rank order; all of the topology where absent.
        start: when workers begin, after all have joined.
        compute: how long they compute before each collective; of `fsdp`, in each step, a third of it forward.
        starts: workers whose start is another, by name.
        computes: workers whose computing is another, by name.
        program: how switches sum it, with the fidelity `trains`.
        upload_only: a round ends where the roots have the sum, as in XAgg's example; flows only.
    """

    name: Name = "job"
    plan: str | None = None
    planner: Annotated[str, AfterValidator(spelled)] = "direct"
    options: PlannerChoices = PlannerChoices()
    model: str | None = None
    parts: Annotated[int, Field(ge=1, le=MAX_PARTS)] | None = None
    bytes: Annotated[int, Field(ge=4, le=MAX_JOB_BYTES)]
    collective: RoundName = "all_reduce"
    copies: bool = False
    rounds: Rounds = 1
    blocks: Annotated[int, Field(ge=1, le=MAX_BLOCKS)] = DEFAULT_BLOCKS
    overlap: bool = False
    policy: Policy = "pool"
    codec: str = "block"
    exponents: Exponents = "agreed"
    lanes: Lanes = "int32-le"
    window: Slots = DEFAULT_WINDOW
    slots: Slots | None = None
    mtu_bytes: Annotated[int, Field(ge=576, le=65535)] = DEFAULT_MTU_BYTES
    jumbo: bool = False
    workers: list[str] | None = None
    start: Times = NO_TIME
    compute: Times = NO_TIME
    starts: dict[str, Times] = Field(default_factory=dict)
    computes: dict[str, Times] = Field(default_factory=dict)
    program: SwitchProgram | None = None
    upload_only: bool = False

    @model_validator(mode="after")
    def _has_blocks_of_a_step(self) -> Self:
        given = [field for field in ("blocks", "overlap") if field in self.model_fields_set]
        if given and self.collective != FSDP:
            raise ValueError(f"`{given[0]}` is for the collective `{FSDP}`, not for {self.collective}; leave it out")
        return self

    def times(self, workers: Iterable[str]) -> list[dict[str, Any]]:
        """When workers start and how long they compute, as the simulator takes it."""
        return [
            {
                "start": self.starts.get(name, self.start).model_dump(),
                "compute": self.computes.get(name, self.compute).model_dump(),
            }
            for name in workers
        ]


class BackgroundTraffic(Document):
    """Traffic of others, at a constant rate, that heeds nobody.

    Attributes:
        source: name of the node that sends.
        target: name of the node that receives.
        rate_bps: bit/s on the wire.
        packet_bytes: bytes of a packet on the wire.
        from_s: when it begins.
        until_s: when it ends.
    """

    source: Name
    target: Name
    rate_bps: BitsPerSecond
    packet_bytes: Annotated[int, Field(ge=64, le=65535)] = 1514
    from_s: Seconds = 0.0
    until_s: WaitSeconds


class Failure(Document):
    """Something breaks; exactly one of `link`, `node` and `between`.

    Attributes:
        link: id of a link; with `circuits`, of a fibre, whose port is stuck.
        between: two units, with `circuits`: circuits between them that are ordered meanwhile get no light.
        node: name of a node: what runs there stops, and has forgotten everything when it is back.
        at_s: when.
        until_s: when it is back; never where absent.
    """

    link: Name | None = None
    node: Name | None = None
    between: Annotated[list[Name], Field(min_length=2, max_length=2)] | None = None
    at_s: Seconds
    until_s: Seconds | None = None


class Circuits(Document):
    """Jobs of a workload over the optical circuits of the topology, instead of `job`.

    A timetable is followed or a scheduler is asked slot by slot. In packets and trains jobs have the plans and gates of
    live turns.

    Attributes:
        workload: file of the jobs, beside the scenario.
        timetable: file of a timetable that is followed, beside the scenario; the scheduler is asked where absent.
        announced: whether gates wait for light, in packets and trains; otherwise what meets darkness is sent again.
        shifts: whether jobs of a timetable that compute may begin later, so that they send while others compute, in
            packets and trains.
        scheduler: who is asked at each slot, with what is known then; `wiresum schedule` has the names.
        slot_s: time after which circuits may change.
        slots: whether they change with slots only; `events` needs false, and in packets and trains a timetable.
        trees: whether switches of several units may sum a job together; in packets and trains of a timetable alone.
        before: circuits that are lit at the start: `even` over all units, or `none`.
        paper: count rates as P4INC-AOI does.
        batch: whether all jobs are there at the start.
        sums: whether switches may sum.
        step_bps: step of a worker's rate, in `window`.
        blocking: in `fcfs`, whether nobody overtakes a job that cannot begin.
        keep_circuits: in `fcfs`, whether circuits of jobs that are complete stay lit.
    """

    workload: str
    timetable: str | None = None
    announced: bool = True
    shifts: bool = True
    scheduler: str = "turns"
    slot_s: WaitSeconds = 1.0
    slots: bool = True
    trees: bool = False
    before: Literal["even", "none"] = "none"
    paper: bool = False
    batch: bool = False
    sums: bool = True
    step_bps: BitsPerSecond = 10e9
    blocking: bool = False
    keep_circuits: bool = True


class RowsJob(Document):
    """A sparse job, instead of `job`: rows of a trace that workers push and pull, round by round.

    Attributes:
        name: for people.
        plan: file of a plan with tables, beside the scenario; made by `planner` where absent.
        planner: who decides where rows are summed: `tiers`, `zebra`, or `none` for servers alone.
        trace: which rows are touched, as `criteo:scale=0.1,batch=512`; the plan's where absent, or Zipf over `tables`.
        tables: file with tables, beside the scenario; those of the trace where absent.
        servers: how many of the topology's servers keep tables; all where absent.
        beside: whether shards are beside workers, not at servers.
        replicated: rows of tier A, the most popular ones; as many as the planner says where absent.
        summed: rows of tier B, the next ones; as many as the planner says where absent.
        dense_bytes: float32 bytes of a dense gradient that is summed beside the rows of each round.
        rounds: that are played.
    """

    name: Name = "rows"
    plan: str | None = None
    planner: Literal["tiers", "zebra", "none"] = "tiers"
    trace: str | None = None
    tables: str | None = None
    servers: PositiveCount | None = None
    beside: bool = False
    replicated: Count | None = None
    summed: Count | None = None
    dense_bytes: Annotated[int, Field(ge=0, le=MAX_JOB_BYTES)] = 0
    rounds: Rounds = 4


class Scenario(FileDocument):
    """A simulation.

    Attributes:
        format: `wiresum-scenario/1`.
        topology: a generator with its options, as `star:workers=8,rate=1gbit`, or a file beside the scenario.
        fidelity: `packets`: every datagram, by the state machines that run live; `trains`: packets of switch programs,
            several in one event; `flows`: rates only.
        train: packets of a train at most.
        seed: of every random choice.
        patience_s: virtual seconds that a round may take.
        check_sums: compare every value of every result with the exact sum; packets only.
        links: what all links do.
        link: links that differ.
        job: what is trained; not with `circuits` or `rows`.
        circuits: jobs of a workload over optical circuits.
        rows: a sparse job.
        background: what else is on the links.
        failure: what breaks.
        hosts: file of a profile of hosts beside the scenario, as `wiresum bench line --profile` writes it: no worker is
            faster than its threads. With jobs that servers sum.
    """

    error: ClassVar[type[WiresumError]] = ScenarioError
    what: ClassVar[str] = "scenario"
    command: ClassVar[str] = "simulate"

    format: Literal["wiresum-scenario/1"]
    topology: str
    fidelity: Fidelity = "packets"
    train: Annotated[int, Field(ge=1, le=64)] = 64
    seed: Annotated[int, Field(ge=0, lt=1 << 64)] = 1
    patience_s: WaitSeconds = DEFAULT_PATIENCE_S
    check_sums: bool = False
    links: LinkConditions = LinkConditions()
    link: list[LinkChange] = Field(default_factory=list)
    job: list[ScenarioJob] = Field(default_factory=list)
    circuits: Circuits | None = None
    rows: RowsJob | None = None
    background: list[BackgroundTraffic] = Field(default_factory=list)
    failure: list[Failure] = Field(default_factory=list)
    hosts: str | None = None

    @model_validator(mode="after")
    def _has_jobs(self) -> Self:
        if bool(self.job) + (self.circuits is not None) + (self.rows is not None) != 1:
            raise ValueError(
                "a scenario has tables `job`, `circuits` with the jobs of a workload, or `rows`; give one of them"
            )
        if self.circuits is not None and self.fidelity != "flows":
            self._has_plans(self.circuits)
        if self.circuits is not None and self.background:
            raise ValueError("circuits know no traffic of others; leave `background` out")
        if self.rows is not None:
            self._is_simple()
        if self.hosts is not None and (not self.job or self.fidelity == "trains"):
            raise ValueError("`hosts` is for a `job` that servers sum, as packets or flows; leave it out")
        return self

    def _has_plans(self, circuits: Circuits) -> None:
        """What plans of jobs over circuits cannot say.

        Raises:
            ValueError: it is said.
        """
        said = {"paper": circuits.paper, "before": circuits.before != "none"}
        for field in (name for name, is_said in said.items() if is_said):
            raise ValueError(f"circuits: `{field}` is for flows; leave it out, or set `fidelity` to flows")
        if circuits.trees and circuits.timetable is None:
            problem = "`trees` is for flows, and for packets and trains that follow a timetable"
            raise ValueError(f"circuits: {problem}; leave it out, or set `fidelity` to flows")
        if not circuits.slots and circuits.timetable is None:
            raise ValueError("circuits: without `slots` a timetable is followed; name it, or set `fidelity` to flows")

    def _is_simple(self) -> None:
        """What a sparse job cannot have yet.

        Raises:
            ValueError: it has it.
        """
        if self.fidelity == "trains":
            raise ValueError("rows are simulated as packets or flows; set `fidelity` to one of them")
        for field in ("background", "failure"):
            if getattr(self, field):
                raise ValueError(f"rows are simulated without `{field}`; leave it out")
