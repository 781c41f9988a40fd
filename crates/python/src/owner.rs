//! Values with threads of their own, which a forked process does not have.

use std::fmt;
use std::mem;

/// A value of one process. A process that was forked from it can neither use nor drop the value.
pub struct Owned<T> {
    /// Absent while it is dropped.
    value: Option<T>,
    process: u32,
    rank: u32,
}

/// The reason why a value cannot be used: this process was forked from that of a rank.
#[derive(Clone, Copy, Debug)]
pub struct Forked {
    rank: u32,
}

impl fmt::Display for Forked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rank = self.rank;
        write!(f, "this process was forked from rank {rank}; create a group here")?;
        f.write_str(
            ", or connect a client. The threads and sockets of the parent are not in this process",
        )
    }
}

impl<T> Owned<T> {
    pub fn new(value: T, rank: u32) -> Self {
        Self { value: Some(value), process: std::process::id(), rank }
    }

    /// Another value of the same process and rank.
    pub fn beside<U>(&self, value: U) -> Owned<U> {
        Owned { value: Some(value), process: self.process, rank: self.rank }
    }

    pub fn is_here(&self) -> bool {
        self.process == std::process::id()
    }

    /// The value, without a look at the process.
    pub fn anywhere(&self) -> &T {
        self.value.as_ref().expect("it is absent only while it is dropped")
    }

    /// # Errors
    /// [`Forked`] in a process that was forked from the value's.
    pub fn here(&self) -> Result<&T, Forked> {
        if self.is_here() { Ok(self.anywhere()) } else { Err(Forked { rank: self.rank }) }
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        if !self.is_here() {
            mem::forget(self.value.take());
        }
    }
}
