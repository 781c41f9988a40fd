//! Endless random packets for one aggregator, with what the reference makes of each: the material of golden traces and of
//! differential tests of other data planes.
//!
//! Everything follows from the seed. Of the joining kinds (hello to goodbye) there are only those of
//! [`RandomTraffic::joining`], because data planes leave them to a user-space [`Aggregator`].

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use wiresum_keys::ValueHash;
use wiresum_netem::Rng;
use wiresum_protocol::compose::{Draft, joining};
use wiresum_protocol::plan::{Child, PlanStream};
use wiresum_protocol::{Aggregator, Association, Outcome, Plan, Recipients};
use wiresum_wire::control::{Absent, hello_payload, rate, ready, set_word, status};
use wiresum_wire::{
    BLOCK_LEN, Contributor, Exchange, Flags, FragmentId, HEADER_LEN, JobId, JobKey, Kind, LaneType,
    NodeId, PAGE_PACKET, PROOF_LEN, SubModelId,
};

/// The incarnation of the job in all random traffic.
pub const INCARNATION: u64 = 1_700_000_000_000_000;
/// Port of worker 0 in random traffic; rank r uses the one r further on.
pub const FIRST_WORKER_PORT: u16 = 40_000;

/// One datagram and what follows from it.
#[derive(Clone, Debug)]
pub struct Step {
    /// Where the datagram comes from.
    pub source: SocketAddr,
    /// The datagram.
    pub datagram: Vec<u8>,
    /// What the reference says.
    pub outcome: Outcome,
    /// Every packet that goes out, in order of children.
    pub packets: Vec<(SocketAddr, Vec<u8>)>,
}

/// Random packets for one aggregator. An iterator that never ends; call [`Self::joining`] first.
pub struct RandomTraffic {
    plan: Plan,
    node: NodeId,
    aggregator: Aggregator,
    /// What values are hashed by, where a packet has a proof of them.
    hash: ValueHash,
    rng: Rng,
    seed: u64,
    /// What values carry.
    association: Association,
    /// By index in [`Plan::streams`]: the lowest position that children still contribute to.
    bases: Vec<u32>,
    /// Workers that the incarnation goes on without.
    absent: Absent,
}

impl RandomTraffic {
    /// Traffic for one node of a plan. Positions start just below the wrap at 2³².
    ///
    /// # Panics
    /// If `node` is not in the tree of every sub-model.
    #[must_use]
    pub fn new(plan: &Plan, node: NodeId, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let near_wrap = |rng: &mut Rng| (rng.below(200) as u32).wrapping_neg();
        let bases: Vec<u32> = plan.streams.iter().map(|_| near_wrap(&mut rng)).collect();
        let association = Association::starting_at(plan, INCARNATION, FragmentId(bases[0]));
        assert!(plan.streams.iter().all(|s| s.place(node).is_some()), "node {node} has no place");
        let aggregator = Aggregator::new(plan, node);
        let hash = plan.keys().value_hash();
        let (plan, absent) = (plan.clone(), Absent::default());
        Self { plan, node, aggregator, hash, rng, seed, association, bases, absent }
    }

    /// Traffic of an incarnation that goes on without these workers. Their seats send all the same, and are foreign.
    #[must_use]
    pub fn without(self, absent: Absent) -> Self {
        Self { absent, ..self }
    }

    /// What values carry, in all streams.
    #[must_use]
    pub fn association(&self) -> Association {
        self.association
    }

    /// From now on values carry the keys of the next renewal by time, of which hellos tell.
    pub fn renew(&mut self) {
        self.association.renew(&self.plan);
    }

    /// Every child's and substitute's hello in every sub-model, and the parent's welcome.
    pub fn joining(&mut self) -> Vec<Step> {
        let plan = self.plan.clone();
        plan.streams.iter().flat_map(|sub_model| self.joining_of(sub_model)).collect()
    }

