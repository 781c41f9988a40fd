//! Random packets for one switch that meet every row of every table, for golden traces and differential tests: strangers, repetitions,
//! partial sums, results, collisions between streams, positions that lag behind.
//!
//! A packet's values depend on stream, position and contributors alone, so whoever sees what leaves can tell whether the sum is right:
//! [`RandomTraffic::sum`].

use wiresum_netem::Rng;
use wiresum_switch::policy::Policy;
use wiresum_switch::rmt::Profile;
use wiresum_switch::{ANY_NODE, Cohort, Contributors, Packet, Payload, Place, Switch, Values};
use wiresum_wire::{Flags, FragmentId, JobId, Kind, NodeId, Round, SubModelId};

/// The switch's number.
const NODE: NodeId = NodeId(1);
/// Where its sums go.
const PARENT: NodeId = NodeId(2);
/// Slots of each stream.
const SLOTS: u32 = 4;
/// Positions of a stream that are under way at once: three windows, one more than a sensible sender has.
const SPREAD: u64 = 12;
/// Workers of each job; the last one is elsewhere.
const WORKERS: u64 = 4;
/// Values of a packet: one block of 32-bit lanes, or of 16-bit ones, which are twice as many.
const VALUES: u32 = 8;

/// Random packets for one switch, which meet every row of every table.
pub struct RandomTraffic {
    policy: Policy,
    places: Vec<Place>,
    /// Whether lanes come in both byte orders, and at times not as the switch knows them of their stream.
    is_mixed: bool,
    rng: Rng,
    /// Packets so far.
    count: u32,
}

impl RandomTraffic {
    /// Packets of 32-bit sums, for a switch that has the final ones (`is_root`) or not.
    #[must_use]
    pub fn new(policy: Policy, is_root: bool, seed: u64) -> Self {
        Self::of_lanes([Flags(0); 2], policy, is_root, seed)
    }

    /// Packets of two streams with these lanes; see [`Place::lanes`].
    #[must_use]
    pub fn of_lanes(lanes: [Flags; 2], policy: Policy, is_root: bool, seed: u64) -> Self {
        let place = |index: u16| Place {
            job: JobId(1 + index),
            sub_model: SubModelId(3),
            cohort: Cohort(0),
            members: Contributors::first(WORKERS as u8 - 1),
            parent: (!is_root).then_some(PARENT),
            base: if policy.shares_slots() { 0 } else { SLOTS * u32::from(index) },
            slots: SLOTS,
            window: SLOTS,
            lanes: lanes[usize::from(index)],
        };
        let places = (0..2).map(place).collect();
        let is_mixed = lanes != [Flags(0); 2];
        Self { policy, places, is_mixed, rng: Rng::new(seed), count: 0 }
    }

    /// The same of one stream with two cohorts of workers in place of two streams.
    #[must_use]
    pub fn of_cohorts(mut self) -> Self {
        let [first, second] = &mut self.places[..] else { unreachable!("there are two places") };
        (second.job, second.cohort, second.lanes) = (first.job, Cohort(1), first.lanes);
        self
    }

    /// The streams that the switch sums.
    #[must_use]
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// Slots of the switch.
    #[must_use]
    pub fn slots(&self) -> u32 {
        SLOTS * self.places.len() as u32
    }

    /// The switch that the packets are for.
    ///
    /// # Panics
    /// If it does not fit an unlimited profile, which is a bug.
    #[must_use]
    pub fn switch(&self) -> Switch<Values> {
        let profile = Profile::UNLIMITED;
        let mut switch = Switch::new(NODE, self.policy, self.slots(), VALUES, &profile)
            .expect("an unlimited switch has room");
        for &place in &self.places {
            switch.install(place).expect("places of their own");
        }
        switch
    }

