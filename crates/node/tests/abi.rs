//! `engine_abi.h` and `wiresum_node::abi` are one interface.

mod cluster;

use std::ffi::{CStr, c_char, c_void};
use std::io::Write;
use std::mem::{offset_of, size_of};
use std::process::{Command, Stdio};
use std::ptr::null_mut;

use cluster::{Cluster, Shape, plan};
use wiresum_node::abi::{
    ABI_VERSION, CAPSULE_NAME, Collective, CollectiveOutcome, EngineAbi, Span, submit,
};
use wiresum_protocol::plan::{Lanes, Policy};
use wiresum_testkit::cluster::with_exchanges;
use wiresum_worker::Kind;

const HEADER: &str = include_str!("../../../python/wiresum/torch/csrc/engine_abi.h");

/// The header with an assertion for everything that Rust takes for granted.
fn assertions() -> String {
    let mut text = format!("#include <stddef.h>\n{HEADER}\n");
    let mut require = |condition: String| {
        text += &format!("_Static_assert({condition}, \"{}\");\n", condition.replace('"', "'"));
    };
    macro_rules! same_layout {
        ($c:literal, $rust:ty: $($field:ident),+) => {
            require(format!("sizeof(struct {}) == {}", $c, size_of::<$rust>()));
            $(require(format!("offsetof(struct {}, {}) == {}", $c, stringify!($field), offset_of!($rust, $field)));)+
        };
    }
    same_layout!("wiresum_collective", Collective:
        kind, root, source, sink, elements, element_type, operation, timeout_us, bits, seed, kept, aside, done,
        context);
    same_layout!("wiresum_engine_abi", EngineAbi: version, engine, submit, largest_share, packs, exact_bytes, tail);
    same_layout!("wiresum_span", Span: start, end);
    require(format!("WIRESUM_ENGINE_ABI_VERSION == {ABI_VERSION}"));
    for (name, value) in [
        ("WIRESUM_OK", CollectiveOutcome::Summed as i32),
        ("WIRESUM_NOT_FINITE", CollectiveOutcome::NotFinite as i32),
        ("WIRESUM_MISMATCH", CollectiveOutcome::Mismatch as i32),
        ("WIRESUM_TIMED_OUT", CollectiveOutcome::TimedOut as i32),
        ("WIRESUM_FAILED", CollectiveOutcome::Failed as i32),
        ("WIRESUM_UNFORESEEN", CollectiveOutcome::Unforeseen as i32),
        ("WIRESUM_NOT_SERVED", CollectiveOutcome::NotServed as i32),
        ("WIRESUM_WORKER_LOST", CollectiveOutcome::WorkerLost as i32),
        ("WIRESUM_FLOAT32", wiresum_codec::ElementType::Float32 as i32),
        ("WIRESUM_FLOAT16", wiresum_codec::ElementType::Float16 as i32),
        ("WIRESUM_BFLOAT16", wiresum_codec::ElementType::BFloat16 as i32),
        ("WIRESUM_SUM", wiresum_codec::Operation::Sum as i32),
        ("WIRESUM_AVERAGE", wiresum_codec::Operation::Average as i32),
    ] {
        require(format!("{name} == {value}"));
    }
    for kind in Kind::ALL {
        require(format!(
            "WIRESUM_{} == {}",
            kind.name().to_uppercase().replace(' ', "_"),
            *kind as u8
        ));
    }
    text
}

