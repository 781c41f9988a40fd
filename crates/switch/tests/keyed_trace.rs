//! The golden trace of the program that sums pairs: `spec/vectors/keyed/keyed.json` holds datagrams for one switch with the
//! verdict and the answer that must follow, and what the registers hold in the end. The reference makes it; every data plane
//! replays it.

use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use wiresum_netem::Rng;
use wiresum_switch::keyed::{Arrangement, Body, HotTable, KeyedSpec, KeyedSwitch, Packet, Pair};
use wiresum_switch::rmt::Profile;
use wiresum_wire::{JobId, JobKey, NodeId, RowDraft, RowPacket};

/// Enough for several iterations; some tens of kilobytes.
const STEPS: usize = 240;
const FORMAT: &str = "wiresum-keyed-trace/1";
const JOB: JobId = JobId(9);
const KEY: JobKey = JobKey(0x0123_4567);
const NODE: NodeId = NodeId(4);
const MAP_VERSION: u32 = 3;
const WORKERS: u8 = 3;
const KEYS: u64 = 20;
const SEED: u64 = 71;

/// What follows each completion: the next iteration is opened.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Trace {
    format: String,
    job: u16,
    job_key: u64,
    node: u16,
    table: u16,
    workers: u8,
    /// Most packets of a worker in an iteration.
    packets: u32,
    registers: u32,
    pairs: u32,
    recirculations: u32,
    map_version: u32,
    first_round: u32,
    /// By position.
    keys: Vec<u64>,
    steps: Vec<Step>,
    /// By array: what each cell holds in the end. Tags are 1 in the first iteration, and one more in each one after it.
    cells: Vec<(String, Vec<u64>)>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Step {
    /// In hexadecimal.
    arrives: String,
    verdict: String,
    recirculations: u32,
    completes: bool,
    /// The acknowledgement, or nothing.
    leaves: String,
}

fn begun(kind: wiresum_wire::RowKind) -> RowDraft {
    let mut draft = RowDraft::new(kind);
    let header = &mut draft.header;
    (header.job, header.node, header.job_key) = (JOB.0.into(), NODE.0.into(), KEY.0.into());
    draft
}

fn datagram(packet: &Packet) -> Vec<u8> {
    let mut datagram = Vec::new();
    packet.emit(begun, &mut datagram);
    datagram
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What workers send, in any order: pairs, ends, what was sent before, and now and then what cannot be taken.
struct Workers {
    rng: Rng,
    next: [u32; WORKERS as usize],
    round: u32,
    sent: Vec<Packet>,
}

impl Workers {
    fn packet(&mut self, round: u32) -> Packet {
        if self.round != round {
            (self.round, self.next) = (round, [0; WORKERS as usize]);
        }
        let rng = &mut self.rng;
        if rng.below(6) == 0 && !self.sent.is_empty() {
            return self.sent[rng.below(self.sent.len() as u64) as usize].clone();
        }
        let worker = rng.below(WORKERS.into()) as u8;
        let next = self.next[usize::from(worker)];
        let (number, body) = if rng.below(5) == 0 {
            (Packet::END, Body::End { packets: next })
        } else {
            let key = |rng: &mut Rng| {
                let keys = if rng.chance(0.03) { KEYS + 1 } else { KEYS };
                rng.below(keys) * 1_000_003
            };
            let pairs = (0..=rng.below(7))
                .map(|_| Pair { key: key(rng), value: rng.next() as i32 })
                .collect();
            (next, Body::Pairs(pairs))
        };
        let early = u32::from(rng.chance(0.03));
        let (round, map_version) = (round + early, MAP_VERSION);
        Packet { table: 0, worker, round, number, map_version, body }
    }
}

fn trace() -> Trace {
    let spec = KeyedSpec { registers: 4, pairs: 8, recirculations: 1 };
    let keys: Vec<u64> = (0..KEYS).map(|position| position * 1_000_003).collect();
    let packets = 40;
    let hot = HotTable { job: JOB, table: 0, workers: WORKERS, packets, keys: keys.clone() };
    let arrangement = Arrangement::of(spec, &[hot]).expect("room");
    let mut switch = KeyedSwitch::new(arrangement, &Profile::TOFINO_1).expect("a fit");
    let mut round = 1;
    switch.open(0, round, MAP_VERSION);
    let (sent, next) = (Vec::new(), [0; WORKERS as usize]);
    let mut workers = Workers { rng: Rng::new(SEED), next, round, sent };
    let mut steps = Vec::new();
    for _ in 0..STEPS {
        let packet = workers.packet(round);
        let arrives = datagram(&packet);
        let parsed = RowPacket::parse(&arrives).expect("a datagram of ours");
        let handled = switch.handle(JOB, &Packet::of(&parsed).expect("pairs or an end"));
        let answer = handled.is_acknowledged().then(|| datagram(&packet.acknowledgement()));
        steps.push(Step {
            arrives: hex(&arrives),
            verdict: handled.verdict.name().to_owned(),
            recirculations: handled.recirculations,
            completes: handled.is_complete,
            leaves: hex(&answer.unwrap_or_default()),
        });
        if handled.verdict == wiresum_wire::Verdict::Added && matches!(packet.body, Body::Pairs(_))
        {
            workers.next[usize::from(packet.worker)] += 1;
        }
        workers.sent.push(packet);
        if handled.is_complete {
            round += 1;
            switch.open(0, round, MAP_VERSION);
        }
    }
    let cells = switch.memory().arrays().map(|(name, cells)| (name.to_owned(), cells.to_vec()));
    Trace {
        format: FORMAT.to_owned(),
        job: JOB.0,
        job_key: KEY.0,
        node: NODE.0,
        table: 0,
        workers: WORKERS,
        packets,
        registers: spec.registers,
        pairs: spec.pairs,
        recirculations: spec.recirculations,
        map_version: MAP_VERSION,
        first_round: 1,
        keys,
        steps,
        cells: cells.collect(),
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the trace is a file, written anew when asked to")]
fn the_golden_trace_is_what_the_reference_does() {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../spec/vectors/keyed/keyed.json");
    let trace = trace();
    let is_met = |verdict: &str| trace.steps.iter().any(|step| step.verdict == verdict);
    assert!(["added", "duplicate", "stale", "early", "wrong"].into_iter().all(is_met));
    assert!(trace.steps.iter().filter(|step| step.completes).count() >= 3);
    assert!(trace.steps.iter().any(|step| step.recirculations > 0));
    if std::env::var("WIRESUM_BLESS").is_ok() {
        let text = serde_json::to_string(&trace)
            .expect("plain data")
            .replace("},{\"arrives", "},\n{\"arrives");
        fs::write(&path, text + "\n").expect("the trace can be written");
    }
    let golden = fs::read_to_string(&path).expect("the trace is in the repository");
    assert_eq!(
        serde_json::from_str::<Trace>(&golden).expect("a trace"),
        trace,
        "it has changed: WIRESUM_BLESS=1 cargo test -p wiresum-switch --test keyed_trace writes it anew"
    );
}
