//! Positions on their way: one record per slot, in two queues, every operation in constant time.
//!
//! Positions that have been sent and have no result lie within one slot count of each other, so position mod slots finds the
//! record. *Unreported* positions are queued in order of their last transmission; *reported* ones (a status said that the
//! node holds them, the result is due) in order of the report.

use wiresum_wire::FragmentId;
use zerocopy::{FromBytes, FromZeros, Immutable};

/// Which queue a record is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// No status has said that the node holds it since it was last sent.
    Unreported = 1,
    /// The node holds it.
    Reported = 2,
}

/// What is known of one position; all bytes zero means that it is done, or that it was never sent and has no result.
#[derive(Clone, Copy, Debug, FromBytes, Immutable)]
#[repr(C)]
pub struct Record {
    /// Unreported: the ordinal of its last transmission. Reported: the newest position with a result at that time.
    pub mark: u32,
    previous: u32,
    next: u32,
    queue: u8,
    /// 1 once a status said that the node holds it.
    pub held: u8,
    /// 1 while it counts as outstanding.
    pub is_counted: u8,
    /// 1 while it waits to be sent again.
    pub is_due_again: u8,
    /// Times that it was sent again, up to the most that fit.
    pub repetitions: u8,
    /// Results of it whose check failed.
    pub damaged: u8,
    /// The latest question about it since it was last sent or reported.
    pub asked: u16,
    /// A [`Duty`].
    pub duty: u8,
    /// 1 from the result to this sender's turn, where the result came first.
    is_ahead: u8,
    padding: [u8; 2],
}

/// A sender's part in a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Duty {
    /// It contributes, and the result is for it.
    Both = 0,
    /// It contributes, and is done when the node holds that.
    Gives = 1,
    /// It contributes nothing, and the result is for it.
    Takes = 2,
    /// It contributes nothing, and the result is for others. It is never on its way.
    Neither = 3,
}

impl Record {
    /// What the sender has to do.
    pub fn is(&self, duty: Duty) -> bool {
        self.duty == duty as u8
    }
}

/// No record.
const NIL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Ends {
    head: u32,
    tail: u32,
}

/// What is known of each position that is on its way.
pub struct Flight {
    records: Vec<Record>,
    queues: [Ends; 2],
}

impl Flight {
    /// Room for `slots` positions under way, a power of two. Memory is touched only where positions are used.
    pub fn new(slots: u32) -> Self {
        let records =
            Record::new_vec_zeroed(slots as usize).expect("a plan's slots fit the address space");
        Self { records, queues: [Ends { head: NIL, tail: NIL }; 2] }
    }

    fn index(&self, position: FragmentId) -> u32 {
        position.0 & (self.records.len() as u32 - 1)
    }

    /// The record of a position that is on its way; `None` if it is done.
    pub fn get(&mut self, position: FragmentId) -> Option<&mut Record> {
        let index = self.index(position);
        let record = &mut self.records[index as usize];
        (record.queue != 0).then_some(record)
    }

    /// Whether the record that this position shares is free, that is, the position has its result if it was sent.
    pub fn is_done(&self, position: FragmentId) -> bool {
        self.records[self.index(position) as usize].queue == 0
    }

    /// The queue that a position on its way is in.
    pub fn queue_of(&self, position: FragmentId) -> Option<Queue> {
        match self.records[self.index(position) as usize].queue {
            1 => Some(Queue::Unreported),
            2 => Some(Queue::Reported),
            _ => None,
        }
    }

    /// The first position of a queue, given any position `oldest` that none on its way is older than.
    pub fn first(&self, queue: Queue, oldest: FragmentId) -> Option<(FragmentId, Record)> {
        self.iter(queue, oldest).next()
    }