    /// What these workers contribute to a fragment, merged as the packet's flags say.
    #[must_use]
    pub fn sum(packet: &Packet<Values>, workers: Contributors) -> Values {
        let stream = i32::from(packet.job.0) << 8 | i32::from(packet.sub_model.0);
        let of = |worker: u8, lane: i32| {
            let seed = stream ^ (packet.fragment.0 as i32) << 16 ^ i32::from(worker) << 4 ^ lane;
            seed.wrapping_mul(0x9e37_79b1_u32 as i32)
        };
        let is_narrow = packet.flags.contains(Flags::LANES16);
        let count = if is_narrow { 2 * VALUES } else { VALUES } as i32;
        let lane = |value: i32| if is_narrow { i32::from(value as i16) } else { value };
        let cohort = packet.cohort();
        let lanes =
            |worker| (0..count).map(|i| lane(of(cohort.worker(worker), i))).collect::<Values>();
        let mut workers = workers.iter();
        let mut merged = workers.next().map(lanes).unwrap_or_default();
        workers.for_each(|worker| merged.merge(&lanes(worker), packet.flags));
        merged
    }

    /// The next packet.
    pub fn next_packet(&mut self) -> Packet<Values> {
        self.count += 1;
        let place = self.places[self.rng.below(self.places.len() as u64) as usize];
        // The front moves on by a position every few packets, so that slots are taken, kept and taken over.
        let front = self.count / 16;
        let fragment = FragmentId(front.wrapping_add(self.rng.below(SPREAD) as u32));
        let is_result = self.rng.chance(0.15);
        let mut packet = Packet {
            contributors: if is_result { place.members } else { self.contributors() },
            fragment,
            round: Round(fragment.0 / 4),
            slot: place.base + self.slot_offset(fragment),
            job: place.job,
            sub_model: place.sub_model,
            node: if self.policy.is_addressed() { NODE } else { ANY_NODE },
            flags: self.flags(is_result).with(place.lanes),
            kind: if is_result { Kind::Result } else { Kind::Contribution },
            worker: place.cohort.worker(0),
            expected: WORKERS as u8,
            priority: self.rng.below(4) as u8,
            exponent: -4,
            values: Values::new(),
        };
        packet.worker = place.cohort.worker(packet.contributors.0.trailing_zeros() as u8);
        let summed =
            if is_result { Contributors::first(WORKERS as u8) } else { packet.contributors };
        packet.values = Self::sum(&packet, summed);
        self.estrange(&mut packet);
        packet
    }

    /// As a rule one of the switch's workers; at times a partial sum of two.
    fn contributors(&mut self) -> Contributors {
        let mut one = || Contributors::one(self.rng.below(WORKERS - 1) as u8);
        let (first, second) = (one(), one());
        if self.rng.chance(0.1) { first.with(second) } else { first }
    }

    fn slot_offset(&mut self, fragment: FragmentId) -> u32 {
        if self.rng.chance(0.02) { SLOTS } else { fragment.0 * 3 % SLOTS }
    }

    fn flags(&mut self, is_result: bool) -> Flags {
        let is_big_endian = self.is_mixed && self.rng.chance(0.3);
        let mut flags = if is_big_endian { Flags(0) } else { Flags::LITTLE_ENDIAN };
        let chances = [(Flags::RETRANSMISSION, 0.2), (Flags::ECN, 0.1), (Flags::EARLY, 0.05)];
        for (flag, chance) in chances {
            if self.rng.chance(chance) && !is_result {
                flags = flags.with(flag);
            }
        }
        flags
    }

    /// At times it is for another job or node, of a worker who is summed elsewhere, of other lanes, or a refusal on its way down.
    fn estrange(&mut self, packet: &mut Packet<Values>) {
        match self.rng.below(40) {
            0 => packet.job = JobId(9),
            1 => packet.node = PARENT,
            2 if packet.kind == Kind::Contribution => {
                packet.contributors = Contributors::one(WORKERS as u8 - 1);
                packet.values = Self::sum(packet, packet.contributors);
            }
            3 if self.is_mixed && packet.kind == Kind::Contribution => {
                packet.flags = Flags(packet.flags.0 ^ Flags::MAXIMUM.0);
                packet.values = Self::sum(packet, packet.contributors);
            }
            2 if packet.kind == Kind::Result => {
                packet.mark(Flags::REFUSED.with(Flags::ECN));
                packet.values = Values::new();
            }
            _ => {}
        }
    }
}
