//! The same tree over kernel TCP: the protocol's own packets, back to back, on one connection for each child of a node.
//!
//! A packet's header says how long it is, so the stream needs no framing of its own. TCP repeats what a link loses; what a
//! broken connection loses, and what a peer that does not read cannot be given, the protocol's questions recover, as over UDP.
//!
//! | file | what it does |
//! | --- | --- |
//! | `inbox`, `outbox` | large reads cut into packets in place; packets gathered into large writes |
//! | `stream` | one non-blocking connection |
//! | `line`, `dialer` | connections that this side makes, and makes again: a worker's, or an inner node's to its parent |
//! | `peers`, `gate` | a node: connections that children make, and when they have to wait |

mod dialer;
mod gate;
mod inbox;
mod line;
mod outbox;
pub(crate) mod peers;
mod stream;

pub use dialer::Dialer;
