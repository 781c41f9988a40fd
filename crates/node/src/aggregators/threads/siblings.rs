//! Packets that came to another thread than their job's.
//!
//! Receive offload joins datagrams of one sender, and the kernel chooses a socket by the first of them. A node sends sums of
//! several jobs from one socket, so the rest may be of jobs of other threads. These get them here, and judge them as they
//! judge any other.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use wiresum_wire::{Header, JobId};
use zerocopy::FromBytes;

use crate::engine::Wake;

/// Packets that may wait for a thread: some full windows. More are lost, and asked for again.
const MOST_WAITING: usize = 1024;

/// A packet, and where it came from.
pub(crate) type Stray = (SocketAddr, Box<[u8]>);

/// The other threads, as one of them sees them.
pub(crate) struct Siblings {
    own: usize,
    /// Threads of jobs that are not this one's.
    places: Vec<(JobId, usize)>,
    inboxes: Vec<Inbox>,
    arrivals: Receiver<Stray>,
    /// Packets that others got.
    pub passed_on: u64,
}

#[derive(Clone)]
struct Inbox {
    strays: SyncSender<Stray>,
    wake: Wake,
}

impl Siblings {
    /// As many as there are `wakes`, each of which wakes one of the threads.
    pub fn of(wakes: &[Wake]) -> Vec<Self> {
        let channels = wakes.iter().map(|_| sync_channel(MOST_WAITING));
        let (strays, arrivals): (Vec<_>, Vec<_>) = channels.unzip();
        let inbox =
            |(strays, wake): (SyncSender<Stray>, &Wake)| Inbox { strays, wake: wake.clone() };
        let inboxes: Vec<_> = strays.into_iter().zip(wakes).map(inbox).collect();
        let sibling = |(own, arrivals)| {
            let inboxes = inboxes.clone();
            Self { own, places: Vec::new(), inboxes, arrivals, passed_on: 0 }
        };
        arrivals.into_iter().enumerate().map(sibling).collect()
    }

    /// Learns which thread has which job.
    pub fn set_places(&mut self, places: &[(JobId, usize)]) {
        self.places = places.iter().filter(|(_, thread)| *thread != self.own).copied().collect();
    }

    /// Gives a packet to the thread that has its job; `false` if this is that thread, or none is.
    pub fn pass_on(&mut self, source: SocketAddr, datagram: &[u8]) -> bool {
        let Some(thread) = self.thread_of(datagram) else { return false };
        let Inbox { strays, wake } = &self.inboxes[thread];
        self.passed_on += u64::from(strays.try_send((source, datagram.into())).is_ok());
        wake.wake();
        true
    }

    fn thread_of(&self, datagram: &[u8]) -> Option<usize> {
        let (header, _) = Header::ref_from_prefix(datagram).ok()?;
        let job = JobId(header.job.get());
        self.places.iter().find(|(other, _)| *other == job).map(|(_, thread)| *thread)
    }

    /// Packets that other threads have passed on, as many as may wait.
    pub fn arrivals(&self) -> impl Iterator<Item = Stray> {
        self.arrivals.try_iter().take(MOST_WAITING)
    }
}
