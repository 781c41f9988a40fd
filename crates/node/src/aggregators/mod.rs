//! Aggregators: nodes of trees, which sum what their children send.

mod adder;
pub mod control;
pub mod jobs;
pub mod kernel;
mod over_tcp;
mod over_udp;
mod state;
pub mod transmitters;

use wiresum_protocol::{Plan, Verdict};

pub(crate) use adder::datagrams_under_way;
pub use over_tcp::TcpAggregators;
pub use over_udp::UdpAggregators;
pub use state::{JobState, State};

fn by_name(verdicts: impl IntoIterator<Item = (Verdict, u64)>) -> Vec<(&'static str, u64)> {
    verdicts.into_iter().map(|(verdict, count)| (verdict.name(), count)).collect()
}

/// Refuses a plan whose switches sum.
fn require_tree(plan: &Plan) -> Result<(), String> {
    let of_switches = "the plan has a `fabric`, and this daemon was started as an aggregation server: start one with this plan";
    if plan.fabric.is_some() { Err(of_switches.to_owned()) } else { Ok(()) }
}
