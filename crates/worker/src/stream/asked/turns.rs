//! Which stream sends next, where several have something to send.

use wiresum_wire::FragmentId;

/// Streams progress alike: who sends next is the one that has passed the fewest positions, those that it only takes
/// included. So sums, of which a worker gives all but its own part, and copies, of which it gives its own share, end
/// together and load both directions of its link until then. Who has nothing to send saves up nothing.
pub(super) struct Turns {
    /// By stream: the turns it has had, counted by positions, and where it was at the last one.
    passed: Vec<u64>,
    at: Vec<FragmentId>,
}

impl Turns {
    /// So many streams, each at this position.
    pub fn new(streams: usize, first: FragmentId) -> Self {
        Self { passed: vec![0; streams], at: vec![first; streams] }
    }

    /// The stream that is asked when those before `last` had nothing to send, and it neither; the first one without it.
    pub fn after(&self, last: Option<usize>) -> Option<usize> {
        let key = |stream: usize| (self.passed[stream], stream);
        let is_later = |stream: &usize| last.is_none_or(|last| key(*stream) > key(last));
        (0..self.passed.len()).filter(is_later).min_by_key(|stream| key(*stream))
    }

    /// A stream has sent something, and is at this position now; those before it had nothing to send.
    pub fn note(&mut self, stream: usize, next: FragmentId) {
        let reached = self.passed[stream];
        self.passed.iter_mut().for_each(|passed| *passed = reached.max(*passed));
        let positions = next.since(std::mem::replace(&mut self.at[stream], next));
        // What is sent again, or asked, is a turn, too.
        self.passed[stream] += positions.max(1) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often each stream sends in so many turns, where each passes `steps` positions, or has nothing to send if that is 0.
    fn sent(turns: &mut Turns, steps: [u32; 3], count: usize) -> [usize; 3] {
        let mut sent = [0; 3];
        for _ in 0..count {
            let mut last = None;
            while let Some(stream) = turns.after(last) {
                if steps[stream] > 0 {
                    turns.note(stream, turns.at[stream].plus(steps[stream]));
                    sent[stream] += 1;
                    break;
                }
                last = Some(stream);
            }
        }
        sent
    }

    #[test]
    fn streams_pass_positions_alike() {
        assert_eq!(sent(&mut Turns::new(3, FragmentId(u32::MAX)), [1, 1, 1], 30), [10, 10, 10]);
        assert_eq!(sent(&mut Turns::new(3, FragmentId(u32::MAX)), [1, 4, 0], 50), [40, 10, 0]);
        assert_eq!(sent(&mut Turns::new(3, FragmentId(u32::MAX)), [0, 0, 0], 5), [0, 0, 0]);
    }

    #[test]
    fn who_had_nothing_to_send_has_no_more_turns_later() {
        let mut turns = Turns::new(3, FragmentId(u32::MAX));
        assert_eq!(sent(&mut turns, [1, 0, 1], 40), [20, 0, 20]);
        let counts = sent(&mut turns, [1, 1, 1], 30);
        assert!(counts.iter().all(|count| count.abs_diff(10) <= 1), "{counts:?}");
    }
}
