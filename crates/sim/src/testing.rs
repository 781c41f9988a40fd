//! Scenarios for tests.

use serde_json::{Value, json};

use crate::scenario::{Direction, Distribution, Stream};
use crate::{Record, Scenario, SimulationError, simulate};

/// A tree: nodes with their parents and children, sites in the order root, other nodes, workers.
pub struct Tree(pub Vec<(u16, Option<u16>, Vec<Value>)>);

fn worker(rank: u32) -> Value {
    json!({ "worker": rank })
}

impl Tree {
    /// Everyone at one node.
    pub fn star(workers: u32) -> Self {
        Self(vec![(0, None, (0..workers).map(worker).collect())])
    }

    /// A root with two nodes, two workers at each.
    pub fn two_levels() -> Self {
        let node = |id: u16| json!({ "node": id });
        Self(vec![
            (0, None, vec![node(1), node(2)]),
            (1, Some(0), vec![worker(0), worker(1)]),
            (2, Some(0), vec![worker(2), worker(3)]),
        ])
    }

    fn workers(&self) -> usize {
        self.0.iter().flat_map(|(.., children)| children).filter(|c| c["worker"].is_u64()).count()
    }

    /// Child and parent as sites, children before the workers below them.
    fn edges(&self) -> Vec<(usize, usize)> {
        let site = |child: &Value| match child["node"].as_u64() {
            Some(node) => node as usize,
            None => self.0.len() + child["worker"].as_u64().expect("a worker") as usize,
        };
        let below = |(node, _, children): &(u16, Option<u16>, Vec<Value>)| {
            let parent = *node as usize;
            children.iter().map(|child| (site(child), parent)).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(below).collect()
    }

    /// The plan of nodes `n0`, `n1`, … and workers `w0`, `w1`, ….
    pub fn plan(&self, policy: &str) -> Value {
        let below = |(node, _, children): &(u16, Option<u16>, Vec<Value>)| {
            let leg = |child: &Value| json!({ "child": child, "parent": node });
            children.iter().map(leg).collect::<Vec<_>>()
        };
        let legs: Vec<Value> = self.0.iter().flat_map(below).collect();
        let stream = |id: u16, role: &str, share: f64, policy: &str, slots: u32, window: u32| {
            let place = |(node, ..): &(u16, Option<u16>, Vec<Value>)| json!({ "node": node, "slots": slots });
            let places: Vec<Value> = self.0.iter().map(place).collect();
            json!({ "id": id, "name": role, "role": role, "share": share, "policy": policy, "window": window,
                "places": places, "legs": legs })
        };
        let node = |(id, ..): &(u16, Option<u16>, Vec<Value>)| json!({ "id": id, "name": format!("n{id}"), "address": format!("10.0.0.{id}:5747") });
        let worker = |rank| json!({ "rank": rank, "name": format!("w{rank}") });
        json!({
            "format": "wiresum-plan/2",
            "job": { "id": 1, "secret": "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "values_per_packet": 256 },
            "nodes": self.0.iter().map(node).collect::<Vec<_>>(),
            "workers": (0..self.workers()).map(worker).collect::<Vec<_>>(),
            "streams": [
                stream(0, "exponents", 0.0, "pool", 8, 4),
                stream(1, "values", 1.0, policy, 1024, 64),
            ],
        })
    }
}

/// Every link: 1 Gbit/s, 5 µs, no misfortune.
pub const GIGABIT: Direction = Direction {
    rate_bps: Some(1e9),
    delay_s: 5e-6,
    queue_bytes: 1 << 20,
    ecn_bytes: None,
    loss: 0.0,
    duplication: 0.0,
    reordering: 0.0,
    jitter_s: 0.0,
};

/// A job along a tree; each child has a link to its parent.
pub fn scenario(tree: &Tree, policy: &str, bytes: u64, direction: Direction) -> Scenario {
    let edges = tree.edges();
    let site = |name: String| json!({ "name": name, "forwards": false, "adding_bps": null });
    let nodes = (0..tree.0.len()).map(|id| site(format!("n{id}")));
    let sites: Vec<_> =
        nodes.chain((0..tree.workers()).map(|rank| site(format!("w{rank}")))).collect();
    let base = json!({
        "fidelity": "packets", "seed": 1, "patience_s": 60.0, "check_sums": true,
        "sites": sites, "links": [], "jobs": [],
    });
    let mut made: Scenario = serde_json::from_value(base).expect("a valid scenario");
    let link = |(index, &(child, parent)): (usize, &(usize, usize))| crate::scenario::Link {
        id: format!("l{index}"),
        source: child,
        target: parent,
        forward: direction,
        backward: direction,
    };
    made.links = edges.iter().enumerate().map(link).collect();
    let none = json!({ "kind": "constant", "seconds": 0.0 });
    let job = json!({
        "name": "job", "plan": tree.plan(policy), "bytes": bytes, "rounds": 2, "streams": [], "barrier": true,
        "workers": vec![json!({ "start": none, "compute": none }); tree.workers()],
    });
    made.jobs = vec![serde_json::from_value(job).expect("a valid job")];
    let wire_bytes = bytes as f64 * (1.0 + 80.0 / 1024.0);
    made.jobs[0].streams = vec![Stream {
        name: "values".into(),
        collective: 0,
        edges,
        wire_bytes,
        shares: Vec::new(),
        lockstep: policy == "pool",
        ways: Vec::new(),
        is_copied: false,
    }];
    made
}

/// Runs a scenario; everything that it says.
pub fn records(scenario: &Scenario) -> Result<Vec<Record>, SimulationError> {
    let mut records = Vec::new();
    simulate(scenario, &mut |record| {
        records.push(record.clone());
        true
    })?;
    Ok(records)
}

/// Seconds of each collective, from the first worker's gradients to the last one's sums.
pub fn rounds(records: &[Record]) -> Vec<f64> {
    let of = |record: &Record| match record {
        Record::Round { begin_s, end_s, .. } => Some(end_s - begin_s),
        _ => None,
    };
    records.iter().filter_map(of).collect()
}

/// The hash of everything that happened.
pub fn trace(records: &[Record]) -> String {
    match records.last() {
        Some(Record::End { trace, .. }) => trace.clone(),
        other => panic!("{other:?} is not the end"),
    }
}

/// Always the same.
pub fn constant(seconds: f64) -> Distribution {
    Distribution::Constant { seconds }
}

/// Slices of every direction that has some add up to its bytes.
pub fn assert_slices_add_up(records: &[Record]) {
    let mut compared = 0;
    for record in records {
        let Record::Link { link, source, wire_bytes, dropped_bytes: 0, lost_bytes: 0, .. } = record
        else {
            continue;
        };
        let of_link = |other: &Record| match other {
            Record::Slice { link: of, source: from, wire_bytes, .. }
                if of == link && from == source =>
            {
                Some(*wire_bytes)
            }
            _ => None,
        };
        let sliced: f64 = records.iter().filter_map(of_link).sum();
        assert!(
            (sliced - wire_bytes).abs() <= 1e-6 * wire_bytes,
            "{link}: {sliced} of {wire_bytes}"
        );
        compared += usize::from(sliced > 0.0);
    }
    assert!(compared > 0, "there are no slices");
}
