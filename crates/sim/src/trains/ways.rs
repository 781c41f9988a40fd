//! The ways of one stream, contributions up to the root and results back, by the tables of live switches ([`Forwarding`]).

use std::collections::{BTreeMap, BTreeSet};

use wiresum_plan::ways::{ANY_NODE, Hop, Leg, Site, Way, Ways};
use wiresum_plan::{Cohort, Contributors, Forwarding, Neighbour, Workers};
use wiresum_wire::{JobId, NodeId, SubModelId};

use crate::network::RoutedLinks;
use crate::scenario::{ProgramStream, Scenario};

/// A direction in which a cohort's results go on, and to whom it leads.
pub(super) type Port = (u32, Cohort, Contributors);

/// An entry of a site's table beside its first: packets for another node, or of one worker alone.
struct Detour {
    site: usize,
    node: NodeId,
    /// `None` is anyone.
    worker: Option<u8>,
    direction: u32,
}

pub(super) struct TrainWays {
    pub root: usize,
    /// Hops of the longest way.
    pub hops: usize,
    /// By site: what contributions are addressed to, and their direction, whoever sends them.
    usual: Vec<Option<(NodeId, u32)>>,
    detours: Vec<Detour>,
    /// By worker: where it is summed first, if a switch sums it.
    pub firsts: Vec<Option<usize>>,
    /// By site: where results go.
    down: Vec<Vec<Port>>,
    /// By site: whose contributions are summed there, if it sums; and to whom its sums are addressed.
    pub members: Vec<Workers>,
    pub parents: Vec<Option<NodeId>>,
}

impl TrainWays {
    /// The ways of a stream whose packets name the switches that sum them, or not.
    ///
    /// # Errors
    /// What is wrong with them, and what to do.
    pub fn new(
        stream: &ProgramStream,
        is_addressed: bool,
        scenario: &Scenario,
        network: &mut RoutedLinks,
    ) -> Result<Self, String> {
        let root = stream.waypoints.first().and_then(|way| way.last()).copied();
        let root = root.ok_or("a worker has no way")?;
        let mut survey = Survey::new(stream, is_addressed, network);
        let mut of = Vec::new();
        for (rank, waypoints) in stream.waypoints.iter().enumerate() {
            if scenario.sites[waypoints[0]].forwards || waypoints.last() != Some(&root) {
                return Err("its ways lead from workers to one root".into());
            }
            of.push(survey.way(rank as u8, waypoints, scenario.sites.len())?);
        }
        let mut ways = Self::nowhere(root, scenario.sites.len());
        ways.firsts = of.iter().map(|way| survey.first(way)).collect();
        ways.hops = of.iter().map(|way| way.hops().count()).max().unwrap_or(0);
        ways.install(&Ways { job: JobId(0), sub_model: SubModelId(0), of }, &survey)?;
        Ok(ways)
    }

    fn nowhere(root: usize, sites: usize) -> Self {
        Self {
            root,
            hops: 0,
            usual: vec![None; sites],
            detours: Vec::new(),
            firsts: Vec::new(),
            down: vec![Vec::new(); sites],
            members: vec![Workers::NONE; sites],
            parents: vec![None; sites],
        }
    }

    /// Where a contribution goes on.
    #[inline]
    pub fn up(&self, site: usize, node: NodeId, worker: u8) -> Option<u32> {
        match self.usual[site] {
            Some((to, direction)) if to == node => Some(direction),
            _ => self.detour(site, node, worker),
        }
    }

    /// Where a result goes on.
    #[inline]
    pub fn down(&self, site: usize) -> &[Port] {
        &self.down[site]
    }

    fn detour(&self, site: usize, node: NodeId, worker: u8) -> Option<u32> {
        let is_it = |d: &&Detour| {
            (d.site, d.node) == (site, node) && d.worker.is_none_or(|of| of == worker)
        };
        self.detours.iter().find(is_it).map(|detour| detour.direction)
    }

    /// Takes the tables of every site on the ways.
    fn install(&mut self, ways: &Ways, survey: &Survey<'_>) -> Result<(), String> {
        let hops = ways.of.iter().flat_map(Way::hops);
        let sites: BTreeSet<Site> = hops.flat_map(|hop| [hop.from, hop.to]).collect();
        for site in sites {
            let table = Forwarding::of(site, std::slice::from_ref(ways));
            let index = survey.index(site);
            self.take(index, &table.map_err(|error| error.to_string())?, survey);
            if let Site::Node(node) = site {
                self.members[index] = ways.members(node);
                self.parents[index] = ways.parent(node);
            }
        }
        Ok(())
    }

