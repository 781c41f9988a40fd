//! What workers, switches and servers of tables tell each other. [`crate::packet`] has the bytes.

use std::collections::BTreeMap;
use std::sync::Arc;

use wiresum_wire::RowKind;

use crate::hot::{MapChange, RowId};
use crate::table::{Row, TableId};

/// A sender of gradients, as a server counts them: the workers by rank, then the switches that sum on the way.
pub type Sender = u32;

/// Something for a server.
#[derive(Clone, Debug, PartialEq)]
pub enum ToServer {
    /// Gradients of one worker for rows of one table.
    Push {
        /// The round.
        round: u32,
        /// Number of the packet among the sender's of this round, from 0.
        sequence: u32,
        /// Version of the map by which the rows were sorted into tiers.
        map_version: u32,
        /// The table.
        table: TableId,
        /// The rows, each once.
        keys: Vec<u64>,
        /// Their gradients, one after the other.
        values: Vec<f32>,
    },
    /// Sums of rows of any tables that were made on the way, by position.
    Sums {
        /// The round.
        round: u32,
        /// Number of the packet among the sender's of this round, from 0.
        sequence: u32,
        /// Version of the map that has the positions.
        map_version: u32,
        /// The sums.
        rows: Arc<HotSums>,
    },
    /// A row that was replicated until the round before.
    Return {
        /// The round.
        round: u32,
        /// Number of the packet among the sender's of this round, from 0.
        sequence: u32,
        /// The row.
        row: RowId,
        /// Its weights and state.
        values: Row,
    },
    /// Rows as they are to be after the round, whatever their gradients in it.
    Put {
        /// The round.
        round: u32,
        /// Number of the packet among the sender's of this round, from 0.
        sequence: u32,
        /// The table.
        table: TableId,
        /// The rows, each once.
        keys: Vec<u64>,
        /// Weights and state, row after row.
        values: Vec<f32>,
    },
    /// The sender has no more for this round.
    End {
        /// The round.
        round: u32,
        /// Packets of the round before this one.
        packets: u32,
    },
    /// How many workers had a gradient for replicated rows in the round before, whose server this is. One worker tells.
    Counts {
        /// The round.
        round: u32,
        /// Number of the packet among the sender's of this round, from 0.
        sequence: u32,
        /// The table.
        table: TableId,
        /// The rows.
        keys: Vec<u64>,
        /// For each row, 1 to 64.
        counts: Vec<u8>,
    },
    /// What is decided about the map when a round closes.
    Decision {
        /// The round.
        round: u32,
        /// The change, if there is one.
        change: Option<Arc<MapChange>>,
    },
    /// A question for weights.
    Pull {
        /// The round after which they are wanted.
        version: u32,
        /// The asker's number for the question.
        request: u32,
        /// The table.
        table: TableId,
        /// The rows.
        keys: Vec<u64>,
        /// Whether the optimizer's state is wanted too.
        with_state: bool,
    },
}

/// A part of what a server has counted, for the coordinator.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The round that is to be decided on.
    pub round: u32,
    /// Which of the server's packets about this round this is, from 0.
    pub part: u32,
    /// How many there are.
    pub parts: u32,
    /// The table.
    pub table: TableId,
    /// The rows.
    pub keys: Vec<u64>,
    /// The count of each.
    pub counts: Vec<f32>,
}

impl Report {
    /// What a server has counted, in packets with as many rows as fit `room` bytes; one at least.
    #[must_use]
    pub fn packets(round: u32, counts: &[(RowId, f32)], room: usize) -> Vec<Self> {
        let most = RowKind::Report.rows_for(room, 0).max(1);
        let mut tables: BTreeMap<TableId, Vec<(u64, f32)>> = BTreeMap::new();
        for (row, count) in counts {
            tables.entry(row.table).or_default().push((row.key, *count));
        }
        let packet = |table, rows: &[(u64, f32)]| {
            let (keys, counts) = rows.iter().copied().unzip();
            Self { round, part: 0, parts: 0, table, keys, counts }
        };
        let mut packets: Vec<Self> = Vec::new();
        for (table, rows) in &tables {
            packets.extend(rows.chunks(most).map(|rows| packet(*table, rows)));
        }
        if packets.is_empty() {
            packets.push(packet(TableId(0), &[]));
        }
        let parts = packets.len() as u32;
        (0..).zip(&mut packets).for_each(|(part, one)| (one.part, one.parts) = (part, parts));
        packets
    }
}

