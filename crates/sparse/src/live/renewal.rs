//! When the keys of packets of rows change (`spec/security.md`, "Renewal of sparse jobs"): workers count rounds and time,
//! and nodes take what hellos say.

use std::time::Duration;

use wiresum_keys::Keyring;
use wiresum_keys::association::ValueKeys;
use wiresum_netem::Time;
use wiresum_wire::control::{KeyAge, RefusalReason};
use wiresum_wire::{Header, JobKey};

use super::seats::Seats;
use crate::packet::{Renewal, RowKeys};

/// A worker's keys.
#[derive(Clone, Debug)]
pub(super) struct WorkerKeys {
    ring: Keyring,
    /// What packets of joining carry, in any renewal.
    joining: JobKey,
    keys: RowKeys,
    interval: Duration,
    /// When the time of the present keys is over; unknown until all nodes know of them.
    renew_at: Option<Time>,
}

impl WorkerKeys {
    pub(super) fn new(ring: Keyring, renewal: Renewal, incarnation: u64) -> Self {
        let keys = RowKeys::new(&ring, incarnation, renewal);
        let (joining, interval) = (ring.association(incarnation), renewal.interval());
        Self { ring, joining, keys, interval, renew_at: None }
    }

    /// What packets of rows carry.
    pub(super) fn keys(&self) -> RowKeys {
        self.keys
    }

    /// Whether a packet of joining is of this incarnation.
    pub(super) fn is_of_incarnation(&self, header: &Header) -> bool {
        header.job_key.get() == self.joining.0
    }

    /// Counts on where this round, or the time, asks for it, and has nodes told. The time begins when all nodes know of a
    /// renewal: nobody is two ahead of a node, and each has seen the time pass.
    pub(super) fn turn(&mut self, round: u32, seats: &mut Seats, now: Time) {
        if !seats.are_taken() {
            return;
        }
        if self.keys.reach(&self.ring, round) {
            seats.tell(self.keys.age(), now);
        }
        if !seats.are_told() {
            return;
        }
        let renew_at = *self.renew_at.get_or_insert(now.plus(self.interval));
        if renew_at <= now {
            self.renew(seats, now);
        }
    }

    /// Whether a packet of rows from a node has a key that counts in its round. Under the next key, others have renewed
    /// theirs.
    pub(super) fn hear(&mut self, header: &Header, seats: &mut Seats, now: Time) -> bool {
        let (round, key) = (header.round.get(), JobKey(header.job_key.get()));
        if self.keys.is_next(round, key) {
            self.renew(seats, now);
        }
        self.keys.takes(round, key)
    }

    /// A node's welcome says how far keys are renewed.
    pub(super) fn learn(&mut self, age: KeyAge, seats: &mut Seats, now: Time) {
        let before = self.keys.age().renewal;
        if self.keys.learn(&self.ring, age) {
            seats.tell(self.keys.age(), now);
        }
        if self.keys.age().renewal > before {
            self.renew_at = None;
        }
    }

    fn renew(&mut self, seats: &mut Seats, now: Time) {
        self.keys.renew(&self.ring);
        self.renew_at = None;
        seats.tell(self.keys.age(), now);
    }

    /// When keys are to be renewed next.
    pub(super) fn poll_timeout(&self, seats: &Seats) -> Option<Time> {
        self.renew_at.filter(|_| seats.are_told())
    }
}

/// A node's keys in an incarnation of its job.
#[derive(Clone, Debug)]
pub(super) struct NodeKeys {
    ring: Keyring,
    incarnation: u64,
    /// What packets of joining carry, in any renewal.
    joining: JobKey,
    keys: RowKeys,
    interval: Duration,
    /// The first hello: what this node has not seen since, it cannot judge.
    since: Option<Time>,
    /// When it was told of the present renewal.
    renewed: Time,
}

impl NodeKeys {
    pub(super) fn new(ring: Keyring, renewal: Renewal, incarnation: u64) -> Self {
        let keys = RowKeys::new(&ring, incarnation, renewal);
        let (joining, interval) = (ring.association(incarnation), renewal.interval());
        Self { ring, incarnation, joining, keys, interval, since: None, renewed: Time(0) }
    }

