//! The event queue: a radix heap, laid out in arrays.

/// One bucket for each bit in which a time may differ from the current one, and one for those that do not.
const BUCKETS: usize = u64::BITS as usize + 1;

/// Events by time; those of one time come in the order in which they were pushed, so that a run depends on nothing else.
///
/// A radix heap (Ahuja, Mehlhorn, Orlin, Tarjan: Faster Algorithms for the Shortest Path Problem, JACM 1990): as time never goes back, an
/// event waits in the bucket of the highest bit in which its time differs from the latest one taken, and moves at most 64 times, always
/// downwards. Events of equal time share a bucket at all times, and buckets keep their order.
pub struct Queue<E> {
    /// Bucket 0 holds events that are due at `now`, from `taken` on.
    buckets: Vec<Vec<(u64, E)>>,
    taken: usize,
    now: u64,
    len: usize,
}

impl<E: Copy> Default for Queue<E> {
    fn default() -> Self {
        Self { buckets: vec![Vec::new(); BUCKETS], taken: 0, now: 0, len: 0 }
    }
}

impl<E: Copy> Queue<E> {
    /// Adds an event.
    ///
    /// # Panics
    /// If `at` is before the time of the last event taken.
    #[inline]
    pub fn push(&mut self, at: u64, event: E) {
        assert!(at >= self.now, "an event at {at} comes after {}", self.now);
        self.buckets[bucket(at, self.now)].push((at, event));
        self.len += 1;
    }

    /// Takes the next event, and its time.
    #[inline]
    pub fn pop(&mut self) -> Option<(u64, E)> {
        if self.taken == self.buckets[0].len() {
            self.refill()?;
        }
        let next = self.buckets[0][self.taken];
        self.taken += 1;
        self.len -= 1;
        Some(next)
    }

    /// When the next event is due. Looks at all events of a bucket, so it is for tests; whoever is in a hurry takes the event.
    #[must_use]
    pub fn next_at(&self) -> Option<u64> {
        if self.taken < self.buckets[0].len() {
            return Some(self.now);
        }
        let lowest = self.buckets[1..].iter().find(|bucket| !bucket.is_empty())?;
        lowest.iter().map(|(at, _)| *at).min()
    }

    /// Events that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Goes to the earliest time of the lowest bucket that has events, and spreads these over the buckets below.
    fn refill(&mut self) -> Option<()> {
        self.buckets[0].clear();
        self.taken = 0;
        let lowest = self.buckets.iter().position(|bucket| !bucket.is_empty())?;
        let mut events = std::mem::take(&mut self.buckets[lowest]);
        self.now = events.iter().map(|(at, _)| *at).min()?;
        for (at, event) in events.drain(..) {
            self.buckets[bucket(at, self.now)].push((at, event));
        }
        self.buckets[lowest] = events;
        Some(())
    }
}

fn bucket(at: u64, now: u64) -> usize {
    (u64::BITS - (at ^ now).leading_zeros()) as usize
}

#[cfg(test)]
mod tests {
    use crate::rng::Rng;

    use super::*;

    #[test]
    fn events_come_by_time_and_then_in_order_of_arrival() {
        for seed in 0..50 {
            let mut rng = Rng::new(seed);
            let mut queue = Queue::default();
            let mut model: Vec<(u64, u32)> = Vec::new();
            let mut now = 0;
            for ordinal in 0..2000u32 {
                if rng.below(3) > 0 {
                    let span = 1 << rng.below(40);
                    let at = now + rng.below(span);
                    queue.push(at, ordinal);
                    model.push((at, ordinal));
                } else {
                    let next = model.iter().copied().min();
                    assert_eq!(queue.next_at(), next.map(|(at, _)| at), "seed {seed}");
                    assert_eq!(queue.pop(), next, "seed {seed}");
                    model.retain(|event| Some(*event) != next);
                    now = next.map_or(now, |(at, _)| at);
                }
                assert_eq!(queue.len(), model.len());
            }
        }
    }

    #[test]
    #[should_panic(expected = "comes after")]
    fn time_does_not_go_back() {
        let mut queue = Queue::default();
        queue.push(10, ());
        queue.pop();
        queue.push(9, ());
    }
}
