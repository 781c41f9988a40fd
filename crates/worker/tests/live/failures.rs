//! Collectives that cannot end, over both kinds of streams: every rank says why by its deadline, and names who is to blame.

use std::time::Duration;

use wiresum_protocol::plan::Policy;
use wiresum_protocol::{Plan, Time};
use wiresum_testkit::cluster::{CACHE, Cluster, POOL, Tensor, Tree, lossy};
use wiresum_wire::{NodeId, Round};
use wiresum_worker::{Failure, Shape as Passed};

use crate::ALL;
use crate::agreement::block;
use crate::bed::{Bed, Ended};
use crate::plans::Shape;

const LOSS: f64 = 0.01;
const SEED: u64 = 4;
const TIMEOUT: Duration = Duration::from_secs(5);
/// Later than every deadline in this file.
const END: Duration = Duration::from_secs(30);
/// Some of a long collective has been summed by then, and most has not.
const MID: Duration = Duration::from_micros(1500);
const LONG: usize = 100_000;
/// A clock rings in whole microseconds.
const SLACK: Duration = Duration::from_micros(1);

type Outcome = Result<(), Failure>;

/// Workers that have joined, and what sums for them.
trait Job {
    fn plan(&self) -> &Plan;

    fn pass(&mut self, rank: usize, tensor: Tensor, timeout: Duration);

    fn run(&mut self, duration: Duration);

    fn outcomes(&self, rank: usize) -> Vec<Outcome>;

    /// Takes the node at which all workers of a star are from the network.
    fn kill_centre(&mut self) -> NodeId;

    /// Workers ask nodes, which know whose contributions they lack; switches hold sums of several workers.
    fn is_asked(&self) -> bool;

    fn now(&self) -> Time;

    /// When a rank's last collective ended.
    fn ended_at(&self, rank: usize) -> Time;

    /// Whether a rank still has something to do at some time.
    fn has_timer(&self, rank: usize) -> bool;

    /// Every rank's last collective has ended when its time was over.
    fn assert_on_time(&self, ranks: &[usize], begun: Time, kind: &str) {
        for &rank in ranks {
            let taken = self.ended_at(rank).since(begun);
            assert!(taken <= TIMEOUT + SLACK, "{kind}, rank {rank}: {taken:?}");
        }
    }

    fn ranks(&self) -> usize {
        self.plan().workers.len()
    }

    /// Passes the next tensor of so many elements, which it returns.
    fn pass_len(&mut self, rank: usize, round: usize, len: usize) -> Tensor {
        let tensor = Tensor::of(self.plan(), rank, round, len);
        self.pass(rank, tensor.clone(), TIMEOUT);
        tensor
    }
}

impl Job for Cluster {
    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn pass(&mut self, rank: usize, tensor: Tensor, timeout: Duration) {
        self.submit_within(rank, tensor, timeout);
    }

    fn run(&mut self, duration: Duration) {
        self.run_until(self.now().plus(duration));
    }

    fn outcomes(&self, rank: usize) -> Vec<Outcome> {
        self.hosts[rank].finished.iter().map(|(_, outcome, _)| outcome.clone()).collect()
    }

    fn kill_centre(&mut self) -> NodeId {
        self.kill(0);
        NodeId(0)
    }

    fn is_asked(&self) -> bool {
        true
    }

    fn now(&self) -> Time {
        Cluster::now(self)
    }

    fn ended_at(&self, rank: usize) -> Time {
        self.hosts[rank].finished.last().expect("one has ended").2
    }

    fn has_timer(&self, rank: usize) -> bool {
        self.hosts[rank].session.poll_timeout().is_some()
    }
}

impl Job for Bed {
    fn plan(&self) -> &Plan {
        Bed::plan(self)
    }

    fn pass(&mut self, rank: usize, tensor: Tensor, timeout: Duration) {
        self.submit_tensor(rank, tensor, timeout);
    }

    fn run(&mut self, duration: Duration) {
        Bed::run(self, duration);
    }

    fn outcomes(&self, rank: usize) -> Vec<Outcome> {
        let outcome = |ended: &Ended| match ended {
            Ended::Sum(_) => Ok(()),
            Ended::Failed(failure) => Err(failure.clone()),
        };
        self.ended(rank).iter().map(outcome).collect()
    }

