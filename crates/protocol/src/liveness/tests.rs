//! What one node makes of heartbeats: silence, its own pauses, late and misplaced ones, and who is told.

use std::net::SocketAddr;

use wiresum_keys::Seat as SeatName;
use wiresum_testkit::cluster::{POOL, Tree, plan};
use wiresum_wire::control::{Demand, rate, ready, set_word, word};
use wiresum_wire::{Contributor, JobKey, Kind, MAX_PACKET, NodeId, Packet, SubModelId};

use super::*;
use crate::compose::Draft;

const KEY: JobKey = JobKey(7);
const EXPONENTS: SubModelId = SubModelId(0);
/// In `Tree::two_servers`: the root sums node 1, worker 4 and node 2; the substitutes of node 1 are workers 0 and 1.
const ROOT: NodeId = NodeId(0);
const OWN_WORKER: u8 = 1;
const SUBSTITUTE_OF_WORKER_0: u8 = 3;
const DEAD_AFTER_MS: u32 = 1000;
const SECOND_US: u64 = 1_000_000;
const LOOK_US: u64 = LOOK_INTERVAL.as_micros() as u64;

struct Bed {
    plan: Plan,
    node: NodeId,
    liveness: Liveness,
    now: u64,
}

impl Bed {
    fn new(node: NodeId) -> Self {
        let plan = plan(&Tree::two_servers(), &[POOL]);
        let mut liveness = Liveness::new(node);
        liveness.handle_job(&plan);
        let mut bed = Self { plan, node, liveness, now: 0 };
        bed.admit(0..7, KEY);
        bed
    }

    fn address(contributor: u8) -> SocketAddr {
        SocketAddr::from(([10, 1, 0, contributor], 4000))
    }

    /// These seats are taken, in the incarnation of this key, and no others.
    fn admit(&mut self, contributors: impl Iterator<Item = u8>, key: JobKey) {
        let at = |index| ((EXPONENTS, Contributor(index)), Self::address(index));
        let children = contributors.map(at).collect();
        let membership = Membership { key: Some(key), children, ..Membership::default() };
        self.liveness.handle_membership(self.plan.job_id(), &membership, Time(self.now));
    }

    fn take(&mut self, kind: Kind, contributor: u8, words: &[(usize, u32)]) {
        let mut payload = [0; 4 * ready::WORDS];
        let len = if kind == Kind::Ready { ready::WORDS } else { rate::WORDS };
        words.iter().for_each(|(index, value)| set_word(&mut payload, *index, *value));
        let draft = Draft {
            kind,
            job: self.plan.job_id(),
            node: self.node,
            key: KEY,
            sub_model: EXPONENTS,
            contributor,
            ..Draft::default()
        };
        let seat = SeatName::new(self.node, EXPONENTS, Contributor(contributor));
        let key = self.plan.keys().seat(seat).expect("a whole plan");
        let datagram = draft.proven(&payload[..4 * len], &key);
        let packet = Packet::parse(&datagram).expect("well-formed");
        self.liveness.handle_packet(Self::address(contributor), &packet, Time(self.now));
    }

    fn hear(&mut self, contributor: u8, sequence: u32, dead_after_ms: u32) {
        let words = [
            (ready::DEMAND_WORD, Demand::Alive as u32),
            (ready::SEQUENCE_WORD, sequence),
            (ready::DEAD_AFTER_MS_WORD, dead_after_ms),
        ];
        self.take(Kind::Ready, contributor, &words);
    }

    /// A node below says that this worker is lost.
    fn hear_of_loss(&mut self, contributor: u8, rank: u32) {
        let words = [(ready::DEMAND_WORD, Demand::Alive as u32), (ready::LOST_WORD, rank + 1)];
        self.take(Kind::Ready, contributor, &words);
    }

    /// Lets time pass; the notices that are sent meanwhile: to whom, and about whom.
    fn pass(&mut self, period_us: u64) -> Vec<(SocketAddr, u32)> {
        let end = self.now + period_us;
        let mut notices = Vec::new();
        while let Some(due) = self.liveness.poll_timeout().filter(|due| due.0 <= end) {
            self.now = self.now.max(due.0);
            self.liveness.handle_timeout(Time(self.now));
            notices.extend(self.told());
        }
        self.now = end;
        notices
    }

    fn told(&mut self) -> Vec<(SocketAddr, u32)> {
        let mut buffer = [0; MAX_PACKET];
        let mut notices = Vec::new();
        while let Some(notice) = self.liveness.poll_transmit(Time(self.now), &mut buffer) {
            let packet = Packet::parse(&buffer[..notice.len]).expect("well-formed");
            let index = if packet.kind == Kind::Rate { rate::LOST_WORD } else { ready::LOST_WORD };
            notices.push((notice.destination, word(packet.payload, index) - 1));
        }
        notices
    }

    fn counted(&self, name: &str) -> u64 {
        let counters = self.liveness.counters();
        counters.iter().find(|(counted, _)| *counted == name).expect("a counter").1
    }
}

#[test]
fn silence_is_found_after_the_time_that_the_worker_has_named_and_told_to_every_seat() {
    let mut bed = Bed::new(ROOT);
    bed.hear(OWN_WORKER, 1, DEAD_AFTER_MS);
    assert_eq!(bed.pass(SECOND_US - LOOK_US), []);
    let notices = bed.pass(10 * SECOND_US);
    let everyone: Vec<_> = (0..7).map(|seat| (Bed::address(seat), 4)).collect();
    assert_eq!(notices[..7], everyone);
    assert_eq!(notices.len() % 7, 0);
    assert_eq!(bed.liveness.poll_timeout(), None, "neighbours are told for a while, not for ever");
    assert_eq!(bed.counted("lost_workers"), 1);
}

