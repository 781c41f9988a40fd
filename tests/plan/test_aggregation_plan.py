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

EXAMPLE = Path(__file__).parents[2] / "spec" / "example-plan.json"


def tree_plan() -> dict:
    return json.loads(plan(xagg(), Job(secret="0" * 16)).to_json())


def changed(path: str, value: object) -> dict:
    """A good plan with one field changed; a path like `sub_models.1.slots`."""
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
    content["sub_models"][1]["tree"] += [
        {"node": 8, "parent": 9, "children": [{"node": 9}]},
        {"node": 9, "parent": 8, "children": [{"node": 8}]},
    ]
    return content


def crowd(workers: int) -> dict:
    """That many workers on 16-bit lanes, under a root and as few aggregators as can be."""
    content = tree_plan()
    content["job"]["lanes"] = "int16-le"
    content["workers"] = [{"rank": rank, "name": f"w{rank}"} for rank in range(workers)]
    ranks = [{"worker": rank} for rank in range(workers)]
    leaves = [ranks[start : start + 64] for start in range(0, workers, 64)]
    content["nodes"] = [{"id": n, "name": f"n{n}", "address": f"10.0.0.1:{n}"} for n in range(len(leaves) + 1)]
    tree = [{"node": 0, "children": [{"node": n} for n in range(1, len(leaves) + 1)]}]
    tree += [{"node": n, "parent": 0, "children": leaf} for n, leaf in enumerate(leaves, start=1)]
    for stream in content["sub_models"]:
        stream["tree"] = tree
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


def routed(*ways: tuple[dict, list]) -> dict:
    """A plan whose first stream of values has these ways."""
    return changed("sub_models.1.ways", [{"child": child, "links": links} for child, links in ways])


W0, N1 = {"worker": 0}, {"node": 1}

GOOD = {
    "ways": routed((W0, ["w0-S1"]), (N1, ["S1-S3", "S3-S2"])),
    "no ways": changed("sub_models.1.ways", None),
    "an empty list of ways": routed(),
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
    "whole number as share": changed("sub_models.1.share", 1),
    "no worker address": changed("workers.0.address", None),
    "port 0": changed("nodes.0.address", "10.0.0.1:0"),
    "capitals in the secret": changed("job.secret", "ABCDEFabcdef0123"),
    "all over TCP": all_engines("tcp"),
    "a proven solution": changed("solution", SOLUTION),
    "a bare solution": changed("solution", {key: SOLUTION[key] for key in ("solver", "status", "objective", "value")}),
    "no solution": changed("solution", None),
    "fixed codec": changed("job.codec", "fixed:1e8"),
    "expected exponents": changed("job.exponents", "expected"),
    "128 workers on 16 bits": crowd(128),
}

BAD = {
    "way of the root": routed(({"node": 0}, ["a"])),
    "way of nobody": routed(({"worker": 99}, ["a"])),
    "two ways of a child": routed((W0, ["a"]), (W0, ["b"])),
    "way without links": routed((W0, [])),
    "way over a link twice": routed((W0, ["a", "a"])),
    "way with more": changed("sub_models.1.ways", [{"child": W0, "links": ["a"], "to": "S1"}]),
    "partial rounds with a fixed codec": partial(codec="fixed:1e8"),
    "partial rounds that are forecast": partial(exponents="expected"),
    "no missed round": partial({"most_missed": 0}),
    "too many missed rounds": partial({"most_missed": 1025}),
    "rounds of nobody": partial({"counts": [{"node": 0, "k": 0}]}),
    "rounds of more than there are": partial({"counts": [{"node": 0, "k": 4}]}),
    "rounds at an unknown node": partial({"counts": [{"node": 9, "k": 1}]}),
    "two counts of a node": partial({"counts": [{"node": 0, "k": 1}, {"node": 0, "k": 1}]}),
    "rounds with more": partial({"late": "drop"}),
    "rounds without counts": changed("job.rounds", {"most_missed": 1}),
    "format": changed("format", "wiresum-plan/2"),
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
    "secret of other letters": changed("job.secret", "0123456789abcdeg"),
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
    "two exponent streams": changed("sub_models.1.role", "exponents"),
    "shares below 1": changed("sub_models.1.share", 0.5),
    "unknown policy": changed("sub_models.1.policy", "lru"),
    "no slots": changed("sub_models.1.slots", 0),
    "slots not a power of two": changed("sub_models.1.slots", 300),
    "too many slots": changed("sub_models.1.slots", 1 << 23),
    "no window": changed("sub_models.1.window", 0),
    "window above slots": changed("sub_models.1.window", 1 << 20),
    "no tree": changed("sub_models.1.tree", []),
    "two roots": changed("sub_models.1.tree.1.parent", None),
    "unknown node": changed("sub_models.1.tree.0.node", 9),
    "unknown parent": changed("sub_models.1.tree.1.parent", 9),
    "no children": changed("sub_models.1.tree.1.children", []),
    "unknown worker": changed("sub_models.1.tree.1.children", [{"worker": 7}]),
    "worker twice": changed("sub_models.1.tree.1.children", [{"worker": 0}, {"worker": 0}]),
    "worker without a parent": changed("sub_models.1.tree.1.children", [{"worker": 0}]),
    "child that disagrees": changed("sub_models.1.tree.1.children.0", {"node": 2}),
    "child of two kinds": changed("sub_models.1.tree.1.children.0", {"node": 2, "worker": 0}),
    "unknown codec": changed("job.codec", "mp3"),
    "unknown exponents": changed("job.exponents", "guessed"),
    "factor that is no number": changed("job.codec", "fixed:many"),
    "factor of nothing": changed("job.codec", "fixed:"),
    "factor out of bounds": changed("job.codec", "fixed:1e31"),
    "endless factor": changed("job.codec", "fixed:inf"),
    "signed secret": changed("job.secret", "+123456789abcdef"),
    "two nodes of one id": changed("nodes.1.id", 0),
    "two streams of one id": changed("sub_models.1.id", 0),
    "negative share": changed("sub_models.0.share", -1),
    "node with two places": changed("sub_models.1.tree.2", tree_plan()["sub_models"][1]["tree"][1]),
    "child twice": changed("sub_models.1.tree.0.children.0", {"node": 1}),
    "child before its parent": changed("sub_models.1.tree", tree_plan()["sub_models"][1]["tree"][::-1]),
    "cycle beside the root": cycle(),
    "129 workers on 16 bits": crowd(129),
    "65 children": changed("sub_models.1.tree.1.children", [{"worker": 0}] * 65),
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
    with pytest.raises(PlanError, match=r"plan bad\.json: sub_models\[1\]\.slots: must be a power of two"):
        AggregationPlan.parse(json.dumps(BAD["slots not a power of two"]), "bad.json")


def test_the_secret_is_in_a_file_that_only_its_owner_reads(tmp_path):
    file = tmp_path / "plan.json"
    secret_beside(file).write_text("of an older plan")
    made = plan(star(2), Job(secret="0123456789abcdef"))
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
