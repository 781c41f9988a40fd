"""Plans with tables: what follows from a planner's answer, and what each part of them says again."""

import json

import pytest

from wiresum import _native, wire
from wiresum.adjust import adjust
from wiresum.errors import PlanError, TraceError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.explanation import explain
from wiresum.plan.job import Job
from wiresum.plan.tracking import tracking_of
from wiresum.planners import place_rows
from wiresum.planners.row_plans import counted, plan_with_rows, predicted, sums_in_a_tree
from wiresum.planners.tiers.instance import servers_of
from wiresum.predict.forms import packets
from wiresum.predict.sparse import SparseNetwork
from wiresum.sparse.hot import hot_map
from wiresum.sparse.job import job_of_plan, job_text
from wiresum.sparse.spec import parse
from wiresum.topology.generators.leaf_spine import leaf_spine
from wiresum.topology.generators.star import star

TRACE = "criteo:scale=0.01,batch=64"


def planned(folder, workers=4, servers=1, planner="tiers", trace=TRACE, *, tracking=None, **more):
    """A plan in a file, with its hot map, and the answer that it was made of."""
    drawn, topology = parse(trace), star(workers, 20e6, servers=servers)
    network = SparseNetwork(topology, servers_of(topology))
    asked = counted(network, drawn, **more)
    part = place_rows(asked, planner)
    hot = hot_map(drawn, part.replicated_rows, part.summed_rows)
    file, way = folder / "plan.json.hot", tracking_of(tracking) if tracking else None
    plan = plan_with_rows(asked.network, Job(), part, hot=hot, file=file, trace=trace, tracking=way)
    plan.write(folder / "plan.json")
    (folder / "plan.json.hot").write_text(hot)
    return plan, part, topology


@pytest.mark.parametrize(("workers", "servers"), [(4, 1), (8, 2)])
def test_a_plan_has_all_that_the_answer_has_and_predicts_the_same(tmp_path, workers, servers):
    plan, part, topology = planned(tmp_path, workers, servers, dense_bytes=40_000)
    assert AggregationPlan.read(tmp_path / "plan.json") == plan
    hot = plan.sparse.hot
    assert (hot.replicated, hot.summed) == (part.replicated_rows, part.summed_rows)
    assert [server.name for server in plan.sparse.servers] == part.servers
    assert plan.node(plan.sparse.streams[0].root).name == part.root == "switch"
    again = predicted(topology, plan, 40_000)
    assert again.seconds == pytest.approx(part.seconds, rel=1e-9), "the star has one way, and one node that sums"
    assert again.gains == part.gains
    assert predicted(topology, plan, 40_000, "criteo:scale=0.01,batch=128").seconds > again.seconds


def test_the_job_file_follows_from_plan_map_and_secret(tmp_path):
    plan, _, _ = planned(tmp_path, servers=2)
    job = json.loads(job_of_plan(tmp_path / "plan.json"))
    assert job_text(tmp_path / "plan.json") == job_of_plan(tmp_path / "plan.json")
    assert (job["workers"], job["id"]) == (4, plan.job.id)
    assert job["servers"] == [server.address for server in plan.sparse.servers]
    assert job["switches"] == [switch.address for switch in plan.sparse.switches]
    assert job["secret"] == plan.job.secret
    assert job["hot"] == json.loads((tmp_path / "plan.json.hot").read_text())
    assert [table["name"] for table in job["tables"]] == [table.name for table in plan.sparse.tables]
    # The native reader of job files finds nothing wrong but the rank.
    with pytest.raises(Exception, match=r"rank|worker"):
        _native.SparseEngine(json.dumps(job), 99, 1, None, 0.1)


@pytest.mark.parametrize(
    ("way", "said"),
    [
        ("decaying:period=10,reach=1.5", "Every 10 rounds, rows that have overtaken hot ones"),
        ("once:after=7", "After round 7, the rows that were touched most"),
        ("sampling:rate=0.04,after=7", "After round 7, the rows are hot that 4 % of the gradients"),
    ],
)
def test_hot_rows_follow_popularity_as_the_plan_says(tmp_path, way, said):
    still, _, _ = planned(tmp_path)
    plan, part, _ = planned(tmp_path, tracking=way)
    assert AggregationPlan.read(tmp_path / "plan.json") == plan
    assert said in explain(plan)
    assert json.loads(job_of_plan(tmp_path / "plan.json"))["tracking"] == tracking_of(way).model_dump()
    with pytest.raises(Exception, match=r"rank|worker"):
        _native.SparseEngine(job_of_plan(tmp_path / "plan.json"), 99, 1, None, 0.1)
    same = json.loads(plan.to_json())
    same["job"]["secret"] = still.job.secret
    assert AggregationPlan.parse(json.dumps(same)).digest() != still.digest()
    network = SparseNetwork(star(4, 20e6, servers=1), ["s0"])
    with pytest.raises(PlanError, match="no row is hot in this plan"):
        plan_with_rows(network, Job(), part, tracking=tracking_of(way))


def test_another_map_than_the_plans_is_refused(tmp_path):
    planned(tmp_path)
    (tmp_path / "plan.json.hot").write_text(hot_map(parse(TRACE), 3, 4))
    with pytest.raises(PlanError, match=r"wants .*; plan again"):
        job_of_plan(tmp_path / "plan.json")