    /// The incarnation.
    pub(super) fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// What packets of joining carry, in any renewal.
    pub(super) fn of_joining(&self) -> JobKey {
        self.joining
    }

    /// What packets of rows carry.
    pub(super) fn keys(&self) -> RowKeys {
        self.keys
    }

    /// All keys that packets of rows may carry, and log2 of the positions that a round stands for.
    pub(super) fn all(&self) -> (u8, ValueKeys) {
        self.keys.all()
    }

    /// Whether a packet of rows has a key that counts in its round.
    pub(super) fn takes(&self, header: &Header) -> bool {
        self.keys.takes(header.round.get(), JobKey(header.job_key.get()))
    }

    /// A hello says how far its sender's keys are renewed. Whether that is news.
    ///
    /// # Errors
    /// [`RefusalReason::AheadOfClock`]: a renewal that comes in less than half of its time by this node's clock, or two at
    /// once.
    pub(super) fn hear(&mut self, age: KeyAge, now: Time) -> Result<bool, RefusalReason> {
        let since = *self.since.get_or_insert(now);
        let present = self.keys.age().renewal;
        if age.renewal > present {
            let is_early = now < self.renewed.plus(self.interval / 2);
            let is_ahead = is_early || age.renewal - present > 1;
            // One that was restarted is told of several, and cannot know when they were.
            if is_ahead && now >= since.plus(self.interval) {
                return Err(RefusalReason::AheadOfClock);
            }
            self.renewed = now;
        }
        Ok(self.learn(age))
    }

    /// A welcome of another node says how far keys are renewed. Whether that is news.
    pub(super) fn learn(&mut self, age: KeyAge) -> bool {
        self.keys.learn(&self.ring, age)
    }

    /// Whether a hello was said under a key that counts no more: by who has been asleep, and says hello again when it knows,
    /// or by who has recorded it.
    pub(super) fn is_over(&self, age: KeyAge) -> bool {
        age.renewal.saturating_add(1) < self.keys.age().renewal
    }
}

#[cfg(test)]
mod tests {
    use wiresum_keys::Secret;

    use super::*;

    const RENEWAL: Renewal = Renewal { rounds: 16, interval_ms: 1000 };
    const SECOND: Duration = Duration::from_secs(1);

    fn node() -> NodeKeys {
        NodeKeys::new(Keyring::whole(Secret::from_bytes(b"of a test")), RENEWAL, 1)
    }

    fn renewed(renewal: u32) -> KeyAge {
        KeyAge { generation: 0, renewal }
    }

    /// A node that was told of so many renewals, each in its time, and the time of the last one.
    fn served(renewals: u32) -> (NodeKeys, Time) {
        let mut node = node();
        let at = |renewal: u32| Time(5).plus(SECOND * renewal);
        for renewal in 0..=renewals {
            assert_eq!(node.hear(renewed(renewal), at(renewal)), Ok(renewal > 0));
        }
        (node, at(renewals))
    }

    #[test]
    fn a_renewal_before_half_of_its_time_is_refused_and_changes_nothing() {
        let (mut node, at) = served(3);
        let early = at.plus(SECOND / 2 - Duration::from_micros(1));
        assert_eq!(node.hear(renewed(4), early), Err(RefusalReason::AheadOfClock));
        assert_eq!(node.keys().age(), renewed(3));
        assert_eq!(node.hear(renewed(3), early), Ok(false), "what is known is no news");
        assert_eq!(node.hear(renewed(4), at.plus(SECOND / 2)), Ok(true));
        let twice = at.plus(SECOND * 2);
        assert_eq!(node.hear(renewed(6), twice), Err(RefusalReason::AheadOfClock));
    }

    #[test]
    fn a_node_that_was_restarted_takes_what_it_is_told() {
        let mut node = node();
        for renewal in [7, 8, 9] {
            assert_eq!(node.hear(renewed(renewal), Time(5)), Ok(true));
        }
        assert!(node.is_over(renewed(7)) && !node.is_over(renewed(8)));
    }

    #[test]
    fn generations_are_told_at_any_time() {
        let (mut node, at) = served(3);
        for generation in 1..10 {
            assert_eq!(node.hear(KeyAge { generation, renewal: 3 }, at), Ok(true));
        }
        assert_eq!(node.keys().age(), KeyAge { generation: 9, renewal: 3 });
    }
}
