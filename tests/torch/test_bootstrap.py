"""What ranks decide from what they bring along, and that all of them decide alike."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from torch.distributed import HashStore

from wiresum import errors
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.assignment.wiring import as_switched_plan
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import assign, plan
from wiresum.topology.generators.goat import goat
from wiresum.topology.generators.star import star
from wiresum.torch import bootstrap
from wiresum.torch.bootstrap import Meeting, configured_plan
from wiresum.torch.connection import Claim
from wiresum.torch.decisions import Decision, Offer, decide, decide_after_join
from wiresum.torch.settings import Settings

SIZE = 3
PLANNED = Offer(digest="d", workers=SIZE, min_elements=1, incarnation=5)
UNPLANNED = Offer(min_elements=1)
SECRET = "0123456789abcdef" * 4


def alike(offer: Offer, **changes_on_rank_1: Any) -> list[Offer]:
    return [offer, replace(offer, **changes_on_rank_1), offer]


@pytest.mark.parametrize(
    ("offers", "why_not"),
    [
        (alike(PLANNED), ""),
        (alike(UNPLANNED), "neither WIRESUM_PLAN nor WIRESUM_AGGREGATOR"),
        (alike(PLANNED)[:2], "for 3 workers, and the group has 2 ranks"),
        ([replace(PLANNED, taken_by="group '0'"), PLANNED, PLANNED], "in use by group '0'"),
        (alike(PLANNED, taken_by="what rank 1 sees does not count"), ""),
    ],
)
def test_ranks_join_or_say_why_not(offers: list[Offer], why_not: str) -> None:
    decision = decide(offers, is_default_group=True)
    assert decision.error is None
    assert decision.network == (not why_not)
    assert why_not in decision.why_not


@pytest.mark.parametrize(
    ("offers", "kind", "words"),
    [
        (alike(PLANNED, error="no such file", error_kind="PlanError"), errors.PlanError, "rank 1: no such file"),
        (alike(PLANNED, error="?", error_kind="NoSuchClass"), errors.WiresumError, "rank 1"),
        (alike(PLANNED, digest=""), errors.PlanError, "rank 1 have no plan"),
        (alike(PLANNED, digest="e"), errors.PlanError, "d on ranks 0, 2, e on rank 1"),
        (alike(PLANNED, min_elements=2), errors.SettingError, "1 on ranks 0, 2, 2 on rank 1"),
        (alike(UNPLANNED, require=True), errors.PlanError, "WIRESUM_REQUIRE is set on rank 1"),
        (alike(PLANNED, require=True)[:2], errors.PlanError, "WIRESUM_REQUIRE is set on rank 1"),
        (alike(UNPLANNED, refused="no port"), errors.NoTurnError, "no port. Set WIRESUM_FALLBACK=gloo"),
    ],
)
def test_what_cannot_be_names_the_ranks(offers: list[Offer], kind: type[Exception], words: str) -> None:
    decision = decide(offers, is_default_group=True)
    assert type(decision.error) is kind
    assert words in str(decision.error)


def test_a_subgroup_need_not_have_the_network() -> None:
    assert decide(alike(PLANNED, require=True)[:2], is_default_group=False).error is None


def test_after_joining() -> None:
    assert decide_after_join({}, alike(PLANNED)) == Decision(network=True)
    failed = decide_after_join({1: "refused", 2: "silent"}, alike(PLANNED))
    assert isinstance(failed.error, errors.JoinError)
    assert "rank 1: refused; rank 2: silent" in str(failed.error)
    willing = [replace(offer, fall_back=True) for offer in alike(PLANNED)]
    assert "rank 1: refused" in decide_after_join({1: "refused"}, willing).why_not
    assert decide_after_join({1: "refused"}, [*willing[:2], PLANNED]).error is not None
    assert decide_after_join({1: "refused"}, [*willing[:2], replace(willing[2], require=True)]).error is not None


def test_a_job_without_a_turn_trains_without_the_network_where_all_ranks_accept_it() -> None:
    refused = [replace(offer, refused="no port", fall_back=True) for offer in alike(UNPLANNED)]
    assert decide(refused, is_default_group=True) == Decision(why_not="no port")
    for unwilling in (replace(refused[2], fall_back=False), replace(refused[2], require=True)):
        assert isinstance(decide([*refused[:2], unwilling], is_default_group=True).error, errors.NoTurnError)


@pytest.mark.parametrize(("opened", "agreed"), [((), True), ((1,), False), ((0, 1, 2), False)])
def test_ranks_that_have_lost_their_driver_leave_the_network_together_or_not_at_all(
    opened: tuple[int, ...], agreed: bool
) -> None:
    store = HashStore()
    meetings = [Meeting(store, rank, SIZE, Settings(), timedelta(seconds=20)) for rank in range(SIZE)]
    with ThreadPoolExecutor(SIZE) as threads:
        asked = [threads.submit(meeting.no_gate_was_open, meeting.rank in opened) for meeting in meetings]
        assert [one.result() for one in asked] == [agreed] * SIZE


def test_a_rank_that_hears_nothing_of_another_one_does_not_leave_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "AGREE_S", 0.5)
    assert not Meeting(HashStore(), 0, 2, Settings(), timedelta(seconds=20)).no_gate_was_open(was_open=False)


def test_one_aggregator_is_a_star_without_worker_addresses() -> None:
    settings = Settings(aggregator="192.0.2.7:5747", secret=SECRET, lanes="int16-le", window=32, values_per_packet=352)
    made = configured_plan(settings, 4)
    assert made is not None
    assert [node.address for node in made.nodes] == ["192.0.2.7:5747"]
    assert [worker.address for worker in made.workers] == [None] * 4
    assert (made.job.lanes, made.job.values_per_packet, made.job.secret) == ("int16-le", 352, SECRET)
    assert made.streams[1].window == 32


def test_ranks_with_lanes_of_their_own_have_different_plans() -> None:
    around = Settings(aggregator="192.0.2.7:5747", secret=SECRET)
    plans = [configured_plan(replace(around, lanes=lanes), 4) for lanes in ("auto", "int32-le", "int16-le")]
    assert len({made.digest() for made in plans if made}) == len(plans)
    assert Settings().lanes == "auto"


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        (Settings(plan=Path("/nowhere/plan.json")), errors.PlanError),
        (Settings(aggregator="not an address", secret=SECRET), errors.PlanError),
        (Settings(aggregator="192.0.2.7:1", secret=SECRET, values_per_packet=99), errors.WiresumError),
    ],
)
def test_a_bad_plan_is_an_error_of_ours(settings: Settings, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        configured_plan(settings, SIZE)


def test_the_secret_may_be_in_a_file_of_its_own(tmp_path: Path) -> None:
    file, other = tmp_path / "plan.json", tmp_path / "other"
    made = plan(star(workers=SIZE), Job(secret=SECRET), PlanOptions(engine="udp"))
    made.write(file)
    other.write_text(SECRET[::-1])
    assert configured_plan(Settings(plan=file), SIZE) == made
    named = configured_plan(Settings(plan=file, secret_file=other), SIZE)
    assert named is not None
    assert named.job.secret == SECRET[::-1]
    star_of_two = configured_plan(Settings(aggregator="192.0.2.7:5747", secret_file=other), 2)
    assert star_of_two is not None
    assert star_of_two.job.secret == SECRET[::-1]
    with pytest.raises(errors.PlanError, match="cannot be read"):
        configured_plan(Settings(plan=file, secret_file=tmp_path / "nowhere"), SIZE)


def test_the_digest_ignores_addresses_and_nothing_else() -> None:
    made = plan(star(workers=SIZE), Job(secret=SECRET), PlanOptions(engine="udp"))
    moved = made.model_copy(update={"nodes": [made.nodes[0].model_copy(update={"address": "192.0.2.1:1"})]})
    other = made.model_copy(update={"job": made.job.model_copy(update={"id": 2})})
    assert made.digest() == moved.digest()
    assert made.digest() != other.digest()


class Engine:
    """Joins unless told otherwise."""

    def __init__(self) -> None:
        self.closed = False

    @property
    def transport(self) -> str:
        return "nothing"

    def abi(self) -> object:
        return None

    def await_children(self, k: int) -> None:
        self.awaited = k

    def statistics(self) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        self.closed = True


class Ranks:
    """Ranks that meet in one store, in threads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, failing: tuple[int, ...] = ()) -> None:
        self.store = HashStore()
        self.engines: list[Engine] = []
        self.incarnations: list[int] = []
        self.seats: dict[int, Sequence[int] | None] = {}
        self.failing = failing
        monkeypatch.setattr(bootstrap, "open_engine", self._open)

    def _open(
        self,
        _plan: AggregationPlan,
        rank: int,
        incarnation: int,
        _timeout_s: float,
        _transport: str,
        *,
        dead_after_s: float,
        gone_after_s: float,
        absent: Sequence[int],
        outlives_workers: bool,
        members: Sequence[int] | None,
    ) -> Engine:
        if rank in self.failing:
            raise errors.JoinError(f"nobody answers rank {rank}")
        self.incarnations.append(incarnation)
        self.seats[rank] = members
        self.engines.append(Engine())
        return self.engines[-1]

    def meet(self, settings: list[Settings], failures: dict[int, errors.WiresumError] | None = None) -> list[Any]:
        with ThreadPoolExecutor(len(settings)) as threads:
            jobs = [
                threads.submit(self._meet, rank, len(settings), one, (failures or {}).get(rank))
                for rank, one in enumerate(settings)
            ]
            return [job.exception() or job.result() for job in jobs]

    def _meet(self, rank: int, size: int, settings: Settings, failure: errors.WiresumError | None) -> Any:
        meeting = Meeting(self.store, rank, size, settings, timedelta(seconds=20))
        return meeting.agree(Claim(self.store, "g"), failure, is_default_group=True)


