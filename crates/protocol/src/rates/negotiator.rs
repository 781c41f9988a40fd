//! A node between its children and its parents: one for all its jobs and sub-models, since they share its links.

use std::net::SocketAddr;

use wiresum_keys::{Seat, SeatKey};
use wiresum_wire::control::{Demand, double_word, rate, ready, set_double_word, set_word, word};
use wiresum_wire::{
    Contributor, HEADER_LEN, JobId, JobKey, Kind, NodeId, Packet, Round, SubModelId,
};

use super::allocation::{Bounds, Demands, allocate, sum_rate};
use super::latest::{Epoch, Latest, Novelty};
use super::request::{Latencies, Notice, Period, Request};
use super::usable_bps;
use crate::aggregator::{Membership, seat_keys};
use crate::compose::Draft;
use crate::plan::{Child, PlanStream};
use crate::{ControlHalf, Plan, Time, Transmit};

/// Part of a rate by which it must differ from what a child was told last before the child is told again without having asked.
const WORTH_TELLING: u64 = 64;

/// What is known of a child in the running incarnation.
#[derive(Clone, Debug, Default)]
struct ChildState {
    address: Option<SocketAddr>,
    latest: Latest,
    is_sending: bool,
    round: Round,
    most_bps: u64,
    /// What it was told last.
    told_bps: Option<u64>,
    rate_sequence: u32,
    /// It has asked, and waits for this.
    awaits_answer: bool,
    asked: Option<(Time, Period)>,
    /// A rate waits to be sent.
    owed: bool,
}

/// The way up, in one tree.
#[derive(Clone, Debug)]
struct Upward {
    node: NodeId,
    address: SocketAddr,
    contributor: Contributor,
    /// The key of the node's seat there; absent from a plan without it.
    key: Option<SeatKey>,
    request: Request,
}

/// One sub-model's tree at this node.
#[derive(Clone, Debug)]
struct Tree {
    job: JobId,
    sub_model: SubModelId,
    key: Option<JobKey>,
    children: Vec<ChildState>,
    /// The keys of the children's seats.
    seat_keys: Vec<Option<SeatKey>>,
    upward: Option<Upward>,
}

/// Shares out a node's links among the children of all its jobs.
pub struct Negotiator {
    node: NodeId,
    epoch: Epoch,
    /// What the operator says of the node's links.
    given: Bounds,
    /// What is shared: as given, else the narrowest that a plan says.
    bounds: Bounds,
    trees: Vec<Tree>,
    /// Something has changed since rates were last allocated.
    is_stale: bool,
    counters: Counters,
}

#[derive(Clone, Debug, Default)]
struct Counters {
    readies: u64,
    late_readies: u64,
    congestions: u64,
    rates_sent: u64,
    allocations: u64,
    /// From a child's notification to the answer.
    latencies: Latencies,
}

impl Negotiator {
    /// For `node`. What `given` leaves open is taken from the plans of its jobs, less the headroom for what is not paced.
    #[must_use]
    pub fn new(node: NodeId, given: Bounds) -> Self {
        Self {
            node,
            epoch: Epoch::default(),
            given,
            bounds: given,
            trees: Vec::new(),
            is_stale: false,
            counters: Counters::default(),
        }
    }

    /// The node has begun at `epoch`. To be said before any job is.
    #[must_use]
    pub fn begun_at(self, epoch: Epoch) -> Self {
        Self { epoch, ..self }
    }

    fn tree(&mut self, packet: &Packet) -> Option<&mut Tree> {
        let header = packet.header;
        let is_named = |tree: &&mut Tree| {
            tree.job.0 == header.job.get()
                && tree.sub_model.0 == header.sub_model.get()
                && tree.key == Some(JobKey(header.job_key.get()))
        };
        self.trees.iter_mut().find(is_named)
    }

    fn handle_ready(&mut self, packet: &Packet, now: Time) {
        let contributor = usize::from(packet.header.contributor);
        let Some(child) = self.tree(packet).and_then(|tree| tree.children.get_mut(contributor))
        else {
            return;
        };
        let sequence = word(packet.payload, ready::SEQUENCE_WORD);
        let epoch = Epoch(word(packet.payload, ready::EPOCH_WORD));
        let novelty = child.latest.take(epoch, sequence, now);
        if novelty == Novelty::Late {
            self.counters.late_readies += 1;
            return;
        }
        child.awaits_answer = true;
        if novelty == Novelty::New {
            let demand = Demand::from_wire(word(packet.payload, ready::DEMAND_WORD));
            let was_sending = child.is_sending;
            child.is_sending = demand == Some(Demand::Sending);
            let period = if was_sending { Period::Update } else { Period::Initialization };
            child.asked = child.is_sending.then_some((now, period));
            child.round = Round(packet.header.round.get());
            child.most_bps = double_word(packet.payload, ready::MOST_BPS_WORD);
            let is_congested = double_word(packet.payload, ready::DELIVERED_BPS_WORD) > 0;
            self.counters.congestions += u64::from(is_congested);
        }
        self.counters.readies += 1;
        self.is_stale = true;
    }

