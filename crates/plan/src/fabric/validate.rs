//! What makes a network of switches one that can be run.

use std::collections::BTreeSet;

use wiresum_wire::{
    BLOCK_LEN, COHORT_WORKERS, HEADER_LEN, JobId, NodeId, PAGE_PACKET, SEAL_LEN, SWITCH_HEADER_LEN,
};

use super::Fabric;
use crate::validate::require;
use crate::ways::{Hop, MAX_WORKERS, Site, Way, Ways};
use crate::{Child, Cohort, Engine, Lanes, Plan, PlanError, PlanStream, StreamLeg};

/// Most values in a packet: with the second header it is no longer than the largest without.
const MAX_VALUES: usize =
    (PAGE_PACKET - HEADER_LEN - SWITCH_HEADER_LEN) / BLOCK_LEN * (BLOCK_LEN / 4);
/// Bounds of [`Fabric::timeout_s`] in seconds.
const TIMEOUT_S: std::ops::RangeInclusive<f64> = 1e-4..=10.0;

impl Fabric {
    /// Checks it as part of a plan whose streams are right.
    ///
    /// # Errors
    /// The first [`PlanError::Field`] found.
    pub(crate) fn validate(&self, plan: &Plan) -> Result<(), PlanError> {
        validate_job(plan)?;
        let is_fit = TIMEOUT_S.contains(&self.timeout_s);
        require(is_fit, "fabric.timeout_s", "must be 0.0001 to 10 seconds")?;
        self.validate_links(plan)?;
        self.validate_memory(plan)?;
        for (index, stream) in plan.streams.iter().enumerate() {
            self.validate_stream(plan, stream, &format!("streams[{index}]"))?;
        }
        let policy = plan.streams[0].policy;
        let is_one = plan.streams.iter().all(|stream| stream.policy == policy);
        require(is_one, "streams", "a switch has one program: give all streams the same policy")?;
        // The server tells who is in, and only switches whose slots others need let go of what they hold.
        let tells = policy.shares_slots() || plan.job.rounds.is_none();
        let problem =
            "switches keep what is in until all workers are: take the policy `hash` or `preempt`";
        require(tells, "job.rounds", problem)?;
        self.validate_regions(plan)
    }

    fn validate_links(&self, plan: &Plan) -> Result<(), PlanError> {
        for (index, link) in self.links.iter().enumerate() {
            let field = format!("fabric.links[{index}].ends");
            for end in &link.ends {
                let is_known = match end.at {
                    Child::Worker(rank) => (rank as usize) < plan.workers.len(),
                    Child::Node(node) => plan.node(NodeId(node)).is_some(),
                };
                require(is_known, &field, "one is not in `workers` or `nodes`")?;
            }
            let [one, other] = &link.ends;
            require(one.at != other.at, &field, "must be two different ones")?;
            let is_same = one.address.is_ipv4() == other.address.is_ipv4();
            require(is_same, &field, "must both have IPv4 addresses, or both IPv6")?;
        }
        let ids: BTreeSet<_> = self.links.iter().map(|link| &link.id).collect();
        let apart = ids.len() == self.links.len();
        require(apart, "fabric.links", "two have the same id: give each its own")?;
        require(self.links.len() <= usize::from(u16::MAX), "fabric.links", "are more than 65535")
    }

    fn validate_memory(&self, plan: &Plan) -> Result<(), PlanError> {
        let mut seen = BTreeSet::new();
        for (index, memory) in self.memory.iter().enumerate() {
            let field = format!("fabric.memory[{index}].node");
            let is_known = plan.node(NodeId(memory.node)).is_some();
            require(is_known, &field, "is not in `nodes`")?;
            require(seen.insert(memory.node), &field, "is there twice: give it one memory")?;
        }
        Ok(())
    }

    /// Checks that switches can carry and sum a stream that is a tree.
    fn validate_stream(
        &self,
        plan: &Plan,
        stream: &PlanStream,
        field: &str,
    ) -> Result<(), PlanError> {
        let [places, legs] = ["places", "legs"].map(|name| format!("{field}.{name}"));
        let exact = stream.policy.is_exact();
        let problem = "gives sums that may be wrong: take another";
        require(exact, &format!("{field}.policy"), problem)?;
        let names = self.by_id();
        for leg in &stream.legs {
            let hops = self.hops(leg, &names);
            validate_leg(stream, leg, &hops, &legs)?;
        }
        let ways = self.ways(JobId(plan.job.id), stream);
        ways.validate().map_err(|e| PlanError::Field { field: legs, problem: e.to_string() })?;
        self.validate_places(stream, &ways, &places)?;
        let is_kept = |way: &Way| {
            let mut detours = way.detours();
            stream.policy.is_addressed() || detours.all(|site| !stream.sums_at(site))
        };
        let problem = "results would not pass one of them: choose legs without circles";
        require(ways.of.iter().all(is_kept), &places, problem)
    }