def test_the_digest_changes_with_the_tables_and_not_with_addresses(tmp_path):
    plan, _, _ = planned(tmp_path)
    document = json.loads(plan.to_json())
    document["sparse"]["servers"][0]["address"] = "10.1.2.3:9"
    assert AggregationPlan.parse(json.dumps(document)).digest() == plan.digest()
    document["sparse"]["tables"][0]["rows"] += 1
    assert AggregationPlan.parse(json.dumps(document)).digest() != plan.digest()
    document["sparse"]["streams"][0]["places"][0]["slots"] += 1
    with pytest.raises(PlanError, match=r"sparse\.streams"):
        AggregationPlan.parse(json.dumps(document))


def test_it_is_explained_and_not_adjusted(tmp_path):
    plan, part, topology = planned(tmp_path)
    told = explain(plan)
    assert "26 tables with" in told
    assert f"adds the {part.replicated_rows + part.summed_rows:,} hot rows of plan.json.hot" in told
    with pytest.raises(PlanError, match="the plan has tables"):
        adjust(plan, topology)


def test_rows_are_summed_wherever_their_ways_meet_if_that_is_quicker(tmp_path):
    """Two racks, of which one has the server: nine workers' rows through one uplink, or their sums."""
    topology = leaf_spine(2, 1, 5, 100e6, 50e6, programmable=1.0)
    trace = "criteo:scale=0.002,batch=128"
    drawn, network = parse(trace), SparseNetwork(topology, servers_of(topology))
    asked = counted(network, drawn)
    part = place_rows(asked, "tiers")
    assert sums_in_a_tree(asked, part)
    hot = hot_map(drawn, part.replicated_rows, part.summed_rows)
    one, tree = (
        plan_with_rows(asked.network, Job(), part, tree=tree, hot=hot, file="plan.json.hot", trace=trace)
        for tree in (False, True)
    )
    assert one.sparse.tree is None
    assert tree.sparse.tree == {"parents": [0], "leaves": [1, 1, 1, 1, 1, 0, 0, 0, 0]}
    assert [tree.node(switch.node).name for switch in tree.sparse.switches] == ["leaf1", "leaf0"]
    assert predicted(topology, one).seconds > 1.5 * predicted(topology, tree).seconds
    tree.write(tmp_path / "plan.json")
    (tmp_path / "plan.json.hot").write_text(hot)
    assert json.loads(job_of_plan(tmp_path / "plan.json"))["tree"] == tree.sparse.tree
    assert AggregationPlan.read(tmp_path / "plan.json") == tree
    assert "leaf1 and leaf0" in explain(tree)


def test_a_star_has_no_tree():
    asked = counted(SparseNetwork(star(4, 20e6, servers=1), ["s0"]), parse("criteo:scale=0.002,batch=128"))
    assert not sums_in_a_tree(asked, place_rows(asked, "tiers"))


def test_tables_alone_are_touched_by_rank():
    tables = parse("criteo:scale=0.001").tables
    trace = parse("tables:batch=8,s=1.0", tables=tables)
    assert trace.tables == tables
    assert trace.pushed(0, 0, 2).max() < trace.rows
    with pytest.raises(TraceError, match="name them with --tables"):
        parse("tables:batch=8")


@pytest.mark.parametrize("packet_bytes", [640, 1472, 2944])
@pytest.mark.parametrize("dim", [1, 3, 16, 64])
@pytest.mark.parametrize("width", [4, 2])
def test_rows_take_what_their_packets_say(packet_bytes, dim, width):
    kinds = {
        "hot_rows": wire.RowKind.HOT_ROWS, "hot_sums": wire.RowKind.HOT_SUMS, "partial_sums": wire.RowKind.ROW_SUMS,
        "push": wire.RowKind.PUSH, "pull": wire.RowKind.PULL, "weights": wire.RowKind.WEIGHTS,
    }  # fmt: skip
    below = wire.ETHERNET_LEN + wire.IPV4_LEN + wire.UDP_LEN
    for name, kind in kinds.items():
        values = 0 if kind == wire.RowKind.PULL else dim
        rows, sent = _native.row_packet(kind, values, packet_bytes, is_narrow=width == 2)
        form = getattr(packets(packet_bytes), name)
        # Columns end at whole words.
        assert form.bytes_of(width * dim, 4 * dim) == pytest.approx((sent + below) / rows, rel=0.02), name


def test_uneven_workers_are_counted():
    trace = parse("zipf:rows=2000,features=9,batch=16")
    network = SparseNetwork(star(4, 20e6, servers=1), ["s0"])
    asked = counted(network, trace)
    scales = asked.counts.scales
    assert sum(scales) == pytest.approx(4)
    assert max(scales) > 1
    load = asked.network.direct()
    push = next(times for quantity, times in load.items() if quantity.form == asked.network.forms.push)
    graph = network.graph
    for worker, scale in zip(network.workers, scales, strict=True):
        arc = next(arc for arc in range(graph.arc_count) if graph.source[arc] == worker)
        assert push[arc] == pytest.approx(scale)
