//! `pool` (SwitchML): few slots, so the result is the acknowledgement and the slowest worker clocks everyone.

use super::{Acknowledgement, SlotPolicy};

pub(super) struct Pool;

impl SlotPolicy for Pool {
    fn acknowledgement(&self) -> Acknowledgement {
        Acknowledgement::Result
    }
}
