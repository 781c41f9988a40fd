//! Rows of the workers' tables in `spec/switch.md`.

use std::time::Duration;

use wiresum_protocol::Time;
use wiresum_switch::policy::Policy;
use wiresum_switch::{Contributors, Packet, Received, Sending, Worker};
use wiresum_wire::{Flags, FragmentId, JobId, Kind, Round};

const NOW: Time = Time(1000);
const TIMEOUT_US: u64 = 500;

fn worker(policy: Policy, window: u32) -> Worker {
    let timeout = Duration::from_micros(TIMEOUT_US);
    let sending = Sending { policy, window, initial_window: window, slots: 64, timeout, ..base() };
    Worker::new(sending)
}

fn base() -> Sending {
    Sending { job: JobId(1), worker: 2, workers: 3, ..Sending::default() }
}

/// What may be sent now: positions, and whether they were sent before.
fn sent(worker: &mut Worker) -> Vec<(u32, bool)> {
    sent_at(worker, NOW)
}

fn sent_at(worker: &mut Worker, now: Time) -> Vec<(u32, bool)> {
    let packets = std::iter::from_fn(|| worker.poll_transmit(now));
    packets.map(|packet| (packet.fragment.0, packet.is_resent())).collect()
}

fn new(positions: std::ops::Range<u32>) -> Vec<(u32, bool)> {
    positions.map(|position| (position, false)).collect()
}

fn result(position: u32, flags: Flags) -> Packet<()> {
    Packet {
        contributors: Contributors::one(2),
        fragment: FragmentId(position),
        round: Round(0),
        slot: 0,
        job: JobId(1),
        sub_model: base().sub_model,
        node: base().node,
        flags,
        kind: Kind::Result,
        worker: 2,
        expected: 3,
        priority: 0,
        exponent: 0,
        values: (),
    }
}

fn take(worker: &mut Worker, position: u32) -> Received {
    worker.handle(&result(position, Flags(0)), NOW)
}

#[test]
fn results_clock_what_is_sent() {
    let mut worker = worker(Policy::Pool, 4);
    assert_eq!(sent(&mut worker), []);
    worker.begin(6);
    assert_eq!(sent(&mut worker), new(0..4));
    assert_eq!(take(&mut worker, 1), Received::Fresh);
    assert_eq!(sent(&mut worker), [], "position 0 holds the window");
    assert_eq!(take(&mut worker, 0), Received::Fresh);
    assert_eq!(sent(&mut worker), new(4..6));
    assert_eq!(worker.oldest(), FragmentId(2));
}

#[test]
fn what_was_not_waited_for_changes_nothing() {
    let mut worker = worker(Policy::Pool, 4);
    worker.begin(6);
    sent(&mut worker);
    assert_eq!(take(&mut worker, 4), Received::Duplicate, "not sent yet");
    take(&mut worker, 0);
    assert_eq!(take(&mut worker, 0), Received::Duplicate);
    let stranger = Packet { job: JobId(2), ..result(1, Flags(0)) };
    assert_eq!(worker.handle(&stranger, NOW), Received::Foreign);
    let upward = Packet { kind: Kind::Contribution, ..result(1, Flags(0)) };
    assert_eq!(worker.handle(&upward, NOW), Received::Foreign);
    assert_eq!(worker.counters().results, 1);
}

#[test]
fn rounds_follow_each_other_in_the_stream() {
    let mut worker = worker(Policy::Pool, 8);
    worker.begin(2);
    worker.begin(3);
    let packets: Vec<_> = std::iter::from_fn(|| worker.poll_transmit(NOW)).collect();
    let rounds: Vec<_> = packets.iter().map(|packet| packet.round.0).collect();
    assert_eq!(rounds, [0, 0, 1, 1, 1]);
    assert!(packets.iter().all(|p| p.contributors == Contributors::one(2) && p.expected == 3));
    (0..5).for_each(|position| assert_eq!(take(&mut worker, position), Received::Fresh));
    assert!(worker.is_done());
    worker.begin(1);
    assert_eq!(worker.poll_transmit(NOW).map(|p| (p.fragment.0, p.round.0)), Some((5, 2)));
}

