//! The part of an aggregation plan that the data plane reads. `spec/plan.md` documents every field.
//!
//! A plan is made by a planner (Python), and read by every runner. [`Plan::from_json`] is the only validator here.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};
use thiserror::Error;
use wiresum_wire::{
    BLOCK_LEN, Contributor, GROUP_FRAGMENTS, JobId, LaneType, MAX_CONTRIBUTORS, MAX_PAYLOAD,
    MIN_VALUES, NodeId, SubModelId,
};

/// Value of [`Plan::format`].
pub const FORMAT: &str = "wiresum-plan/1";
/// Most slots of one sub-model: 2²² fragments of 2944 bytes are 12 GB of gradient.
pub const MAX_SLOTS: u32 = 1 << 22;

/// Where each fragment of one job is summed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// [`FORMAT`].
    pub format: String,
    /// Who made it, for people.
    #[serde(default)]
    pub planner: String,
    /// What all participants agree on.
    pub job: Job,
    /// Aggregators.
    pub nodes: Vec<Node>,
    /// Workers in rank order.
    pub workers: Vec<Worker>,
    /// Streams. Exactly one has the role [`Role::Exponents`]; the shares of the others add up to 1.
    pub sub_models: Vec<SubModel>,
}

/// Parameters that every participant of a job shares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Number of the job on its aggregators.
    pub id: u16,
    /// 16 hexadecimal digits; a child without it is refused.
    pub secret: String,
    /// Payload of a full packet, in int32 lanes (twice as many values with 16-bit lanes).
    pub values_per_packet: u16,
    /// Width and byte order of the lanes.
    #[serde(default)]
    pub lanes: Lanes,
    /// How floats become integers: `block` or `fixed:<factor>`.
    #[serde(default = "default_codec")]
    pub codec: String,
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
}

impl From<Lanes> for LaneType {
    fn from(lanes: Lanes) -> Self {
        match lanes {
            Lanes::Int32Le => Self::I32Le,
            Lanes::Int32Be => Self::I32Be,
            Lanes::Int16Le => Self::I16Le,
            Lanes::Int16Be => Self::I16Be,
        }
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
}

/// Implementations of the aggregator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// The XDP program, in the kernel.
    Xdp,
    /// User space over UDP; needs no privileges.
    #[default]
    Udp,
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
}

/// A stream of fragments with a tree and slots of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubModel {
    /// Its number in packets.
    pub id: u16,
    /// Its name, for people.
    pub name: String,
    /// What it carries.
    pub role: Role,
    /// Fraction of each collective's values that it carries; 0 for exponents.
    pub share: f64,
    /// How fragments find their slots.
    pub policy: Policy,
    /// Slots at every node of the tree, each with two versions; a power of two.
    pub slots: u32,
    /// Most fragments that a worker has sent without an acknowledgement; at most `slots`.
    pub window: u32,
    /// The reduce tree, root first.
    pub tree: Vec<TreeNode>,
}

/// What a sub-model carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Shapes and block exponents, combined by maximum.
    Exponents,
    /// Values, combined by sum.
    Values,
}

/// How fragments find their slots, and what acknowledges them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// SwitchML: few slots, the result is the acknowledgement, so the slowest worker clocks everyone.
    Pool,
    /// XAgg: a slot per fragment of the gradient; the node acknowledges groups, so that a worker need not wait for others.
    Cache,
}

