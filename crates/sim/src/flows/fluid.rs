//! The loop of events.

use std::collections::VecDeque;

use super::current::{Begins, Brings, Pattern, Template, Weaver};
use super::sharing::Sharing;
use crate::network::{Network, picoseconds, seconds};
use crate::queue::Queue;
use crate::record::tell;
use crate::rounds::Rounds;
use crate::scenario::Broken;
use crate::trace::Trace;
use crate::{Record, Scenario, SimulationError, Sink};

/// Relative to a current's bytes: a smaller remainder or lead is rounding, and gets no event of its own.
const TOLERANCE: f64 = 1e-9;
/// Stands for a link without a rate: faster than any that has one.
const UNLIMITED_BPS: f64 = 1e15;
/// Part of a link that traffic of others leaves at least.
const LEAST_PART: f64 = 1e-3;
/// Events between two reports of progress.
const PROGRESS_EVENTS: u64 = 1 << 12;

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A worker has its gradients: job, rank and round.
    Begin { job: u32, rank: u32, round: u32 },
    /// A link breaks, or is back.
    Break { failure: u32, is_back: bool },
    /// Others begin to send, or stop.
    Background { index: u32, is_over: bool },
}

/// Where a current stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waiting,
    Open,
    Ended,
}

/// A current of a round.
#[derive(Clone, Debug)]
struct Current {
    job: u32,
    round: u32,
    /// In the job's pattern; `base` is the number of the round's first.
    template: u32,
    base: u32,
    stage: Stage,
    sent_bytes: f64,
}

/// A round that has currents.
struct Running {
    base: u32,
    begun: usize,
    ended: usize,
    /// By rank: currents that have to end before it has everything.
    missing: Vec<u32>,
}

/// See the module.
pub(super) struct Fluid<'a> {
    scenario: &'a Scenario,
    network: Network,
    patterns: Vec<Pattern>,
    sharing: Sharing,
    /// Rates without failures and others' traffic.
    full_bps: Vec<f64>,
    currents: Vec<Current>,
    /// Numbers of rounds that have ended, by job: their currents are used again.
    spare: Vec<Vec<u32>>,
    open: Vec<u32>,
    /// By job, from the oldest round that has not ended.
    running: Vec<VecDeque<Running>>,
    first_running: Vec<u32>,
    queue: Queue<Event>,
    next_timer: Option<(u64, Event)>,
    rounds: Rounds,
    carried_bytes: Vec<f64>,
    now_s: f64,
    events: u64,
    trace: Trace,
}

impl<'a> Fluid<'a> {
    pub fn new(scenario: &'a Scenario) -> Result<Self, SimulationError> {
        let mut network = Network::new(scenario);
        let mut adders = Vec::new();
        for (index, site) in scenario.sites.iter().enumerate() {
            adders.push(site.adding_bps.map(|bps| network.links.add_inner(index, bps)));
        }
        let mut weaver = Weaver { scenario, network: &mut network, adders: &adders };
        let patterns: Result<Vec<_>, _> = scenario.jobs.iter().map(|j| weaver.pattern(j)).collect();
        let rate = |direction| network.links.rate_bps(direction).unwrap_or(UNLIMITED_BPS);
        let full_bps: Vec<f64> = (0..network.links.count()).map(rate).collect();
        let mut fluid = Self {
            scenario,
            patterns: patterns?,
            sharing: Sharing::new(&full_bps),
            carried_bytes: vec![0.0; full_bps.len()],
            full_bps,
            network,
            currents: Vec::new(),
            spare: vec![Vec::new(); scenario.jobs.len()],
            open: Vec::new(),
            running: scenario.jobs.iter().map(|_| VecDeque::new()).collect(),
            first_running: vec![0; scenario.jobs.len()],
            queue: Queue::default(),
            next_timer: None,
            rounds: Rounds::of_jobs(scenario),
            now_s: 0.0,
            events: 0,
            trace: Trace::default(),
        };
        fluid.plan_timers()?;
        Ok(fluid)
    }

