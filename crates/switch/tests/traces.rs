//! Golden traces: `spec/vectors/switch/*.json` hold datagrams for one switch with the verdict and the datagram that must follow, and what
//! the registers hold in the end. The reference makes them; every data plane replays them.

use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use wiresum_switch::policy::Policy;
use wiresum_switch::rmt::Profile;
use wiresum_switch::{Cohort, Contributors, Egress, Place, Switch, Values, Verdict, wire};
use wiresum_testkit::traffic::switch::RandomTraffic;
use wiresum_wire::{Flags, JobId, JobKey, NodeId, SubModelId};

/// Steps of a trace; some tens of kilobytes.
const STEPS: usize = 140;
const KEY: JobKey = JobKey(0x0123_4567);
const FORMAT: &str = "wiresum-switch-trace/1";

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Trace {
    format: String,
    policy: String,
    /// The switch's number.
    node: u16,
    slots: u32,
    values_per_packet: u32,
    places: Vec<TracePlace>,
    /// Jobs of which the switch has forgotten what it held; left out where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    forgotten: Vec<u16>,
    steps: Vec<Step>,
    /// By name: what each cell holds in the end.
    registers: Vec<(String, Vec<u64>)>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct TracePlace {
    job: u16,
    sub_model: u16,
    #[serde(default, skip_serializing_if = "is_zero")]
    cohort: u8,
    members: u64,
    parent: Option<u16>,
    base: u32,
    slots: u32,
    window: u32,
    /// The format flags that say how lanes are merged; left out where 32-bit lanes are summed.
    #[serde(default, skip_serializing_if = "is_zero")]
    lanes: u16,
}

fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Step {
    /// In hexadecimal.
    arrives: String,
    verdict: String,
    /// `up`, `down`, or nothing.
    egress: Option<String>,
    /// In hexadecimal.
    leaves: Option<String>,
}

impl From<&Place> for TracePlace {
    fn from(place: &Place) -> Self {
        Self {
            job: place.job.0,
            sub_model: place.sub_model.0,
            cohort: place.cohort.0,
            members: place.members.0,
            parent: place.parent.map(|node| node.0),
            base: place.base,
            slots: place.slots,
            window: place.window,
            lanes: place.lanes.0,
        }
    }
}

impl From<&TracePlace> for Place {
    fn from(place: &TracePlace) -> Self {
        Self {
            job: JobId(place.job),
            sub_model: SubModelId(place.sub_model),
            cohort: Cohort(place.cohort),
            members: Contributors(place.members),
            parent: place.parent.map(NodeId),
            base: place.base,
            slots: place.slots,
            window: place.window,
            lanes: Flags(place.lanes),
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

fn step(switch: &mut Switch<Values>, datagram: &[u8]) -> Step {
    let (key, mut packet) = wire::parse(datagram).expect("a golden packet is well-formed");
    let outcome = switch.handle(&mut packet);
    let egress = match outcome.egress {
        Egress::Absorbed => None,
        Egress::Up => Some("up".to_owned()),
        Egress::Down => Some("down".to_owned()),
    };
    Step {
        arrives: hex(datagram),
        verdict: outcome.verdict.name().to_owned(),
        leaves: egress.is_some().then(|| hex(&wire::emit(&packet, key))),
        egress,
    }
}

fn registers(switch: &Switch<Values>) -> Vec<(String, Vec<u64>)> {
    switch.memory().arrays().map(|(name, cells)| (name.to_owned(), cells.to_vec())).collect()
}

fn generate(kind: Kind, seed: u64) -> Trace {
    let Kind { policy, is_root, lanes, has_cohorts, forgotten } = kind;
    let streams = RandomTraffic::of_lanes(lanes, policy, is_root, seed);
    let mut traffic = if has_cohorts { streams.of_cohorts() } else { streams };
    let mut switch = traffic.switch();
    forgotten.iter().for_each(|job| switch.bypass(*job));
    let mut next = || step(&mut switch, &wire::emit(&traffic.next_packet(), KEY));
    let steps = (0..STEPS).map(|_| next()).collect();
    Trace {
        format: FORMAT.to_owned(),
        policy: policy.name().to_owned(),
        node: switch.node().0,
        slots: traffic.slots(),
        values_per_packet: 8,
        forgotten: forgotten.iter().map(|job| job.0).collect(),
        steps,
        places: traffic.places().iter().map(TracePlace::from).collect(),
        registers: registers(&switch),
    }
}

/// What a switch that knows nothing of the generator makes of a trace's datagrams.
fn replay(trace: &Trace) -> (Vec<Step>, Vec<(String, Vec<u64>)>) {
    let policy = Policy::from_name(&trace.policy).expect("a policy's name");
    let (slots, values) = (trace.slots, trace.values_per_packet);
    let profile = Profile::TOFINO_1;
    let mut switch: Switch<Values> =
        Switch::new(NodeId(trace.node), policy, slots, values, &profile).expect("few slots");
    for place in &trace.places {
        switch.install(place.into()).expect("a place of the trace");
    }
    trace.forgotten.iter().for_each(|job| switch.bypass(JobId(*job)));
    let steps = trace.steps.iter().map(|s| step(&mut switch, &bytes(&s.arrives))).collect();
    (steps, registers(&switch))
}

/// What a trace shows: a policy, whether at the root, the lanes of its two streams, whether these are one stream with two
/// cohorts instead, and what was forgotten of them.
struct Kind {
    policy: Policy,
    is_root: bool,
    lanes: [Flags; 2],
    has_cohorts: bool,
    forgotten: &'static [JobId],
}

impl Kind {
    fn of_sums(policy: Policy, is_root: bool) -> Self {
        Self { policy, is_root, lanes: [Flags(0); 2], has_cohorts: false, forgotten: &[] }
    }
}

/// Every trace by its name. Those of 32-bit sums alone come first, as a trace's seed is its place.
fn traces() -> Vec<(String, Kind)> {
    let mut traces = Vec::new();
    for policy in Policy::ALL {
        traces.push((policy.name().to_owned(), Kind::of_sums(policy, false)));
        if !policy.needs_server() {
            traces.push((format!("{}-root", policy.name()), Kind::of_sums(policy, true)));
        }
    }
    let lanes = [Flags::MAXIMUM, Flags::LANES16];
    traces.extend(Policy::ALL.map(|policy| {
        let kind = Kind { lanes, ..Kind::of_sums(policy, !policy.needs_server()) };
        (format!("{}-lanes", policy.name()), kind)
    }));
    // Those whose slots would take what was summed before.
    traces.extend([Policy::Exclusive, Policy::Segment, Policy::Pool].map(|policy| {
        let sums = Kind::of_sums(policy, !policy.needs_server());
        (format!("{}-forgotten", policy.name()), Kind { forgotten: &[JobId(1)], ..sums })
    }));
    traces.extend(Policy::ALL.map(|policy| {
        let kind = Kind { has_cohorts: true, ..Kind::of_sums(policy, false) };
        (format!("{}-cohorts", policy.name()), kind)
    }));
    traces
}

fn path(name: &str) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../spec/vectors/switch");
    PathBuf::from(folder).join(format!("{name}.json"))
}

/// Every step on a line of its own, so that a difference can be read.
fn print(trace: &Trace) -> String {
    let mut head = vec![
        ("format", json(&trace.format)),
        ("policy", json(&trace.policy)),
        ("node", json(&trace.node)),
        ("slots", json(&trace.slots)),
        ("values_per_packet", json(&trace.values_per_packet)),
        ("places", json(&trace.places)),
        ("registers", json(&trace.registers)),
    ];
    if !trace.forgotten.is_empty() {
        head.push(("forgotten", json(&trace.forgotten)));
    }
    let head: Vec<String> =
        head.iter().map(|(key, value)| format!("  \"{key}\": {value}")).collect();
    let steps: Vec<String> = trace.steps.iter().map(|step| format!("    {}", json(step))).collect();
    format!("{{\n{},\n  \"steps\": [\n{}\n  ]\n}}\n", head.join(",\n"), steps.join(",\n"))
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
    for (name, ..) in traces() {
        let trace = read(&name);
        assert_eq!(trace.format, FORMAT);
        let (steps, registers) = replay(&trace);
        for (index, (golden, replayed)) in trace.steps.iter().zip(&steps).enumerate() {
            assert_eq!(golden, replayed, "trace {name}, step {index}");
        }
        assert_eq!(trace.registers, registers, "trace {name}, registers in the end");
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "new traces are asked for from outside")]
fn the_traces_are_those_of_their_seeds() {
    for (seed, (name, kind)) in (1..).zip(traces()) {
        let trace = generate(kind, seed);
        if std::env::var("WIRESUM_BLESS").is_ok() {
            fs::write(path(&name), print(&trace)).expect("the trace can be written");
        }
        assert!(
            read(&name) == trace,
            "trace {name} has changed: WIRESUM_BLESS=1 cargo test -p wiresum-switch --test traces writes it anew"
        );
    }
}

#[test]
fn the_traces_show_every_verdict_of_a_switch() {
    let traces: Vec<Trace> = traces().iter().map(|(name, ..)| read(name)).collect();
    let seen: Vec<&String> =
        traces.iter().flat_map(|trace| trace.steps.iter().map(|step| &step.verdict)).collect();
    let unseen: Vec<_> = Verdict::SWITCH
        .into_iter()
        .filter(|verdict| !seen.contains(&&verdict.name().to_owned()))
        .collect();
    assert!(unseen.is_empty(), "no trace shows {unseen:?}");
}
