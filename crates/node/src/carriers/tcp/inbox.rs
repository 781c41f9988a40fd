//! What a connection has received, cut into packets where it lies.

use std::io::{self, Read};
use std::ops::Range;

use wiresum_wire::{MAX_PACKET, Packet, ParseError};

/// Bytes of one read: some forty of the largest packets, so that a system call is a small part of their cost, and still
/// within a core's second-level cache when they are added.
pub const READ_LEN: usize = 128 << 10;

/// Memory for received bytes, and the part of it that is filled. [`Inbox::default`] holds nothing and can receive nothing.
#[derive(Default)]
pub struct Inbox {
    bytes: Vec<u8>,
    filled: Range<usize>,
}

/// What a read brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Nothing is there now.
    Nothing,
    /// Some bytes, and all of them if `is_all`.
    Some {
        /// Whether the read left nothing behind.
        is_all: bool,
    },
    /// The peer will send no more.
    End,
}

impl Inbox {
    /// Room for one read, for what the read before left of a packet, and behind it for the longest packet, as an aggregator
    /// wants that much memory from wherever a packet begins.
    pub fn new() -> Self {
        Self { bytes: vec![0; READ_LEN + 2 * MAX_PACKET], filled: 0..0 }
    }

    /// Reads once. Every whole packet must have been taken before.
    ///
    /// # Errors
    /// What the kernel says, except that nothing is there.
    pub fn fill(&mut self, mut source: impl Read) -> io::Result<Fill> {
        self.bytes.copy_within(self.filled.clone(), 0);
        self.filled = 0..self.filled.len();
        let room = self.bytes.len() - MAX_PACKET - self.filled.end;
        match source.read(&mut self.bytes[self.filled.end..][..room]) {
            Ok(0) => Ok(Fill::End),
            Ok(len) => {
                self.filled.end += len;
                Ok(Fill::Some { is_all: len < room })
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Fill::Nothing),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Fill::Nothing),
            Err(error) => Err(error),
        }
    }

    /// The next packet and its length, in memory of at least [`MAX_PACKET`] bytes in which only those may be changed; `None`
    /// if more has to be received first.
    ///
    /// # Errors
    /// What comes next is no packet, so no one can tell where the one after it begins.
    pub fn next_packet(&mut self) -> Result<Option<(&mut [u8], usize)>, ParseError> {
        let len = match Packet::parse_unchecked(&self.bytes[self.filled.clone()]) {
            Ok(_) => self.filled.len(),
            Err(ParseError::TrailingBytes { need, .. }) => need,
            Err(ParseError::Truncated { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let start = self.filled.start;
        self.filled.start += len;
        Ok(Some((&mut self.bytes[start..], len)))
    }
}

#[cfg(test)]
mod tests {
    use wiresum_wire::{HEADER_LEN, Header, Kind, MAGIC, VERSION};
    use zerocopy::{FromZeros, IntoBytes};

    use super::*;

    /// A contribution with `lanes` lanes, marked by its fragment.
    fn packet(fragment: u32, lanes: u16) -> Vec<u8> {
        let mut header = Header::new_zeroed();
        header.magic.set(MAGIC);
        header.version = VERSION;
        header.kind = Kind::Contribution as u8;
        header.fragment.set(fragment);
        header.value_count.set(lanes);
        [header.as_bytes(), &vec![fragment as u8; 4 * usize::from(lanes)]].concat()
    }

    /// Gives at most `step` bytes at a time.
    struct Trickle<'a>(&'a [u8], usize);

    impl Read for Trickle<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let len = self.1.min(self.0.len()).min(buffer.len());
            buffer[..len].copy_from_slice(&self.0[..len]);
            self.0 = &self.0[len..];
            Ok(len)
        }
    }

    #[test]
    fn packets_are_whole_however_they_arrive() {
        let lanes = |i: u32| 8 + (i * 56 % 736) as u16 / 8 * 8;
        let sent: Vec<_> = (0..200).map(|i| packet(i, lanes(i).min(736))).collect();
        let stream = sent.concat();
        for step in [1, 33, 34, 35, 3000, 70_000, usize::MAX] {
            let (mut inbox, mut source) = (Inbox::new(), Trickle(&stream, step));
            let mut received = Vec::new();
            while inbox.fill(&mut source).expect("no error") != Fill::End {
                while let Some((memory, len)) = inbox.next_packet().expect("packets") {
                    assert!(memory.len() >= MAX_PACKET);
                    received.push(memory[..len].to_vec());
                }
            }
            assert!(received == sent, "{step} bytes at a time");
        }
    }

    #[test]
    fn garbage_is_told_from_a_packet_that_is_not_whole() {
        let mut inbox = Inbox::new();
        let whole = packet(1, 64);
        inbox.fill(&whole[..HEADER_LEN + 5]).expect("no error");
        assert!(inbox.next_packet().expect("no garbage").is_none());
        inbox.fill(&whole[HEADER_LEN + 5..]).expect("no error");
        assert!(inbox.next_packet().expect("no garbage").is_some());
        inbox.fill(&[b'x'; HEADER_LEN][..]).expect("no error");
        assert!(matches!(inbox.next_packet(), Err(ParseError::Magic(_))));
    }
}
