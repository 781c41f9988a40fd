//! Each rank takes the shares of all; the source is its own share, and nothing is summed.

use super::{Rules, all_shares};

pub(super) const RULES: Rules =
    Rules { name: "all_gather", has_root: false, is_copy: true, is_share: false, part: all_shares };
