//! The loop of events.

use wiresum_protocol::Time;
use wiresum_switch::rmt::Profile;
use wiresum_switch::{Egress, Packet, ParameterServer, Place, Received, Switch, Verdict};
use wiresum_wire::{Flags, Kind, NodeId, SubModelId};

use super::content::Content;
use super::job::{Job, sub_models};
use crate::network::{Network, picoseconds, seconds};
use crate::queue::Queue;
use crate::record::{tell, tell_links};
use crate::rounds::Rounds;
use crate::scenario::ProgramStream;
use crate::slab::Slab;
use crate::trace::Trace;
use crate::{Record, Scenario, SimulationError, Sink};

/// Events between two reports of progress.
const PROGRESS_EVENTS: u64 = 1 << 16;
const PS_PER_US: u64 = 1_000_000;
/// int32 lanes that a simulated fragment has; memory counts fragments.
const LANES: u32 = 1;

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A train is at the end of a direction.
    Arrive { train: u32, direction: u32 },
    /// A worker may have something to do: job and rank.
    Alarm { job: u32, rank: u32 },
    /// A worker has its gradients.
    Begin { job: u32, rank: u32 },
}

/// Packets of one job, one after another.
#[derive(Default)]
struct Train<V> {
    job: u32,
    packets: Vec<Packet<V>>,
}

/// What sums at a site.
enum Summer<V: Content> {
    Nobody,
    Switch(Box<Switch<V>>),
    Server(ParameterServer<V>),
}

/// See the module.
pub(super) struct Yard<'a, V: Content> {
    scenario: &'a Scenario,
    network: Network,
    queue: Queue<Event>,
    trains: Slab<Train<V>>,
    jobs: Vec<Job>,
    /// By site.
    summers: Vec<Summer<V>>,
    rounds: Rounds,
    /// Trains that are being put together, by direction; and the directions that have some.
    departing: Vec<Vec<Packet<V>>>,
    touched: Vec<u32>,
    now_ps: u64,
    progress_ps: u64,
    events: u64,
    /// Packets that a switch or a server has handled.
    handled: u64,
    hops: u64,
    checked: u64,
    wrong: u64,
    trace: Trace,
}

impl<'a, V: Content> Yard<'a, V> {
    pub fn new(scenario: &'a Scenario) -> Result<Self, SimulationError> {
        let mut network = Network::new(scenario);
        let mut jobs = Vec::new();
        for (number, program) in scenario.programs.iter().enumerate() {
            jobs.push(Job::new(number, program, scenario, &mut network)?);
        }
        let network_directions = network.links.count();
        let times = scenario.programs.iter();
        let times = times.map(|p| (p.name.as_str(), p.rounds, p.workers.clone()));
        let mut yard = Self {
            rounds: Rounds::new(scenario.seed, times),
            scenario,
            network,
            queue: Queue::default(),
            trains: Slab::default(),
            jobs,
            summers: scenario.sites.iter().map(|_| Summer::Nobody).collect(),
            departing: (0..network_directions).map(|_| Vec::new()).collect(),
            touched: Vec::new(),
            now_ps: 0,
            progress_ps: 0,
            events: 0,
            handled: 0,
            hops: 0,
            checked: 0,
            wrong: 0,
            trace: Trace::default(),
        };
        yard.install()?;
        Ok(yard)
    }

    /// Runs until every collective has ended.
    pub fn run(mut self, sink: &mut Sink) -> Result<(), SimulationError> {
        for job in 0..self.jobs.len() {
            (0..self.jobs[job].hosts.len()).for_each(|rank| self.schedule(job, rank));
        }
        let patience_ps = picoseconds(self.scenario.patience_s);
        while !self.rounds.are_over() {
            let Some((at_ps, event)) = self.queue.pop() else { break };
            self.now_ps = at_ps;
            self.events += 1;
            match event {
                Event::Arrive { train, direction } => self.arrive(train, direction, sink)?,
                Event::Alarm { job, rank } => self.ring(job as usize, rank as usize),
                Event::Begin { job, rank } => self.begin(job as usize, rank as usize),
            }
            if self.events.is_multiple_of(PROGRESS_EVENTS) {
                tell(sink, &self.progress())?;
            }
            if self.now_ps > self.progress_ps + patience_ps {
                break;
            }
        }
        if !self.rounds.are_over() {
            return Err(self.stuck());
        }
        self.report(sink)
    }

