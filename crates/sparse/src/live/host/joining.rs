//! Who joins a host, and where the host itself joins as a sender.

use std::net::SocketAddr;

use wiresum_netem::Time;
use wiresum_wire::control::{KeyAge, RefusalReason, double_word, hello};
use wiresum_wire::{Kind, Packet};

use super::{Host, Role};
use crate::live::exchange::Exchange;
use crate::live::renewal::NodeKeys;
use crate::live::seats::{Seats, answer};
use crate::message::Sender;
use crate::packet::{Acknowledgements, Assembly};
use crate::summer::Summer;

impl Host {
    pub(super) fn hello(&mut self, source: SocketAddr, packet: &Packet<'_>, now: Time) {
        let is_here =
            (packet.header.job.get(), packet.header.node.get()) == (self.job.id, self.node);
        let key = self.keys[usize::from(packet.header.contributor)];
        if !is_here || !key.is_proven(packet.header, packet.payload) {
            self.counters.foreign += 1;
            return;
        }
        let admitted = self.admit(packet, now);
        self.outbox.push_back((source, answer(packet, admitted, &key)));
        if admitted.is_err() {
            self.counters.refused += 1;
            return;
        }
        self.counters.welcomed += 1;
        // A hello under a key that is over gets an answer and no seat: its sender says hello again with what that tells.
        if self.running.as_ref().is_some_and(|keys| !keys.is_over(KeyAge::read(packet.payload))) {
            self.peers[usize::from(packet.header.contributor)] = Some(source);
            self.tell_restorable(packet.header.contributor.into());
        }
    }

    /// Whether a participant belongs here, and how far keys are renewed; a newer incarnation of the job begins anew.
    fn admit(&mut self, packet: &Packet<'_>, now: Time) -> Result<KeyAge, RefusalReason> {
        if double_word(packet.payload, hello::PLAN_DIGEST_WORD) != self.digest {
            return Err(RefusalReason::OtherPlan);
        }
        if !self.is_expected(packet.header.contributor.into()) {
            return Err(RefusalReason::NotExpected);
        }
        let incarnation = double_word(packet.payload, hello::INCARNATION_WORD);
        if incarnation > self.latest {
            return Err(RefusalReason::AheadOfClock);
        }
        let running = self.running.as_ref().map(NodeKeys::incarnation);
        let is_newer = running.is_none_or(|running| running < incarnation);
        if is_newer {
            self.begin(incarnation, now);
        }
        let is_same = is_newer || running == Some(incarnation);
        // No sender is two rounds behind: whoever is has joined for a second time. A server may have been restarted.
        let is_sender = u32::from(packet.header.contributor) < self.job.senders();
        let is_behind = is_sender && self.version() > packet.header.round.get().saturating_add(1);
        match &mut self.running {
            Some(keys) if is_same && !is_behind => {
                let is_news = keys.hear(KeyAge::read(packet.payload), now)?;
                let age = keys.keys().age();
                if is_news {
                    self.tell_renewal(age, now);
                }
                Ok(age)
            }
            _ => Err(RefusalReason::Superseded),
        }
    }

    /// Whether a participant is to join here: a server all may, a switch its children.
    fn is_expected(&self, sender: Sender) -> bool {
        match &self.role {
            Role::Server(..) => (sender as usize) < self.peers.len(),
            Role::Switch(summer, _) => summer.has_child(sender),
        }
    }

    /// Other nodes are told how far keys are renewed.
    fn tell_renewal(&mut self, age: KeyAge, now: Time) {
        self.seats_mut().into_iter().for_each(|seats| seats.tell(age, now));
    }

    /// Its standing at the nodes that it sends to, if there are any.
    fn seats_mut(&mut self) -> Option<&mut Seats> {
        match &mut self.role {
            Role::Switch(_, seats) => seats.as_mut(),
            Role::Server(_, exchange) => exchange.as_mut().map(|exchange| exchange.seats_mut()),
        }
    }

    fn begin(&mut self, incarnation: u64, now: Time) {
        if self.running.is_some() || self.version() > 0 {
            self.role = Self::role(&self.job, self.node).expect("it could be before");
            let is_over_program = self.is_over_program;
            self.summer_mut().filter(|_| is_over_program).map(Summer::put_over_program);
        }
        self.running = Some(NodeKeys::new(self.job.keys(), self.job.renewal, incarnation));
        self.peers.fill(None);
        (self.restorable, self.assembly) = (0, Assembly::default());
        self.upwards = Acknowledgements::default();
        match &mut self.role {
            Role::Server(_, exchange) => {
                *exchange = Exchange::new(&self.job, self.node, incarnation).map(Box::new);
            }
            Role::Switch(_, seats) => {
                let servers = self.job.shards().0;
                let switch = self.node - servers;
                let (sender, above) = (self.job.sender_of(switch), self.job.parent(switch));
                let nodes = (0..servers).chain(above);
                *seats = Some(Seats::new(&self.job, nodes, sender, incarnation));
            }
        }
        self.send_hellos(now);
    }

    pub(super) fn tell_restorable(&mut self, to: Sender) {
        let (envelope, version) = (self.envelope(self.node, to), self.restorable);
        if let Some(address) = self.peers[to as usize] {
            envelope.restorable(version, |bytes| self.outbox.push_back((address, bytes.to_vec())));
        }
    }

    /// A welcome or refusal: what counts is what follows a welcome.
    pub(super) fn answered(&mut self, source: SocketAddr, packet: &Packet<'_>, now: Time) {
        let node = packet.header.node.get();
        let is_from = self.job.address(node) == Some(source);
        let seats = self.seats_mut().filter(|seats| is_from && seats.is_answer(packet));
        let Some(seats) = seats else { return self.counters.foreign += 1 };
        seats.heard(node, now);
        if packet.kind == Kind::Welcome {
            let age = seats.hear_welcome(packet);
            self.learn(age, now);
        }
    }

    /// Another node says how far keys are renewed.
    fn learn(&mut self, age: KeyAge, now: Time) {
        let Some(keys) = &mut self.running else { return };
        if keys.learn(age) {
            let age = keys.keys().age();
            self.tell_renewal(age, now);
        }
    }

    pub(super) fn send_hellos(&mut self, now: Time) {
        let version = self.version();
        while let Some(hello) = self.seats_mut().and_then(|seats| seats.poll(now, version)) {
            self.outbox.push_back(hello);
        }
    }
}
