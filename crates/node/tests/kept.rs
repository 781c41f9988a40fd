//! Room aside, by the C interface: it has all that a rank gave once a collective has ended well, whatever its kind. If it
//! fails, the source is as it was, also where results take its place.

mod cluster;

use std::ffi::{c_char, c_void};
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::mpsc;
use std::time::Duration;

use cluster::{Cluster, PATIENCE, Shape, plan};
use wiresum_node::abi::{Collective, CollectiveOutcome, EngineAbi};
use wiresum_node::engine::Engine;
use wiresum_protocol::Plan;
use wiresum_protocol::plan::{Lanes, Policy};
use wiresum_testkit::cluster::with_exchanges;
use wiresum_worker::Kind;

const RANKS: usize = 3;
const ROOT: usize = 1;
/// Elements of an unsharded tensor: parts that end within fragments.
const LEN: usize = 3 * 10_001;
const KINDS: [Kind; 7] = [
    Kind::AllReduce,
    Kind::Reduce,
    Kind::ReduceScatter,
    Kind::AllGather,
    Kind::Broadcast,
    Kind::Gather,
    Kind::Scatter,
];
/// A value that nobody gives.
const NOTHING: f32 = -1.0;
const STEP: Duration = Duration::from_micros(500);

fn value(rank: usize, at: usize) -> f32 {
    (rank + at % 100) as f32
}

fn own_part(rank: usize) -> Range<usize> {
    rank * LEN / RANKS..(rank + 1) * LEN / RANKS
}

fn star() -> Plan {
    with_exchanges(plan(Shape::Star, RANKS as u32, Lanes::Int32Le, Policy::Pool), 32, 16)
}

/// The memory of a rank: as long as the longer one of source and sink, the source being a part of it, and the sink too.
struct Memory {
    kind: Kind,
    elements: Vec<f32>,
    source: Range<usize>,
    /// Where results go that do not take the place of elements.
    sink: Vec<f32>,
    aside: Vec<f32>,
}

impl Memory {
    fn new(kind: Kind, rank: usize, is_in_place: bool) -> Self {
        let source = match kind {
            Kind::AllGather | Kind::Gather => own_part(rank),
            _ => 0..LEN,
        };
        let elements = (0..LEN).map(|at| value(rank, at)).collect();
        let sink = if is_in_place { 0 } else { LEN };
        Self {
            kind,
            elements,
            aside: vec![NOTHING; source.len()],
            source,
            sink: vec![NOTHING; sink],
        }
    }

    fn collective(&mut self, rank: usize, ended: mpsc::Sender<i32>) -> Collective {
        let is_part = matches!(self.kind, Kind::ReduceScatter | Kind::Scatter);
        let first = if is_part { own_part(rank).start } else { 0 };
        let own = self.elements[first..].as_mut_ptr().cast();
        Collective {
            kind: self.kind as u32,
            root: if self.kind.has_root() { ROOT as u32 } else { 0 },
            source: self.elements[self.source.start..].as_ptr().cast(),
            sink: if self.sink.is_empty() { own } else { self.sink.as_mut_ptr().cast() },
            elements: (self.source.len() * if self.kind.is_copy() { size_of::<f32>() } else { 1 })
                as u64,
            element_type: 0,
            operation: 0,
            timeout_us: PATIENCE.as_micros() as u64,
            bits: 0,
            seed: 0,
            kept: null_mut(),
            aside: self.aside.as_mut_ptr().cast(),
            done: Some(tell),
            context: Box::into_raw(Box::new(ended)).cast(),
        }
    }

    /// What the source had before, as far as others get any of it.
    fn kept(&self, rank: usize) -> Vec<f32> {
        let mut kept = self.given(rank);
        match (self.kind, rank == ROOT) {
            (Kind::Broadcast | Kind::Scatter, false) | (Kind::Gather, true) => kept.fill(NOTHING),
            (Kind::Scatter, true) => kept[own_part(rank)].fill(NOTHING),
            _ => {}
        }
        kept
    }

    /// What the source had before.
    fn given(&self, rank: usize) -> Vec<f32> {
        self.source.clone().map(|at| value(rank, at)).collect()
    }
}

unsafe extern "C" fn tell(context: *mut c_void, outcome: i32, _message: *const c_char) {
    // SAFETY: `Memory::collective` made it for this call.
    let ended = unsafe { Box::from_raw(context.cast::<mpsc::Sender<i32>>()) };
    ended.send(outcome).expect("the test waits");
}

fn submit(engine: &Engine, memory: &mut Memory, rank: usize) -> mpsc::Receiver<i32> {
    let (ended, end) = mpsc::channel();
    let collective = memory.collective(rank, ended);
    let abi = EngineAbi::new(engine);
    // SAFETY: the caller leaves the memory alone until it has the outcome.
    assert_eq!(unsafe { (abi.submit)(abi.engine, &raw const collective) }, 0, "{}", memory.kind);
    end
}

fn outcomes(cluster: &Cluster, memories: &mut [Memory], meanwhile: impl FnOnce()) -> Vec<i32> {
    let all = cluster.engines.iter().zip(memories).enumerate();
    let ends: Vec<_> = all.map(|(rank, (engine, memory))| submit(engine, memory, rank)).collect();
    meanwhile();
    ends.iter().map(|end| end.recv().expect("an outcome")).collect()
}

#[test]
fn all_that_a_rank_gives_is_kept() {
    let cluster = Cluster::start(star());
    for kind in KINDS {
        for is_in_place in [true, false] {
            let mut memories: Vec<_> =
                (0..RANKS).map(|rank| Memory::new(kind, rank, is_in_place)).collect();
            let outcomes = outcomes(&cluster, &mut memories, || {});
            assert_eq!(outcomes, [CollectiveOutcome::Summed as i32; RANKS], "{kind}");
            for (rank, memory) in memories.iter().enumerate() {
                let is_kept = memory.aside == memory.kept(rank);
                assert!(is_kept, "{kind}, rank {rank}, in place: {is_in_place}");
            }
        }
    }
    cluster.stop();
}

/// Stops a reduce-scatter in place after this time; on how many ranks it had ended by then.
fn stopped_after(delay: Duration) -> usize {
    let cluster = Cluster::start(star());
    let mut memories: Vec<_> =
        (0..RANKS).map(|rank| Memory::new(Kind::ReduceScatter, rank, true)).collect();
    let outcomes = outcomes(&cluster, &mut memories, || {
        std::thread::sleep(delay);
        cluster.engines.iter().for_each(|engine| engine.stop("enough".to_owned(), true));
    });
    let is_summed = |outcome: &i32| *outcome == CollectiveOutcome::Summed as i32;
    for (rank, (memory, outcome)) in memories.iter().zip(&outcomes).enumerate() {
        let is_as_it_was = memory.elements == memory.given(rank);
        assert!(is_summed(outcome) != is_as_it_was, "rank {rank} after {delay:?}: {outcome}");
    }
    outcomes.iter().filter(|outcome| is_summed(outcome)).count()
}

#[test]
fn a_part_in_place_that_fails_has_its_values_again() {
    let summed: Vec<usize> = (0..40).map(|step| stopped_after(STEP * step)).collect();
    assert!(summed.contains(&0), "none was stopped in the middle: {summed:?}");
}
