//! Plans with a fabric.

use serde_json::{Value, json};
use wiresum_protocol::Plan;
use wiresum_protocol::plan::{FORMAT, Policy};
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
const SERVER: u32 = 3;

/// A plan whose policy sums at every switch on the way, or where it is addressed to.
pub fn plan(policy: Policy, shape: Shape) -> Plan {
    let text = document(policy, shape).to_string();
    Plan::from_json(&text).unwrap_or_else(|e| panic!("{policy:?}, {shape:?}: {e}"))
}

fn document(policy: Policy, shape: Shape) -> Value {
    let nodes: Vec<Value> = (0..4)
        .map(|id| json!({ "id": id, "name": format!("n{id}"), "address": format!("10.0.1.{id}:5747") }))
        .collect();
    let workers: Vec<Value> =
        (0..4).map(|rank| json!({ "rank": rank, "name": format!("w{rank}") })).collect();
    let memory: Vec<Value> =
        (0..3).map(|node| json!({ "node": node, "slots": 4 * WINDOW })).collect();
    let streams: Vec<Value> = (0..3).map(|id| stream(policy, shape, id)).collect();
    json!({
        "format": FORMAT,
        "job": { "id": 1, "secret": "0123456789abcdef", "values_per_packet": 64, "codec": "fixed:1" },
        "nodes": nodes, "workers": workers, "streams": streams,
        "fabric": { "timeout_s": 0.02, "links": links(), "memory": memory },
    })
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

fn stream(policy: Policy, shape: Shape, id: u32) -> Value {
    let is_addressed = policy.is_addressed();
    let ends_at_switch =
        policy.server() == ServerNeed::Never || (policy == Policy::Segment && shape == Shape::Star);
    let sums = match (shape, id) {
        (Shape::Star, _) => vec![2],
        (Shape::Triangle, 1 | 2) if is_addressed => vec![id - 1],
        (Shape::Tree | Shape::Triangle, _) if is_addressed => vec![2],
        _ if policy == Policy::Segment => vec![0, 1],
        _ => vec![0, 1, 2],
    };
    let base = if policy.shares_slots() { 0 } else { id * WINDOW };
    let place = |node: &u32| json!({ "node": node, "base": base, "slots": WINDOW });
    let server = (!ends_at_switch).then(|| json!({ "node": SERVER }));
    let places: Vec<Value> = sums.iter().map(place).chain(server).collect();
    let legs: Vec<Value> = legs(shape, &sums)
        .into_iter()
        .filter(|leg| !ends_at_switch || leg["parent"] != SERVER)
        .collect();
    let (role, share) = if id == 0 { ("exponents", 0.0) } else { ("values", 0.5) };
    json!({ "id": id, "name": format!("s{id}"), "role": role, "share": share, "policy": policy, "window": WINDOW,
            "priority": 3 * id, "places": places, "legs": legs })
}

/// From each worker, and from each switch that sums, to the next switch that does, or to the server.
fn legs(shape: Shape, sums: &[u32]) -> Vec<Value> {
    let leg = |child: Value, parent: u32, links: &[u32]| {
        let links: Vec<_> = links.iter().map(|link| format!("l{link}")).collect();
        json!({ "child": child, "parent": parent, "links": links })
    };
    let worker = |rank: u32| {
        let (child, leaf) = (json!({ "worker": rank }), rank / 2);
        match sums {
            [2] if shape == Shape::Star => leg(child, 2, &[8 + rank]),
            [2] => leg(child, 2, &[rank, 4 + leaf]),
            [at] if *at != leaf => leg(child, *at, &[rank, 6]),
            _ => leg(child, leaf, &[rank]),
        }
    };
    let switch = |at: &u32| match at {
        2 => leg(json!({ "node": 2 }), SERVER, &[7]),
        _ if sums.contains(&2) => leg(json!({ "node": at }), 2, &[4 + at]),
        _ => leg(json!({ "node": at }), SERVER, &[4 + at, 7]),
    };
    (0..4).map(worker).chain(sums.iter().map(switch)).collect()
}
