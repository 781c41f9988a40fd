//! From datagrams to messages.

use std::sync::Arc;

use wiresum_wire::{Flags, RowKind, RowPacket, RowValue};

use super::Assembly;
use crate::hot::RowId;
use crate::message::{FromServer, FromSwitch, HotSums, PartialSums, Report, ToServer, ToSwitch};
use crate::reception::MAX_PACKETS;
use crate::table::{Row, TableId, widened};

/// What a server is told; nothing while parts are missing, or if the packet is for somebody else.
pub fn to_server(packet: &RowPacket<'_>, assembly: &mut Assembly) -> Option<ToServer> {
    let (round, sequence) = (packet.header.round.get(), packet.header.fragment.get());
    let (table, map_version) = (table(packet), packet.rows.stamp.get());
    Some(match packet.kind {
        RowKind::Push => {
            let (keys, values) = (keys(packet), floats(packet)?);
            ToServer::Push { round, sequence, map_version, table, keys, values }
        }
        RowKind::HotSums => ToServer::Sums { round, sequence, map_version, rows: sums(packet)? },
        RowKind::Return => {
            let row = RowId { table, key: packet.keys()[0].get() };
            let values = Row { values: floats(packet)?, changed: packet.rows.base.get() };
            ToServer::Return { round, sequence, row, values }
        }
        RowKind::Put => {
            let (keys, values) = (keys(packet), floats(packet)?);
            ToServer::Put { round, sequence, table, keys, values }
        }
        RowKind::Counts => {
            let (keys, counts) = (keys(packet), packet.contributor_counts().to_vec());
            ToServer::Counts { round, sequence, table, keys, counts }
        }
        RowKind::End => ToServer::End { round, packets: packet.rows.count.get() },
        RowKind::Decision => {
            let decision = assembly.enter(packet)?;
            ToServer::Decision { round, change: decision.change }
        }
        RowKind::Pull => {
            let (version, request, keys) = (round, sequence, keys(packet));
            let with_state = packet.rows.count.get() == 1;
            ToServer::Pull { version, request, table, keys, with_state }
        }
        _ => return None,
    })
}

/// What a server has counted, as the coordinator is told; nothing if a count is no number above 0.
#[must_use]
pub fn report(packet: &RowPacket<'_>) -> Option<Report> {
    let counts = floats(packet).filter(|_| packet.kind == RowKind::Report)?;
    let (round, part) = (packet.header.round.get(), packet.header.fragment.get());
    let (table, keys, parts) = (table(packet), keys(packet), packet.rows.count.get());
    let is_count = |count: &f32| count.is_finite() && *count > 0.0;
    counts.iter().all(is_count).then_some(Report { round, part, parts, table, keys, counts })
}

/// What a server says: `take` gets each message.
pub fn from_server(
    packet: &RowPacket<'_>,
    assembly: &mut Assembly,
    mut take: impl FnMut(FromServer),
) {
    let (round, number) = (packet.header.round.get(), packet.header.fragment.get());
    match packet.kind {
        RowKind::Acknowledgement => packet
            .acknowledged()
            .for_each(|sequence| take(FromServer::Acknowledgement { round, sequence })),
        RowKind::Problem => take(FromServer::Refusal { round, problem: text(packet) }),
        RowKind::News => {
            assembly.enter(packet).into_iter().for_each(|n| take(FromServer::Closed(Arc::new(n))));
        }
        RowKind::Weights => {
            let (version, request, table) = (round, number, table(packet));
            let dim = packet.rows.dim.get();
            let rows = |values| FromServer::Rows { version, request, table, dim, values };
            floats(packet).map(rows).into_iter().for_each(take);
        }
        _ => {}
    }
}

/// What a switch is told by a worker or a switch beneath: `take` gets each message; none if the packet is for somebody else, or has other
/// lanes than float32.
pub fn to_switch(packet: &RowPacket<'_>, mut take: impl FnMut(ToSwitch)) {
    let (round, number) = (packet.header.round.get(), packet.header.fragment.get());
    match packet.kind {
        RowKind::HotRows => {
            let (map_version, positions) = (packet.rows.stamp.get(), packet.positions().collect());
            let rows =
                |values| ToSwitch::Rows { round, sequence: number, map_version, positions, values };
            floats(packet).map(rows).into_iter().for_each(take);
        }
        RowKind::RowSums => {
            let (map_version, positions) = (packet.rows.stamp.get(), packet.positions().collect());
            let contributors = packet.contributors().iter().map(|ranks| ranks.get()).collect();
            let lanes = packet.lanes().iter().map(|lane| lane.get()).collect();
            let rows = Arc::new(PartialSums { positions, contributors, lanes });
            take(ToSwitch::Sums { round, sequence: number, map_version, rows });
        }
        RowKind::End => {
            let (packets, map_version) = (packet.rows.count.get(), packet.rows.stamp.get());
            take(ToSwitch::End { round, packets, map_version });
        }
        RowKind::Acknowledgement => {
            packet.acknowledged().for_each(|part| take(ToSwitch::Acknowledgement { round, part }));
        }
        _ => {}
    }
}

/// What a switch says: `take` gets each message.
pub fn from_switch(packet: &RowPacket<'_>, mut take: impl FnMut(FromSwitch)) {
    let (round, number) = (packet.header.round.get(), packet.header.fragment.get());
    match packet.kind {
        RowKind::Acknowledgement => packet
            .acknowledged()
            .for_each(|sequence| take(FromSwitch::Acknowledgement { round, sequence })),
        RowKind::Problem => take(FromSwitch::Refusal { round, problem: text(packet) }),
        RowKind::HotSums => {
            let parts = packet.rows.count.get();
            let is_known = number < parts && parts <= MAX_PACKETS;
            let rows = sums(packet).filter(|_| is_known || parts == 0 && number < MAX_PACKETS);
            let results = |rows| FromSwitch::Results { round, part: number, parts, rows };
            rows.map(results).into_iter().for_each(take);
        }
        _ => {}
    }
}

fn sums(packet: &RowPacket<'_>) -> Option<Arc<HotSums>> {
    let (positions, values) = (packet.positions().collect(), floats(packet)?);
    let contributors = packet.contributor_counts().to_vec();
    Some(Arc::new(HotSums { positions, contributors, values }))
}

fn table(packet: &RowPacket<'_>) -> TableId {
    TableId(packet.header.sub_model.get())
}

fn keys(packet: &RowPacket<'_>) -> Vec<u64> {
    packet.keys().iter().map(|key| key.get()).collect()
}

fn floats(packet: &RowPacket<'_>) -> Option<Vec<f32>> {
    let is_float = Flags(packet.header.flags.get()).contains(Flags::FLOAT);
    let value = packet.value();
    is_float.then(|| match value {
        RowValue::Float32 => packet.values().iter().map(|value| value.get()).collect(),
        _ => packet.narrow_values().iter().map(|bits| widened(bits.get(), value)).collect(),
    })
}

fn text(packet: &RowPacket<'_>) -> String {
    match String::from_utf8_lossy(packet.text()) {
        text if text.is_empty() => {
            "a gradient is not within ±4096, or its map is another one".to_owned()
        }
        text => text.into_owned(),
    }
}
