//! One seat at a node: who holds it, and for how long it has been silent.

use std::net::SocketAddr;

use wiresum_keys::SeatKey;
use wiresum_wire::control::{ready, word};

use super::LOOK_INTERVAL;

/// Looks without a heartbeat that never make a worker lost, whatever it asks for: heartbeats may be lost on the way.
const LEAST_LOOKS: u32 = 4;

/// What is known of a seat in the running incarnation.
#[derive(Clone, Debug, Default)]
pub(super) struct Seat {
    /// The worker that holds it; absent where a node does.
    pub rank: Option<u32>,
    pub key: Option<SeatKey>,
    pub address: Option<SocketAddr>,
    /// A notice waits to be sent there.
    pub is_owed: bool,
    /// Number of the latest heartbeat; 0 before the first.
    sequence: u32,
    /// Looks without a heartbeat after which its worker is lost; absent while nobody watches it.
    patience: Option<u32>,
    silent_looks: u32,
}

impl Seat {
    pub fn of(rank: Option<u32>, key: Option<SeatKey>) -> Self {
        Self { rank, key, ..Self::default() }
    }

    /// Nothing was heard of it in this incarnation.
    pub fn forget(&mut self) {
        *self = Self::of(self.rank, self.key);
    }

    /// Its holder is somewhere else now, or nowhere, and has to be heard before it can fall silent.
    pub fn move_to(&mut self, address: Option<SocketAddr>) {
        (self.address, self.patience, self.silent_looks) = (address, None, 0);
        self.is_owed = false;
    }

    /// Takes in its worker's heartbeat; `false` if that is no later than the last one.
    pub fn hear(&mut self, payload: &[u8]) -> bool {
        let sequence = word(payload, ready::SEQUENCE_WORD);
        if self.sequence != 0 && sequence.wrapping_sub(self.sequence) as i32 <= 0 {
            return false;
        }
        let dead_after_ms = word(payload, ready::DEAD_AFTER_MS_WORD);
        let looks = dead_after_ms.div_ceil(LOOK_INTERVAL.as_millis() as u32).max(LEAST_LOOKS);
        (self.sequence, self.silent_looks) = (sequence, 0);
        self.patience = (dead_after_ms > 0).then_some(looks);
        true
    }

    /// A look at it.
    pub fn look(&mut self) {
        self.silent_looks = self.silent_looks.saturating_add(u32::from(self.patience.is_some()));
    }

    /// Its holder wants to be missed when it falls silent.
    pub fn is_watched(&self) -> bool {
        self.patience.is_some()
    }

    /// Its holder has been silent for too long.
    pub fn is_silent(&self) -> bool {
        self.patience.is_some_and(|patience| self.silent_looks >= patience)
    }
}