/// Something from a server.
#[derive(Clone, Debug, PartialEq)]
pub enum FromServer {
    /// A packet of a round has come, now or before.
    Acknowledgement {
        /// The round.
        round: u32,
        /// The packet.
        sequence: u32,
    },
    /// A packet cannot be taken, and never will be: the job ends with this error.
    Refusal {
        /// The round.
        round: u32,
        /// What is wrong.
        problem: String,
    },
    /// A round is closed.
    Closed(Arc<Closed>),
    /// Weights that were asked for.
    Rows {
        /// The round after which they are.
        version: u32,
        /// The asker's number for the question.
        request: u32,
        /// The table.
        table: TableId,
        /// Values of a row, with the optimizer's state if that was asked for.
        dim: u16,
        /// Weights, or weights and state, row after row.
        values: Vec<f32>,
    },
}

/// What a server says when a round is closed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Closed {
    /// The round.
    pub round: u32,
    /// Whether the next round has another map, and which.
    pub change: Option<Arc<MapChange>>,
    /// This server's rows that the workers hold from the next round on, and those that they hold and that were put.
    pub lent: Vec<(RowId, Row)>,
}

/// Something for a switch that sums hot rows.
#[derive(Clone, Debug, PartialEq)]
pub enum ToSwitch {
    /// Gradients of one worker for hot rows.
    Rows {
        /// The round.
        round: u32,
        /// Number of the packet among the worker's to this switch in this round, from 0.
        sequence: u32,
        /// Version of the map that has the positions.
        map_version: u32,
        /// The rows' positions, ascending.
        positions: Vec<u32>,
        /// Their gradients, one after the other.
        values: Vec<f32>,
    },
    /// Sums of the hot rows of some workers, from a switch beneath.
    Sums {
        /// The round.
        round: u32,
        /// Number of the packet among the sender's to this switch in this round, from 0.
        sequence: u32,
        /// Version of the map that has the positions.
        map_version: u32,
        /// The sums.
        rows: Arc<PartialSums>,
    },
    /// The sender has no more for this round.
    End {
        /// The round.
        round: u32,
        /// Packets of the round before this one.
        packets: u32,
        /// Version of the sender's map: that of the round.
        map_version: u32,
    },
    /// A part of the results has come, now or before.
    Acknowledgement {
        /// The round.
        round: u32,
        /// The part.
        part: u32,
    },
}

/// Sums of the hot rows of some workers, not rounded, which have equally many lanes each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartialSums {
    /// The rows' positions, ascending.
    pub positions: Vec<u32>,
    /// Which workers' gradients are in each sum: a bit for each rank.
    pub contributors: Vec<u64>,
    /// The sums, row after row.
    pub lanes: Vec<i64>,
}

/// Sums of hot rows, which have equally many values each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HotSums {
    /// The rows' positions.
    pub positions: Vec<u32>,
    /// How many workers had a gradient for each row.
    pub contributors: Vec<u8>,
    /// The sums, rounded once, row after row.
    pub values: Vec<f32>,
}

impl HotSums {
    /// Values of a row; 0 where there is no row.
    #[must_use]
    pub fn dim(&self) -> usize {
        self.values.len().checked_div(self.positions.len()).unwrap_or(0)
    }

    /// Each row: its position, how many workers had a gradient for it, its sum.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32, &[f32])> {
        let rows = self.positions.iter().zip(&self.contributors);
        let rows = rows.zip(self.values.chunks_exact(self.dim().max(1)));
        rows.map(|((position, contributors), values)| (*position, u32::from(*contributors), values))
    }
}

/// Something from a switch that sums hot rows.
#[derive(Clone, Debug, PartialEq)]
pub enum FromSwitch {
    /// A packet has come, now or before.
    Acknowledgement {
        /// The round.
        round: u32,
        /// The packet.
        sequence: u32,
    },
    /// A packet cannot be taken: the job ends.
    Refusal {
        /// The round.
        round: u32,
        /// What is wrong.
        problem: String,
    },
    /// Sums of a round.
    Results {
        /// The round.
        round: u32,
        /// Which of the round's packets of results this is, from 0.
        part: u32,
        /// How many there are; 0 if that is not known yet: the last one says.
        parts: u32,
        /// Sums.
        rows: Arc<HotSums>,
    },
}

impl FromSwitch {
    /// The round that this is about.
    #[must_use]
    pub fn round(&self) -> u32 {
        match self {
            Self::Acknowledgement { round, .. }
            | Self::Refusal { round, .. }
            | Self::Results { round, .. } => *round,
        }
    }
}
