//! One node of a cluster: what sums there, and what acts by the clock beside it.

use std::net::SocketAddr;

use wiresum_netem::Time;
use wiresum_protocol::plan;
use wiresum_protocol::rates::{Bounds, Epoch, Negotiator, Results};
use wiresum_protocol::{Aggregator, ControlHalf, Liveness, Plan, Transmitter};
use wiresum_wire::{FragmentId, NodeId};

/// What a test does with one node.
pub struct Node {
    /// Its number in the plan.
    pub id: NodeId,
    /// Where it listens.
    pub address: SocketAddr,
    /// Sums.
    pub aggregator: Aggregator,
    /// Carries sums upwards.
    pub transmitter: Transmitter,
    /// Shares out rates.
    pub negotiator: Negotiator,
    /// Watches workers.
    pub liveness: Liveness,
    /// Taken from the network.
    pub is_dead: bool,
}

impl Node {
    /// A process that knows nothing but the plan; the streams' first position is `first`.
    pub(super) fn new(plan: &Plan, planned: &plan::Node, first: FragmentId, epoch: Epoch) -> Self {
        let id = NodeId(planned.id);
        let mut transmitter = Transmitter::new(plan, id);
        transmitter.start_at(first);
        let mut liveness = Liveness::new(id);
        liveness.handle_job(plan);
        Self {
            id,
            address: planned.address,
            aggregator: Aggregator::new(plan, id),
            transmitter,
            negotiator: negotiator(plan, planned, epoch),
            liveness,
            is_dead: false,
        }
    }

    /// What it does by the clock, besides carrying sums upwards.
    pub(super) fn halves(&mut self) -> [&mut dyn ControlHalf; 2] {
        [&mut self.negotiator, &mut self.liveness]
    }

    /// When a control half is next due.
    pub(super) fn next_control(&self) -> Option<Time> {
        let due = [self.negotiator.poll_timeout(), self.liveness.poll_timeout()];
        due.into_iter().flatten().min()
    }

    /// Lets the control halves act whose time has come.
    pub(super) fn handle_timeouts(&mut self, now: Time) {
        for half in self.halves() {
            if half.poll_timeout().is_some_and(|due| due <= now) {
                half.handle_timeout(now);
            }
        }
    }
}

/// Shares what the plan says of a node's links.
fn negotiator(plan: &Plan, node: &plan::Node, epoch: Epoch) -> Negotiator {
    let bounds = Bounds {
        ingress_bps: node.ingress_bps,
        egress_bps: node.egress_bps,
        results: Results::Here,
    };
    let mut negotiator = Negotiator::new(NodeId(node.id), bounds).begun_at(epoch);
    negotiator.handle_job(plan);
    negotiator
}
