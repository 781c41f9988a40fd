//! A scheduler in the loop, spoken to in names instead of numbers: by whoever drives devices and ranks.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::instance::Circuits;
use crate::problem::Problem;
use crate::timetable::{Interval, interval};
use crate::{Online, Options, ScheduleError};

/// What is seen at the end of an interval, and what the next one is decided with.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Sight {
    /// Bytes that each job's workers have still to send, by the job's id. What is not listed is as it was.
    pub left: BTreeMap<u32, f64>,
    /// Circuits that are lit, or getting light.
    pub circuits: Vec<Circuits>,
    /// Ports that work, of units in which not all do.
    pub ports: BTreeMap<String, u32>,
}

/// A scheduler, what it was told last, and how far it is.
pub struct Dialogue<'a> {
    problem: &'a Problem<'a>,
    online: Online<'a>,
    left: Vec<f64>,
    now_s: f64,
}

impl<'a> Dialogue<'a> {
    /// With a scheduler by its name, before the first slot.
    ///
    /// # Errors
    /// There is no such scheduler, or it cannot serve a job.
    pub fn new(
        problem: &'a Problem<'a>,
        scheduler: &str,
        options: &Options,
    ) -> Result<Self, ScheduleError> {
        let online = Online::new(problem, scheduler, options)?;
        let left = problem.transfers.iter().map(|transfer| transfer.bytes).collect();
        Ok(Self { problem, online, left, now_s: 0.0 })
    }

    /// Decides the next interval: a slot, or until the next event. A job has a rate in it, or waits.
    ///
    /// # Errors
    /// A unit that is not there, or a job that is never served.
    pub fn next(&mut self, sight: &Sight) -> Result<Interval, ScheduleError> {
        let problem = self.problem;
        for (transfer, left) in problem.transfers.iter().zip(&mut self.left) {
            if let Some(seen) = sight.left.get(&problem.instance.jobs[transfer.job].id) {
                *left = seen.clamp(0.0, transfer.bytes);
            }
        }
        let (circuits, ports) = (self.circuits(&sight.circuits)?, self.ports(&sight.ports)?);
        self.online.observe(&self.left, &circuits, &ports);
        let slot = self.online.step()?;
        let interval = interval(problem, self.now_s, &slot);
        self.now_s = interval.until_s;
        Ok(interval)
    }

    fn circuits(&self, seen: &[Circuits]) -> Result<Vec<u32>, ScheduleError> {
        let mut counts = vec![0; self.problem.pairs.len()];
        for Circuits { between: [a, b], circuits } in seen {
            let (a, b) = (self.unit(a)?, self.unit(b)?);
            // Circuits of pairs that no job needs take ports, and nothing else.
            if let Some(pair) = self.problem.pairs.iter().position(|p| *p == [a.min(b), a.max(b)]) {
                counts[pair] = *circuits;
            }
        }
        Ok(counts)
    }

    fn ports(&self, seen: &BTreeMap<String, u32>) -> Result<Vec<u32>, ScheduleError> {
        let mut ports: Vec<u32> = self.problem.instance.units.iter().map(|u| u.ports).collect();
        for (unit, working) in seen {
            let unit = self.unit(unit)?;
            ports[unit] = (*working).min(ports[unit]);
        }
        Ok(ports)
    }

    fn unit(&self, name: &str) -> Result<usize, ScheduleError> {
        let known = self.problem.instance.units.iter().position(|unit| unit.name == name);
        known.ok_or_else(|| ScheduleError::Field {
            field: "unit".to_owned(),
            problem: format!("the instance has no {name}"),
        })
    }
}
