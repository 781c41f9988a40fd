//! Which rows are to be hot, given the ranking of today and the hot rows of yesterday.

use std::collections::BTreeSet;

/// The rows that are to be hot, `most` at most, the more popular ones first: those of `current` that are among the
/// first `reach` times `most` of the ranking, then the first of it.
#[must_use]
pub fn choose<T: Copy + Ord>(
    current: &BTreeSet<T>,
    ranking: &[T],
    most: usize,
    reach: f64,
) -> Vec<T> {
    let reach = ranking.len().min((most as f64 * reach) as usize);
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
