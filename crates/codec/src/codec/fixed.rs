//! One factor for all values, which nobody has to agree on.

use super::{Parameter, Rules};
use crate::NOT_FINITE;

pub(super) const RULES: Rules = Rules {
    name: "fixed",
    // With these bounds no product of an element or a lane leaves the range of float64.
    parameter: Some(Parameter { what: "factor", bounds: 1e-30..=1e30, example: 1e8 }),
    agrees: false,
    propose: |largest, limit, factor| {
        let lane = (largest * factor).round_ties_even();
        if lane > limit { NOT_FINITE } else { 0 }
    },
    unit: |_, factor| factor.recip(),
    scale: |_, factor| factor,
};
