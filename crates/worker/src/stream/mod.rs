//! How positions get to the nodes, and their results back.
//!
//! There are two kinds. [`Asked`] sends to servers, which remember what they have and say so when asked. [`Answered`]
//! sends to switches, which forget, and of which results are the only sign. What happens once for a job is in
//! [`crate::session`].

mod answered;
mod asked;

use std::net::SocketAddr;
use std::time::Duration;

use wiresum_protocol::{Time, Transmit};
use wiresum_wire::control::{Absent, RefusalReason};
use wiresum_wire::{FragmentId, NodeId};

use crate::session::Failure;
use crate::session::rounds::Rounds;

pub(crate) use answered::Answered;
pub(crate) use asked::Asked;
pub use asked::{Departure, SwitchOver};

/// All streams of a worker, which are of one kind. Stream 0 carries the agreement, the others values in the order of
/// the plan.
///
/// One object has all of them, as what is learned in one concerns the others: a node that is gone is left in every
/// stream, and a hello goes along the ways of all. Positions are those that [`Rounds`] has given to rounds.
pub(crate) trait Streams: Send {
    /// Says hello to the nodes from now on.
    fn join(&mut self, now: Time);

    /// Whether every node that has to has welcomed this worker.
    fn has_joined(&self) -> bool;

    /// This worker was not allowed to send for a while: what is due is due from now on.
    fn resume(&mut self, now: Time);

    /// Says from now on, until it leaves, that this worker is alive; after this time without a word it counts as lost.
    /// Nothing happens where nobody watches workers.
    fn keep_alive(&mut self, _dead_after: Duration, _now: Time) {}

    /// Joins an incarnation that goes on without these workers. To be called before [`Self::join`], where servers sum.
    fn go_on_without(&mut self, _absent: Absent) {}

    /// When that is to be said next. It goes on after [`Self::stop`].
    fn heartbeat_timeout(&self) -> Option<Time> {
        None
    }

    /// Sends no more contributions, and no more questions.
    fn stop(&mut self);

    /// Goes this many positions beyond where barriers allow: for tests, which then have to fail.
    fn overreach(&mut self, _positions: u32) {}

    /// Takes leave of the nodes. What has to be said for that is still to be sent.
    fn leave(&mut self);

    /// Takes a datagram. Anything that is not for this worker is counted and dropped.
    ///
    /// # Errors
    /// What ends the job.
    fn handle_datagram(
        &mut self,
        source: SocketAddr,
        datagram: &[u8],
        rounds: &mut Rounds,
        now: Time,
    ) -> Result<(), Failure>;

    /// A host says that nothing listens at this address, and quotes the start of a datagram. Anyone can send such errors.
    fn handle_unreachable(
        &mut self,
        address: SocketAddr,
        quote: &[u8],
        rounds: &mut Rounds,
        now: Time,
    );

    /// Does what is due.
    fn handle_timeout(&mut self, rounds: &mut Rounds, now: Time);

    /// When [`Self::handle_timeout`] or [`Self::poll_transmit`] has something to do.
    fn poll_timeout(&self, rounds: &Rounds) -> Option<Time>;

    /// Writes the next datagram; `None` if there is nothing to send now.
    fn poll_transmit(
        &mut self,
        rounds: &mut Rounds,
        now: Time,
        buffer: &mut [u8],
    ) -> Option<Transmit>;

    /// The node that knows who takes part in a round, and how many members it awaits.
    fn gathering(&self) -> (NodeId, u32);

    /// Writes a question to that node: who is in at a position of stream 0? `None` if this is no time to ask.
    fn ask_who_is_in(
        &mut self,
        position: FragmentId,
        now: Time,
        buffer: &mut [u8],
    ) -> Option<Transmit>;

    /// How many members are in at a position of stream 0, as far as the last answer says.
    fn count_who_is_in(&self, position: FragmentId) -> u32;

    /// Why the oldest round is late, or joining is, by what nodes have said.
    fn evidence(&self, rounds: &Rounds, now: Time) -> Evidence;

    /// End of the positions of a stream that were sent.
    fn sent(&self, stream: usize) -> FragmentId;

    /// Whether a position of a stream was sent and has no result.
    fn is_pending(&self, stream: usize, position: FragmentId) -> bool;

    /// Counters by name, for people and metrics.
    fn counters(&self) -> Vec<(&'static str, u64)>;
}

/// What is known of why nothing comes. Members are named as in the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// A node has not welcomed this worker.
    NotWelcomed { node: NodeId, address: SocketAddr },
    /// A node says nothing, since when if it ever said anything.
    Silent { node: NodeId, address: SocketAddr, since: Option<Time> },
    /// A node waits for these.
    Missing { node: NodeId, fragment: u32, missing: Vec<String> },
    /// A node has done its part, and one of these has not.
    NoResult { node: NodeId, fragment: u32, suspects: Vec<String> },
}

/// Why a node refuses a worker, and what to do about it.
fn remedy(reason: Option<RefusalReason>) -> &'static str {
    match reason {
        Some(RefusalReason::OtherPlan) => {
            "it holds another plan, or another version of it: give all hosts the same plan file"
        }
        Some(RefusalReason::Superseded) => {
            "a newer run of this job has begun: stop it, or this one"
        }
        Some(RefusalReason::NotExpected) => {
            "the plan does not place this worker there: check the node's id and address, and this host's"
        }
        Some(RefusalReason::Detached) => "it is out of the tree for now",
        Some(RefusalReason::AheadOfClock) => {
            "this run began in its future, as far as it knows: set the clocks of rank 0's host and of the node"
        }
        Some(RefusalReason::OtherMembers) => {
            "the job goes on there without this worker, or without others than this one says"
        }
        None => {
            "it gives a reason that this version does not know: run the same version everywhere"
        }
    }
}
