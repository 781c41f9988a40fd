//! The plan as a document: `spec/plan.md` describes every field.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};
use thiserror::Error;
use wiresum_codec::Codec;
use wiresum_keys::{KeySource, Keyring, Seat, Secret, ValueHash};
pub use wiresum_wire::Policy;
use wiresum_wire::{JobId, LaneType, NodeId, PAGE_PAYLOAD, SEAL_LEN};

use crate::{Fabric, PlanSparse, PlanStream, validate, version1};

/// Value of [`Plan::format`].
pub const FORMAT: &str = "wiresum-plan/2";
/// Largest bandwidth, in bit/s: the largest whole number that every reader of JSON keeps exactly.
pub const MAX_BPS: u64 = 1 << 53;
/// Most slots of one stream: 2²² fragments of 2944 bytes are 12 GB of gradient.
pub const MAX_SLOTS: u32 = 1 << 22;
/// Most rounds in a row without the same worker; with DDP's buckets of 25 MB their results are 25 GB.
pub const MAX_MISSED: u16 = 1024;
/// What to do about a plan without a secret.
const NO_SECRET: &str = "is not known: put its 64 hexadecimal digits, or the keys of the node, into a file beside the plan, PLAN.secret, or name that file";

/// Where each fragment of one job is summed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// [`FORMAT`].
    pub format: String,
    /// Who made it, for people.
    #[serde(default)]
    pub planner: String,
    /// How good it is, and how it was found; for people and their tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub solution: Option<Solution>,
    /// What all participants agree on.
    pub job: Job,
    /// Aggregators.
    pub nodes: Vec<Node>,
    /// Workers in rank order.
    pub workers: Vec<Worker>,
    /// Streams. Exactly one has the role [`Role::Exponents`]; the shares of the others add up to 1.
    pub streams: Vec<PlanStream>,
    /// The network of switches that sums the streams; absent where servers do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fabric: Option<Fabric>,
    /// Tables of rows, their servers, and the switches that sum hot rows; absent where the model is dense.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sparse: Option<PlanSparse>,
}

/// How good a planner's answer is. The data plane keeps it and does not read it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Solution {
    /// What found it.
    pub solver: String,
    /// What is proven.
    pub status: SolutionStatus,
    /// What was minimised, with its unit.
    pub objective: String,
    /// Value of this answer.
    pub value: f64,
    /// No answer is below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<f64>,
    /// (value − bound) / value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<f64>,
    /// Seed of random choices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u32>,
    /// Seconds that the planner took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}

/// What a planner has proven of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SolutionStatus {
    /// No answer is better.
    Optimal,
    /// A better one may exist, by the gap at most if there is a bound.
    Feasible,
    /// Likewise, and more time may find it.
    TimeLimit,
    /// Nothing is proven.
    Heuristic,
}

/// Parameters that every participant of a job shares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Number of the job on its aggregators.
    pub id: u16,
    /// 64 hexadecimal digits, or the keys of one node (`wiresum keys`): what seats are taken with. They are in a file of
    /// their own, beside the plan's; once both are read, they are here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// Payload of a full packet, in int32 lanes (twice as many values with 16-bit lanes).
    pub values_per_packet: u16,
    /// Width and byte order of the lanes of values.
    #[serde(default)]
    pub lanes: Lanes,
    /// How floats become integers: `block` or `fixed:<factor>`.
    #[serde(default = "default_codec")]
    pub codec: String,
    /// When values of the codec `block` may flow. The default is left out of the digest, as plans without the field have it.
    #[serde(default, skip_serializing_if = "Exponents::is_default")]
    pub exponents: Exponents,
    /// Rounds that go on without late workers; absent where every round takes every worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<Rounds>,
    /// Sums are sealed (`spec/security.md`): nodes learn nothing of the values, and what they change does not go unnoticed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sealed: bool,
    /// Values carry proofs (`spec/security.md`): whoever reads packets and forges addresses changes no sum.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub proven: bool,
    /// Groups of the workers, by rank, that sum by themselves, each as a job of its own: [`Plan::group`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Vec<u32>>,
    /// Threads of each rank: each beyond the first sums its parts of the tensors as a job of its own, too.
    #[serde(default = "one_thread", skip_serializing_if = "is_one_thread")]
    pub threads: u8,
}

