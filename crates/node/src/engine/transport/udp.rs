//! Datagrams: one socket for all nodes.

use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use wiresum_protocol::Plan;

use super::super::log;
use super::backlog::Backlog;
use crate::udp::{Quote, ReceiveBatch, SendQueue, Socket};

/// One socket for all nodes.
pub struct Udp {
    pub socket: Socket,
    received: ReceiveBatch,
    pub outgoing: SendQueue,
    backlog: Backlog,
    has_errors: bool,
}

impl Udp {
    /// Bound to `address`, with room for the answers to all that the worker may have sent.
    ///
    /// # Errors
    /// What the kernel says to `socket` and `bind`.
    pub fn bind(plan: &Plan, rank: u32, address: SocketAddr) -> io::Result<Self> {
        let socket = Socket::bind(address, under_way(plan))?;
        if let Some(remark) = socket.receive_buffer_remark() {
            log(&format!("wiresum: rank {rank}: {remark}\n"));
        }
        socket.report_errors();
        let (received, outgoing) = (ReceiveBatch::default(), SendQueue::default());
        let backlog = Backlog::new(Instant::now());
        socket.queue_at_most(backlog.allowed())?;
        Ok(Self { socket, received, outgoing, backlog, has_errors: false })
    }

    /// Hands a batch of what has arrived to `take`, with its source; `true` if there may be more.
    ///
    /// # Errors
    /// What the kernel says to `recvmmsg`.
    pub fn receive(&mut self, mut take: impl FnMut(SocketAddr, &[u8])) -> io::Result<bool> {
        let more = self.socket.receive(&mut self.received)?;
        self.received.datagrams().for_each(|(source, packet)| take(source, packet));
        Ok(more)
    }

    /// The next destination that has turned out to have no one listening, and what is quoted of what was sent there.
    pub fn next_refused(&mut self) -> Option<(SocketAddr, Quote)> {
        self.has_errors |= self.socket.has_errors();
        let refused = if self.has_errors { self.socket.next_refused() } else { None };
        self.has_errors = refused.is_some();
        refused
    }

    /// Hands what is queued to the kernel; `false` if it cannot take all of it now.
    pub fn flush(&mut self) -> bool {
        let is_empty = self.outgoing.flush(&self.socket);
        if !is_empty && self.backlog.note_full(self.outgoing.counters.bytes, Instant::now()) {
            // A kernel that refuses leaves the buffer as it was.
            let _ = self.socket.queue_at_most(self.backlog.allowed());
        }
        is_empty
    }
}

/// Packets that a worker may have sent without an answer, in pages.
pub fn under_way(plan: &Plan) -> usize {
    let windows = plan.streams.iter().map(|sub_model| sub_model.window as usize);
    windows.sum::<usize>() * plan.packet_pages()
}
