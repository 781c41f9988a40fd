"""The native part of Wiresum: the worker's engine and the plan's validator."""

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Literal, Self, final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer, CapsuleType

__version__: str

def validate_plan(json: str) -> tuple[str, str] | None:
    """Check every field of a plan.

    Returns:
        The first wrong field and what is wrong with it, or nothing. The field is empty if the text is no plan at all.
    """

def plan_digest(json: str) -> int:
    """Return a 64-bit fingerprint of all that a plan's participants must agree on (addresses and names left out).

    Raises:
        wiresum.errors.PlanError: Names the field and the remedy.
    """

def group_of_plan(json: str, number: int) -> str:
    """The plan of a group of another plan's workers, by its number from 1, as JSON.

    Raises:
        wiresum.errors.PlanError: There is no such group.
    """

def node_keys(json: str, node: int) -> str | None:
    """The key file of a node; nothing where the plan has no secret, or no such node."""

def gate_key(secret: str, rank: int) -> bytes | None:
    """The key of the line between a rank and its driver; nothing where the secret is not 64 hexadecimal digits."""

def codec_agrees(codec: str) -> bool:
    """Whether ranks agree on exponents before values flow; false where there is no such codec."""

def validate_schedule(json: str) -> tuple[str, str] | None:
    """The first wrong field of a schedule, and what is wrong with it; the field is empty if it has another shape."""

def convert_plan(json: str) -> str:
    """A plan of any format that can be read, as JSON in the present format.

    Raises:
        wiresum.errors.PlanError: it breaks a rule, or says what the present format cannot.
    """

def derive_plan(json: str) -> str:
    """Return what follows from a plan's fabric, as the JSON of `wiresum.plan.fabric.Derived`.

    Raises:
        wiresum.errors.PlanError: Names the field and the remedy.
    """

def sparse_layout(map_json: str, pushes: list[list[int]], registers: int, pairs: int, seed: int) -> str:
    """Count what each layout of hot rows in a switch's registers, and each packaging of pushes, costs.

    Args:
        map_json: A hot map.
        pushes: For each push its distinct positions, in the order in which the worker meets them.
        registers: Registers of the switch.
        pairs: Most pairs of a packet.
        seed: Seed that shuffles the random layout.

    Returns:
        A JSON list with one object for each layout and packaging; `wiresum_sparse::layout::Comparison` has its fields.

    Raises:
        wiresum.errors.PlanError: The map, a position or a number is wrong; the message names it.
    """

def keyed_report(hot: int, registers: int, pairs: int, workers: int, packets: int) -> str:
    """Say what Zebra's switch program takes of a Tofino 1, and what 16-bit floats would take beside it.

    Args:
        hot: Hot keys.
        registers: Register arrays for sums.
        pairs: Most pairs of a packet.
        workers: Workers, 32 at most.
        packets: Most packets of a worker in an iteration.

    Returns:
        A JSON object; `wiresum_sparse::keyed::KeyedReport` has its fields.

    Raises:
        wiresum.errors.PlanError: The switch has no room, or a number is wrong; the message names it.
    """

@final
class SparseEngine:
    """A worker of a sparse job; packets travel while a method waits. `wiresum.sparse.client` is made for people."""

    def __new__(cls, job_json: str, rank: int, incarnation: int, address: str | None, timeout_s: float) -> Self:
        """Join a job, as `wiresum.sparse.client.SparseClient.connect` says.

        Raises:
            wiresum.errors.SparseError: The job or the rank cannot be, or a server is silent or refuses.
        """

    @property
    def tables(self) -> dict[str, tuple[int, int]]:
        """Number and values of a row, by name of the table."""

    @property
    def stored(self) -> dict[str, int]:
        """Numbers that are stored of a row, weights and the optimizer's state, by name of the table."""

    @property
    def version(self) -> int:
        """Rounds that are over."""

    def pull(self, table: int, keys: NDArray[np.uint64], weights: NDArray[np.float32]) -> None:
        """Fill float32 `weights` [n, dim] with the rows of the uint64 `keys`, as they are after the last round."""

    def push(self, table: int, keys: NDArray[np.uint64], grads: NDArray[np.float32]) -> None:
        """Add float32 `grads` [n, dim] for the uint64 `keys` to what this rank gives to the round."""

    def pull_stored(self, table: int, keys: NDArray[np.uint64], values: NDArray[np.float32]) -> None:
        """Fill float32 `values` [n, stored] with all that is stored of the rows of the uint64 `keys`."""

    def put(self, table: int, keys: NDArray[np.uint64], values: NDArray[np.float32]) -> None:
        """Have the rows of the uint64 `keys` be the float32 `values` [n, stored] after the round."""

    def finish_round(self) -> int:
        """End the round and wait until it is over for all ranks; its number."""

    def ask(self, table: int, keys: NDArray[np.uint64]) -> SparseSubmitted:
        """Ask for the rows of the uint64 `keys` as they will be after the last round that was ended."""

    def end_round(self) -> SparseSubmitted:
        """End the round, and do not wait until it is over for all ranks."""

    def statistics(self) -> dict[str, Any]:
        """Counts since joining, by name."""

    def close(self) -> None:
        """Leave; may be called twice."""

