//! Documents and requests that are nearly right: they are read or refused, and what was read can be asked for what a daemon
//! asks a plan for.

use serde_json::{Value, json};
use wiresum_netem::Rng;
use wiresum_node::node::Node;
use wiresum_node::service::{Limits, Request};
use wiresum_protocol::Plan;
use wiresum_protocol::plan::Schedule;
use wiresum_sparse::live::Job;
use wiresum_testkit::seeds::for_each_seed;
use wiresum_wire::NodeId;

const TREE: &str = include_str!("../../protocol/tests/plans/tree.json");
const VERSION_1: &str = include_str!("../../plan/tests/plans/version1.json");
const EXAMPLE: &str = include_str!("../../../spec/example-plan.json");
/// Mutants of each document.
const MUTANTS: u64 = 1000;
/// Changes to one mutant; more would be refused for the first.
const MOST_CHANGES: u64 = 3;

fn replay(seed: u64, text: &str, read: impl Fn(&str) -> bool) {
    let rng = &mut Rng::new(seed);
    let mut text = text.to_owned();
    if rng.chance(0.7) {
        let mut document: Value = serde_json::from_str(&text).expect("JSON");
        (0..=rng.below(MOST_CHANGES)).for_each(|_| change(&mut document, rng));
        text = document.to_string();
    } else {
        (0..=rng.below(MOST_CHANGES)).for_each(|_| text = noisy(&text, rng));
    }
    read(&text);
}

/// Replaces, adds or takes away something at a random place.
fn change(document: &mut Value, rng: &mut Rng) {
    let goes_on = rng.chance(0.8);
    match document {
        Value::Object(fields) if goes_on && !fields.is_empty() => {
            let index = rng.below(fields.len() as u64) as usize;
            let name = fields.keys().nth(index).expect("within").clone();
            match rng.below(12) {
                0 => drop(fields.remove(&name)),
                1 => drop(fields.insert("x".repeat(1 + index * 1000), wrong(rng))),
                _ => change(&mut fields[&name], rng),
            }
        }
        Value::Array(items) if goes_on && !items.is_empty() => {
            let index = rng.below(items.len() as u64) as usize;
            match rng.below(12) {
                0 => drop(items.remove(index)),
                1 => items.push(items[index].clone()),
                2 => items.extend(vec![items[index].clone(); 300]),
                _ => change(&mut items[index], rng),
            }
        }
        other => *other = wrong(rng),
    }
}

fn wrong(rng: &mut Rng) -> Value {
    let numbers =
        [0, 1, 2, 63, 64, 255, 256, 65_535, 65_536, 1 << 22, (1 << 32) - 1, 1 << 32, u64::MAX];
    match rng.below(8) {
        0 => Value::Null,
        1 => json!(-1),
        2 => json!(0.5),
        3 => json!(1e300),
        4 => json!("0.0.0.0:0"),
        5 => json!([[]]),
        6 => json!("\u{0}é".repeat(5000)),
        _ => json!(numbers[rng.below(numbers.len() as u64) as usize]),
    }
}

/// The text with something taken out of it, or put into it.
fn noisy(text: &str, rng: &mut Rng) -> String {
    const NOISE: [&str; 8] = ["[", "}", "\"", ",", "\\", "\0", "1e999", "99999999999999999999"];
    let letters: Vec<char> = text.chars().collect();
    let at = rng.below(letters.len() as u64 + 1) as usize;
    let end = (at + rng.below(20) as usize).min(letters.len());
    let (before, after) = (letters[..at].iter(), letters[end..].iter());
    match rng.below(3) {
        0 => before.collect(),
        1 => before.chain(after).collect(),
        _ => {
            let noise: Vec<char> = NOISE[rng.below(8) as usize].chars().collect();
            before.chain(&noise).chain(&letters[at..]).collect()
        }
    }
}

/// Reads mutants of a document that is right: that none ends the process is the property, and what `read` asserts.
fn read_mutants(test: &str, text: &str, read: impl Fn(&str) -> bool) {
    assert!(read(text), "{text}");
    let test = format!("-p wiresum-node --test documents {test}");
    for_each_seed(&test, 1, MUTANTS, |seed| replay(seed, text, &read));
}

#[test]
fn plans() {
    for text in [TREE, VERSION_1, EXAMPLE] {
        read_mutants("plans", text, |text| {
            let Ok(plan) = Plan::from_json(text) else { return false };
            let again = Plan::from_json(&serde_json::to_string(&plan).expect("JSON"));
            assert_eq!(again.expect("what was read can be written").digest(), plan.digest());
            for node in plan.nodes.iter().take(4) {
                let limits = Limits { memory_bytes: Some(1 << 30), ..Limits::default() };
                let _ = Node::require_memory(std::slice::from_ref(&plan), NodeId(node.id), limits);
                let _ = plan.keys_of(NodeId(node.id));
            }
            true
        });
    }
}

#[test]
fn schedules() {
    let plan: Value = serde_json::from_str(TREE).expect("JSON");
    let interval = json!({ "from_s": 0.0, "until_s": 1.0, "circuits": [], "plans": { "7": plan } });
    let schedule = json!({ "format": "wiresum-schedule/1", "intervals": [interval] });
    read_mutants("schedules", &schedule.to_string(), |text| Schedule::from_json(text).is_ok());
}

#[test]
fn requests() {
    let plan: Value = serde_json::from_str(TREE).expect("JSON");
    for request in [
        json!({ "version": 1, "request": "add", "plan": plan, "quota": { "memory_bytes": 7 } }),
        json!({ "version": 1, "request": "quota", "job": 7, "quota": { "bytes_per_second": 5 } }),
        json!({ "version": 1, "request": "take_over", "versions": { "state": 1, "layout": 2 } }),
    ] {
        read_mutants("requests", &request.to_string(), |text| Request::parse(text).is_ok());
    }
}

#[test]
fn sparse_jobs() {
    let hot: Vec<_> = (0..10).map(|key| json!([2, key, key, "A"])).collect();
    let job = json!({
        "format": "wiresum-sparse-job/1", "id": 3, "workers": 2, "secret": "11".repeat(32),
        "servers": ["127.0.0.1:7000"], "switches": ["127.0.0.1:7001"], "packet_bytes": 300,
        "tables": [{
            "id": 2, "name": "users", "rows": {"counted": 100}, "dim": 8, "seed": 1,
            "optimizer": {"name": "sgd", "lr": 1.0}, "initial": "zeros",
        }],
        "hot": {"format": "wiresum-hot-map/1", "version": 1, "dim": 8, "positions": 10, "rows": hot},
        "tracking": {"name": "decaying", "period": 2, "per_round": 0.5},
        "memory_bytes": 1 << 20,
    });
    read_mutants("sparse_jobs", &job.to_string(), |text| Job::from_json(text).is_ok());
}
