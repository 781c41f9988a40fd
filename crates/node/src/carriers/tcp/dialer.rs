//! A worker's connections to its nodes.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::inbox::Fill;
use super::line::{Line, NOT_A_PACKET, check_local};
use crate::carriers::poller::Poller;
use crate::udp::SendCounters;

/// One line to each node that the worker has sent something to.
///
/// The protocol's windows bound what waits in it; results are read whether or not contributions can be sent, so a node that
/// waits for this worker to read is never kept waiting.
pub struct Dialer {
    poller: Poller,
    local: SocketAddr,
    /// By token.
    lines: Vec<Line>,
    /// What has been sent so far.
    pub counters: SendCounters,
}

impl Dialer {
    /// Connections will be made from `local`, when there is something to send.
    ///
    /// # Errors
    /// The address is not one of this host.
    pub fn new(local: SocketAddr) -> io::Result<Self> {
        check_local(local)?;
        let (lines, counters) = (Vec::new(), SendCounters::default());
        Ok(Self { poller: Poller::new()?, local, lines, counters })
    }

    /// Where connections are made from; a port of 0 stands for one of its own for each.
    pub fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// Hands what has arrived to `take`, with the node that sent it; `true` if there may be more.
    ///
    /// # Errors
    /// What the kernel says to `epoll_wait`. A broken connection is no error: it is made again.
    pub fn receive(&mut self, mut take: impl FnMut(SocketAddr, &[u8])) -> io::Result<bool> {
        let mut more = false;
        for (token, happened) in self.poller.wait(Some(Duration::ZERO))? {
            let line = &mut self.lines[token];
            more |= matches!(
                line.read(happened, &self.poller, &mut self.counters),
                Fill::Some { is_all: false }
            );
            self.take_packets(token, &mut take);
        }
        Ok(more)
    }

    /// Queues a packet; `true` if it is time for [`Self::flush`].
    pub fn push(&mut self, destination: SocketAddr, packet: &[u8]) -> bool {
        let known = self.lines.iter().position(|line| line.remote() == destination);
        let index = known.unwrap_or_else(|| {
            let token = self.lines.len();
            self.lines.push(Line::new(self.local, destination, token));
            token
        });
        self.lines[index].push(packet, &self.poller, &mut self.counters)
    }

    /// Hands what is queued to the kernel; `false` if it cannot take all of it now.
    pub fn flush(&mut self) -> bool {
        let Self { lines, poller, counters, .. } = self;
        let full =
            lines.iter_mut().filter_map(|line| (!line.write(true, poller, counters)).then_some(()));
        full.count() == 0
    }

    fn take_packets(&mut self, token: usize, take: &mut impl FnMut(SocketAddr, &[u8])) {
        let line = &mut self.lines[token];
        let remote = line.remote();
        let Some(stream) = line.stream() else { return };
        loop {
            match stream.inbox.next_packet() {
                Ok(Some((memory, len))) => take(remote, &memory[..len]),
                Ok(None) => return,
                Err(error) => {
                    let trouble = format!("{NOT_A_PACKET}: {error}");
                    return line.hang_up(&trouble, &self.poller, &mut self.counters);
                }
            }
        }
    }
}

impl AsFd for Dialer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poller.as_fd()
    }
}