@final
class SparseSubmitted:
    """Rows that a `SparseEngine` was asked for, or a round that it was told to end."""

    @property
    def done(self) -> bool:
        """Whether `wait` returns at once."""

    def wait(self, weights: NDArray[np.float32] | None) -> None:
        """Wait until it is done, and fill float32 `weights` [n, dim] with rows that were asked for."""

def hot_map_digest(map_json: str) -> int:
    """Return the 64-bit fingerprint of a hot map.

    Raises:
        wiresum.errors.PlanError: The map is wrong.
    """

def optimizer_state_len(optimizer_json: str, dim: int) -> int:
    """Return how many float32 numbers an optimizer keeps for a row of `dim` values.

    Raises:
        wiresum.errors.PlanError: There is no such optimizer.
    """

def row_packet(kind: int, dim: int, packet_bytes: int, is_narrow: bool = False) -> tuple[int, int]:
    """Return how many rows of `dim` values the fullest packet of a kind has, and how long it is.

    Args:
        kind: Of the packet, one of `wiresum.wire.RowKind`.
        dim: Values of a row.
        packet_bytes: Largest datagram, without the headers of UDP and IP.
        is_narrow: Whether values have 16 bits, where the kind may have them.

    Raises:
        wiresum.errors.SparseError: No row fits.
    """

def whole_optimizer(optimizer_json: str) -> str:
    """Return an optimizer, as JSON, with all its hyperparameters: those that are left out are the usual ones.

    Raises:
        wiresum.errors.PlanError: There is no such optimizer, or not with these hyperparameters.
    """

def schedule(instance: str, scheduler: str, options: str) -> str:
    """Schedule jobs over optical circuits. Python's lock is released meanwhile.

    Args:
        instance: Units, circuits before and jobs; spec/schedule.md has the fields.
        scheduler: One of `schedulers()`.
        options: A JSON object; `wiresum_schedule::Options` has the fields, all of which have defaults.

    Returns:
        The timetable, judged and priced, as the JSON of `wiresum.schedule.Timetable`.

    Raises:
        wiresum.errors.ScheduleError: The instance is wrong, or a job cannot be served; the message names both.
    """

def validate_timetable(instance: str, intervals: str) -> str:
    """Judge the intervals of a timetable, whoever made them.

    Returns:
        What they cost, as the JSON of `wiresum.schedule.Cost`.

    Raises:
        wiresum.errors.ScheduleError: Names the first rule that is broken, when and by whom.
    """

def schedulers() -> list[tuple[str, str]]:
    """Return name and summary of every scheduler."""

class OnlineScheduler:
    """A scheduler that is asked slot by slot, with what is known then."""

    def __init__(self, instance: str, scheduler: str, options: str) -> None:
        """Begin before the first slot; arguments as for `schedule`."""

    def next(self, sight: str) -> str:
        """Decide the next slot.

        Args:
            sight: `left`, bytes by job; `circuits` that are lit; `ports` that work; `wiresum_schedule::Sight` has them.

        Returns:
            The slot as the JSON of `wiresum.schedule.model.Interval`.

        Raises:
            ScheduleError: There is no such scheduler, or a job is never served.
        """

def schedule_refuses(instance: str, by_s: float, sums: bool = True) -> bool:
    """Whether it is proven that no schedule completes all jobs of an instance (JSON) by a time, in seconds.

    Raises:
        ScheduleError: the instance is wrong.
    """

def schedule_bound(instance: str, sums: bool = True) -> float:
    """Return a time before which no schedule completes all jobs, in seconds.

    Raises:
        wiresum.errors.ScheduleError: The instance is wrong.
    """

