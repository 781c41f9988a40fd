//! The loop of slots, or of intervals of any length, and events.

use wiresum_schedule::problem::{EPSILON, Problem};
use wiresum_schedule::{Online, Share, Slot, Summed};

use super::Circuits;
use super::light::{Fibres, Light};
use super::pace::{Due, Pace, paces};
use crate::record::tell;
use crate::trace::Trace;
use crate::{Record, SimulationError, Sink};

/// Who says what happens next, in a slot or for longer.
pub enum Source<'a> {
    /// All of it is known.
    Timetable(std::vec::IntoIter<Slot>),
    /// It is asked when the last slot is over.
    Scheduler(Box<Online<'a>>),
}

/// What a transfer has done so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    pub summed: Summed,
    pub start_s: Option<f64>,
    /// When its last byte was sent.
    pub end_s: Option<f64>,
}

/// The loop of slots and events.
pub struct World<'a> {
    pub circuits: &'a Circuits,
    pub problem: &'a Problem<'a>,
    source: Source<'a>,
    pub light: Light,
    /// Bytes that each transfer has still to send.
    pub left: Vec<f64>,
    pub done: Vec<Done>,
    /// Who sends in this slot, or is late.
    pub dues: Vec<Due>,
    /// Bytes that have crossed each lane of each pair.
    pub carried: Vec<f64>,
    pub late_bytes: f64,
    pub now_s: f64,
    pub events: u64,
    pub trace: Trace,
}

impl<'a> World<'a> {
    pub fn new(circuits: &'a Circuits, problem: &'a Problem<'a>, source: Source<'a>) -> Self {
        Self {
            circuits,
            problem,
            source,
            light: Light::new(Fibres::of(problem), &circuits.faults),
            left: problem.transfers.iter().map(|transfer| transfer.bytes).collect(),
            done: vec![Done::default(); problem.transfers.len()],
            dues: Vec::new(),
            carried: vec![0.0; problem.pairs.len() * problem.lanes],
            late_bytes: 0.0,
            now_s: 0.0,
            events: 0,
            trace: Trace::default(),
        }
    }

    /// Runs until all is sent.
    pub fn run(mut self, sink: &mut Sink) -> Result<(), SimulationError> {
        while self.left.iter().any(|left| *left > 0.0) {
            let end_s = self.now_s + self.begin_slot()?;
            while self.now_s < end_s {
                self.step(end_s)?;
            }
            let (rounds, of_rounds) = (self.ended(), self.circuits.names.len() as u64);
            tell(sink, &Record::Progress { at_s: end_s, events: self.events, rounds, of_rounds })?;
        }
        self.check()?;
        self.report(sink)
    }

    /// Orders circuits, and hands out shares; returns for how many seconds.
    fn begin_slot(&mut self) -> Result<f64, SimulationError> {
        let is_followed = matches!(self.source, Source::Timetable(_));
        let slot = self.next_slot()?;
        for due in &mut self.dues {
            due.late_bytes = if is_followed { due.late_bytes + due.bytes } else { 0.0 };
            self.late_bytes += due.bytes;
            due.bytes = 0.0;
        }
        self.dues.retain(|due| due.late_bytes > 0.0);
        if let Some(slot) = slot {
            self.light.order(&slot.circuits);
            let late = self.dues.len();
            slot.shares.iter().for_each(|share| self.hand_out(share, late));
            return Ok(slot.seconds);
        }
        self.light.order(&self.wanted_by_late());
        if self.light.next_s().is_infinite() && self.is_idle() {
            return Err(self.stuck());
        }
        Ok(self.problem.instance.slot_s)
    }

    /// None after the end of a timetable.
    fn next_slot(&mut self) -> Result<Option<Slot>, SimulationError> {
        match &mut self.source {
            Source::Timetable(slots) => Ok(slots.next()),
            Source::Scheduler(online) => {
                online.observe(&self.left, &self.light.circuits(), &self.light.ports());
                let slot = online.step();
                slot.map(Some).map_err(|error| SimulationError::Unsupported(error.to_string()))
            }
        }
    }