def test_all_ranks_join_with_rank_0s_incarnation(monkeypatch: pytest.MonkeyPatch, plan_file: Path) -> None:
    ranks = Ranks(monkeypatch)
    results = ranks.meet([Settings(plan=plan_file)] * SIZE)
    assert all(decision.network for decision, _ in results)
    assert len(set(ranks.incarnations)) == 1
    assert not any(engine.closed for engine in ranks.engines)


def test_one_rank_that_cannot_join_stops_all(monkeypatch: pytest.MonkeyPatch, plan_file: Path) -> None:
    ranks = Ranks(monkeypatch, failing=(2,))
    results = ranks.meet([Settings(plan=plan_file)] * SIZE)
    assert {type(result) for result in results} == {errors.JoinError}
    assert {str(result) for result in results} == {str(results[0])}
    assert "rank 2: nobody answers rank 2" in str(results[0])
    assert all(engine.closed for engine in ranks.engines)


def test_or_all_go_on_with_gloo(monkeypatch: pytest.MonkeyPatch, plan_file: Path) -> None:
    ranks = Ranks(monkeypatch, failing=(0,))
    results = ranks.meet([Settings(plan=plan_file, fall_back=True)] * SIZE)
    assert [engine for _, engine in results] == [None] * SIZE
    assert all(engine.closed for engine in ranks.engines)
    # The claim is free again.
    assert Claim(ranks.store, "h").ask(AggregationPlan.read(plan_file).digest()) == ""


