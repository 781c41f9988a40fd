//! Each rank takes the shares of all, its own too; the root keeps them.

use super::{Rules, all_shares};

pub(super) const RULES: Rules =
    Rules { name: "small gather", has_root: true, is_copy: true, is_share: true, part: all_shares };
