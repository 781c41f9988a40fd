//! A server's rows as bytes, taken while rounds go on, and a server from such bytes.
//!
//! Rows are walked in pieces, between other work, so some are written as they were earlier than others. Once all are
//! written, the rows that changed meanwhile are written again, just before the next round closes. So the whole is of one
//! version, and every worker has heard that its round was closed: nobody can ask for older news after a restart.
//!
//! Workers keep what they sent for later rounds, and send it again to a restarted server. Sums do not depend on order, so
//! the server comes to the same bits.

use super::{Closed, Round, Server, ServerSpec, SnapshotError};
use crate::FINGERPRINT_OF_NOTHING;
use crate::hot::{HotMap, HotRow, HotRows, RowId, Tier};
use crate::table::{Row, Table, TableError, TableId};

const MAGIC: &[u8; 8] = b"WSROWS\0\x01";
const ROW: u8 = 1;
const GONE: u8 = 2;
const END: u8 = 3;
const COUNT: u8 = 4;
const HOT: u8 = 5;

/// The last piece of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The rows are as they are after this round; what workers send for later ones is to be kept.
    pub version: u32,
    /// The bytes after all pieces.
    pub last_piece: Vec<u8>,
}

/// How far a snapshot has come.
#[derive(Clone, Debug)]
pub(super) struct Walk {
    table: usize,
    place: usize,
    fingerprint: u64,
    finished: Option<Snapshot>,
}

impl Walk {
    fn give(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        self.fingerprint = crate::fingerprint_from(self.fingerprint, &bytes);
        bytes
    }
}

impl Server {
    /// Begins a snapshot; the first piece. One that was not finished is given up.
    pub fn begin_snapshot(&mut self) -> Vec<u8> {
        self.tables.iter_mut().for_each(Table::begin_walk);
        let mut walk =
            Walk { table: 0, place: 0, fingerprint: FINGERPRINT_OF_NOTHING, finished: None };
        let mut bytes = MAGIC.to_vec();
        bytes.extend(self.spec.fingerprint().to_be_bytes());
        let piece = walk.give(bytes);
        self.walk = Some(walk);
        piece
    }

    /// The next piece, of at most so many rows; empty once all were written. The last piece comes with a round's end, from
    /// [`Self::poll_snapshot`].
    pub fn walk_snapshot(&mut self, rows: usize) -> Vec<u8> {
        let Some(mut walk) = self.walk.take() else { return Vec::new() };
        let mut bytes = Vec::new();
        let version = self.round.number - 1;
        for _ in 0..rows {
            let Some(table) = self.tables.get(walk.table) else { break };
            match table.walk(walk.place, version) {
                None => (walk.table, walk.place) = (walk.table + 1, 0),
                Some((next, row)) => {
                    walk.place = next;
                    row.iter().for_each(|(key, row)| put_row(&mut bytes, walk.table, *key, row));
                }
            }
        }
        let piece = walk.give(bytes);
        self.walk = Some(walk);
        piece
    }

    /// The last piece, once a round was about to close after all rows were written.
    pub fn poll_snapshot(&mut self) -> Option<Snapshot> {
        self.walk.take_if(|walk| walk.finished.is_some())?.finished
    }

    /// Ends the snapshot, if all rows were written: with what changed since it began.
    pub(super) fn finish_snapshot(&mut self) {
        let version = self.round.number - 1;
        let count = self.tables.len();
        let is_walked = |walk: &Walk| walk.table == count && walk.finished.is_none();
        let Some(mut walk) = self.walk.take_if(|walk| is_walked(walk)) else { return };
        let mut bytes = Vec::new();
        for (number, table) in self.tables.iter_mut().enumerate() {
            for (key, row) in table.walked(version) {
                match row {
                    Some(row) => put_row(&mut bytes, number, key, &row),
                    None => put_key(&mut bytes, GONE, number, key),
                }
            }
        }
        self.put_hot_set(&mut bytes);
        self.put_end(&mut bytes, version);
        let mut last_piece = walk.give(bytes);
        last_piece.extend(walk.fingerprint.to_be_bytes());
        walk.finished = Some(Snapshot { version, last_piece });
        self.walk = Some(walk);
    }

    /// Where the hot set changes: the map, and what was counted, so that the same is decided after a restart.
    fn put_hot_set(&self, bytes: &mut Vec<u8>) {
        if self.spec.hot_set.is_none() {
            return;
        }
        for (row, count) in self.tracker.candidates(usize::MAX) {
            put_key(bytes, COUNT, row.table.0.into(), row.key);
            bytes.extend(count.to_bits().to_be_bytes());
        }
        for hot in &self.map.document().rows {
            put_key(bytes, HOT, hot.row.table.0.into(), hot.row.key);
            bytes.extend(hot.position.to_be_bytes());
            bytes.push(u8::from(hot.tier == Tier::B));
        }
    }

    fn put_end(&self, bytes: &mut Vec<u8>, version: u32) {
        bytes.push(END);
        bytes.extend(version.to_be_bytes());
        bytes.extend(self.map.version().to_be_bytes());
        for table in &self.tables {
            bytes.extend((table.away().count() as u32).to_be_bytes());
            for (key, is_coming) in table.away() {
                bytes.extend(key.to_be_bytes());
                bytes.push(u8::from(is_coming));
            }
        }
    }

