//! What workers do, and when.

use wiresum_netem::PS_PER_SECOND;
use wiresum_worker::link_queue_len;

use super::host::{Host, News};
use super::peers::{Parcel, Sender};
use super::world::{Event, World, is_due, schedule};
use crate::circuits::turns::Change;
use crate::course::Next;
use crate::network::picoseconds;
use crate::{SimulationError, Sink};

impl World<'_> {
    /// A host asks to be in its job.
    pub(super) fn enter(&mut self, host: usize, sink: &mut Sink) -> Result<(), SimulationError> {
        let now = self.now();
        self.hosts[host].join(self.patience, now);
        self.drive(host, sink)
    }

    /// Circuits get light or lose it, and gates open or shut.
    pub(super) fn turn(&mut self, sink: &mut Sink) -> Result<(), SimulationError> {
        let Some(turns) = &mut self.turns else { return Ok(()) };
        let is_over = |job| self.rounds.is_over(job);
        let changes = turns.step(self.now_ps, is_over, &self.network.links)?;
        turns.next_ps().into_iter().for_each(|at_ps| self.queue.push(at_ps, Event::Turn));
        for change in changes {
            match change {
                Change::Light { link, is_lit } => self.network.links.fail(link, is_lit),
                Change::Gate { job, rate_bps, is_first } => {
                    self.set_gates(job, rate_bps, is_first, sink)?;
                }
            }
        }
        Ok(())
    }

    fn set_gates(
        &mut self,
        job: usize,
        rate_bps: f64,
        is_first: bool,
        sink: &mut Sink,
    ) -> Result<(), SimulationError> {
        let now = self.now();
        for host in 0..self.hosts.len() {
            if self.hosts[host].job != job || self.hosts[host].is_dead {
                continue;
            }
            if is_first {
                // Ranks wait at a shut gate, as they do live: those that it lets in together ask again soon.
                self.hosts[host].set_gate(0.0, self.patience, now);
                self.hosts[host].join(self.patience, now);
            }
            self.hosts[host].set_gate(rate_bps, self.patience, now);
            self.drive(host, sink)?;
        }
        Ok(())
    }

    /// Lets a host do what is due, and sends what it has to send.
    pub(super) fn drive(&mut self, host: usize, sink: &mut Sink) -> Result<(), SimulationError> {
        loop {
            self.transmit(host);
            let Some(news) = self.hosts[host].poll_news() else { break };
            match news {
                News::Joined => self.join(host, sink)?,
                News::Finished(Ok(())) => self.note_end(host, sink)?,
                News::Finished(Err(failure)) => {
                    let name = self.hosts[host].name();
                    self.complaints.push(format!("{name}: {failure}"));
                }
            }
        }
        let due = self.hosts[host].poll_timeout();
        if let Some(at_ps) = schedule(&mut self.hosts[host].alarm, due, self.now_ps) {
            self.queue.push(at_ps, Event::HostAlarm(host as u32));
        }
        Ok(())
    }

    /// Sends what a host has to send, until its link holds enough.
    fn transmit(&mut self, host: usize) {
        let now = self.now();
        let mut buffer = std::mem::take(&mut self.buffer);
        while !self.hosts[host].is_held_back
            && let Some((to, len)) = self.hosts[host].poll_transmit(now, &mut buffer)
        {
            let job = self.hosts[host].job;
            let link = self.send(Sender::Host(host), job, to, Parcel::of(&buffer[..len]));
            self.hold_back(host, link);
        }
        self.buffer = buffer;
    }

    /// Lets a host wait while more is queued at its own link than may be, until half of that has left.
    fn hold_back(&mut self, host: usize, link: Option<u32>) {
        let links = &self.network.links;
        let Some((link, bps)) = link.and_then(|link| Some((link, links.rate_bps(link)?))) else {
            return;
        };
        let most_s = link_queue_len(bps / 8.0) as f64 * 8.0 / bps;
        let (most_ps, empty_ps) = ((most_s * PS_PER_SECOND) as u64, links.free_at_ps(link));
        if empty_ps > self.now_ps + most_ps {
            self.hosts[host].is_held_back = true;
            self.queue.push(empty_ps - most_ps / 2, Event::Drained(host as u32));
        }
    }

    /// A host's own link has room again.
    pub(super) fn let_out(&mut self, host: usize, sink: &mut Sink) -> Result<(), SimulationError> {
        self.hosts[host].is_held_back = false;
        if self.hosts[host].is_dead { Ok(()) } else { self.drive(host, sink) }
    }

    /// When the last of a job's workers has joined, all of them start.
    pub(super) fn join(&mut self, host: usize, sink: &mut Sink) -> Result<(), SimulationError> {
        let job = self.hosts[host].job;
        self.outside[job] -= 1;
        if self.outside[job] > 0 {
            return Ok(());
        }
        if !self.parties.is_empty() {
            return self.play_all(sink);
        }
        for other in 0..self.hosts.len() {
            if self.hosts[other].job == job {
                self.schedule_round(other, 0);
            }
        }
        Ok(())
    }

    pub(super) fn schedule_round(&mut self, host: usize, round: u32) {
        let Host { job, rank, .. } = self.hosts[host];
        let (start_ps, compute_s) = self.rounds.start(job, rank, round, self.now_ps);
        let at_ps = start_ps + picoseconds(self.hosts[host].course.start(compute_s));
        self.queue.push(at_ps, Event::GoOn(host as u32));
    }

    /// A host has computed, and goes on in its round.
    pub(super) fn wake(&mut self, host: usize, sink: &mut Sink) -> Result<(), SimulationError> {
        if self.hosts[host].is_dead {
            return Ok(());
        }
        self.hosts[host].course.note_computed();
        self.go_on(host, sink)?;
        self.drive(host, sink)
    }

    /// Has a host do what its round has next, up to where it computes or waits.
    fn go_on(&mut self, host: usize, sink: &mut Sink) -> Result<(), SimulationError> {
        let Host { job, rank, round, .. } = self.hosts[host];
        let now = self.now();
        loop {
            match self.hosts[host].course.next() {
                Next::Wait => return Ok(()),
                Next::Compute(seconds) => {
                    let at_ps = self.now_ps + picoseconds(seconds);
                    self.queue.push(at_ps, Event::GoOn(host as u32));
                    return Ok(());
                }
                Next::Begin { collective, is_first } => {
                    if is_first {
                        self.rounds.begin(job, rank, round, self.now_ps);
                    }
                    let findings = self.findings.as_ref();
                    self.hosts[host].submit(collective, findings, self.patience, now);
                }
                Next::End => return self.finish(host, sink),
            }
        }
    }

    /// A host's round is over.
    fn finish(&mut self, host: usize, sink: &mut Sink) -> Result<(), SimulationError> {
        let Host { job, rank, round, .. } = self.hosts[host];
        self.hosts[host].round += 1;
        let next = self.rounds.finish(job, rank, round, self.now_ps, sink)?;
        if let Some(next) = next {
            self.schedule_round(host, next);
        }
        Ok(())
    }

    /// A host's oldest collective has ended.
    fn note_end(&mut self, host: usize, sink: &mut Sink) -> Result<(), SimulationError> {
        if !self.parties.is_empty() {
            return self.note_sum(self.hosts[host].rank, sink);
        }
        self.hosts[host].course.note_end();
        self.go_on(host, sink)
    }

    pub(super) fn ring_host(
        &mut self,
        host: usize,
        sink: &mut Sink,
    ) -> Result<(), SimulationError> {
        let now = self.now();
        if !is_due(&mut self.hosts[host].alarm, now) || self.hosts[host].is_dead {
            return Ok(());
        }
        self.hosts[host].handle_timeout(now);
        self.drive(host, sink)
    }
}
