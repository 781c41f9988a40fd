//! Golden traces: `spec/vectors/traces/*.json` hold datagrams for one aggregator with the verdict and the packets that must
//! follow. The reference makes them; every data plane replays them.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use wiresum_protocol::{Aggregator, Plan, Recipients, Verdict};
use wiresum_testkit::traffic::aggregator::{RandomTraffic, Step};
use wiresum_wire::control::Absent;
use wiresum_wire::{Exchange, Header, MAX_PACKET, NodeId};
use zerocopy::FromBytes;

/// Steps of a trace after the joining; some tens of kilobytes.
const STEPS: usize = 70;
/// Name, node of the plan and seed of each trace; together they show every verdict.
const TRACES: [(&str, u16, u64); 7] = [
    ("root-1", 0, 1),
    ("root-2", 0, 2),
    ("root-absent", 0, 3),
    ("inner-1", 1, 1),
    ("inner-2", 1, 4),
    ("root-proven", 0, 88),
    ("inner-proven", 1, 63),
];
/// How names of traces end whose values are proven.
const PROVEN: &str = "proven";
/// How names of traces end of a job that goes on without a worker, one of those below node 1.
const ABSENT: (&str, u32) = ("absent", 2);

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Trace {
    description: String,
    plan: Plan,
    node: u16,
    steps: Vec<TraceStep>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct TraceStep {
    source: SocketAddr,
    /// In hexadecimal.
    datagram: String,
    verdict: String,
    packets: Vec<TracePacket>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct TracePacket {
    to: SocketAddr,
    /// In hexadecimal.
    bytes: String,
}

impl From<Step> for TraceStep {
    fn from(step: Step) -> Self {
        let packets =
            step.packets.iter().map(|(to, bytes)| TracePacket { to: *to, bytes: hex(bytes) });
        Self {
            source: step.source,
            datagram: hex(&step.datagram),
            verdict: step.outcome.verdict.name().to_owned(),
            packets: packets.collect(),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let byte = |i| u8::from_str_radix(&hex[i..i + 2], 16).expect("hexadecimal digits");
    (0..hex.len()).step_by(2).map(byte).collect()
}

fn path(name: &str) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../spec/vectors/traces");
    PathBuf::from(folder).join(format!("{name}.json"))
}

fn generate(name: &str, node: u16, seed: u64) -> Trace {
    let mut plan = Plan::from_json(include_str!("plans/tree.json")).expect("a valid plan");
    plan.job.proven = name.ends_with(PROVEN);
    let absent = name.ends_with(ABSENT.0).then_some(ABSENT.1);
    let absent = Absent::of(absent).expect("a rank that can be named");
    let mut traffic = RandomTraffic::new(&plan, NodeId(node), seed).without(absent);
    let mut steps = traffic.joining();
    steps.extend(traffic.take(STEPS));
    let description =
        format!("random traffic for node {node}, seed {seed}, as the reference handles it");
    Trace { description, plan, node, steps: steps.into_iter().map(TraceStep::from).collect() }
}

/// What an aggregator that knows nothing of the generator makes of a trace's datagrams.
fn replay(trace: &Trace) -> Vec<TraceStep> {
    let mut aggregator = Aggregator::new(&trace.plan, NodeId(trace.node));
    trace.steps.iter().map(|step| replay_step(&mut aggregator, step)).collect()
}

fn replay_step(aggregator: &mut Aggregator, step: &TraceStep) -> TraceStep {
    let datagram = bytes(&step.datagram);
    let mut buffer = [0; MAX_PACKET];
    buffer[..datagram.len()].copy_from_slice(&datagram);
    let outcome = aggregator.handle_datagram(step.source, &mut buffer, datagram.len());
    let packet = &mut buffer[..outcome.len];
    let packets = match outcome.recipients {
        Recipients::None | Recipients::ControlHalf => Vec::new(),
        Recipients::One(to) => vec![TracePacket { to, bytes: hex(packet) }],
        Recipients::Children => (0..aggregator.child_count())
            .filter_map(|child| {
                let to = aggregator.address_to_child(child, packet)?;
                Some(TracePacket { to, bytes: hex(packet) })
            })
            .collect(),
    };
    let verdict = outcome.verdict.name().to_owned();
    TraceStep { source: step.source, datagram: step.datagram.clone(), verdict, packets }
}

/// Every step on a line of its own, so that a difference can be read.
fn print(trace: &Trace) -> String {
    let steps: Vec<String> = trace.steps.iter().map(|step| format!("    {}", json(step))).collect();
    let (description, plan) = (json(&trace.description), json(&trace.plan));
    let steps = steps.join(",\n");
    format!(
        "{{\n  \"description\": {description},\n  \"plan\": {plan},\n  \"node\": {},\n  \"steps\": [\n{steps}\n  ]\n}}\n",
        trace.node
    )
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("plain data serialises")
}

#[expect(clippy::disallowed_methods, reason = "golden traces are files")]
fn read(name: &str) -> Trace {
    let text = fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    serde_json::from_str(&text).expect("a trace")
}

#[test]
fn the_reference_replays_every_trace() {
    for (name, ..) in TRACES {
        let trace = read(name);
        for (index, (step, replayed)) in trace.steps.iter().zip(replay(&trace)).enumerate() {
            assert_eq!(*step, replayed, "trace {name}, step {index}");
        }
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "new traces are asked for from outside")]
fn the_traces_are_those_of_their_seeds() {
    for (name, node, seed) in TRACES {
        let trace = generate(name, node, seed);
        if std::env::var("WIRESUM_BLESS").is_ok() {
            fs::write(path(name), print(&trace)).expect("the trace can be written");
        }
        assert!(
            read(name) == trace,
            "trace {name} has changed: WIRESUM_BLESS=1 cargo test -p wiresum-protocol --test traces writes it anew"
        );
    }
}

#[test]
fn the_traces_show_every_exchange() {
    let steps = TRACES.into_iter().flat_map(|(name, ..)| read(name).steps);
    let ended: Vec<Exchange> = steps
        .filter(|step| step.verdict == Verdict::Completed.name())
        .map(|step| {
            let datagram = bytes(&step.datagram);
            let (header, _) = Header::read_from_prefix(&datagram).expect("a header");
            Exchange(header.priority)
        })
        .collect();
    for form in [(false, false), (false, true), (true, false), (true, true)] {
        let is_of = |exchange: &Exchange| (exchange.is_copy(), exchange.taker().is_some()) == form;
        assert!(ended.iter().any(is_of), "no trace shows a copy, or one taker: {form:?}");
    }
}

#[test]
fn the_traces_show_every_verdict() {
    let traces = TRACES.map(|(name, ..)| read(name));
    let seen: Vec<&String> =
        traces.iter().flat_map(|t| t.steps.iter().map(|s| &s.verdict)).collect();
    // Traces have neither a clock nor several CPUs; `aggregator` and `crates/xdp` test what those do on their own.
    let beyond = [Verdict::OverQuota, Verdict::Contended];
    let can_occur = |verdict: &&Verdict| !beyond.contains(verdict);
    let unseen: Vec<_> = Verdict::AGGREGATOR
        .iter()
        .filter(can_occur)
        .filter(|v| !seen.contains(&&v.name().to_owned()))
        .collect();
    assert!(unseen.is_empty(), "no trace shows {unseen:?}");
}
