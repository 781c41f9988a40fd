//! Each rank takes the shares of all, its own too, and keeps its part of the root's, which alone is not of zeros.

use super::{Rules, all_shares};

pub(super) const RULES: Rules = Rules {
    name: "small scatter",
    has_root: true,
    is_copy: true,
    is_share: true,
    part: all_shares,
};