    /// Shares the links anew, asks the parents for what the sums could use, and notes whom to tell.
    fn negotiate(&mut self, now: Time) {
        self.is_stale = false;
        self.counters.allocations += 1;
        // What the sums could use does not depend on what is granted, or two levels could answer each other for ever.
        let wanted: Vec<Demands> = self.trees.iter().map(|tree| tree.demands(None)).collect();
        let possible = allocate(self.bounds, &wanted);
        for ((tree, demands), rates) in self.trees.iter_mut().zip(&wanted).zip(&possible) {
            tree.ask_parent(sum_rate(demands, rates), now);
        }
        let granted: Vec<Demands> =
            self.trees.iter().map(|tree| tree.demands(tree.granted_bps())).collect();
        for (tree, rates) in self.trees.iter_mut().zip(allocate(self.bounds, &granted)) {
            tree.note_rates(&rates);
        }
    }

    fn write_rate(&mut self, now: Time, buffer: &mut [u8]) -> Option<Transmit> {
        let tree = self.trees.iter_mut().find(|tree| tree.children.iter().any(|c| c.owed))?;
        let key = tree.key?;
        let index = tree.children.iter().position(|child| child.owed)?;
        let fan_in = tree.children.len() as u8;
        let child = &mut tree.children[index];
        child.owed = false;
        if let Some((since, period)) = child.asked.take_if(|_| !child.awaits_answer) {
            self.counters.latencies.note(period, now.since(since));
        }
        child.rate_sequence = child.rate_sequence.wrapping_add(1);
        let payload = &mut buffer[HEADER_LEN..][..4 * rate::WORDS];
        payload.fill(0);
        set_word(payload, rate::EPOCH_WORD, self.epoch.0);
        set_word(payload, rate::ACKNOWLEDGED_WORD, child.latest.sequence());
        set_word(payload, rate::SEQUENCE_WORD, child.rate_sequence);
        set_double_word(payload, rate::GRANTED_BPS_WORD, child.told_bps.unwrap_or(0));
        let draft = Draft {
            kind: Kind::Rate,
            job: tree.job,
            node: self.node,
            key,
            sub_model: tree.sub_model,
            contributor: index as u8,
            expected: fan_in,
            ..Draft::default()
        };
        self.counters.rates_sent += 1;
        let destination = child.address?;
        let seat_key = tree.seat_keys[index]?;
        Some(Transmit { destination, len: draft.emit_proven(buffer, 4 * rate::WORDS, &seat_key) })
    }
}

impl ControlHalf for Negotiator {
    fn handle_job(&mut self, plan: &Plan) {
        let Some(here) = plan.node(self.node) else { return };
        let narrowest = |given: Option<u64>, now: Option<u64>, planned: Option<u64>| {
            given.or_else(|| now.into_iter().chain(planned.map(usable_bps)).min())
        };
        let Self { node, epoch, given, bounds, trees, .. } = self;
        bounds.ingress_bps = narrowest(given.ingress_bps, bounds.ingress_bps, here.ingress_bps);
        bounds.egress_bps = narrowest(given.egress_bps, bounds.egress_bps, here.egress_bps);
        trees.retain(|tree| tree.job != plan.job_id());
        let negotiated = plan.streams.iter().filter(|s| s.is_negotiated(plan));
        trees.extend(negotiated.filter_map(|s| Tree::new(plan, s, *node, *epoch)));
    }

    fn handle_membership(&mut self, job: JobId, membership: &Membership, _now: Time) {
        for tree in self.trees.iter_mut().filter(|tree| tree.job == job) {
            tree.take_members(membership);
        }
        self.is_stale = true;
    }

