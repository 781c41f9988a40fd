"""The validator, alone and beside the data plane's: both must give one verdict on any plan."""

import copy
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wiresum.errors import PlanError
from wiresum.plan.aggregation_plan import AggregationPlan, secret_beside
from wiresum.plan.job import Job
from wiresum.planners import plan
from wiresum.topology.generators.star import star
from wiresum.topology.generators.xagg import xagg

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "spec" / "example-plan.json"


def tree_plan() -> dict:
    return json.loads(plan(xagg(), Job(secret="0" * 64)).to_json())


def changed(path: str, value: object) -> dict:
    """A good plan with one field changed; a path like `streams.1.window`."""
    content = tree_plan()
    *way, last = (int(part) if part.isdigit() else part for part in path.split("."))
    place = content
    for part in way:
        place = place[part]
    place[last] = value
    return content


def all_engines(engine: str) -> dict:
    """A good plan all of whose nodes have this engine."""
    content = tree_plan()
    for node in content["nodes"]:
        node["engine"] = engine
    return content


def cycle() -> dict:
    """Two nodes that are each other's parents, which no worker reaches."""
    content = tree_plan()
    content["nodes"] += [{**content["nodes"][0], "id": 8}, {**content["nodes"][0], "id": 9}]
    stream = content["streams"][1]
    stream["places"] += [{"node": 8, "slots": 512}, {"node": 9, "slots": 512}]
    stream["legs"] += [{"child": {"node": 8}, "parent": 9}, {"child": {"node": 9}, "parent": 8}]
    return content


