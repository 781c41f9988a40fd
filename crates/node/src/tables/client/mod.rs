//! A worker of a sparse job. A thread of its own moves datagrams, so rounds go on while the program computes.
//!
//! What is submitted is done in order: a round begins when the one before is over and all rows that were asked for after it
//! are here. Rows that are asked for behind a round that is under way come as soon as their sums are complete, so pushes and
//! pulls overlap.

mod error;
mod mover;

use std::collections::BTreeMap;
use std::io;
use std::mem::take;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use wiresum_sparse::hot::RowId;
use wiresum_sparse::live::{Job, Member};
use wiresum_sparse::table::{RowIds, TableId, TableSpec};
use wiresum_sparse::worker::Gradients;
use wiresum_wire::RowKind;

use super::UNDER_WAY;
use crate::udp::Socket;

pub use error::ClientError;
use mover::{Mover, Shared, Slot, Step};

/// How often a waiting call looks whether it is to be given up.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Rounds that may be submitted beyond the one under way: their gradients are kept in memory.
const ROUNDS_AHEAD: usize = 4;

/// A worker of a sparse job with a thread of its own; submitted rounds and pulls are done in order.
pub struct RowClient {
    job: Arc<Job>,
    shared: Arc<Shared>,
    mover: Option<JoinHandle<()>>,
    address: SocketAddr,
    timeout: Duration,
    /// Says that a waiting call is to be given up.
    is_given_up: fn() -> bool,
    /// What was pushed for the round that is not submitted yet.
    gradients: Gradients,
    /// What was put in it.
    puts: BTreeMap<RowId, Vec<f32>>,
}

/// Something that was submitted: rows that were asked for, or a round.
#[derive(Clone)]
pub struct Submitted {
    slot: Arc<Slot>,
    shared: Arc<Shared>,
    what: &'static str,
    timeout: Duration,
    is_given_up: fn() -> bool,
}

impl Submitted {
    /// Whether it has ended, well or not: [`Self::wait`] returns at once.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.shared.is_done(&self.slot)
    }

    /// Waits until it is done; of rows, their weights, one after the other in the order of the keys.
    ///
    /// # Errors
    /// [`ClientError`]: the end of the job.
    pub fn wait(&self) -> Result<Vec<f32>, ClientError> {
        let deadline = Instant::now() + self.timeout;
        loop {
            if let Some(outcome) = self.shared.wait(&self.slot, CHECK_INTERVAL) {
                return outcome;
            }
            if (self.is_given_up)() {
                return Err(self.shared.fail(ClientError::Interrupted));
            }
            if Instant::now() >= deadline {
                return Err(self.shared.time_out(self.what, self.timeout));
            }
        }
    }
}