    /// Runs until every collective has ended.
    pub fn run(mut self, sink: &mut Sink) -> Result<(), SimulationError> {
        while !self.rounds.are_over() {
            self.share()?;
            let Some(next_s) = self.next_event_s() else { return Err(self.stuck()) };
            self.flow_until(next_s);
            self.events += 1;
            self.end_currents(sink)?;
            self.ring_timers();
            if self.events.is_multiple_of(PROGRESS_EVENTS) {
                tell(sink, &self.progress())?;
            }
        }
        self.report(sink)
    }

    fn template(&self, current: &Current) -> &Template {
        &self.patterns[current.job as usize].currents[current.template as usize]
    }

    /// Whether a current has something to send on that this one of its feeds has brought.
    fn lags(&self, current: &Current, feed: &Current) -> bool {
        let wire_bytes = self.template(current).wire_bytes;
        feed.sent_bytes - current.sent_bytes > TOLERANCE * wire_bytes
    }

    /// Computes the rates.
    fn share(&mut self) -> Result<(), SimulationError> {
        let mut stopped = Vec::new();
        for &number in &self.open {
            let current = &self.currents[number as usize];
            let mut feeds = self.template(current).feeds.iter();
            let is_dry = |feed: &u32| {
                let feed = &self.currents[(current.base + feed) as usize];
                feed.stage == Stage::Waiting && !self.lags(current, feed)
            };
            if feeds.any(is_dry) {
                stopped.push(number);
            }
        }
        let mut sharing = std::mem::take(&mut self.sharing);
        sharing.compute(&stopped, |number, followers| {
            let feed = &self.currents[number as usize];
            for fed in &self.template(feed).fed {
                let follower = &self.currents[(feed.base + fed) as usize];
                if follower.stage == Stage::Open && !self.lags(follower, feed) {
                    followers.push(feed.base + fed);
                }
            }
        });
        self.sharing = sharing;
        match self.sharing.overloaded() {
            None => Ok(()),
            Some(direction) => {
                let what = format!("direction {direction} carries more than its rate");
                Err(SimulationError::Invariant(what))
            }
        }
    }

    /// When something begins, ends, or catches up with what feeds it.
    fn next_event_s(&self) -> Option<f64> {
        let mut next_s = f64::INFINITY;
        for &number in &self.open {
            let rate_bps = self.sharing.rate_bps(number);
            if rate_bps == 0.0 {
                continue;
            }
            let current = &self.currents[number as usize];
            let template = self.template(current);
            let left_bytes = template.wire_bytes - current.sent_bytes;
            next_s = next_s.min(self.now_s + 8.0 * left_bytes / rate_bps);
            for feed in &template.feeds {
                let feed_number = current.base + feed;
                let feed = &self.currents[feed_number as usize];
                let gain_bps = rate_bps - self.sharing.rate_bps(feed_number);
                if feed.stage != Stage::Ended && gain_bps > 0.0 && self.lags(current, feed) {
                    let lead_bytes = feed.sent_bytes - current.sent_bytes;
                    next_s = next_s.min(self.now_s + 8.0 * lead_bytes / gain_bps);
                }
            }
        }
        let timer_s = self.next_timer.map_or(f64::INFINITY, |(at_ps, _)| seconds(at_ps));
        let next_s = next_s.min(timer_s.max(self.now_s));
        next_s.is_finite().then_some(next_s)
    }

    fn flow_until(&mut self, next_s: f64) {
        let step_s = next_s - self.now_s;
        for &number in &self.open {
            let bytes = self.sharing.rate_bps(number) / 8.0 * step_s;
            self.currents[number as usize].sent_bytes += bytes;
        }
        self.now_s = next_s;
        self.trace.note(next_s.to_bits());
    }

    fn end_currents(&mut self, sink: &mut Sink) -> Result<(), SimulationError> {
        let is_done = |number: &u32| {
            let current = &self.currents[*number as usize];
            let wire_bytes = self.template(current).wire_bytes;
            wire_bytes - current.sent_bytes <= TOLERANCE * wire_bytes
        };
        let done: Vec<u32> = self.open.iter().copied().filter(is_done).collect();
        if done.is_empty() {
            return Ok(());
        }
        self.open.retain(|number| !done.contains(number));
        done.into_iter().try_for_each(|number| self.end(number, sink))
    }

