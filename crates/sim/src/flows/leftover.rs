//! What links leave to the jobs: others' traffic takes its rate away, a failure everything.

use crate::scenario::Background;

/// Part of a link that traffic of others leaves at least.
const LEAST_PART: f64 = 1e-3;

/// By direction: what it would give alone, and who and what takes from it at the moment. Causes are kept apart, so each may end while
/// others last.
pub(super) struct Leftover {
    full_bps: Vec<f64>,
    failures: Vec<u32>,
    /// Indices of background traffic that crosses it.
    others: Vec<Vec<u32>>,
}

impl Leftover {
    /// What is left of directions with these rates that nothing disturbs.
    pub fn new(full_bps: Vec<f64>) -> Self {
        let count = full_bps.len();
        Self { full_bps, failures: vec![0; count], others: vec![Vec::new(); count] }
    }

    /// bit/s of an undisturbed direction.
    pub fn full_bps(&self, direction: usize) -> f64 {
        self.full_bps[direction]
    }

    /// One more failure of a direction, or one less.
    pub fn fail(&mut self, direction: u32, is_back: bool) {
        let failures = &mut self.failures[direction as usize];
        *failures = if is_back { failures.saturating_sub(1) } else { *failures + 1 };
    }

    /// Background traffic begins to cross a direction, or stops.
    pub fn press(&mut self, direction: u32, index: u32, is_over: bool) {
        let others = &mut self.others[direction as usize];
        if is_over {
            others.retain(|other| *other != index);
        } else {
            others.push(index);
        }
    }

    /// bit/s that jobs can have of a direction now.
    pub fn rate_bps(&self, direction: u32, background: &[Background]) -> f64 {
        let index = direction as usize;
        if self.failures[index] > 0 {
            return 0.0;
        }
        let full_bps = self.full_bps[index];
        // Added up anew each time: what is left after the last one has gone is the full rate, to the bit.
        let taken_bps: f64 =
            self.others[index].iter().map(|other| background[*other as usize].rate_bps).sum();
        (full_bps - taken_bps).max(LEAST_PART * full_bps)
    }
}