/// A node's place in a tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TreeNode {
    /// The aggregator.
    pub node: u16,
    /// Its parent; absent at the root.
    #[serde(default)]
    pub parent: Option<u16>,
    /// Its children; the index in this list is the [`Contributor`].
    pub children: Vec<Child>,
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
    /// Reads and validates a plan.
    ///
    /// # Errors
    /// [`PlanError`] names the field and the remedy.
    pub fn from_json(text: &str) -> Result<Self, PlanError> {
        let plan: Self = serde_json::from_str(text)?;
        plan.validate()?;
        Ok(plan)
    }

    /// A digest of everything that participants must agree on. Addresses are left out: two hosts may see one node under
    /// different ones.
    ///
    /// # Panics
    /// Never: a plan always serialises.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let text =
            serde_json::to_string(&(&self.job, &self.sub_models)).expect("a plan serialises");
        // FNV-1a, 64 bits: not a defence, only a fingerprint.
        text.bytes()
            .fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
    }

    /// The job's secret as a number.
    #[must_use]
    pub fn secret(&self) -> u64 {
        u64::from_str_radix(&self.job.secret, 16).unwrap_or(0)
    }

    /// The key that packets of this incarnation carry: a hash of secret and incarnation, so that a stranger cannot guess it.
    #[must_use]
    pub fn job_key(&self, incarnation: u64) -> wiresum_wire::JobKey {
        // SplitMix64's finaliser.
        let mut x = self.secret() ^ incarnation.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        wiresum_wire::JobKey((x ^ (x >> 31)) as u32)
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

    /// The node with this id.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id.0)
    }

    /// Checks every field.
    ///
    /// # Errors
    /// The first [`PlanError::Field`] found.
    pub fn validate(&self) -> Result<(), PlanError> {
        self.validate_job()?;
        require(!self.workers.is_empty(), "workers", "a job needs at least one worker")?;
        for (index, worker) in self.workers.iter().enumerate() {
            let in_order = worker.rank as usize == index;
            require(
                in_order,
                &format!("workers[{index}].rank"),
                "must equal its index: list workers in rank order",
            )?;
        }
        let apart = all_distinct(self.nodes.iter().map(|n| n.id));
        require(apart, "nodes", "two have the same id: give each its own")?;
        let apart = all_distinct(self.sub_models.iter().map(|s| s.id));
        require(apart, "sub_models", "two have the same id: give each its own")?;
        let exponents = self.sub_models.iter().filter(|s| s.role == Role::Exponents).count();
        require(exponents == 1, "sub_models", "exactly one must have the role `exponents`")?;
        let share: f64 =
            self.sub_models.iter().filter(|s| s.role == Role::Values).map(|s| s.share).sum();
        require(
            (share - 1.0).abs() < 1e-6,
            "sub_models",
            "the shares of the `values` streams must add up to 1",
        )?;
        self.sub_models
            .iter()
            .enumerate()
            .try_for_each(|(index, s)| self.validate_sub_model(index, s))
    }

    fn validate_job(&self) -> Result<(), PlanError> {
        require(self.format == FORMAT, "format", &format!("this version reads only `{FORMAT}`"))?;
        let secret = self.job.secret.as_bytes();
        let hex = secret.len() == 16 && secret.iter().all(u8::is_ascii_hexdigit);
        require(hex, "job.secret", "must be 16 hexadecimal digits")?;
        let values = usize::from(self.job.values_per_packet);
        let fits = (MIN_VALUES..=MAX_PAYLOAD / 4).contains(&values)
            && (4 * values).is_multiple_of(BLOCK_LEN);
        let allowed = format!(
            "must be {MIN_VALUES}..={} and a multiple of {}",
            MAX_PAYLOAD / 4,
            BLOCK_LEN / 4
        );
        require(fits, "job.values_per_packet", &allowed)
    }

    fn validate_sub_model(&self, index: usize, sub_model: &SubModel) -> Result<(), PlanError> {
        let field = |name: &str| format!("sub_models[{index}].{name}");
        let slots_ok = sub_model.slots.is_power_of_two() && sub_model.slots <= MAX_SLOTS;
        require(
            slots_ok,
            &field("slots"),
            &format!("must be a power of two, at most {MAX_SLOTS}"),
        )?;
        let window_ok = (1..=sub_model.slots).contains(&sub_model.window);
        require(window_ok, &field("window"), "must be between 1 and `slots`")?;
        let share_ok = (0.0..=1.0).contains(&sub_model.share);
        require(share_ok, &field("share"), "must be between 0 and 1")?;
        let apart = all_distinct(sub_model.tree.iter().map(|t| t.node));
        require(apart, &field("tree"), "a node has two places: give it one")?;
        let mut parents = sub_model.tree.iter().filter(|t| t.parent.is_none());
        require(
            parents.next().is_some() && parents.next().is_none(),
            &field("tree"),
            "must have exactly one root",
        )?;
        let mut seen = vec![false; self.workers.len()];
        for (index, place) in sub_model.tree.iter().enumerate() {
            // Which also rules out cycles.
            let after_parent = place
                .parent
                .is_none_or(|parent| sub_model.tree[..index].iter().any(|t| t.node == parent));
            let problem =
                format!("node {} comes before its parent: list the root first", place.node);
            require(after_parent, &field("tree"), &problem)?;
            self.validate_place(sub_model, place, &field("tree"), &mut seen)?;
        }
        require(
            seen.iter().all(|s| *s),
            &field("tree"),
            "every worker must be a child of exactly one node",
        )
    }

    fn validate_place(
        &self,
        sub_model: &SubModel,
        place: &TreeNode,
        field: &str,
        seen: &mut [bool],
    ) -> Result<(), PlanError> {
        let id = place.node;
        require(self.node(NodeId(id)).is_some(), field, &format!("node {id} is not in `nodes`"))?;
        let fan_in = (1..=MAX_CONTRIBUTORS).contains(&place.children.len());
        require(fan_in, field, &format!("node {id} must have 1..={MAX_CONTRIBUTORS} children"))?;
        let apart = all_distinct(place.children.iter().map(|child| match *child {
            Child::Worker(rank) => (0, rank),
            Child::Node(node) => (1, u32::from(node)),
        }));
        require(apart, field, &format!("node {id} has the same child twice"))?;
        if let Some(parent) = place.parent {
            let listed = sub_model.position(NodeId(parent), Child::Node(id)).is_some();
            require(
                listed,
                field,
                &format!(
                    "node {id} names {parent} as its parent, which does not list it as a child"
                ),
            )?;
        }
        for child in &place.children {
            match *child {
                Child::Worker(rank) => {
                    let slot = seen.get_mut(rank as usize);
                    let fresh = slot.is_some_and(|s| !std::mem::replace(s, true));
                    require(fresh, field, &format!("worker {rank} is unknown or has two parents"))?;
                }
                Child::Node(node) => {
                    let agrees =
                        sub_model.place(NodeId(node)).is_some_and(|t| t.parent == Some(id));
                    require(
                        agrees,
                        field,
                        &format!("node {node} does not name {id} as its parent"),
                    )?;
                }
            }
        }
        Ok(())
    }
}

