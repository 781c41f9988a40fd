//! A sparse job as a file: who takes part, where, and with which tables. Every participant reads the same.

use std::net::SocketAddr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use wiresum_keys::{Keyring, Seat, SeatKey, Secret};
use wiresum_wire::{HEADER_LEN, JobId, JobKey, PAGE_PAYLOAD, ROW_HEADER_LEN, RowKind};

use super::tree::Tree;
use crate::hot::{HotMap, HotRows, MapError};
use crate::message::ToServer;
use crate::packet::Renewal;
use crate::server::ServerSpec;
use crate::sum::MAX_CONTRIBUTORS;
use crate::summer::SummerSpec;
use crate::table::{Shards, TableError, TableSpec, ValueType};
use crate::tracking::{Follow, HotSet, Tracking};
use crate::worker::WorkerSpec;

/// The document's name and version.
pub const FORMAT: &str = "wiresum-sparse-job/1";
/// Datagrams of an Ethernet frame, below IPv4 and UDP.
const PACKET_BYTES: usize = 1472;
/// Rows of a server take at most this, unless the job says otherwise: 4 GiB.
const MEMORY_BYTES: u64 = 4 << 30;

/// A sparse job: who takes part, where, and with which tables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// [`FORMAT`].
    pub format: String,
    /// Number of the job.
    pub id: u16,
    /// Workers.
    pub workers: u32,
    /// Where the servers of tables receive; each keeps an equal share of all rows.
    pub servers: Vec<SocketAddr>,
    /// Where the switches receive that sum hot rows; none if there are no hot rows.
    #[serde(default)]
    pub switches: Vec<SocketAddr>,
    /// Who sends hot rows to which switch; where absent, positions are divided among all switches, which hear all workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<Tree>,
    /// The tables.
    pub tables: Vec<TableSpec>,
    /// The hot rows; absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hot: Option<HotRows>,
    /// How the hot rows follow popularity while the job runs; absent if they stay as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracking: Option<Tracking>,
    /// Bytes that the rows of a server may take.
    #[serde(default = "memory_bytes")]
    pub memory_bytes: u64,
    /// Largest datagram.
    #[serde(default = "packet_bytes")]
    pub packet_bytes: usize,
    /// How often the keys of packets of rows are renewed.
    #[serde(default, skip_serializing_if = "Renewal::is_default")]
    pub renewal: Renewal,
    /// What strangers do not know: 64 hexadecimal digits.
    pub secret: String,
}

fn memory_bytes() -> u64 {
    MEMORY_BYTES
}

fn packet_bytes() -> usize {
    PACKET_BYTES
}

