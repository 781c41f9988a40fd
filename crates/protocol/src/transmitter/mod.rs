//! The reliable transmitter of an inner node (XAgg §IV-D, Fig. 5): what makes sure that every sum gets up to the parent and
//! every result comes down from it.
//!
//! It runs in the control half of a node, beside whatever sums there, and sees it through [`DataPlane`]: a *check queue* of
//! notes that something has moved, and the states of the slots. From these it keeps, for each sub-model, which sums are on
//! their way ([`crate::recovery`], the same rules as a worker's), asks the parent about groups of them, and sends again what
//! the parent lacks, or what it has a result for that did not arrive here. The sections "Transmitter" and "Why this is safe"
//! of `spec/aggregation.md` are the prose of this module.
//!
//! | paper | here |
//! | --- | --- |
//! | check queue: ends of groups | [`DataPlane::next_check`] |
//! | checked list: groups that were asked about | the questions under way and the positions *reported held*, in `recovery` |
//! | lost list | the positions to be sent again, in `recovery` |
//! | check of the tail | the alarm: nothing has moved for a timeout |
//!
//! Where nothing is on its way, `watch` asks whether the parent is there.
//!
//! In the paper the receiver checks and the sender is told; here the sender asks, so that the tail, the lost end of a group and
//! the lost answer are one case, and a group is checked when its *sums* are complete, whatever order they come in.

mod counters;
mod marks;
mod plane;
mod uplink;
mod watch;

use wiresum_keys::{SeatKey, ValueHash};
use wiresum_wire::control::{set_word, status};
use wiresum_wire::{Flags, HEADER_LEN, JobId, JobKey, Kind, NodeId, Packet, SubModelId};

use crate::compose::Draft;
use crate::{Aggregator, Plan, Time, Transmit};
pub use counters::Counters;
pub use plane::{DataPlane, Sum, Survey};
use uplink::{Action, Uplink};

/// The transmitter of one node for one job.
///
/// *Inputs*: [`follow`](Self::follow), [`advance`](Self::advance) (after every batch of packets and at the time given by
/// [`poll_timeout`](Self::poll_timeout)), [`handle_status`](Self::handle_status). *Output*:
/// [`poll_transmit`](Self::poll_transmit), until it is exhausted after any input.
pub struct Transmitter {
    job: JobId,
    key: Option<JobKey>,
    /// One for each sub-model in which the node has a parent.
    uplinks: Vec<Uplink>,
    /// What values are hashed by, where they are proven.
    hash: Option<ValueHash>,
    counters: Counters,
}

impl Transmitter {
    /// The transmitter of `node`, for a job; it has nothing to do where the node is the root.
    #[must_use]
    pub fn new(plan: &Plan, node: NodeId) -> Self {
        let uplinks = plan.streams.iter().filter_map(|s| Uplink::new(plan, s, node)).collect();
        let (job, hash, counters) = (plan.job_id(), plan.value_hash(), Counters::default());
        Self { job, key: None, uplinks, hash, counters }
    }

    /// The streams' first position is `first`.
    pub fn start_at(&mut self, first: wiresum_wire::FragmentId) {
        self.uplinks.iter_mut().for_each(|uplink| uplink.start_at(first));
    }

    /// Takes over from the aggregator beside it which incarnation runs, and which parents have welcomed the node. With a
    /// new incarnation everything before is forgotten.
    pub fn follow(&mut self, aggregator: &Aggregator) {
        let key = aggregator.running_key();
        if key != self.key {
            self.key = key;
            self.uplinks.iter_mut().for_each(Uplink::reset);
        }
        for uplink in &mut self.uplinks {
            uplink.association = aggregator.association(uplink.sub_model);
            uplink.watch.follow(key.is_some() && aggregator.is_welcome(uplink.sub_model));
        }
    }