    /// Whether every place has what the policy needs.
    fn validate_places(
        &self,
        stream: &PlanStream,
        ways: &Ways,
        field: &str,
    ) -> Result<(), PlanError> {
        validate_root(stream, ways.of.len(), field)?;
        for place in &stream.places {
            let node = place.node;
            let is_root = stream.root() == Some(NodeId(node));
            let Some(slots) = place.slots else {
                let problem = format!("node {node} is not the root, and has no `slots`");
                require(is_root, field, &problem)?;
                continue;
            };
            let Some(memory) = self.slots(NodeId(node)) else {
                return require(false, field, &format!("node {node} is not in `fabric.memory`"));
            };
            let taken = stream.slots_taken(slots, ways.members(NodeId(node)));
            let end = u64::from(place.base) + taken;
            let problem = format!("node {node} has {memory} slots, of which this needs 1 to {end}");
            require(slots > 0 && end <= u64::from(memory), field, &problem)?;
        }
        Ok(())
    }

    /// Streams that share no slots have their own.
    fn validate_regions(&self, plan: &Plan) -> Result<(), PlanError> {
        let mut regions: Vec<(u16, u64, u64)> = Vec::new();
        for (index, (stream, ways)) in plan.fabric_streams().enumerate() {
            for place in stream.places.iter().filter(|_| !stream.policy.shares_slots()) {
                let Some(slots) = place.slots else { continue };
                let begin = u64::from(place.base);
                let end = begin + stream.slots_taken(slots, ways.members(NodeId(place.node)));
                let meets =
                    |&(node, b, e): &(u16, u64, u64)| node == place.node && b < end && begin < e;
                let field = format!("streams[{index}].places");
                let problem =
                    format!("slots of node {} are another stream's: give it its own", place.node);
                require(!regions.iter().any(meets), &field, &problem)?;
                regions.push((place.node, begin, end));
            }
        }
        Ok(())
    }
}

/// Whether a leg's links lead from its begin to its end, and past no switch that would sum what is on them.
fn validate_leg(
    stream: &PlanStream,
    leg: &StreamLeg,
    hops: &[Hop],
    field: &str,
) -> Result<(), PlanError> {
    let leads = hops.len() == leg.links.len()
        && hops.last().is_some_and(|hop| hop.to == Site::Node(NodeId(leg.parent)));
    let problem = format!(
        "links of the one from {:?} do not lead to node {}: name every link, from one neighbour to the next",
        leg.child, leg.parent
    );
    require(leads, field, &problem)?;
    let passed = hops.iter().rev().skip(1).find(|hop| stream.sums_at(hop.to));
    let is_open = stream.policy.is_addressed() || passed.is_none();
    let problem = "one passes a switch that sums the stream: end it there, and begin another";
    require(is_open, field, problem)
}

/// Whether a stream ends where its policy has its sums. Those of several cohorts meet at a server alone, as the slots of
/// a switch tell the workers of one apart.
fn validate_root(stream: &PlanStream, workers: usize, field: &str) -> Result<(), PlanError> {
    let root = stream.root().and_then(|root| stream.place(root));
    let has_server = root.is_some_and(|root| root.slots.is_none());
    if Cohort::count(workers) > 1 {
        let problem = format!(
            "the root has `slots`, which tell {COHORT_WORKERS} workers apart: end the sums of more at a server, without \
             `slots`"
        );
        return require(has_server, field, &problem);
    }
    let problem = if has_server {
        "the root needs `slots`: with this policy a switch has the sums"
    } else {
        "the root has `slots`, and this policy has the sum at a server: leave them out"
    };
    require(stream.policy.server().allows(has_server), field, problem)
}

fn validate_job(plan: &Plan) -> Result<(), PlanError> {
    let is_short = usize::from(plan.job.values_per_packet) <= MAX_VALUES;
    let problem = format!("a packet at switches has two headers, and at most {MAX_VALUES} values");
    require(is_short, "job.values_per_packet", &problem)?;
    let problem = "`auto` needs servers, as switches know one width for each stream: use `int32-le`, or another width";
    require(plan.job.lanes != Lanes::Auto, "job.lanes", problem)?;
    // A check has one lane in common, and two for each rank; its seal has lanes of 32 bits too.
    let seal = if plan.job.sealed { SEAL_LEN / 4 } else { 0 };
    let holds_check = usize::from(plan.job.values_per_packet) > 2 * plan.workers.len() + seal;
    let problem =
        "must be more than twice the number of workers, and 8 more where the job is `sealed`";
    require(holds_check, "job.values_per_packet", problem)?;
    let is_small = plan.workers.len() <= usize::from(MAX_WORKERS);
    let problem = format!("packets at switches count {MAX_WORKERS} workers: let servers sum more");
    require(is_small, "workers", &problem)?;
    let is_udp = plan.nodes.iter().all(|node| matches!(node.engine, Engine::Udp | Engine::Xdp));
    require(is_udp, "nodes", "switches have the engine `udp` or `xdp`")
}
