//! What a worker lacks of a round that another one has ended is in the round's tail.

use super::random::{random_conditions, random_streams, random_tree};
use super::*;
use wiresum_testkit::seeds::for_each_seed;

/// Schedules, each a tenth of a second.
const SCHEDULES: u64 = 40;
const VALUES: usize = 64;
/// Packets that wait for an agreement at most; a round of fewer may lack all of them.
const STASHED: usize = 1024;

/// How much a worker has lacked of what another one had, and how much the tails left out.
#[derive(Default)]
struct Seen {
    lacked: usize,
    spared: usize,
}

impl Seen {
    /// Compares all workers with one that has just ended a round.
    fn compare(&mut self, cluster: &Cluster, round: usize) {
        for host in cluster.hosts.iter().filter(|host| host.tensors.len() > round) {
            let tensor = &host.tensors[round];
            let elements = tensor.own().len();
            let tail = wiresum_worker::tail(&cluster.plan, elements, tensor.lanes.width());
            let lacks = tensor.lacks();
            let is_foreseen = |at: &usize| tail.iter().any(|part| part.contains(at));
            assert_eq!(lacks.iter().find(|at| !is_foreseen(at)), None, "{tail:?} of {elements}");
            self.lacked += lacks.len();
            self.spared += elements - tail.iter().map(ExactSizeIterator::len).sum::<usize>();
        }
    }
}

fn run(seed: u64) -> Seen {
    let mut rng = Rng::new(seed);
    let plan =
        plan_with(&random_tree(&mut rng), &random_streams(&mut rng), VALUES as u16, "int32-le");
    let mut cluster = Cluster::new(plan, random_conditions(&mut rng), seed);
    cluster.join_all();
    // From the second on, exponents are forecast, and values flow before the agreement.
    let elements = VALUES * (STASHED + 100 + rng.below(1000) as usize);
    cluster.submit_all(&[elements, elements, 640, elements]);
    let mut seen = Seen::default();
    let mut ended = 0;
    while !cluster.is_finished() {
        assert!(cluster.step(), "nothing is under way");
        let furthest = cluster.hosts.iter().map(|host| host.finished.len()).max().unwrap_or(0);
        (ended..furthest).for_each(|round| seen.compare(&cluster, round));
        ended = ended.max(furthest);
    }
    cluster.assert_sums();
    seen
}

#[test]
fn what_others_lack_of_an_ended_round_is_in_its_tail() {
    let mut all = Seen::default();
    for_each_seed("-p wiresum-testkit --test cluster tails", 1, SCHEDULES, |seed| {
        let Seen { lacked, spared } = run(seed);
        all = Seen { lacked: all.lacked + lacked, spared: all.spared + spared };
    });
    let Seen { lacked, spared } = all;
    assert!(lacked > 10_000 && spared > 100_000, "{lacked} elements lacked, {spared} spared");
}