def schedule_problem(instance: str, sums: bool = True) -> str:
    """Return an instance in numbers, as JSON; `wiresum_schedule::problem::Problem` has the fields.

    Raises:
        wiresum.errors.ScheduleError: The instance is wrong.
    """

def schedule_relaxation(instance: str, completion_s: float, sums: bool = True) -> str:
    """Return what any schedule needs that completes all jobs by a time: a programme in whole numbers, as JSON.

    `wiresum_schedule::bound::Relaxation` has the fields.

    Raises:
        wiresum.errors.ScheduleError: The instance is wrong.
    """

def schedule_times(instance: str, from_s: float, until_s: float, sums: bool = True) -> list[float]:
    """Return the times from one to another, both included, at which all jobs can be complete, in seconds.

    Raises:
        wiresum.errors.ScheduleError: The instance is wrong.
    """

def simulate(scenario_json: str, report: Callable[[str], object]) -> None:
    """Simulate a resolved scenario. Python's lock is released meanwhile.

    Args:
        scenario_json: What `wiresum.sim.resolve` makes of a scenario.
        report: Takes each record as it comes, one line of JSON; what it raises ends the run.

    Raises:
        wiresum.errors.PlanError: A plan is wrong.
        wiresum.errors.SimulationError: No progress, or something that the fidelity does not know.
    """

def predict_flows(
    capacities_bps: Sequence[float],
    flows: Sequence[tuple[Sequence[tuple[int, int]], float, float, Sequence[int]]],
) -> tuple[list[list[tuple[float, float, float]]], list[int]]:
    """Share capacities max-min fairly among flows, from one event to the next, as the simulator's flows do.

    Args:
        capacities_bps: Rate of each capacity.
        flows: Of each flow the capacities that it crosses, each once and how often, its bytes on the wire, the seconds
            at which it may start, and the numbers of the flows that bring what it sends on.

    Returns:
        Of each flow the spans in which it was not idle, as begin, end and bit/s, in order; and the flows that wait for
        each other for ever.

    Raises:
        wiresum.errors.SimulationError: The simulator broke its own rules.
    """

def codec_exponents(values: bytes, element: str, fragment: int, format: tuple[str, str, int]) -> list[int]:
    """What a worker proposes as the exponent of each fragment, by `crates/codec`.

    Args:
        values: Little-endian elements.
        element: `float32`, `float16` or `bfloat16`.
        fragment: Elements of a fragment; the last one may have fewer.
        format: Codec (`block`, `fixed:<factor>`), lanes (such as `int32-le`), workers.

    Returns:
        One exponent a fragment; 2^31 − 1 where a value is not finite, or does not fit a fixed factor.

    Raises:
        ValueError: An argument names nothing.
    """

def codec_encode(
    values: bytes, element: str, exponents: list[int], fragment: int, format: tuple[str, str, int]
) -> tuple[bytes, list[int]]:
    """Lanes of all fragments, padded to whole ones, and the sum of each fragment's lanes; see `codec_exponents`."""

def codec_decode(
    lanes: bytes,
    element: str,
    exponents: list[int],
    elements: int,
    format: tuple[str, str, int],
    average: bool = False,
) -> bytes:
    """The values that summed lanes stand for; see `codec_exponents`."""

def bench_codec(runs: int = 7) -> list[dict[str, Any]]:
    """Measure the codec on one core, in and out of cache, beside copying memory and a first draft's loop.

    Args:
        runs: Measurements of each loop.

    Returns:
        One row for each loop: `name` for people; `step` (`exponent`, `encode`, `decode`, or a rival: `memcpy`,
        `naive encode`, `naive decode`), `element`, `lanes`, `instructions`, `working_set_bytes`; `unit`, which is
        GB/s of elements; `runs`, the measurements in ascending order.

    Raises:
        ValueError: There are no runs.
    """

def bench_seal(values: list[int], runs: int = 7) -> list[dict[str, Any]]:
    """Measure what sealing a packet costs a rank on one core.

    Args:
        values: int32 values in a packet, multiples of 8 up to 728; twice as many of 16 bits.
        runs: Measurements of each step, which take turns.

    Returns:
        One row for each step: `name` for people; `step` (`seal`, `open`, or what a rank does anyway: `encode`),
        `lanes`, `values`; `unit`, which is ns for each packet; `runs`, ascending.

    Raises:
        ValueError: There are no runs, or values do not fit a packet.
    """