#[test]
fn what_was_overtaken_by_three_is_sent_again() {
    let mut worker = worker(Policy::Pool, 8);
    worker.begin(8);
    sent(&mut worker);
    take(&mut worker, 1);
    take(&mut worker, 2);
    assert_eq!(sent(&mut worker), []);
    take(&mut worker, 3);
    assert_eq!(sent(&mut worker), [(0, true)]);
    take(&mut worker, 4);
    assert_eq!(sent(&mut worker), [], "once");
}

#[test]
fn a_repetitions_result_tells_nothing_about_what_was_sent_before_it() {
    let mut worker = worker(Policy::Pool, 8);
    worker.begin(8);
    sent(&mut worker);
    (1..4).for_each(|position| assert_eq!(take(&mut worker, position), Received::Fresh));
    assert_eq!(sent(&mut worker), [(0, true)]);
    take(&mut worker, 0);
    assert_eq!(sent(&mut worker), []);
}

#[test]
fn silence_brings_one_back_then_two_then_four_ever_more_slowly() {
    let mut worker = worker(Policy::Pool, 8);
    worker.begin(8);
    sent(&mut worker);
    let (mut now, mut pause) = (NOW, TIMEOUT_US);
    for expected in [1, 2, 4] {
        assert_eq!(worker.poll_timeout(), Some(Time(now.0 + pause)));
        now = Time(now.0 + pause);
        worker.handle_timeout(Time(now.0 - 1));
        assert_eq!(sent_at(&mut worker, now), [], "too early");
        worker.handle_timeout(now);
        let again: Vec<_> = (0..expected).map(|position| (position, true)).collect();
        assert_eq!(sent_at(&mut worker, now), again);
        pause *= 2;
    }
    worker.handle(&result(5, Flags(0)), now);
    assert_eq!(worker.poll_timeout(), Some(Time(now.0 + TIMEOUT_US)), "news: from the beginning");
    assert_eq!(worker.counters().timeouts, 3);
}

#[test]
fn who_has_everything_waits_for_nothing() {
    let mut worker = worker(Policy::Pool, 8);
    worker.begin(1);
    sent(&mut worker);
    take(&mut worker, 0);
    assert_eq!((worker.is_done(), worker.poll_timeout()), (true, None));
}

#[test]
fn a_mark_halves_the_window_where_the_policy_heeds_it() {
    for (policy, window) in [(Policy::Pool, 16), (Policy::Hash, 9), (Policy::Segment, 8)] {
        let mut worker = worker(policy, 16);
        worker.begin(16);
        sent(&mut worker);
        worker.handle(&result(0, Flags::ECN), NOW);
        assert_eq!(worker.window(), window, "{}", policy.name());
        assert_eq!(worker.counters().marked, 1);
    }
}

#[test]
fn a_collision_moves_the_place_for_its_next_positions() {
    let mut worker = worker(Policy::Hash, 4);
    worker.begin(8);
    let first: Vec<_> = std::iter::from_fn(|| worker.poll_transmit(NOW)).map(|p| p.slot).collect();
    worker.handle(&result(0, Flags::COLLISION), NOW);
    worker.handle(&result(1, Flags(0)), NOW);
    let next: Vec<_> = std::iter::from_fn(|| worker.poll_transmit(NOW)).map(|p| p.slot).collect();
    assert_ne!(next[0], first[0]);
    assert_eq!(next[1], first[1]);
    assert_eq!(worker.counters().rehashed, 1);
}

/// A segment of one slot, so that every position waits for the one before.
fn crowded() -> Worker {
    let policy = Policy::Segment;
    Worker::new(Sending { policy, window: 4, initial_window: 4, slots: 1, ..base() })
}