    fn end(&mut self, number: u32, sink: &mut Sink) -> Result<(), SimulationError> {
        let current = &mut self.currents[number as usize];
        current.stage = Stage::Ended;
        let (job, round) = (current.job as usize, current.round);
        let template = &self.patterns[job].currents[current.template as usize];
        current.sent_bytes = template.wire_bytes;
        for &(direction, times) in &template.uses {
            self.carried_bytes[direction as usize] += f64::from(times) * template.wire_bytes;
        }
        let brings = template.brings;
        self.sharing.leave(number);
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
    fn bring(
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
        let now_ps = picoseconds(self.now_s);
        let next = self.rounds.finish(job, rank, round, now_ps, sink)?;
        if let Some(next) = next {
            self.schedule(job, rank, next);
        }
        Ok(())
    }

    /// Lets the numbers of rounds without open currents be used again.
    fn forget_ended(&mut self, job: usize) {
        let count = self.patterns[job].currents.len();
        while self.running[job].front().is_some_and(|running| running.ended == count) {
            if let Some(running) = self.running[job].pop_front() {
                self.spare[job].push(running.base);
                self.first_running[job] += 1;
            }
        }
    }

    fn schedule(&mut self, job: usize, rank: usize, round: u32) {
        let at_ps = self.rounds.schedule(job, rank, round, picoseconds(self.now_s));
        let begin = Event::Begin { job: job as u32, rank: rank as u32, round };
        self.add_timer(at_ps, begin);
    }

    /// The earliest timer is held outside the queue, which only moves forward.
    fn add_timer(&mut self, at_ps: u64, event: Event) {
        match self.next_timer {
            Some((next_ps, next)) if at_ps < next_ps => {
                self.queue.push(next_ps, next);
                self.next_timer = Some((at_ps, event));
            }
            Some(_) => self.queue.push(at_ps, event),
            None => self.next_timer = Some((at_ps, event)),
        }
    }

    fn ring_timers(&mut self) {
        while let Some((at_ps, event)) =
            self.next_timer.filter(|(at, _)| seconds(*at) <= self.now_s)
        {
            self.next_timer = None;
            match event {
                Event::Begin { job, rank, round } => {
                    self.begin(job as usize, rank, round, at_ps);
                }
                Event::Break { failure, is_back } => self.break_link(failure as usize, is_back),
                Event::Background { index, is_over } => {
                    self.change_background(index as usize, is_over);
                }
            }
            if self.next_timer.is_none() {
                self.next_timer = self.queue.pop();
            }
        }
    }

    fn begin(&mut self, job: usize, rank: u32, round: u32, at_ps: u64) {
        self.rounds.begin(job, round, at_ps);
        while (round - self.first_running[job]) as usize >= self.running[job].len() {
            self.make_round(job);
        }
        let ranks = self.scenario.jobs[job].workers.len();
        let running = &mut self.running[job][(round - self.first_running[job]) as usize];
        running.begun += 1;
        let (base, is_last) = (running.base, running.begun == ranks);
        for index in 0..self.patterns[job].currents.len() as u32 {
            let begins = self.patterns[job].currents[index as usize].begins;
            let is_its_turn = match begins {
                Begins::Rank(of) => of == rank,
                Begins::Last => is_last,
                Begins::Fed => self.currents[(base + index) as usize].stage == Stage::Waiting,
            };
            if is_its_turn {
                self.open(base + index);
            }
        }
    }

    fn open(&mut self, number: u32) {
        let current = &mut self.currents[number as usize];
        current.stage = Stage::Open;
        let template = &self.patterns[current.job as usize].currents[current.template as usize];
        self.sharing.enter(number, &template.uses);
        self.open.push(number);
    }

    fn make_round(&mut self, job: usize) {
        let count = self.patterns[job].currents.len() as u32;
        let round = self.first_running[job] + self.running[job].len() as u32;
        let base = self.spare[job].pop().unwrap_or(self.currents.len() as u32);
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
            match self.currents.get_mut(index) {
                Some(old) => *old = current(template),
                None => self.currents.push(current(template)),
            }
        }
        let needed = self.patterns[job].needed;
        let missing = vec![needed; self.scenario.jobs[job].workers.len()];
        self.running[job].push_back(Running { base, begun: 0, ended: 0, missing });
    }