def bench_proofs(values: list[int], runs: int = 7) -> list[dict[str, Any]]:
    """Measure what proofs of values cost the XDP program, and what other codes would, in the kernel's test-run.

    Args:
        values: int32 values in a packet, multiples of 8 up to 736.
        runs: Measurements of each step, which take turns.

    Returns:
        One row for each step: `name` for people; `step` (`open` and `proven`, with the making of such packets alone;
        codes over one packet, AES where the kernel has a cipher of its own, and an `empty` program), `values`;
        `unit`, which is ns for each packet; `runs`, in order.

    Raises:
        ValueError: There are no runs, or values do not fit a packet.
        wiresum.errors.SupportError: The program cannot be loaded here; the message has the remedy.
    """

def bench_aggregator(runs: int = 7) -> list[dict[str, Any]]:
    """Measure what one packet costs an aggregator.

    Args:
        runs: Measurements of each case.

    Returns:
        One row for each case: `name` for people; `engine` (`udp`: CPU time of the user-space daemon over loopback, for
        each datagram received, its system calls and the sending of results included), `values` in a packet,
        `working_set` in bytes of slots (0: those of a window), `children`; `unit`, which is ns; `runs`, ascending.

    Raises:
        ValueError: There are no runs.
        RuntimeError: The job over loopback failed.
    """

def bench_xdp(runs: int = 7) -> list[dict[str, Any]]:
    """Measure what one packet costs the XDP aggregator in the kernel's test-run, beside its rivals in user space.

    Args:
        runs: Measurements of each case.

    Returns:
        Rows as of `bench_aggregator`. `engine` is `xdp`; `feed` and `empty`, its parts that are the making of packets
        and the test-run itself; `protocol`, the reference in user space without a socket; `memory`, a plain addition.
        `working_set` 0 is one slot.

    Raises:
        ValueError: There are no runs.
        wiresum.errors.SupportError: The program cannot be loaded here; the message has the remedy.
    """

def bench_switch(runs: int = 7) -> list[dict[str, Any]]:
    """Measure what one contribution costs the kernel's switch under each slot policy, in the kernel's test-run.

    Args:
        runs: Measurements of each case.

    Returns:
        One row for each case: `name` for people; `policy`, among them `feed`, the making of packets, which is part of
        every policy's figure, and `aggregator`, the program of aggregation servers; `values` in a packet, `workers`;
        `unit`, which is ns; `runs`, in order.

    Raises:
        ValueError: There are no runs.
        wiresum.errors.SupportError: The program cannot be loaded here; the message has the remedy.
    """

def bench_sparse_worker(
    job_json: str, rank: int, incarnation: int, touched: list[list[list[int]]]
) -> tuple[list[float], dict[str, float]]:
    """Play a worker of a sparse job through rounds, and pull the rows of the last one.

    Args:
        job_json: The job's file.
        rank: The worker's.
        incarnation: Of the job.
        touched: For each round and table the distinct rows that the worker pushes, and pulls before.

    Returns:
        Seconds of each round but the last; what was sent, by name, with `cpu_seconds`, the processor time of this
        process in all rounds.

    Raises:
        wiresum.errors.SparseError: The job cannot be, or a round does not end.
    """

def bench_push_pull_worker(job_json: str, touched: list[list[list[int]]]) -> list[float]:
    """As `bench_sparse_worker`, with the rival: servers without sums, over TCP."""

def bench_pairs_worker(job_json: str, rank: int, incarnation: int, pushed: list[list[int]]) -> list[float]:
    """Play a worker of a job of pairs, which pushes 1 for each of its keys, and return the seconds of each iteration.

    Args:
        job_json: The job's file.
        rank: The worker's.
        incarnation: Of the job.
        pushed: For each iteration the distinct keys that the worker pushes.

    Raises:
        SparseError: An iteration did not end; the message says who is silent.
    """

def bench_push_pull_server(job_json: str, shard: int) -> None:
    """Serve a shard of the rival, until all workers have left."""

def bench_rows(runs: int = 7) -> list[dict[str, Any]]:
    """Measure what one hot row costs the kernel's switch, in the kernel's test-run, beside the engine in user space.

    Args:
        runs: Measurements of each case.

    Returns:
        One row for each case: `name` for people; `engine`: `xdp`, `user space`, `feed`, the making of packets, which is
        part of the figure for `xdp`, and `acknowledgement`; `lanes`, `spacing` of positions, `rows_of_a_round`,
        `rows_of_a_packet`, `values` of a row, `workers`; `unit`, which is ns; `runs`, in order.

    Raises:
        ValueError: There are no runs.
        wiresum.errors.SupportError: The program cannot be loaded here; the message has the remedy.
    """

