//! Results that switches copy where ways part: until there, one goes for all behind.

use super::current::{Begins, Brings, Pattern, Template, Weaver, counted};
use crate::SimulationError;
use crate::scenario::{Job, Stream};

/// Links that results for the same workers take, from where ways part to where they part again.
#[derive(Debug, PartialEq, Eq)]
struct Stretch {
    directions: Vec<u32>,
    /// The stretch before; none begins at the root.
    after: Option<usize>,
    /// The worker at its end.
    rank: Option<u32>,
}

/// What is left of a worker's way.
type Rest<'a> = (u32, &'a [u32]);

impl Weaver<'_> {
    /// The directions that results of a stream cross, each once for all behind it.
    pub(super) fn crossed_by_copies(
        &mut self,
        job: &Job,
        stream: &Stream,
    ) -> Result<Vec<u32>, SimulationError> {
        let stretches = self.stretches(job, stream)?;
        Ok(stretches.into_iter().flat_map(|stretch| stretch.directions).collect())
    }

    /// Currents of results, fed by those that end at the root.
    pub(super) fn weave_copies(
        &mut self,
        job: &Job,
        stream: &Stream,
        into_root: &[u32],
        pattern: &mut Pattern,
    ) -> Result<(), SimulationError> {
        let first = pattern.currents.len() as u32;
        for stretch in self.stretches(job, stream)? {
            let before = stretch.after.map(|index| vec![first + index as u32]);
            let ends = |direction: Option<&u32>, back| {
                direction.map_or(0, |direction| self.network.links.end(direction ^ back))
            };
            pattern.currents.push(Template {
                source: ends(stretch.directions.first(), 1),
                target: ends(stretch.directions.last(), 0),
                uses: counted(stretch.directions),
                wire_bytes: stream.wire_bytes,
                begins: Begins::Fed,
                brings: stretch.rank.map_or(Brings::Nothing, Brings::Rank),
                feeds: before.unwrap_or_else(|| into_root.to_vec()),
                fed: Vec::new(),
                into_root: false,
            });
        }
        Ok(())
    }

    fn stretches(&mut self, job: &Job, stream: &Stream) -> Result<Vec<Stretch>, SimulationError> {
        let mut ways = Vec::new();
        for &(child, _) in &stream.edges {
            if let Some(rank) = self.rank(job, child) {
                ways.push((rank, self.way_down(stream, child)?));
            }
        }
        let ways: Vec<Rest<'_>> = ways.iter().map(|(rank, way)| (*rank, &way[..])).collect();
        let mut stretches = Vec::new();
        part(&ways, None, &mut stretches);
        Ok(stretches)
    }

    /// From the root to a worker: the way of its values back, without detours.
    fn way_down(&mut self, stream: &Stream, worker: usize) -> Result<Vec<u32>, SimulationError> {
        let (mut at, mut way) = (worker, Vec::new());
        while let Some(&(child, parent)) = stream.edges.iter().find(|(child, _)| *child == at) {
            way.extend(self.way_up(stream, child, parent)?);
            at = parent;
        }
        let way = self.network.without_circles(&way);
        Ok(way.into_iter().rev().map(|direction| direction ^ 1).collect())
    }
}

/// Cuts ways where they part.
fn part(ways: &[Rest<'_>], after: Option<usize>, stretches: &mut Vec<Stretch>) {
    let mut heads: Vec<u32> = ways.iter().filter_map(|(_, way)| way.first().copied()).collect();
    heads.sort_unstable();
    heads.dedup();
    for head in heads {
        let group = ways.iter().filter(|(_, way)| way.first() == Some(&head));
        let group: Vec<Rest<'_>> = group.copied().collect();
        let common = common(&group);
        let ending = group.iter().find(|(_, way)| way.len() == common);
        let directions = group[0].1[..common].to_vec();
        stretches.push(Stretch { directions, after, rank: ending.map(|(rank, _)| *rank) });
        let index = stretches.len() - 1;
        let rests: Vec<Rest<'_>> =
            group.iter().map(|(rank, way)| (*rank, &way[common..])).collect();
        part(&rests, Some(index), stretches);
    }
}

/// How many directions all begin with.
fn common(ways: &[Rest<'_>]) -> usize {
    let first = ways[0].1;
    let same = |way: &&[u32]| first.iter().zip(*way).take_while(|(a, b)| a == b).count();
    ways.iter().map(|(_, way)| same(way)).min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_cut_where_they_part_and_counted_once_before() {
        let ways: [Rest<'_>; 3] = [(0, &[1, 2, 3]), (1, &[1, 2, 4]), (2, &[5, 6])];
        let mut stretches = Vec::new();
        part(&ways, None, &mut stretches);
        let made = |directions: &[u32], after, rank| Stretch {
            directions: directions.to_vec(),
            after,
            rank,
        };
        let expected = [
            made(&[1, 2], None, None),
            made(&[3], Some(0), Some(0)),
            made(&[4], Some(0), Some(1)),
            made(&[5, 6], None, Some(2)),
        ];
        assert_eq!(stretches, expected);
    }
}
