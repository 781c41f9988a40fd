//! What begins and ends: rounds and their currents.

use super::current::{Begins, Brings};
use super::flowing::{Current, Stage};
use super::fluid::{Fluid, Running};
use super::timers::Event;
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
        let (job, round) = (current.job as usize, current.round);
        let template = &self.flowing.patterns[job].currents[current.template as usize];
        current.sent_bytes = template.wire_bytes;
        for &(direction, times) in &template.uses {
            self.carried_bytes[direction as usize] += f64::from(times) * template.wire_bytes;
        }
        self.ingress_bytes[job] += if template.into_root { template.wire_bytes } else { 0.0 };
        let brings = template.brings;
        self.flowing.sharing.leave(number);
        self.trace.note(u64::from(number));
        let index = (round - self.first_running[job]) as usize;
        self.running[job][index].ended += 1;
        match brings {
            Brings::Nothing => {}
            Brings::Rank(rank) => self.bring(job, rank as usize, round, sink)?,
            Brings::All => (0..self.scenario.jobs[job].workers.len())
                .try_for_each(|rank| self.bring(job, rank, round, sink))?,
        }
        self.forget_ended(job);
        Ok(())
    }

    /// A worker has everything of one more stream.
    pub(super) fn bring(
        &mut self,
        job: usize,
        rank: usize,
        round: u32,
        sink: &mut Sink,
    ) -> Result<(), SimulationError> {
        let index = (round - self.first_running[job]) as usize;
        let missing = &mut self.running[job][index].missing[rank];
        *missing -= 1;
        if *missing > 0 {
            return Ok(());
        }
        let now_ps = picoseconds(self.flowing.now_s);
        let next = self.rounds.finish(job, rank, round, now_ps, sink)?;
        if let Some(next) = next {
            self.schedule(job, rank, next);
        }
        Ok(())
    }

    /// Lets the numbers of rounds without open currents be used again.
    pub(super) fn forget_ended(&mut self, job: usize) {
        let count = self.flowing.patterns[job].currents.len();
        while self.running[job].front().is_some_and(|running| running.ended == count) {
            if let Some(running) = self.running[job].pop_front() {
                self.spare[job].push(running.base);
                self.first_running[job] += 1;
            }
        }
    }

    pub(super) fn schedule(&mut self, job: usize, rank: usize, round: u32) {
        let at_ps = self.rounds.schedule(job, rank, round, picoseconds(self.flowing.now_s));
        let begin = Event::Begin { job: job as u32, rank: rank as u32, round };
        self.timers.add(at_ps, begin);
    }

    pub(super) fn begin(&mut self, job: usize, rank: u32, round: u32, at_ps: u64) {
        self.rounds.begin(job, round, at_ps);
        while (round - self.first_running[job]) as usize >= self.running[job].len() {
            self.make_round(job);
        }
        let ranks = self.scenario.jobs[job].workers.len();
        let running = &mut self.running[job][(round - self.first_running[job]) as usize];
        running.begun += 1;
        let (base, is_last) = (running.base, running.begun == ranks);
        for index in 0..self.flowing.patterns[job].currents.len() as u32 {
            let begins = self.flowing.patterns[job].currents[index as usize].begins;
            let is_its_turn = match begins {
                Begins::Rank(of) => of == rank,
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

    pub(super) fn open(&mut self, number: u32) {
        let current = &mut self.flowing.currents[number as usize];
        current.stage = Stage::Open;
        let template =
            &self.flowing.patterns[current.job as usize].currents[current.template as usize];
        self.flowing.sharing.enter(number, &template.uses);
        self.flowing.open.push(number);
    }

    pub(super) fn make_round(&mut self, job: usize) {
        let count = self.flowing.patterns[job].currents.len() as u32;
        let round = self.first_running[job] + self.running[job].len() as u32;
        let base = self.spare[job].pop().unwrap_or(self.flowing.currents.len() as u32);
        let current = |template| Current {
            job: job as u32,
            round,
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
        let needed = self.flowing.patterns[job].needed;
        let missing = vec![needed; self.scenario.jobs[job].workers.len()];
        self.running[job].push_back(Running { base, begun: 0, ended: 0, missing });
    }
}
