//! The workers of one job at one node.

use std::net::SocketAddr;

use wiresum_keys::{Seat as SeatName, SeatKey};
use wiresum_wire::control::{Demand, rate, ready, set_word, word};
use wiresum_wire::{Contributor, HEADER_LEN, JobId, JobKey, Kind, NodeId, Packet, SubModelId};

use super::LOOK_INTERVAL;
use super::seat::Seat;
use crate::aggregator::{Membership, seat_keys};
use crate::compose::Draft;
use crate::plan::{Child, PlanStream};
use crate::{Plan, Time, Transmit};

/// How often each neighbour is told of a lost worker, once at a look: at a loss of 5 % all of these are lost once in
/// 10¹³ times.
const TELLINGS: u32 = 10;

/// The way up.
#[derive(Clone, Debug)]
struct Upward {
    node: NodeId,
    address: SocketAddr,
    contributor: Contributor,
    key: SeatKey,
    is_owed: bool,
}

/// What is known of a job in its running incarnation. All of it travels in the stream of the exponents, which every
/// worker is in, and in which nothing else asks for rates.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    job: JobId,
    sub_model: SubModelId,
    ranks: u32,
    fan_in: u8,
    key: Option<JobKey>,
    /// By contributor: the children, then their substitutes.
    seats: Vec<Seat>,
    upward: Option<Upward>,
    /// The first worker that was found or said to be lost. It never comes back in this incarnation.
    lost: Option<u32>,
    /// How often neighbours are still to be told.
    tellings: u32,
    look_at: Option<Time>,
}

impl Watched {
    /// The job of a plan; `None` if the node does not sum its exponents.
    pub fn new(plan: &Plan, node: NodeId) -> Option<Self> {
        let stream = plan.exponents().filter(|stream| stream.place(node).is_some())?;
        let holders = holders(stream, node).into_iter();
        let seats = holders.zip(seat_keys(plan, stream, node));
        Some(Self {
            job: plan.job_id(),
            sub_model: stream.id(),
            ranks: plan.workers.len() as u32,
            fan_in: stream.fan_in(node) as u8,
            key: None,
            seats: seats.map(|(rank, key)| Seat::of(rank, key)).collect(),
            upward: upward(plan, stream, node),
            lost: None,
            tellings: 0,
            look_at: None,
        })
    }

    pub fn id(&self) -> JobId {
        self.job
    }

    /// When to look next.
    pub fn look_at(&self) -> Option<Time> {
        self.look_at
    }

    /// Whether a packet is of the stream and the incarnation that are watched.
    pub fn is_named(&self, packet: &Packet) -> bool {
        let header = packet.header;
        header.job.get() == self.job.0
            && header.sub_model.get() == self.sub_model.0
            && self.key == Some(JobKey(header.job_key.get()))
    }

    /// Who takes part now. Another incarnation forgets what was known in the one before.
    pub fn take_members(&mut self, membership: &Membership, now: Time) {
        if self.key != membership.key {
            self.key = membership.key;
            self.seats.iter_mut().for_each(Seat::forget);
            (self.lost, self.tellings, self.look_at) = (None, 0, None);
        }
        let mut is_someone_new = false;
        for (index, seat) in self.seats.iter_mut().enumerate() {
            let id = (self.sub_model, Contributor(index as u8));
            let address = membership.children.get(&id).copied();
            if seat.address != address {
                is_someone_new |= address.is_some();
                seat.move_to(address);
            }
        }
        if is_someone_new && self.lost.is_some() {
            self.begin_telling(now);
        }
    }

    /// Takes a child's heartbeat; `false` if it is late. Nodes alone are believed that another one is lost.
    pub fn take_heartbeat(&mut self, packet: &Packet, now: Time) -> bool {
        let Some(seat) = self.seats.get_mut(usize::from(packet.header.contributor)) else {
            return false;
        };
        if seat.rank.is_none() {
            self.learn(named(packet.payload, ready::LOST_WORD), now);
            return true;
        }
        let is_news = seat.hear(packet.payload);
        if self.lost.is_none() && seat.is_watched() {
            self.look_at.get_or_insert(now.plus(LOOK_INTERVAL));
        }
        is_news
    }

    /// Takes the parent's word that a worker is lost.
    pub fn take_notice(&mut self, packet: &Packet, now: Time) {
        self.learn(named(packet.payload, rate::LOST_WORD), now);
    }