    fn plan_timers(&mut self) -> Result<(), SimulationError> {
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
            self.add_timer(picoseconds(failure.at_s), broken);
            if let Some(until_s) = failure.until_s {
                let back = Event::Break { failure: index, is_back: true };
                self.add_timer(picoseconds(until_s), back);
            }
        }
        for (index, background) in (0..).zip(&self.scenario.background) {
            self.add_timer(
                picoseconds(background.from_s),
                Event::Background { index, is_over: false },
            );
            self.add_timer(
                picoseconds(background.until_s),
                Event::Background { index, is_over: true },
            );
        }
        Ok(())
    }

    fn break_link(&mut self, failure: usize, is_back: bool) {
        let Broken::Link(link) = self.scenario.failures[failure].what else { return };
        for direction in [2 * link as u32, 2 * link as u32 + 1] {
            let full_bps = self.full_bps[direction as usize];
            self.sharing.set_rate(direction, if is_back { full_bps } else { 0.0 });
        }
    }

    /// Traffic that heeds nobody takes its rate away from the links that it crosses.
    fn change_background(&mut self, index: usize, is_over: bool) {
        let background = self.scenario.background[index];
        let path = self.network.path(background.source, background.target).unwrap_or_default();
        for direction in path {
            let full_bps = self.full_bps[direction as usize];
            let change_bps = if is_over { background.rate_bps } else { -background.rate_bps };
            let rate_bps = self.sharing.capacity_bps(direction) + change_bps;
            self.sharing.set_rate(direction, rate_bps.clamp(LEAST_PART * full_bps, full_bps));
        }
    }

    fn progress(&self) -> Record {
        Record::Progress {
            at_s: self.now_s,
            events: self.events,
            rounds: self.rounds.ended(),
            of_rounds: self.rounds.total(),
        }
    }

    fn stuck(&self) -> SimulationError {
        let name = |site: usize| self.scenario.sites[site].name.clone();
        let wait = |number: &u32| {
            let current = &self.currents[*number as usize];
            let template = self.template(current);
            let (from, to) = (name(template.source), name(template.target));
            let (sent, all) = (current.sent_bytes, template.wire_bytes);
            format!("{to} has {sent:.0} of {all:.0} bytes of round {} from {from}", current.round)
        };
        // Who waits for one that waits is not to blame.
        let is_first = |number: &&u32| {
            let current = &self.currents[**number as usize];
            let mut feeds = self.template(current).feeds.iter();
            feeds.all(|f| self.currents[(current.base + f) as usize].stage == Stage::Ended)
        };
        let waits = self.open.iter().filter(is_first).map(wait).collect();
        SimulationError::Stuck { at_s: self.now_s, waits }
    }

    fn report(&self, sink: &mut Sink) -> Result<(), SimulationError> {
        for (index, link) in self.scenario.links.iter().enumerate() {
            let ends = [(link.source, link.target), (link.target, link.source)];
            for (direction, (source, target)) in (2 * index..).zip(ends) {
                tell(
                    sink,
                    &Record::Link {
                        link: link.id.clone(),
                        source: self.scenario.sites[source].name.clone(),
                        target: self.scenario.sites[target].name.clone(),
                        rate_bps: self.network.links.rate_bps(direction as u32),
                        wire_bytes: self.carried_bytes[direction],
                        dropped_bytes: 0,
                        lost_bytes: 0,
                        marked_packets: 0,
                        queue_bytes_max: 0,
                    },
                )?;
            }
        }
        tell(
            sink,
            &Record::End {
                at_s: seconds(self.rounds.last_end_ps()),
                events: self.events,
                packet_hops: 0,
                trace: format!("{:016x}", self.trace.hash()),
                checked_values: 0,
            },
        )
    }
}
