//! What a node does by the clock, beside its purely reactive [`Aggregator`](crate::Aggregator).
//!
//! An aggregator answers packets where they arrive, in the kernel or in user space. What needs a timer, or has to send without
//! having been asked, is a *control half*: a sans-IO state machine that the daemon drives, the same beside every engine.

use std::net::SocketAddr;

use wiresum_wire::{JobId, Packet};

use crate::aggregator::Membership;
use crate::{Plan, Time, Transmit};

/// A part of a node that has timers.
///
/// *Inputs*: [`handle_membership`](Self::handle_membership), [`handle_packet`](Self::handle_packet),
/// [`handle_timeout`](Self::handle_timeout). *Outputs*: [`poll_transmit`](Self::poll_transmit) until it is exhausted, after any
/// input; then [`poll_timeout`](Self::poll_timeout).
pub trait ControlHalf: Send {
    /// The node serves one more job, or another plan of one. By default of no interest.
    fn handle_job(&mut self, _plan: &Plan) {}

    /// Someone has joined or left a job of this node: who takes part now.
    fn handle_membership(&mut self, job: JobId, membership: &Membership, now: Time);

    /// Takes a packet that has passed the gate of its job's aggregator with
    /// [`Recipients::ControlHalf`](crate::Recipients::ControlHalf): a child's or the parent's. Every control half sees every packet,
    /// and leaves alone what is not for it.
    fn handle_packet(&mut self, source: SocketAddr, packet: &Packet, now: Time);

    /// To be called when the time given by [`Self::poll_timeout`] has come; harmless at any other time.
    fn handle_timeout(&mut self, now: Time);

    /// When [`Self::handle_timeout`] is due.
    fn poll_timeout(&self) -> Option<Time>;

    /// Writes the next datagram to `buffer` (at least [`wiresum_wire::MAX_PACKET`] bytes).
    fn poll_transmit(&mut self, now: Time, buffer: &mut [u8]) -> Option<Transmit>;

    /// Counters by name, for people and metrics.
    fn counters(&self) -> Vec<(&'static str, u64)>;
}