#[test]
fn the_header_declares_what_rust_lays_out() {
    let mut compiler = Command::new("cc")
        .args(["-std=c11", "-fsyntax-only", "-x", "c", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("`cc`, which links Rust's programs too");
    let mut input = compiler.stdin.take().expect("a pipe");
    input.write_all(assertions().as_bytes()).expect("cc reads its input");
    drop(input);
    assert!(compiler.wait().expect("cc ends").success(), "the layouts differ: see cc's message");
}

#[test]
fn the_capsule_has_the_name_that_the_header_says() {
    let name = CAPSULE_NAME.to_str().expect("ASCII");
    assert!(HEADER.contains(&format!("#define WIRESUM_ENGINE_CAPSULE \"{name}\"")));
}

unsafe extern "C" fn never(_: *mut c_void, _: i32, message: *const c_char) {
    // SAFETY: the engine passes a C string.
    panic!("called although nothing was queued: {:?}", unsafe { CStr::from_ptr(message) });
}

#[test]
fn null_pointers_are_ill_formed() {
    let mut values = [0f32; 2];
    let collective = all_reduce(&mut values);
    // SAFETY: null is what `submit` guards against.
    assert_eq!(unsafe { submit(null_mut(), &raw const collective) }, 2);
}

fn all_reduce(values: &mut [f32]) -> Collective {
    Collective {
        kind: Kind::AllReduce as u32,
        root: 0,
        source: values.as_ptr().cast(),
        sink: values.as_mut_ptr().cast(),
        elements: values.len() as u64,
        element_type: 0,
        operation: 0,
        timeout_us: 1,
        bits: 0,
        seed: 0,
        kept: null_mut(),
        aside: null_mut(),
        done: Some(never),
        context: null_mut(),
    }
}

#[test]
fn what_makes_no_sense_is_ill_formed() {
    let cluster = Cluster::start(plan(Shape::Star, 2, Lanes::Int32Le, Policy::Pool));
    let mut values = [0f32; 10];
    let good = all_reduce(&mut values);
    let at = |index: usize| good.sink.wrapping_byte_add(4 * index);
    let (scatter, reduce) = (Kind::ReduceScatter as u32, Kind::Reduce as u32);
    let share = Kind::SmallAllReduce as u32;
    let misaligned = at(0).wrapping_byte_add(1).cast();
    for (wrong, collective) in [
        ("a kind", Collective { kind: Kind::ALL.len() as u32, ..good }),
        ("a share that is too long", Collective { kind: share, elements: 1 << 20, ..good }),
        ("a share's tag", Collective { kind: share, element_type: 16, ..good }),
        ("a copy without streams", Collective { kind: Kind::Broadcast as u32, ..good }),
        ("a root", Collective { kind: reduce, root: 2, ..good }),
        ("a null source", Collective { source: null_mut(), ..good }),
        ("a null sink", Collective { sink: null_mut(), ..good }),
        ("a misaligned sink", Collective { sink: at(0).wrapping_byte_add(1), ..good }),
        ("no elements", Collective { elements: 0, ..good }),
        ("more elements than memory", Collective { elements: u64::MAX, ..good }),
        ("a type", Collective { element_type: 6, ..good }),
        ("an average of integers", Collective { element_type: 3, operation: 1, ..good }),
        ("a reduce of integers", Collective { kind: reduce, element_type: 3, ..good }),
        ("bits", Collective { bits: 4, ..good }),
        ("parts of 8 bits", Collective { kind: scatter, bits: 8, ..good }),
        ("misaligned room", Collective { bits: 8, kept: misaligned, ..good }),
        ("an operation", Collective { operation: 4, ..good }),
        ("room aside within the source", Collective { aside: at(1), ..good }),
        ("room aside within the sink", Collective { sink: at(20), aside: at(22), ..good }),
        ("room aside of a share", Collective { kind: share, aside: at(10), ..good }),
        ("an overlapping sink", Collective { sink: at(1), ..good }),
        ("the other rank's part", Collective { kind: scatter, sink: at(5), ..good }),
        ("no callback", Collective { done: None, ..good }),
    ] {
        let engine = EngineAbi::new(&cluster.engines[0]);
        // SAFETY: the engine lives, and what is ill-formed is not used.
        let answer = unsafe { (engine.submit)(engine.engine, &raw const collective) };
        assert_eq!(answer, 2, "{wrong}");
    }
    cluster.stop();
}

#[test]
fn copies_that_make_no_sense_are_ill_formed() {
    let star = plan(Shape::Star, 2, Lanes::Int32Le, Policy::Pool);
    let cluster = Cluster::start(with_exchanges(star, 32, 16));
    let mut values = [0f32; 10];
    let of_bytes = Collective { element_type: 9, operation: 9, ..all_reduce(&mut values) };
    let good = Collective { kind: Kind::AllGather as u32, ..of_bytes };
    let at = |index: usize| good.sink.wrapping_byte_add(index);
    let [gather, scatter] =
        [Kind::Gather, Kind::Scatter].map(|kind| Collective { kind: kind as u32, ..good });
    for (wrong, collective) in [
        ("the other rank's place", Collective { source: at(10), ..good }),
        ("more bytes than memory", Collective { elements: (u64::MAX >> 1) + 2, ..good }),
        ("no bytes", Collective { elements: 0, ..good }),
        ("a root", Collective { kind: Kind::Broadcast as u32, root: 2, ..good }),
        ("a root without a source", Collective { source: null_mut(), ..scatter }),
        ("no place for what comes", Collective { sink: null_mut(), root: 1, ..scatter }),
        ("the other rank's place at the root", Collective { source: at(10), ..gather }),
    ] {
        let engine = EngineAbi::new(&cluster.engines[0]);
        // SAFETY: the engine lives, and what is ill-formed is not used.
        let answer = unsafe { (engine.submit)(engine.engine, &raw const collective) };
        assert_eq!(answer, 2, "{wrong}");
    }
    cluster.stop();
}
