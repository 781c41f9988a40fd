//! A switch whose rows are added by a program beneath it, in the kernel.
//!
//! The program adds and acknowledges rows. Here ends are heard, which the program is told; sums are read once all workers have
//! sent the rows before some position, and leave as others do. A packet of rows that comes here is one that the program
//! has not added.

use std::ops::Range;

use super::Summer;
use crate::hot::HotMap;
use crate::message::{FromSwitch, Sender};
use crate::reception::Reception;
use crate::server::PushError;
use crate::sum::{SumError, is_summable};

/// How far the open round has come at the program.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Beneath {
    /// Sums before this position were read.
    read: u32,
    /// All rows have come.
    pub(super) is_over: bool,
}

impl Summer {
    /// Leaves adding to a program beneath; before the first round.
    pub(crate) fn put_over_program(&mut self) {
        self.beneath = Some(Beneath::default());
    }

    /// The map of the open round.
    #[must_use]
    pub fn map(&self) -> &HotMap {
        &self.map
    }

    /// How many packets workers have announced for the open round.
    pub fn announced(&self) -> impl Iterator<Item = (Sender, u32)> {
        let ends = self.spec.children.iter().zip(self.senders.iter().map(Reception::announced));
        ends.filter_map(|(worker, packets)| Some((worker.sender, packets?)))
    }

    /// A worker has sent more packets than it announced.
    pub fn handle_wrong_end(&mut self, worker: Sender, announced: u32) {
        let problem = PushError::Count { announced, least: announced + 1 }.to_string();
        let refusal = FromSwitch::Refusal { round: self.round, problem };
        self.outbox.push_back((worker, refusal));
    }

    /// The program has had all rows before a position from all workers, or all of the round. `read` is told the positions
    /// whose sums were not read before, and shows those that have gradients: position, contributors as a bitmap, lanes.
    pub fn handle_reached(
        &mut self,
        reached: u32,
        is_over: bool,
        read: impl FnOnce(Range<u32>, &mut dyn FnMut(u32, u64, &[i64])),
    ) {
        let Some(beneath) = self.beneath.filter(|before| is_over || before.read < reached) else {
            return;
        };
        let end = if is_over { u32::MAX } else { reached };
        let Self { sums, open, .. } = self;
        read(beneath.read..end, &mut |position, contributors, lanes| {
            let added = sums.add_sums(&[contributors], &[position.into()], lanes);
            added.expect("each position is read once a round");
            open.insert(position);
        });
        self.beneath = Some(Beneath { read: end, is_over });
        self.send_complete();
    }

    /// Why the program has not added these rows.
    pub(super) fn refused_beneath(
        &self,
        sequence: u32,
        positions: &[u32],
        values: &[f32],
    ) -> PushError {
        let dim = usize::from(self.map.document().dim);
        let is_out_of_range = |row: &[f32]| !row.iter().all(|value| is_summable(*value));
        let wrong = values.chunks_exact(dim).position(is_out_of_range);
        match wrong.and_then(|row| positions.get(row)) {
            Some(position) => self.named(SumError::Range(u64::from(*position))),
            None => PushError::Repeated(sequence),
        }
    }
}
