//! What workers do, and when.

use wiresum_netem::PS_PER_US;
use wiresum_switch::{Packet, Received};

use super::content::Content;
use super::yard::{Event, Yard};
use crate::circuits::turns::Change;
use crate::{SimulationError, Sink};

impl<V: Content> Yard<'_, V> {
    /// Results at a worker.
    pub(super) fn receive(
        &mut self,
        job: usize,
        rank: usize,
        packets: &[Packet<V>],
        sink: &mut Sink,
    ) -> Result<(), SimulationError> {
        let now = self.now();
        let workers = self.jobs[job].hosts.len() as u8;
        for packet in packets {
            let host = &mut self.jobs[job].hosts[rank];
            let stream = usize::from(packet.sub_model.0);
            if host.workers[stream].handle(packet, now) == Received::Fresh {
                self.progress_ps = self.now_ps;
                if V::IS_CHECKED {
                    self.checked += 1;
                    let is_right = packet.values.is_sum((job, stream), workers, packet.fragment.0);
                    self.wrong += u64::from(!is_right);
                }
            }
        }
        let host = &mut self.jobs[job].hosts[rank];
        if host.is_busy && host.is_done() {
            host.is_busy = false;
            let round = host.round - 1;
            if self.rounds.finish(job, rank, round, self.now_ps, sink)?.is_some() {
                self.schedule(job, rank);
            }
        }
        self.transmit(job, rank);
        Ok(())
    }

    pub(super) fn schedule(&mut self, job: usize, rank: usize) {
        let round = self.jobs[job].hosts[rank].round;
        let at_ps = self.rounds.schedule(job, rank, round, self.now_ps);
        self.queue.push(at_ps, Event::Begin { job: job as u32, rank: rank as u32 });
    }

    pub(super) fn schedule_all(&mut self, job: usize) {
        (0..self.jobs[job].hosts.len()).for_each(|rank| self.schedule(job, rank));
    }

    /// Circuits get light or lose it, and gates open or shut.
    pub(super) fn turn(&mut self) -> Result<(), SimulationError> {
        let Some(turns) = &mut self.turns else { return Ok(()) };
        let is_over = |job| self.rounds.is_over(job);
        let changes = turns.step(self.now_ps, is_over, &self.network.links)?;
        turns.next_ps().into_iter().for_each(|at_ps| self.queue.push(at_ps, Event::Turn));
        self.progress_ps = if changes.is_empty() { self.progress_ps } else { self.now_ps };
        for change in changes {
            match change {
                Change::Light { link, is_lit } => self.network.links.fail(link, is_lit),
                Change::Gate { job, rate_bps, is_first } => {
                    let now_ps = self.now_ps;
                    self.jobs[job]
                        .hosts
                        .iter_mut()
                        .for_each(|host| host.pace.open(rate_bps, now_ps));
                    if is_first {
                        self.schedule_all(job);
                    } else {
                        (0..self.jobs[job].hosts.len()).for_each(|rank| self.transmit(job, rank));
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn begin(&mut self, job: usize, rank: usize) {
        if self.is_broken(self.jobs[job].hosts[rank].site) {
            return;
        }
        let host = &mut self.jobs[job].hosts[rank];
        self.rounds.begin(job, rank, host.round, self.now_ps);
        self.progress_ps = self.now_ps;
        host.round += 1;
        host.is_busy = true;
        let streams = &self.scenario.programs[job].streams;
        let begun = host.workers.iter_mut().zip(streams);
        begun.for_each(|(worker, stream)| worker.begin(stream.fragments));
        self.transmit(job, rank);
    }

    pub(super) fn ring(&mut self, job: usize, rank: usize) {
        if self.is_broken(self.jobs[job].hosts[rank].site) {
            return;
        }
        let now = self.now();
        let host = &mut self.jobs[job].hosts[rank];
        if host.alarm.take_if(|at| *at <= now).is_some() {
            host.workers.iter_mut().for_each(|worker| worker.handle_timeout(now));
            self.transmit(job, rank);
        }
    }

    /// Sends what a worker may send, in trains. Streams take turns, as those of a live session do: a stream that sent its whole window
    /// before the next one would leave the next one's way idle meanwhile.
    pub(super) fn transmit(&mut self, job: usize, rank: usize) {
        let (mut idle, now_ps) = (0, self.now_ps);
        while idle < self.jobs[job].ways.len() && self.jobs[job].hosts[rank].pace.lets_out(now_ps) {
            let stream = self.jobs[job].hosts[rank].next_turn();
            idle = if self.send_train(job, rank, stream) { 0 } else { idle + 1 };
        }
        let host = &mut self.jobs[job].hosts[rank];
        let due = host.poll_timeout();
        if let Some(due) = due.filter(|due| host.alarm.is_none_or(|at| at > *due)) {
            host.alarm = Some(due);
            let at_ps = (due.0 * PS_PER_US).max(self.now_ps);
            self.queue.push(at_ps, Event::Alarm { job: job as u32, rank: rank as u32 });
        }
    }
    /// Sends a train of one stream; `false` if it may send nothing.
    fn send_train(&mut self, job: usize, rank: usize, stream: usize) -> bool {
        let now = self.now();
        let mut sent = 0;
        let packet_bytes = self.jobs[job].packet_bytes;
        let pace = self.jobs[job].hosts[rank].pace;
        let hops = 2 * self.jobs[job].ways[stream].hops;
        for _ in 0..pace.longest(self.scenario.train, packet_bytes, hops) {
            let host = &mut self.jobs[job].hosts[rank];
            let site = host.site;
            let Some(packet) = host.workers[stream].poll_transmit(now) else { break };
            sent += 1;
            let way = self.jobs[job].ways[stream].up(site, packet.node, packet.worker);
            let Some(direction) = way else { continue };
            let values = V::of((job, stream), rank as u8, packet.fragment.0);
            self.departures.couple(direction, packet.carrying(values));
        }
        self.depart(job);
        if sent > 0 {
            let bytes = sent * packet_bytes;
            self.jobs[job].hosts[rank].pace.note_sent(bytes, self.now_ps);
        }
        sent > 0
    }
}
