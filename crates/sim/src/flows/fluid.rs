//! The loop of events.

use std::collections::VecDeque;

use super::current::Weaver;
use super::flowing::Flowing;
use super::leftover::Leftover;
use super::timers::Timers;
use crate::course::Course;
use crate::network::{RoutedLinks, picoseconds, seconds};
use crate::record::tell;
use crate::rounds::Rounds;
use crate::scenario::Job;
use crate::timeline::Loads;
use crate::trace::Trace;
use crate::{Scenario, SimulationError, Sink};

/// Stands for a link without a rate: faster than any that has one.
const UNLIMITED_BPS: f64 = 1e15;
/// Events between two reports of progress.
const PROGRESS_EVENTS: u64 = 1 << 12;

/// A collective that has currents.
pub(super) struct Running {
    pub pattern: usize,
    pub base: u32,
    pub begun: usize,
    pub ended: usize,
    /// By rank: currents that have to end before it has everything.
    pub missing: Vec<u32>,
}

/// A worker of a job.
pub(super) struct Player {
    pub course: Course,
    pub round: u32,
    /// Collectives of all rounds that it has begun, and the first of them that has not ended.
    pub begun: u64,
    pub ended: u64,
}

pub(super) struct Fluid<'a> {
    pub scenario: &'a Scenario,
    pub network: RoutedLinks,
    pub flowing: Flowing,
    /// What directions leave to the jobs.
    pub leftover: Leftover,
    /// By job: the pattern of its first collective.
    pub first_pattern: Vec<usize>,
    /// By job and rank.
    pub players: Vec<Vec<Player>>,
    /// Numbers of collectives that have ended, by pattern: their currents are used again.
    pub spare: Vec<Vec<u32>>,
    /// By job, from the oldest collective that has not ended.
    pub running: Vec<VecDeque<Running>>,
    pub first_running: Vec<u64>,
    pub timers: Timers,
    pub rounds: Rounds,
    /// By direction: what has crossed it, counted as it flows.
    pub carried_bytes: Vec<f64>,
    pub timeline: Option<Loads>,
    /// By job: bytes that its roots have received.
    pub ingress_bytes: Vec<f64>,
    pub events: u64,
    pub trace: Trace,
}

impl<'a> Fluid<'a> {
    pub fn new(scenario: &'a Scenario) -> Result<Self, SimulationError> {
        let mut network = RoutedLinks::new(scenario);
        let mut adders = Vec::new();
        for (index, site) in scenario.sites.iter().enumerate() {
            adders.push(site.adding_bps.map(|bps| network.links.add_inner(index, bps)));
        }
        let mut weaver = Weaver { scenario, network: &mut network, adders: &adders };
        let (mut patterns, mut first_pattern, mut players) = (Vec::new(), Vec::new(), Vec::new());
        for job in &scenario.jobs {
            first_pattern.push(patterns.len());
            for collective in 0..job.collectives.len() {
                patterns.push(weaver.pattern(job, collective)?);
            }
            players.push(players_of(job)?);
        }
        let rate = |direction| network.links.rate_bps(direction).unwrap_or(UNLIMITED_BPS);
        let full_bps: Vec<f64> = (0..network.links.count()).map(rate).collect();
        let mut fluid = Self {
            scenario,
            spare: vec![Vec::new(); patterns.len()],
            flowing: Flowing::new(patterns, &full_bps),
            first_pattern,
            players,
            carried_bytes: vec![0.0; full_bps.len()],
            timeline: scenario.timeline.then(|| Loads::new(full_bps.len())),
            ingress_bytes: vec![0.0; scenario.jobs.len()],
            leftover: Leftover::new(full_bps),
            network,
            running: scenario.jobs.iter().map(|_| VecDeque::new()).collect(),
            first_running: vec![0; scenario.jobs.len()],
            timers: Timers::default(),
            rounds: Rounds::of_jobs(scenario),
            events: 0,
            trace: Trace::default(),
        };
        fluid.plan_timers()?;
        Ok(fluid)
    }

    /// Runs until every collective has ended.
    pub fn run(mut self, sink: &mut Sink) -> Result<(), SimulationError> {
        while !self.rounds.are_over() {
            self.step(sink)?;
        }
        self.check()?;
        self.report(sink)
    }

    /// From one event to the next.
    pub fn step(&mut self, sink: &mut Sink) -> Result<(), SimulationError> {
        self.flowing.share()?;
        let timer_s = self.timers.next_ps().map(seconds);
        let Some(next_s) = self.flowing.next_event_s(timer_s) else { return Err(self.stuck()) };
        self.flow_until(next_s);
        self.events += 1;
        self.end_currents(sink)?;
        self.ring_timers(sink)?;
        if self.events.is_multiple_of(PROGRESS_EVENTS) {
            self.check_rates()?;
            tell(sink, &self.progress())?;
        }
        Ok(())
    }

    fn flow_until(&mut self, next_s: f64) {
        if let Some(timeline) = &mut self.timeline {
            let (flowing, step_s) = (&self.flowing, next_s - self.flowing.now_s);
            let (from_ps, until_ps) = (picoseconds(flowing.now_s), picoseconds(next_s));
            for &number in &flowing.open {
                let bytes = flowing.sharing.rate_bps(number) / 8.0 * step_s;
                for &(direction, times) in &flowing.template_of(number).uses {
                    timeline.note(direction, from_ps, until_ps, f64::from(times) * bytes);
                }
            }
        }
        self.flowing.flow_until(next_s);
        self.trace.note(next_s.to_bits());
    }
}

fn players_of(job: &Job) -> Result<Vec<Player>, SimulationError> {
    let course = Course::of(job)?;
    let player = |_| Player { course: course.clone(), round: 0, begun: 0, ended: 0 };
    Ok(job.workers.iter().map(player).collect())
}
