//! A small network of switches on loopback: two workers at switch 0, and the server 1 behind it.

#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::atomic::{AtomicU8, Ordering};

use serde_json::{Value, json};
use wiresum_protocol::Plan;

pub const WORKERS: u32 = 2;
pub const SWITCH: u16 = 0;
pub const SERVER: u16 = 1;
pub const VALUES: usize = 64;

/// Addresses that no other test has: 127.x.y.z is this host for all x, y and z.
pub struct Place {
    test: u8,
}

impl Default for Place {
    fn default() -> Self {
        static TESTS: AtomicU8 = AtomicU8::new(0);
        Self { test: TESTS.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Place {
    fn address(&self, index: usize) -> String {
        let process = std::process::id();
        let (x, y) = (64 + process % 128, process / 128 % 256);
        format!("127.{x}.{y}.{}:5747", 16 * usize::from(self.test) + index)
    }

    /// A job whose nodes are the same and whose workers are its own.
    pub fn plan(&self, job: u16, slots: u32) -> Plan {
        let node = |id: u16| json!({ "at": { "node": id }, "address": self.address(id.into()) });
        let host = |rank: u32| self.address(2 + 2 * usize::from(job) + rank as usize);
        let worker = |rank: u32| json!({ "at": { "worker": rank }, "address": host(rank) });
        let ends =
            [[worker(0), node(SWITCH)], [worker(1), node(SWITCH)], [node(SWITCH), node(SERVER)]];
        let link = |(i, ends): (usize, &[Value; 2])| json!({ "id": format!("l{i}"), "ends": ends });
        let links: Vec<Value> = ends.iter().enumerate().map(link).collect();
        let ranks = 0..WORKERS;
        // Checks pass the switch; values are summed there.
        let straight: Vec<Value> = ranks
            .clone()
            .map(|rank| json!({ "child": { "worker": rank }, "parent": SERVER, "links": [format!("l{rank}"), "l2"] }))
            .collect();
        let checks = json!({ "id": 0, "name": "exponents", "role": "exponents", "share": 0, "policy": "hash",
                             "window": 8, "places": [{ "node": SERVER }], "legs": straight });
        let mut legs: Vec<Value> = ranks
            .clone()
            .map(|rank| json!({ "child": { "worker": rank }, "parent": SWITCH, "links": [format!("l{rank}")] }))
            .collect();
        legs.push(json!({ "child": { "node": SWITCH }, "parent": SERVER, "links": ["l2"] }));
        let values = json!({ "id": 1, "name": "values", "role": "values", "share": 1, "policy": "hash", "window": 64,
                             "places": [{ "node": SWITCH, "slots": slots }, { "node": SERVER }], "legs": legs });
        let named = |id: u16| json!({ "id": id, "name": format!("n{id}"), "address": self.address(id.into()) });
        let nodes = [SWITCH, SERVER].map(named);
        let workers: Vec<Value> =
            ranks.map(|rank| json!({ "rank": rank, "name": format!("w{rank}") })).collect();
        let text = json!({
            "format": "wiresum-plan/2",
            "job": { "id": job, "secret": "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "values_per_packet": VALUES, "codec": "fixed:1000" },
            "nodes": nodes,
            "workers": workers,
            "streams": [checks, values],
            "fabric": { "timeout_s": 0.1, "links": links, "memory": [{ "node": SWITCH, "slots": slots }] },
        });
        Plan::from_json(&text.to_string()).expect("a valid plan")
    }
}
