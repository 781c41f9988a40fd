//! The loop of events.

use wiresum_protocol::Time;
use wiresum_switch::Packet;

use super::content::Content;
use super::job::{Host, Job};
use super::passage::Departures;
use super::summer::Summer;
use crate::circuits::turns::Runner;
use crate::network::{RoutedLinks, picoseconds};
use crate::record::tell;
use crate::rounds::Rounds;
use crate::slab::Slab;
use crate::timeline::Samples;
use crate::trace::Trace;
use crate::{Scenario, SimulationError, Sink};
use wiresum_netem::{PS_PER_US, Queue};

/// Events between two reports of progress.
const PROGRESS_EVENTS: u64 = 1 << 16;

#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// A train is at the end of a direction.
    Arrive { train: u32, direction: u32 },
    /// A node has added a train, which takes this direction of its own.
    Added { train: u32, direction: u32 },
    /// Others send a train.
    Background { index: u32 },
    /// A train of others has made so many hops.
    Stray { index: u32, hop: u32 },
    /// Something breaks, or is back.
    Break { failure: u32, is_back: bool },
    /// A worker may have something to do: job and rank.
    Alarm { job: u32, rank: u32 },
    /// A worker has its gradients.
    Begin { job: u32, rank: u32 },
    /// Circuits or gates change.
    Turn,
}

/// Packets of one job, one after another.
#[derive(Default)]
pub(super) struct Train<V> {
    pub job: u32,
    pub packets: Vec<Packet<V>>,
}

pub(super) struct Yard<'a, V: Content> {
    pub scenario: &'a Scenario,
    pub network: RoutedLinks,
    pub queue: Queue<Event>,
    pub trains: Slab<Train<V>>,
    pub jobs: Vec<Job>,
    /// By site.
    pub summers: Vec<Summer<V>>,
    /// By site: what it does to trains that it adds, where that can hold them up.
    pub adders: Vec<Option<u32>>,
    /// By site: failures that keep what runs there from running.
    pub failures: Vec<u32>,
    /// By background traffic: its way.
    pub ways: Vec<Vec<u32>>,
    /// By job: contributions that its root has received.
    pub ingress: Vec<u64>,
    /// Sites of switches that sum, and what they held when.
    pub switches: Vec<usize>,
    pub samples: Option<Samples>,
    pub rounds: Rounds,
    /// Where circuits change, and jobs send in their turn.
    pub turns: Option<Runner<'a>>,
    pub departures: Departures<V>,
    pub now_ps: u64,
    pub progress_ps: u64,
    pub events: u64,
    /// Packets that a switch or a server has handled.
    pub handled: u64,
    pub hops: u64,
    pub checked: u64,
    pub wrong: u64,
    pub trace: Trace,
}

impl<'a, V: Content> Yard<'a, V> {
    pub fn new(scenario: &'a Scenario) -> Result<Self, SimulationError> {
        let mut network = RoutedLinks::new(scenario);
        let mut jobs = Vec::new();
        for (number, program) in scenario.programs.iter().enumerate() {
            jobs.push(Job::new(number, program, scenario, &mut network)?);
        }
        let network_directions = network.links.count();
        let adders = adders(scenario, &jobs, &mut network);
        let ways = scenario.background.iter().map(|b| network.path(b.source, b.target));
        let ways = ways.collect::<Result<_, _>>()?;
        let times = scenario.programs.iter();
        let times = times.map(|p| (p.name.as_str(), p.rounds, p.workers.clone()));
        let mut yard = Self {
            rounds: Rounds::new(scenario.seed, times),
            turns: scenario.turns.as_ref().map(|turns| Runner::new(turns, scenario.links.len())),
            scenario,
            network,
            queue: Queue::default(),
            trains: Slab::default(),
            ingress: vec![0; jobs.len()],
            switches: (0..scenario.sites.len())
                .filter(|site| jobs.iter().any(|job| job.is_switch(*site)))
                .collect(),
            jobs,
            summers: scenario.sites.iter().map(|_| Summer::Nobody).collect(),
            adders,
            failures: vec![0; scenario.sites.len()],
            ways,
            samples: scenario.timeline.then(Samples::default),
            departures: Departures::new(network_directions),
            now_ps: 0,
            progress_ps: 0,
            events: 0,
            handled: 0,
            hops: 0,
            checked: 0,
            wrong: 0,
            trace: Trace::default(),
        };
        for site in 0..scenario.sites.len() {
            yard.summers[site] = Summer::at(site, scenario, &yard.jobs)?;
        }
        yard.plan_disturbances();
        Ok(yard)
    }

