//! How trains get from place to place.

use wiresum_switch::{Egress, Packet, Verdict};
use wiresum_wire::{Flags, Kind};

use super::content::Content;
use super::summer::Summer;
use super::yard::{Event, Train, Yard};
use crate::{SimulationError, Sink};

impl<V: Content> Yard<'_, V> {
    pub(super) fn arrive(
        &mut self,
        train: u32,
        direction: u32,
        sink: &mut Sink,
    ) -> Result<(), SimulationError> {
        let has_come = self.note_arrival(train, direction);
        let site = self.network.links.end(direction);
        let Train { job, ref packets } = *self.trains.get(train);
        let (job, count) = (job as usize, packets.len());
        self.trace.note(self.now_ps);
        self.trace.note(u64::from(train) << 32 | count as u64);
        if !has_come {
            self.trains.give_back(train);
            return Ok(());
        }
        let is_up = packets.first().is_some_and(|packet| packet.kind == Kind::Contribution);
        if is_up && self.jobs[job].is_root(site) {
            let ends = |packet: &&Packet<V>| self.jobs[job].ways_of(packet.sub_model).root == site;
            self.ingress[job] += packets.iter().filter(ends).count() as u64;
        }
        if let Some(rank) = self.jobs[job].rank_at(site).filter(|_| !is_up) {
            return self.come_home(train, job, rank, sink);
        }
        match self.adders[site].filter(|_| self.jobs[job].sums_at(site)) {
            Some(adder) => self.queue_up(train, adder, is_up),
            None => self.pass(train, site),
        }
        Ok(())
    }

    /// A train waits for its turn to be added. Results take no time, but overtake nothing.
    fn queue_up(&mut self, train: u32, adder: u32, is_up: bool) {
        let bytes = if is_up { self.bytes(train) } else { 0 };
        match self.network.links.carry(adder, self.now_ps, bytes).at_ps {
            Some(at_ps) => self.queue.push(at_ps, Event::Added { train, direction: adder }),
            None => self.trains.give_back(train),
        }
    }

    /// A node has added a train.
    pub(super) fn add(&mut self, train: u32, adder: u32) {
        self.note_arrival(train, adder);
        self.pass(train, self.network.links.end(adder));
    }

    fn bytes(&self, train: u32) -> u64 {
        let Train { job, packets } = self.trains.get(train);
        self.jobs[*job as usize].packet_bytes * packets.len() as u64
    }

    /// A train has come to the end of a direction; false if that is a circuit that went dark before.
    fn note_arrival(&mut self, train: u32, direction: u32) -> bool {
        let is_inner = direction as usize >= 2 * self.scenario.links.len();
        let first = self.trains.get(train).packets.first();
        let is_free = is_inner && first.is_some_and(|packet| packet.kind == Kind::Result);
        let bytes = if is_free { 0 } else { self.bytes(train) };
        self.network.links.arrive(direction, bytes);
        let Some(turns) = &mut self.turns else { return true };
        turns.note_arrival(direction, self.now_ps, bytes)
    }

    /// Lets everything that is still on its way arrive, unheard.
    pub(super) fn drain(&mut self) {
        while let Some((at_ps, event)) = self.queue.pop() {
            match event {
                Event::Arrive { train, direction } | Event::Added { train, direction } => {
                    self.now_ps = at_ps;
                    self.note_arrival(train, direction);
                }
                Event::Stray { index, hop } => {
                    let direction = self.ways[index as usize][hop as usize - 1];
                    let bytes = self.stray_bytes(index);
                    self.network.links.arrive(direction, bytes);
                }
                _ => {}
            }
        }
    }

    /// Results at the worker that they are for.
    fn come_home(
        &mut self,
        train: u32,
        job: usize,
        rank: usize,
        sink: &mut Sink,
    ) -> Result<(), SimulationError> {
        let mut packets = std::mem::take(&mut self.trains.get_mut(train).packets);
        if !self.is_broken(self.jobs[job].hosts[rank].site) {
            self.receive(job, rank, &packets, sink)?;
        }
        packets.clear();
        self.trains.get_mut(train).packets = packets;
        self.trains.give_back(train);
        Ok(())
    }

    /// Packets at a switch or a server.
    fn pass(&mut self, train: u32, site: usize) {
        let Train { job, ref mut packets } = *self.trains.get_mut(train);
        let (job, mut packets) = (job as usize, std::mem::take(packets));
        let is_gone = self.is_broken(site) && !self.scenario.sites[site].forwards;
        let mut summer = std::mem::replace(&mut self.summers[site], Summer::Nobody);
        self.handled += if matches!(summer, Summer::Nobody) { 0 } else { packets.len() as u64 };
        for packet in packets.iter_mut().filter(|_| !is_gone) {
            let outcome = summer.handle(packet);
            match outcome.egress {
                Egress::Absorbed => {}
                Egress::Up => {
                    let ways = self.jobs[job].ways_of(packet.sub_model);
                    if let Some(direction) = ways.up(site, packet.node, packet.worker) {
                        self.departures.couple(direction, packet.clone());
                    }
                }
                Egress::Down => {
                    self.copy_down(job, site, packet);
                    if outcome.verdict == Verdict::Completed {
                        let others = summer.other_results(packet);
                        others.iter().for_each(|result| self.copy_down(job, site, result));
                    }
                }
            }
        }
        self.summers[site] = summer;
        packets.clear();
        self.trains.get_mut(train).packets = packets;
        self.trains.give_back(train);
        self.depart(job);
    }

    /// Results are copied where the ways of those that they are for part.
    fn copy_down(&mut self, job: usize, site: usize, packet: &Packet<V>) {
        let cohort = packet.cohort();
        for &(direction, of, behind) in self.jobs[job].ways_of(packet.sub_model).down(site) {
            let contributors = behind.only(packet.contributors);
            if of == cohort && !contributors.is_empty() {
                self.departures.couple(direction, Packet { contributors, ..packet.clone() });
            }
        }
    }

    /// Sends what has been put together.
    pub(super) fn depart(&mut self, job: usize) {
        while let Some((direction, mut packets)) = self.departures.next() {
            self.send(job, direction, &mut packets);
            self.departures.give_back(direction, packets);
        }
    }

    pub(super) fn send(&mut self, job: usize, direction: u32, packets: &mut Vec<Packet<V>>) {
        let bytes = self.jobs[job].packet_bytes * packets.len() as u64;
        self.hops += packets.len() as u64;
        let carried = self.network.links.carry(direction, self.now_ps, bytes);
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
}

/// Trains that are being put together, by direction.
pub(super) struct Departures<V> {
    trains: Vec<Vec<Packet<V>>>,
    /// Directions that have some.
    touched: Vec<u32>,
}

impl<V> Departures<V> {
    /// No train yet.
    pub fn new(directions: u32) -> Self {
        Self { trains: (0..directions).map(|_| Vec::new()).collect(), touched: Vec::new() }
    }

    /// Adds a packet to the train that leaves in a direction.
    #[inline]
    pub fn couple(&mut self, direction: u32, packet: Packet<V>) {
        let train = &mut self.trains[direction as usize];
        if train.is_empty() {
            self.touched.push(direction);
        }
        train.push(packet);
    }

    /// A train that is ready, and where it goes.
    fn next(&mut self) -> Option<(u32, Vec<Packet<V>>)> {
        let direction = self.touched.pop()?;
        Some((direction, std::mem::take(&mut self.trains[direction as usize])))
    }

    /// Keeps the memory of a train that has left.
    fn give_back(&mut self, direction: u32, packets: Vec<Packet<V>>) {
        self.trains[direction as usize] = packets;
    }
}