    /// Looks who is silent, and notes whom to tell. Whether a worker was found lost.
    pub fn look(&mut self, now: Time) -> bool {
        self.seats.iter_mut().for_each(Seat::look);
        let silent = self.seats.iter().filter(|seat| seat.is_silent());
        let silent = silent.filter_map(|seat| seat.rank).find(|rank| !self.hears(*rank));
        let is_found = self.learn(silent, now);
        if self.tellings > 0 {
            self.tellings -= 1;
            self.owe_everyone();
        }
        let is_watching = self.lost.is_none() && self.seats.iter().any(Seat::is_watched);
        self.look_at = (is_watching || self.tellings > 0).then(|| now.plus(LOOK_INTERVAL));
        is_found
    }

    /// Whether a worker is heard in some seat: it may have gone from one to another.
    fn hears(&self, rank: u32) -> bool {
        let of_rank = |seat: &&Seat| seat.rank == Some(rank);
        self.seats.iter().filter(of_rank).any(|seat| seat.is_watched() && !seat.is_silent())
    }

    /// A worker is lost. Whether that is news.
    fn learn(&mut self, rank: Option<u32>, now: Time) -> bool {
        let lost = rank.filter(|rank| *rank < self.ranks && !self.hears(*rank));
        let is_news = self.lost.is_none() && lost.is_some();
        if is_news {
            self.lost = lost;
            self.begin_telling(now);
        }
        is_news
    }

    fn begin_telling(&mut self, now: Time) {
        (self.tellings, self.look_at) = (TELLINGS, Some(now));
    }

    fn owe_everyone(&mut self) {
        for seat in &mut self.seats {
            seat.is_owed = seat.address.is_some() && seat.key.is_some();
        }
        self.upward.iter_mut().for_each(|upward| upward.is_owed = true);
    }

    /// Writes the next notice that is owed, to the parent or to a child.
    pub fn write_notice(&mut self, node: NodeId, buffer: &mut [u8]) -> Option<Transmit> {
        let (key, lost) = (self.key?, self.lost?);
        let draft = Draft { job: self.job, key, sub_model: self.sub_model, ..Draft::default() };
        if let Some(upward) = self.upward.as_mut().filter(|upward| upward.is_owed) {
            upward.is_owed = false;
            return Some(upward.write(draft, lost, buffer));
        }
        let index = self.seats.iter().position(|seat| seat.is_owed)?;
        let seat = &mut self.seats[index];
        seat.is_owed = false;
        let payload = &mut buffer[HEADER_LEN..][..4 * rate::WORDS];
        payload.fill(0);
        set_word(payload, rate::LOST_WORD, lost + 1);
        let (contributor, expected) = (index as u8, self.fan_in);
        let draft = Draft { kind: Kind::Rate, node, contributor, expected, ..draft };
        let len = draft.emit_proven(buffer, 4 * rate::WORDS, &seat.key?);
        Some(Transmit { destination: seat.address?, len })
    }
}

impl Upward {
    fn write(&self, draft: Draft, lost: u32, buffer: &mut [u8]) -> Transmit {
        let payload = &mut buffer[HEADER_LEN..][..4 * ready::WORDS];
        payload.fill(0);
        set_word(payload, ready::DEMAND_WORD, Demand::Alive as u32);
        set_word(payload, ready::LOST_WORD, lost + 1);
        let (node, contributor) = (self.node, self.contributor.0);
        let draft = Draft { kind: Kind::Ready, node, contributor, ..draft };
        let len = draft.emit_proven(buffer, 4 * ready::WORDS, &self.key);
        Transmit { destination: self.address, len }
    }
}

/// The rank that a word names.
fn named(payload: &[u8], index: usize) -> Option<u32> {
    word(payload, index).checked_sub(1)
}

/// The workers that hold the seats at a node, by contributor; `None` where a node does.
fn holders(stream: &PlanStream, node: NodeId) -> Vec<Option<u32>> {
    let children = stream.children(node).map(|child| match child {
        Child::Worker(rank) => Some(rank),
        Child::Node(_) => None,
    });
    let substitutes = stream.substitutes(node).into_iter();
    children.chain(substitutes.map(|substitute| Some(substitute.rank))).collect()
}

fn upward(plan: &Plan, stream: &PlanStream, node: NodeId) -> Option<Upward> {
    let (above, contributor) = stream.parent_of(Child::Node(node.0))?;
    let address = plan.node(above)?.address;
    let key = plan.keys().seat(SeatName::new(above, stream.id(), contributor))?;
    Some(Upward { node: above, address, contributor, key, is_owed: false })
}