    /// A server as it was when a snapshot was taken. `first_map` is that of the job.
    ///
    /// # Errors
    /// [`SnapshotError`]: the bytes are no whole snapshot, or that of another server.
    pub fn restore(
        spec: ServerSpec,
        first_map: &HotMap,
        bytes: &[u8],
    ) -> Result<Self, SnapshotError> {
        let mut server = Self::empty(spec, first_map.clone())?;
        let whole = bytes.len().checked_sub(size_of::<u64>());
        let (content, fingerprint) =
            bytes.split_at(whole.ok_or(SnapshotError::Damaged(bytes.len()))?);
        if fingerprint != crate::fingerprint_from(FINGERPRINT_OF_NOTHING, content).to_be_bytes() {
            return Err(SnapshotError::Damaged(content.len()));
        }
        let mut reader = Reader { bytes: content, at: 0 };
        if reader.take(MAGIC.len())? != MAGIC {
            return Err(SnapshotError::Damaged(0));
        }
        if reader.u64()? != server.spec.fingerprint() {
            return Err(SnapshotError::Foreign);
        }
        let mut kept = HotSetKept::default();
        while server.take_record(&mut reader, &mut kept)? {}
        if server.spec.hot_set.is_some() {
            let first = first_map.document();
            let map = HotRows { rows: kept.rows, digest: None, ..first.clone() };
            server.map = HotMap::new(HotRows { version: kept.map_version, ..map })?;
            server.tracker.restore(kept.counts);
        }
        server.report();
        Ok(server)
    }

    /// Takes a record; whether more follow.
    fn take_record(
        &mut self,
        reader: &mut Reader<'_>,
        kept: &mut HotSetKept,
    ) -> Result<bool, SnapshotError> {
        let damaged = SnapshotError::Damaged(reader.at);
        let record = reader.take(1)?[0];
        match record {
            END => return self.take_end(reader, kept).map(|()| false),
            COUNT | HOT => return kept.take(record, reader).map(|()| true),
            _ => {}
        }
        let number = usize::from(u16::from_be_bytes(reader.array()?));
        let table = self.tables.get_mut(number).ok_or(damaged.clone())?;
        let key = reader.u64()?;
        if !table.part().holds(&table.spec().rows, key) {
            return Err(damaged);
        }
        match record {
            ROW => {
                let changed = reader.u32()?;
                let stride = table.spec().stride();
                let numbers = reader.take(stride * size_of::<f32>())?.chunks_exact(4);
                let float =
                    |bytes: &[u8]| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                let row = Row { values: numbers.map(float).collect(), changed };
                table.restore(key, &row)?;
            }
            GONE => table.forget(key),
            _ => return Err(damaged),
        }
        Ok(true)
    }

    fn take_end(
        &mut self,
        reader: &mut Reader<'_>,
        kept: &mut HotSetKept,
    ) -> Result<(), SnapshotError> {
        let version = reader.u32()?;
        kept.map_version = reader.u32()?;
        for table in &mut self.tables {
            for _ in 0..reader.u32()? {
                let key = reader.u64()?;
                let is_coming = reader.take(1)?[0] == 1;
                table.set_away(key, is_coming);
            }
        }
        self.round = Round::new(version + 1, &self.spec);
        self.last = Closed { round: version, ..Closed::default() }.into();
        self.restored = Some(version);
        if reader.at == reader.bytes.len() {
            Ok(())
        } else {
            Err(SnapshotError::Damaged(reader.at))
        }
    }
}

/// What a snapshot has of the hot set.
#[derive(Default)]
struct HotSetKept {
    map_version: u32,
    rows: Vec<HotRow>,
    counts: Vec<(RowId, f32)>,
}

impl HotSetKept {
    fn take(&mut self, record: u8, reader: &mut Reader<'_>) -> Result<(), SnapshotError> {
        let row = RowId { table: TableId(u16::from_be_bytes(reader.array()?)), key: reader.u64()? };
        if record == COUNT {
            self.counts.push((row, f32::from_bits(reader.u32()?)));
        } else {
            let position = reader.u32()?;
            let tier = if reader.take(1)?[0] == 0 { Tier::A } else { Tier::B };
            self.rows.push(HotRow { row, position, tier });
        }
        Ok(())
    }
}

impl ServerSpec {
    /// A checksum of all that a snapshot depends on.
    fn fingerprint(&self) -> u64 {
        let tables = serde_json::to_string(&self.tables).expect("tables serialise");
        crate::fingerprint(format!("{} {} {tables}", self.shard, self.shards.0).as_bytes())
    }
}

fn put_row(bytes: &mut Vec<u8>, table: usize, key: u64, row: &Row) {
    put_key(bytes, ROW, table, key);
    bytes.extend(row.changed.to_be_bytes());
    // Little-endian, as they are in memory on the machines of today.
    row.values.iter().for_each(|value| bytes.extend(value.to_le_bytes()));
}

fn put_key(bytes: &mut Vec<u8>, record: u8, table: usize, key: u64) {
    bytes.push(record);
    bytes.extend((table as u16).to_be_bytes());
    bytes.extend(key.to_be_bytes());
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], SnapshotError> {
        let taken = self.bytes.get(self.at..self.at + count);
        let taken = taken.ok_or(SnapshotError::Damaged(self.at))?;
        self.at += count;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], SnapshotError> {
        Ok(self.take(N)?.try_into().expect("as many as were taken"))
    }

    fn u32(&mut self) -> Result<u32, SnapshotError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, SnapshotError> {
        Ok(u64::from_be_bytes(self.array()?))
    }
}

impl Table {
    /// Takes a row from a snapshot.
    fn restore(&mut self, key: u64, row: &Row) -> Result<(), TableError> {
        self.reserve(&[key])?;
        self.set(key, row);
        Ok(())
    }
}