#[test]
fn who_is_early_says_so_and_is_refused_until_its_slot_is_free() {
    let mut worker = crowded();
    worker.begin(3);
    let early = |worker: &mut Worker| -> Vec<(u32, bool)> {
        let packets = std::iter::from_fn(|| worker.poll_transmit(NOW));
        packets.map(|p| (p.fragment.0, p.flags.contains(Flags::EARLY))).collect()
    };
    assert_eq!(early(&mut worker), [(0, false), (1, true), (2, true)]);
    let refusal = Flags::REFUSED.with(Flags::ECN);
    for position in [1, 2] {
        assert_eq!(worker.handle(&result(position, refusal), NOW), Received::Refused);
    }
    assert_eq!(early(&mut worker), []);
    take(&mut worker, 0);
    assert_eq!(early(&mut worker), [(1, false)], "2 waits for 1");
    take(&mut worker, 1);
    assert_eq!(early(&mut worker), [(2, false)]);
}

/// Windows of results, each after so many microseconds; now it is when the last ones came.
fn round_trips(worker: &mut Worker, times_us: &[u64]) -> Time {
    let mut now = NOW;
    for taken in times_us {
        let first = worker.oldest();
        let count = sent_at(worker, now).len() as u32;
        now = Time(now.0 + taken);
        for position in first.0..first.0 + count {
            worker.handle(&result(position, Flags(0)), now);
        }
    }
    now
}

/// What is sent again, and how large the window is, when the first two of a window of sixteen are overtaken by seven.
fn after_a_loss(policy: Policy, times_us: &[u64]) -> (Vec<(u32, bool)>, u32) {
    let mut worker = worker(policy, 16);
    worker.begin(100);
    let now = round_trips(&mut worker, times_us);
    let first = worker.oldest().0;
    assert_eq!(sent_at(&mut worker, now), new(first..first + 16), "{}", policy.name());
    for position in first + 2..first + 9 {
        worker.handle(&result(position, Flags(0)), now);
    }
    let again = sent_at(&mut worker, now).into_iter();
    (again.map(|(position, is_resent)| (position - first, is_resent)).collect(), worker.window())
}

/// Whether a policy's results overtake each other without a loss.
fn disorders(policy: &Policy) -> bool {
    matches!(policy, Policy::Hash | Policy::Preempt | Policy::Segment)
}

#[test]
fn a_loss_before_a_queue_halves_the_window_and_what_is_sent_again_waits_for_it() {
    for policy in Policy::ALL {
        let found = after_a_loss(policy, &[100, 900, 900]);
        let expected = if disorders(&policy) {
            (vec![(0, true), (1, true)], 16)
        } else {
            (vec![(0, true)], 8)
        };
        assert_eq!(found, expected, "{}", policy.name());
    }
}

#[test]
fn a_loss_without_a_queue_leaves_the_window() {
    for policy in Policy::ALL {
        for times_us in [[100, 100, 100], [100, 900, 100], [900, 900, 900]] {
            let found = after_a_loss(policy, &times_us);
            assert_eq!(found, (vec![(0, true), (1, true)], 16), "{}", policy.name());
        }
    }
}

#[test]
fn a_window_that_was_lost_for_the_most_part_shrinks_to_what_was_not_whatever_delays_are() {
    for policy in Policy::ALL.into_iter().filter(|policy| !disorders(policy)) {
        let mut worker = worker(policy, 16);
        worker.begin(100);
        assert_eq!(sent(&mut worker), new(0..16));
        take(&mut worker, 0);
        let sent_last = sent(&mut worker);
        assert_eq!(sent_last, new(16..17));
        // Later than everything but a few by transmissions: all before it are lost, those few apart.
        take(&mut worker, 16);
        assert!(worker.window() <= 3, "{}: {}", policy.name(), worker.window());
        assert_eq!(sent(&mut worker), [(1, true)], "{}", policy.name());
    }
}
