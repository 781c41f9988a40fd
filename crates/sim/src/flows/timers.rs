//! What happens at times that are known beforehand.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::fluid::Fluid;
use crate::network::{picoseconds, seconds};
use crate::scenario::Broken;
use crate::{SimulationError, Sink};

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A worker has computed.
    GoOn { job: u32, rank: u32 },
    /// A link breaks, or is back.
    Break { failure: u32, is_back: bool },
    /// Others begin to send, or stop.
    Background { index: u32, is_over: bool },
}

/// Events by time; those of one time in the order in which they came. Currents end between them, so what they cause may be earlier than
/// whatever waits here: no queue that only moves forward will do.
#[derive(Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<(u64, u64, Event)>>,
    added: u64,
}

impl Timers {
    pub fn add(&mut self, at_ps: u64, event: Event) {
        self.heap.push(Reverse((at_ps, self.added, event)));
        self.added += 1;
    }

    /// When the next one is due.
    pub fn next_ps(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at_ps, ..))| *at_ps)
    }

    /// Takes the next one, if it is due.
    pub fn pop(&mut self, now_s: f64) -> Option<(u64, Event)> {
        if seconds(self.next_ps()?) > now_s {
            return None;
        }
        self.heap.pop().map(|Reverse((at_ps, _, event))| (at_ps, event))
    }
}

impl Fluid<'_> {
    pub(super) fn plan_timers(&mut self) -> Result<(), SimulationError> {
        for job in 0..self.scenario.jobs.len() {
            for rank in 0..self.scenario.jobs[job].workers.len() {
                self.schedule(job, rank, 0);
            }
        }
        for (index, failure) in (0..).zip(&self.scenario.failures) {
            if let Broken::Site(site) = failure.what {
                let name = &self.scenario.sites[site].name;
                return Err(SimulationError::Unsupported(format!(
                    "flows know failures of links only, not of {name}: use the fidelity packets"
                )));
            }
            let broken = Event::Break { failure: index, is_back: false };
            self.timers.add(picoseconds(failure.at_s), broken);
            if let Some(until_s) = failure.until_s {
                let back = Event::Break { failure: index, is_back: true };
                self.timers.add(picoseconds(until_s), back);
            }
        }
        for (index, background) in (0..).zip(&self.scenario.background) {
            self.timers
                .add(picoseconds(background.from_s), Event::Background { index, is_over: false });
            self.timers
                .add(picoseconds(background.until_s), Event::Background { index, is_over: true });
        }
        Ok(())
    }

    pub(super) fn ring_timers(&mut self, sink: &mut Sink) -> Result<(), SimulationError> {
        while let Some((at_ps, event)) = self.timers.pop(self.flowing.now_s) {
            match event {
                Event::GoOn { job, rank } => {
                    self.players[job as usize][rank as usize].course.note_computed();
                    self.go_on(job as usize, rank as usize, at_ps, sink)?;
                }
                Event::Break { failure, is_back } => self.break_link(failure as usize, is_back),
                Event::Background { index, is_over } => self.change_background(index, is_over),
            }
        }
        Ok(())
    }

    fn break_link(&mut self, failure: usize, is_back: bool) {
        let Broken::Link(link) = self.scenario.failures[failure].what else { return };
        for direction in [2 * link as u32, 2 * link as u32 + 1] {
            self.leftover.fail(direction, is_back);
            self.change_rate(direction);
        }
    }

    /// Traffic that heeds nobody takes its rate away from the links that it crosses.
    fn change_background(&mut self, index: u32, is_over: bool) {
        let background = self.scenario.background[index as usize];
        let path = self.network.path(background.source, background.target).unwrap_or_default();
        for direction in path {
            self.leftover.press(direction, index, is_over);
            self.change_rate(direction);
        }
    }

    fn change_rate(&mut self, direction: u32) {
        let rate_bps = self.leftover.rate_bps(direction, &self.scenario.background);
        self.flowing.sharing.set_rate(direction, rate_bps);
    }
}