    /// Gives a transfer its share; the first so many of those that send are late.
    fn hand_out(&mut self, share: &Share, late: usize) {
        let &Share { transfer, summed, bytes } = share;
        let done = &mut self.done[transfer];
        done.summed = summed;
        done.start_s.get_or_insert(self.now_s);
        let left = self.left[transfer];
        match self.dues[..late].iter_mut().find(|due| due.transfer == transfer) {
            Some(due) => due.bytes = bytes.min(left - due.late_bytes),
            None => {
                let bytes = bytes.min(left);
                self.dues.push(Due { transfer, summed, bytes, late_bytes: 0.0 });
            }
        }
    }

    /// From one event to the next.
    fn step(&mut self, end_s: f64) -> Result<(), SimulationError> {
        let paces = paces(self.problem, &self.light, &self.dues, end_s - self.now_s);
        self.check_paces(&paces)?;
        let mut next_s = end_s.min(self.light.next_s());
        for (due, pace) in self.dues.iter().zip(&paces) {
            for (bytes, rate) in [(due.bytes, pace.share), (due.late_bytes, pace.late)] {
                if rate > 0.0 {
                    next_s = next_s.min(self.now_s + bytes / rate);
                }
            }
        }
        // What ends with the slot but for rounding is no event of its own.
        if end_s - next_s < EPSILON * self.problem.instance.slot_s {
            next_s = end_s;
        }
        self.flow_until(next_s, &paces);
        self.light.shine_until(next_s);
        self.light.fail();
        self.now_s = next_s;
        self.events += 1;
        self.trace.note(next_s.to_bits());
        Ok(())
    }

    fn flow_until(&mut self, next_s: f64, paces: &[Pace]) {
        let step_s = next_s - self.now_s;
        let ports = self.problem.instance.units.iter().map(|unit| unit.ports).max().unwrap_or(0);
        // Schedulers compare amounts to within a part of what all of a unit's circuits carry in a slot.
        let of_a_slot = EPSILON * f64::from(ports) * self.problem.lit_bytes;
        for (due, pace) in self.dues.iter_mut().zip(paces) {
            let transfer = &self.problem.transfers[due.transfer];
            let dust = of_a_slot.max(EPSILON * transfer.bytes);
            for crossing in &transfer.mode(due.summed).crossings {
                for lane in self.problem.lanes_of(crossing) {
                    self.carried[lane] += pace.total() * step_s * crossing.times;
                }
            }
            due.bytes = above(due.bytes - pace.share * step_s, dust);
            due.late_bytes = above(due.late_bytes - pace.late * step_s, dust);
            let left = &mut self.left[due.transfer];
            *left = above(*left - pace.total() * step_s, dust);
            if *left == 0.0 {
                self.done[due.transfer].end_s.get_or_insert(next_s);
            }
        }
    }

    /// After the end of a timetable: the circuits that are there for those that are late, and one where there is none.
    fn wanted_by_late(&self) -> Vec<u32> {
        let mut wanted = vec![0; self.problem.pairs.len()];
        let there = self.light.circuits();
        for due in &self.dues {
            let mode = self.problem.transfers[due.transfer].mode(due.summed);
            mode.crossings.iter().for_each(|one| wanted[one.pair] = there[one.pair].max(1));
        }
        wanted
    }

    /// Whether nobody can send, as things are.
    fn is_idle(&self) -> bool {
        let paces = paces(self.problem, &self.light, &self.dues, self.problem.instance.slot_s);
        paces.iter().all(|pace| pace.total() == 0.0)
    }
}

/// A number, or 0 where it is not above rounding.
fn above(number: f64, dust: f64) -> f64 {
    if number > dust { number } else { 0.0 }
}
