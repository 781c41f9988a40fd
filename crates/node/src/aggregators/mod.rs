//! Aggregators: nodes of trees, which sum what their children send.

mod adder;
pub mod control;
pub mod jobs;
pub mod kernel;
mod over_tcp;
mod over_udp;
mod state;
mod threads;
pub mod transmitters;

use wiresum_protocol::{Plan, Verdict};

pub(crate) use adder::datagrams_under_way;
pub use over_tcp::TcpAggregators;
pub use over_udp::UdpAggregators;
pub use state::{JobState, State};
pub use threads::{MAX_THREADS, ThreadedAggregators, ThreadsError};

fn by_name(verdicts: impl IntoIterator<Item = (Verdict, u64)>) -> Vec<(&'static str, u64)> {
    verdicts.into_iter().map(|(verdict, count)| (verdict.name(), count)).collect()
}

/// Refuses a plan whose switches sum, or whose packets travel otherwise than here.
fn require_tree(plan: &Plan, is_over_tcp: bool) -> Result<(), String> {
    let problem = match (plan.fabric.is_some(), plan.is_over_tcp()) {
        (true, _) => {
            "the plan has a `fabric`, and this daemon was started as an aggregation server"
        }
        (false, true) if !is_over_tcp => {
            "the plan's packets travel over TCP, and this daemon has no connections"
        }
        (false, false) if is_over_tcp => {
            "the plan's packets are datagrams, and this daemon has connections only"
        }
        _ => return Ok(()),
    };
    Err(format!("{problem}: start another daemon with this plan"))
}