    /// Puts programs into switches, and servers where roots are no switches.
    fn install(&mut self) -> Result<(), SimulationError> {
        for (number, program) in self.scenario.programs.iter().enumerate() {
            for stream in sub_models(program) {
                for &(site, base) in &stream.1.switches {
                    if let Some(place) = self.jobs[number].place(number, stream, (site, base)) {
                        self.place(number, site, place)?;
                    }
                }
                self.serve(number, stream);
            }
        }
        Ok(())
    }

    /// A stream at a switch.
    fn place(&mut self, number: usize, site: usize, place: Place) -> Result<(), SimulationError> {
        let program = &self.scenario.programs[number];
        let wrong = |problem: String| SimulationError::Job { job: program.name.clone(), problem };
        if matches!(self.summers[site], Summer::Nobody) {
            let (node, policy) = (NodeId(site as u16), self.jobs[number].policy);
            let made = Switch::new(node, policy, program.memory_slots, LANES, &Profile::UNLIMITED);
            let made = made.map_err(|misfit| wrong(misfit.to_string()))?;
            self.summers[site] = Summer::Switch(Box::new(made));
        }
        if let Summer::Switch(switch) = &mut self.summers[site] {
            switch.install(place).map_err(|error| wrong(error.to_string()))?;
        }
        Ok(())
    }

    /// A stream at its root, if that is no switch.
    fn serve(&mut self, number: usize, stream: (SubModelId, &ProgramStream)) {
        let root = self.jobs[number].ways_of(stream.0).root;
        if self.scenario.sites[root].forwards {
            return;
        }
        if !matches!(self.summers[root], Summer::Server(_)) {
            self.summers[root] = Summer::Server(ParameterServer::default());
        }
        if let Summer::Server(server) = &mut self.summers[root] {
            server.serve(self.jobs[number].serving(number, stream));
        }
    }

    fn now(&self) -> Time {
        Time(self.now_ps / PS_PER_US)
    }

    fn arrive(
        &mut self,
        train: u32,
        direction: u32,
        sink: &mut Sink,
    ) -> Result<(), SimulationError> {
        let site = self.network.links.end(direction);
        let job = self.trains.get(train).job as usize;
        let mut packets = std::mem::take(&mut self.trains.get_mut(train).packets);
        self.trace.note(self.now_ps);
        self.trace.note(u64::from(train) << 32 | packets.len() as u64);
        let is_down = packets.first().is_some_and(|p| p.kind == Kind::Result);
        let rank = if is_down { self.rank_at(job, site) } else { None };
        match rank {
            Some(rank) => self.receive(job, rank, &mut packets, sink)?,
            None => self.pass(job, site, direction, &mut packets),
        }
        packets.clear();
        self.trains.get_mut(train).packets = packets;
        self.trains.give_back(train);
        Ok(())
    }

    fn rank_at(&self, job: usize, site: usize) -> Option<usize> {
        if self.scenario.sites[site].forwards {
            return None;
        }
        self.jobs[job].hosts.iter().position(|host| host.site == site)
    }

