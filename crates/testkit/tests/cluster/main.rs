//! Whole jobs of servers in virtual time, one file for each subject.

mod failures;
mod forecasts;
mod joining;
mod large;
mod quorum;
mod random;
mod rates;
mod removal;
mod seals;
mod sums;
mod throughput;

use std::net::SocketAddr;
use std::time::Duration;

use wiresum_netem::{Conditions, OVERHEAD_BYTES, PS_PER_US, Rng, Time};
use wiresum_protocol::plan::Child;
use wiresum_protocol::rates::{Bounds, Negotiator};
use wiresum_protocol::{Aggregator, ControlHalf, Plan, Verdict};
use wiresum_testkit::cluster::*;
use wiresum_wire::{FragmentId, MAX_PACKET, NodeId, Packet, Round};
use wiresum_worker::SwitchOver;
use wiresum_worker::{Failure, Session, Shape};
