//! Plans with a fabric.

use serde_json::{Value, json};
use wiresum_protocol::Plan;
use wiresum_protocol::plan::fabric::SwitchPolicy;
use wiresum_wire::ServerNeed;

/// Four workers, switches 0 to 2, and a server 3 at switch 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// All workers at switch 2.
    Star,
    /// Two at switch 0 and two at switch 1, which hang on switch 2.
    Tree,
    /// As the tree, with a link between switches 0 and 1; where packets name switches, the first half of the values
    /// is summed at 0, the second at 1.
    Triangle,
}

const WINDOW: u32 = 16;

/// A plan whose policy sums at every switch on the way, or where it is addressed to.
pub fn plan(policy: SwitchPolicy, shape: Shape) -> Plan {
    let text = document(policy, shape).to_string();
    Plan::from_json(&text).unwrap_or_else(|e| panic!("{policy:?}, {shape:?}: {e}"))
}

fn document(policy: SwitchPolicy, shape: Shape) -> Value {
    let children: Vec<Value> = (0..4).map(|rank| json!({ "worker": rank })).collect();
    let tree = json!([{ "node": 3, "children": children }]);
    let sub_models: Vec<Value> = [("exponents", 0.0), ("values", 0.5), ("values", 0.5)]
        .iter()
        .enumerate()
        .map(|(id, (role, share))| {
            json!({ "id": id, "name": format!("s{id}"), "role": role, "share": share, "policy": "pool",
                    "slots": WINDOW, "window": WINDOW, "tree": tree })
        })
        .collect();
    let nodes: Vec<Value> = (0..4)
        .map(|id| json!({ "id": id, "name": format!("n{id}"), "address": format!("10.0.1.{id}:5747") }))
        .collect();
    let workers: Vec<Value> =
        (0..4).map(|rank| json!({ "rank": rank, "name": format!("w{rank}") })).collect();
    json!({
        "format": "wiresum-plan/1",
        "job": { "id": 1, "secret": "0123456789abcdef", "values_per_packet": 64, "codec": "fixed:1" },
        "nodes": nodes, "workers": workers, "sub_models": sub_models, "fabric": fabric(policy, shape),
    })
}

fn fabric(policy: SwitchPolicy, shape: Shape) -> Value {
    let memory: Vec<Value> =
        (0..3).map(|node| json!({ "node": node, "slots": 4 * WINDOW })).collect();
    let streams: Vec<Value> = (0..3).map(|id| stream(policy, shape, id)).collect();
    json!({ "policy": policy, "timeout_s": 0.02, "links": links(), "memory": memory, "streams": streams })
}

/// Links 0 to 3: each worker at its leaf; 4 and 5: leaves and switch 2; 6: the leaves; 7: the server; 8 to 11: each
/// worker at switch 2.
fn links() -> Vec<Value> {
    let worker =
        |rank: u64| json!({ "at": { "worker": rank }, "address": format!("10.0.0.{rank}:5748") });
    let node = |id: u64| json!({ "at": { "node": id }, "address": format!("10.0.1.{id}:5747") });
    let mut links: Vec<Value> = (0..4).map(|rank| json!([worker(rank), node(rank / 2)])).collect();
    links.extend([(0, 2), (2, 1), (0, 1), (2, 3)].map(|(a, b)| json!([node(a), node(b)])));
    links.extend((0..4).map(|rank| json!([node(2), worker(rank)])));
    let name = |(index, ends): (usize, Value)| json!({ "id": format!("l{index}"), "ends": ends });
    links.into_iter().enumerate().map(name).collect()
}

fn stream(policy: SwitchPolicy, shape: Shape, id: u32) -> Value {
    let is_addressed = policy.is_addressed();
    let ends_at_switch = policy.server() == ServerNeed::Never
        || (policy == SwitchPolicy::Segment && shape == Shape::Star);
    let ways: Vec<Value> =
        (0..4).map(|rank| way(is_addressed, ends_at_switch, shape, id, rank)).collect();
    let sums = match (shape, id) {
        (Shape::Star, _) => vec![2],
        (Shape::Triangle, 1 | 2) if is_addressed => vec![id - 1],
        (Shape::Tree | Shape::Triangle, _) if is_addressed => vec![2],
        _ if policy == SwitchPolicy::Segment => vec![0, 1],
        _ => vec![0, 1, 2],
    };
    let base = if policy.shares_slots() { 0 } else { id * WINDOW };
    let place = |node: &u32| json!({ "node": node, "base": base, "slots": WINDOW });
    let places: Vec<Value> = sums.iter().map(place).collect();
    json!({ "sub_model": id, "priority": 3 * id, "places": places, "ways": ways })
}

fn way(is_addressed: bool, ends_at_switch: bool, shape: Shape, id: u32, rank: u32) -> Value {
    let (leaf, up) = (rank / 2, 4 + rank / 2);
    let to_top = if shape == Shape::Star { vec![8 + rank] } else { vec![rank, up] };
    let legs = match (is_addressed, shape, id) {
        (false, ..) if ends_at_switch => json!([{ "links": to_top }]),
        (false, ..) => json!([{ "links": ([to_top, vec![7]].concat()) }]),
        (true, Shape::Triangle, 1 | 2) => {
            let at = id - 1;
            let first = if leaf == at { vec![rank] } else { vec![rank, 6] };
            json!([{ "node": at, "links": first }, { "node": 3, "links": [4 + at, 7] }])
        }
        (true, ..) => json!([{ "node": 2, "links": to_top }, { "node": 3, "links": [7] }]),
    };
    json!({ "worker": rank, "legs": legs })
}
