//! Each rank takes the shares of all, its own too.

use super::{Rules, all_shares};

pub(super) const RULES: Rules = Rules {
    name: "small all_gather",
    has_root: false,
    is_copy: true,
    is_share: true,
    part: all_shares,
};