    fn joining_of(&mut self, sub_model: &PlanStream) -> Vec<Step> {
        let words =
            hello_payload(INCARNATION, self.plan.digest(), self.association.age(), self.absent);
        let mut steps = Vec::new();
        for index in 0..self.seat_count(sub_model) {
            let draft =
                Draft { contributor: index, round: 1, ..self.draft(Kind::Hello, sub_model) };
            let hello = joining(&self.plan, &draft, words);
            steps.push(self.step(self.child_address(sub_model, index), hello));
        }
        if let Some((parent, address, index)) = self.parent(sub_model) {
            let draft = self.draft(Kind::Welcome, sub_model);
            let draft = Draft { node: parent, contributor: index, round: 1, ..draft };
            steps.push(self.step(address, joining(&self.plan, &draft, words)));
        }
        steps
    }

    /// A sound contribution of one block to the position that is so far from the stream's first.
    ///
    /// # Panics
    /// If the plan has no such stream.
    pub fn contribution(
        &mut self,
        stream: usize,
        offset: u32,
        contributor: u8,
        exchange: Exchange,
    ) -> Step {
        let sub_model = self.plan.streams[stream].clone();
        let position = self.bases[stream].wrapping_add(offset);
        let draft = Draft { contributor, exchange, ..self.of_position(&sub_model, position) };
        let mut payload = self.payload(&draft, position, contributor);
        payload.truncate(BLOCK_LEN);
        let datagram = self.emit(&draft, &payload);
        self.step(self.child_address(&sub_model, contributor), datagram)
    }

    /// Runs the reference on a datagram.
    fn step(&mut self, source: SocketAddr, datagram: Vec<u8>) -> Step {
        let mut buffer = [0; PAGE_PACKET];
        let len = datagram.len();
        buffer[..len].copy_from_slice(&datagram);
        let outcome = self.aggregator.handle_datagram(source, &mut buffer, len);
        let packet = &mut buffer[..outcome.len];
        let packets = match outcome.recipients {
            Recipients::None | Recipients::ControlHalf => Vec::new(),
            Recipients::One(address) => vec![(address, packet.to_vec())],
            Recipients::Children => (0..self.aggregator.child_count())
                .filter_map(|i| {
                    Some((self.aggregator.address_to_child(i, packet)?, packet.to_vec()))
                })
                .collect(),
        };
        Step { source, datagram, outcome, packets }
    }

    /// Where a child or a substitute sends from.
    #[must_use]
    pub fn child_address(&self, sub_model: &PlanStream, index: u8) -> SocketAddr {
        let substitutes = sub_model.substitutes(self.node);
        let substitutes = substitutes.iter().map(|substitute| Child::Worker(substitute.rank));
        let mut seats = sub_model.children(self.node).chain(substitutes);
        match seats.nth(usize::from(index)).expect("a seat at this node") {
            Child::Node(id) => self.plan.node(NodeId(id)).expect("a valid plan").address,
            Child::Worker(rank) => {
                let any = IpAddr::V4(Ipv4Addr::new(10, 1, (rank >> 8) as u8, rank as u8));
                let ip = self.plan.workers[rank as usize].address.unwrap_or(any);
                SocketAddr::new(ip, FIRST_WORKER_PORT + rank as u16)
            }
        }
    }

    fn parent(&self, sub_model: &PlanStream) -> Option<(NodeId, SocketAddr, u8)> {
        let (parent, index) = sub_model.parent_of(Child::Node(self.node.0))?;
        Some((parent, self.plan.node(parent)?.address, index.0))
    }

    fn fan_in(&self, sub_model: &PlanStream) -> u8 {
        sub_model.fan_in(self.node) as u8
    }

    fn seat_count(&self, sub_model: &PlanStream) -> u8 {
        sub_model.seats(self.node).len() as u8
    }

    fn draft(&self, kind: Kind, sub_model: &PlanStream) -> Draft {
        Draft {
            kind,
            job: self.plan.job_id(),
            node: self.node,
            key: self.plan.job_key(INCARNATION),
            sub_model: sub_model.id(),
            expected: self.fan_in(sub_model),
            ..Draft::default()
        }
    }

