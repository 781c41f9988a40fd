//! Which rows are popular now: counts that decay, and a choice that does not change its mind for little.
//!
//! What is counted is how many workers had a gradient for a row in a round. Hot rows' counts come with their sums, those of
//! all others are known to their servers, so counting costs no message.

mod choice;
mod count_min;
mod exact;
mod space_saving;
mod tracker;

pub use choice::choose;
pub use count_min::CountMin;
pub use exact::Exact;
pub use space_saving::SpaceSaving;
pub use tracker::{Counting, Tracker};

/// Counts of keys.
pub trait Counter: std::fmt::Debug + Send {
    /// A key was touched by so many workers.
    fn add(&mut self, key: u64, count: f32);

    /// All counts become smaller by this factor, which is below 1.
    fn decay(&mut self, factor: f32);

    /// Keys and their counts, the largest first, equal ones by key; `most` of them at most.
    fn top(&self, most: usize) -> Vec<(u64, f32)>;

    /// Keys that have a count.
    fn counted(&self) -> usize;

    /// Bytes of memory.
    fn bytes(&self) -> usize;

    /// One with the same counts.
    fn boxed(&self) -> Box<dyn Counter>;
}

/// Sorts by count, the largest first, then by key, and leaves the first ones.
fn largest(mut counts: Vec<(u64, f32)>, most: usize) -> Vec<(u64, f32)> {
    let order = |a: &(u64, f32), b: &(u64, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
    if counts.len() > most {
        if most == 0 {
            return Vec::new();
        }
        counts.select_nth_unstable_by(most - 1, order);
        counts.truncate(most);
    }
    counts.sort_unstable_by(order);
    counts
}

#[cfg(test)]
mod tests;
