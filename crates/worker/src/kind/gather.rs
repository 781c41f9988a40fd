//! The root takes the shares of the others; the source is a rank's own share, and nothing is summed.

use std::ops::Range;

use super::{Rules, View, all_shares};

pub(super) const RULES: Rules =
    Rules { name: "gather", has_root: true, is_copy: true, is_share: false, part };

fn part(view: View) -> Range<usize> {
    if view.rank == view.root { all_shares(view) } else { 0..0 }
}