    /// The positions of a queue from its head on, given `oldest` as for [`Self::first`].
    pub fn iter(
        &self,
        queue: Queue,
        oldest: FragmentId,
    ) -> impl Iterator<Item = (FragmentId, Record)> + '_ {
        let mask = self.records.len() as u32 - 1;
        let mut index = self.queues[queue as usize - 1].head;
        std::iter::from_fn(move || {
            let record = *self.records.get(index as usize)?;
            let position = oldest.plus(index.wrapping_sub(oldest.0) & mask);
            index = record.next;
            Some((position, record))
        })
    }

    /// Moves a position to the end of a queue, from wherever it is.
    pub fn enqueue(&mut self, position: FragmentId, queue: Queue, mark: u32) {
        let index = self.index(position);
        self.unlink(index);
        let ends = &mut self.queues[queue as usize - 1];
        let previous = std::mem::replace(&mut ends.tail, index);
        if previous == NIL {
            ends.head = index;
        } else {
            self.records[previous as usize].next = index;
        }
        let record = &mut self.records[index as usize];
        (record.queue, record.mark, record.previous, record.next) =
            (queue as u8, mark, previous, NIL);
        record.asked = 0;
    }

    /// The position has its result.
    pub fn remove(&mut self, position: FragmentId) {
        let index = self.index(position);
        self.unlink(index);
        self.records[index as usize] = Record::new_zeroed();
    }

    /// Whether a position's result came before it was begun.
    pub fn is_ahead(&self, position: FragmentId) -> bool {
        self.records[self.index(position) as usize].is_ahead != 0
    }

    /// The result of a position has come before it was begun. It must be within one slot count of all that are on their way.
    pub fn note_ahead(&mut self, position: FragmentId) {
        let index = self.index(position) as usize;
        self.records[index].is_ahead = 1;
    }

    /// It is a position's turn. Whether its result came before, so that nothing is left to do.
    pub fn take_ahead(&mut self, position: FragmentId) -> bool {
        let index = self.index(position) as usize;
        std::mem::take(&mut self.records[index].is_ahead) != 0
    }

    /// Positions that may be under way at once.
    pub fn slots(&self) -> u32 {
        self.records.len() as u32
    }

    /// Notes a transmission; the first of a position starts its record. Returns how often it was sent again.
    pub fn note_sent(&mut self, position: FragmentId, ordinal: u32) -> u8 {
        let is_repeated = !self.is_done(position);
        self.enqueue(position, Queue::Unreported, ordinal);
        let index = self.index(position) as usize;
        let record = &mut self.records[index];
        record.is_due_again = 0;
        record.repetitions = record.repetitions.saturating_add(is_repeated.into());
        record.repetitions
    }

    fn unlink(&mut self, index: u32) {
        let Record { queue, previous, next, .. } = self.records[index as usize];
        if queue == 0 {
            return;
        }
        let ends = &mut self.queues[usize::from(queue) - 1];
        if previous == NIL {
            ends.head = next;
        } else {
            self.records[previous as usize].next = next;
        }
        if next == NIL {
            ends.tail = previous;
        } else {
            self.records[next as usize].previous = previous;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLDEST: FragmentId = FragmentId(u32::MAX - 1);

    fn sent(count: u32) -> Flight {
        let mut flight = Flight::new(8);
        for index in 0..count {
            flight.note_sent(OLDEST.plus(index), index);
        }
        flight
    }

    fn head(flight: &Flight, queue: Queue) -> Option<u32> {
        flight.first(queue, OLDEST).map(|(position, _)| position.since(OLDEST) as u32)
    }

    #[test]
    fn the_earliest_transmission_is_first_across_the_wrap() {
        let mut flight = sent(5);
        assert_eq!(head(&flight, Queue::Unreported), Some(0));
        flight.remove(OLDEST);
        flight.note_sent(OLDEST.plus(1), 5);
        assert_eq!(head(&flight, Queue::Unreported), Some(2));
        assert_eq!(flight.get(OLDEST.plus(1)).map(|r| r.repetitions), Some(1));
    }

    #[test]
    fn positions_move_between_queues_and_out() {
        let mut flight = sent(3);
        flight.enqueue(OLDEST.plus(1), Queue::Reported, 9);
        assert_eq!(head(&flight, Queue::Reported), Some(1));
        flight.remove(OLDEST);
        flight.remove(OLDEST.plus(2));
        assert_eq!(head(&flight, Queue::Unreported), None);
        assert!(flight.is_done(OLDEST) && !flight.is_done(OLDEST.plus(1)));
        flight.remove(OLDEST.plus(1));
        assert_eq!(head(&flight, Queue::Reported), None);
    }
}