def bench_packaging(runs: int = 7) -> list[dict[str, Any]]:
    """Measure how many pairs a second each way of packing puts into packets for a switch with registers.

    Args:
        runs: Measurements of each case.

    Returns:
        One row for each case: `name` for people; `layout`: `heat` or `random`; `packaging`, as in `wiresum sparse
        layout`; `recirculations` of a mean packet; `packets`, over the fewest that hold all pairs; `unit`, which is
        pairs/s; `runs`, in order.

    Raises:
        ValueError: There are no runs.
    """

def bench_tables(runs: int = 7, rows: int = 10_000_000) -> list[dict[str, Any]]:
    """Measure how many rows a second one core of a server of tables sums, changes and looks up.

    Args:
        runs: Measurements of each case.
        rows: Rows of the table, each of which has been changed before.

    Returns:
        One row for each case: `name` for people; `step`: `sum`, `apply` or `look up`; `ids`: `range` or `hashed`;
        `memory`, over that of rows and their state; `unit`, which is rows/s; `runs`, in order.

    Raises:
        ValueError: There are no runs, or no rows.
    """

def bench_tracking(rounds: int = 120, runs: int = 3) -> list[dict[str, Any]]:
    """Measure what the hot set gets of what the most popular rows get, while popularity drifts.

    Args:
        rounds: Rounds of a run; the first 20 do not count.
        runs: Runs of each case, with seeds from 1 on.

    Returns:
        One row for each case: `name` for people; `drift`: `even` or `logarithmic`; `replaced`, the share of the top
        ranks that get fresh rows in a round; `way`, how the set is found; `exchanged_in_ten_rounds`, the share of the
        set, by run; `unit`; `runs`, the share that the set gets over that of the truly most popular rows, in order.

    Raises:
        ValueError: There are too few rounds, or no runs.
    """

def bench_worker(
    workers: int, elements: int, values: int, window: int, keeps: bool, runs: int = 7
) -> tuple[list[float], list[float]]:
    """Measure an all-reduce of float32 elements whose packets are handed over in memory: no network, one thread.

    Args:
        workers: Ranks of the star, 2 at least.
        elements: Of a rank's tensor.
        values: Elements in a packet.
        window: Packets of a rank under way at once.
        keeps: Whether values are kept aside while results replace them.
        runs: Measurements.

    Returns:
        Seconds of one worker, in the mean of all, and of the aggregator, by run.

    Raises:
        ValueError: There are no runs.
    """

def bench_scaling(runs: int = 7) -> list[dict[str, Any]]:
    """Measure how many packets the XDP aggregator sums in the kernel's test-run on one CPU, and on all at once.

    Args:
        runs: Measurements of each case.

    Returns:
        One row for each case: `name` for people; `placement` (`apart`: a program with memory of its own on each CPU,
        the most that they can do; `own`: each position on one CPU; `shared`: each child on one CPU, so every position
        on all), `values` in a packet, `batch`: positions that one child sends in a row; `cpus` at once; `unit`, which
        is packets/s, of all CPUs together; `runs`, in order.

    Raises:
        ValueError: There are no runs.
        wiresum.errors.SupportError: The program cannot be loaded here; the message has the remedy.
    """

def bench_load(plan_json: str, window: int, rate: float | None, seconds: float) -> dict[str, Any]:
    """Join as every child of a plan's node 0 and send contributions, in one thread.

    Args:
        plan_json: A plan in which all workers are children of node 0, which is running; this host has their addresses.
        window: Positions in flight, if there is no rate.
        rate: Contributions per second of all children, whether or not results come; None: as the window allows.
        seconds: How long.

    Returns:
        `contributions` sent, `results` received (without loss as many), `seconds` of sending, and `round_trips_us`,
        from the last contribution to its result.

    Raises:
        wiresum.errors.PlanError: The plan is wrong.
        ValueError: The time makes no sense.
        RuntimeError: The aggregator did not answer, or the network failed.
    """

