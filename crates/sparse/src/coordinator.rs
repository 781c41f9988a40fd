//! The one place where the map is decided on: beside one of the servers, for all of them.
//!
//! What is decided for round r is what round r + 1 has. Every server waits for it before it closes round r, if r is a
//! multiple of the period; so all name the same map in the message that closes the round, and workers need no agreement.

use std::sync::Arc;

use wiresum_netem::Time;

use crate::hot::{HotMap, MapChange, MapError, RowId, Tier};
use crate::message::ToServer;
use crate::sending::{DECISION, Sending};
use crate::table::Shards;

/// See the module.
#[derive(Clone, Debug)]
pub struct Coordinator {
    shards: Shards,
    map: HotMap,
    to_servers: Sending<ToServer>,
}

impl Coordinator {
    /// With the job's first map.
    #[must_use]
    pub fn new(shards: Shards, map: HotMap) -> Self {
        Self { shards, map, to_servers: Sending::default() }
    }

    /// The map as it was last decided.
    #[must_use]
    pub fn map(&self) -> &HotMap {
        &self.map
    }

    /// Decides which rows are hot after round `round`, the more popular ones first.
    ///
    /// # Errors
    /// [`MapChange::between`].
    pub fn decide(&mut self, round: u32, wanted: &[(RowId, Tier)]) -> Result<(), MapError> {
        let change = MapChange::between(&self.map, wanted)?;
        let is_change = !(change.promoted.is_empty() && change.demoted.is_empty());
        if is_change {
            self.map = change.apply(&self.map)?;
        }
        let change = is_change.then(|| Arc::new(change));
        for server in 0..self.shards.0 {
            let decision = ToServer::Decision { round, change: change.clone() };
            self.to_servers.send((server, round, DECISION), decision);
        }
        Ok(())
    }

    /// A server knows what was decided for a round.
    pub fn handle_acknowledgement(&mut self, server: u16, round: u32) {
        self.to_servers.answered((server, round, DECISION));
    }

    /// A server has restarted from a snapshot of after round `version`.
    pub fn handle_restart(&mut self, server: u16, version: u32) {
        self.to_servers.restarted(server, version);
    }

    /// A server has a snapshot of after round `version`.
    pub fn handle_snapshot(&mut self, server: u16, version: u32) {
        self.to_servers.forget(server, version);
    }

    /// The next thing for a server.
    pub fn poll_to_server(&mut self, now: Time) -> Option<(u16, ToServer)> {
        self.to_servers.poll(now)
    }

    /// When something is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.to_servers.next_due()
    }
}
