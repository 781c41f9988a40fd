//! From messages to datagrams.

use wiresum_wire::{RowDraft, RowKind, RowValue};

use super::{Envelope, long};
use crate::message::{FromServer, FromSwitch, HotSums, PartialSums, Report, ToServer, ToSwitch};
use crate::sending::{DECISION, END};
use crate::table::{TableId, narrowed, narrowest};

/// A packet in the making.
struct Draft {
    headers: RowDraft,
    columns: Vec<u8>,
    may_narrow: bool,
}

impl Draft {
    fn table(mut self, table: TableId) -> Self {
        self.headers.header.sub_model = table.0.into();
        self
    }

    fn map(mut self, version: u32) -> Self {
        self.headers.rows.stamp = version.into();
        self
    }

    fn count(mut self, count: u32) -> Self {
        self.headers.rows.count = count.into();
        self
    }

    fn base(mut self, base: u32) -> Self {
        self.headers.rows.base = base.into();
        self
    }

    /// Rows, and how many values all of them have.
    fn rows(mut self, rows: usize, values: usize) -> Self {
        self.headers.rows.rows = (rows as u16).into();
        self.headers.rows.dim = (values.checked_div(rows).unwrap_or(0) as u16).into();
        self
    }

    fn bytes(mut self, bytes: &[u8]) -> Self {
        self.columns.extend_from_slice(bytes);
        self
    }

    /// Numbers as they are written. Their places are made before, so that the loop is one of whole numbers, not of
    /// bytes.
    fn column<const LEN: usize>(
        mut self,
        numbers: impl ExactSizeIterator<Item = [u8; LEN]>,
    ) -> Self {
        let begin = self.columns.len();
        self.columns.resize(begin + LEN * numbers.len(), 0);
        let (places, _) = self.columns[begin..].as_chunks_mut();
        places.iter_mut().zip(numbers).for_each(|(place, number)| *place = number);
        self
    }

    fn numbers(self, numbers: &[u64]) -> Self {
        self.column(numbers.iter().map(|number| number.to_be_bytes()))
    }

    fn offsets(self, positions: impl ExactSizeIterator<Item = u32> + Clone) -> Self {
        let base = positions.clone().next().unwrap_or(0);
        let offset = |position: u32| ((position - base) as u16).to_be_bytes();
        self.column(positions.map(offset)).base(base)
    }

    fn whole_words(mut self) -> Self {
        self.columns.resize(self.columns.len().next_multiple_of(4), 0);
        self
    }

    fn values(self, values: &[f32]) -> Self {
        self.column(values.iter().map(|value| value.to_le_bytes()))
    }

    /// Values that have 16 bits in the packet where that is exact, and the job has a table of such values.
    fn narrow_values(mut self, values: &[f32]) -> Self {
        let value = if self.may_narrow { narrowest(values) } else { RowValue::Float32 };
        self.headers.set_value(value);
        if value == RowValue::Float32 {
            return self.values(values);
        }
        self.column(values.iter().map(|number| narrowed(*number, value).to_le_bytes()))
    }

    fn sums(self, sums: &HotSums) -> Self {
        let draft = self.rows(sums.positions.len(), sums.values.len());
        let draft = draft.offsets(sums.positions.iter().copied()).bytes(&sums.contributors);
        draft.whole_words().values(&sums.values)
    }

    fn partial_sums(self, sums: &PartialSums) -> Self {
        let draft = self.rows(sums.positions.len(), sums.lanes.len());
        let draft = draft.offsets(sums.positions.iter().copied()).whole_words();
        let draft = draft.column(sums.contributors.iter().map(|ranks| ranks.to_be_bytes()));
        draft.column(sums.lanes.iter().map(|lane| lane.to_le_bytes()))
    }

    fn send(self, mut send: impl FnMut(&[u8])) {
        let mut out = Vec::new();
        self.headers.emit(&self.columns, &mut out);
        send(&out);
    }
}

impl Envelope {
    fn begin(&self, kind: RowKind, round: u32, number: u32) -> Draft {
        let (headers, may_narrow) = (self.draft(kind, round, number), self.may_narrow);
        Draft { headers, columns: Vec::new(), may_narrow }
    }