def crowd(workers: int, lanes: str = "int16-le") -> dict:
    """That many workers on these lanes, under a root and as few aggregators as can be."""
    content = tree_plan()
    content["job"]["lanes"] = lanes
    content["workers"] = [{"rank": rank, "name": f"w{rank}"} for rank in range(workers)]
    leaves = 1 + (workers - 1) // 64
    content["nodes"] = [{"id": n, "name": f"n{n}", "address": f"10.0.0.1:{n}"} for n in range(leaves + 1)]
    legs = [{"child": {"worker": rank}, "parent": 1 + rank // 64} for rank in range(workers)]
    legs += [{"child": {"node": node}, "parent": 0} for node in range(1, leaves + 1)]
    for stream in content["streams"]:
        stream["places"] = [{"node": node, "slots": 512} for node in range(leaves + 1)]
        stream["legs"] = legs
    return content


SOLUTION = {
    "solver": "highs", "status": "optimal", "objective": "link bytes", "value": 25000, "bound": 24999.5, "gap": 2e-5,
    "seed": 7, "seconds": 0.5,
}  # fmt: skip

ROUNDS = {"counts": [{"node": 0, "k": 3}, {"node": 1, "k": 1}], "most_missed": 16}


def partial(rounds: dict | None = None, **job: object) -> dict:
    """A plan whose rounds go on without late workers; node 0 has three children, node 1 too."""
    content = tree_plan()
    content["job"] |= {"rounds": ROUNDS | (rounds or {}), **job}
    return content


def routed(links: list | None, **leg: object) -> dict:
    """A plan whose first stream of values has these links from worker 0 on."""
    content = tree_plan()
    content["streams"][1]["legs"][0] |= {"links": links, **leg}
    return content


def with_legs(*legs: tuple[dict, int]) -> dict:
    """A plan whose first stream of values has these legs too."""
    content = tree_plan()
    content["streams"][1]["legs"] += [{"child": child, "parent": parent} for child, parent in legs]
    return content


GOOD = {
    "links of a leg": routed(["w0-S1"]),
    "links that are none": routed(None),
    "an empty list of links": routed([]),
    "partial rounds": partial(),
    "partial rounds without counts": partial({"counts": [], "most_missed": 1024}),
    "whole rounds": changed("job.rounds", None),
    "example": json.loads(EXAMPLE.read_text()),
    "tree": tree_plan(),
    "one worker": json.loads(plan(star(1), Job()).to_json()),
    "64 workers": json.loads(plan(star(64), Job()).to_json()),
    "IPv6": changed("nodes.0.address", "[fd00::1]:5747"),
    "bandwidths": changed("nodes.0", tree_plan()["nodes"][0] | {"ingress_bps": 2**53, "egress_bps": 1}),
    "bandwidth of a worker": changed("workers.0.egress_bps", 10**9),
    "whole number as share": changed("streams.1.share", 1),
    "no worker address": changed("workers.0.address", None),
    "port 0": changed("nodes.0.address", "10.0.0.1:0"),
    "capitals in the secret": changed("job.secret", "ABCDEFabcdef0123" * 4),
    "all over TCP": all_engines("tcp"),
    "a proven solution": changed("solution", SOLUTION),
    "a bare solution": changed("solution", {key: SOLUTION[key] for key in ("solver", "status", "objective", "value")}),
    "no solution": changed("solution", None),
    "fixed codec": changed("job", tree_plan()["job"] | {"lanes": "int32-le", "codec": "fixed:1e8"}),
    "expected exponents": changed("job.exponents", "expected"),
    "128 workers on 16 bits": crowd(128),
    "128 workers on lanes as wide as elements": crowd(128, "auto"),
    "expected exponents of wide elements": {
        **tree_plan(),
        "job": tree_plan()["job"] | {"lanes": "auto", "exponents": "expected"},
    },
}

BAD = {
    "link twice": routed(["a", "a"]),
    "leg with more": routed(["a"], node="S1"),
    "two legs of a worker": with_legs(({"worker": 0}, 1)),
    "leg of an unknown worker": with_legs(({"worker": 99}, 1)),
    "leg of a node without a place": with_legs(({"node": 9}, 1)),
    "partial rounds with a fixed codec": partial(codec="fixed:1e8", lanes="int32-le"),
    "partial rounds that are forecast": partial(exponents="expected"),
    "no missed round": partial({"most_missed": 0}),
    "too many missed rounds": partial({"most_missed": 1025}),
    "rounds of nobody": partial({"counts": [{"node": 0, "k": 0}]}),
    "rounds of more than there are": partial({"counts": [{"node": 0, "k": 4}]}),
    "rounds at an unknown node": partial({"counts": [{"node": 9, "k": 1}]}),
    "two counts of a node": partial({"counts": [{"node": 0, "k": 1}, {"node": 0, "k": 1}]}),
    "rounds with more": partial({"late": "drop"}),
    "rounds without counts": changed("job.rounds", {"most_missed": 1}),
    "format": changed("format", "wiresum-plan/3"),
    "unknown field": changed("job.speed", 1),
    "unknown status": changed("solution", SOLUTION | {"status": "good"}),
    "solution with more": changed("solution", SOLUTION | {"cost": 1}),
    "solution without a value": changed("solution", {key: SOLUTION[key] for key in SOLUTION if key != "value"}),
    "negative seed": changed("solution", SOLUTION | {"seed": -1}),
    "gap as text": changed("solution", SOLUTION | {"gap": "1 %"}),
    "no bandwidth": changed("nodes.0.ingress_bps", 0),
    "bandwidth too large": changed("nodes.0.egress_bps", 2**53 + 1),
    "bandwidth as fraction": changed("workers.0.egress_bps", 0.5),
    "id too large": changed("job.id", 65536),
    "negative id": changed("job.id", -1),
    "id as text": changed("job.id", "1"),
    "id as fraction": changed("job.id", 1.5),
    "id as truth": changed("job.id", True),
    "short secret": changed("job.secret", "0123"),
    "secret of other letters": changed("job.secret", "g" * 64),
    "secret of the version before": changed("job.secret", "0" * 16),
    "too few values": changed("job.values_per_packet", 56),
    "too many values": changed("job.values_per_packet", 744),
    "broken block": changed("job.values_per_packet", 100),
    "unknown lanes": changed("job.lanes", "int8"),
    "one node over TCP": changed("nodes.0.engine", "tcp"),
    "unknown engine": changed("nodes.0.engine", "fpga"),
    "address without port": changed("nodes.0.address", "10.0.0.1"),
    "port too large": changed("nodes.0.address", "10.0.0.1:65536"),
    "host name": changed("nodes.0.address", "localhost:5747"),
    "leading zero": changed("nodes.0.address", "10.0.0.01:5747"),
    "worker address": changed("workers.0.address", "10.0.0.256"),
    "worker address with zone": changed("workers.0.address", "fe80::1%1"),
    "rank out of order": changed("workers.0.rank", 1),
    "no workers": changed("workers", []),
    "two exponent streams": changed("streams.1.role", "exponents"),
    "shares below 1": changed("streams.1.share", 0.5),
    "unknown policy": changed("streams.1.policy", "lru"),
    "policy of switches": changed("streams.1.policy", "hash"),
    "priority at servers": changed("streams.1.priority", 1),
    "no slots": changed("streams.1.places.0.slots", 0),
    "slots not a power of two": changed("streams.1.places.0.slots", 300),
    "too many slots": changed("streams.1.places.0.slots", 1 << 23),
    "other slots elsewhere": changed("streams.1.places.1.slots", 256),
    "base at a server": changed("streams.1.places.0.base", 1),
    "no window": changed("streams.1.window", 0),
    "window above slots": changed("streams.1.window", 1 << 20),
    "no places": changed("streams.1.places", []),
    "no legs": changed("streams.1.legs", []),
    "two roots": changed("streams.1.legs.7.child", {"worker": 0}),
    "unknown node": changed("streams.1.places.0.node", 9),
    "unknown parent": changed("streams.1.legs.7.parent", 9),
    "no children": changed("streams.1.places.2", {"node": 3, "slots": 512}),
    "unknown worker": changed("streams.1.legs.0.child", {"worker": 7}),
    "worker twice": changed("streams.1.legs.0.child", {"worker": 1}),
    "child of two kinds": changed("streams.1.legs.0.child", {"node": 2, "worker": 0}),
    "unknown codec": changed("job.codec", "mp3"),
    "unknown exponents": changed("job.exponents", "guessed"),
    "factor that is no number": changed("job.codec", "fixed:many"),
    "factor of nothing": changed("job.codec", "fixed:"),
    "factor out of bounds": changed("job.codec", "fixed:1e31"),
    "endless factor": changed("job.codec", "fixed:inf"),
    "signed secret": changed("job.secret", "+" + "0" * 63),
    "two nodes of one id": changed("nodes.1.id", 0),
    "two streams of one id": changed("streams.1.id", 0),
    "negative share": changed("streams.0.share", -1),
    "node with two places": changed("streams.1.places.2", tree_plan()["streams"][1]["places"][1]),
    "cycle beside the root": cycle(),
    "129 workers on 16 bits": crowd(129),
    "129 workers on lanes as wide as elements": crowd(129, "auto"),
    "one factor for lanes of two widths": {
        **tree_plan(),
        "job": tree_plan()["job"] | {"lanes": "auto", "codec": "fixed:1e8"},
    },
    "65 children": with_legs(*[({"worker": 0}, 1)] * 63),
}


@pytest.mark.parametrize("content", GOOD.values(), ids=list(GOOD))
def test_good_plans_are_read_and_survive_their_file(content):
    read = AggregationPlan.parse(json.dumps(content))
    assert AggregationPlan.parse(read.to_json()) == read


@pytest.mark.parametrize("content", BAD.values(), ids=list(BAD))
def test_bad_plans_are_refused(content):
    with pytest.raises(PlanError):
        AggregationPlan.parse(json.dumps(content))


def test_the_message_names_file_field_and_remedy():
    with pytest.raises(PlanError, match=r"plan bad\.json: streams\[1\]\.places: `slots` must be a power of two"):
        AggregationPlan.parse(json.dumps(BAD["slots not a power of two"]), "bad.json")


def test_the_secret_is_in_a_file_that_only_its_owner_reads(tmp_path):
    file = tmp_path / "plan.json"
    secret_beside(file).write_text("of an older plan")
    made = plan(star(2), Job(secret="0123456789abcdef" * 4))
    made.write(file)
    assert "secret" not in file.read_text()
    assert secret_beside(file).stat().st_mode & 0o777 == 0o600
    assert AggregationPlan.read(file) == made
    secret_beside(file).unlink()
    bare = AggregationPlan.read(file)
    assert bare == made.without_secret()
    assert bare.digest() == made.digest()
    secret_beside(file).write_text("0123")
    with pytest.raises(PlanError, match="secret"):
        AggregationPlan.read(file)


def test_a_node_gets_its_own_keys_and_nothing_that_leads_to_others(tmp_path):
    file = tmp_path / "plan.json"
    made = plan(xagg(), Job())
    made.write(file)
    keys = {node.id: made.keys_of(node.id) for node in made.nodes}
    assert made.job.secret is not None
    assert not any(made.job.secret in text for text in keys.values())
    own = {node: json.loads(text)["own"] for node, text in keys.items()}
    assert len(set(own.values())) == len(own)
    for node, text in keys.items():
        assert not any(other in text for number, other in own.items() if number != node)
        secret_beside(file).write_text(text)
        served = AggregationPlan.read(file)
        assert served.digest() == made.digest()
        with pytest.raises(PlanError, match="no secret to make"):
            served.keys_of(node)
    with pytest.raises(PlanError, match="no node 77"):
        made.keys_of(77)
    with pytest.raises(PlanError, match="no secret to make"):
        made.without_secret().keys_of(0)


def test_plans_of_the_format_before_are_read():
    old = json.loads((ROOT / "crates" / "plan" / "tests" / "plans" / "version1.json").read_text())
    new = AggregationPlan.read(ROOT / "crates" / "protocol" / "tests" / "plans" / "tree.json")
    assert AggregationPlan.parse(json.dumps(old)) == new
    old["sub_models"][1]["tree"][1]["parent"] = None
    with pytest.raises(PlanError, match="names another parent than the node that lists it"):
        AggregationPlan.parse(json.dumps(old))


def native_accepts(text: str) -> bool:
    from wiresum import _native

    return _native.validate_plan(text) is None


def python_accepts(text: str) -> bool:
    try:
        AggregationPlan.parse(text)
    except PlanError:
        return False
    return True


@pytest.mark.parametrize("content", [*GOOD.values(), *BAD.values()], ids=[*GOOD, *BAD])
def test_the_data_plane_agrees(content):
    text = json.dumps(content)
    assert native_accepts(text) == python_accepts(text)


def places(content: object, path: tuple = ()) -> list[tuple]:
    items = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    return [place for key, value in items for place in [(*path, key), *places(value, (*path, key))]]


VALUES = st.sampled_from(
    [
        None,
        True,
        -1,
        0,
        1,
        2,
        3,
        64,
        65536,
        1 << 32,
        0.5,
        1.0,
        2.5,
        "",
        "a",
        "10.0.0.1",
        "[::1]:1",
        [],
        {},
        {"worker": 1},
    ]
)


@st.composite
def mutated_plans(draw):
    content = copy.deepcopy(draw(st.sampled_from([GOOD["example"], GOOD["tree"]])))
    for _ in range(draw(st.integers(1, 2))):
        *way, last = draw(st.sampled_from(places(content)))
        place = content
        for part in way:
            place = place[part]
        match draw(st.sampled_from(["set", "remove", "repeat"])):
            case "set":
                place[last] = copy.deepcopy(draw(VALUES))
            case "remove":
                del place[last]
            case "repeat" if isinstance(place, list):
                place.append(copy.deepcopy(place[last]))
    return content


@given(mutated_plans())
def test_the_data_plane_agrees_on_any_plan(content):
    text = json.dumps(content)
    assert native_accepts(text) == python_accepts(text), text


@given(mutated_plans())
def test_any_plan_is_refused_or_survives_its_file(content):
    try:
        read = AggregationPlan.parse(json.dumps(content))
    except PlanError:
        return
    assert AggregationPlan.parse(read.to_json()) == read


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("wiresum-topology/1", "a topology; make a plan of it with `wiresum plan`"),
        ("wiresum-plan/9", "another version; make it again with this release"),
        ("others/1", "check the path"),
        (7, "check the path"),
    ],
)
def test_of_a_file_of_another_format_only_that_is_said(given, said):
    with pytest.raises(PlanError) as refused:
        AggregationPlan.parse(json.dumps({"format": given, "nodes": [{"kind": "switch"}], "links": []}))
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
