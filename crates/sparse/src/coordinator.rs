//! The one place where the map is decided on: beside one of the servers, for all of them.
//!
//! What is decided for round r is what round r + 1 has. Every server waits for it before it closes round r, if the map may
//! change then; so all name the same map in the message that closes the round, and workers need no agreement.
//!
//! Servers report what they had counted when round r was opened. What is decided follows from these reports and the map of
//! round r alone, so a coordinator that was restarted with its server decides as it had before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use wiresum_netem::Time;

use crate::hot::{HotMap, MapChange, MapError, RowId, Tier};
use crate::message::{Report, ToServer};
use crate::sending::{DECISION, Sending};
use crate::table::Shards;

/// More packets than a report of a million rows has, at a packet's least length: what says more lies.
const MAX_PARTS: u32 = 1 << 18;

/// Packets of one server about one round.
type Parts = Vec<Option<Report>>;

/// What servers have reported for each round, and the decision on the next hot map once all have.
#[derive(Clone, Debug)]
pub struct Coordinator {
    shards: Shards,
    /// By round and server.
    reports: BTreeMap<u32, BTreeMap<u16, Parts>>,
    to_servers: Sending<ToServer>,
}

impl Coordinator {
    /// Beside one of so many servers.
    #[must_use]
    pub fn new(shards: Shards) -> Self {
        Self { shards, reports: BTreeMap::new(), to_servers: Sending::default() }
    }

    /// A server has counted. What lies about its parts is not taken.
    pub fn handle_report(&mut self, server: u16, report: &Report) {
        if report.part >= report.parts || report.parts > MAX_PARTS {
            return;
        }
        let parts = self.reports.entry(report.round).or_default().entry(server).or_default();
        if parts.is_empty() {
            parts.resize(report.parts as usize, None);
        }
        if let Some(place) = parts.get_mut(report.part as usize) {
            place.get_or_insert_with(|| report.clone());
        }
    }

    /// What all servers have counted for round `open` of the server beside, the largest counts first, once all of it is in.
    pub fn poll_ranking(&mut self, open: u32) -> Option<Vec<RowId>> {
        // What is decided for earlier rounds the server beside has from the workers, or it would not be here.
        self.reports = self.reports.split_off(&open);
        let reports = self.reports.get(&open)?;
        let is_whole = |parts: &Parts| parts.iter().all(Option::is_some);
        if reports.len() < usize::from(self.shards.0) || !reports.values().all(is_whole) {
            return None;
        }
        let mut all = Vec::new();
        for report in self.reports.remove(&open)?.into_values().flatten().flatten() {
            let row = |key| RowId { table: report.table, key };
            all.extend(report.counts.iter().copied().zip(report.keys.iter().copied().map(row)));
        }
        all.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut seen = BTreeSet::new();
        Some(all.into_iter().map(|(_, row)| row).filter(|row| seen.insert(*row)).collect())
    }

    /// Decides which rows are hot after round `round`, which has this map: the more popular ones first. The change, if there is
    /// one.
    ///
    /// # Errors
    /// [`MapChange::between`].
    pub fn decide(
        &mut self,
        round: u32,
        map: &HotMap,
        wanted: &[(RowId, Tier)],
    ) -> Result<Option<Arc<MapChange>>, MapError> {
        let change = MapChange::between(map, wanted)?;
        let is_change = !(change.promoted.is_empty() && change.demoted.is_empty());
        let change = is_change.then(|| Arc::new(change));
        for server in 0..self.shards.0 {
            let decision = ToServer::Decision { round, change: change.clone() };
            self.to_servers.send((server, round, DECISION), decision);
        }
        Ok(change)
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
