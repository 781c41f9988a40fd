//! What is simulated, resolved: no generators, planners or defaults are left. `python/wiresum/sim/resolve.py` writes it.

use serde::{Deserialize, Deserializer};
use wiresum_protocol::Plan;
use wiresum_worker::Kind;

use crate::circuits::Circuits;
use crate::circuits::turns::Turns;
use crate::rows::Rows;

/// Everything that a run depends on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// How much is simulated.
    pub fidelity: Fidelity,
    /// Seed of every random choice.
    pub seed: u64,
    /// Virtual seconds that a round may take before it counts as stuck.
    pub patience_s: f64,
    /// Whether every value of every result is compared with the exact sum.
    pub check_sums: bool,
    /// Whether loads and slots over time are told at the end.
    #[serde(default)]
    pub timeline: bool,
    /// Who there is.
    pub sites: Vec<Site>,
    /// What joins them.
    pub links: Vec<Link>,
    /// What they do.
    pub jobs: Vec<Job>,
    /// What they do where switches run programs; trains only.
    #[serde(default)]
    pub programs: Vec<Program>,
    /// Packets of a train at most; trains only.
    #[serde(default = "longest_train")]
    pub train: usize,
    /// What else is on the links.
    #[serde(default)]
    pub background: Vec<Background>,
    /// What breaks, and when.
    #[serde(default)]
    pub failures: Vec<Failure>,
    /// Jobs over optical circuits, instead of all of these; flows only.
    #[serde(default)]
    pub circuits: Option<Circuits>,
    /// When circuits among the links have light, and when jobs may send; packets and trains only.
    #[serde(default)]
    pub turns: Option<Turns>,
    /// A sparse job; a job among `jobs` is then its dense part. Packets only.
    #[serde(default)]
    pub rows: Option<Rows>,
}

/// How much is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fidelity {
    /// Every datagram, by the state machines that run live.
    Packets,
    /// Packets of switch programs, some of them in one event.
    Trains,
    /// Rates, from one change to the next.
    Flows,
}

fn longest_train() -> usize {
    64
}

/// Collectives over switches that run a program.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// For people.
    pub name: String,
    /// Name of the policy.
    pub policy: String,
    /// What is summed in places of its own, one or more.
    pub streams: Vec<ProgramStream>,
    /// Slots of each switch, in fragments, those of all jobs together.
    pub memory_slots: u32,
    /// Urgency, where the policy preempts.
    pub priority: u8,
    /// Bytes of a packet on the wire.
    pub packet_bytes: u32,
    /// How long nothing is heard before the oldest position is sent again.
    pub timeout_s: f64,
    /// Collectives, one after another.
    pub rounds: u32,
    /// In rank order.
    pub workers: Vec<WorkerTimes>,
}

/// A part of a program's collectives that is summed in places of its own.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramStream {
    /// By worker: the sites that its contributions pass in this order, from the worker to the root. Where the policy addresses
    /// switches, those between are addressed, one after another.
    pub waypoints: Vec<Vec<usize>>,
    /// Ways between two of them that are not the shortest.
    #[serde(default)]
    pub ways: Vec<Way>,
    /// Sites of switches that sum it, and the first of its slots there.
    pub switches: Vec<(usize, u32)>,
    /// First slot that workers choose, where they choose slots.
    pub base: u32,
    /// Slots.
    pub slots: u32,
    /// Fragments in flight.
    pub window: u32,
    /// Fragments of a collective.
    pub fragments: u32,
}

/// A way that someone chose.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Way {
    /// The site where it begins.
    pub from: usize,
    /// The site where it ends.
    pub to: usize,
    /// What it crosses: link i is 2i from its source, 2i + 1 towards it.
    pub directions: Vec<u32>,
}

/// A machine.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Site {
    /// Its name in the topology.
    pub name: String,
    /// Whether paths lead through it.
    pub forwards: bool,
    /// bit/s on the wire that it can add, all children together; nothing bounds it where absent.
    pub adding_bps: Option<f64>,
}

/// Two directions between two sites.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Its name in the topology.
    pub id: String,
    /// Index of the site at one end.
    pub source: usize,
    /// Index of the site at the other.
    pub target: usize,
    /// From source to target.
    pub forward: Direction,
    /// From target to source.
    pub backward: Direction,
}

/// One direction of a link.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Direction {
    /// Unlimited where absent.
    pub rate_bps: Option<f64>,
    /// Propagation delay.
    pub delay_s: f64,
    /// Bytes that wait at most.
    pub queue_bytes: u64,
    /// Bytes that wait when a packet that joins them is marked; none is where absent.
    pub ecn_bytes: Option<u64>,
    /// Chance that a packet is lost.
    pub loss: f64,
    /// Chance that it comes twice.
    pub duplication: f64,
    /// Chance that it is up to `jitter_s` late, behind those sent after it.
    pub reordering: f64,
    /// Longest that a packet which is out of order, or a second copy, is late.
    pub jitter_s: f64,
}

