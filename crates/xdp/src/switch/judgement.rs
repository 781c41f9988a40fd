//! What the kernel's switch says of a packet in a test-run.

use wiresum_switch::{Egress, Verdict};

/// What the program has done with a packet in a test-run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// Its fate.
    pub verdict: Verdict,
    /// Where it goes.
    pub egress: Egress,
    /// The frame as it leaves, if it does.
    pub frame: Vec<u8>,
}

/// What the program returns in place of an action; `None` if the frame is not for the switch.
pub(super) fn decode(returned: u32) -> Option<(Verdict, Egress)> {
    let egress = match returned >> 8 {
        0 => Egress::Absorbed,
        1 => Egress::Up,
        2 => Egress::Down,
        _ => return None,
    };
    Some((Verdict::from_wire(returned as u8)?, egress))
}
