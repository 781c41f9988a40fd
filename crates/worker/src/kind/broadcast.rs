//! The ranks but the root take the root's bytes; nothing is summed.

use std::ops::Range;

use super::{Rules, View};

pub(super) const RULES: Rules =
    Rules { name: "broadcast", has_root: true, is_copy: true, is_share: false, part };

fn part(view: View) -> Range<usize> {
    if view.rank == view.root { 0..0 } else { 0..view.elements }
}
