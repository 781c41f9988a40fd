//! Aggregation programs for switches with little memory, over a model of an RMT pipeline. `spec/switch.md` is the prose of this crate.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`rmt`] | the resource model: stages, register arrays, one access per array and pass |
//! | [`policy`] | one file per policy: its switch program and its sender's rules |
//! | [`keyed`] | Zebra's program, which sums pairs of keys and values |
//! | [`Switch`] | a program, its memory and its table of streams |
//! | [`Worker`] | a sender: window, addressing, recovery |
//! | [`ParameterServer`] | completes what switches did not sum |
//! | [`Forwarding`] | where packets go next, by a plan's [`Ways`] |
//! | [`live`] | nodes and workers of a plan's fabric, datagrams in and out |
//! | [`wire`] | packets as datagrams |
//!
//! Everything is sans-IO: packets, the time and commands go in; packets, the next deadline and counts come out. Packets are
//! generic over their [`Payload`]: exact lanes where sums matter, nothing where a simulation counts packets only.
//!
//! Two workers, a switch with room for four fragments, and a parameter server:
//!
//! ```
//! use wiresum_protocol::Time;
//! use wiresum_switch::{policy::Policy, rmt::Profile, *};
//! use wiresum_wire::{Flags, JobId, NodeId, SubModelId};
//!
//! let (job, sub_model) = (JobId(1), SubModelId(0));
//! let (cohort, members) = (Cohort(0), Contributors::first(2));
//! let lanes = Flags(0); // sums of 32 bits
//! let mut switch: Switch<Values> = Switch::new(NodeId(1), Policy::Hash, 4, 8, &Profile::TOFINO_1)?;
//! let parent = Some(NodeId(9));
//! switch.install(Place { job, sub_model, cohort, members, parent, base: 0, slots: 4, window: 4, lanes })?;
//! let mut server = ParameterServer::default();
//! server.serve(Serving { job, sub_model, members: Workers::first(2), window: 4, lanes });
//!
//! let mut sums = Vec::new();
//! for worker in 0..2 {
//!     let policy = Policy::Hash;
//!     let sending = Sending { policy, job, sub_model, worker, workers: 2, window: 4, slots: 4, ..Sending::default() };
//!     let mut sender = Worker::new(sending);
//!     sender.begin(1);
//!     while let Some(packet) = sender.poll_transmit(Time(0)) {
//!         let mut packet = packet.carrying(vec![10, 20 + i32::from(worker)]);
//!         if switch.handle(&mut packet).egress == Egress::Up && server.handle(&mut packet).egress == Egress::Down {
//!             sums.push(packet.values);
//!         }
//!     }
//! }
//! assert_eq!(sums, [[20, 41]]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

pub mod keyed;
pub mod live;
mod packet;
mod payload;
pub mod policy;
pub mod rmt;
mod server;
mod switch;
mod table;
mod verdict;
pub mod wire;
mod worker;

pub use packet::Packet;
pub use payload::{Payload, Values};
pub use server::ParameterServer;
pub use switch::Switch;
pub use table::{MAX_STREAMS, MAX_WINDOW, PlaceError, Table};
pub use verdict::{Counters, Egress, Outcome, Verdict};
pub use wiresum_plan::ways::{ANY_NODE, Hop, Leg, MAX_WORKERS, Site, Way, WayError, Ways};
pub use wiresum_plan::{
    Cohort, Contributors, Forwarding, Neighbour, Place, Serving, UpKey, Workers,
};
pub use worker::{Addressing, Received, Rules, Sending, Window, Worker, WorkerCounters};

/// The tutorial's code is run as it stands.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/extend/policy.md")]
mod tutorial {}