    /// Packets at a switch or a server.
    fn pass(&mut self, job: usize, site: usize, came: u32, packets: &mut Vec<Packet<V>>) {
        for mut packet in packets.drain(..) {
            let was_result = packet.kind == Kind::Result;
            let outcome = match &mut self.summers[site] {
                Summer::Nobody => {
                    if was_result {
                        Egress::Down
                    } else {
                        Egress::Up
                    }
                }
                Summer::Switch(switch) => {
                    self.handled += 1;
                    switch.handle(&mut packet).egress
                }
                Summer::Server(server) => {
                    self.handled += 1;
                    server.handle(&mut packet).egress
                }
            };
            match outcome {
                Egress::Absorbed => {}
                Egress::Up => {
                    let ways = self.jobs[job].ways_of(packet.sub_model);
                    if let Some(direction) = ways.up(site, packet.node, packet.worker) {
                        self.couple(direction, packet);
                    }
                }
                Egress::Down => self.copy_down(job, site, was_result.then_some(came), &packet),
            }
        }
        self.depart(job);
    }

    /// Results are copied where the ways of those that they are for part.
    fn copy_down(&mut self, job: usize, site: usize, came: Option<u32>, packet: &Packet<V>) {
        let stream = packet.sub_model;
        for port in 0..self.jobs[job].ways_of(stream).down(site, came).len() {
            let (direction, behind) = self.jobs[job].ways_of(stream).down(site, came)[port];
            let contributors = behind.only(packet.contributors);
            if !contributors.is_empty() {
                self.couple(direction, Packet { contributors, ..packet.clone() });
            }
        }
    }

    /// Adds a packet to the train that leaves in a direction.
    fn couple(&mut self, direction: u32, packet: Packet<V>) {
        let train = &mut self.departing[direction as usize];
        if train.is_empty() {
            self.touched.push(direction);
        }
        train.push(packet);
    }

    /// Sends what has been put together.
    fn depart(&mut self, job: usize) {
        while let Some(direction) = self.touched.pop() {
            let mut packets = std::mem::take(&mut self.departing[direction as usize]);
            self.send(job, direction, &mut packets);
            self.departing[direction as usize] = packets;
        }
    }

    fn send(&mut self, job: usize, direction: u32, packets: &mut Vec<Packet<V>>) {
        let bytes = self.jobs[job].packet_bytes * packets.len() as u64;
        let from = self.network.links.end(direction ^ 1);
        let is_own = !self.scenario.sites[from].forwards;
        self.hops += packets.len() as u64;
        let carried = self.network.links.carry(direction, self.now_ps, bytes, is_own);
        if carried.is_marked {
            packets.iter_mut().for_each(|packet| packet.mark(Flags::ECN));
        }
        for at_ps in [carried.again_ps, carried.at_ps].into_iter().flatten() {
            let (number, train) = self.trains.take();
            train.job = job as u32;
            train.packets.clear();
            train.packets.extend_from_slice(packets);
            self.queue.push(at_ps, Event::Arrive { train: number, direction });
        }
        packets.clear();
    }