impl RowClient {
    /// Joins a job: waits until all servers and switches have welcomed this rank.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn join(
        job: &Arc<Job>,
        rank: u32,
        incarnation: u64,
        address: Option<SocketAddr>,
        timeout: Duration,
        is_given_up: fn() -> bool,
    ) -> Result<Self, ClientError> {
        if rank >= job.workers {
            return Err(ClientError::Rank { rank, workers: job.workers });
        }
        let address = address.unwrap_or_else(|| any_address(job));
        let nodes = job.servers.len() + job.switches.len();
        let refused = |error: io::Error| ClientError::Bind { address, problem: error.to_string() };
        let socket = Socket::bind(address, UNDER_WAY * nodes).map_err(refused)?;
        let address = socket.local_address().map_err(refused)?;
        let failed = |error: io::Error| ClientError::Socket(error.to_string());
        let shared = Shared::new(Member::new(job, rank, incarnation)).map_err(failed)?;
        let shared = Arc::new(shared);
        let mover = Mover::new(Arc::clone(&shared), socket);
        let name = format!("wiresum-rows-{rank}");
        let mover = thread::Builder::new().name(name).spawn(move || mover.run()).map_err(failed)?;
        let (mover, job) = (Some(mover), Arc::clone(job));
        let (gradients, puts) = Default::default();
        let client = Self { job, shared, mover, address, timeout, is_given_up, gradients, puts };
        client.submit("joining", |slot| Step::Join { slot })?.wait()?;
        Ok(client)
    }

    /// The job.
    #[must_use]
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// Rounds that are over.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.shared.version()
    }

    /// Where this worker receives.
    #[must_use]
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// Counts since joining, by name.
    #[must_use]
    pub fn statistics(&self) -> [(&'static str, u64); 7] {
        self.shared.statistics()
    }

    /// Fills `weights` with rows as they are after the last submitted round, in the order of `keys`.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn pull(
        &self,
        table: TableId,
        keys: &[u64],
        weights: &mut [f32],
    ) -> Result<(), ClientError> {
        self.check(table, keys, weights.len())?;
        weights.copy_from_slice(&self.ask(table, keys)?.wait()?);
        Ok(())
    }

    /// Asks for rows as they will be after the last submitted round, and does not wait for them.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn ask(&self, table: TableId, keys: &[u64]) -> Result<Submitted, ClientError> {
        let dim = self.table(table)?.dim;
        self.check(table, keys, keys.len() * usize::from(dim))?;
        let rows = keys.iter().map(|key| RowId { table, key: *key }).collect();
        self.submit("a pull", |slot| Step::Ask { rows, slot })
    }

    /// Fills `values` with all that is stored of rows after the last submitted round: weights, then the optimizer's state.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn pull_stored(
        &self,
        table: TableId,
        keys: &[u64],
        values: &mut [f32],
    ) -> Result<(), ClientError> {
        self.check_stored(table, keys, values.len())?;
        let rows = keys.iter().map(|key| RowId { table, key: *key }).collect();
        let stored = self.submit("a pull", |slot| Step::AskStored { rows, slot })?;
        values.copy_from_slice(&stored.wait()?);
        Ok(())
    }

    /// Has rows be this after the round, whatever their gradients in it: weights, then the optimizer's state.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn put(&mut self, table: TableId, keys: &[u64], values: &[f32]) -> Result<(), ClientError> {
        let stride = self.check_stored(table, keys, values.len())?.stride();
        let rows = keys.iter().map(|key| RowId { table, key: *key });
        let put = rows.zip(values.chunks_exact(stride).map(<[f32]>::to_vec));
        self.puts.extend(put);
        Ok(())
    }

    /// Adds gradients to those of the round: all, or none.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn push(
        &mut self,
        table: TableId,
        keys: &[u64],
        gradients: &[f32],
    ) -> Result<(), ClientError> {
        let spec = self.check(table, keys, gradients.len())?;
        let (dim, name) = (usize::from(spec.dim), spec.name.clone());
        let added = self.gradients.add(table, dim, keys, gradients);
        added.map_err(|key| ClientError::Range { table: name, key })
    }

    /// Sends what was pushed, and waits until the round is over for all.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn finish_round(&mut self) -> Result<u32, ClientError> {
        self.end_round()?.wait()?;
        Ok(self.version())
    }

    /// Ends the round with what was pushed, and does not wait until it is over for all. Waits only while too many rounds
    /// are submitted.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn end_round(&mut self) -> Result<Submitted, ClientError> {
        let earlier = self.shared.round_before(ROUNDS_AHEAD);
        if let Some(slot) = earlier {
            self.submitted(slot, "a round").wait()?;
        }
        let (gradients, puts) = (take(&mut self.gradients), take(&mut self.puts));
        self.submit("a round", |slot| Step::Round { gradients, puts, slot })
    }

    fn submit(
        &self,
        what: &'static str,
        step: impl FnOnce(Arc<Slot>) -> Step,
    ) -> Result<Submitted, ClientError> {
        let slot = Arc::new(Slot::default());
        self.shared.submit(step(Arc::clone(&slot)))?;
        Ok(self.submitted(slot, what))
    }

    fn submitted(&self, slot: Arc<Slot>, what: &'static str) -> Submitted {
        let (shared, timeout) = (Arc::clone(&self.shared), self.timeout);
        Submitted { slot, shared, what, timeout, is_given_up: self.is_given_up }
    }

    fn table(&self, table: TableId) -> Result<&TableSpec, ClientError> {
        let spec = self.job.tables.iter().find(|spec| spec.id == table);
        spec.ok_or(ClientError::NoTable(table.0))
    }

    fn check(&self, table: TableId, keys: &[u64], found: usize) -> Result<&TableSpec, ClientError> {
        let spec = self.table(table)?;
        check_rows(spec, spec.len_of(false), keys, found)
    }

    fn check_stored(
        &self,
        table: TableId,
        keys: &[u64],
        found: usize,
    ) -> Result<&TableSpec, ClientError> {
        let spec = self.table(table)?;
        let (bytes, room) = (RowKind::Put.payload_len(1, spec.stride()), self.job.room());
        if bytes > room {
            return Err(ClientError::Long { table: spec.name.clone(), bytes, room });
        }
        check_rows(spec, spec.len_of(true), keys, found)
    }
}

/// Whether a table has such rows, and there are `len` numbers for each of them.
fn check_rows<'a>(
    spec: &'a TableSpec,
    len: usize,
    keys: &[u64],
    found: usize,
) -> Result<&'a TableSpec, ClientError> {
    let name = || spec.name.clone();
    if keys.len() * len != found {
        return Err(ClientError::Length { table: name(), len, found, rows: keys.len() });
    }
    if let RowIds::Counted(rows) = spec.rows
        && let Some(key) = keys.iter().find(|key| **key >= rows)
    {
        return Err(ClientError::NoRow { table: name(), key: *key, last: rows - 1 });
    }
    Ok(spec)
}

impl Drop for RowClient {
    fn drop(&mut self) {
        self.shared.leave();
        // A thread that has panicked has said so.
        let _ = self.mover.take().map(JoinHandle::join);
    }
}

/// Any address of the family of the servers; the kernel chooses the port.
fn any_address(job: &Job) -> SocketAddr {
    let any = if job.servers[0].is_ipv4() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED)
    } else {
        IpAddr::V6(Ipv6Addr::UNSPECIFIED)
    };
    SocketAddr::new(any, 0)
}
