//! A worker that replays a trace: it pushes what it touches in a round, and asks for what it needs next at once, as the
//! workers of `wiresum bench sparse` do.

use std::collections::BTreeMap;
use std::sync::Arc;

use wiresum_sparse::hot::RowId;
use wiresum_sparse::live::{Job, Member};

/// The gradient of every value: small, so that sums of any workers are in range.
const GRADIENT: f32 = 1.0 / 1024.0;
/// Every job has one; a simulation begins none anew.
const INCARNATION: u64 = 1;

/// Weights that were compared, by row and round.
pub type Seen = BTreeMap<(RowId, u32), Vec<f32>>;

/// A worker that replays a trace, and what it has done of it so far.
pub struct Player<'a> {
    pub member: Member,
    touched: &'a [Vec<Vec<u64>>],
    /// Rounds that are over.
    round: u32,
    /// When the round under way began, if there is one.
    begun_ps: Option<u64>,
}

/// A round of one worker.
#[derive(Clone, Copy, Debug)]
pub struct Played {
    /// Which, from 0.
    pub round: u32,
    pub begin_ps: u64,
    pub end_ps: u64,
}

impl<'a> Player<'a> {
    pub fn new(job: &Arc<Job>, rank: u32, touched: &'a [Vec<Vec<u64>>]) -> Self {
        let member = Member::new(job, rank, INCARNATION);
        Self { member, touched, round: 0, begun_ps: None }
    }

    /// Whether it has played all rounds.
    pub fn is_over(&self) -> bool {
        self.round as usize + 1 == self.touched.len()
    }

    /// Ends the round if nothing is waited for, and begins the next one; the round that is over.
    ///
    /// # Errors
    /// With `seen`: a row of which others have pulled other bits.
    pub fn advance(
        &mut self,
        now_ps: u64,
        seen: Option<&mut Seen>,
    ) -> Result<Option<Played>, RowId> {
        if !self.member.has_joined() || !self.member.worker().is_idle() || self.is_over() {
            return Ok(None);
        }
        let round = self.round;
        let played = self.begun_ps.map(|begin_ps| Played { round, begin_ps, end_ps: now_ps });
        if played.is_some() {
            self.round += 1;
            seen.map_or(Ok(()), |seen| self.compare(seen))?;
        }
        if !self.is_over() {
            self.begun_ps = Some(now_ps);
            self.member.begin(&self.gradients());
            let wanted: Vec<RowId> = self.rows(self.round + 1).collect();
            self.member.pull(wanted);
        }
        Ok(played)
    }

    fn rows(&self, round: u32) -> impl Iterator<Item = RowId> {
        let tables = self.member.job().tables.iter().map(|table| table.id);
        let by_table = tables.zip(&self.touched[round as usize]);
        by_table.flat_map(|(table, keys)| keys.iter().map(move |key| RowId { table, key: *key }))
    }

    fn gradients(&self) -> BTreeMap<RowId, Vec<f32>> {
        let job = self.member.job();
        let dim = |row: &RowId| {
            let table = job.tables.iter().find(|table| table.id == row.table);
            table.map_or(0, |table| usize::from(table.dim))
        };
        self.rows(self.round).map(|row| (row, vec![GRADIENT; dim(&row)])).collect()
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
