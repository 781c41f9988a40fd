//! What begins and ends: rounds, their collectives, and the currents of these.

use super::current::{Begins, Brings};
use super::flowing::{Current, Stage};
use super::fluid::{Fluid, Running};
use super::timers::Event;
use crate::course::Next;
use crate::network::picoseconds;
use crate::{SimulationError, Sink};

impl Fluid<'_> {
    pub(super) fn end_currents(&mut self, sink: &mut Sink) -> Result<(), SimulationError> {
        let done = self.flowing.close();
        done.into_iter().try_for_each(|number| self.end(number, sink))
    }

    pub(super) fn end(&mut self, number: u32, sink: &mut Sink) -> Result<(), SimulationError> {
        self.check_current(number)?;
        let current = &mut self.flowing.currents[number as usize];
        current.stage = Stage::Ended;
        let (job, call) = (current.job as usize, current.call);
        let pattern = &self.flowing.patterns[current.pattern as usize];
        let template = &pattern.currents[current.template as usize];
        current.sent_bytes = template.wire_bytes;
        for &(direction, times) in &template.uses {
            self.carried_bytes[direction as usize] += f64::from(times) * template.wire_bytes;
        }
        self.ingress_bytes[job] += if template.into_root { template.wire_bytes } else { 0.0 };
        let brings = template.brings;
        self.flowing.sharing.leave(number);
        self.trace.note(u64::from(number));
        self.running_mut(job, call).ended += 1;
        match brings {
            Brings::Nothing => {}
            Brings::Rank(rank) => self.bring(job, rank as usize, call, sink)?,
            Brings::All => (0..self.scenario.jobs[job].workers.len())
                .try_for_each(|rank| self.bring(job, rank, call, sink))?,
        }
        self.forget_ended(job);
        Ok(())
    }

    /// A worker has everything of one more stream of a collective. Collectives end in the order in which they began.
    fn bring(
        &mut self,
        job: usize,
        rank: usize,
        call: u64,
        sink: &mut Sink,
    ) -> Result<(), SimulationError> {
        self.running_mut(job, call).missing[rank] -= 1;
        let mut has_ended = false;
        while self.has_oldest(job, rank) {
            let player = &mut self.players[job][rank];
            player.ended += 1;
            player.course.note_end();
            has_ended = true;
        }
        if has_ended {
            self.go_on(job, rank, picoseconds(self.flowing.now_s), sink)
        } else {
            Ok(())
        }
    }

    /// Whether a worker has everything of the oldest collective that has not ended there.
    fn has_oldest(&self, job: usize, rank: usize) -> bool {
        let player = &self.players[job][rank];
        let index = (player.ended - self.first_running[job]) as usize;
        player.ended < player.begun && self.running[job][index].missing[rank] == 0
    }

    fn running_mut(&mut self, job: usize, call: u64) -> &mut Running {
        &mut self.running[job][(call - self.first_running[job]) as usize]
    }

    /// Lets the numbers of collectives without open currents be used again.
    fn forget_ended(&mut self, job: usize) {
        while let Some(running) = self.running[job].front() {
            if running.ended < self.flowing.patterns[running.pattern].currents.len() {
                return;
            }
            self.spare[running.pattern].push(running.base);
            self.running[job].pop_front();
            self.first_running[job] += 1;
        }
    }

    pub(super) fn schedule(&mut self, job: usize, rank: usize, round: u32) {
        let now_ps = picoseconds(self.flowing.now_s);
        let (start_ps, compute_s) = self.rounds.start(job, rank, round, now_ps);
        let player = &mut self.players[job][rank];
        player.round = round;
        let at_ps = start_ps + picoseconds(player.course.start(compute_s));
        self.timers.add(at_ps, Event::GoOn { job: job as u32, rank: rank as u32 });
    }

    /// Has a worker do what its round has next, up to where it computes or waits.
    pub(super) fn go_on(
        &mut self,
        job: usize,
        rank: usize,
        at_ps: u64,
        sink: &mut Sink,
    ) -> Result<(), SimulationError> {
        loop {
            match self.players[job][rank].course.next() {
                Next::Wait => return Ok(()),
                Next::Compute(seconds) => {
                    let event = Event::GoOn { job: job as u32, rank: rank as u32 };
                    self.timers.add(at_ps + picoseconds(seconds), event);
                    return Ok(());
                }
                Next::Begin { collective, is_first } => {
                    if is_first {
                        self.rounds.begin(job, rank, self.players[job][rank].round, at_ps);
                    }
                    self.begin(job, rank, collective);
                }
                Next::End => return self.finish(job, rank, sink),
            }
        }
    }

    /// A worker's round is over.
    fn finish(&mut self, job: usize, rank: usize, sink: &mut Sink) -> Result<(), SimulationError> {
        let round = self.players[job][rank].round;
        let now_ps = picoseconds(self.flowing.now_s);
        if let Some(next) = self.rounds.finish(job, rank, round, now_ps, sink)? {
            self.schedule(job, rank, next);
        }
        Ok(())
    }

    /// A worker begins its next collective.
    fn begin(&mut self, job: usize, rank: usize, collective: usize) {
        let player = &mut self.players[job][rank];
        let (call, round) = (player.begun, player.round);
        player.begun += 1;
        if call - self.first_running[job] == self.running[job].len() as u64 {
            self.make_call(job, call, round, collective);
        }
        let ranks = self.scenario.jobs[job].workers.len();
        let running = self.running_mut(job, call);
        running.begun += 1;
        let (base, pattern, is_last) = (running.base, running.pattern, running.begun == ranks);
        for index in 0..self.flowing.patterns[pattern].currents.len() as u32 {
            let begins = self.flowing.patterns[pattern].currents[index as usize].begins;
            let is_its_turn = match begins {
                Begins::Rank(of) => of as usize == rank,
                Begins::Last => is_last,
                Begins::Fed => {
                    self.flowing.currents[(base + index) as usize].stage == Stage::Waiting
                }
            };
            if is_its_turn {
                self.open(base + index);
            }
        }
    }

    fn open(&mut self, number: u32) {
        let current = &mut self.flowing.currents[number as usize];
        current.stage = Stage::Open;
        let pattern = &self.flowing.patterns[current.pattern as usize];
        let template = &pattern.currents[current.template as usize];
        self.flowing.sharing.enter(number, &template.uses);
        self.flowing.open.push(number);
    }

    /// Makes the currents of a job's next collective.
    fn make_call(&mut self, job: usize, call: u64, round: u32, collective: usize) {
        let pattern = self.first_pattern[job] + collective;
        let count = self.flowing.patterns[pattern].currents.len() as u32;
        let base = self.spare[pattern].pop().unwrap_or(self.flowing.currents.len() as u32);
        let current = |template| Current {
            job: job as u32,
            round,
            call,
            pattern: pattern as u32,
            template,
            base,
            stage: Stage::Waiting,
            sent_bytes: 0.0,
        };
        for template in 0..count {
            let index = (base + template) as usize;
            match self.flowing.currents.get_mut(index) {
                Some(old) => *old = current(template),
                None => self.flowing.currents.push(current(template)),
            }
        }
        let needed = self.flowing.patterns[pattern].needed;
        let missing = vec![needed; self.scenario.jobs[job].workers.len()];
        self.running[job].push_back(Running { pattern, base, begun: 0, ended: 0, missing });
    }
}