impl Job {
    /// Whether ranks agree on an exponent for each packet before its values flow; else its sums have checks in their place.
    #[must_use]
    pub fn agrees(&self) -> bool {
        self.codec.parse().is_ok_and(Codec::agrees)
    }
}

fn one_thread() -> u8 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
fn is_one_thread(threads: &u8) -> bool {
    *threads == one_thread()
}

/// Rounds of k of n workers (GOAT §V): a worker that is late contributes nothing, in zeros, once enough others are in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rounds {
    /// How many each node's rounds take; a node that is not listed takes all. Where servers sum, each node of the
    /// exponents' stream counts its children; where switches do, the root alone counts, and it counts workers.
    pub counts: Vec<Count>,
    /// Most rounds in a row that go on without the same worker, 1 to [`MAX_MISSED`]: it keeps their results until it has caught up.
    pub most_missed: u16,
}

/// How many children's contributions a node's rounds take at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Count {
    /// The node.
    pub node: u16,
    /// Children, 1 to all of them; GOAT's K of the switch.
    pub k: u8,
}

/// When values of the codec `block` may flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exponents {
    /// When all ranks have agreed on their exponents.
    #[default]
    Agreed,
    /// At once, with those expected from the last collective of the shape: ranks need not wait for a late one.
    Expected,
}

impl Exponents {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

fn default_codec() -> String {
    "block".to_owned()
}

/// Lane types by their names in a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lanes {
    /// 32-bit, little-endian: only servers sum.
    #[default]
    #[serde(rename = "int32-le")]
    Int32Le,
    /// 32-bit, network order: a P4 switch is on the tree.
    #[serde(rename = "int32-be")]
    Int32Be,
    /// 16-bit, little-endian: half the bytes.
    #[serde(rename = "int16-le")]
    Int16Le,
    /// 16-bit, network order.
    #[serde(rename = "int16-be")]
    Int16Be,
    /// As wide as the elements of each collective, little-endian: only servers sum.
    #[serde(rename = "auto")]
    Auto,
}

/// Bytes of the widest elements that are summed.
const WIDEST: usize = 4;
/// Bytes of the narrowest ones.
const NARROWEST: usize = 2;

impl Lanes {
    /// What elements of so many bytes become.
    #[must_use]
    pub fn of_elements(self, bytes: usize) -> LaneType {
        match self {
            Self::Int32Le => LaneType::I32Le,
            Self::Int32Be => LaneType::I32Be,
            Self::Int16Le => LaneType::I16Le,
            Self::Int16Be => LaneType::I16Be,
            Self::Auto if bytes <= NARROWEST => LaneType::I16Le,
            Self::Auto => LaneType::I32Le,
        }
    }

    /// The widest lanes of the job.
    #[must_use]
    pub fn widest(self) -> LaneType {
        self.of_elements(WIDEST)
    }

    /// The narrowest lanes of the job.
    #[must_use]
    pub fn narrowest(self) -> LaneType {
        self.of_elements(NARROWEST)
    }
}

/// An aggregator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Its number in packets.
    pub id: u16,
    /// Its name, for people.
    pub name: String,
    /// Where its children send to.
    pub address: SocketAddr,
    /// What runs it.
    #[serde(default)]
    pub engine: Engine,
    /// What its links bring to it, in bit/s on the wire; absent where nothing bounds all of its children together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress_bps: Option<u64>,
    /// What its links take from it, in bit/s on the wire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress_bps: Option<u64>,
}

