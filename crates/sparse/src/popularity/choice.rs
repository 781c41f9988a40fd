//! Which rows are to be hot, given the ranking of today and the hot rows of yesterday.

use std::collections::BTreeSet;

/// A hot row stays while it is among this many times as many rows as there may be: a row at the edge does not go back and
/// forth, which would cost an exchange each time and gain nothing.
const HYSTERESIS: f64 = 1.3;

/// The rows that are to be hot, `most` at most, the more popular ones first: those of `current` that are ranked high enough
/// to stay, then the first of the ranking.
#[must_use]
pub fn choose<T: Copy + Ord>(current: &BTreeSet<T>, ranking: &[T], most: usize) -> Vec<T> {
    let reach = ranking.len().min((most as f64 * HYSTERESIS) as usize);
    let stays: BTreeSet<T> =
        ranking[..reach].iter().copied().filter(|row| current.contains(row)).take(most).collect();
    let mut room = most - stays.len();
    let mut is_chosen = |row: &T| {
        stays.contains(row)
            || room.checked_sub(1).is_some_and(|left| {
                room = left;
                true
            })
    };
    ranking.iter().copied().filter(|row| is_chosen(row)).collect()
}
