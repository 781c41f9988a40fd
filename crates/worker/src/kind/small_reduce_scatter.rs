//! Each rank takes the shares of all, its own too, and reduces its part of them itself.

use super::{Rules, all_shares};

pub(super) const RULES: Rules = Rules {
    name: "small reduce_scatter",
    has_root: false,
    is_copy: true,
    is_share: true,
    part: all_shares,
};
