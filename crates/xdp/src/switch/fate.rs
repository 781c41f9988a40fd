//! What the kernel's switch says of a packet.

use wiresum_switch::{Egress, Verdict};

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// A row of `spec/switch.md`.
    Handled(Verdict),
    /// Not a packet of a switch network; dropped.
    Malformed,
    /// Its check does not match; dropped.
    Damaged,
    /// The slot's lock was not to be had, or the frame could not be made longer; dropped, as if the network had lost it.
    Lost,
    /// Beside its row: no way leads on from here; dropped.
    Astray,
    /// Of no job that runs, or of nobody who is next to the switch; dropped.
    Stranger,
}

impl Fate {
    /// Every fate, as the program numbers them.
    pub fn all() -> impl Iterator<Item = Self> {
        let handled = Verdict::ALL.into_iter().map(Self::Handled);
        handled.chain([Self::Malformed, Self::Damaged, Self::Lost, Self::Astray, Self::Stranger])
    }

    /// Its name in metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Handled(verdict) => verdict.name(),
            Self::Malformed => "malformed",
            Self::Damaged => "damaged",
            Self::Lost => "lost",
            Self::Astray => "astray",
            Self::Stranger => "strangers",
        }
    }

    pub(super) fn index(self) -> usize {
        Self::all().position(|fate| fate == self).expect("one of all")
    }
}

/// What the program has done with a packet in a test-run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// What became of it.
    pub fate: Fate,
    /// Where it goes.
    pub egress: Egress,
    /// The frame as it leaves, if it does.
    pub frame: Vec<u8>,
}

/// What the program returns in place of an action; `None` if the frame is not for the switch.
pub(super) fn decode(returned: u32) -> Option<(Fate, Egress)> {
    let egress = match returned >> 8 {
        0 => Egress::Absorbed,
        1 => Egress::Up,
        2 => Egress::Down,
        _ => return None,
    };
    Some((Fate::all().nth(returned as usize & 0xff)?, egress))
}
