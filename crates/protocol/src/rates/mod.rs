//! Rate negotiation between parents and children (XAgg, IEEE/ACM Transactions on Networking, 2023, §IV-C). The section "Rates" of
//! `spec/aggregation.md` is its prose.
//!
//! | file | what it decides |
//! | --- | --- |
//! | `allocation` | who may send how fast, given who sends |
//! | `latest` | which of two notifications counts |
//! | `request` | what a child tells its parent, and until when |
//! | `negotiator` | a node between its children and its parents |

mod allocation;
mod latest;
mod negotiator;
mod request;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod virtual_time;

pub use allocation::{Bounds, Demands, Results, allocate, sum_rate};
pub use latest::Epoch;
pub use negotiator::Negotiator;
pub use request::{Congestion, Latencies, Notice, Request};

/// Part of a link that is left to what is not paced: exponents, questions, and their answers.
const HEADROOM: f64 = 0.01;

/// The part of a link's bandwidth that is shared among paced flows, in bit/s.
#[must_use]
pub fn usable_bps(link_bps: u64) -> u64 {
    (link_bps as f64 * (1.0 - HEADROOM)) as u64
}

/// A rate that bounds nothing, in bit/s.
pub const UNLIMITED_BPS: u64 = 1 << 62;
