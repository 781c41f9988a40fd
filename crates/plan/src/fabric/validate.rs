//! What makes a network of switches one that can be run.

use std::collections::BTreeSet;

use wiresum_wire::{BLOCK_LEN, HEADER_LEN, JobId, MAX_PACKET, NodeId, SWITCH_HEADER_LEN};

use super::{Fabric, FabricPlace, FabricStream};
use crate::validate::require;
use crate::ways::{ANY_NODE, MAX_WORKERS, Site, Way, WayError, Ways};
use crate::{Child, Engine, Plan, PlanError};

/// Most values in a packet: with the second header it is no longer than the largest without.
const MAX_VALUES: usize =
    (MAX_PACKET - HEADER_LEN - SWITCH_HEADER_LEN) / BLOCK_LEN * (BLOCK_LEN / 4);
/// Bounds of [`Fabric::timeout_s`] in seconds.
const TIMEOUT_S: std::ops::RangeInclusive<f64> = 1e-4..=10.0;

impl Fabric {
    /// Checks it as part of a plan that is right without it.
    ///
    /// # Errors
    /// The first [`PlanError::Field`] found.
    pub(crate) fn validate(&self, plan: &Plan) -> Result<(), PlanError> {
        validate_job(plan)?;
        let is_fit = TIMEOUT_S.contains(&self.timeout_s);
        require(is_fit, "fabric.timeout_s", "must be 0.0001 to 10 seconds")?;
        require(
            self.policy.is_exact(),
            "fabric.policy",
            "gives sums that may be wrong: take another",
        )?;
        // The server tells who is in, and only switches whose slots others need let go of what they hold.
        let tells = self.policy.shares_slots() || plan.job.rounds.is_none();
        let problem =
            "switches keep what is in until all workers are: take the policy `hash` or `preempt`";
        require(tells, "job.rounds", problem)?;
        self.validate_links(plan)?;
        self.validate_memory(plan)?;
        let wanted = plan.sub_models.iter().map(|sub_model| sub_model.id);
        let is_all = wanted.eq(self.streams.iter().map(|stream| stream.sub_model));
        require(is_all, "fabric.streams", "must be one for each sub-model, in their order")?;
        for (index, stream) in self.streams.iter().enumerate() {
            self.validate_stream(plan, stream, &format!("fabric.streams[{index}]"))?;
        }
        self.validate_regions()
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

    fn validate_stream(
        &self,
        plan: &Plan,
        stream: &FabricStream,
        field: &str,
    ) -> Result<(), PlanError> {
        let in_order = stream.ways.iter().map(|way| way.worker).eq(0..plan.workers.len() as u32);
        let ways = format!("{field}.ways");
        require(in_order, &ways, "must be one for each worker, in rank order")?;
        let whole = self.ways(JobId(plan.job.id), stream);
        let lengths = stream.ways.iter().flat_map(|way| &way.legs).map(|leg| leg.links.len());
        let hops = whole.of.iter().flat_map(|way| &way.legs).map(|leg| leg.hops.len());
        require(lengths.eq(hops), &ways, "one names a link that does not begin where it has come")?;
        let wrong =
            |error: WayError| PlanError::Field { field: ways.clone(), problem: error.to_string() };
        whole.validate().map_err(wrong)?;
        let places = format!("{field}.places");
        for place in &stream.places {
            self.validate_place(place, &places)?;
        }
        self.validate_sums(stream, &whole, &places)
    }

    fn validate_place(&self, place: &FabricPlace, field: &str) -> Result<(), PlanError> {
        let node = place.node;
        let Some(slots) = self.slots(NodeId(node)) else {
            return require(false, field, &format!("node {node} is not in `fabric.memory`"));
        };
        let end = u64::from(place.base) + u64::from(place.slots);
        let fits = place.slots > 0 && end <= u64::from(slots);
        require(
            fits,
            field,
            &format!("node {node} has {slots} slots, of which this needs 1 to {end}"),
        )
    }

    /// Whether what the ways pass is summed where the policy needs it.
    fn validate_sums(
        &self,
        stream: &FabricStream,
        ways: &Ways,
        field: &str,
    ) -> Result<(), PlanError> {
        let mut seen = BTreeSet::new();
        let is_once = stream.places.iter().all(|place| seen.insert(Site::Node(NodeId(place.node))));
        require(is_once, field, "a node has two places: give it one")?;
        let root = ways.of.first().and_then(Way::root);
        let has_server = root.is_some_and(|root| !seen.contains(&root));
        let is_right = self.policy.server().allows(has_server);
        let problem = if has_server {
            "the root has none, and this policy has the sum at a switch: give it one"
        } else {
            "the root has one, and this policy has the sum at a server: remove it"
        };
        require(is_right, field, problem)?;
        for way in &ways.of {
            self.validate_way(way, &seen, root, field)?;
        }
        let passed = |site: &Site| {
            ways.of
                .iter()
                .any(|w| w.legs.iter().flat_map(|leg| &leg.hops).any(|hop| hop.to == *site))
        };
        require(seen.iter().all(passed), field, "nobody's way leads over one of them: remove it")
    }

    fn validate_way(
        &self,
        way: &Way,
        placed: &BTreeSet<Site>,
        root: Option<Site>,
        field: &str,
    ) -> Result<(), PlanError> {
        let is_named = way.legs.iter().all(|leg| leg.node != ANY_NODE);
        let is_open = way.legs.iter().all(|leg| leg.node == ANY_NODE);
        let addressed = self.policy.is_addressed();
        let problem = if addressed {
            "have a leg without `node`: this policy's packets name the switch that sums them"
        } else {
            "have a leg with `node`: this policy's packets are summed by every switch on the way"
        };
        let ways = field.replace("places", "ways");
        require(if addressed { is_named } else { is_open }, &ways, problem)?;
        let ends = way.legs.iter().filter_map(|leg| leg.hops.last()).map(|hop| hop.to);
        let mut sums = ends.filter(|end| Some(*end) != root);
        let is_placed = sums.all(|end| placed.contains(&end));
        require(is_placed, field, "a leg ends where the stream has none: give it one")?;
        let is_passed = addressed || way.detours().all(|site| !placed.contains(&site));
        require(is_passed, field, "results would not pass one of them: choose ways without circles")
    }

    /// Streams that share no slots have their own.
    fn validate_regions(&self) -> Result<(), PlanError> {
        if self.policy.shares_slots() {
            return Ok(());
        }
        let mut regions: Vec<(u16, u32, u32)> = Vec::new();
        for (index, stream) in self.streams.iter().enumerate() {
            for place in &stream.places {
                let (begin, end) = (place.base, place.base + place.slots);
                let meets =
                    |&(node, b, e): &(u16, u32, u32)| node == place.node && b < end && begin < e;
                let field = format!("fabric.streams[{index}].places");
                let problem =
                    format!("slots of node {} are another stream's: give it its own", place.node);
                require(!regions.iter().any(meets), &field, &problem)?;
                regions.push((place.node, begin, end));
            }
        }
        Ok(())
    }
}

fn validate_job(plan: &Plan) -> Result<(), PlanError> {
    let is_short = usize::from(plan.job.values_per_packet) <= MAX_VALUES;
    let problem = format!("a packet at switches has two headers, and at most {MAX_VALUES} values");
    require(is_short, "job.values_per_packet", &problem)?;
    // A check has one lane in common, and two for each rank.
    let holds_check = usize::from(plan.job.values_per_packet) > 2 * plan.workers.len();
    require(holds_check, "job.values_per_packet", "must be more than twice the number of workers")?;
    let is_small = plan.workers.len() <= usize::from(MAX_WORKERS);
    require(
        is_small,
        "workers",
        "a packet names 64 workers at switches: sum some on a server first",
    )?;
    let is_udp = plan.nodes.iter().all(|node| matches!(node.engine, Engine::Udp | Engine::Xdp));
    require(is_udp, "nodes", "switches have the engine `udp` or `xdp`")
}
