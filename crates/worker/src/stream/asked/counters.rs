//! What a worker counts.

/// Counts since the worker's construction.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters {
    pub hellos: u64,
    pub heartbeats: u64,
    pub contributions: u64,
    pub repetitions: u64,
    /// For results of positions to which this worker contributes nothing.
    pub requests: u64,
    pub probes: u64,
    pub pulses: u64,
    pub statuses: u64,
    pub results: u64,
    pub surplus_results: u64,
    pub late_statuses: u64,
    pub mismatches: u64,
    /// Came before the agreement on their exponents, and more of them waited for it than there is room for.
    pub results_without_room: u64,
    pub foreign: u64,
    pub forged: u64,
    pub damaged: u64,
    pub malformed: u64,
    pub switch_overs: u64,
    pub returns: u64,
}

impl Counters {
    /// Names and values, in a fixed order.
    pub fn list(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("hellos", self.hellos),
            ("heartbeats", self.heartbeats),
            ("contributions", self.contributions),
            ("repetitions", self.repetitions),
            ("requests", self.requests),
            ("probes", self.probes),
            ("pulses", self.pulses),
            ("statuses", self.statuses),
            ("results", self.results),
            ("surplus_results", self.surplus_results),
            ("late_statuses", self.late_statuses),
            ("mismatches", self.mismatches),
            ("results_without_room", self.results_without_room),
            ("foreign", self.foreign),
            ("forged", self.forged),
            ("damaged", self.damaged),
            ("malformed", self.malformed),
            ("switch_overs", self.switch_overs),
            ("returns", self.returns),
        ]
    }
}