    /// Takes in what the data plane has noted, and does what is due.
    pub fn advance(&mut self, plane: &mut dyn DataPlane, now: Time) {
        while let Some((sub_model, position)) = plane.next_check() {
            self.counters.checks += 1;
            if let Some(uplink) = self.uplinks.iter_mut().find(|u| u.sub_model == sub_model) {
                uplink.wake(position, now);
            }
        }
        if self.key.is_some() {
            for uplink in &mut self.uplinks {
                uplink.advance(plane, &mut self.counters, now);
            }
        }
    }

    /// A status from a parent, which has passed the node's gate; packets of other kinds are left alone.
    pub fn handle_status(&mut self, datagram: &[u8], plane: &mut dyn DataPlane, now: Time) {
        let Some(packet) =
            Packet::parse_unchecked(datagram).ok().filter(|p| p.kind == Kind::Status)
        else {
            return;
        };
        let sub_model = packet.header.sub_model.get();
        if let Some(uplink) = self.uplinks.iter_mut().find(|u| u.sub_model.0 == sub_model) {
            uplink.handle_status(&packet, plane, &mut self.counters, now);
        }
    }

    /// When [`Self::advance`] is due at the latest.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.key?;
        self.uplinks.iter().filter_map(Uplink::alarm).min()
    }

    /// Writes the next datagram to `buffer` (at least [`wiresum_wire::MAX_PACKET`] bytes).
    pub fn poll_transmit(
        &mut self,
        plane: &mut dyn DataPlane,
        now: Time,
        buffer: &mut [u8],
    ) -> Option<Transmit> {
        let key = self.key?;
        for uplink in &mut self.uplinks {
            while let Some(action) = uplink.next_action(now) {
                let draft =
                    Draft { job: self.job, key, ..uplink.draft(action.position(), action.kind()) };
                let written = match action {
                    Action::Ask { echo, .. } => {
                        self.counters.questions += 1;
                        uplink.key.map(|key| write_probe(&draft, echo, &key, buffer))
                    }
                    Action::SendAgain(position) => {
                        let sum = plane.sum(uplink.sub_model, position, &mut buffer[HEADER_LEN..]);
                        let key = uplink.association.key(position);
                        let proof = self.hash.as_ref().zip(uplink.key.as_ref());
                        sum.map(|sum| write_sum(Draft { key, ..draft }, &sum, proof, buffer))
                    }
                };
                if let Some(len) = written {
                    self.counters.sent_again += u64::from(matches!(action, Action::SendAgain(_)));
                    return Some(Transmit { destination: uplink.address, len });
                }
            }
        }
        None
    }

    /// The next sub-model whose parent is silent: once for each time that nothing is heard for a timeout. The aggregator beside this
    /// transmitter tells its children ([`Aggregator::lose_parent`](crate::Aggregator::lose_parent)).
    pub fn next_orphan(&mut self) -> Option<SubModelId> {
        let orphan = self.uplinks.iter_mut().find(|uplink| uplink.is_orphaned)?;
        orphan.is_orphaned = false;
        Some(orphan.sub_model)
    }

    /// What it has done since it was made.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}

fn write_probe(draft: &Draft, echo: u32, key: &SeatKey, buffer: &mut [u8]) -> usize {
    let payload = &mut buffer[HEADER_LEN..][..4 * status::WORDS];
    payload.fill(0);
    set_word(payload, status::ECHO_WORD, echo);
    draft.emit_proven(buffer, 4 * status::WORDS, key)
}

fn write_sum(
    draft: Draft,
    sum: &Sum,
    proof: Option<(&ValueHash, &SeatKey)>,
    buffer: &mut [u8],
) -> usize {
    let flags = sum.format.with(Flags::RETRANSMISSION);
    let draft = Draft { round: sum.round, exponent: sum.exponent, flags, ..draft };
    draft.emit_values(buffer, (sum.payload_len, sum.lane_sum), proof)
}

impl Action {
    fn kind(&self) -> Kind {
        match self {
            Self::Ask { .. } => Kind::Probe,
            Self::SendAgain(_) => Kind::Contribution,
        }
    }
}
