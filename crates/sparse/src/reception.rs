//! Which packets of a round have come from one sender, and how many there are.

use crate::server::PushError;

/// Most packets of a sender to a server in a round: 2²⁰ of about 20 rows are 20 M rows, and their bits take 128 KiB.
pub(crate) const MAX_PACKETS: u32 = 1 << 20;

#[derive(Clone, Debug, Default)]
pub(crate) struct Reception {
    seen: Vec<u64>,
    count: u32,
    announced: Option<u32>,
}

impl Reception {
    pub(crate) fn has(&self, sequence: u32) -> bool {
        let word = self.seen.get(sequence as usize / 64);
        word.is_some_and(|word| word >> (sequence % 64) & 1 == 1)
    }

    /// Whether a packet with this number can be.
    pub(crate) fn check(&self, sequence: u32) -> Result<(), PushError> {
        if sequence >= MAX_PACKETS {
            return Err(PushError::Sequence(sequence));
        }
        match self.announced {
            Some(announced) if sequence >= announced => {
                Err(PushError::Count { announced, least: sequence + 1 })
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn enter(&mut self, sequence: u32) {
        let word = sequence as usize / 64;
        self.seen.resize(self.seen.len().max(word + 1), 0);
        self.seen[word] |= 1 << (sequence % 64);
        self.count += 1;
    }

    /// The sender says how many packets there are; whether that is news.
    pub(crate) fn announce(&mut self, packets: u32) -> Result<bool, PushError> {
        let highest = self.seen.iter().rposition(|word| *word != 0);
        let least =
            highest.map_or(0, |word| word as u32 * 64 + 64 - self.seen[word].leading_zeros());
        let before = self.announced.unwrap_or(packets);
        if packets < least || packets != before || packets > MAX_PACKETS {
            return Err(PushError::Count { announced: packets, least: least.max(before) });
        }
        Ok(self.announced.replace(packets).is_none())
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.announced == Some(self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_when_all_that_were_announced_are_in() {
        let mut reception = Reception::default();
        reception.enter(70);
        assert!(reception.has(70) && !reception.has(69) && !reception.has(1000));
        assert_eq!(reception.announce(70), Err(PushError::Count { announced: 70, least: 71 }));
        assert_eq!(reception.announce(71), Ok(true));
        assert_eq!(reception.announce(71), Ok(false));
        assert_eq!(reception.announce(72), Err(PushError::Count { announced: 72, least: 71 }));
        assert_eq!(reception.check(71), Err(PushError::Count { announced: 71, least: 72 }));
        assert!((0..70).all(|sequence| {
            assert!(!reception.is_complete());
            reception.enter(sequence);
            reception.has(sequence)
        }));
        assert!(reception.is_complete());
    }

    #[test]
    fn nothing_is_complete_too() {
        let mut reception = Reception::default();
        assert!(!reception.is_complete());
        assert_eq!(reception.announce(0), Ok(true));
        assert!(reception.is_complete());
        assert_eq!(reception.check(MAX_PACKETS), Err(PushError::Sequence(MAX_PACKETS)));
    }
}