    /// A packet about a position near the front of a random stream, as a sound child or parent would send it.
    fn sound(&mut self) -> (SocketAddr, Draft, Vec<u8>) {
        let index = self.rng.below(self.plan.streams.len() as u64) as usize;
        let sub_model = self.plan.streams[index].clone();
        let seats = self.seat_count(&sub_model);
        let position = self.position(index, &sub_model);
        let contributor = self.rng.below(seats.into()) as u8;
        let source = self.child_address(&sub_model, contributor);
        if self.rng.chance(0.06) {
            let draft = Draft {
                contributor,
                fragment: position.wrapping_sub(self.rng.below(40) as u32),
                ..self.draft(Kind::Probe, &sub_model)
            };
            return (source, draft, self.probe_payload());
        }
        if self.rng.chance(0.04) {
            return self.control(&sub_model, contributor);
        }
        let of_position = self.of_position(&sub_model, position);
        let payload = self.payload(&of_position, position, contributor);
        match self.parent(&sub_model) {
            Some((node, address, index)) if self.rng.chance(0.2) => {
                let draft = Draft { kind: Kind::Result, node, contributor: index, ..of_position };
                (address, draft, payload)
            }
            _ => (source, Draft { contributor, ..of_position }, payload),
        }
    }

    /// A ready from a child, or a rate or status from the parent, with any content: data planes do not look at it.
    fn control(&mut self, sub_model: &PlanStream, contributor: u8) -> (SocketAddr, Draft, Vec<u8>) {
        let mut payload = vec![0; 4 * rate::WORDS];
        self.rng.fill(&mut payload);
        match self.parent(sub_model) {
            Some((node, address, index)) if self.rng.chance(0.5) => {
                let kind = if self.rng.chance(0.5) { Kind::Rate } else { Kind::Status };
                if kind == Kind::Status {
                    payload.resize(4 * status::WORDS, 0);
                }
                let draft = self.draft(kind, sub_model);
                (address, Draft { node, contributor: index, ..draft }, payload)
            }
            _ => {
                payload.resize(4 * ready::WORDS, 0);
                let ready = Draft { contributor, ..self.draft(Kind::Ready, sub_model) };
                (self.child_address(sub_model, contributor), ready, payload)
            }
        }
    }

    /// A position that is probably being summed; now and then one that should be over.
    fn position(&mut self, index: usize, sub_model: &PlanStream) -> u32 {
        let seats = u64::from(self.seat_count(sub_model));
        let base = &mut self.bases[index];
        if self.rng.below(3 * seats) == 0 {
            *base = base.wrapping_add(1);
        }
        let over = base.wrapping_sub(2 * sub_model.slots());
        match self.rng.below(25) {
            0 => over,
            1 => over.wrapping_add(self.rng.below(2 * u64::from(sub_model.slots())) as u32),
            _ => base.wrapping_add(self.rng.below(3) as u32),
        }
    }

    /// What all contributors to a position agree on.
    fn of_position(&self, sub_model: &PlanStream, position: u32) -> Draft {
        let formats = [LaneType::I32Le, LaneType::I32Be, LaneType::I16Le, LaneType::I16Be];
        let choice = Rng::new(self.seed ^ u64::from(position / 3)).next();
        let lanes = formats[choice as usize % formats.len()].flags();
        let flags = if choice & 4 == 0 { lanes } else { lanes.with(Flags::MAXIMUM) };
        Draft {
            round: position / 7,
            fragment: position,
            exponent: (position % 11) as i8 - 5,
            exchange: self.exchange(sub_model, choice >> 8),
            flags,
            key: self.association.key(FragmentId(position)),
            ..self.draft(Kind::Contribution, sub_model)
        }
    }

    /// Who gives and who takes: at a root not always everyone, unless values are proven.
    fn exchange(&self, sub_model: &PlanStream, choice: u64) -> Exchange {
        if self.plan.job.proven {
            return Exchange::ALL;
        }
        let taker = Contributor(((choice >> 2) % u64::from(self.fan_in(sub_model))) as u8);
        match (self.parent(sub_model), choice % 4) {
            (None, 0) => Exchange::COPY,
            (None, 1) => Exchange::to(taker),
            (None, 2) => Exchange::copy_to(taker),
            _ => Exchange::ALL,
        }
    }

