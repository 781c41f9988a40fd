//! Plans for clusters, in a few words.

use wiresum_protocol::Plan;
use wiresum_protocol::plan::{Child, PlanStream, Policy, Role};

/// A tree for plans: nodes with their children.
pub struct Tree(pub Vec<(u16, Option<u16>, Vec<Child>)>);

impl Tree {
    /// All workers at the root.
    pub fn star(workers: u32) -> Self {
        Self(vec![(0, None, (0..workers).map(Child::Worker).collect())])
    }

    /// The root sums worker 0 and two nodes; below one of these is a third level.
    pub fn three_levels() -> Self {
        use Child::{Node, Worker};
        Self(vec![
            (0, None, vec![Worker(0), Node(1), Node(2)]),
            (1, Some(0), vec![Worker(1), Node(3)]),
            (2, Some(0), vec![Worker(2), Worker(3)]),
            (3, Some(1), vec![Worker(4), Worker(5)]),
        ])
    }

    /// Two servers with two workers each, and one worker at the root.
    pub fn two_servers() -> Self {
        use Child::{Node, Worker};
        Self(vec![
            (0, None, vec![Node(1), Worker(4), Node(2)]),
            (1, Some(0), vec![Worker(0), Worker(1)]),
            (2, Some(0), vec![Worker(2), Worker(3)]),
        ])
    }
}

/// One stream of values of a plan.
pub struct Values {
    /// Part of the values.
    pub share: f64,
    /// Policy of its slots.
    pub policy: &'static str,
    /// Slots at every node.
    pub slots: u32,
    /// Positions under way at once.
    pub window: u32,
}

/// A stream with few slots.
pub const POOL: Values = Values { share: 1.0, policy: "pool", slots: 16, window: 8 };
/// A stream with many slots, which collide.
pub const CACHE: Values = Values { share: 1.0, policy: "cache", slots: 256, window: 32 };

/// A plan over one tree, with small packets.
pub fn plan(tree: &Tree, streams: &[Values]) -> Plan {
    plan_with(tree, streams, 64, "int32-le")
}

/// A plan over one tree, with packets of this size and these lanes.
pub fn plan_with(tree: &Tree, streams: &[Values], values_per_packet: u16, lanes: &str) -> Plan {
    let legs: Vec<_> = tree
        .0
        .iter()
        .flat_map(|(node, _, children)| {
            children.iter().map(move |child| serde_json::json!({ "child": child, "parent": node }))
        })
        .collect();
    let exponents = Values { share: 0.0, policy: "pool", slots: 8, window: 4 };
    let streams: Vec<_> = std::iter::once(&exponents).chain(streams).enumerate().map(|(id, s)| {
        let role = if id == 0 { "exponents" } else { "values" };
        let place = |node: &u16| serde_json::json!({ "node": node, "slots": s.slots });
        let places: Vec<_> = tree.0.iter().map(|(node, ..)| place(node)).collect();
        serde_json::json!({ "id": id, "name": format!("stream{id}"), "role": role, "share": s.share, "policy": s.policy,
            "window": s.window, "places": places, "legs": legs })
    }).collect();
    let nodes: Vec<_> = tree.0.iter().map(|(id, ..)| {
        serde_json::json!({ "id": id, "name": format!("n{id}"), "address": format!("10.0.0.{id}:5747") })
    }).collect();
    let of_workers =
        |children: &Vec<Child>| children.iter().filter(|c| matches!(c, Child::Worker(_))).count();
    let count: usize = tree.0.iter().map(|(.., children)| of_workers(children)).sum();
    let workers: Vec<_> =
        (0..count).map(|r| serde_json::json!({ "rank": r, "name": format!("w{r}") })).collect();
    let text = serde_json::json!({
        "format": "wiresum-plan/2",
        "job": { "id": 1, "secret": "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "values_per_packet": values_per_packet, "lanes": lanes },
        "nodes": nodes, "workers": workers, "streams": streams,
    });
    Plan::from_json(&text.to_string()).expect("a valid plan")
}

/// The plan with streams of parts and of copies, which have so many slots and windows: stars about its root. They have no
/// share, as plans of before several could share.
pub fn with_exchanges(plan: Plan, slots: u32, window: u32) -> Plan {
    let root = plan.streams[0].root().expect("a tree").0;
    with_exchanges_at(plan, &[(root, 0.0)], slots, window)
}

/// The same about several nodes, each with its share.
pub fn with_exchanges_at(mut plan: Plan, servers: &[(u16, f64)], slots: u32, window: u32) -> Plan {
    let roles = [Role::Parts, Role::Copies, Role::Acknowledgements, Role::Acknowledgements];
    let streams = roles.into_iter().flat_map(|role| servers.iter().map(move |s| (role, *s)));
    for (id, (role, (node, share))) in (plan.streams.len() as u16..).zip(streams) {
        let (share, policy, slots, window) = match role {
            Role::Acknowledgements => (0.0, Policy::Pool, 8, 4),
            _ => (share, Policy::Cache, slots, window),
        };
        let star = star_about(node, &plan.streams[0]);
        let name = format!("stream{id}");
        let stream = PlanStream { id, name, role, share, policy, window, ..star };
        plan.streams.push(stream.with_slots(slots));
    }
    plan.validate().expect("a valid plan");
    plan
}

/// A stream of a tree with every worker at this node.
fn star_about(node: u16, stream: &PlanStream) -> PlanStream {
    let mut star = stream.clone();
    star.places.retain(|place| place.node == node);
    star.legs.retain(|leg| matches!(leg.child, Child::Worker(_)));
    star.legs.iter_mut().for_each(|leg| leg.parent = node);
    star.legs.sort_by_key(|leg| match leg.child {
        Child::Worker(rank) => rank,
        Child::Node(_) => u32::MAX,
    });
    star
}