/// A job that cannot be. Whoever tells it says which file.
#[derive(Debug, Error, PartialEq)]
pub enum JobError {
    /// No job file at all.
    #[error("cannot be read: {0}")]
    Syntax(String),
    /// A field that makes no sense.
    #[error("{field} {problem}")]
    Field {
        /// The field.
        field: &'static str,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// See [`TableError`].
    #[error("{0}")]
    Table(#[from] TableError),
    /// See [`MapError`].
    #[error("hot: {0}")]
    Map(#[from] MapError),
}

pub(super) fn wrong(field: &'static str, problem: impl Into<String>) -> JobError {
    JobError::Field { field, problem: problem.into() }
}

/// What a file says, unchecked.
pub(super) fn parsed<T: DeserializeOwned>(text: &str) -> Result<T, JobError> {
    serde_json::from_str(text).map_err(|error| JobError::Syntax(error.to_string()))
}

/// Whether a file has the format that this program reads.
pub(super) fn check_format(found: &str, known: &str) -> Result<(), JobError> {
    if found == known {
        return Ok(());
    }
    Err(wrong("format", format!("is {found:?}: this program reads {known}")))
}

/// Whether a file's secret is one.
pub(super) fn check_secret(digits: &str) -> Result<(), JobError> {
    Secret::from_digits(digits)
        .map(|_| ())
        .ok_or_else(|| wrong("secret", "is not 64 hexadecimal digits"))
}

/// Whether a file's keys are renewed as often as can be.
pub(super) fn check_renewal(renewal: &Renewal) -> Result<(), JobError> {
    renewal.validate().map_err(|problem| wrong("renewal", problem))
}

impl Job {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn from_json(text: &str) -> Result<Self, JobError> {
        let job: Self = parsed(text)?;
        job.validate()?;
        Ok(job)
    }

    fn validate(&self) -> Result<(), JobError> {
        check_format(&self.format, FORMAT)?;
        if !(1..=MAX_CONTRIBUTORS).contains(&self.workers) {
            let problem = format!("are {}: 1 to {MAX_CONTRIBUTORS} can meet", self.workers);
            return Err(wrong("workers", problem));
        }
        if self.servers.is_empty() {
            return Err(wrong("servers", "are none: rows live at one at least"));
        }
        let nodes = self.servers.len() + self.switches.len();
        if nodes > usize::from(u8::MAX) - MAX_CONTRIBUTORS as usize {
            return Err(wrong("servers", format!("and switches are {nodes}: too many")));
        }
        check_secret(&self.secret)?;
        check_renewal(&self.renewal)?;
        if let Some(tree) = &self.tree {
            tree.validate(self.workers, self.switches.len())?;
        }
        self.validate_tables()?;
        let room = self.room();
        let widest = self.tables.iter().map(|table| table.dim).max().unwrap_or(1);
        let is_too_long = |kind: RowKind| kind.rows_for(room, widest.into()) == 0;
        let inner = self.tree.as_ref().map(|_| RowKind::RowSums);
        if [RowKind::Push, RowKind::HotSums].into_iter().chain(inner).any(is_too_long) {
            let problem =
                format!("are {}: a row of {widest} values does not fit", self.packet_bytes);
            return Err(wrong("packet_bytes", problem));
        }
        self.validate_hot()
    }

    fn validate_tables(&self) -> Result<(), JobError> {
        if self.tables.is_empty() {
            return Err(wrong("tables", "are none: a sparse job has one at least"));
        }
        for (index, table) in self.tables.iter().enumerate() {
            table.validate()?;
            let before = &self.tables[..index];
            if before.iter().any(|other| other.id == table.id || other.name == table.name) {
                let problem = format!("have two of number {} or name {}", table.id.0, table.name);
                return Err(wrong("tables", problem));
            }
        }
        Ok(())
    }

    fn validate_hot(&self) -> Result<(), JobError> {
        let Some(hot) = &self.hot else {
            let problem = "is there, and no hot map: give one with positions, its rows may be none";
            return self.tracking.map_or(Ok(()), |_| Err(wrong("tracking", problem)));
        };
        hot.validate()?;
        hot.fit(&self.tables, u32::MAX)?;
        if self.switches.is_empty() && !hot.rows.is_empty() {
            return Err(wrong("switches", "are none, and there are hot rows: name who sums them"));
        }
        self.validate_tracking(hot)
    }

    fn validate_tracking(&self, hot: &HotRows) -> Result<(), JobError> {
        let Some(tracking) = &self.tracking else { return Ok(()) };
        let named = |(field, problem)| wrong("tracking", format!("{field} {problem}"));
        tracking.validate().map_err(named)?;
        if self.switches.is_empty() || hot.positions == 0 {
            let problem = "has no rows to change: give a hot map with positions, and switches";
            return Err(wrong("tracking", problem));
        }
        // A row goes to the workers and back with its optimizer's state, in one packet.
        let is_long =
            |table: &&TableSpec| RowKind::Return.payload_len(1, table.stride()) > self.room();
        match self.tables.iter().filter(|table| table.dim == hot.dim).find(is_long) {
            None => Ok(()),
            Some(table) => {
                let bytes = RowKind::Return.payload_len(1, table.stride());
                let problem = format!(
                    "are {}: a row of table {} with its state takes {bytes} after the headers",
                    self.packet_bytes, table.name
                );
                Err(wrong("packet_bytes", problem))
            }
        }
    }

    /// Which rows are to be hot, if they change.
    #[must_use]
    pub fn hot_set(&self) -> Option<HotSet> {
        self.tracking.map(|tracking| HotSet::of_size(tracking, &self.map()))
    }

    /// Participants that send gradients or sums: workers, then switches.
    #[must_use]
    pub fn senders(&self) -> u32 {
        self.workers + self.switches.len() as u32
    }

    /// The map that the job begins with.
    #[must_use]
    pub fn map(&self) -> HotMap {
        match &self.hot {
            Some(hot) => HotMap::new(hot.clone()).expect("a job was validated"),
            None => HotMap::empty(1, self.tables[0].dim),
        }
    }

    /// A fingerprint of all that participants have to agree on.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let (memory_bytes, servers) = (0, Vec::new());
        let counts = [self.servers.len(), self.switches.len()];
        let same = Self {
            memory_bytes,
            servers,
            switches: Vec::new(),
            secret: String::new(),
            ..self.clone()
        };
        let text = serde_json::to_string(&(same, counts)).expect("a job serialises");
        crate::fingerprint(text.as_bytes())
    }

    /// What tells packets of one incarnation from those of others.
    #[must_use]
    pub fn key(&self, incarnation: u64) -> JobKey {
        self.keys().association(incarnation)
    }

    /// The key that a sender and a node share; none for a sender that is no contributor.
    #[must_use]
    pub fn seat_key(&self, node: u16, sender: u32) -> Option<SeatKey> {
        let contributor = u8::try_from(sender).ok()?;
        self.keys().seat(Seat { node, stream: 0, contributor })
    }

    /// The keys that a node shares with contributors, by number; whoever could be one has a key.
    pub(super) fn seat_keys(&self, node: u16) -> Vec<SeatKey> {
        let keys = self.keys();
        let key = |contributor| keys.seat(Seat { node, stream: 0, contributor });
        (0..=u8::MAX).map(|contributor| key(contributor).expect("the whole secret")).collect()
    }

    /// All keys of the job.
    #[must_use]
    pub fn keys(&self) -> Keyring {
        Keyring::whole(Secret::from_digits(&self.secret).expect("a job was validated"))
    }

    /// Its number.
    #[must_use]
    pub fn job_id(&self) -> JobId {
        JobId(self.id)
    }

    /// Where a node receives: servers are numbered from 0, then switches.
    #[must_use]
    pub fn address(&self, node: u16) -> Option<SocketAddr> {
        self.servers.iter().chain(&self.switches).nth(node.into()).copied()
    }

    /// How many servers there are.
    #[must_use]
    pub fn shards(&self) -> Shards {
        Shards(self.servers.len() as u16)
    }

    /// Whether a table has values of 16 bits.
    #[must_use]
    pub fn has_narrow_values(&self) -> bool {
        self.tables.iter().any(|table| table.value != ValueType::Float32)
    }

    /// Bytes of a packet after its headers, in whole words.
    #[must_use]
    pub fn room(&self) -> usize {
        let room = self.packet_bytes.saturating_sub(HEADER_LEN + ROW_HEADER_LEN);
        (room / 4 * 4).min(PAGE_PAYLOAD - ROW_HEADER_LEN)
    }

    /// Whether the answer to a question fits a packet: workers ask for no more, and who does is to get no longer answers.
    pub(super) fn has_room_for_answer(&self, message: &ToServer) -> bool {
        let ToServer::Pull { table, keys, with_state, .. } = message else { return true };
        let spec = self.tables.iter().find(|spec| spec.id == *table);
        let most = |spec: &TableSpec| {
            let value = spec.value_of(*with_state).in_packets();
            RowKind::Weights.rows_of(self.room(), spec.len_of(*with_state), value)
        };
        spec.is_none_or(|spec| keys.len() <= most(spec))
    }

    pub(super) fn worker_spec(&self, rank: u32) -> WorkerSpec {
        WorkerSpec {
            rank,
            workers: self.workers,
            shards: self.shards(),
            switches: self.roots(),
            tables: self.tables.clone(),
            room: self.room(),
        }
    }

    pub(super) fn server_spec(&self, shard: u16) -> ServerSpec {
        ServerSpec {
            shard,
            shards: self.shards(),
            workers: self.workers,
            switches: self.switches.len() as u32,
            roots: self.roots().into(),
            tables: self.tables.clone(),
            memory_bytes: self.memory_bytes,
            hot_set: self.hot_set(),
        }
    }

    pub(super) fn summer_spec(&self, switch: u16) -> SummerSpec {
        SummerSpec {
            workers: self.workers,
            children: self.children(switch),
            has_parent: self.parent(switch).is_some(),
            shards: self.shards(),
            tables: self.tables.clone(),
            room: self.room(),
            is_prompt: true,
        }
    }
}