    /// A message to a server: `send` gets each of its datagrams.
    pub fn emit_to_server(&self, message: &ToServer, send: impl FnMut(&[u8])) {
        match message {
            ToServer::Push { round, sequence, map_version, table, keys, values } => {
                let draft = self.begin(RowKind::Push, *round, *sequence).map(*map_version);
                let draft = draft.table(*table).rows(keys.len(), values.len());
                draft.numbers(keys).narrow_values(values).send(send);
            }
            ToServer::Sums { round, sequence, map_version, rows } => {
                let draft = self.begin(RowKind::HotSums, *round, *sequence).map(*map_version);
                draft.sums(rows).send(send);
            }
            ToServer::Return { round, sequence, row, values } => {
                let draft = self.begin(RowKind::Return, *round, *sequence).base(values.changed);
                let draft = draft.table(row.table).rows(1, values.values.len());
                draft.numbers(&[row.key]).values(&values.values).send(send);
            }
            ToServer::Put { round, sequence, table, keys, values } => {
                let draft = self.begin(RowKind::Put, *round, *sequence).table(*table);
                draft.rows(keys.len(), values.len()).numbers(keys).values(values).send(send);
            }
            ToServer::Counts { round, sequence, table, keys, counts } => {
                let draft = self.begin(RowKind::Counts, *round, *sequence).table(*table);
                draft.rows(keys.len(), 0).numbers(keys).bytes(counts).send(send);
            }
            ToServer::End { round, packets } => {
                self.begin(RowKind::End, *round, END).count(*packets).send(send);
            }
            ToServer::Decision { round, change } => {
                let text = long::text(change.as_deref(), None);
                self.emit_long(RowKind::Decision, *round, &text, send);
            }
            ToServer::Pull { version, request, table, keys, with_state } => {
                let draft = self.begin(RowKind::Pull, *version, *request).table(*table);
                let draft = draft.count(u32::from(*with_state));
                draft.rows(keys.len(), 0).numbers(keys).send(send);
            }
        }
    }

    /// A part of what a server has counted, for the coordinator.
    pub fn emit_report(&self, report: &Report, send: impl FnMut(&[u8])) {
        let draft = self.begin(RowKind::Report, report.round, report.part).count(report.parts);
        let draft = draft.table(report.table).rows(report.keys.len(), 0);
        draft.numbers(&report.keys).values(&report.counts).send(send);
    }

    /// A message from a server.
    pub fn emit_from_server(&self, message: &FromServer, send: impl FnMut(&[u8])) {
        match message {
            FromServer::Acknowledgement { round, sequence } => {
                self.begin(RowKind::Acknowledgement, *round, *sequence).send(send);
            }
            FromServer::Refusal { round, problem } => self.emit_problem(*round, problem, send),
            FromServer::Closed(closed) => {
                let text = long::text(closed.change.as_deref(), Some(&closed.lent));
                self.emit_long(RowKind::News, closed.round, &text, send);
            }
            FromServer::Rows { version, request, table, dim, values } => {
                let rows = values.len() / usize::from(*dim).max(1);
                let draft = self.begin(RowKind::Weights, *version, *request).table(*table);
                draft.rows(rows, values.len()).narrow_values(values).send(send);
            }
        }
    }

    /// A message to a switch.
    pub fn emit_to_switch(&self, message: &ToSwitch, send: impl FnMut(&[u8])) {
        match message {
            ToSwitch::Rows { round, sequence, map_version, positions, values } => {
                let draft = self.begin(RowKind::HotRows, *round, *sequence).map(*map_version);
                let draft = draft.rows(positions.len(), values.len());
                let draft = draft.offsets(positions.iter().copied()).whole_words();
                draft.narrow_values(values).send(send);
            }
            ToSwitch::Sums { round, sequence, map_version, rows } => {
                let draft = self.begin(RowKind::RowSums, *round, *sequence).map(*map_version);
                draft.partial_sums(rows).send(send);
            }
            ToSwitch::End { round, packets, map_version } => {
                self.begin(RowKind::End, *round, END).map(*map_version).count(*packets).send(send);
            }
            ToSwitch::Acknowledgement { round, part } => {
                self.begin(RowKind::Acknowledgement, *round, *part).send(send);
            }
        }
    }

    /// A message from a switch.
    pub fn emit_from_switch(&self, message: &FromSwitch, send: impl FnMut(&[u8])) {
        match message {
            FromSwitch::Acknowledgement { round, sequence } => {
                self.begin(RowKind::Acknowledgement, *round, *sequence).send(send);
            }
            FromSwitch::Refusal { round, problem } => self.emit_problem(*round, problem, send),
            FromSwitch::Results { round, part, parts, rows } => {
                let draft = self.begin(RowKind::HotSums, *round, *part).count(*parts);
                draft.sums(rows).send(send);
            }
        }
    }

    fn emit_problem(&self, round: u32, problem: &str, send: impl FnMut(&[u8])) {
        let end = (0..=problem.len().min(self.room)).rev().find(|at| problem.is_char_boundary(*at));
        let text = &problem.as_bytes()[..end.unwrap_or(0)];
        self.begin(RowKind::Problem, round, 0).rows(text.len(), 0).bytes(text).send(send);
    }

    /// A long message in parts.
    fn emit_long(&self, kind: RowKind, round: u32, text: &[u8], mut send: impl FnMut(&[u8])) {
        let parts = text.chunks(self.room);
        let count = parts.len() as u32;
        for (part, bytes) in (0..).zip(parts) {
            let draft = self.begin(kind, round, part).count(count).rows(bytes.len(), 0);
            draft.bytes(bytes).send(&mut send);
        }
    }
}

const _: () = assert!(DECISION < END);
