//! Which stream sends next, where several have something to send.

use wiresum_wire::FragmentId;

/// Streams progress alike: who sends next is the one that has passed the fewest positions, those included that it only
/// takes. So sums, of which a worker gives all but its own part, and copies, of which it gives its own share, end
/// together and load both directions of its link until then. Who has nothing to send saves up nothing.
pub(super) struct Turns {
    /// Who has passed the fewest comes first.
    order: Vec<Turn>,
}

struct Turn {
    stream: usize,
    /// Positions that it has passed, or as many as those that sent while it had nothing to send.
    passed: u64,
    /// Where it was when it last sent.
    at: FragmentId,
}

impl Turns {
    /// So many streams, each at this position.
    pub fn new(streams: usize, first: FragmentId) -> Self {
        let turn = |stream| Turn { stream, passed: 0, at: first };
        Self { order: (0..streams).map(turn).collect() }
    }

    /// The stream that is asked when so many before it had nothing to send.
    pub fn stream(&self, nth: usize) -> Option<usize> {
        self.order.get(nth).map(|turn| turn.stream)
    }

    /// The stream that was asked as this one has sent something, and is at this position now.
    pub fn note(&mut self, nth: usize, next: FragmentId) {
        let (before, rest) = self.order.split_at_mut(nth);
        let turn = &mut rest[0];
        before.iter_mut().for_each(|other| other.passed = turn.passed);
        let positions = next.since(std::mem::replace(&mut turn.at, next));
        // What is sent again, or asked, is a turn, too.
        turn.passed += positions.max(1) as u64;
        let passed = turn.passed;
        let behind = rest.partition_point(|other| other.passed <= passed).max(1);
        rest[..behind].rotate_left(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns() -> Turns {
        Turns::new(3, FragmentId(u32::MAX))
    }

    /// How often each stream sends in so many turns, where each passes `steps` positions, or has nothing to send if that is 0.
    fn sent(turns: &mut Turns, steps: [u32; 3], count: usize) -> [usize; 3] {
        let mut sent = [0; 3];
        for _ in 0..count {
            let streams = (0..).map_while(|nth| turns.stream(nth));
            let Some(nth) = streams.into_iter().position(|stream| steps[stream] > 0) else { break };
            let stream = turns.order[nth].stream;
            turns.note(nth, turns.order[nth].at.plus(steps[stream]));
            sent[stream] += 1;
            assert!(turns.order.is_sorted_by_key(|turn| turn.passed));
        }
        sent
    }

    #[test]
    fn streams_pass_positions_alike() {
        assert_eq!(sent(&mut turns(), [1, 1, 1], 30), [10, 10, 10]);
        assert_eq!(sent(&mut turns(), [1, 4, 0], 50), [40, 10, 0]);
        assert_eq!(sent(&mut turns(), [0, 0, 0], 5), [0, 0, 0]);
    }

    #[test]
    fn who_had_nothing_to_send_has_no_more_turns_later() {
        let mut turns = turns();
        assert_eq!(sent(&mut turns, [1, 0, 1], 40), [20, 0, 20]);
        let counts = sent(&mut turns, [1, 1, 1], 30);
        assert!(counts.iter().all(|count| count.abs_diff(10) <= 1), "{counts:?}");
    }
}
