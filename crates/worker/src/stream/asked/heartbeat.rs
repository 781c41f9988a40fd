//! Telling nodes that this worker is alive, whatever its owner computes: "Heartbeats" in `spec/aggregation.md`.

use std::collections::VecDeque;
use std::time::Duration;

use wiresum_wire::control::{Demand, rate, ready, set_word, word};
use wiresum_wire::{HEADER_LEN, Kind, Packet};

use super::Asked;
use super::join::Stage;
use super::stream::{Parent, Refuge, Stream};
use crate::session::Failure;
use wiresum_protocol::Time;
use wiresum_protocol::compose::Transmit;
use wiresum_protocol::plan::Child;

/// Heartbeats in the time after which this worker counts as lost: at a loss of 5 % all of these are lost once in 10¹³
/// times.
const HEARTBEATS: u32 = 10;
/// Shortest time after which it counts as lost: a busy host keeps a thread waiting for tens of milliseconds.
const LEAST_DEAD_AFTER: Duration = Duration::from_millis(500);
/// Longest, which has its place in a packet.
const MOST_DEAD_AFTER: Duration = Duration::from_secs(3600);
/// How often a node is told that it need not watch this worker any more, as one packet may be lost.
const FAREWELLS: usize = 3;
/// In the place of the time: from now on this worker does not count as lost, however long it is silent.
const NEVER: u32 = 0;

/// What a worker says of being alive.
#[derive(Clone, Debug)]
pub(super) struct Heartbeat {
    dead_after: Duration,
    /// When the next ones are due; `None` once it has taken leave.
    due: Option<Time>,
    /// Number of the last.
    sequence: u32,
    /// What is still to be sent: to whom, and after how many milliseconds this worker counts as lost there.
    unsent: VecDeque<(Parent, u32)>,
}

impl Heartbeat {
    pub fn new(dead_after: Duration, now: Time) -> Self {
        let dead_after = dead_after.clamp(LEAST_DEAD_AFTER, MOST_DEAD_AFTER);
        Self { dead_after, due: Some(now), sequence: 0, unsent: VecDeque::new() }
    }

    /// Tells these nodes that they need not watch this worker any more.
    fn take_leave_of(&mut self, nodes: impl Iterator<Item = Parent> + Clone) {
        for _ in 0..FAREWELLS {
            self.unsent.extend(nodes.clone().map(|node| (node, NEVER)));
        }
    }

    fn beat(&mut self, nodes: impl Iterator<Item = Parent>, now: Time) {
        self.due = Some(now.plus(self.dead_after / HEARTBEATS));
        let dead_after_ms = self.dead_after.as_millis() as u32;
        self.unsent.extend(nodes.map(|node| (node, dead_after_ms)));
    }
}

/// The nodes that may miss a worker: its own and, while it is away, those that it has gone to. One of them may not know
/// yet that it has left.
fn watchers(stream: &Stream) -> impl Iterator<Item = Parent> + Clone + '_ {
    let refuges = stream.absence.map_or(0, |absence| absence.refuge + 1);
    std::iter::once(stream.home).chain(stream.refuges[..refuges].iter().map(|refuge| refuge.parent))
}

impl Asked {
    /// From now on says that it is alive until it leaves; it counts as lost after this time without a word.
    pub(super) fn begin_heartbeat(&mut self, dead_after: Duration, now: Time) {
        self.heartbeat = Some(Heartbeat::new(dead_after, now));
    }

    /// Another node may miss this worker from now on, once it has heard it.
    pub(super) fn hasten_heartbeat(&mut self, now: Time) {
        let due = self.heartbeat.as_mut().and_then(|heartbeat| heartbeat.due.as_mut());
        due.into_iter().for_each(|due| *due = now);
    }

    /// Nobody need watch it any more.
    pub(super) fn end_heartbeat(&mut self) {
        let is_known = self.is_known();
        let Some(heartbeat) = &mut self.heartbeat else { return };
        heartbeat.due = None;
        if is_known {
            heartbeat.take_leave_of(watchers(&self.streams[0]));
        }
    }

    /// The nodes where a stream has been away need not watch it any more.
    pub(super) fn leave_watchers(&mut self, index: usize) {
        if let Some(heartbeat) = self.heartbeat.as_mut().filter(|_| index == 0) {
            let refuges: &[Refuge] = &self.streams[0].refuges;
            heartbeat.take_leave_of(refuges.iter().map(|refuge| refuge.parent));
        }
    }

    /// Whether some node knows this worker, and would not drop what it says.
    fn is_known(&self) -> bool {
        self.stage != Stage::Outside && (self.seats[0].is_welcome || !self.streams[0].is_home())
    }

    /// When the next heartbeat is due.
    pub(super) fn heartbeat_due(&self) -> Option<Time> {
        self.heartbeat.as_ref().filter(|_| self.is_known())?.due
    }

    /// The next heartbeat, if one is due.
    pub(super) fn transmit_heartbeat(&mut self, now: Time, buffer: &mut [u8]) -> Option<Transmit> {
        let is_due = self.heartbeat_due().is_some_and(|due| due <= now);
        let heartbeat = self.heartbeat.as_mut()?;
        if is_due {
            heartbeat.beat(watchers(&self.streams[0]), now);
        }
        let (node, dead_after_ms) = heartbeat.unsent.pop_front()?;
        heartbeat.sequence = heartbeat.sequence.wrapping_add(1);
        let payload = &mut buffer[HEADER_LEN..][..4 * ready::WORDS];
        payload.fill(0);
        set_word(payload, ready::SEQUENCE_WORD, heartbeat.sequence);
        set_word(payload, ready::DEMAND_WORD, Demand::Alive as u32);
        set_word(payload, ready::DEAD_AFTER_MS_WORD, dead_after_ms);
        self.counters.heartbeats += 1;
        let draft = self.draft_to(0, node, Kind::Ready);
        let len = draft.emit_proven(buffer, 4 * ready::WORDS, &node.key?);
        Some(Transmit { destination: node.address, len })
    }

    /// Takes the node's word that a worker is lost.
    ///
    /// # Errors
    /// That this is so.
    pub(super) fn handle_loss(&self, packet: &Packet) -> Result<(), Failure> {
        let rank = word(packet.payload, rate::LOST_WORD).checked_sub(1);
        let lost = rank.and_then(|rank| self.plan.workers.get(rank as usize));
        lost.map_or(Ok(()), |worker| {
            let home = self.plan.exponents().and_then(|s| s.parent_of(Child::Worker(worker.rank)));
            let node = home.and_then(|(node, _)| self.plan.node(node));
            Err(Failure::WorkerLost {
                rank: worker.rank,
                name: worker.name.clone(),
                address: worker.address,
                node: node.map_or_else(String::new, |node| node.name.clone()),
                is_own: worker.rank == self.rank,
            })
        })
    }
}
