//! `pool` (SwitchML, NSDI 2021): few slots in two versions; the result is the acknowledgement, so the slowest worker clocks everyone.

use wiresum_protocol::plan;

use super::versions::Versions;
use crate::Sending;
use crate::worker::{Addressing, Rules, Window};

/// The switch program.
pub(super) const PROGRAM: Versions = Versions { name: "pool", policy: plan::Policy::Pool };

/// A window of fixed size: a slot's next fragment follows the result of its last one.
pub(super) fn sender(sending: &Sending) -> Rules {
    Rules {
        window: Window::fixed(sending.window),
        addressing: Addressing::Implied,
        reordering: super::REORDERING,
        is_ordered: true,
        is_slot_bound: false,
    }
}
