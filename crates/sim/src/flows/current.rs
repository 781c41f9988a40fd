//! What flows: one edge of a tree, or a whole tree whose edges move in step.

use crate::SimulationError;
use crate::network::RoutedLinks;
use crate::scenario::{Job, Scenario, Stream};

/// The ranks whose collective ends with a current.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Brings {
    /// Nobody's.
    Nothing,
    /// This worker's.
    Rank(u32),
    /// Everyone's.
    All,
}

/// When a current may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begins {
    /// When this worker has begun the collective.
    Rank(u32),
    /// When all have.
    Last,
    /// When what feeds it has.
    Fed,
}

/// A current as a collective has it in every round. Currents are numbered within their collective.
#[derive(Clone, Debug)]
pub(super) struct Template {
    /// Capacities that it crosses, each once, and how often.
    pub uses: Vec<(u32, u32)>,
    pub wire_bytes: f64,
    pub begins: Begins,
    pub brings: Brings,
    /// Currents that bring what this one sends on, and those that send on what this one brings.
    pub feeds: Vec<u32>,
    pub fed: Vec<u32>,
    /// Whether the target is the root of its tree, and the current goes up.
    pub into_root: bool,
    /// For messages: who sends to whom.
    pub source: usize,
    pub target: usize,
}

/// A collective of a job.
#[derive(Clone, Debug, Default)]
pub(super) struct Pattern {
    pub currents: Vec<Template>,
    /// Currents that have to end before a worker has everything.
    pub needed: u32,
}

impl Pattern {
    /// Tells each current whom it feeds.
    pub fn mirror(&mut self) {
        for index in 0..self.currents.len() {
            for feed in self.currents[index].feeds.clone() {
                self.currents[feed as usize].fed.push(index as u32);
            }
        }
    }
}

/// Makes the patterns of jobs.
pub(super) struct Weaver<'a> {
    pub scenario: &'a Scenario,
    pub network: &'a mut RoutedLinks,
    /// By site: the capacity that is its adding.
    pub adders: &'a [Option<u32>],
}

