//! A job that a daemon of tables serves: its host, its snapshots, and what is reported of both.

use std::net::SocketAddr;
use std::sync::Arc;

use wiresum_protocol::Time;
use wiresum_protocol::quota::Budget;
use wiresum_sparse::live::{Host, HostError, Job};
use wiresum_sparse::table::Table;

use super::{SnapshotSettings, Snapshots, TablesError};
use crate::clock::unix_time;
use crate::node::JobReport;

/// A sparse job at this daemon: the host that serves it, and its snapshots.
pub(super) struct Served {
    pub(super) host: Host,
    pub(super) snapshots: Option<Snapshots>,
    /// Bytes of the datagrams that named the job.
    pub(super) bytes: u64,
    /// What its participants may still send; absent without a quota.
    pub(super) budget: Option<Budget>,
    /// Datagrams beyond it, which were dropped.
    over_quota: u64,
}

impl Served {
    /// A node of a job; a server goes on from its last snapshot, if there is one.
    pub(super) fn begin(
        job: &Arc<Job>,
        node: u16,
        settings: Option<&SnapshotSettings>,
    ) -> Result<Self, TablesError> {
        let snapshots = settings.map(|settings| Snapshots::new(settings, job.job_id(), node));
        let snapshots = snapshots.transpose().map_err(TablesError::Snapshots)?;
        let last = snapshots.as_ref().map(Snapshots::last).transpose();
        let own = incarnation();
        let host = match last.map_err(TablesError::Snapshots)?.flatten() {
            Some(bytes) => Host::restore(job, node, own, &bytes)?,
            None => Host::new(job, node, own)?,
        };
        Ok(Self::of(host, snapshots))
    }

    /// A switch of a job whose rows a program in the kernel adds.
    pub(super) fn begin_over_program(job: &Arc<Job>, node: u16) -> Result<Self, HostError> {
        let host = Host::over_program(job, node, incarnation())?;
        Ok(Self::of(host, None))
    }

    fn of(host: Host, snapshots: Option<Snapshots>) -> Self {
        Self { host, snapshots, bytes: 0, budget: None, over_quota: 0 }
    }

    /// Whether a datagram is beyond the quota. What comes from somebody who has not joined takes nothing of it.
    pub(super) fn is_over_quota(&mut self, source: SocketAddr, len: usize, now: Time) -> bool {
        let Self { host, budget: Some(budget), over_quota, .. } = self else { return false };
        let is_over = host.has_joined(source) && !budget.take(now, len);
        *over_quota += u64::from(is_over);
        is_over
    }

    /// Bytes of its tables' rows; none at a switch.
    pub(super) fn memory_bytes(&self) -> u64 {
        let tables = self.host.server().into_iter().flat_map(|server| server.tables());
        tables.map(|table| Table::bytes_for(table.spec(), table.part())).sum()
    }

    /// Rows that its server has.
    pub(super) fn rows(&self) -> u64 {
        let tables = self.host.server().into_iter().flat_map(|server| server.tables());
        tables.map(Table::len).sum()
    }

    pub(super) fn report(&self) -> JobReport {
        let job = self.host.job();
        JobReport {
            job: job.job_id(),
            groups: Vec::new(),
            is_running: self.host.members() > 0,
            members: self.host.members(),
            expected_members: job.members_of(self.host.node()),
            memory_bytes: self.memory_bytes(),
            bytes: self.bytes,
            verdicts: self.verdicts(),
            streams: Vec::new(),
            tables: self.gauges(),
        }
    }

    /// What a server of tables has, by name.
    fn gauges(&self) -> Vec<(&'static str, u64)> {
        let Some(server) = self.host.server() else { return Vec::new() };
        let counters = server.counters();
        let mut all = vec![
            ("rows", self.rows()),
            ("rounds", self.host.version().into()),
            ("map_version", server.map().version().into()),
            ("hot_gradients", counters.hot),
            ("cold_gradients", counters.cold),
            ("rows_lent", counters.lent),
            ("rows_returning", counters.returning),
            ("restorable", self.host.restorable().into()),
        ];
        let age = self.snapshots.as_ref().and_then(Snapshots::age);
        all.extend(age.map(|age| ("snapshot_age_ms", age.as_millis() as u64)));
        all
    }

    /// What the host and its server count, by name.
    pub(super) fn verdicts(&self) -> Vec<(&'static str, u64)> {
        let host = self.host.counters();
        let mut all = vec![
            ("taken", host.taken),
            ("welcomed", host.welcomed),
            ("refused_hellos", host.refused),
            ("malformed", host.malformed),
            ("foreign", host.foreign),
            ("over_quota", self.over_quota),
        ];
        if let Some(server) = self.host.server() {
            let counters = server.counters();
            all.extend([
                ("rows_added", counters.rows),
                ("rows_pulled", counters.pulled),
                ("duplicates", counters.duplicates),
                ("late", counters.late),
                ("early", counters.early),
                ("refused", counters.refused),
            ]);
        }
        all
    }
}

/// Bytes that the rows of a job take at one of its nodes; none at a switch.
pub(super) fn memory_for(job: &Job, node: u16) -> Result<u64, HostError> {
    job.address(node).ok_or(HostError::Node(node))?;
    if node >= job.shards().0 {
        return Ok(0);
    }
    let part = |table| job.shards().part(table, node);
    Ok(job.tables.iter().map(|table| Table::bytes_for(table, &part(&table.rows))).sum())
}

/// Incarnation of this process: milliseconds since 1970, modulo 2³², so that one that is started later has a later one.
pub(crate) fn incarnation() -> u32 {
    unix_time().as_millis() as u32
}
