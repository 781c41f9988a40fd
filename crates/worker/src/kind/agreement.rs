//! Every rank takes the signatures of all, of a collective that another library carries.

use super::{Rules, all_shares};

pub(super) const RULES: Rules = Rules {
    name: "agreement",
    has_root: false,
    is_copy: true,
    is_share: true,
    part: all_shares,
};
