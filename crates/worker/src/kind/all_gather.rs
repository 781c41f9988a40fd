//! Each rank takes the shares of all; the source is its own share, and nothing is summed.

use super::Rules;

pub(super) const RULES: Rules = Rules {
    name: "all_gather",
    has_root: false,
    is_copy: true,
    is_share: false,
    // More than memory has is no number of elements, whatever a caller says.
    part: |view| 0..view.ranks.saturating_mul(view.elements),
};
