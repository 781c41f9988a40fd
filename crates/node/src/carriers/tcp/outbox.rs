//! What a connection has to send, gathered into large writes.

use std::io::{self, Write};

use wiresum_wire::MAX_PACKET;

use crate::udp::SendCounters;

/// Bytes that are worth a system call: as much as one offloaded batch of datagrams, and still in the first two caches when
/// the kernel copies them.
pub const WRITE_LEN: usize = 64 << 10;
/// Bytes waiting for a peer at which whoever causes them has to wait: more than the default window of the largest packets, so
/// that under `pool` no peer that keeps up is ever in the way.
pub const FULL_LEN: usize = 1 << 20;
/// Most bytes that may wait: the packet that is under way when a box turns out to be full still fits.
const LIMIT: usize = FULL_LEN + MAX_PACKET;

/// Packets on their way to the kernel.
#[derive(Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    /// Bytes at the front that the kernel has taken.
    taken: usize,
    /// Packets since the box was last empty.
    packets: u64,
}

impl Outbox {
    /// Bytes that wait.
    pub fn waiting(&self) -> usize {
        self.bytes.len() - self.taken
    }

    /// Packets of which some bytes may wait, at most.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Appends a packet; `false` if it does not fit and is lost.
    pub fn push(&mut self, packet: &[u8]) -> bool {
        if self.waiting() + packet.len() > LIMIT {
            return false;
        }
        // Whatever is moved has been appended once since the last move, so a byte is moved once on average at most.
        if self.taken >= self.waiting() {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
        self.bytes.extend_from_slice(packet);
        self.packets += 1;
        true
    }

    /// Offers the kernel all that waits; whether it has taken anything.
    ///
    /// # Errors
    /// What the kernel says, except that its buffer is full.
    pub fn write_to(
        &mut self,
        mut target: impl Write,
        counters: &mut SendCounters,
    ) -> io::Result<bool> {
        match target.write(&self.bytes[self.taken..]) {
            Ok(len) => {
                counters.batches += 1;
                counters.bytes += len as u64;
                self.taken += len;
                if self.waiting() == 0 {
                    self.bytes.clear();
                    (self.taken, self.packets) = (0, 0);
                }
                Ok(len > 0)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes `0` bytes at a time.
    struct Narrow(usize, Vec<u8>);

    impl Write for Narrow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let len = bytes.len().min(self.0);
            self.1.extend_from_slice(&bytes[..len]);
            Ok(len)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn bytes_leave_in_order_whatever_the_kernel_takes() {
        for width in [1, 7, 99, 100, 101, 5000] {
            let (mut outbox, mut target) = (Outbox::default(), Narrow(width, Vec::new()));
            let mut counters = SendCounters::default();
            for i in 0..100u8 {
                assert!(outbox.push(&[i; 100]));
                outbox.write_to(&mut target, &mut counters).expect("room");
            }
            while outbox.waiting() > 0 {
                outbox.write_to(&mut target, &mut counters).expect("room");
            }
            let expected: Vec<u8> = (0..100).flat_map(|i| [i; 100]).collect();
            assert_eq!(target.1, expected, "{width} bytes at a time");
            assert_eq!(counters.bytes, 10_000);
        }
    }

    #[test]
    fn memory_is_bounded() {
        let mut outbox = Outbox::default();
        let taken = (0..).take_while(|_| outbox.push(&[0; MAX_PACKET])).count();
        assert!(outbox.waiting() >= FULL_LEN);
        assert_eq!(taken, LIMIT / MAX_PACKET);
        let mut counters = SendCounters::default();
        // A peer that takes a little and is given a little, for a long time.
        for _ in 0..5000 {
            outbox.write_to(Narrow(MAX_PACKET, Vec::new()), &mut counters).expect("room");
            outbox.push(&[0; MAX_PACKET]);
        }
        assert!(outbox.bytes.capacity() <= 4 * LIMIT, "{}", outbox.bytes.capacity());
    }
}
