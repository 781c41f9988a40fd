//! A worker that replays a trace: it pushes what it touches in a round, and asks for what it needs next at once, as the
//! workers of `wiresum bench sparse` do.

use std::collections::BTreeMap;
use std::sync::Arc;

use wiresum_sparse::hot::RowId;
use wiresum_sparse::live::{Job, Member};
use wiresum_sparse::worker::Gradients;

/// The gradient of every value: small, so that sums of any workers are in range.
const GRADIENT: f32 = 1.0 / 1024.0;
/// Every job has one; a simulation begins none anew.
const INCARNATION: u64 = 1;

/// Weights that were compared, by row and round.
pub type Seen = BTreeMap<(RowId, u32), Vec<f32>>;

/// A worker that replays a trace, and what it has done of it so far.
pub struct Player<'a> {
    pub member: Member,
    pub rank: usize,
    touched: &'a [Vec<Vec<u64>>],
    /// Rounds that are over.
    pub round: u32,
    /// Whether a round is under way.
    pub is_playing: bool,
    /// Whether the dense gradient beside the rows of this round is not summed yet.
    pub awaits_sum: bool,
}

impl<'a> Player<'a> {
    pub fn new(job: &Arc<Job>, rank: u32, touched: &'a [Vec<Vec<u64>>]) -> Self {
        let member = Member::new(job, rank, INCARNATION);
        let rank = rank as usize;
        Self { member, rank, touched, round: 0, is_playing: false, awaits_sum: false }
    }

    /// Whether it has played all rounds.
    pub fn is_over(&self) -> bool {
        self.round as usize + 1 == self.touched.len()
    }

    /// Whether nothing keeps it from ending its round, or from beginning one.
    pub fn is_ready(&self) -> bool {
        self.member.has_joined() && self.member.worker().is_idle() && !self.awaits_sum
    }

    /// Begins a round: pushes gradients, and asks for the rows of the next one.
    pub fn begin(&mut self) {
        self.is_playing = true;
        self.member.begin(&self.gradients());
        let wanted: Vec<RowId> = self.rows(self.round + 1).collect();
        self.member.pull(wanted);
    }

    /// Ends the round under way.
    ///
    /// # Errors
    /// With `seen`: a row of which others have pulled other bits.
    pub fn end(&mut self, seen: Option<&mut Seen>) -> Result<(), RowId> {
        self.is_playing = false;
        self.round += 1;
        seen.map_or(Ok(()), |seen| self.compare(seen))
    }

    fn rows(&self, round: u32) -> impl Iterator<Item = RowId> {
        let tables = self.member.job().tables.iter().map(|table| table.id);
        let by_table = tables.zip(&self.touched[round as usize]);
        by_table.flat_map(|(table, keys)| keys.iter().map(move |key| RowId { table, key: *key }))
    }

    fn gradients(&self) -> Gradients {
        let mut gradients = Gradients::default();
        let tables = &self.member.job().tables;
        for (table, keys) in tables.iter().zip(&self.touched[self.round as usize]) {
            let dim = usize::from(table.dim);
            let added = gradients.add(table.id, dim, keys, &vec![GRADIENT; keys.len() * dim]);
            added.expect("keys are distinct, and the gradient is in range");
        }
        gradients
    }

    /// Everybody who pulls a row in a round has the same bits of it.
    fn compare(&self, seen: &mut Seen) -> Result<(), RowId> {
        for row in self.rows(self.round) {
            let weights = self.member.worker().weights(row).ok_or(row)?;
            let first = seen.entry((row, self.round)).or_insert_with(|| weights.to_vec());
            let is_same = first.iter().zip(weights).all(|(a, b)| a.to_bits() == b.to_bits());
            if !is_same || first.len() != weights.len() {
                return Err(row);
            }
        }
        Ok(())
    }
}