    fn handle_packet(&mut self, _source: SocketAddr, packet: &Packet, now: Time) {
        match packet.kind {
            Kind::Ready => self.handle_ready(packet, now),
            Kind::Rate => {
                if let Some(upward) = self.tree(packet).and_then(|tree| tree.upward.as_mut()) {
                    upward.request.handle_rate(packet.payload, now);
                    self.is_stale = true;
                }
            }
            _ => {}
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        for upward in self.trees.iter_mut().filter_map(|tree| tree.upward.as_mut()) {
            self.is_stale |= upward.request.handle_timeout(now);
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        let running = self.trees.iter().filter(|tree| tree.key.is_some());
        running.filter_map(|tree| tree.upward.as_ref()?.request.poll_timeout()).min()
    }

    fn poll_transmit(&mut self, now: Time, buffer: &mut [u8]) -> Option<Transmit> {
        if self.is_stale {
            self.negotiate(now);
        }
        let asked = self.trees.iter_mut().find_map(|tree| tree.write_ready(now, buffer));
        asked.or_else(|| self.write_rate(now, buffer))
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let requests = || self.trees.iter().filter_map(|tree| tree.upward.as_ref());
        let counted = &self.counters;
        let mut counters = vec![
            ("readies", counted.readies),
            ("late_readies", counted.late_readies),
            ("congestions", counted.congestions),
            ("rate_allocations", counted.allocations),
            ("rates_sent", counted.rates_sent),
            ("rates_received", requests().map(|upward| upward.request.rates).sum()),
            ("rates_unanswered", requests().map(|upward| upward.request.unanswered).sum()),
        ];
        counters.extend(counted.latencies.counters());
        counters
    }
}

impl Tree {
    fn new(plan: &Plan, sub_model: &PlanStream, node: NodeId, epoch: Epoch) -> Option<Self> {
        sub_model.place(node)?;
        let upward = sub_model.parent_of(Child::Node(node.0)).and_then(|(above, contributor)| {
            let address = plan.node(above)?.address;
            let key = plan.keys().seat(Seat::new(above, sub_model.id(), contributor));
            let request = Request::of(epoch);
            Some(Upward { node: above, address, contributor, key, request })
        });
        Some(Self {
            job: plan.job_id(),
            sub_model: sub_model.id(),
            key: None,
            children: vec![ChildState::default(); sub_model.fan_in(node)],
            seat_keys: seat_keys(plan, sub_model, node),
            upward,
        })
    }

    /// Another incarnation forgets what children said in the one before.
    fn take_members(&mut self, membership: &Membership) {
        if self.key != membership.key {
            self.key = membership.key;
            self.children.fill(ChildState::default());
            if let Some(upward) = &mut self.upward {
                upward.request.restart();
            }
        }
        for (index, child) in self.children.iter_mut().enumerate() {
            let id = (self.sub_model, Contributor(index as u8));
            child.address = membership.children.get(&id).copied();
        }
    }

    fn is_sending(&self) -> bool {
        self.children.iter().any(|child| child.is_sending)
    }

    /// The oldest round that a child has still to send, or to begin.
    fn front(&self) -> Round {
        let oldest = |a: Round, b: Round| if (a.0.wrapping_sub(b.0) as i32) < 0 { a } else { b };
        self.children.iter().map(|child| child.round).reduce(oldest).unwrap_or_default()
    }

    /// Whether some child has not begun what is the oldest that others have still to send.
    fn is_blocked(&self) -> bool {
        let front = self.front();
        self.children.iter().any(|child| !child.is_sending && child.round == front)
    }

    fn demands(&self, granted: Option<u64>) -> Demands {
        let sending = self.children.iter().filter(|child| child.is_sending);
        Demands {
            caps: sending.map(|child| child.most_bps).collect(),
            fan_in: self.children.len() as u64,
            has_parent: self.upward.is_some(),
            is_blocked: self.is_blocked(),
            granted,
        }
    }

    fn granted_bps(&self) -> Option<u64> {
        let request = &self.upward.as_ref()?.request;
        if request.is_waiting() { None } else { request.granted_bps() }
    }

    /// Tells the parent what the sum could use.
    fn ask_parent(&mut self, most_bps: u64, now: Time) {
        let is_flowing = self.is_sending() && !self.is_blocked();
        let round = self.front();
        let demand = if is_flowing { Demand::Sending } else { Demand::Idle };
        let Some(upward) = self.upward.as_mut().filter(|_| self.key.is_some()) else { return };
        let said = upward.request.notice();
        if said.is_none() && !is_flowing {
            return;
        }
        let last = said.filter(|s| s.demand == demand && !differs(s.most_bps, most_bps));
        let most_bps = match (last, demand) {
            (_, Demand::Idle | Demand::Alive) => 0,
            (Some(last), Demand::Sending) => last.most_bps,
            (None, Demand::Sending) => most_bps,
        };
        upward.request.announce(Notice { demand, round, most_bps }, now);
    }

    /// Notes whom to tell of these rates of the sending children. Whoever asks while the parent is asked waits for it.
    fn note_rates(&mut self, rates: &[u64]) {
        let is_parent_asked = self.upward.as_ref().is_some_and(|up| up.request.is_waiting());
        let mut rates = rates.iter();
        for child in &mut self.children {
            let rate = if child.is_sending { rates.next().copied() } else { None };
            let is_news = rate.is_some_and(|r| child.told_bps.is_none_or(|told| differs(told, r)));
            let may_tell = child.address.is_some() && !(child.is_sending && is_parent_asked);
            if may_tell && (child.awaits_answer || is_news) {
                child.told_bps = rate.or(child.told_bps);
                (child.awaits_answer, child.owed) = (false, true);
            }
        }
    }

    fn write_ready(&mut self, now: Time, buffer: &mut [u8]) -> Option<Transmit> {
        let key = self.key?;
        let upward = self.upward.as_mut()?;
        let payload = &mut buffer[HEADER_LEN..][..4 * ready::WORDS];
        let round = upward.request.poll_ready(now, payload)?;
        let draft = Draft {
            kind: Kind::Ready,
            job: self.job,
            node: upward.node,
            key,
            round: round.0,
            sub_model: self.sub_model,
            contributor: upward.contributor.0,
            ..Draft::default()
        };
        let len = draft.emit_proven(buffer, 4 * ready::WORDS, &upward.key?);
        Some(Transmit { destination: upward.address, len })
    }
}

/// Whether two rates differ enough to be worth a packet.
fn differs(a: u64, b: u64) -> bool {
    a.abs_diff(b) > a.max(b) / WORTH_TELLING
}
