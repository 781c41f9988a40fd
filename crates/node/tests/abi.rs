//! `engine_abi.h` and `wiresum_node::abi` are one interface.

use std::ffi::{CStr, c_char, c_void};
use std::io::Write;
use std::mem::{offset_of, size_of};
use std::process::{Command, Stdio};
use std::ptr::null_mut;

use wiresum_node::abi::{ABI_VERSION, CAPSULE_NAME, Collective, EngineAbi, Outcome, submit};

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
        data, elements, element_type, operation, timeout_us, done, context);
    same_layout!("wiresum_engine_abi", EngineAbi: version, engine, submit);
    require(format!("WIRESUM_ENGINE_ABI_VERSION == {ABI_VERSION}"));
    for (name, value) in [
        ("WIRESUM_OK", Outcome::Summed as i32),
        ("WIRESUM_NOT_FINITE", Outcome::NotFinite as i32),
        ("WIRESUM_MISMATCH", Outcome::Mismatch as i32),
        ("WIRESUM_TIMED_OUT", Outcome::TimedOut as i32),
        ("WIRESUM_FAILED", Outcome::Failed as i32),
        ("WIRESUM_UNFORESEEN", Outcome::Unforeseen as i32),
        ("WIRESUM_FLOAT32", wiresum_codec::ElementType::Float32 as i32),
        ("WIRESUM_FLOAT16", wiresum_codec::ElementType::Float16 as i32),
        ("WIRESUM_BFLOAT16", wiresum_codec::ElementType::BFloat16 as i32),
        ("WIRESUM_SUM", wiresum_codec::Operation::Sum as i32),
        ("WIRESUM_AVERAGE", wiresum_codec::Operation::Average as i32),
    ] {
        require(format!("{name} == {value}"));
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
    let collective = Collective {
        data: null_mut(),
        elements: 1,
        element_type: 0,
        operation: 0,
        timeout_us: 1,
        done: Some(never),
        context: null_mut(),
    };
    // SAFETY: null is what `submit` guards against.
    assert_eq!(unsafe { submit(null_mut(), &raw const collective) }, 2);
}
