//! Everyone that a node is connected to: the children that have called, and the parents that it calls.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use rustix::event::epoll::EventFlags;

use super::gate::{Gate, Pressure};
use super::inbox::{Fill, Inbox};
use super::line::Line;
use super::outbox::WRITE_LEN;
use super::stream::PacketStream;
use crate::carriers::poller::Poller;
use crate::udp::SendCounters;

/// The other end of a connection.
pub struct Peer {
    /// Where it is: the source of its packets.
    pub address: SocketAddr,
    /// The job that its first packet named, and that all others have to name.
    pub job: Option<usize>,
    /// When it called.
    pub since: Instant,
    /// How many of its hellos were refused.
    pub refusals: u32,
    link: Link,
    pressure: Pressure,
    /// Packets lie in its inbox that have to wait.
    is_held: bool,
}

/// How a peer is reached.
enum Link {
    Child(PacketStream),
    Parent(Line),
}

impl Peer {
    fn new(address: SocketAddr, job: Option<usize>, link: Link) -> Self {
        let (since, pressure, is_held) = (Instant::now(), Pressure::Low, false);
        Self { address, job, since, refusals: 0, link, pressure, is_held }
    }

    /// Whether results come from it.
    pub fn is_parent(&self) -> bool {
        matches!(self.link, Link::Parent(_))
    }

    fn stream(&mut self) -> Option<&mut PacketStream> {
        match &mut self.link {
            Link::Child(stream) => Some(stream),
            Link::Parent(line) => line.stream(),
        }
    }
}

/// Peers by number, which is also the token of their events, less `first_token`.
pub struct Peers {
    /// Watches every connection.
    pub poller: Poller,
    /// What has been sent.
    pub counters: SendCounters,
    first_token: usize,
    local: SocketAddr,
    peers: Vec<Option<Peer>>,
    /// Where each child of a packet's destination is in `peers`.
    children: HashMap<SocketAddr, usize>,
    /// By job.
    gates: Vec<Gate>,
    /// Boxes that are worth a write.
    due: Vec<usize>,
}

impl Peers {
    /// No one yet; parents will be called from `local`.
    ///
    /// # Errors
    /// If the process has no descriptor left.
    pub fn new(first_token: usize, local: SocketAddr) -> io::Result<Self> {
        Ok(Self {
            poller: Poller::new()?,
            counters: SendCounters::default(),
            first_token,
            local,
            peers: Vec::new(),
            children: HashMap::new(),
            gates: Vec::new(),
            due: Vec::new(),
        })
    }

    /// One more job, the last, with these parents, to which there is no connection yet.
    pub fn add_job(&mut self, parents: &[SocketAddr]) {
        let job = self.gates.len();
        self.gates.push(Gate::default());
        for &remote in parents {
            let number = self.free();
            let line = Line::new(self.local, remote, self.first_token + number);
            self.peers[number] = Some(Peer::new(remote, Some(job), Link::Parent(line)));
        }
    }

    /// Hangs up on everyone of a job; the jobs behind it move up.
    pub fn remove_job(&mut self, job: usize) {
        self.gates.remove(job);
        for slot in &mut self.peers {
            match slot.as_mut().map(|peer| &mut peer.job) {
                Some(Some(of)) if *of == job => {
                    let gone = slot.take();
                    self.children.retain(|at, _| gone.as_ref().is_none_or(|g| g.address != *at));
                }
                Some(Some(of)) if *of > job => *of -= 1,
                _ => {}
            }
        }
    }

    /// A number that no one has.
    fn free(&mut self) -> usize {
        let free = self.peers.iter().position(Option::is_none).unwrap_or(self.peers.len());
        if free == self.peers.len() {
            self.peers.push(None);
        }
        free
    }

    /// Children that are connected.
    pub fn child_count(&self) -> usize {
        self.children.len()
    }

