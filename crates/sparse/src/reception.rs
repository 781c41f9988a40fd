//! Which packets of a round have come from one sender, how many there are, and which rows it can have no more of.
//!
//! A sender sends its rows in order. So once all packets up to some number are in, it has no more rows up to the last one of
//! these: who sums need not wait for the end of the round to know that a row's sum is complete.

use std::collections::BTreeMap;

use crate::server::PushError;
use crate::table::TableId;

/// Most packets of a sender to a server in a round: 2²⁰ of about 20 rows are 20 M rows, and their bits take 128 KiB.
pub(crate) const MAX_PACKETS: u32 = 1 << 20;

/// Where a row is in a sender's order.
pub(crate) type Place = (u32, u64);

/// Rows that are put come before all that are pushed, in any order.
pub(crate) const PUTS: Place = (0, 0);

/// Behind all rows that are put.
pub(crate) const BEHIND_PUTS: Place = (1, 0);

/// Behind all rows: what is no row comes after them.
pub(crate) const BEHIND: Place = (u32::MAX, u64::MAX);

/// Workers send rows to a server by table and key.
pub(crate) fn row_place(table: TableId, key: u64) -> Place {
    (1 + u32::from(table.0), key)
}

/// Rows go to a switch, and sums to a server, by position.
pub(crate) fn position_place(position: u32) -> Place {
    (1, position.into())
}

/// The first and the last row of a packet.
pub(crate) type Span = (Place, Place);

#[derive(Clone, Debug, Default)]
pub(crate) struct Reception {
    seen: Vec<u64>,
    count: u32,
    announced: Option<u32>,
    /// All packets below this number are in.
    in_order: u32,
    /// The last row of those.
    reached: Option<Place>,
    /// Packets after the first one that is missing.
    ahead: BTreeMap<u32, Span>,
}

impl Reception {
    pub(crate) fn has(&self, sequence: u32) -> bool {
        let word = self.seen.get(sequence as usize / 64);
        word.is_some_and(|word| word >> (sequence % 64) & 1 == 1)
    }

    /// Whether a packet with this number, which has not come before, can have these rows.
    pub(crate) fn check(&self, sequence: u32, span: Span) -> Result<(), PushError> {
        if sequence >= MAX_PACKETS {
            return Err(PushError::Sequence(sequence));
        }
        match self.announced {
            Some(announced) if sequence >= announced => {
                Err(PushError::Count { announced, least: sequence + 1 })
            }
            _ if self.is_in_order(sequence, span) => Ok(()),
            _ => Err(PushError::Order(sequence)),
        }
    }

    /// Whether its rows are between those of the packets next to it, as far as these have come.
    fn is_in_order(&self, sequence: u32, (first, last): Span) -> bool {
        let before = match sequence.checked_sub(1) {
            Some(before) if sequence > self.in_order => self.ahead.get(&before).map(|span| span.1),
            _ => self.reached,
        };
        let behind = self.ahead.get(&(sequence + 1)).map(|span| span.0);
        let ascends = |one: Place, other: Place| {
            one < other || (one == other && [PUTS, BEHIND].contains(&one))
        };
        before.is_none_or(|before| ascends(before, first))
            && behind.is_none_or(|behind| ascends(last, behind))
    }

    pub(crate) fn enter(&mut self, sequence: u32, span: Span) {
        let word = sequence as usize / 64;
        self.seen.resize(self.seen.len().max(word + 1), 0);
        self.seen[word] |= 1 << (sequence % 64);
        self.count += 1;
        self.ahead.insert(sequence, span);
        while let Some((_, last)) = self.ahead.remove(&self.in_order) {
            (self.in_order, self.reached) = (self.in_order + 1, Some(last));
        }
    }

    /// The last row up to which the sender has no more; `None` if it may have any.
    pub(crate) fn reached(&self) -> Option<Place> {
        if self.is_complete() { Some(BEHIND) } else { self.reached }
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

    /// How many packets there are, once the sender has said so.
    pub(crate) fn announced(&self) -> Option<u32> {
        self.announced
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
        let none = (BEHIND, BEHIND);
        reception.enter(70, none);
        assert!(reception.has(70) && !reception.has(69) && !reception.has(1000));
        assert_eq!(reception.announce(70), Err(PushError::Count { announced: 70, least: 71 }));
        assert_eq!(reception.announce(71), Ok(true));
        assert_eq!(reception.announce(71), Ok(false));
        assert_eq!(reception.announce(72), Err(PushError::Count { announced: 72, least: 71 }));
        assert_eq!(reception.check(71, none), Err(PushError::Count { announced: 71, least: 72 }));
        assert!((0..70).all(|sequence| {
            assert!(!reception.is_complete());
            reception.enter(sequence, none);
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
        let none = (BEHIND, BEHIND);
        assert_eq!(reception.check(MAX_PACKETS, none), Err(PushError::Sequence(MAX_PACKETS)));
    }

    #[test]
    fn rows_up_to_the_last_packet_in_order_are_all_there() {
        let span = |first, last| ((3, first), (3, last));
        let mut reception = Reception::default();
        assert_eq!(reception.reached(), None);
        reception.enter(1, span(20, 29));
        assert_eq!(reception.reached(), None, "packet 0 may have smaller ones");
        assert_eq!(reception.check(0, span(10, 20)), Err(PushError::Order(0)));
        assert_eq!(reception.check(2, span(29, 40)), Err(PushError::Order(2)));
        assert_eq!(reception.check(0, span(10, 19)), Ok(()));
        reception.enter(0, span(10, 19));
        assert_eq!(reception.reached(), Some((3, 29)));
        assert_eq!(reception.check(2, span(29, 40)), Err(PushError::Order(2)));
        reception.enter(3, (BEHIND, BEHIND));
        assert_eq!(reception.check(2, span(30, 40)), Ok(()));
        reception.enter(2, span(30, 40));
        assert_eq!(reception.reached(), Some(BEHIND), "what is no row comes after them");
        assert_eq!(reception.check(4, (BEHIND, BEHIND)), Ok(()));
        assert_eq!(reception.check(4, span(41, 41)), Err(PushError::Order(4)));
    }
}
