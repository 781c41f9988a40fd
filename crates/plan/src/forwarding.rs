//! Where a site's packets go next: one table up and one down, made from a plan's ways.
//!
//! **Up**, a packet goes by job, stream, address and worker, so that two sums with one address may take ways of their own; where all
//! workers' next hop is the same, one entry stands for any worker. **Down**, each neighbour has the set of each cohort's workers behind it, and a result makes one copy for each
//! neighbour whose set meets the packet's. Every worker is behind one neighbour of a site at most, so it gets one copy.
//!
//! The tables hold no packets and make no decisions of their own: other data planes load the same entries ([`Forwarding::ups`],
//! [`Forwarding::downs`]) into theirs.

use std::collections::BTreeMap;

use crate::ways::{Hop, Site, WayError, Ways};
use wiresum_wire::{JobId, NodeId, SubModelId};

use crate::{Cohort, Contributors, Workers};

/// Over which link a packet leaves, and who is at its other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Neighbour {
    /// Who.
    pub site: Site,
    /// Which of the links to it.
    pub link: u16,
}

impl Neighbour {
    fn of(hop: Hop) -> Self {
        Self { site: hop.to, link: hop.link }
    }
}

/// What decides where a packet goes that is on its way up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UpKey {
    /// The job.
    pub job: JobId,
    /// The stream.
    pub sub_model: SubModelId,
    /// What it is addressed to.
    pub node: NodeId,
    /// Who sent it, or caused it; `None` is anyone of whom the table knows nothing else.
    pub worker: Option<u8>,
}

/// What results go down as: a cohort's part of a stream.
type Stream = (JobId, SubModelId, Cohort);

/// One site's tables: where its packets go next, up and down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forwarding {
    up: BTreeMap<UpKey, Neighbour>,
    down: BTreeMap<Stream, Vec<(Neighbour, Contributors)>>,
}

impl Forwarding {
    /// The tables of one site for some streams.
    ///
    /// # Errors
    /// As [`Ways::validate`].
    pub fn of(site: Site, streams: &[Ways]) -> Result<Self, WayError> {
        let mut tables = Self::default();
        streams.iter().try_for_each(|ways| tables.install(site, ways))?;
        Ok(tables)
    }

    /// Adds a stream's ways.
    ///
    /// # Errors
    /// As [`Ways::validate`]; then nothing is added.
    pub fn install(&mut self, site: Site, ways: &Ways) -> Result<(), WayError> {
        ways.validate()?;
        self.install_up(site, ways);
        self.install_down(site, ways);
        Ok(())
    }

    /// Adds the tables of another job at the same site.
    pub fn extend(&mut self, other: Self) {
        self.up.extend(other.up);
        self.down.extend(other.down);
    }

    /// Forgets a job.
    pub fn remove(&mut self, job: JobId) {
        self.up.retain(|key, _| key.job != job);
        self.down.retain(|(of, ..), _| *of != job);
    }

    fn install_up(&mut self, site: Site, ways: &Ways) {
        let mut by_node: BTreeMap<NodeId, Vec<(u8, Neighbour)>> = BTreeMap::new();
        for way in &ways.of {
            for leg in &way.legs {
                let next =
                    leg.hops.iter().filter(|hop| hop.from == site).map(|hop| Neighbour::of(*hop));
                by_node.entry(leg.node).or_default().extend(next.map(|next| (way.worker, next)));
            }
        }
        for (node, nexts) in by_node {
            let is_one = nexts.windows(2).all(|pair| pair[0].1 == pair[1].1);
            for (worker, next) in nexts {
                let worker = (!is_one).then_some(worker);
                let (job, sub_model) = (ways.job, ways.sub_model);
                self.up.insert(UpKey { job, sub_model, node, worker }, next);
            }
        }
    }

    fn install_down(&mut self, site: Site, ways: &Ways) {
        let mut behind: BTreeMap<Neighbour, Workers> = BTreeMap::new();
        for way in &ways.of {
            if let Some(hop) = way.down().into_iter().find(|hop| hop.from == site) {
                let set = behind.entry(Neighbour::of(hop)).or_default();
                *set = set.with(Workers::one(way.worker));
            }
        }
        for (neighbour, (cohort, workers)) in
            behind.into_iter().flat_map(|(next, set)| set.cohorts().map(move |of| (next, of)))
        {
            let ports = self.down.entry((ways.job, ways.sub_model, cohort)).or_default();
            ports.push((neighbour, workers));
        }
    }

    /// Where a packet on its way up goes next; `None` if no way of its stream with its address leads on from here.
    #[must_use]
    pub fn up(
        &self,
        job: JobId,
        sub_model: SubModelId,
        node: NodeId,
        worker: u8,
    ) -> Option<Neighbour> {
        let key = |worker| UpKey { job, sub_model, node, worker };
        self.up.get(&key(Some(worker))).or_else(|| self.up.get(&key(None))).copied()
    }

    /// The copies of a packet on its way down to some workers of a cohort: to whom each goes next, and for which of them.
    pub fn down(
        &self,
        job: JobId,
        sub_model: SubModelId,
        cohort: Cohort,
        recipients: Contributors,
    ) -> impl Iterator<Item = (Neighbour, Contributors)> {
        let ports = self.down.get(&(job, sub_model, cohort)).map_or(&[][..], Vec::as_slice);
        let copies = ports.iter().map(move |(next, behind)| (*next, behind.only(recipients)));
        copies.filter(|(_, recipients)| !recipients.is_empty())
    }

    /// Every entry of the table up, in order.
    pub fn ups(&self) -> impl Iterator<Item = (UpKey, Neighbour)> {
        self.up.iter().map(|(key, next)| (*key, *next))
    }

    /// Every entry of the table down, in order: stream, cohort, neighbour, and the workers behind it.
    pub fn downs(
        &self,
    ) -> impl Iterator<Item = (JobId, SubModelId, Cohort, Neighbour, Contributors)> {
        let entries = |(&(job, sub_model, cohort), ports): (&Stream, &Vec<_>)| {
            let entry = move |(next, behind): (Neighbour, Contributors)| {
                (job, sub_model, cohort, next, behind)
            };
            ports.clone().into_iter().map(entry)
        };
        self.down.iter().flat_map(entries)
    }

    /// The same tables with neighbours named otherwise, by job; without those that get no name.
    #[must_use]
    pub fn renamed(&self, name: impl Fn(JobId, Neighbour) -> Option<Neighbour>) -> Self {
        let up = |(key, next): (&UpKey, &Neighbour)| Some((*key, name(key.job, *next)?));
        let mut down: BTreeMap<Stream, Vec<_>> = BTreeMap::new();
        for (job, sub_model, cohort, next, behind) in self.downs() {
            if let Some(next) = name(job, next) {
                down.entry((job, sub_model, cohort)).or_default().push((next, behind));
            }
        }
        Self { up: self.up.iter().filter_map(up).collect(), down }
    }

    /// Every neighbour that packets may go to.
    pub fn neighbours(&self) -> impl Iterator<Item = Neighbour> {
        let down = self.down.values().flatten().map(|(next, _)| *next);
        self.up.values().copied().chain(down)
    }
}
