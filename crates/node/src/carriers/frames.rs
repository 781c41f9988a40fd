//! The engine `af_xdp`: the aggregators of the daemon's thread get frames instead of datagrams, and answer in frames where they
//! know how to reach the peer.

use std::net::SocketAddr;

use wiresum_protocol::{Plan, Verdict};
use wiresum_wire::NodeId;
use wiresum_xdp::{AfXdp, AttachMode, Sending, require_a_page};

use crate::aggregators::datagrams_under_way;
use crate::aggregators::kernel::{KernelError, failed};
use crate::udp::SendQueue;

/// Frames of one queue that are dealt with before the other queues have their turn.
pub const FRAMES_PER_TURN: usize = 64;

/// Opens a socket for each receive queue of the interfaces, for what comes to `address`.
///
/// # Errors
/// [`KernelError`] with the remedy.
pub fn open(
    plans: &[Plan],
    node: NodeId,
    address: SocketAddr,
    interfaces: &[String],
    mode: AttachMode,
) -> Result<AfXdp, KernelError> {
    plans
        .iter()
        .try_for_each(require_a_page)
        .and_then(|()| AfXdp::open(interfaces, &[address], datagrams_under_way(plans, node), mode))
        .map_err(failed("the engine `af_xdp` is not available"))
}

/// What an aggregator has to send, and the ways out.
#[derive(Default)]
pub struct Outgoing {
    /// The sockets of the engine `af_xdp`.
    pub frames: Option<AfXdp>,
    /// Datagrams for the UDP socket.
    pub datagrams: SendQueue,
}

impl Outgoing {
    /// Queues a packet; returns whether the datagrams are due for a flush.
    pub fn push(&mut self, destination: SocketAddr, packet: &[u8]) -> bool {
        let by_frame = self.frames.as_mut().map(|frames| frames.send(destination, packet));
        match by_frame {
            Some(Sending::Queued | Sending::Dropped) => false,
            Some(Sending::NoRoute) | None => self.datagrams.push(destination, packet),
        }
    }
}

/// Whether a packet has shown by its verdict that its sender is a member of the job.
pub fn is_from_a_member(verdict: Verdict) -> bool {
    use Verdict::{BadContributor, Control, Damaged, Foreign, Forged, Malformed};
    !matches!(verdict, Malformed | Foreign | BadContributor | Damaged | Forged | Control)
}