    /// Runs until every collective has ended.
    pub fn run(mut self, sink: &mut Sink) -> Result<(), SimulationError> {
        match &self.turns {
            None => (0..self.jobs.len()).for_each(|job| self.schedule_all(job)),
            Some(turns) => {
                turns.dark_links().for_each(|link| self.network.links.fail(link, false));
                turns.next_ps().into_iter().for_each(|at_ps| self.queue.push(at_ps, Event::Turn));
            }
        }
        let patience_ps = picoseconds(self.scenario.patience_s);
        let stop_ps = self.turns.as_ref().and_then(Runner::stop_ps);
        while stop_ps.is_some() || !self.rounds.are_over() {
            let Some((at_ps, event)) = self.queue.pop() else { break };
            if stop_ps.is_some_and(|stop_ps| at_ps >= stop_ps) {
                break;
            }
            self.now_ps = at_ps;
            self.events += 1;
            self.handle(event, sink)?;
            if self.samples.as_ref().is_some_and(|samples| samples.is_due(at_ps)) {
                self.sample();
            }
            if self.events.is_multiple_of(PROGRESS_EVENTS) {
                self.network.links.check().map_err(SimulationError::Invariant)?;
                tell(sink, &self.progress())?;
            }
            if self.now_ps > self.progress_ps + patience_ps {
                break;
            }
        }
        if stop_ps.is_some() {
            return self.look(sink);
        }
        if !self.rounds.are_over() {
            return Err(self.stuck());
        }
        self.drain();
        let end_ps = self.now_ps;
        self.turns.as_mut().map_or(Ok(()), |turns| turns.end(end_ps))?;
        self.check()?;
        self.report(sink)
    }

    /// Says what is seen at the end of a slot.
    fn look(&mut self, sink: &mut Sink) -> Result<(), SimulationError> {
        let results = self.results();
        let Some(turns) = &mut self.turns else { return Ok(()) };
        turns.look(results, |job| self.rounds.is_over(job), sink)
    }

    /// Packets of sums that all hosts of each job have, at least.
    fn results(&self) -> Vec<u64> {
        let of_host = |host: &Host| host.workers.iter().map(|one| one.counters().results).sum();
        let least = |job: &Job| job.hosts.iter().map(of_host).min().unwrap_or(0);
        self.jobs.iter().map(least).collect()
    }

    fn handle(&mut self, event: Event, sink: &mut Sink) -> Result<(), SimulationError> {
        match event {
            Event::Arrive { train, direction } => self.arrive(train, direction, sink)?,
            Event::Added { train, direction } => self.add(train, direction),
            Event::Alarm { job, rank } => self.ring(job as usize, rank as usize),
            Event::Begin { job, rank } => self.begin(job as usize, rank as usize),
            Event::Background { index } => self.send_background(index),
            Event::Stray { index, hop } => self.pass_on(index, hop as usize),
            Event::Break { failure, is_back } => self.break_down(failure as usize, is_back)?,
            Event::Turn => self.turn()?,
        }
        Ok(())
    }

    pub fn now(&self) -> Time {
        Time(self.now_ps / PS_PER_US)
    }
}

/// What summing nodes do as directions of their own. A node that adds faster than its links can bring never makes anyone wait.
fn adders(scenario: &Scenario, jobs: &[Job], network: &mut RoutedLinks) -> Vec<Option<u32>> {
    let mut into_bps = vec![0.0; scenario.sites.len()];
    for link in &scenario.links {
        into_bps[link.target] += link.forward.rate_bps.unwrap_or(f64::INFINITY);
        into_bps[link.source] += link.backward.rate_bps.unwrap_or(f64::INFINITY);
    }
    let is_summing = |site: usize| jobs.iter().any(|job| job.sums_at(site));
    let binding = |(site, of): (usize, &crate::scenario::Site)| {
        of.adding_bps.filter(|bps| *bps < into_bps[site] && is_summing(site))
    };
    let rates: Vec<_> = scenario.sites.iter().enumerate().map(binding).collect();
    let sites = rates.into_iter().enumerate();
    sites.map(|(site, bps)| bps.map(|bps| network.links.add_inner(site, bps))).collect()
}
