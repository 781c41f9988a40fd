//! What becomes of datagrams, with the BPF programs or without.

/// What became of a datagram that was to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    /// It leaves at the next flush.
    Queued,
    /// No packet has come from there: send it through the kernel's stack.
    NoRoute,
    /// The interface has not taken anything for a while: it is lost, and will be asked for again.
    Dropped,
}

/// What became of what was queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flushed {
    /// The kernel has all of it.
    All,
    /// The kernel cannot take all of it now: wait until a descriptor is writable.
    Some,
    /// An interface is no longer there, nor what was to leave by it.
    Gone,
}

/// What the sockets have done.
#[derive(Clone, Copy, Debug, Default)]
pub struct FrameCounters {
    /// Frames received.
    pub received: u64,
    /// Frames handed to the kernel.
    pub sent: u64,
    /// System calls that had the kernel send them.
    pub calls: u64,
    /// Frames for which the interface had no room.
    pub refused: u64,
    /// Frames that came faster than they were read.
    pub dropped: u64,
}

impl FrameCounters {
    /// Adds those of other sockets.
    pub fn add(&mut self, other: &Self) {
        self.received += other.received;
        self.sent += other.sent;
        self.calls += other.calls;
        self.refused += other.refused;
        self.dropped += other.dropped;
    }
}