impl SubModel {
    /// Its id as a new-type.
    #[must_use]
    pub fn id(&self) -> SubModelId {
        SubModelId(self.id)
    }

    /// A node's place in the tree.
    #[must_use]
    pub fn place(&self, node: NodeId) -> Option<&TreeNode> {
        self.tree.iter().find(|t| t.node == node.0)
    }

    /// The contributor index of `child` at `node`.
    #[must_use]
    pub fn position(&self, node: NodeId, child: Child) -> Option<Contributor> {
        let place = self.place(node)?;
        place.children.iter().position(|c| *c == child).map(|index| Contributor(index as u8))
    }

    /// The node that a child sends to, and its index there.
    #[must_use]
    pub fn parent_of(&self, child: Child) -> Option<(NodeId, Contributor)> {
        self.tree.iter().find_map(|t| {
            let node = NodeId(t.node);
            self.position(node, child).map(|contributor| (node, contributor))
        })
    }

    /// Fragments that one probe of this stream is about: no more than a window, or a probe would describe fragments
    /// that cannot have been sent.
    #[must_use]
    pub fn group_fragments(&self) -> u32 {
        self.window.min(GROUP_FRAGMENTS as u32)
    }
}

fn all_distinct<T: Ord>(mut items: impl Iterator<Item = T>) -> bool {
    let mut seen = BTreeSet::new();
    items.all(|item| seen.insert(item))
}

fn require(condition: bool, field: &str, problem: &str) -> Result<(), PlanError> {
    if condition {
        Ok(())
    } else {
        Err(PlanError::Field { field: field.to_owned(), problem: problem.to_owned() })
    }
}