    fn take(&mut self, site: usize, table: &Forwarding, survey: &Survey<'_>) {
        for (key, next) in table.ups() {
            let direction = survey.direction(next);
            if key.worker.is_none() && self.usual[site].is_none() {
                self.usual[site] = Some((key.node, direction));
            } else {
                let (node, worker) = (key.node, key.worker);
                self.detours.push(Detour { site, node, worker, direction });
            }
        }
        let ports = table.downs();
        let ports = ports.map(|(_, _, of, next, behind)| (survey.direction(next), of, behind));
        self.down[site] = ports.collect();
    }
}

/// Finds a stream's ways.
struct Survey<'a> {
    stream: &'a ProgramStream,
    is_addressed: bool,
    network: &'a mut RoutedLinks,
    /// By site: the worker there.
    ranks: BTreeMap<usize, u8>,
    /// By site and address: the direction of those who came before, as sums must meet.
    taken: BTreeMap<(usize, NodeId), u32>,
    /// Links in use; ways have their places here.
    links: Vec<u32>,
}

impl<'a> Survey<'a> {
    fn new(stream: &'a ProgramStream, is_addressed: bool, network: &'a mut RoutedLinks) -> Self {
        let ranks = (0..).zip(&stream.waypoints).map(|(rank, way)| (way[0], rank)).collect();
        let (taken, links) = (BTreeMap::new(), Vec::new());
        Self { stream, is_addressed, network, ranks, taken, links }
    }

    /// A worker's way: a leg to each node that is addressed, or one over all waypoints.
    fn way(&mut self, worker: u8, waypoints: &[usize], sites: usize) -> Result<Way, String> {
        let mut legs: Vec<Leg> = Vec::new();
        for pair in waypoints.windows(2) {
            let node = if self.is_addressed { NodeId(pair[1] as u16) } else { ANY_NODE };
            let directions = self.directions(node, pair[0], pair[1], sites)?;
            let hops = directions.into_iter().map(|direction| self.hop(direction)).collect();
            match legs.last_mut().filter(|leg| leg.node == ANY_NODE) {
                Some(leg) => leg.hops.extend::<Vec<Hop>>(hops),
                None => legs.push(Leg { node, hops }),
            }
        }
        Ok(Way { worker, legs })
    }

    /// The first site on a way that sums the stream: the one that is addressed, or any.
    fn first(&self, way: &Way) -> Option<usize> {
        let sums = |site: &usize| self.stream.switches.iter().any(|(switch, _)| switch == site);
        let address = way.first_address();
        let mut passed = way.hops().map(|hop| self.index(hop.to));
        if address == ANY_NODE { passed.find(sums) } else { Some(address.0.into()).filter(sums) }
    }

    /// The way that is given, or else the shortest, or that of others from a site on.
    fn directions(
        &mut self,
        node: NodeId,
        from: usize,
        to: usize,
        sites: usize,
    ) -> Result<Vec<u32>, String> {
        let given = self.stream.ways.iter().find(|way| (way.from, way.to) == (from, to));
        if let Some(given) = given {
            for &direction in &given.directions {
                let site = self.network.links.end(direction ^ 1);
                self.taken.entry((site, node)).or_insert(direction);
            }
            return Ok(given.directions.clone());
        }
        let (mut at, mut way) = (from, Vec::new());
        while at != to {
            if way.len() > sites {
                let problem = "its ways go round in circles: choose nodes on the way to the server";
                return Err(problem.into());
            }
            let direction = match self.taken.get(&(at, node)) {
                Some(direction) => *direction,
                None => self.next(at, to)?,
            };
            self.taken.insert((at, node), direction);
            way.push(direction);
            at = self.network.links.end(direction);
        }
        Ok(way)
    }

    fn next(&mut self, at: usize, to: usize) -> Result<u32, String> {
        let next = self.network.routes.next(at, to, to as u32);
        next.ok_or_else(|| self.network.routes.unreachable(at, to).to_string())
    }

    fn hop(&mut self, direction: u32) -> Hop {
        let (from, to) = (self.network.links.end(direction ^ 1), self.network.links.end(direction));
        let link = direction / 2;
        let place = self.links.iter().position(|of| *of == link).unwrap_or_else(|| {
            self.links.push(link);
            self.links.len() - 1
        });
        Hop { from: self.site(from), to: self.site(to), link: place as u16 }
    }

    fn site(&self, index: usize) -> Site {
        let node = Site::Node(NodeId(index as u16));
        self.ranks.get(&index).map_or(node, |rank| Site::Worker(*rank))
    }

    fn index(&self, site: Site) -> usize {
        match site {
            Site::Node(node) => node.0.into(),
            Site::Worker(rank) => self.stream.waypoints[usize::from(rank)][0],
        }
    }

    /// The direction that leads to a neighbour.
    fn direction(&self, next: Neighbour) -> u32 {
        let forward = 2 * self.links[usize::from(next.link)];
        let is_it = self.network.links.end(forward) == self.index(next.site);
        if is_it { forward } else { forward ^ 1 }
    }
}