/// Implementations of the aggregator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// The XDP program, in the kernel.
    Xdp,
    /// User space, past the kernel's network stack.
    AfXdp,
    /// User space over UDP; needs no privileges.
    #[default]
    Udp,
    /// User space over TCP connections; all nodes of a plan or none.
    Tcp,
}

/// A worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Worker {
    /// Its rank in the process group.
    pub rank: u32,
    /// Its name, for people.
    pub name: String,
    /// Address that it sends from; any where absent.
    #[serde(default)]
    pub address: Option<IpAddr>,
    /// Most that it can send, in bit/s on the wire; unlimited where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress_bps: Option<u64>,
}

/// What a stream carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Shapes and block exponents, combined by maximum.
    Exponents,
    /// Values, combined by sum.
    Values,
    /// Sums, each for one worker.
    Parts,
    /// Bytes of one worker for others.
    Copies,
    /// Barriers: that every worker has done what it had to in a stream of parts, or of copies.
    Acknowledgements,
    /// Rows by position, each combined by sum: a stream of the plan's [sparse part](PlanSparse).
    Hot,
}

/// A child in a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Child {
    /// A worker, by rank.
    Worker(u32),
    /// An aggregator, by id.
    Node(u16),
}

/// What is wrong with a plan, and where.
#[derive(Debug, Error)]
pub enum PlanError {
    /// Not JSON, or not of this shape.
    #[error("the plan cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// A field has a value that no runner can honour.
    #[error("plan field `{field}`: {problem}")]
    Field {
        /// Path of the field.
        field: String,
        /// What is wrong, and what would be right.
        problem: String,
    },
}

impl Plan {
    /// Reads and validates a plan, also one of the format before this one.
    ///
    /// # Errors
    /// [`PlanError`] names the field and the remedy.
    pub fn from_json(text: &str) -> Result<Self, PlanError> {
        let plan = match Format::of(text)?.as_deref() {
            Some(version1::FORMAT) => version1::converted(text)?,
            _ => serde_json::from_str::<Self>(text)?,
        };
        plan.validate()?;
        Ok(plan)
    }

