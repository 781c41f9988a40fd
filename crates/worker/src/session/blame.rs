//! Why a round is late, or joining is: what streams have learned from nodes, as a failure.

use std::time::Duration;

use super::Session;
use super::failure::Failure;
use crate::stream::Evidence;
use wiresum_protocol::Time;

impl Session {
    /// The failure of the oldest round, which holds up all others, or of joining.
    pub(super) fn blame(&self, now: Time) -> Failure {
        let oldest = self.rounds.oldest();
        let began = self.began.or(oldest.map(|open| open.submitted)).unwrap_or(now);
        let begun = oldest.map_or(began, |open| open.submitted);
        let (round, waited) = (self.rounds.current(), now.since(begun));
        match self.streams.evidence(&self.rounds, now) {
            Evidence::NotWelcomed { node, address } => {
                Failure::NotWelcomed { node, address, waited: now.since(began) }
            }
            Evidence::Silent { node, address, since } => {
                let silent: Duration = now.since(since.unwrap_or(begun));
                Failure::Silent { round, node, address, silent }
            }
            Evidence::Missing { node, fragment, missing } => {
                Failure::Missing { round, fragment, node, missing, waited }
            }
            Evidence::NoResult { node, fragment, suspects } => {
                Failure::NoResult { round, fragment, node, suspects, waited }
            }
        }
    }
}
