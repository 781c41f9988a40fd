//! The definitions of this crate in other languages, written by `cargo run -p wiresum-wire --bin generate`.

mod c;
mod p4;
mod python;

use crate::control::{Demand, EntryState, RefusalReason, hello, rate, ready, status, welcome};
use crate::schema::Constant;
use crate::{Flags, Kind, RowKind, Verdict, limits};

/// The command that brings the generated files up to date.
pub const REGENERATE: &str = "cargo run -p wiresum-wire --bin generate";

/// A generated file.
pub struct Output {
    /// Where it lives, from the repository's root.
    pub path: &'static str,
    /// Writes its contents.
    pub contents: fn() -> String,
}

/// Every generated file.
pub const OUTPUTS: [Output; 5] = [
    Output { path: "bpf/wiresum_wire.h", contents: c::header },
    Output { path: "bpf/wiresum_verdicts.h", contents: c::verdicts },
    Output { path: "p4/include/wiresum_wire.p4", contents: p4::header },
    Output { path: "p4/include/verdicts.p4", contents: p4::verdicts },
    Output { path: "python/wiresum/wire.py", contents: python::module },
];

/// A set of constants that belong together.
struct Group {
    /// Name of the set where constants of other sets could be meant, in Rust's spelling of types.
    name: &'static str,
    /// What the set is about.
    title: &'static str,
    constants: &'static [Constant],
}

const LIMITS: Group = Group { name: "", title: "Limits", constants: limits::CONSTANTS };

/// Sets of which a field holds one, or, of [`Flags`], several.
const ENUMS: [Group; 6] = [
    Group { name: "Kind", title: "What a packet is for", constants: Kind::CONSTANTS },
    Group { name: "RowKind", title: "What a packet of rows is for", constants: RowKind::CONSTANTS },
    Group { name: "Flag", title: "Flag bits of a packet", constants: Flags::CONSTANTS },
    Group {
        name: "EntryState",
        title: "State of a slot entry, as reported by a status",
        constants: EntryState::CONSTANTS,
    },
    Group {
        name: "RefusalReason",
        title: "Why a node turns a child away",
        constants: RefusalReason::CONSTANTS,
    },
    Group {
        name: "Demand",
        title: "Whether a child wants a share of its parent's links",
        constants: Demand::CONSTANTS,
    },
];

/// Places of big-endian 32-bit words in the control payloads.
const PAYLOADS: [Group; 5] = [
    Group {
        name: "Status",
        title: "Payload of a probe and of a status",
        constants: status::CONSTANTS,
    },
    Group {
        name: "Hello",
        title: "Payload of a hello, a welcome and a refusal",
        constants: hello::CONSTANTS,
    },
    Group {
        name: "Welcome",
        title: "Payload of a welcome in a network of switches, where it is not the hello's",
        constants: welcome::CONSTANTS,
    },
    Group { name: "Ready", title: "Payload of a ready", constants: ready::CONSTANTS },
    Group { name: "Rate", title: "Payload of a rate", constants: rate::CONSTANTS },
];

/// What may become of a packet.
const VERDICTS: Group =
    Group { name: "Verdict", title: "The fate of a packet", constants: Verdict::CONSTANTS };

/// `LittleEndian` or `LITTLE_ENDIAN` as `LITTLE_ENDIAN`.
fn screaming(name: &str) -> String {
    if !name.contains(char::is_lowercase) {
        return name.to_owned();
    }
    let mut out = String::new();
    for (i, letter) in name.char_indices() {
        if i > 0 && letter.is_uppercase() {
            out.push('_');
        }
        out.push(letter.to_ascii_uppercase());
    }
    out
}

/// Documentation without Rust's links: ``[`A`](b)`` and ``[`A`]`` become `A`.
fn plain(doc: &str) -> String {
    let mut out = String::new();
    let mut rest = doc.trim();
    while let Some((before, after)) = rest.split_once("[`") {
        let (name, after) = after.split_once("`]").unwrap_or((after, ""));
        out.push_str(before);
        out.push_str(name);
        rest = match after.strip_prefix('(') {
            Some(link) => link.split_once(')').map_or("", |(_, after)| after),
            None => after,
        };
    }
    out.push_str(rest);
    out.replace('`', "")
}

/// The words of `doc` in lines of at most `width` characters.
fn wrap(doc: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in plain(doc).split_whitespace() {
        let line = lines.last_mut().expect("never empty");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// The start of the names of a group's constants.
fn prefix(group: &Group) -> String {
    if group.name.is_empty() { String::new() } else { screaming(group.name) + "_" }
}
