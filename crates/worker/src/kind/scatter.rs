//! Each rank but the root takes its part of the root's bytes; nothing is summed.

use std::ops::Range;

use super::{Rules, View, even_part};

pub(super) const RULES: Rules =
    Rules { name: "scatter", has_root: true, is_copy: true, is_share: false, part };

fn part(view: View) -> Range<usize> {
    if view.rank == view.root { 0..0 } else { even_part(view) }
}
