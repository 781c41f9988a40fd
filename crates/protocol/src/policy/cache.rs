//! `cache` (XAgg §IV): a slot for each fragment of the gradient. What the node holds is safe there, so a worker's window
//! moves on the node's word for groups of fragments, and no worker waits for another while it sends.

use super::{Acknowledgement, SlotPolicy};

pub(super) struct Cache;

impl SlotPolicy for Cache {
    fn acknowledgement(&self) -> Acknowledgement {
        Acknowledgement::Held
    }
}
