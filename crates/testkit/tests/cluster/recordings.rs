//! A forger who has recorded a job from its first hello on, and sends from any address: what was said once changes no sum.

use std::collections::BTreeSet;

use wiresum_testkit::seeds::times_soak;

use super::*;

/// Rounds that are recorded; `make soak` records ten thousand.
const ROUNDS: u64 = 100;
/// Elements of a round: one position in each stream.
const ELEMENTS: usize = 40;
/// Positions back whose frames are sent again: one, a window, two windows, the slots, both versions of the slots; of the
/// stream of exponents, whose window is 4, and of that of values.
const LAGS: [usize; 7] = [1, 4, 8, 16, 17, 32, 33];
const MILLISECOND: Duration = Duration::from_millis(1);

/// From where, to where, and what.
type Frame = (SocketAddr, SocketAddr, Vec<u8>);

/// Frames in the order in which they were sent; of several alike, the first.
#[derive(Default)]
struct Recording {
    frames: Vec<Frame>,
    known: BTreeSet<Frame>,
}

impl Recording {
    /// Takes down what has been sent since; the new frames.
    fn listen(&mut self, cluster: &Cluster) -> Vec<Frame> {
        let sent = cluster.network.flights().map(|f| (f.from, f.to, f.cargo.clone()));
        let new: Vec<Frame> = sent.filter(|frame| self.known.insert(frame.clone())).collect();
        self.frames.extend(new.iter().cloned());
        new
    }

    /// A round of every worker, in which each frame is sent once more at once.
    fn round(&mut self, cluster: &mut Cluster) {
        cluster.submit_all(&[ELEMENTS]);
        loop {
            let new = self.listen(cluster);
            send(cluster, &new);
            if cluster.is_finished() {
                return;
            }
            assert!(cluster.step(), "nothing is under way");
        }
    }
}

/// Sends frames from the addresses that they were first sent from.
fn send(cluster: &mut Cluster, frames: &[Frame]) {
    frames.iter().for_each(|(from, to, bytes)| cluster.send(*from, *to, bytes));
}

/// Sends frames, and lets them have their effect.
fn replay(cluster: &mut Cluster, frames: &[Frame]) {
    send(cluster, frames);
    let now = cluster.now();
    cluster.run_until(now.plus(MILLISECOND));
}

/// A job of so many rounds from a position on, and all that was sent in it.
fn recorded(stream: Values, first: u32, rounds: u64) -> (Cluster, Recording) {
    let tree = Tree(vec![
        (0, None, vec![Child::Worker(0), Child::Node(1)]),
        (1, Some(0), vec![Child::Worker(1), Child::Worker(2)]),
    ]);
    let mut cluster =
        Cluster::starting_at(plan(&tree, &[stream]), lossy(0.02), 1, FragmentId(first));
    cluster.join_all();
    let mut recording = Recording::default();
    (0..rounds).for_each(|_| recording.round(&mut cluster));
    (cluster, recording)
}

fn assert_unmoved(cluster: &Cluster) {
    cluster.assert_sums();
    assert!(cluster.hosts.iter().all(|host| host.switches.is_empty()), "nobody moved");
}

#[test]
fn frames_again_at_once_and_after_windows_change_no_sum() {
    for stream in [POOL, CACHE] {
        let (mut cluster, mut recording) = recorded(stream, u32::MAX - 50, 1);
        let mut begins = vec![0];
        for _ in 0..times_soak(ROUNDS) {
            begins.push(recording.frames.len());
            recording.round(&mut cluster);
            for lag in LAGS.iter().filter(|lag| **lag < begins.len()) {
                let of_round = begins.len() - 1 - lag;
                let frames = begins[of_round]..begins[of_round + 1];
                replay(&mut cluster, &recording.frames[frames]);
            }
        }
        assert!(cluster.count(Verdict::Stale) > 0 && cluster.count(Verdict::Answered) > 0);
        assert_unmoved(&cluster);
    }
}

#[test]
fn a_recording_of_the_run_before_changes_no_sum() {
    let rounds = times_soak(ROUNDS) / 10;
    let (mut cluster, mut recording) = recorded(POOL, 0, rounds);
    for rank in 0..cluster.hosts.len() {
        let now = cluster.now();
        cluster.hosts[rank].session.leave(now);
        cluster.drive(rank);
    }
    recording.listen(&cluster);
    cluster.run_until(cluster.now().plus(MILLISECOND));
    // Nodes that have forgotten the run are told of it by the recording alone.
    (0..cluster.nodes.len() as u16).for_each(|node| cluster.revive(node));
    replay(&mut cluster, &recording.frames);
    cluster.restart();
    cluster.join_all();
    replay(&mut cluster, &recording.frames);
    for _ in 0..rounds {
        cluster.submit_all(&[ELEMENTS]);
        send(&mut cluster, &recording.frames);
        cluster.run();
    }
    assert_unmoved(&cluster);
}

#[test]
fn frames_of_positions_long_past_change_no_sum() {
    let rounds = times_soak(ROUNDS) / 10;
    // So many rounds that no entry is empty.
    let before = 2 * u64::from(POOL.slots);
    // To an entry, what is 2³¹ positions old is new, and remains so for 2³¹ more. The last of all is 2³² positions later.
    let long: &[u32] = &[1 << 30, 1 << 31, (1 << 31) + 1, 3 << 30, u32::MAX];
    // Recorded at the beginning, where a key was renewed, and in a later generation.
    let renewed = (1 << 30) - rounds as u32 / 2;
    for (recorded_at, lags) in [(0, long), (renewed, &long[..3]), (5 << 29, &long[..1])] {
        let (_, recording) = recorded(POOL, recorded_at, rounds);
        for lag in lags {
            let first = recorded_at.wrapping_add(*lag).wrapping_sub(before as u32);
            let (mut cluster, _) = recorded(POOL, first, before);
            for _ in 0..rounds {
                cluster.submit_all(&[ELEMENTS]);
                send(&mut cluster, &recording.frames);
                cluster.run();
            }
            assert_unmoved(&cluster);
        }
    }
}