    /// A digest of everything that participants must agree on. Addresses are left out, as two hosts may see one node under
    /// different ones, and so is the secret, which has a check of its own.
    ///
    /// # Panics
    /// Never: a plan always serialises.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let job = Job { secret: None, ..self.job.clone() };
        let dense = (job, &self.streams, self.fabric.as_ref().map(Fabric::agreed));
        let text = match &self.sparse {
            None => serde_json::to_string(&dense),
            Some(sparse) => serde_json::to_string(&(dense, sparse.agreed())),
        };
        let text = text.expect("a plan serialises");
        // FNV-1a, 64 bits: not a defence, only a fingerprint.
        text.bytes()
            .fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
    }

    /// The plan with the secret of its file, where it has none itself.
    ///
    /// # Errors
    /// Neither the plan nor the file has one.
    pub fn with_secret(mut self, file: Option<&str>) -> Result<Self, PlanError> {
        let given = file.map(|text| text.trim().to_owned());
        self.job.secret = self.job.secret.take().or(given);
        validate::require(self.job.secret.is_some(), "job.secret", NO_SECRET)?;
        self.validate()?;
        Ok(self)
    }

    /// The keys that its participants have; of a plan without a secret, which nobody joins, those of an empty one.
    #[must_use]
    pub fn keys(&self) -> Keyring {
        let text = self.job.secret.as_deref().unwrap_or_default();
        Keyring::from_text(text).unwrap_or_else(|_| Keyring::whole(Secret::from_bytes(&[])))
    }

    /// The keys that a node is to have, of the job and of its groups: its own, and those of its seats at its parents. `None` where the plan has no
    /// secret, or has no such node.
    #[must_use]
    pub fn keys_of(&self, node: NodeId) -> Option<Keyring> {
        let of_group = |number| Some((number, self.group(number).ok()?.own_keys_of(node)?));
        Some(self.own_keys_of(node)?.with_groups(self.group_numbers().filter_map(of_group)))
    }

    /// The same without groups.
    fn own_keys_of(&self, node: NodeId) -> Option<Keyring> {
        self.node(node)?;
        let of_stream = |stream: &PlanStream| {
            let (parent, contributor) = stream.parent_of(Child::Node(node.0))?;
            Some(Seat::new(parent, stream.id(), contributor))
        };
        let seats: Vec<_> = self.streams.iter().filter_map(of_stream).collect();
        self.job.secret.as_ref().and_then(|_| self.keys().of_node(node, &seats))
    }

    /// Whether it has the whole secret of the job, from which follow the keys of all seats.
    #[must_use]
    pub fn has_secret(&self) -> bool {
        self.job.secret.is_some() && self.keys().node().is_none()
    }

    /// The plan as a node holds it: with that node's keys in place of the secret.
    ///
    /// # Errors
    /// The plan has the keys of another node.
    pub fn held_by(mut self, node: NodeId) -> Result<Self, PlanError> {
        if let Some(owner) = self.keys().node() {
            let problem = format!(
                "has the keys of node {owner}, and this is node {node}: make its own with `wiresum keys PLAN --node {node}`"
            );
            validate::require(owner == node, "job.secret", &problem)?;
        }
        self.job.secret = self.keys_of(node).and_then(|keys| keys.to_text()).or(self.job.secret);
        Ok(self)
    }

    /// What values are hashed by, where they are proven.
    #[must_use]
    pub fn value_hash(&self) -> Option<ValueHash> {
        self.job.proven.then(|| self.keys().value_hash())
    }

    /// The key that packets of this incarnation carry.
    #[must_use]
    pub fn job_key(&self, incarnation: u64) -> wiresum_wire::JobKey {
        self.keys().association(incarnation)
    }

    /// The job's number.
    #[must_use]
    pub fn job_id(&self) -> JobId {
        JobId(self.job.id)
    }

    /// Bytes of payload of a full packet.
    #[must_use]
    pub fn payload_len(&self) -> usize {
        usize::from(self.job.values_per_packet) * 4
    }

    /// Pages that a full packet takes; with more than one, only processes can sum it, from datagrams or connections.
    #[must_use]
    pub fn packet_pages(&self) -> usize {
        self.payload_len().div_ceil(PAGE_PAYLOAD)
    }

    /// Bytes of them that are values; the rest is a seal.
    #[must_use]
    pub fn values_len(&self) -> usize {
        self.payload_len() - if self.job.sealed { SEAL_LEN } else { 0 }
    }

    /// Whether packets travel over TCP connections, which is the same at every node.
    #[must_use]
    pub fn is_over_tcp(&self) -> bool {
        self.nodes.iter().any(|node| node.engine == Engine::Tcp)
    }

    /// What the plan's switches do with fragments; absent where servers sum.
    #[must_use]
    pub fn switch_policy(&self) -> Option<Policy> {
        self.fabric.as_ref().and_then(|_| self.streams.first()).map(|stream| stream.policy)
    }

    /// The stream of the exponents, or of what a fixed codec has in their place.
    #[must_use]
    pub fn exponents(&self) -> Option<&PlanStream> {
        self.streams.iter().find(|stream| stream.role == Role::Exponents)
    }

    /// The node with this id.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id.0)
    }
}

/// The part of a document that says what the rest is.
#[derive(Deserialize)]
pub(crate) struct Format {
    format: Option<String>,
}

impl KeySource for Plan {
    fn keyring(&self) -> Keyring {
        self.keys()
    }
}

impl Format {
    /// The format that a document says it has.
    pub fn of(text: &str) -> Result<Option<String>, PlanError> {
        Ok(serde_json::from_str::<Self>(text)?.format)
    }
}
