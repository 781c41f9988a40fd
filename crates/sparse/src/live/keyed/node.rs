//! The server, or the switch with its station, as a participant of a job of pairs.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use wiresum_keys::SeatKey;
use wiresum_keys::association::{CLOCK_MARGIN_US, ValueKeys};
use wiresum_netem::Time;
use wiresum_switch::keyed::{Body, KeyedSwitch, Packet};
use wiresum_switch::rmt::Profile;
use wiresum_wire::control::{KeyAge, RefusalReason, double_word, hello};
use wiresum_wire::{JobKey, Kind, Packet as Control, RowPacket, Verdict};

use super::job::{MAP_VERSION, SERVER, SWITCH, TABLE};
use super::{KeyedJob, datagram};
use crate::keyed::{Address, Host};
use crate::live::renewal::NodeKeys;
use crate::live::seats::{Seats, answer};
use crate::live::{Datagram, HostError};
use crate::packet::Envelope;

/// The job's table in the program.
const INDEX: usize = 0;

/// What was counted since the node began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyedCounters {
    /// Hellos that were answered with a welcome.
    pub welcomed: u64,
    /// Hellos that were refused.
    pub refused: u64,
    /// Datagrams that are no packets of pairs.
    pub malformed: u64,
    /// Packets of another job, incarnation or node, or from an address that has not joined.
    pub foreign: u64,
    /// Packets that the station cannot take: the job's participants do not agree.
    pub wrong: u64,
    /// Packets whose pairs were added here.
    pub added: u64,
    /// Packets that had come before.
    pub duplicates: u64,
    /// How often packets went through the pipeline again.
    pub recirculations: u64,
}

enum Role {
    /// It sums what workers and the station send.
    Server,
    /// The station's seat at the server, and the program; none where that is beneath this node.
    Switch(Box<Seats>, Option<Box<KeyedSwitch>>),
}

/// What there is of the running incarnation.
struct Running {
    keys: NodeKeys,
    /// The server, or the station: what it sums, and what it sends.
    host: Host,
    /// The open iteration.
    round: u32,
    role: Role,
}

/// A node of a job of pairs with those who have joined it: datagrams in, datagrams out.
pub struct KeyedNode {
    job: Arc<KeyedJob>,
    digest: u64,
    node: u16,
    /// The incarnation of this node: a restarted one has a larger one.
    own: u32,
    has_program_beneath: bool,
    running: Option<Running>,
    /// The newest incarnation that it believes.
    latest: u64,
    /// By sender, what it proves to be there with.
    keys: Vec<SeatKey>,
    /// By sender, where it is: workers, then the station.
    peers: Vec<Option<SocketAddr>>,
    outbox: VecDeque<Datagram>,
    counters: KeyedCounters,
}

impl KeyedNode {
    /// A node before the first iteration.
    ///
    /// # Arguments
    /// * `node`: [`SERVER`] or [`SWITCH`].
    /// * `own`: the incarnation of this node; that of a restarted one is larger.
    /// * `has_program_beneath`: whether another program adds the pairs that come to the switch.
    ///
    /// # Errors
    /// [`HostError::Node`].
    pub fn new(
        job: &Arc<KeyedJob>,
        node: u16,
        own: u32,
        has_program_beneath: bool,
    ) -> Result<Self, HostError> {
        job.address(node).ok_or(HostError::Node(node))?;
        let senders = if node == SERVER { job.workers + 1 } else { job.workers };
        let key = |sender| job.seat_key(node, sender).expect("the whole secret");
        Ok(Self {
            job: Arc::clone(job),
            digest: job.digest(),
            node,
            own,
            has_program_beneath,
            running: None,
            latest: u64::MAX,
            keys: (0..senders).map(key).collect(),
            peers: vec![None; senders.into()],
            outbox: VecDeque::new(),
            counters: KeyedCounters::default(),
        })
    }

    /// Tells the time, in microseconds since 1970. Refuses incarnations that are far ahead of it from now on.
    pub fn set_clock(&mut self, unix_us: u64) {
        self.latest = unix_us.saturating_add(CLOCK_MARGIN_US);
    }