    fn payload(&self, draft: &Draft, position: u32, contributor: u8) -> Vec<u8> {
        let blocks = self.plan.payload_len() as u64 / 32;
        let full = Rng::new(self.seed ^ u64::from(position)).next();
        let count = if full & 1 == 0 { blocks } else { 1 + (full >> 1) % blocks };
        let mut payload = vec![0; 32 * count as usize];
        let sub_model = u64::from(draft.sub_model.0) << 48;
        let salt = u64::from(position) << 8 | u64::from(contributor) | sub_model;
        Rng::new(self.seed.wrapping_add(salt)).fill(&mut payload);
        payload
    }

    fn probe_payload(&mut self) -> Vec<u8> {
        let mut payload = vec![0; 4 * status::WORDS];
        set_word(&mut payload, status::ECHO_WORD, self.rng.next() as u32);
        payload
    }

    /// A packet in the right form and with a right check, by somebody who has not overheard the job's key, cannot send
    /// from where the child or parent does, or has no key for a proof; or random bytes.
    pub fn forged(&mut self) -> (SocketAddr, Vec<u8>) {
        let (mut source, mut draft, payload) = self.sound();
        if draft.kind.carries_values() && self.plan.job.proven {
            return (source, self.overheard(&draft, payload));
        }
        let ways = self.rng.below(6);
        match ways {
            0 => draft.key = JobKey(self.rng.next()),
            1 => draft.key = JobKey(draft.key.0 ^ 1 << self.rng.below(64)),
            2 => source.set_port(source.port() ^ 1 << self.rng.below(16)),
            3 => source.set_ip(IpAddr::V4(Ipv4Addr::from_bits(self.rng.next() as u32))),
            5 if draft.kind.carries_values() => draft.key = JobKey(!draft.key.0),
            _ => {}
        }
        let mut datagram = draft.datagram(&payload);
        if ways == 4 {
            self.rng.fill(&mut datagram);
        }
        (source, datagram)
    }

    /// Proven values as somebody sends them who knows all but the keys of proofs: the key of the job, the address, the
    /// right check. It has the proof of other values, or of another header, or changes bits of one, or leaves it out.
    fn overheard(&mut self, draft: &Draft, mut payload: Vec<u8>) -> Vec<u8> {
        let sent = self.emit(draft, &payload);
        let mut proof = sent[sent.len() - PROOF_LEN..].to_vec();
        let mut draft = draft.clone();
        match self.rng.below(6) {
            0 => return draft.datagram(&payload),
            1 => self.rng.fill(&mut proof),
            2 => proof[self.rng.below(PROOF_LEN as u64) as usize] ^= 1 << self.rng.below(8),
            3 => draft.round ^= 1 << self.rng.below(32),
            4 => draft.exponent ^= 1 << self.rng.below(8),
            _ => {
                let bit = self.rng.below(8 * payload.len() as u64) as usize;
                payload[bit / 8] ^= 1 << (bit % 8);
            }
        }
        let draft = Draft { flags: draft.flags.with(Flags::PROVEN), ..draft };
        [draft.datagram(&payload), proof].concat()
    }

    /// The packet, with a proof where it is one that has one and somebody has the key.
    fn emit(&self, draft: &Draft, payload: &[u8]) -> Vec<u8> {
        if draft.kind.carries_values() {
            let key = self.plan.keys().seat(draft.seat());
            let key = key.filter(|_| self.plan.job.proven != draft.flags.contains(Flags::PROVEN));
            return match key {
                Some(key) => draft.proven_values(payload, &self.hash, &key),
                None => Draft { flags: draft.flags.only(Flags::FORMAT), ..draft.clone() }
                    .datagram(payload),
            };
        }
        let has_proof = draft.kind.control_words().is_some_and(|words| payload.len() == 4 * words);
        let key = self.plan.keys().seat(draft.seat()).filter(|_| has_proof);
        key.map_or_else(|| draft.datagram(payload), |key| draft.proven(payload, &key))
    }

