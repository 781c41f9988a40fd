//! A worker of a job of pairs, which waits for each iteration.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use wiresum_protocol::Time;
use wiresum_sparse::live::keyed::{KeyedJob, KeyedMember};
use wiresum_switch::keyed::Pair;

use super::UNDER_WAY;
use crate::clock::{Clock, timespec};
use crate::tables::ClientError;
use crate::udp::{ReceiveBatch, SendQueue, Socket};

/// Nodes that send to a worker: the switch, and the server.
const NODES: usize = 2;

fn failed(error: io::Error) -> ClientError {
    ClientError::Socket(error.to_string())
}

/// A worker of a job of pairs.
pub struct PairClient {
    member: KeyedMember,
    socket: Socket,
    received: ReceiveBatch,
    outgoing: SendQueue,
    clock: Clock,
    timeout: Duration,
}

impl PairClient {
    /// Joins a job: waits until switch and server have welcomed this rank.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn join(
        job: &Arc<KeyedJob>,
        rank: u8,
        incarnation: u64,
        timeout: Duration,
    ) -> Result<Self, ClientError> {
        if rank >= job.workers {
            return Err(ClientError::Rank { rank: rank.into(), workers: job.workers.into() });
        }
        let any: SocketAddr = match job.server {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let mut client = Self {
            member: KeyedMember::new(job, rank, incarnation),
            socket: Socket::bind(any, UNDER_WAY * NODES).map_err(failed)?,
            received: ReceiveBatch::default(),
            outgoing: SendQueue::default(),
            clock: Clock::default(),
            timeout,
        };
        client.wait("joining", KeyedMember::has_joined)?;
        Ok(client)
    }

    /// One iteration: sends pairs, each key once, and returns the sums of all workers' pairs, by key.
    ///
    /// # Errors
    /// [`ClientError`].
    ///
    /// # Panics
    /// If an iteration has failed before.
    pub fn sum(&mut self, pairs: &[Pair]) -> Result<Vec<Pair>, ClientError> {
        self.member.begin(pairs);
        self.wait("an iteration", |member| member.sums().is_some())?;
        let sums = self.member.sums().into_iter().flatten();
        Ok(sums.map(|(&key, &value)| Pair { key, value }).collect())
    }

    /// How often the keys of its packets were renewed by time.
    #[must_use]
    pub fn key_renewals(&self) -> u32 {
        self.member.key_age().renewal
    }

    /// Packets that were sent again.
    #[must_use]
    pub fn repeated(&self) -> u64 {
        self.member.repeated()
    }

    /// Moves datagrams until something is so.
    fn wait(
        &mut self,
        what: &'static str,
        is_done: impl Fn(&KeyedMember) -> bool,
    ) -> Result<(), ClientError> {
        let deadline = Instant::now() + self.timeout;
        loop {
            let now = self.clock.now();
            self.send(now);
            if let Some(error) = self.member.error() {
                return Err(error.clone().into());
            }
            if is_done(&self.member) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(self.time_out(what));
            }
            self.sleep(deadline).map_err(failed)?;
            while self.receive().map_err(failed)? {}
        }
    }

    fn send(&mut self, now: Time) {
        let Self { member, socket, outgoing, .. } = self;
        if outgoing.is_empty() || outgoing.flush(socket) {
            member.poll(now, |to, bytes| {
                if outgoing.push(to, bytes) {
                    outgoing.flush(socket);
                }
            });
            outgoing.flush(socket);
        }
    }

    fn receive(&mut self) -> io::Result<bool> {
        let more = self.socket.receive(&mut self.received)?;
        let now = self.clock.now();
        for (source, datagram) in self.received.datagrams() {
            self.member.handle(source, datagram, now);
        }
        Ok(more)
    }

    fn sleep(&self, deadline: Instant) -> io::Result<()> {
        let room = if self.outgoing.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        let due = self.member.poll_timeout().map(|due| due.since(self.clock.now()));
        let left = deadline.saturating_duration_since(Instant::now());
        let patience = timespec(due.map_or(left, |due| due.min(left)));
        match poll(&mut [PollFd::new(&self.socket, PollFlags::IN | room)], Some(&patience)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn time_out(&self, what: &'static str) -> ClientError {
        let silent = |since| self.member.silent_since(since);
        let other = "another rank has not sent its pairs";
        ClientError::timeout(what, self.timeout, self.clock.now(), silent, other)
    }
}
