//! Integers that are summed, and extremes of any type, as one process would have them.

mod cluster;

use std::ptr::NonNull;
use std::sync::mpsc;

use cluster::{Cluster, PATIENCE, Random, Shape, plan};
use wiresum_node::engine::{Engine, Outcome};
use wiresum_node::exact::{Exact, ExactOperation, ExactType};
use wiresum_node::tensor::{Coding, Elements};
use wiresum_protocol::plan::{Lanes, Policy};
use wiresum_worker::Kind;

const RANKS: usize = 4;
/// Not a whole number of packets.
const LEN: usize = 5_003;

/// Memory of elements of any type, aligned for all.
type Memory = Vec<u32>;

fn bytes_of(memory: &Memory) -> &[u8] {
    // SAFETY: any bytes are bytes.
    unsafe { std::slice::from_raw_parts(memory.as_ptr().cast(), 4 * memory.len()) }
}

fn random(rank: usize, element: ExactType) -> Memory {
    let mut random = Random(rank as u64 * 7 + element as u64 + 1);
    // No exponent is all ones, so that every float is a number.
    let mask = match element {
        ExactType::Float32 => 0xbfff_ffff,
        ExactType::Float16 | ExactType::BFloat16 => 0xbfff_bfff,
        _ => u32::MAX,
    };
    (0..LEN).map(|_| random.next() as u32 & mask).collect()
}

fn submit(engine: &Engine, memory: &mut Memory, exact: Exact, ended: mpsc::Sender<Outcome>) {
    let data = NonNull::from(&mut memory[..]).cast();
    let len = 4 * LEN / exact.element().width();
    // SAFETY: the caller leaves the memory alone until it has the outcome.
    let elements = unsafe { Elements::new(data, data, len, Coding::Exact(exact)) };
    let done = Box::new(move |outcome| ended.send(outcome).expect("the test waits"));
    engine.submit_sum(Kind::AllReduce, 0, elements, PATIENCE, done).expect("the engine runs");
}

fn all_reduced(cluster: &Cluster, element: ExactType, operation: ExactOperation) -> Vec<Memory> {
    let mut memories: Vec<Memory> = (0..RANKS).map(|rank| random(rank, element)).collect();
    let mut ends = Vec::new();
    for (engine, memory) in cluster.engines.iter().zip(&mut memories) {
        let (ended, end) = mpsc::channel();
        submit(engine, memory, engine.exact(element, operation).expect("lanes for it"), ended);
        ends.push(end);
    }
    for end in ends {
        end.recv().expect("an end").expect("an outcome");
    }
    memories
}

/// A number that orders as the element does whose bytes these are.
fn value(element: ExactType, bytes: &[u8]) -> f64 {
    let half = || u16::from_ne_bytes([bytes[0], bytes[1]]);
    let whole = || u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    match element {
        ExactType::Float32 => f32::from_bits(whole()).into(),
        ExactType::BFloat16 => f32::from_bits(u32::from(half()) << 16).into(),
        // Its magnitude orders as its bits.
        ExactType::Float16 => {
            let magnitude = f64::from(half() & 0x7fff);
            if half() >> 15 == 1 { -magnitude } else { magnitude }
        }
        ExactType::Int32 => f64::from(whole() as i32),
        ExactType::Int8 => f64::from(bytes[0] as i8),
        ExactType::UInt8 => bytes[0].into(),
    }
}

fn sum(element: ExactType, of_ranks: &[&[u8]]) -> Vec<u8> {
    let add = |sum: Vec<u8>, bytes: &&[u8]| match element.width() {
        1 => vec![sum[0].wrapping_add(bytes[0])],
        _ => {
            let number = |bytes: &[u8]| u32::from_ne_bytes(bytes.try_into().expect("four"));
            number(&sum).wrapping_add(number(bytes)).to_ne_bytes().to_vec()
        }
    };
    of_ranks.iter().fold(vec![0; element.width()], add)
}

fn check(element: ExactType, operation: ExactOperation, results: &[Memory]) {
    let width = element.width();
    let inputs: Vec<Memory> = (0..RANKS).map(|rank| random(rank, element)).collect();
    for result in &results[1..] {
        assert_eq!(result, &results[0], "the same bits on all ranks");
    }
    for (at, found) in bytes_of(&results[0]).chunks_exact(width).enumerate() {
        let of_ranks: Vec<&[u8]> =
            inputs.iter().map(|memory| &bytes_of(memory)[at * width..(at + 1) * width]).collect();
        let values = of_ranks.iter().map(|bytes| value(element, bytes));
        let expected = match operation {
            ExactOperation::Sum => {
                assert_eq!(found, sum(element, &of_ranks), "{element:?}, element {at}");
                continue;
            }
            ExactOperation::Minimum => values.fold(f64::INFINITY, f64::min),
            ExactOperation::Maximum => values.fold(f64::NEG_INFINITY, f64::max),
        };
        assert_eq!(value(element, found), expected, "{element:?}, {operation:?}, element {at}");
    }
}

#[test]
fn all_types_and_operations_over_wide_and_narrow_lanes() {
    for (shape, lanes) in [
        (Shape::Star, Lanes::Int32Le),
        (Shape::Star, Lanes::Auto),
        (Shape::TwoLevels, Lanes::Int32Be),
    ] {
        let cluster = Cluster::start(plan(shape, RANKS as u32, lanes, Policy::Pool));
        for code in 0..6 {
            let element = ExactType::of_code(code).expect("a type");
            for operation in [ExactOperation::Sum, ExactOperation::Minimum, ExactOperation::Maximum]
            {
                let is_float = code < 3;
                if is_float && operation == ExactOperation::Sum {
                    continue;
                }
                check(element, operation, &all_reduced(&cluster, element, operation));
            }
        }
    }
}

#[test]
fn lanes_that_are_too_narrow_are_said() {
    let cluster = Cluster::start(plan(Shape::Star, 2, Lanes::Int16Le, Policy::Pool));
    let exact = |element| cluster.engines[0].exact(element, ExactOperation::Maximum);
    assert!(exact(ExactType::Int32).is_none());
    assert!(exact(ExactType::Int8).is_some());
}