    fn kill_centre(&mut self) -> NodeId {
        self.kill(2);
        NodeId(2)
    }

    fn is_asked(&self) -> bool {
        false
    }

    fn now(&self) -> Time {
        Bed::now(self)
    }

    fn ended_at(&self, rank: usize) -> Time {
        self.rank_ended_at(rank)
    }

    fn has_timer(&self, rank: usize) -> bool {
        self.rank_has_timer(rank)
    }
}

fn of_servers(tree: &Tree) -> impl Iterator<Item = (String, Box<dyn Job>)> + use<> {
    [POOL, CACHE]
        .map(|stream| {
            let cluster = Cluster::joined(tree, stream, lossy(LOSS), SEED);
            (
                format!("servers, {:?}", cluster.plan.streams[1].policy),
                Box::new(cluster) as Box<dyn Job>,
            )
        })
        .into_iter()
}

fn of_switches(shape: Shape) -> impl Iterator<Item = (String, Box<dyn Job>)> + use<> {
    ALL.into_iter().map(move |policy: Policy| {
        let mut bed = Bed::new(&block(policy, shape, |_| {}), LOSS, SEED);
        bed.join_all();
        (format!("switches, {policy:?}"), Box::new(bed) as Box<dyn Job>)
    })
}

/// Every kind of job with all workers at one node.
fn stars() -> impl Iterator<Item = (String, Box<dyn Job>)> + use<> {
    of_servers(&Tree::star(4)).chain(of_switches(Shape::Star))
}

/// Every kind of job with workers at several nodes, and nodes above these.
fn trees() -> impl Iterator<Item = (String, Box<dyn Job>)> + use<> {
    of_servers(&Tree::three_levels()).chain(of_switches(Shape::Tree))
}

#[test]
fn ranks_that_pass_different_sizes_all_learn_all_sizes() {
    for (kind, mut job) in trees() {
        // 5000 elements need two preamble fragments of a tree of servers, 100 need one.
        let lengths: Vec<usize> = [100, 100, 5000, 0, 100, 100][..job.ranks()].to_vec();
        let begun = job.now();
        for (rank, len) in lengths.iter().enumerate() {
            job.pass_len(rank, 0, 640);
            job.pass_len(rank, 1, *len);
            job.pass_len(rank, 2, 77);
        }
        job.run(END);
        let passed = |elements: &usize| Some(Passed { elements: *elements as i32, signature: 3 });
        let shapes = lengths.iter().map(passed).collect();
        let mismatch = Err(Failure::Mismatch { round: Round(1), shapes });
        for rank in 0..job.ranks() {
            let expected = [Ok(()), mismatch.clone(), mismatch.clone()];
            assert_eq!(job.outcomes(rank), expected, "{kind}, rank {rank}");
        }
        job.assert_on_time(&Vec::from_iter(0..job.ranks()), begun, &kind);
    }
}

#[test]
fn ranks_that_pass_different_operations_all_learn_it() {
    for (kind, mut job) in trees() {
        let begun = job.now();
        for rank in 0..job.ranks() {
            let tensor = Tensor::of(job.plan(), rank, 0, 100);
            job.pass(rank, tensor.with_signature(if rank == 1 { 8 } else { 3 }), TIMEOUT);
        }
        job.run(END);
        let signature = |rank| if rank == 1 { 8 } else { 3 };
        let passed = |rank| Some(Passed { elements: 100, signature: signature(rank) });
        let shapes = (0..job.ranks()).map(passed).collect();
        let mismatch = Failure::Mismatch { round: Round(0), shapes };
        for rank in 0..job.ranks() {
            assert_eq!(job.outcomes(rank), [Err(mismatch.clone())], "{kind}, rank {rank}");
        }
        job.assert_on_time(&Vec::from_iter(0..job.ranks()), begun, &kind);
    }
}

