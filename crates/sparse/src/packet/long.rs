//! Messages longer than a packet: news and decisions, as bytes in numbered parts.

use std::collections::BTreeMap;
use std::sync::Arc;

use wiresum_wire::{RowKind, RowPacket};

use crate::hot::{HotRow, MapChange, RowId, Tier};
use crate::message::Closed;
use crate::reception::MAX_PACKETS;
use crate::table::{Row, TableId};

/// The bytes of a change and of lent rows; a decision has none of these.
pub(super) fn text(change: Option<&MapChange>, lent: Option<&Vec<(RowId, Row)>>) -> Vec<u8> {
    let nothing = MapChange::default();
    let change = change.unwrap_or(&nothing);
    let mut out = change.version.to_be_bytes().to_vec();
    put_count(&mut out, change.promoted.len());
    for hot in &change.promoted {
        put_row(&mut out, hot.row);
        out.extend(hot.position.to_be_bytes());
        out.push(u8::from(hot.tier == Tier::B));
    }
    put_count(&mut out, change.demoted.len());
    change.demoted.iter().for_each(|row| put_row(&mut out, *row));
    if let Some(lent) = lent {
        put_count(&mut out, lent.len());
        for (id, row) in lent {
            put_row(&mut out, *id);
            out.extend(row.changed.to_be_bytes());
            out.extend((row.values.len() as u16).to_be_bytes());
            out.extend(row.values.iter().flat_map(|value| value.to_le_bytes()));
        }
    }
    out
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend((count as u32).to_be_bytes());
}

fn put_row(out: &mut Vec<u8>, row: RowId) {
    out.extend(row.table.0.to_be_bytes());
    out.extend(row.key.to_be_bytes());
}

/// What [`text`] has written, if it is whole.
pub(super) fn read(kind: RowKind, round: u32, text: &[u8]) -> Option<Closed> {
    let mut reader = Reader(text);
    let version = reader.u32()?;
    let promoted = reader.many(|reader| {
        let (row, position) = (reader.row()?, reader.u32()?);
        let tier = match reader.u8()? {
            0 => Tier::A,
            1 => Tier::B,
            _ => return None,
        };
        Some(HotRow { row, position, tier })
    })?;
    let demoted = reader.many(Reader::row)?;
    let is_news = kind == RowKind::News;
    let lent = if is_news { reader.many(Reader::lent)? } else { Vec::new() };
    let change = MapChange { version, promoted, demoted };
    let change = (version > 0).then(|| Arc::new(change));
    reader.0.is_empty().then_some(Closed { round, change, lent })
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn row(&mut self) -> Option<RowId> {
        let table = TableId(self.u16()?);
        Some(RowId { table, key: self.array().map(u64::from_be_bytes)? })
    }

    fn lent(&mut self) -> Option<(RowId, Row)> {
        let (id, changed, count) = (self.row()?, self.u32()?, self.u16()?);
        let values = (0..count).map(|_| self.array().map(f32::from_le_bytes));
        Some((id, Row { values: values.collect::<Option<_>>()?, changed }))
    }

    /// As many as are said to follow; a number that lies ends with the bytes.
    fn many<T>(&mut self, mut one: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.u32()?;
        (0..count).map(|_| one(self)).collect()
    }
}

/// Parts of messages that are not whole yet: of each sender and kind the newest message.
#[derive(Clone, Debug, Default)]
pub struct Assembly(BTreeMap<(u16, u8, RowKind), Message>);

#[derive(Clone, Debug)]
struct Message {
    /// Round and incarnation.
    of: (u32, u32),
    parts: Vec<Option<Box<[u8]>>>,
    missing: usize,
}

impl Assembly {
    /// Takes a part; the message, with the last one.
    pub(super) fn enter(&mut self, packet: &RowPacket<'_>) -> Option<Closed> {
        let (header, rows) = (packet.header, packet.rows);
        let (part, count) = (header.fragment.get() as usize, rows.count.get());
        let of = (header.round.get(), rows.stamp.get());
        if part >= count as usize || count > MAX_PACKETS {
            return None;
        }
        let key = (header.node.get(), header.contributor, packet.kind);
        let fresh = || Message { of, parts: vec![None; count as usize], missing: count as usize };
        let message = self.0.entry(key).or_insert_with(fresh);
        if message.of != of || message.parts.len() != count as usize {
            *message = fresh();
        }
        let place = &mut message.parts[part];
        message.missing -= usize::from(place.is_none());
        *place = Some(packet.text().into());
        if message.missing > 0 {
            return None;
        }
        let whole = self.0.remove(&key)?.parts.into_iter().flatten().collect::<Vec<_>>().concat();
        read(packet.kind, of.0, &whole)
    }
}
