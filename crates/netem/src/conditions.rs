//! What a link is, and what it does to what crosses it: the one model of faults.

/// One direction of a link: a queue that drains at a rate, then delay and misfortune.
///
/// Chances are between 0 and 1 and independent of each other. Times are picoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditions {
    /// bit/s; without a limit where absent.
    pub rate_bps: Option<f64>,
    /// From leaving the queue to arriving.
    pub delay_ps: u64,
    /// Bytes that wait at most; what finds no room is dropped.
    pub queue_bytes: u64,
    /// Bytes that wait when what joins them is marked; nothing is where absent.
    pub ecn_bytes: Option<u64>,
    /// Chance of being lost.
    pub loss: f64,
    /// Chance of coming twice, the second time up to `late_ps` later.
    pub duplication: f64,
    /// By how much a second copy is late, at most.
    pub late_ps: u64,
    /// Chance of being up to `jitter_ps` late, behind what was sent after it.
    pub reordering: f64,
    /// By how much something is late, at most.
    pub jitter_ps: u64,
    /// Chance of arriving damaged; a second copy is sound.
    pub damage: f64,
    /// Chance of being marked, however little waits.
    pub marking: f64,
}

impl Conditions {
    /// No limit, no delay and no harm.
    pub const PERFECT: Self = Self {
        rate_bps: None,
        delay_ps: 0,
        queue_bytes: u64::MAX,
        ecn_bytes: None,
        loss: 0.0,
        duplication: 0.0,
        late_ps: 0,
        reordering: 0.0,
        jitter_ps: 0,
        damage: 0.0,
        marking: 0.0,
    };

    /// Whether anything is up to chance.
    #[must_use]
    pub fn do_harm(&self) -> bool {
        [self.loss, self.duplication, self.reordering, self.damage, self.marking] != [0.0; 5]
    }
}
