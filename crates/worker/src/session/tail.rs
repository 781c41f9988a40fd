//! Which results of a collective one worker may lack when another one has ended it.

use std::ops::Range;

use wiresum_protocol::Plan;
use wiresum_protocol::plan::Role;

use super::layout::{Layout, split};
use super::round::MAX_STASHED;

/// Elements whose results a worker may lack of an all-reduce that another one has ended; the same on every worker.
///
/// All have sent the last position of each stream, and no position is sent before the result of the one a number of slots
/// before it has come: so what is missing is among the last positions of each stream. A worker that lacks the agreement has
/// decoded nothing, but then it has room for few results, and the collective is short.
///
/// `width` is the [width](crate::Source::width) of the source.
#[must_use]
pub fn tail(plan: &Plan, elements: usize, width: usize) -> Vec<Range<usize>> {
    let layout = Layout::new(elements, plan.values_len() / width);
    let streams = || plan.streams.iter().filter(|stream| stream.role == Role::Values);
    let most_begun: u32 = streams().map(|stream| stream.most_begun()).sum();
    if layout.fragments() <= most_begun.saturating_add(MAX_STASHED as u32) {
        return std::iter::once(0..elements).collect();
    }
    let shares: Vec<f64> = streams().map(|stream| stream.share).collect();
    let last = |(part, most_begun): (Range<u32>, u32)| {
        let first = part.start.max(part.end.saturating_sub(most_begun));
        let at = |fragment: u32| layout.range(fragment).start.min(elements);
        at(first)..if part.end == layout.fragments() { elements } else { at(part.end) }
    };
    let parts = split(layout.fragments(), &shares).into_iter();
    let tails = parts.zip(streams().map(|stream| stream.most_begun())).map(last);
    tails.filter(|tail| !tail.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan::from_json(include_str!("../../../protocol/tests/plans/tree.json")).expect("valid")
    }

    #[test]
    fn a_short_collective_may_lack_everywhere() {
        assert_eq!(tail(&plan(), 1000, 4), vec![0..1000]);
    }

    #[test]
    fn a_long_one_lacks_the_slots_of_each_stream_before_its_end() {
        let plan = plan();
        let (per_fragment, fragments) = (plan.values_len() / 4, 100_000);
        let elements = per_fragment * fragments - 1;
        let streams: Vec<_> = plan.streams.iter().filter(|s| s.role == Role::Values).collect();
        let tails = tail(&plan, elements, 4);
        assert_eq!(tails.len(), streams.len());
        assert_eq!(tails.last().map(|tail| tail.end), Some(elements));
        for (tail, stream) in tails.iter().zip(&streams) {
            assert_eq!(tail.len().div_ceil(per_fragment), stream.most_begun() as usize);
            assert_eq!(tail.start % per_fragment, 0);
        }
        let ends: Vec<usize> = tails.iter().map(|tail| tail.end.div_ceil(per_fragment)).collect();
        assert!(ends.is_sorted(), "streams carry consecutive parts: {ends:?}");
    }
}
