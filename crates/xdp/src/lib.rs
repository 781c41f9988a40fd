//! The ways through XDP. The aggregator in the kernel: loads `bpf/`, fills its maps from plans, reads its counters.
//!
//! The program sums, answers and broadcasts by itself. What needs judgement stays in user space: hellos and welcomes are
//! passed up to the daemon's UDP socket, and the daemon mirrors what it decides with [`XdpAggregator::start_incarnation`],
//! [`XdpAggregator::admit_child`] and [`XdpAggregator::set_parent`]. The program has noted on which port, and between which
//! Ethernet addresses, each such packet came, so the daemon names peers by their socket address alone.
//!
//! [`AfXdp`] is the other way past the kernel's network stack: packets come to user space as frames, and are summed there by
//! the reference [`wiresum_protocol::Aggregator`].
//!
//! [`SwitchProgram`] is a switch with little memory in the kernel: the policies of `wiresum-switch`, one program for each.
//!
//! [`RowsProgram`] is a switch in the kernel that sums hot rows of tables by position, beside its station.
//!
//! [`KeyedProgram`] is Zebra's switch program: pairs of hot keys and values.
//!
//! Where there is no Linux, or no clang at build time, the same interface returns [`XdpError::NotBuilt`].

#[cfg(not(wiresum_bpf))]
#[macro_use]
mod absent;
#[cfg(wiresum_bpf)]
#[macro_use]
mod mirror;

#[cfg(wiresum_bpf)]
mod af_xdp;
#[cfg(not(wiresum_bpf))]
#[path = "af_xdp/stub.rs"]
mod af_xdp;
mod error;
mod options;

#[cfg(wiresum_bpf)]
#[doc(hidden)]
pub mod cipher;
#[cfg(wiresum_bpf)]
mod engine;
#[cfg(wiresum_bpf)]
#[doc(hidden)]
pub mod frames;
#[cfg(wiresum_bpf)]
#[doc(hidden)]
pub mod kernel;
#[cfg(wiresum_bpf)]
mod keyed;
#[cfg(wiresum_bpf)]
#[doc(hidden)]
pub mod layout;
#[cfg(wiresum_bpf)]
mod memory;
#[cfg(wiresum_bpf)]
mod peers;
#[cfg(wiresum_bpf)]
mod pool;
#[cfg(wiresum_bpf)]
mod rows;
#[cfg(wiresum_bpf)]
mod slots;
#[cfg(wiresum_bpf)]
mod streams;
#[cfg(wiresum_bpf)]
mod takeover;
#[cfg(wiresum_bpf)]
#[doc(hidden)]
pub mod test_run;

#[cfg(wiresum_bpf)]
mod switch;

#[cfg(not(wiresum_bpf))]
#[path = "stub.rs"]
mod engine;
#[cfg(not(wiresum_bpf))]
#[path = "keyed/stub.rs"]
mod keyed;
#[cfg(not(wiresum_bpf))]
#[path = "rows/stub.rs"]
mod rows;
#[cfg(not(wiresum_bpf))]
#[path = "switch/stub.rs"]
mod switch;

pub use af_xdp::{AfXdp, Arrival, Flushed, FrameCounters, Sending};
#[cfg(not(wiresum_bpf))]
pub use engine::LAYOUT_VERSION;
#[cfg(not(wiresum_bpf))]
pub use engine::Slots;
pub use engine::{XdpAggregator, attach_pass_program};
pub use error::XdpError;
pub use keyed::{KeyedOptions, KeyedProgram};
#[cfg(wiresum_bpf)]
pub use layout::LAYOUT_VERSION;
pub use options::{AttachMode, Estate, HotStream, Options, SwitchOptions, require_a_page};
#[cfg(wiresum_bpf)]
#[doc(hidden)]
pub use rows::Feed as RowsFeed;
#[cfg(wiresum_bpf)]
pub use rows::RowJudgement;
pub use rows::{Announced, Progress, RowRoom, RowsProgram};
#[cfg(wiresum_bpf)]
pub use slots::Slots;
#[cfg(wiresum_bpf)]
#[doc(hidden)]
pub use switch::Feed as SwitchFeed;
pub use switch::SwitchProgram;
#[cfg(wiresum_bpf)]
pub use switch::{Judgement, Reach};
