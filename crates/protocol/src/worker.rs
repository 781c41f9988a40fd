//! The worker: from collectives to datagrams and back.

use std::net::SocketAddr;
use std::time::Duration;

use thiserror::Error;
use wiresum_wire::{NodeId, Round};

use crate::{Buffer, Plan, Time};

/// One participant of a job.
///
/// *Commands*: [`join`](Self::join), [`submit`](Self::submit), [`leave`](Self::leave). *Inputs*: [`handle_datagram`](Self::handle_datagram),
/// [`handle_timeout`](Self::handle_timeout). *Outputs*: [`poll_transmit`](Self::poll_transmit), [`poll_event`](Self::poll_event),
/// [`poll_timeout`](Self::poll_timeout), polled in this order until each is exhausted after any command or input.
pub struct Worker;

/// A datagram that [`Worker::poll_transmit`] wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Where it goes.
    pub destination: SocketAddr,
    /// Bytes written to the caller's buffer.
    pub len: usize,
}

/// What a worker tells its owner.
pub enum Event {
    /// Every parent has welcomed this worker.
    Joined,
    /// A round is done; rounds finish in order of submission.
    Finished {
        /// The round.
        round: Round,
        /// Its buffer: holding the sums, or, after [`Failure::NotFinite`], untouched.
        buffer: Box<dyn Buffer>,
        /// How it ended.
        outcome: Result<(), Failure>,
    },
}

/// Why a round, or joining, did not succeed. Everything but `NotFinite` ends the job: later rounds fail with the same reason.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Failure {
    /// Some worker's values are not finite, or do not fit the codec. Every worker learns it in the same round, before values flow.
    #[error(
        "a value is Inf or NaN, or does not fit the codec, on at least one rank; nothing was summed"
    )]
    NotFinite,
    /// Ranks passed different collectives. Element counts and signatures by rank.
    #[error(
        "ranks passed different tensors to collective {round}: elements by rank {elements:?}, signatures {signatures:?}"
    )]
    Mismatch {
        /// The round.
        round: Round,
        /// Elements passed, by rank.
        elements: Vec<i32>,
        /// Signatures passed, by rank.
        signatures: Vec<i32>,
    },
    /// Contributors did not deliver in time.
    #[error(
        "collective {round} timed out after {waited:?}: no contribution to fragment {fragment} from {missing:?} at node {node}"
    )]
    Missing {
        /// The round.
        round: Round,
        /// First fragment without a result.
        fragment: u32,
        /// The node that waits.
        node: NodeId,
        /// Names (from the plan) of the children that it waits for.
        missing: Vec<String>,
        /// How long the round ran.
        waited: Duration,
    },
    /// The aggregator does not answer.
    #[error(
        "collective {round} timed out: node {node} at {address} has been silent for {silent:?}"
    )]
    Silent {
        /// The round.
        round: Round,
        /// The node.
        node: NodeId,
        /// Where it should be.
        address: SocketAddr,
        /// For how long nothing was heard.
        silent: Duration,
    },
    /// No welcome in time.
    #[error(
        "node {node} at {address} did not answer within {waited:?}: is wiresum-node running there with this plan?"
    )]
    NotWelcomed {
        /// The node.
        node: NodeId,
        /// Where it should be.
        address: SocketAddr,
        /// How long this worker tried.
        waited: Duration,
    },
    /// Turned away.
    #[error("node {node} refused this worker: {reason}")]
    Refused {
        /// The node.
        node: NodeId,
        /// Why, and what to do.
        reason: String,
    },
    /// The result's check fails although every hop's did not: an aggregator is broken.
    #[error(
        "node {node} sent a sum for fragment {fragment} whose check does not match its contributions"
    )]
    WrongSum {
        /// The node.
        node: NodeId,
        /// The fragment.
        fragment: u32,
    },
    /// The owner left while rounds were open.
    #[error("this worker has left the job")]
    Left,
}

impl Worker {
    /// A worker that has not joined yet.
    ///
    /// # Panics
    /// If `rank` is not in the plan.
    #[must_use]
    pub fn new(_plan: &Plan, _rank: u32, _incarnation: u64) -> Self {
        Self
    }

    /// Says hello to every parent; [`Event::Joined`], or a failed round 0 with an empty buffer, follows by `deadline`.
    pub fn join(&mut self, _deadline: Time, _now: Time) {}

    /// Queues a collective. Rounds are numbered from 0 in order of submission; every rank must submit the same ones.
    pub fn submit(&mut self, _buffer: Box<dyn Buffer>, _deadline: Time, _now: Time) -> Round {
        Round(0)
    }

    /// Says goodbye; open rounds fail with [`Failure::Left`].
    pub fn leave(&mut self, _now: Time) {}

    /// Takes one datagram from the network. Anything that is not for this worker is counted and dropped.
    pub fn handle_datagram(&mut self, _source: SocketAddr, _bytes: &[u8], _now: Time) {}

    /// To be called when the time given by [`Self::poll_timeout`] has come; harmless at any other time.
    pub fn handle_timeout(&mut self, _now: Time) {}

    /// Writes the next datagram to `buffer` (at least [`wiresum_wire::MAX_PACKET`] bytes).
    pub fn poll_transmit(&mut self, _now: Time, _buffer: &mut [u8]) -> Option<Transmit> {
        None
    }

    /// The next thing to tell the owner.
    pub fn poll_event(&mut self) -> Option<Event> {
        None
    }

    /// When [`Self::handle_timeout`] is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        None
    }

    /// Counters by name, for people and metrics.
    #[must_use]
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}
