//! Plans with a fabric.

use serde_json::{Value, json};
use wiresum_protocol::Plan;
use wiresum_protocol::plan::{Cohort, FORMAT, Policy};
use wiresum_wire::ServerNeed;

/// Workers, four as a rule, switches 0 to 2, and a server 3 at switch 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// All workers at switch 2.
    Star,
    /// The first half at switch 0 and the others at switch 1, which hang on switch 2.
    Tree,
    /// As the tree, with a link between switches 0 and 1; where packets name switches, the first half of the values
    /// is summed at 0, the second at 1.
    Triangle,
}

const WINDOW: u32 = 16;
const SERVER: u32 = 3;
const WORKERS: u32 = 4;

/// A plan of four workers whose policy sums at every switch on the way, or where it is addressed to.
pub fn plan(policy: Policy, shape: Shape) -> Plan {
    crowd(policy, shape, WORKERS)
}

/// The same of any number of workers.
pub fn crowd(policy: Policy, shape: Shape, workers: u32) -> Plan {
    let text = document(policy, shape, workers).to_string();
    Plan::from_json(&text).unwrap_or_else(|e| panic!("{policy:?}, {shape:?}, {workers}: {e}"))
}

fn document(policy: Policy, shape: Shape, ranks: u32) -> Value {
    let nodes: Vec<Value> = (0..4)
        .map(|id| json!({ "id": id, "name": format!("n{id}"), "address": format!("10.0.1.{id}:5747") }))
        .collect();
    let workers: Vec<Value> =
        (0..ranks).map(|rank| json!({ "rank": rank, "name": format!("w{rank}") })).collect();
    let slots = 4 * WINDOW * cohorts(ranks);
    let memory: Vec<Value> = (0..3).map(|node| json!({ "node": node, "slots": slots })).collect();
    let streams: Vec<Value> = (0..3).map(|id| stream(policy, shape, id, ranks)).collect();
    // A check has two lanes for each worker, and one more.
    let values = 64.max(2 * ranks + 1).next_multiple_of(8);
    json!({
        "format": FORMAT,
        "job": { "id": 1, "secret": "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "values_per_packet": values, "codec": "fixed:1" },
        "nodes": nodes, "workers": workers, "streams": streams,
        "fabric": { "timeout_s": 0.02, "links": links(ranks), "memory": memory },
    })
}

/// Cohorts of so many workers.
fn cohorts(ranks: u32) -> u32 {
    Cohort::count(ranks as usize) as u32
}

/// The switch that a worker hangs on in a tree.
fn leaf(rank: u32, ranks: u32) -> u32 {
    2 * rank / ranks
}

/// Links 0 and 1: leaves and switch 2; 2: the leaves; 3: the server; then each worker at its leaf, and each at switch 2.
fn links(ranks: u32) -> Vec<Value> {
    let worker =
        |rank: u32| json!({ "at": { "worker": rank }, "address": format!("10.0.0.{rank}:5748") });
    let node = |id: u32| json!({ "at": { "node": id }, "address": format!("10.0.1.{id}:5747") });
    let between = [(0, 2), (2, 1), (0, 1), (2, SERVER)];
    let mut links: Vec<Value> = between.map(|(a, b)| json!([node(a), node(b)])).into();
    links.extend((0..ranks).map(|rank| json!([worker(rank), node(leaf(rank, ranks))])));
    links.extend((0..ranks).map(|rank| json!([node(2), worker(rank)])));
    let name = |(index, ends): (usize, Value)| json!({ "id": format!("l{index}"), "ends": ends });
    links.into_iter().enumerate().map(name).collect()
}

fn stream(policy: Policy, shape: Shape, id: u32, ranks: u32) -> Value {
    let is_addressed = policy.is_addressed();
    let may_end =
        policy.server() == ServerNeed::Never || (policy == Policy::Segment && shape == Shape::Star);
    let ends_at_switch = may_end && cohorts(ranks) == 1;
    let sums = match (shape, id) {
        (Shape::Star, _) => vec![2],
        (Shape::Triangle, 1 | 2) if is_addressed => vec![id - 1],
        (Shape::Tree | Shape::Triangle, _) if is_addressed => vec![2],
        _ if policy == Policy::Segment => vec![0, 1],
        _ => vec![0, 1, 2],
    };
    let base = if policy.shares_slots() { 0 } else { id * WINDOW * cohorts(ranks) };
    let place = |node: &u32| json!({ "node": node, "base": base, "slots": WINDOW });
    let server = (!ends_at_switch).then(|| json!({ "node": SERVER }));
    let places: Vec<Value> = sums.iter().map(place).chain(server).collect();
    let legs: Vec<Value> = legs(shape, &sums, ranks)
        .into_iter()
        .filter(|leg| !ends_at_switch || leg["parent"] != SERVER)
        .collect();
    let (role, share) = if id == 0 { ("exponents", 0.0) } else { ("values", 0.5) };
    json!({ "id": id, "name": format!("s{id}"), "role": role, "share": share, "policy": policy, "window": WINDOW,
            "priority": 3 * id, "places": places, "legs": legs })
}

/// From each worker, and from each switch that sums, to the next switch that does, or to the server.
fn legs(shape: Shape, sums: &[u32], ranks: u32) -> Vec<Value> {
    let leg = |child: Value, parent: u32, links: &[u32]| {
        let links: Vec<_> = links.iter().map(|link| format!("l{link}")).collect();
        json!({ "child": child, "parent": parent, "links": links })
    };
    let worker = |rank: u32| {
        let (child, leaf, own) = (json!({ "worker": rank }), leaf(rank, ranks), 4 + rank);
        match sums {
            [2] if shape == Shape::Star => leg(child, 2, &[own + ranks]),
            [2] => leg(child, 2, &[own, leaf]),
            [at] if *at != leaf => leg(child, *at, &[own, 2]),
            _ => leg(child, leaf, &[own]),
        }
    };
    let switch = |at: &u32| match at {
        2 => leg(json!({ "node": 2 }), SERVER, &[3]),
        _ if sums.contains(&2) => leg(json!({ "node": at }), 2, &[*at]),
        _ => leg(json!({ "node": at }), SERVER, &[*at, 3]),
    };
    (0..ranks).map(worker).chain(sums.iter().map(switch)).collect()
}
