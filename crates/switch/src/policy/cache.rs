//! `cache` (XAgg §IV): a slot for each fragment of the gradient, so no worker waits for another while it sends.
//!
//! A switch rarely has that much; a server has. What XAgg has beside the slots (group acknowledgement, rates) is in
//! `wiresum-protocol`; here a sender recovers by results, as under the other policies.

use wiresum_protocol::plan;

use super::versions::Versions;
use crate::Sending;
use crate::worker::{Addressing, Rules, Window};

/// The switch program.
pub(super) const PROGRAM: Versions = Versions { name: "cache", policy: plan::Policy::Cache };

/// A window of the gradient's size.
pub(super) fn sender(sending: &Sending) -> Rules {
    Rules {
        window: Window::fixed(sending.window),
        addressing: Addressing::Implied,
        reordering: super::REORDERING,
        is_ordered: true,
        is_slot_bound: false,
    }
}