#[test]
fn a_worker_that_goes_on_saying_so_is_alive() {
    let mut bed = Bed::new(ROOT);
    for sequence in 1..1000 {
        bed.hear(OWN_WORKER, sequence, DEAD_AFTER_MS);
        assert_eq!(bed.pass(SECOND_US * 9 / 10), []);
    }
}

#[test]
fn whoever_was_not_heard_is_not_watched_nor_who_takes_leave_nor_who_is_gone() {
    let mut bed = Bed::new(ROOT);
    assert_eq!(bed.pass(10 * SECOND_US), []);
    bed.hear(OWN_WORKER, 1, DEAD_AFTER_MS);
    bed.hear(OWN_WORKER, 2, 0);
    assert_eq!(bed.pass(10 * SECOND_US), []);
    bed.hear(OWN_WORKER, 3, DEAD_AFTER_MS);
    bed.admit([0, 2].into_iter(), KEY);
    assert_eq!(bed.pass(10 * SECOND_US), []);
    assert_eq!(bed.liveness.poll_timeout(), None);
}

#[test]
fn late_and_recorded_heartbeats_keep_nobody_alive() {
    let mut bed = Bed::new(ROOT);
    bed.hear(OWN_WORKER, 5, DEAD_AFTER_MS);
    let mut notices = Vec::new();
    for _ in 0..20 {
        notices.extend(bed.pass(SECOND_US / 10));
        bed.hear(OWN_WORKER, 5, DEAD_AFTER_MS);
        bed.hear(OWN_WORKER, 4, 0);
    }
    assert_eq!(notices.first(), Some(&(Bed::address(0), 4)));
    assert_eq!(bed.counted("late_heartbeats"), 40);
}

#[test]
fn a_node_that_was_stopped_itself_misses_nobody() {
    let mut bed = Bed::new(ROOT);
    bed.hear(OWN_WORKER, 1, DEAD_AFTER_MS);
    bed.now += 60 * SECOND_US;
    bed.liveness.handle_timeout(Time(bed.now));
    assert_eq!(bed.told(), []);
    bed.hear(OWN_WORKER, 2, DEAD_AFTER_MS);
    assert_eq!(bed.pass(SECOND_US - LOOK_US), []);
}

#[test]
fn however_short_a_time_a_worker_names_some_heartbeats_may_be_lost() {
    let mut bed = Bed::new(ROOT);
    bed.hear(OWN_WORKER, 1, 1);
    assert_eq!(bed.pass(3 * LOOK_US), []);
}

#[test]
fn nodes_are_believed_about_others_and_workers_are_not() {
    let mut bed = Bed::new(ROOT);
    bed.hear_of_loss(OWN_WORKER, 0);
    assert_eq!(bed.pass(SECOND_US), []);
    bed.hear_of_loss(0, 5);
    assert_eq!(bed.pass(SECOND_US), [], "there are five workers");
    bed.hear_of_loss(0, 1);
    assert_eq!(bed.pass(SECOND_US)[0], (Bed::address(0), 1));
    bed.hear_of_loss(0, 0);
    assert_eq!(bed.pass(SECOND_US), [], "the first one counts");
}

#[test]
fn a_worker_that_is_heard_as_a_substitute_is_not_lost_below() {
    let mut bed = Bed::new(ROOT);
    bed.hear(SUBSTITUTE_OF_WORKER_0, 1, DEAD_AFTER_MS);
    bed.hear_of_loss(0, 0);
    assert_eq!(bed.pass(SECOND_US / 2), []);
}

#[test]
fn an_inner_node_tells_its_parent_and_is_told_by_it() {
    let inner = NodeId(1);
    let mut bed = Bed::new(inner);
    bed.admit(0..2, KEY);
    bed.hear(1, 1, DEAD_AFTER_MS);
    let root = bed.plan.node(ROOT).expect("a node").address;
    let told = [(root, 1), (Bed::address(0), 1), (Bed::address(1), 1)];
    assert_eq!(bed.pass(2 * SECOND_US)[..3], told);

    let mut bed = Bed::new(inner);
    bed.admit(0..2, KEY);
    bed.take(Kind::Rate, 0, &[(rate::LOST_WORD, 4 + 1)]);
    assert_eq!(bed.pass(SECOND_US)[..3], told.map(|(to, _)| (to, 4)));
}

#[test]
fn who_comes_later_is_told_too_and_another_incarnation_begins_anew() {
    let mut bed = Bed::new(ROOT);
    bed.admit([1].into_iter(), KEY);
    bed.hear(OWN_WORKER, 1, DEAD_AFTER_MS);
    bed.pass(10 * SECOND_US);
    bed.admit([0, 1].into_iter(), KEY);
    assert!(bed.pass(SECOND_US).contains(&(Bed::address(0), 4)));
    bed.admit(0..7, JobKey(8));
    assert_eq!(bed.pass(10 * SECOND_US), []);
}

#[test]
fn what_asks_for_a_rate_is_no_heartbeat() {
    let mut bed = Bed::new(ROOT);
    let words =
        [(ready::DEMAND_WORD, Demand::Sending as u32), (ready::DEAD_AFTER_MS_WORD, DEAD_AFTER_MS)];
    bed.take(Kind::Ready, OWN_WORKER, &words);
    assert_eq!(bed.pass(10 * SECOND_US), []);
}
