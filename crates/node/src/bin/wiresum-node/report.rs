//! What the daemon prints on stdout.

use serde_json::{Map, Value, json};
use wiresum_node::node::{Counters, Node};

use crate::arguments::Arguments;

/// The line that machines wait for.
pub fn ready(node: &Node) -> String {
    let listen = node.local_address().map_or_else(|e| e.to_string(), |a| a.to_string());
    let (engine, jobs, memory) =
        (node.plane().engine(), node.job_count(), node.plane().memory_bytes());
    let threads = node.plane().threads();
    let node = node.id();
    format!(
        "ready node={node} engine={engine} listen={listen} jobs={jobs} memory_bytes={memory} threads={threads}"
    )
}

/// Datagrams by verdict, and totals.
pub fn counters(arguments: &Arguments, engine: &str, counts: &Counters) -> String {
    if arguments.json {
        let verdicts: Map<_, _> =
            counts.verdicts.iter().map(|(name, n)| ((*name).to_owned(), Value::from(*n))).collect();
        let totals: Map<_, _> =
            counts.totals().map(|(name, n)| (name.to_owned(), Value::from(n))).collect();
        let control: Map<_, _> =
            counts.control.iter().map(|(name, n)| ((*name).to_owned(), Value::from(*n))).collect();
        let transmitter: Map<_, _> = counts
            .transmitters
            .list()
            .map(|(name, n)| (name.to_owned(), Value::from(n)))
            .into_iter()
            .collect();
        let node = arguments.node;
        return json!({ "node": node, "engine": engine, "verdicts": verdicts, "socket": totals, "control": control,
            "transmitter": transmitter })
            .to_string();
    }
    let verdicts = counts.verdicts.iter().copied();
    let rows = verdicts
        .chain(counts.totals())
        .chain(counts.control.iter().copied())
        .chain(counts.transmitters.list())
        .filter(|(_, n)| *n > 0);
    let rows = rows.map(|(name, n)| format!("{name:<20} {n:>14}"));
    let head = format!("{:<20} {:>14}", "verdict", "datagrams");
    std::iter::once(head).chain(rows).collect::<Vec<_>>().join("\n")
}
