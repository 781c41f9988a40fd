//! Each rank takes the results of its own part; parts are of equal length, or differ by one element.

use super::{Rules, even_part};

pub(super) const RULES: Rules = Rules {
    name: "reduce_scatter",
    has_root: false,
    is_copy: false,
    is_share: false,
    part: even_part,
};