impl Weaver<'_> {
    /// The pattern of one of a job's collectives.
    pub fn pattern(&mut self, job: &Job, collective: usize) -> Result<Pattern, SimulationError> {
        let mut pattern = Pattern::default();
        for stream in job.streams.iter().filter(|stream| stream.collective == collective) {
            if !stream.shares.is_empty() {
                self.weave_shares(stream, &mut pattern)?;
                continue;
            }
            if stream.lockstep {
                self.weave_whole(job, stream, &mut pattern)?;
            } else {
                self.weave_edges(job, stream, &mut pattern)?;
            }
            pattern.needed += 1;
        }
        pattern.mirror();
        Ok(pattern)
    }

    /// One current for all edges.
    fn weave_whole(
        &mut self,
        job: &Job,
        stream: &Stream,
        pattern: &mut Pattern,
    ) -> Result<(), SimulationError> {
        let mut crossed = Vec::new();
        for &(child, parent) in &stream.edges {
            crossed.extend(self.up(stream, child, parent)?);
            if !job.upload_only && !stream.is_copied {
                crossed.extend(self.down(stream, parent, child)?);
            }
        }
        if !job.upload_only && stream.is_copied {
            crossed.extend(self.crossed_by_copies(job, stream)?);
        }
        let (source, target) = stream.edges.first().copied().unwrap_or_default();
        pattern.currents.push(Template {
            uses: counted(crossed),
            wire_bytes: stream.wire_bytes,
            begins: Begins::Last,
            brings: Brings::All,
            feeds: Vec::new(),
            fed: Vec::new(),
            into_root: true,
            source,
            target,
        });
        Ok(())
    }

    /// A current for each edge and way. Those of the way up come first, children before their parents.
    fn weave_edges(
        &mut self,
        job: &Job,
        stream: &Stream,
        pattern: &mut Pattern,
    ) -> Result<(), SimulationError> {
        let first = pattern.currents.len();
        let edges: Vec<_> = stream.edges.iter().rev().copied().collect();
        let is_root = |site: usize| edges.iter().all(|(child, _)| *child != site);
        for &(child, parent) in &edges {
            let uses = counted(self.up(stream, child, parent)?);
            let below = |(_, (_, to)): &(usize, &(usize, usize))| *to == child;
            let feeds = edges.iter().enumerate().filter(below).map(|(i, _)| (first + i) as u32);
            let begins = match self.rank(job, child) {
                Some(_) if job.barrier => Begins::Last,
                Some(rank) => Begins::Rank(rank),
                None => Begins::Fed,
            };
            pattern.currents.push(Template {
                uses,
                wire_bytes: stream.wire_bytes,
                begins,
                brings: Brings::Nothing,
                feeds: feeds.collect(),
                fed: Vec::new(),
                into_root: is_root(parent),
                source: child,
                target: parent,
            });
        }
        if job.upload_only {
            end_at_root(first, pattern, is_root);
            return Ok(());
        }
        if stream.is_copied {
            let ups = first as u32..pattern.currents.len() as u32;
            let is_last = |number: &u32| pattern.currents[*number as usize].into_root;
            let into_root: Vec<u32> = ups.filter(is_last).collect();
            return self.weave_copies(job, stream, &into_root, pattern);
        }
        self.weave_results(job, stream, first, pattern)
    }

    /// Results of nodes that send one to each child.
    fn weave_results(
        &mut self,
        job: &Job,
        stream: &Stream,
        first: usize,
        pattern: &mut Pattern,
    ) -> Result<(), SimulationError> {
        let edges: Vec<_> = stream.edges.iter().rev().copied().collect();
        let mut results: Vec<(usize, u32)> = Vec::new();
        for &(child, parent) in &stream.edges {
            let into = |(_, (_, to)): &(usize, &(usize, usize))| *to == parent;
            let feeds = match results.iter().find(|(site, _)| *site == parent) {
                Some((_, result)) => vec![*result],
                None => {
                    edges.iter().enumerate().filter(into).map(|(i, _)| (first + i) as u32).collect()
                }
            };
            results.push((child, pattern.currents.len() as u32));
            pattern.currents.push(Template {
                uses: counted(self.down(stream, parent, child)?),
                wire_bytes: stream.wire_bytes,
                begins: Begins::Fed,
                brings: self.rank(job, child).map_or(Brings::Nothing, Brings::Rank),
                feeds,
                fed: Vec::new(),
                into_root: false,
                source: parent,
                target: child,
            });
        }
        Ok(())
    }

    /// Workers that send and take different amounts: a collective has ended when all of it has crossed all links.
    fn weave_shares(
        &mut self,
        stream: &Stream,
        pattern: &mut Pattern,
    ) -> Result<(), SimulationError> {
        for (&(child, parent), &(up, down)) in stream.edges.iter().zip(&stream.shares) {
            let ways = [
                (self.up(stream, child, parent)?, up, child, parent),
                (self.down(stream, parent, child)?, down, parent, child),
            ];
            for (crossed, wire_bytes, source, target) in ways {
                pattern.needed += 1;
                pattern.currents.push(Template {
                    uses: counted(crossed),
                    wire_bytes,
                    begins: Begins::Last,
                    brings: Brings::All,
                    feeds: Vec::new(),
                    fed: Vec::new(),
                    into_root: target == parent,
                    source,
                    target,
                });
            }
        }
        Ok(())
    }

    fn up(
        &mut self,
        stream: &Stream,
        child: usize,
        parent: usize,
    ) -> Result<Vec<u32>, SimulationError> {
        let mut path = self.way_up(stream, child, parent)?;
        path.extend(self.adders[parent]);
        Ok(path)
    }

    /// The links from a child to its parent.
    pub(super) fn way_up(
        &mut self,
        stream: &Stream,
        child: usize,
        parent: usize,
    ) -> Result<Vec<u32>, SimulationError> {
        match chosen(stream, child, parent) {
            Some(way) => Ok(way.to_vec()),
            None => self.network.path(child, parent),
        }
    }

    /// Results of a way that someone chose take it back.
    fn down(
        &mut self,
        stream: &Stream,
        parent: usize,
        child: usize,
    ) -> Result<Vec<u32>, SimulationError> {
        match chosen(stream, child, parent) {
            Some(way) => Ok(way.iter().rev().map(|direction| direction ^ 1).collect()),
            None => self.network.path(parent, child),
        }
    }

    pub(super) fn rank(&self, job: &Job, site: usize) -> Option<u32> {
        let name = &self.scenario.sites[site].name;
        job.plan.workers.iter().find(|worker| worker.name == *name).map(|worker| worker.rank)
    }
}

/// The way from a child to its parent, if someone chose it.
fn chosen(stream: &Stream, child: usize, parent: usize) -> Option<&[u32]> {
    let way = stream.ways.iter().find(|way| (way.from, way.to) == (child, parent));
    way.map(|way| way.directions.as_slice())
}

/// Workers are done when the root has everything: the caller counts one of the currents that end there.
fn end_at_root(first: usize, pattern: &mut Pattern, is_root: impl Fn(usize) -> bool) {
    let last = pattern.currents[first..].iter_mut().filter(|current| is_root(current.target));
    let count = last.map(|current| current.brings = Brings::All).count() as u32;
    pattern.needed += count.saturating_sub(1);
}

/// Each capacity once, and how often it was there.
pub(super) fn counted(mut crossed: Vec<u32>) -> Vec<(u32, u32)> {
    crossed.sort_unstable();
    let runs = crossed.chunk_by(|a, b| a == b);
    runs.map(|run| (run[0], run.len() as u32)).collect()
}