@final
class Engine:
    """A worker that has joined its job: a socket and a thread of its own. Its methods may be called from any thread."""

    def __new__(
        cls,
        plan_json: str,
        rank: int,
        incarnation: int,
        timeout_s: float = 30.0,
        shut_for_s: float | None = None,
        transport: str = "auto",
        dead_after_s: float = 0.0,
        gone_after_s: float = 0.0,
        absent: list[int] = ...,
        outlives_workers: bool = False,
        members: Sequence[int] | None = None,
    ) -> Self:
        """Join the plan's job and wait until every parent has welcomed this worker.

        Args:
            plan_json: The plan, the same on every rank.
            rank: This worker's rank in the plan.
            incarnation: A number that all ranks share and that grows from one start of the job to the next, such as
                the microseconds since the epoch at which rank 0 started.
            timeout_s: How long to wait, in seconds.
            shut_for_s: Begin with a shut gate, which opens by itself after so many seconds, and do not wait: the worker
                joins when the gate opens, and if it cannot, its collectives fail.
            transport: `auto`, `udp` or `af_xdp`: what packets travel by, where plan and host leave a choice.
            dead_after_s: Send heartbeats to aggregators, which take this worker for dead after so many seconds without
                one, 0.5 at least; 0 for none, and no gate may be shut meanwhile.
            gone_after_s: Say of an aggregator that has been silent for so many seconds while a collective waits for it
                that it is gone; 0 for never.
            absent: Ranks that this incarnation goes on without, as all others say, too; below 256.
            outlives_workers: A worker that is lost ends no collective, and `lost` names it.
            members: Seats in the plan of those who join, in order of their ranks, this one's among them; `rank` is
                then this worker's seat. Absent: all workers, each with the rank of its seat.

        Raises:
            wiresum.errors.PlanError: The plan is wrong, or has no such rank.
            wiresum.errors.JoinError: Nobody answered in time, a node refused, or the address is not this host's.
        """

    def all_reduce(self, array: Buffer, op: Literal["sum", "avg"] = "sum", timeout_s: float = 1800.0) -> None:
        """Replace the array's elements by their sum or average over all ranks, bit for bit the same on each.

        All ranks pass arrays of equal size and type, in the same order of calls. Python's lock is released meanwhile.

        Args:
            array: Writable contiguous array of float32 or float16, with at least one element.
            op: `sum` or `avg`.
            timeout_s: How long to wait, in seconds.

        Raises:
            wiresum.errors.NotFiniteError: A value is Inf or NaN on some rank; the array is untouched on all.
            wiresum.errors.MismatchError: Ranks passed different arrays.
            wiresum.errors.CollectiveTimeoutError: Names who did not deliver.
            wiresum.errors.WorkerLostError: Names the rank from which nothing is heard any more.
            wiresum.errors.ClosedError: The engine was closed.
            wiresum.errors.CollectiveError: Anything else.
            TypeError: The elements are neither float32 nor float16.
            ValueError: The array is read-only, not contiguous or empty; or another argument makes no sense.
        """

    @property
    def transport(self) -> str:
        """What packets travel by, and why, for people."""

    def abi(self) -> CapsuleType:
        """Return the C interface of `engine_abi.h` as a capsule, which keeps the engine alive."""

    def shut(self, period_s: float) -> None:
        """Send nothing for so many seconds, or until `open`; what is on its way arrives."""

    def open(self, rate_bps: int | None = None) -> None:
        """Send again, at this rate in bit/s on the cable, or as fast as windows allow."""

    def stop(self, why: str, elsewhere: bool = False) -> None:
        """End the job: open collectives and later ones fail, for this reason.

        Args:
            why: What the errors say.
            elsewhere: Whether every rank is told alike that others than the network have to sum. Then they raise
                `wiresum.errors.NotServedError`, with buffers untouched if this rank has sent nothing yet.
        """

    def gone(self) -> str | None:
        """What collectives wait for in vain: an aggregator that is gone, in words; None while there is none."""

    def lost(self) -> tuple[int, str] | None:
        """The rank of another worker that is lost, and what has become of it; None while there is none.

        Collectives end with that, unless the engine outlives workers: then those that are open wait in vain.
        """

    def await_children(self, k: int) -> None:
        """From now on take at least `k` of the children of this worker's node into each sum, at most all of them.

        Nothing happens where the plan lets no round go on without late workers.
        """

    def statistics(self) -> dict[str, int | float]:
        """Return counters since the engine joined: collectives by outcome, datagrams, bytes, seconds."""

    def close(self) -> None:
        """Leave the job and end the thread; open collectives fail. Harmless when repeated."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None:
        """Close the engine."""