    /// Everyone, by number.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Peer)> {
        self.peers.iter().enumerate().filter_map(|(number, peer)| Some((number, peer.as_ref()?)))
    }

    /// The peer of that number.
    pub fn get(&mut self, number: usize) -> Option<&mut Peer> {
        self.peers.get_mut(number)?.as_mut()
    }

    /// Takes in a child that has called.
    ///
    /// # Errors
    /// What the kernel says to the socket.
    pub fn admit(&mut self, socket: TcpStream, address: SocketAddr) -> io::Result<()> {
        let free = self.free();
        let stream = PacketStream::accepted(socket, self.first_token + free, &self.poller)?;
        self.peers[free] = Some(Peer::new(address, None, Link::Child(stream)));
        self.children.insert(address, free);
        Ok(())
    }

    /// Ends a connection: a child is forgotten, a parent called again.
    pub fn close(&mut self, number: usize, reason: &str) {
        let Some(Some(peer)) = self.peers.get_mut(number) else { return };
        let (address, job) = (peer.address, peer.job);
        match &mut peer.link {
            Link::Parent(line) => line.hang_up(reason, &self.poller, &mut self.counters),
            Link::Child(_) => {
                self.peers[number] = None;
                self.children.remove(&address);
            }
        }
        self.settle_gate(job);
    }

    /// Reads once from a peer that an event has named; `false` if the connection has ended.
    pub fn read(&mut self, number: usize, happened: EventFlags) -> bool {
        let Some(Some(peer)) = self.peers.get_mut(number) else { return true };
        let is_over = happened.intersects(EventFlags::HUP | EventFlags::ERR);
        if peer.is_held && !is_over {
            return true;
        }
        match &mut peer.link {
            Link::Parent(line) => {
                line.read(happened, &self.poller, &mut self.counters);
                true
            }
            Link::Child(stream) => {
                let read = stream.note_event(happened, &self.poller).and_then(|()| stream.fill());
                matches!(read, Ok(Fill::Some { .. } | Fill::Nothing))
            }
        }
    }

    /// Takes a peer's inbox, to be put back by [`Self::put_back`]; `None` without a connection.
    pub fn take_inbox(&mut self, number: usize) -> Option<Inbox> {
        Some(std::mem::take(&mut self.get(number)?.stream()?.inbox))
    }

    /// Gives a peer its inbox back; it has to wait with what is in there if `is_held`.
    pub fn put_back(&mut self, number: usize, inbox: Inbox, is_held: bool) {
        let Some(peer) = self.get(number) else { return };
        peer.is_held = is_held;
        if let Some(stream) = peer.stream() {
            stream.inbox = inbox;
        }
    }

    /// Whether what a peer has sent may be dealt with now.
    pub fn may_go_on(&self, number: usize) -> bool {
        let Some(Some(peer)) = self.peers.get(number) else { return false };
        peer.job.is_none_or(|job| self.gates[job].lets(peer.is_parent()))
    }

    /// Peers with packets that had to wait and need not any more.
    pub fn released(&self) -> Vec<usize> {
        let held = self.iter().filter(|(_, peer)| peer.is_held).map(|(number, _)| number);
        held.filter(|number| self.may_go_on(*number)).collect()
    }

    /// Queues a packet of a job; `true` if some box is due for [`Self::write_due`]. What cannot be queued is lost, and counted.
    pub fn push(&mut self, job: usize, destination: SocketAddr, packet: &[u8]) -> bool {
        let is_parent = |peer: &Option<Peer>| {
            peer.as_ref()
                .is_some_and(|p| p.is_parent() && p.job == Some(job) && p.address == destination)
        };
        let child = self.children.get(&destination).copied();
        let number = child.or_else(|| self.peers.iter().position(is_parent));
        let Some((number, peer)) = number.and_then(|n| Some((n, self.peers[n].as_mut()?))) else {
            return self.refuse(destination, "has gone");
        };
        let is_due = match &mut peer.link {
            Link::Parent(line) => line.push(packet, &self.poller, &mut self.counters),
            Link::Child(stream) => {
                if !stream.outbox.push(packet) {
                    return self.refuse(destination, "does not read");
                }
                self.counters.datagrams += 1;
                stream.outbox.waiting() >= WRITE_LEN
            }
        };
        if is_due {
            self.due.push(number);
        }
        is_due
    }

    /// Writes the boxes that are due.
    pub fn write_due(&mut self, now: Instant) {
        while let Some(number) = self.due.pop() {
            self.write(number, now);
        }
    }

    /// Writes every box in which something waits, and sees who has to wait for whom.
    pub fn write_all(&mut self, now: Instant) {
        self.due.clear();
        (0..self.peers.len()).for_each(|number| self.write(number, now));
    }

    fn write(&mut self, number: usize, now: Instant) {
        let may_come = self.may_go_on(number);
        let Self { peers, poller, counters, .. } = self;
        let Some(Some(peer)) = peers.get_mut(number) else { return };
        let before = peer.stream().map_or(0, |stream| stream.outbox.waiting());
        let is_whole = match &mut peer.link {
            Link::Parent(line) => {
                line.write(may_come, poller, counters);
                true
            }
            Link::Child(stream) => {
                stream.write(counters).and_then(|_| stream.watch(may_come, poller)).is_ok()
            }
        };
        if !is_whole {
            return self.close(number, "the connection broke");
        }
        let waiting = peer.stream().map_or(0, |stream| stream.outbox.waiting());
        let was_high = peer.pressure.is_high();
        peer.pressure = peer.pressure.after(waiting, waiting < before, now);
        if peer.pressure.is_high() != was_high {
            let job = peer.job;
            self.settle_gate(job);
        }
    }

    /// Opens or closes a job's gate.
    fn settle_gate(&mut self, job: Option<usize>) {
        let Some(job) = job else { return };
        let is_full = |is_parent| {
            let mut full = self.peers.iter().flatten().filter(|peer| peer.pressure.is_high());
            full.any(|peer| peer.job == Some(job) && peer.is_parent() == is_parent)
        };
        self.gates[job] = Gate { is_child_full: is_full(false), is_parent_full: is_full(true) };
    }

    fn refuse(&mut self, destination: SocketAddr, problem: &str) -> bool {
        self.counters.refused += 1;
        self.counters.last_refusal = Some(format!("{destination} {problem}"));
        false
    }
}
