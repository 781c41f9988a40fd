//! Each rank takes the shares of all, its own too, and keeps the root's.

use super::{Rules, all_shares};

pub(super) const RULES: Rules = Rules {
    name: "small broadcast",
    has_root: true,
    is_copy: true,
    is_share: true,
    part: all_shares,
};
