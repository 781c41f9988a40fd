//! What workers send to a switch that sums pairs, and what comes back.

use wiresum_wire::{Flags, RowDraft, RowKind, RowPacket};

/// A value for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The key.
    pub key: u64,
    /// What is to be added.
    pub value: i32,
}

/// What a packet has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Pairs to be added.
    Pairs(Vec<Pair>),
    /// The sender has no more for this iteration.
    End {
        /// Packets with pairs before it.
        packets: u32,
    },
    /// The packet with this number has come.
    Acknowledgement,
}

/// A packet of a job that the receiver runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The table.
    pub table: u16,
    /// The worker that has sent it, or is to get it.
    pub worker: u8,
    /// The iteration.
    pub round: u32,
    /// Its number among the sender's packets to this receiver in this iteration; [`Packet::END`] of an end.
    pub number: u32,
    /// Version of the map of hot keys.
    pub map_version: u32,
    /// The rest.
    pub body: Body,
}

impl Packet {
    /// The number of ends.
    pub const END: u32 = u32::MAX;

    /// The packet in a datagram; `None` if that is of another kind, or its values are not one int32 a key.
    #[must_use]
    pub fn of(datagram: &RowPacket<'_>) -> Option<Self> {
        let header = datagram.header;
        let body = match datagram.kind {
            RowKind::Push => Body::Pairs(pairs(datagram)?),
            RowKind::End => Body::End { packets: datagram.rows.count.get() },
            RowKind::Acknowledgement => Body::Acknowledgement,
            _ => return None,
        };
        Some(Self {
            table: header.sub_model.get(),
            worker: header.contributor,
            round: header.round.get(),
            number: header.fragment.get(),
            map_version: datagram.rows.stamp.get(),
            body,
        })
    }

    /// Appends the datagram to `out`. Job, incarnation and node are the caller's to say, in what `begun` makes of a kind.
    ///
    /// # Panics
    /// If there are more pairs than a datagram holds.
    pub fn emit(&self, begun: impl FnOnce(RowKind) -> RowDraft, out: &mut Vec<u8>) {
        let mut draft = begun(self.kind());
        let header = &mut draft.header;
        header.flags.set(Flags::LITTLE_ENDIAN.0);
        header.sub_model.set(self.table);
        header.contributor = self.worker;
        header.round.set(self.round);
        header.fragment.set(self.number);
        draft.rows.stamp.set(self.map_version);
        let mut columns = Vec::new();
        match &self.body {
            Body::Pairs(pairs) => {
                draft.rows.rows.set(pairs.len() as u16);
                draft.rows.dim.set(1);
                pairs.iter().for_each(|pair| columns.extend(pair.key.to_be_bytes()));
                pairs.iter().for_each(|pair| columns.extend(pair.value.to_le_bytes()));
            }
            Body::End { packets } => draft.rows.count.set(*packets),
            Body::Acknowledgement => {}
        }
        draft.emit(&columns, out);
    }

    fn kind(&self) -> RowKind {
        match self.body {
            Body::Pairs(_) => RowKind::Push,
            Body::End { .. } => RowKind::End,
            Body::Acknowledgement => RowKind::Acknowledgement,
        }
    }

    /// What its receiver answers.
    #[must_use]
    pub fn acknowledgement(&self) -> Self {
        Self { body: Body::Acknowledgement, ..*self }
    }
}

fn pairs(push: &RowPacket<'_>) -> Option<Vec<Pair>> {
    let format = Flags(push.header.flags.get()).only(Flags::LITTLE_ENDIAN.with(Flags::FLOAT));
    if push.rows.dim.get() != 1 || format != Flags::LITTLE_ENDIAN {
        return None;
    }
    let pair = |(key, value): (&zerocopy::byteorder::network_endian::U64, _)| Pair {
        key: key.get(),
        value: int32(value),
    };
    Some(push.keys().iter().zip(push.values()).map(pair).collect())
}

fn int32(value: &zerocopy::byteorder::little_endian::F32) -> i32 {
    i32::from_le_bytes(value.to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let pairs = vec![Pair { key: u64::MAX - 1, value: -7 }, Pair { key: 3, value: i32::MIN }];
        for body in [Body::Pairs(pairs), Body::End { packets: 9 }, Body::Acknowledgement] {
            let packet = Packet { table: 2, worker: 5, round: 8, number: 4, map_version: 3, body };
            let mut datagram = Vec::new();
            packet.emit(RowDraft::new, &mut datagram);
            let parsed = RowPacket::parse(&datagram).expect("a packet of rows");
            assert_eq!(Packet::of(&parsed), Some(packet));
        }
    }

    #[test]
    fn floats_and_rows_are_none_of_it() {
        let mut draft = RowDraft::new(RowKind::Push);
        (draft.rows.rows, draft.rows.dim) = (1.into(), 1.into());
        let mut floats = Vec::new();
        draft.emit(&[0; 12], &mut floats);
        assert_eq!(Packet::of(&RowPacket::parse(&floats).expect("a push")), None);
        draft.header.flags.set(Flags::LITTLE_ENDIAN.0);
        draft.rows.dim.set(2);
        let mut rows = Vec::new();
        draft.emit(&[0; 16], &mut rows);
        assert_eq!(Packet::of(&RowPacket::parse(&rows).expect("a push")), None);
    }
}