#[test]
fn a_value_that_is_not_finite_ends_its_round_everywhere_and_no_other() {
    const LEN: usize = 9000;
    for (kind, mut job) in trees() {
        let ranks = job.ranks();
        let mut tensors = vec![Vec::new(); ranks];
        for (round, rank) in (0..5).flat_map(|round| (0..ranks).map(move |rank| (round, rank))) {
            let mut tensor = Tensor::of(job.plan(), rank, round, LEN);
            if (rank, round) == (ranks - 2, 2) || (rank, round) == (0, 3) {
                tensor = tensor.with_infinity_at(LEN - 500);
            }
            tensors[rank].push(tensor.clone());
            job.pass(rank, tensor, END);
        }
        job.run(END);
        let last: Vec<&Tensor> = tensors.iter().map(|of_rank| &of_rank[4]).collect();
        let sum = Tensor::sum(&last);
        for (rank, of_rank) in tensors.iter().enumerate() {
            let bad = Err(Failure::NotFinite);
            let expected = [Ok(()), Ok(()), bad.clone(), bad, Ok(())];
            assert_eq!(job.outcomes(rank), expected, "{kind}, rank {rank}");
            assert_eq!(of_rank[2].values(), of_rank[2].own(), "{kind}: the buffer is untouched");
            assert_eq!(of_rank[4].values(), sum, "{kind}, rank {rank}");
        }
    }
}

#[test]
fn a_worker_that_never_comes_is_named() {
    for (kind, mut job) in stars() {
        let begun = job.now();
        for rank in [0, 1, 3] {
            job.pass_len(rank, 0, 2000);
        }
        job.run(END);
        for rank in [0, 1, 3] {
            let outcomes = job.outcomes(rank);
            let [Err(Failure::Missing { node, missing, round, waited, .. })] = &outcomes[..] else {
                panic!("{kind}, rank {rank}: {outcomes:?}");
            };
            assert_eq!((*round, *waited), (Round(0), TIMEOUT), "{kind}");
            // A switch holds what the others sent, so all that the server can say is that it lacks them all.
            assert!(missing.contains(&"w2".to_owned()), "{kind}: {missing:?}");
            let is_told = *node == NodeId(0) && missing.len() == 1;
            assert!(is_told || !job.is_asked(), "{kind}: node {node}, {missing:?}");
        }
        job.assert_on_time(&[0, 1, 3], begun, &kind);
    }
}

#[test]
fn a_node_that_dies_in_mid_round_is_named() {
    for (kind, mut job) in stars() {
        let begun = job.now();
        for rank in 0..job.ranks() {
            job.pass_len(rank, 0, LONG);
        }
        job.run(MID);
        assert!(job.outcomes(0).is_empty(), "{kind}: the round is under way");
        let dead = job.kill_centre();
        job.run(END);
        for rank in 0..job.ranks() {
            let outcomes = job.outcomes(rank);
            let [Err(Failure::Silent { node, address, round, silent, .. })] = &outcomes[..] else {
                panic!("{kind}, rank {rank}: {outcomes:?}");
            };
            assert_eq!((*node, *round), (dead, Round(0)), "{kind}");
            let planned = job.plan().node(dead).expect("a node of the plan").address;
            assert_eq!(*address, planned, "{kind}");
            let since = TIMEOUT - MID;
            // Switches only answer, so the silence may have begun before.
            let latest = if job.is_asked() { since } else { Duration::MAX };
            let is_since = *silent <= latest && since < *silent + Duration::from_millis(1);
            assert!(is_since, "{kind}: silent for {silent:?}, dead for {since:?}");
        }
        job.assert_on_time(&Vec::from_iter(0..job.ranks()), begun, &kind);
    }
}

#[test]
fn after_a_failure_every_later_round_fails_at_once_alike() {
    for (kind, mut job) in stars() {
        (0..3).for_each(|round| drop(job.pass_len(0, round, 100)));
        job.run(END);
        assert_eq!(job.outcomes(0).len(), 3, "{kind}");
        job.pass_len(0, 3, 100);
        let outcomes = job.outcomes(0);
        assert_eq!(outcomes.len(), 4, "{kind}");
        assert!(outcomes.iter().all(|one| *one == outcomes[0] && one.is_err()), "{kind}");
        assert!(!job.has_timer(0), "{kind}: nothing is left to be done");
    }
}

#[test]
fn the_earliest_deadline_counts_even_behind_a_later_one() {
    for (kind, mut job) in stars() {
        for (round, timeout) in [(0, 20), (1, 1)] {
            let tensor = Tensor::of(job.plan(), 0, round, 10);
            job.pass(0, tensor, Duration::from_secs(timeout));
        }
        job.run(Duration::from_millis(1100));
        assert_eq!(job.outcomes(0).len(), 2, "{kind}");
    }
}
