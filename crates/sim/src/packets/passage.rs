//! How packets get from place to place.

use std::net::SocketAddr;

use wiresum_protocol::plan::Fabric;
use wiresum_protocol::plan::fabric::FabricLink;
use wiresum_wire::{ETHERNET_LEN, IPV4_LEN, IPV6_LEN, UDP_LEN};

use super::peers::{Outbox, Parcel, Peer, Sender};
use super::world::{Endpoint, Event, Flying, World, is_due, schedule};
use crate::{SimulationError, Sink};

impl World<'_> {
    /// A packet has made one more step of its way: it goes on, or is where it was to go.
    pub(super) fn arrive(
        &mut self,
        packet: u32,
        way: u32,
        bytes: u32,
        sink: &mut Sink,
    ) -> Result<(), SimulationError> {
        let has_come = self.note_arrival(way, bytes);
        self.trace.note(self.now_ps);
        self.trace.note(u64::from(packet) << 32 | u64::from(way));
        if !has_come {
            self.packets.give_back(packet);
            return Ok(());
        }
        if self.paths.step(way + 1).is_some() {
            self.forward(packet, way + 1, bytes);
            return Ok(());
        }
        // Whatever does not have to be added waits behind what has: nothing overtakes.
        let flying = self.packets.get(packet);
        let Endpoint::Daemon(daemon) = flying.to else { return self.deliver(packet, sink) };
        let adder = self.adders[self.daemons[daemon as usize].site];
        let Some(adder) = adder else { return self.deliver(packet, sink) };
        let bytes = if flying.is_added { u64::from(bytes) } else { 0 };
        match self.network.links.carry(adder, self.now_ps, bytes).at_ps {
            Some(at_ps) => self.queue.push(at_ps, Event::Added { packet, direction: adder }),
            None => self.packets.give_back(packet),
        }
        Ok(())
    }

    /// A packet is at the end of a direction; false if that is a circuit that went dark before.
    #[inline]
    fn note_arrival(&mut self, way: u32, bytes: u32) -> bool {
        let Some(direction) = self.paths.step(way) else { return true };
        self.network.links.arrive(direction, bytes.into());
        let Some(turns) = &mut self.turns else { return true };
        turns.note_arrival(direction, self.now_ps, bytes.into())
    }

    /// A node has added a packet.
    pub(super) fn note_added(&mut self, packet: u32, adder: u32) {
        let flying = self.packets.get(packet);
        let bytes = if flying.is_added { u64::from(flying.wire_bytes) } else { 0 };
        self.network.links.arrive(adder, bytes);
    }

    /// Lets everything that is still on its way arrive, unheard.
    pub(super) fn drain(&mut self) {
        while let Some((at_ps, event)) = self.queue.pop() {
            match event {
                Event::Arrive { way, bytes, .. } => {
                    self.now_ps = at_ps;
                    self.note_arrival(way, bytes);
                }
                Event::Added { packet, direction } => self.note_added(packet, direction),
                _ => {}
            }
        }
    }

    /// Puts a packet on the next link of its way.
    pub(super) fn forward(&mut self, packet: u32, way: u32, bytes: u32) {
        let Some(direction) = self.paths.step(way) else { return self.packets.give_back(packet) };
        let carried = self.network.links.carry(direction, self.now_ps, bytes.into());
        self.hops += 1;
        if let Some(at_ps) = carried.again_ps {
            let copy = self.copy(packet);
            self.queue.push(at_ps, Event::Arrive { packet: copy, way, bytes });
        }
        match carried.at_ps {
            Some(at_ps) => self.queue.push(at_ps, Event::Arrive { packet, way, bytes }),
            None => self.packets.give_back(packet),
        }
    }

    fn copy(&mut self, packet: u32) -> u32 {
        let (number, _) = self.packets.take();
        let original = std::mem::take(self.packets.get_mut(packet));
        let copy = self.packets.get_mut(number);
        *copy = Flying { datagram: original.datagram.clone(), ..original };
        *self.packets.get_mut(packet) = original;
        number
    }

    pub(super) fn deliver(&mut self, packet: u32, sink: &mut Sink) -> Result<(), SimulationError> {
        let now = self.now();
        let flying = self.packets.get(packet);
        let (to, job, source) = (flying.to, flying.job as usize, flying.source);
        let mut datagram = std::mem::take(&mut self.scratch);
        datagram.clear();
        datagram.extend_from_slice(&flying.datagram);
        datagram.resize(flying.len as usize, 0);
        match to {
            Endpoint::Host(host) if !self.hosts[host as usize].is_dead => {
                self.hosts[host as usize].handle(source, &datagram, now);
                self.drive(host as usize, sink)?;
            }
            Endpoint::Daemon(daemon) if !self.daemons[daemon as usize].is_dead => {
                self.note_ingress(packet, daemon as usize);
                self.hand_over(daemon as usize, job, source, &datagram);
            }
            Endpoint::Party(party) => {
                self.parties[party as usize].handle(source, &datagram, now);
                self.drive_party(party as usize, sink)?;
            }
            _ => {}
        }
        self.scratch = datagram;
        self.packets.give_back(packet);
        Ok(())
    }

    fn note_ingress(&mut self, packet: u32, daemon: usize) {
        let flying = self.packets.get(packet);
        if flying.is_added {
            let key = (flying.job as usize, daemon, flying.sub_model);
            *self.ingress.entry(key).or_default() += u64::from(flying.payload_bytes);
        }
    }

    /// A packet at a summing node, and what that sends for it.
    fn hand_over(&mut self, daemon: usize, job: usize, source: SocketAddr, datagram: &[u8]) {
        let now = self.now();
        let mut outbox = std::mem::take(&mut self.outbox);
        self.daemons[daemon].handle(job, source, datagram, now, &mut outbox.opening());
        self.send_all(daemon, outbox);
    }

    pub(super) fn ring_daemon(&mut self, daemon: usize) {
        let now = self.now();
        if !is_due(&mut self.daemons[daemon].alarm, now) || self.daemons[daemon].is_dead {
            return;
        }
        let mut outbox = std::mem::take(&mut self.outbox);
        self.daemons[daemon].handle_timeout(now, &mut outbox.opening());
        self.send_all(daemon, outbox);
    }

    fn send_all(&mut self, daemon: usize, mut outbox: Outbox) {
        outbox.empty(|job, to, parcel| {
            self.send(Sender::Daemon(daemon), job, to, parcel);
        });
        self.outbox = outbox;
        let due = self.daemons[daemon].poll_timeout();
        let alarm = &mut self.daemons[daemon].alarm;
        if let Some(at_ps) = schedule(alarm, due, self.now_ps) {
            self.queue.push(at_ps, Event::DaemonAlarm(daemon as u32));
        }
    }

    /// Puts a datagram on its way, whose first link is returned. One for nobody, or for someone who cannot be reached, is
    /// lost.
    pub(super) fn send(
        &mut self,
        sender: Sender,
        job: usize,
        to: SocketAddr,
        parcel: Parcel,
    ) -> Option<u32> {
        let peer = self.peer(sender, job, to)?;
        let (number, flying) = self.packets.take();
        let ip_len = if to.is_ipv4() { IPV4_LEN } else { IPV6_LEN };
        let bytes = (ETHERNET_LEN + ip_len + UDP_LEN + parcel.len) as u32;
        flying.job = job as u32;
        flying.source = peer.source;
        flying.to = peer.endpoint;
        flying.wire_bytes = bytes;
        flying.is_added = parcel.is_added;
        flying.sub_model = parcel.sub_model;
        flying.payload_bytes = parcel.payload_bytes;
        flying.len = parcel.len as u32;
        flying.datagram.clear();
        flying.datagram.extend_from_slice(parcel.bytes);
        let first = self.paths.step(peer.way);
        if first.is_some() {
            self.forward(number, peer.way, bytes);
        } else {
            self.queue.push(self.now_ps, Event::Stay { packet: number });
        }
        first
    }

    /// Who has an address, as its sender sees it, and the way there.
    #[inline]
    fn peer(&mut self, sender: Sender, job: usize, to: SocketAddr) -> Option<Peer> {
        let peers = match sender {
            Sender::Host(host) => &mut self.host_peers[host],
            Sender::Daemon(daemon) => &mut self.daemon_peers[daemon],
            Sender::Party(party) => &mut self.party_peers[party],
        };
        if let Some(peer) = peers.find(job, to) {
            return Some(peer);
        }
        let peer = self.look_up(sender, job, to)?;
        match sender {
            Sender::Host(host) => self.host_peers[host].add(peer),
            Sender::Daemon(daemon) => self.daemon_peers[daemon].add(peer),
            Sender::Party(party) => self.party_peers[party].add(peer),
        }
        Some(peer)
    }

    fn look_up(&mut self, sender: Sender, job: usize, to: SocketAddr) -> Option<Peer> {
        let endpoint = *self.endpoints[job].get(&to)?;
        let target = match endpoint {
            Endpoint::Host(host) => self.hosts[host as usize].site,
            Endpoint::Daemon(daemon) => self.daemons[daemon as usize].site,
            Endpoint::Party(party) => self.parties[party as usize].site,
            Endpoint::Nobody => return None,
        };
        let (site, source) = match sender {
            Sender::Host(host) => (self.hosts[host].site, self.hosts[host].address),
            Sender::Daemon(daemon) => (self.daemons[daemon].site, self.daemons[daemon].address),
            Sender::Party(party) => (self.parties[party].site, self.parties[party].address),
        };
        let dense = self.scenario.jobs.get(job);
        if let Some(fabric) = dense.and_then(|job| job.plan.fabric.as_ref()) {
            let (source, direction) = self.hop(fabric, site, to)?;
            let way = self.paths.alone(direction);
            return Some(Peer { job, to, endpoint, source, way });
        }
        let way = self.paths.way(&mut self.network, site, target)?;
        Some(Peer { job, to, endpoint, source, way })
    }

    /// The link of a fabric from a site to a neighbour's address: the address at its near end, and its direction.
    fn hop(&self, fabric: &Fabric, site: usize, to: SocketAddr) -> Option<(SocketAddr, u32)> {
        let leads_there = |planned: &&FabricLink| planned.ends.iter().any(|end| end.address == to);
        fabric.links.iter().filter(leads_there).find_map(|planned| {
            let near = planned.ends.iter().find(|end| end.address != to)?;
            let index = self.scenario.links.iter().position(|link| link.id == planned.id)?;
            let link = &self.scenario.links[index];
            let backward = u32::from(link.source != site);
            let is_ours = [link.source, link.target].contains(&site);
            is_ours.then_some((near.address, 2 * index as u32 + backward))
        })
    }
}
