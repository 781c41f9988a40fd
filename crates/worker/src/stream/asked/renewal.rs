//! Renewing the keys of values by time (`spec/security.md`, "Renewal"); by positions it is `send`'s.

use std::net::SocketAddr;

use wiresum_protocol::Time;
use wiresum_protocol::association::RENEWAL_INTERVAL;
use wiresum_wire::control::KeyAge;
use wiresum_wire::{FragmentId, JobKey, Packet};

use super::Asked;
use super::join::{HELLO_INTERVAL, Stage};
use super::stream::Stream;

impl Asked {
    /// Renews the keys whose time is over, and says so. Of a node that does not answer they stay as they are: nobody may be
    /// two renewals ahead of it.
    pub(super) fn renew_in_time(&mut self, now: Time) {
        for index in 0..self.streams.len() {
            if self.streams[index].renew_at <= now && self.seats[index].is_settled() {
                self.renew(index, now);
            }
        }
    }

    /// Values under the next key: others have renewed theirs.
    pub(super) fn renew_with_others(&mut self, index: usize, packet: &Packet, now: Time) {
        let (key, position) = (packet.header.job_key.get(), packet.header.fragment.get());
        let association = &self.streams[index].association;
        if packet.kind.carries_values() && association.is_next(FragmentId(position), JobKey(key)) {
            self.renew(index, now);
        }
    }

    fn renew(&mut self, index: usize, now: Time) {
        let stream = &mut self.streams[index];
        stream.association.renew(&self.plan);
        stream.renew_at = now.plus(RENEWAL_INTERVAL);
        self.seats[index].say_hello(now);
    }

    /// A node has been told of a renewal.
    pub(super) fn learn_renewal(&mut self, index: usize, renewal: u32, now: Time) {
        let stream = &mut self.streams[index];
        if stream.association.learn(&self.plan, KeyAge { renewal, ..KeyAge::default() }) {
            stream.renew_at = now.plus(RENEWAL_INTERVAL);
        }
    }

    /// Values from the node under a key that this worker lacks: if the others have gone on without it, as where its clock
    /// stood still, a welcome says how far.
    pub(super) fn ask_about_key(&mut self, packet: &Packet, source: SocketAddr, now: Time) {
        let sub_model = packet.header.sub_model.get();
        let is_of = |stream: &Stream| stream.sub_model.0 == sub_model && stream.address == source;
        let Some(index) = self.streams.iter().position(is_of) else { return };
        let (stream, seat) = (&mut self.streams[index], &mut self.seats[index]);
        let is_free = seat.is_settled() && stream.ask_at <= now && self.stage == Stage::Joined;
        if is_free && packet.kind.carries_values() {
            stream.ask_at = now.plus(HELLO_INTERVAL);
            seat.say_hello(now);
        }
    }

    /// When keys are to be renewed next.
    pub(super) fn renewal_timeout(&self) -> Option<Time> {
        let seats = self.streams.iter().zip(&self.seats);
        let settled = seats.filter(|(_, seat)| seat.is_settled());
        settled.map(|(stream, _)| stream.renew_at).min()
    }
}
