//! A worker and its collectives.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use wiresum_protocol::Time;
use wiresum_worker::{Collective, Event, Failure, Session, Sink, Source};

use super::buffer::{Call, Exact, Findings, ROOT, Zeros};
use crate::SimulationError;
use crate::course::Course;
use crate::scenario::Job;

/// The only incarnation of a simulated job.
const INCARNATION: u64 = 1;

/// The same values as source and sink.
fn passed(call: Call, values: impl Source + Sink + Clone + 'static) -> Collective {
    let (source, sink) = (Box::new(values.clone()), Box::new(values));
    Collective { kind: call.kind, root: ROOT as u32, source, sink }
}

pub(super) struct Host<'a> {
    pub job: usize,
    pub rank: usize,
    pub site: usize,
    pub address: SocketAddr,
    /// What its job does.
    work: &'a Job,
    session: Session,
    /// Where it is in its round.
    pub course: Course,
    /// Rounds that it has ended.
    pub round: u32,
    /// Collectives submitted, in all rounds.
    submitted: u32,
    pub is_dead: bool,
    /// Whether it waits for its own link.
    pub is_held_back: bool,
    /// When its next alarm is in the queue.
    pub alarm: Option<Time>,
}

/// What a worker's owner learns.
pub(super) enum News {
    Joined,
    /// A collective has ended, none before those that were submitted earlier.
    Finished(Result<(), Failure>),
}

impl<'a> Host<'a> {
    pub fn new(
        index: usize,
        job: &'a Job,
        rank: usize,
        site: usize,
        address: SocketAddr,
    ) -> Result<Self, SimulationError> {
        Ok(Self {
            job: index,
            rank,
            site,
            address,
            work: job,
            session: Session::new(&job.plan, rank as u32, INCARNATION),
            course: Course::of(job)?,
            round: 0,
            submitted: 0,
            is_dead: false,
            is_held_back: false,
            alarm: None,
        })
    }

    pub fn join(&mut self, patience: Duration, now: Time) {
        self.session.join(now.plus(patience), now);
    }

    /// From now on sends so many bit/s on the cable; nothing, for as long as its patience lasts, if it is 0.
    pub fn set_gate(&mut self, rate_bps: f64, patience: Duration, now: Time) {
        if rate_bps > 0.0 {
            self.session
                .open(Some(rate_bps).filter(|bps| bps.is_finite()).map(|bps| bps as u64), now);
        } else {
            self.session.shut(now.plus(patience), now);
        }
    }

    /// Passes one of its job's collectives; its values are checked if there are findings to note.
    pub fn submit(
        &mut self,
        collective: usize,
        findings: Option<&Arc<Findings>>,
        patience: Duration,
        now: Time,
    ) {
        let call = Call::all(self.work, self.rank)[collective];
        let passed = match findings {
            None => passed(call, Zeros(call)),
            Some(findings) => {
                let findings = Arc::clone(findings);
                passed(call, Exact { call, round: self.submitted, findings })
            }
        };
        self.session.submit(passed, now.plus(patience), now);
        self.submitted += 1;
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
                Event::Moved(_)
                | Event::Unattended
                | Event::HeldUp(_)
                | Event::NodeGone(_)
                | Event::WorkerLost(_) => {}
            }
        }
    }

    pub fn poll_timeout(&self) -> Option<Time> {
        self.session.poll_timeout()
    }

    pub fn name(&self) -> &str {
        &self.work.plan.workers[self.rank].name
    }

    /// Packets of sums that it has.
    pub fn results(&self) -> u64 {
        self.counters().into_iter().filter(|(name, _)| *name == "results").map(|(_, n)| n).sum()
    }

    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        self.session.counters()
    }
}