    /// Another packet than the sound one, whose check is right all the same.
    fn lie(&mut self, source: &mut SocketAddr, draft: &mut Draft, payload: &mut Vec<u8>) {
        match self.rng.below(14) {
            0 => draft.job = JobId(draft.job.0 ^ 1),
            // A bit, or the key of another generation.
            1 => match self.rng.below(64) {
                shift @ ..8 => {
                    let elsewhere = FragmentId(draft.fragment ^ ((shift as u32 % 3 + 1) << 30));
                    draft.key = self.association.key(elsewhere);
                }
                bit => draft.key = JobKey(draft.key.0 ^ 1 << bit),
            },
            2 => draft.node = NodeId(draft.node.0 ^ 1),
            3 => draft.sub_model = SubModelId(draft.sub_model.0 ^ 0x4000),
            4 => draft.contributor = draft.contributor.wrapping_add(1 + self.rng.below(255) as u8),
            5 => source.set_port(source.port() ^ 1),
            6 => draft.round ^= 1,
            7 => draft.exponent = draft.exponent.wrapping_add(1),
            8 => draft.flags = Flags(draft.flags.0 ^ Flags::MAXIMUM.0),
            // A request: answered where the entry is final.
            11 => draft.flags = draft.flags.with(Flags::REQUEST),
            12 => draft.exchange = Exchange(self.rng.next() as u8),
            9 => draft.kind = Kind::ALL[self.rng.below(4) as usize],
            // A proof where none is asked for, or none where one is.
            10 => draft.flags = draft.flags.with(Flags::PROVEN),
            _ => payload.resize(payload.len() + 32, 0),
        }
    }

    /// Damage that no sender did.
    fn damage(&mut self, datagram: &mut Vec<u8>) {
        match self.rng.below(4) {
            0 => datagram.truncate(self.rng.below(datagram.len() as u64) as usize),
            1 => datagram.extend([0; 5]),
            2 => self.rng.fill(datagram),
            _ => {
                let bit = self.rng.below(8 * datagram.len() as u64);
                datagram[bit as usize / 8] ^= 1 << (bit % 8);
            }
        }
        // Joining kinds are not for data planes: see the module.
        if let Some(kind) = datagram.get_mut(KIND_OFFSET)
            && Kind::from_wire(*kind).is_some_and(Kind::is_joining)
        {
            *kind = 0;
        }
    }
}

/// Where the kind is in a packet.
const KIND_OFFSET: usize = 3;

impl Iterator for RandomTraffic {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        let (mut source, mut draft, mut payload) = self.sound();
        if self.rng.chance(0.08) {
            self.lie(&mut source, &mut draft, &mut payload);
        }
        payload.truncate(PAGE_PACKET - HEADER_LEN);
        let is_proven = self.rng.chance(0.95);
        let mut datagram =
            if is_proven { self.emit(&draft, &payload) } else { draft.datagram(&payload) };
        if self.rng.chance(0.08) {
            self.damage(&mut datagram);
        }
        datagram.truncate(PAGE_PACKET);
        Some(self.step(source, datagram))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wiresum_protocol::Verdict;

    fn tree() -> Plan {
        Plan::from_json(include_str!("../../../protocol/tests/plans/tree.json"))
            .expect("a valid plan")
    }

    fn verdicts(node: u16) -> Vec<Verdict> {
        let mut traffic = RandomTraffic::new(&tree(), NodeId(node), 1);
        let joining = traffic.joining();
        let mut seen: Vec<Verdict> = joining
            .into_iter()
            .chain(traffic.take(4000))
            .map(|step| step.outcome.verdict)
            .collect();
        seen.sort();
        seen.dedup();
        seen
    }

    #[test]
    fn every_verdict_occurs_at_a_root_or_an_inner_node() {
        let mut seen = [verdicts(0), verdicts(1)].concat();
        seen.sort();
        seen.dedup();
        // Nobody has a quota here, and only a data plane on several CPUs has to wait.
        let absent = [Verdict::OverQuota, Verdict::Contended];
        let possible = Verdict::AGGREGATOR.into_iter().filter(|verdict| !absent.contains(verdict));
        assert_eq!(seen, possible.collect::<Vec<_>>());
    }

    #[test]
    fn the_same_seed_gives_the_same_packets() {
        let packets = |seed| {
            let traffic = RandomTraffic::new(&tree(), NodeId(0), seed);
            traffic.take(50).map(|step| step.datagram).collect::<Vec<_>>()
        };
        assert_eq!(packets(7), packets(7));
        assert_ne!(packets(7), packets(8));
    }
}