def switched(tmp_path: Path, slots: int) -> Path:
    """A plan of switches with this much memory more than their streams need."""
    assignment = assign(goat(2).with_addresses(), Job(secret=SECRET, window=16), PlanOptions(), "atp")
    document = json.loads(as_switched_plan("atp", assignment, PlanOptions()).to_json())
    for memory in document["fabric"]["memory"]:
        memory["slots"] += slots
    path = tmp_path / f"plan{slots}.json"
    path.write_text(json.dumps(document))
    return path


def test_ranks_with_different_fabrics_are_told_so_at_the_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plans = [switched(tmp_path, slots) for slots in (0, 0, 1, 0)]
    ranks = Ranks(monkeypatch)
    results = ranks.meet([Settings(plan=path) for path in plans])
    assert {type(result) for result in results} == {errors.PlanError}
    assert all("on ranks 0, 1, 3" in str(result) and "on rank 2" in str(result) for result in results)
    assert not ranks.engines


def test_a_failure_of_one_rank_is_everyones(monkeypatch: pytest.MonkeyPatch, plan_file: Path) -> None:
    failure = errors.ExtensionError("it has not been built")
    results = Ranks(monkeypatch).meet([Settings(plan=plan_file)] * SIZE, {1: failure})
    assert {type(result) for result in results} == {errors.ExtensionError}
    assert "rank 1: it has not been built" in str(results[0])


def test_a_rank_that_never_comes_is_named(plan_file: Path) -> None:
    meeting = Meeting(HashStore(), 0, 2, Settings(plan=plan_file), timedelta(milliseconds=10))
    with pytest.raises(errors.JoinError, match="rank 1 did not come"):
        meeting.agree(Claim(HashStore(), "g"), None, is_default_group=True)


def test_the_first_group_gets_the_job_until_it_ends() -> None:
    store = HashStore()
    first, second = Claim(store, "a"), Claim(store, "b")
    assert first.ask("job") == ""
    assert "other ranks" in second.ask("job")
    assert second.ask("another job") == ""
    first.release()
    first.release()
    assert Claim(store, "c").ask("job") == ""