/// Collectives of a group of workers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// For people.
    pub name: String,
    /// Who sums what.
    pub plan: Plan,
    /// float32 bytes of each collective's unsharded tensor.
    pub bytes: u64,
    /// Collectives that a round begins. Rank 0 is the root, where there is one.
    #[serde(default = "all_reduce", deserialize_with = "kinds")]
    pub collectives: Vec<Kind>,
    /// What a worker does in a round. Where empty, it computes, and then begins all of `collectives` at once.
    #[serde(default)]
    pub actions: Vec<Action>,
    /// Rounds, one after another.
    pub rounds: u32,
    /// In rank order.
    pub workers: Vec<WorkerTimes>,
    /// The plan as flows.
    pub streams: Vec<Stream>,
    /// Whether values wait for the last worker's start, as where exponents are agreed first.
    pub barrier: bool,
    /// Whether a round ends where the roots have the sum.
    #[serde(default)]
    pub upload_only: bool,
}

impl Job {
    /// Collectives that each round begins, by index, in this order.
    pub fn begun(&self) -> impl Iterator<Item = usize> + '_ {
        let begun = self.actions.iter().filter_map(|action| match action {
            Action::Begin(collective) => Some(*collective),
            Action::Compute(_) | Action::Wait(_) => None,
        });
        let all = if self.actions.is_empty() { 0..self.collectives.len() } else { 0..0 };
        all.chain(begun)
    }
}

fn all_reduce() -> Vec<Kind> {
    vec![Kind::AllReduce]
}

/// Kinds by their names.
fn kinds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Kind>, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    let known = |name: &String| {
        let found = Kind::ALL.iter().copied().find(|kind| kind.name() == name.as_str());
        found.ok_or_else(|| serde::de::Error::custom(format!("there is no collective {name}")))
    };
    match names.len() {
        0 => Err(serde::de::Error::custom("a job without a collective")),
        _ => names.iter().map(known).collect(),
    }
}

/// A part of what a worker does in a round. The round is over when all that it has begun has ended, which is in the order
/// in which it began.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Computes for this share of the round's computing.
    Compute(f64),
    /// Begins one of the job's collectives, by index, and goes on.
    Begin(usize),
    /// Waits until so many of the round's collectives have ended.
    Wait(usize),
}

/// When a worker has its gradients.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerTimes {
    /// Seconds from the moment at which everyone has joined until it begins.
    pub start: Distribution,
    /// Seconds of computing in each round, all of it before the first collective unless the job's actions say otherwise.
    pub compute: Distribution,
}

impl WorkerTimes {
    /// A worker that waits for nothing.
    pub const AT_ONCE: Self = Self {
        start: Distribution::Constant { seconds: 0.0 },
        compute: Distribution::Constant { seconds: 0.0 },
    };
}

/// A random number of seconds, never below 0.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Distribution {
    /// Always the same.
    Constant {
        /// The same.
        seconds: f64,
    },
    /// Equally likely between two bounds.
    Uniform {
        /// Shortest.
        least_s: f64,
        /// Longest.
        most_s: f64,
    },
    /// Normal; what would be below 0 is 0.
    Normal {
        /// Mean.
        mean_s: f64,
        /// Standard deviation.
        deviation_s: f64,
    },
    /// Exponential, after a constant.
    Exponential {
        /// The constant.
        least_s: f64,
        /// Mean of what comes on top.
        mean_s: f64,
    },
    /// Log-normal.
    Lognormal {
        /// Median.
        median_s: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
}

/// Flows of one tree.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// For people.
    pub name: String,
    /// Which of the job's collectives it carries, by index.
    #[serde(default)]
    pub collective: usize,
    /// Child and parent, sites by index, each child after its parent.
    pub edges: Vec<(usize, usize)>,
    /// On each edge, each way, headers included.
    pub wire_bytes: f64,
    /// By edge: the bytes up and down, where workers send and take different amounts; empty elsewhere. Flows of such a
    /// stream wait for no other.
    #[serde(default)]
    pub shares: Vec<(f64, f64)>,
    /// Whether all edges move in step, as under `pool`.
    pub lockstep: bool,
    /// Ways from a child to its parent that are not the shortest; results take them back.
    #[serde(default)]
    pub ways: Vec<Way>,
    /// Whether switches copy results where ways part; otherwise each node sends one to each child.
    #[serde(default)]
    pub is_copied: bool,
}

/// Traffic of others at a constant rate.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Background {
    /// Index of the site that sends.
    pub source: usize,
    /// Index of the site that receives.
    pub target: usize,
    /// bit/s on the wire.
    pub rate_bps: f64,
    /// Bytes of a packet on the wire.
    pub packet_bytes: u64,
    /// When it begins.
    pub from_s: f64,
    /// When it ends.
    pub until_s: f64,
}

/// Something breaks, and may come back.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// What.
    pub what: Broken,
    /// When.
    pub at_s: f64,
    /// When it is back, having forgotten everything; never where absent.
    pub until_s: Option<f64>,
}

/// What breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Broken {
    /// Both directions of the link of this index.
    Link(usize),
    /// Whatever runs at the site of this index.
    Site(usize),
}