    /// The job.
    #[must_use]
    pub fn job(&self) -> &KeyedJob {
        &self.job
    }

    /// [`SERVER`] or [`SWITCH`].
    #[must_use]
    pub fn number(&self) -> u16 {
        self.node
    }

    /// Where it receives.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.job.address(self.node).expect("a node of the job")
    }

    /// What was counted.
    #[must_use]
    pub fn counters(&self) -> KeyedCounters {
        self.counters
    }

    /// The key of the incarnation that it serves, once somebody has said hello.
    #[must_use]
    pub fn key(&self) -> Option<JobKey> {
        self.running.as_ref().map(|running| running.keys.of_joining())
    }

    /// What packets of pairs may carry, and log2 of the positions that an iteration stands for.
    #[must_use]
    pub fn pair_keys(&self) -> Option<(u8, ValueKeys)> {
        self.running.as_ref().map(|running| running.keys.all())
    }

    /// The open iteration; 0 before somebody has said hello.
    #[must_use]
    pub fn round(&self) -> u32 {
        self.running.as_ref().map_or(0, |running| running.round)
    }

    /// Senders that have joined, by number, and where they are.
    pub fn members(&self) -> impl Iterator<Item = (u8, SocketAddr)> {
        (0..).zip(&self.peers).filter_map(|(sender, address)| Some((sender, (*address)?)))
    }

    /// Whether somebody at this address has joined.
    #[must_use]
    pub fn has_joined(&self, address: SocketAddr) -> bool {
        self.peers.contains(&Some(address))
    }

    /// Senders that there are when all have joined.
    #[must_use]
    pub fn expected_members(&self) -> usize {
        self.peers.len()
    }

    /// A datagram has come.
    pub fn handle(&mut self, source: SocketAddr, bytes: &[u8], now: Time) {
        if let Ok(packet) = RowPacket::parse(bytes) {
            self.pairs(source, &packet, now);
        } else if let Ok(packet) = Control::parse(bytes) {
            if packet.kind == Kind::Hello {
                self.hello(source, &packet, now);
            } else {
                self.answered(source, &packet, now);
            }
        } else {
            self.counters.malformed += 1;
        }
    }

    fn hello(&mut self, source: SocketAddr, packet: &Control<'_>, now: Time) {
        let is_here =
            (packet.header.job.get(), packet.header.node.get()) == (self.job.id, self.node);
        let sender = usize::from(packet.header.contributor);
        let key = self.keys.get(sender).copied();
        let key = key.filter(|key| is_here && key.is_proven(packet.header, packet.payload));
        let Some(key) = key else { return self.counters.foreign += 1 };
        let admitted = self.admit(packet, now);
        self.outbox.push_back((source, answer(packet, admitted, &key)));
        if admitted.is_err() {
            return self.counters.refused += 1;
        }
        self.counters.welcomed += 1;
        let age = KeyAge::read(packet.payload);
        // A hello under a key that is over gets an answer and no seat: its sender says hello again with what that tells.
        if self.running.as_ref().is_some_and(|running| !running.keys.is_over(age)) {
            self.peers[sender] = Some(source);
            if packet.header.contributor < self.job.workers {
                self.tell_incarnation(source, packet.header.contributor);
            }
        }
    }

    /// Tells a worker which incarnation of the node has welcomed it, so that a restart is noticed. A station is not told:
    /// what it waits for, workers wait for too.
    fn tell_incarnation(&mut self, to: SocketAddr, peer: u8) {
        let Some(running) = &self.running else { return };
        let (job, node, incarnation) = (self.job.job_id(), self.node, self.own);
        let keys = running.keys.keys();
        let envelope = Envelope { job, keys, node, peer, incarnation, room: 0, may_narrow: false };
        envelope.restorable(0, |bytes| self.outbox.push_back((to, bytes.to_vec())));
    }

    /// Whether a sender belongs here, and how far keys are renewed; a newer incarnation of the job begins anew.
    fn admit(&mut self, packet: &Control<'_>, now: Time) -> Result<KeyAge, RefusalReason> {
        if double_word(packet.payload, hello::PLAN_DIGEST_WORD) != self.digest {
            return Err(RefusalReason::OtherPlan);
        }
        let incarnation = double_word(packet.payload, hello::INCARNATION_WORD);
        if incarnation > self.latest {
            return Err(RefusalReason::AheadOfClock);
        }
        let running = self.running.as_ref().map(|running| running.keys.incarnation());
        if running.is_none_or(|running| running < incarnation) {
            self.begin(incarnation, now);
        }
        match &mut self.running {
            Some(running) if running.keys.incarnation() == incarnation => {
                running.keys.hear(KeyAge::read(packet.payload), now)?;
                Ok(running.tell_renewal(now))
            }
            _ => Err(RefusalReason::Superseded),
        }
    }

    fn begin(&mut self, incarnation: u64, now: Time) {
        let job = &self.job;
        self.peers.fill(None);
        let (number, senders) = if self.node == SERVER {
            (job.station() + 1, 0..Address::from(job.station()) + 1)
        } else {
            (job.station(), 0..0)
        };
        let mut host = Host::new(number, TABLE, MAP_VERSION, senders);
        host.begin(1);
        let role = if self.node == SERVER {
            Role::Server
        } else {
            let seats = Seats::of_pairs(job, &[SERVER], job.station(), incarnation);
            let program = (!self.has_program_beneath).then(|| {
                let mut program = KeyedSwitch::new(job.arrangement(), &Profile::UNLIMITED)
                    .expect("nothing is limited");
                program.open(INDEX, 1, MAP_VERSION);
                Box::new(program)
            });
            Role::Switch(Box::new(seats), program)
        };
        let keys = NodeKeys::new(job.keys(), job.renewal, incarnation);
        self.running = Some(Running { keys, host, round: 1, role });
        self.send_hellos(now);
    }

    /// A server welcomes or refuses this switch's station.
    fn answered(&mut self, source: SocketAddr, packet: &Control<'_>, now: Time) {
        let is_from_server = self.job.address(SERVER) == Some(source);
        match &mut self.running {
            Some(Running { role: Role::Switch(seats, _), keys, .. })
                if is_from_server && seats.is_answer(packet) && packet.kind == Kind::Welcome =>
            {
                seats.welcomed(SERVER, now);
                keys.learn(seats.hear_welcome(packet));
                seats.tell(keys.keys().age(), now);
            }
            _ => self.counters.foreign += 1,
        }
    }

    fn pairs(&mut self, source: SocketAddr, datagram: &RowPacket<'_>, now: Time) {
        let header = datagram.header;
        let is_ours = header.job.get() == self.job.id
            && self.running.as_ref().is_some_and(|running| running.keys.takes(header));
        if !is_ours {
            return self.counters.foreign += 1;
        }
        let Some(packet) = Packet::of(datagram) else { return self.counters.wrong += 1 };
        let sender = self.peers.iter().position(|peer| *peer == Some(source));
        let sender = sender.map(|sender| sender as Address);
        let is_from_server = self.job.address(SERVER) == Some(source);
        match (self.node, sender) {
            (SERVER, Some(from)) if packet.body == Body::Acknowledgement => {
                self.hear(from, &packet, now);
            }
            (SWITCH, _) if packet.body == Body::Acknowledgement && is_from_server => {
                self.hear(SERVER, &packet, now);
            }
            (node, Some(from)) if (node, from) == (header.node.get(), packet.worker.into()) => {
                if node == SERVER {
                    self.hear(from, &packet, now);
                } else {
                    self.pass(source, &packet);
                }
            }
            _ => self.counters.foreign += 1,
        }
    }

    /// A packet for the host: to be summed by the server, or acknowledged by it.
    fn hear(&mut self, from: Address, packet: &Packet, now: Time) {
        let Some(running) = &mut self.running else { return };
        running.host.handle(now, from, packet);
        if self.node == SERVER {
            self.close();
        }
    }

    /// The server tells all workers, once everything is in.
    fn close(&mut self) {
        let Some(running) = &mut self.running else { return };
        let Some(sums) = running.host.sums().cloned() else { return };
        let round = running.round;
        running.round += 1;
        running.host.begin(running.round);
        for worker in 0..self.job.workers {
            running.host.send_sums(worker.into(), round, &sums, self.job.pairs);
        }
    }

    /// A packet goes through the switch's pipeline.
    fn pass(&mut self, from: SocketAddr, packet: &Packet) {
        let Some(Running { keys, role: Role::Switch(_, Some(program)), .. }) = &mut self.running
        else {
            // A program beneath leaves to the station what it cannot take, and counts it.
            return;
        };
        let handled = program.handle(self.job.job_id(), packet);
        self.counters.recirculations += u64::from(handled.recirculations);
        self.counters.added += u64::from(handled.verdict == Verdict::Added);
        self.counters.duplicates += u64::from(handled.verdict == Verdict::Duplicate);
        self.counters.wrong += u64::from(handled.verdict == Verdict::Wrong);
        if handled.is_acknowledged() {
            let answer = datagram(&self.job, keys.keys(), SWITCH, &packet.acknowledgement());
            self.outbox.push_back((from, answer));
        }
        if handled.is_complete {
            let sums = program.sums(INDEX);
            self.completed(&sums);
        }
    }

    /// The open iteration is complete at the program, with these sums: the station sends them to the server, and the next
    /// iteration is open.
    pub fn completed(&mut self, sums: &BTreeMap<u64, i32>) {
        let Some(running) = &mut self.running else { return };
        running.host.send_sums(SERVER, running.round, sums, self.job.pairs);
        running.round += 1;
        if let Role::Switch(_, Some(program)) = &mut running.role {
            program.open(INDEX, running.round, MAP_VERSION);
        }
    }

    fn send_hellos(&mut self, now: Time) {
        let Some(Running { role: Role::Switch(seats, _), round, .. }) = &mut self.running else {
            return;
        };
        self.outbox.extend(std::iter::from_fn(|| seats.poll(now, *round - 1)));
    }

    /// Gives `send` what is to be sent now.
    pub fn poll(&mut self, now: Time, mut send: impl FnMut(SocketAddr, &[u8])) {
        self.send_hellos(now);
        self.outbox.drain(..).for_each(|(to, bytes)| send(to, &bytes));
        let Self { running: Some(running), job, peers, .. } = self else { return };
        let is_ready = running.is_ready();
        while is_ready && let Some((to, packet)) = running.host.poll_transmit(now) {
            let at = match running.role {
                Role::Server => peers[usize::from(to)],
                Role::Switch(..) => job.address(to),
            };
            let bytes = datagram(job, running.keys.keys(), SERVER, &packet);
            at.iter().for_each(|at| send(*at, &bytes));
        }
    }

    /// When there will be more to send, if nothing comes before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let running = self.running.as_ref()?;
        let due = running.host.poll_timeout().filter(|_| running.is_ready());
        let hello = match &running.role {
            Role::Switch(seats, _) => seats.poll_timeout(),
            Role::Server => None,
        };
        [due, hello].into_iter().flatten().min()
    }

    /// Packets that were sent again.
    #[must_use]
    pub fn repeated(&self) -> u64 {
        self.running.as_ref().map_or(0, |running| running.host.repeated())
    }
}

impl Running {
    /// The station tells the server how far keys are renewed.
    fn tell_renewal(&mut self, now: Time) -> KeyAge {
        let age = self.keys.keys().age();
        if let Role::Switch(seats, _) = &mut self.role {
            seats.tell(age, now);
        }
        age
    }

    /// What is for the server waits until that has welcomed the station.
    fn is_ready(&self) -> bool {
        match &self.role {
            Role::Switch(seats, _) => seats.are_taken(),
            Role::Server => true,
        }
    }
}