    /// Results at a worker.
    fn receive(
        &mut self,
        job: usize,
        rank: usize,
        packets: &mut Vec<Packet<V>>,
        sink: &mut Sink,
    ) -> Result<(), SimulationError> {
        let now = self.now();
        let workers = self.jobs[job].hosts.len() as u8;
        for packet in packets.drain(..) {
            let host = &mut self.jobs[job].hosts[rank];
            let stream = usize::from(packet.sub_model.0);
            if host.workers[stream].handle(&packet, now) == Received::Fresh {
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

    fn schedule(&mut self, job: usize, rank: usize) {
        let round = self.jobs[job].hosts[rank].round;
        let at_ps = self.rounds.schedule(job, rank, round, self.now_ps);
        self.queue.push(at_ps, Event::Begin { job: job as u32, rank: rank as u32 });
    }

    fn begin(&mut self, job: usize, rank: usize) {
        let host = &mut self.jobs[job].hosts[rank];
        self.rounds.begin(job, host.round, self.now_ps);
        self.progress_ps = self.now_ps;
        host.round += 1;
        host.is_busy = true;
        let streams = &self.scenario.programs[job].streams;
        let begun = host.workers.iter_mut().zip(streams);
        begun.for_each(|(worker, stream)| worker.begin(stream.fragments));
        self.transmit(job, rank);
    }

    fn ring(&mut self, job: usize, rank: usize) {
        let now = self.now();
        let host = &mut self.jobs[job].hosts[rank];
        if host.alarm.take_if(|at| *at <= now).is_some() {
            host.workers.iter_mut().for_each(|worker| worker.handle_timeout(now));
            self.transmit(job, rank);
        }
    }

    /// Sends what a worker may send, in trains.
    fn transmit(&mut self, job: usize, rank: usize) {
        let now = self.now();
        let site = self.jobs[job].hosts[rank].site;
        for stream in 0..self.jobs[job].ways.len() {
            while let Some(packet) = self.jobs[job].hosts[rank].workers[stream].poll_transmit(now) {
                let ways = &self.jobs[job].ways[stream];
                let Some(direction) = ways.up(site, packet.node, packet.worker) else { continue };
                let values = V::of((job, stream), rank as u8, packet.fragment.0);
                self.couple(direction, packet.carrying(values));
                if self.departing[direction as usize].len() == self.scenario.train {
                    self.depart(job);
                }
            }
        }
        self.depart(job);
        let host = &mut self.jobs[job].hosts[rank];
        let due = host.poll_timeout();
        if let Some(due) = due.filter(|due| host.alarm.is_none_or(|at| at > *due)) {
            host.alarm = Some(due);
            let at_ps = (due.0 * PS_PER_US).max(self.now_ps);
            self.queue.push(at_ps, Event::Alarm { job: job as u32, rank: rank as u32 });
        }
    }

    fn progress(&self) -> Record {
        Record::Progress {
            at_s: seconds(self.now_ps),
            events: self.handled,
            rounds: self.rounds.ended(),
            of_rounds: self.rounds.total(),
        }
    }

    fn stuck(&self) -> SimulationError {
        let mut waits = Vec::new();
        for job in &self.jobs {
            for (rank, host) in job.hosts.iter().enumerate().filter(|(_, host)| host.is_busy) {
                let waiting = host.workers.iter().find(|worker| !worker.is_done());
                let oldest = waiting.map_or(0, |worker| worker.oldest().0);
                let (round, position) = (host.round - 1, oldest);
                let name = &self.scenario.sites[host.site].name;
                waits.push(format!(
                    "{name} (rank {rank} of {}) waits in round {round} for the result of position {position}",
                    job.name
                ));
            }
        }
        SimulationError::Stuck { at_s: seconds(self.progress_ps), waits }
    }

    /// Checks the books, and says what there was.
    fn report(&self, sink: &mut Sink) -> Result<(), SimulationError> {
        self.network.links.check()?;
        if self.wrong > 0 {
            let what = format!("{} of {} sums were wrong", self.wrong, self.checked);
            return Err(SimulationError::Invariant(what));
        }
        for (site, summer) in self.summers.iter().enumerate() {
            let counters = match summer {
                Summer::Nobody => continue,
                Summer::Switch(switch) => switch.counters(),
                Summer::Server(server) => server.counters(),
            };
            for verdict in Verdict::ALL {
                let count = counters.get(verdict);
                if count > 0 {
                    tell(
                        sink,
                        &Record::Counter {
                            site: self.scenario.sites[site].name.clone(),
                            job: String::new(),
                            name: verdict.name().to_owned(),
                            count,
                        },
                    )?;
                }
            }
        }
        tell_links(self.scenario, &self.network.links, sink)?;
        tell(
            sink,
            &Record::End {
                at_s: seconds(self.rounds.last_end_ps()),
                events: self.handled,
                packet_hops: self.hops,
                trace: format!("{:016x}", self.trace.hash()),
                checked_values: self.checked,
            },
        )
    }
}
