//! Each rank takes the results of its own part; parts are of equal length, or differ by one element.

use std::ops::Range;

use super::{Rules, View};

pub(super) const RULES: Rules =
    Rules { name: "reduce_scatter", has_root: false, is_copy: false, is_share: false, part };

fn part(view: View) -> Range<usize> {
    let start = |rank: usize| (rank as u128 * view.elements as u128 / view.ranks as u128) as usize;
    start(view.rank)..start(view.rank + 1)
}
