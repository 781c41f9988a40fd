//! Each rank takes the shares of all, its own too, and reduces them itself.

use super::{Rules, all_shares};

pub(super) const RULES: Rules = Rules {
    name: "small all_reduce",
    has_root: false,
    is_copy: true,
    is_share: true,
    part: all_shares,
};
