//! A worker and its collectives.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use wiresum_protocol::{Plan, Time};
use wiresum_worker::{Collective, Event, Failure, Session, Sink, Source};

use super::buffer::{Exact, Findings, Zeros};
use crate::scenario::Job;

/// The only incarnation of a simulated job.
const INCARNATION: u64 = 1;
/// Bytes of an element.
const ELEMENT_BYTES: u64 = 4;

/// The same values as source and sink.
fn in_place(values: impl Source + Sink + Clone + 'static) -> Collective {
    Collective::all_reduce(Box::new(values.clone()), Box::new(values))
}

pub(super) struct Host<'a> {
    pub job: usize,
    pub rank: usize,
    pub site: usize,
    pub address: SocketAddr,
    plan: &'a Plan,
    elements: usize,
    session: Session,
    /// Collectives submitted.
    pub round: u32,
    pub is_dead: bool,
    /// When its next alarm is in the queue.
    pub alarm: Option<Time>,
}

/// What a worker's owner learns.
pub(super) enum News {
    Joined,
    Finished(Result<(), Failure>),
}

impl<'a> Host<'a> {
    pub fn new(index: usize, job: &'a Job, rank: usize, site: usize, address: SocketAddr) -> Self {
        Self {
            job: index,
            rank,
            site,
            address,
            plan: &job.plan,
            elements: (job.bytes / ELEMENT_BYTES) as usize,
            session: Session::new(&job.plan, rank as u32, INCARNATION),
            round: 0,
            is_dead: false,
            alarm: None,
        }
    }

    pub fn join(&mut self, patience: Duration, now: Time) {
        self.session.join(now.plus(patience), now);
    }

    /// From now on sends so many bit/s on the cable; nothing, for as long as its patience lasts, if it is 0.
    pub fn set_gate(&mut self, rate_bps: f64, patience: Duration, now: Time) {
        if rate_bps > 0.0 {
            self.session.open(Some(rate_bps as u64), now);
        } else {
            self.session.shut(now.plus(patience), now);
        }
    }

    /// Passes the next collective; its values are checked if there are findings to note.
    pub fn submit(&mut self, findings: Option<&Arc<Findings>>, patience: Duration, now: Time) {
        let (len, lanes) = (self.elements, self.plan.job.lanes.widest());
        let collective = match findings {
            None => in_place(Zeros { len, lanes }),
            Some(findings) => in_place(Exact {
                len,
                ranks: self.plan.workers.len(),
                rank: self.rank,
                round: self.round,
                lanes,
                findings: Arc::clone(findings),
            }),
        };
        self.session.submit(collective, now.plus(patience), now);
        self.round += 1;
    }

    pub fn handle(&mut self, source: SocketAddr, datagram: &[u8], now: Time) {
        self.session.handle_datagram(source, datagram, now);
    }

    pub fn handle_timeout(&mut self, now: Time) {
        self.session.handle_timeout(now);
    }

    /// The next datagram: where it goes, and its bytes in `buffer`.
    pub fn poll_transmit(&mut self, now: Time, buffer: &mut [u8]) -> Option<(SocketAddr, usize)> {
        self.session.poll_transmit(now, buffer).map(|transmit| (transmit.destination, transmit.len))
    }

    pub fn poll_news(&mut self) -> Option<News> {
        loop {
            match self.session.poll_event()? {
                Event::Joined => return Some(News::Joined),
                Event::Finished { outcome, .. } => return Some(News::Finished(outcome)),
                Event::Moved(_) | Event::Unattended | Event::HeldUp(_) => {}
            }
        }
    }

    pub fn poll_timeout(&self) -> Option<Time> {
        self.session.poll_timeout()
    }

    pub fn name(&self) -> &str {
        &self.plan.workers[self.rank].name
    }

    /// Packets of sums that it has.
    pub fn results(&self) -> u64 {
        self.counters().into_iter().filter(|(name, _)| *name == "results").map(|(_, n)| n).sum()
    }

    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        self.session.counters()
    }
}
