//! The ways of one stream: contributions up to the root, results back.

use wiresum_switch::{ANY_NODE, Contributors};
use wiresum_wire::NodeId;

use crate::network::Network;
use crate::scenario::{ProgramStream, Scenario};

/// A direction in which results go on, and to whom it leads.
pub(super) type Port = (u32, Contributors);

/// A direction that one worker's contributions take, unlike others that are addressed to the same node.
struct Detour {
    site: usize,
    node: NodeId,
    worker: u8,
    direction: u32,
}

/// See the module.
pub(super) struct Ways {
    pub root: usize,
    /// By site: the direction of contributions, and what they are addressed to.
    usual: Vec<Option<(NodeId, u32)>>,
    detours: Vec<Detour>,
    /// By site: whether a detour begins there.
    parts: Vec<bool>,
    /// By direction in which a result comes: where it goes on.
    after: Vec<Vec<Port>>,
    /// By site: where results go that begin there.
    from: Vec<Vec<Port>>,
    /// By site: whose contributions are summed there, if it sums; and to whom its sums are addressed.
    pub members: Vec<Contributors>,
    pub parents: Vec<Option<usize>>,
}

impl Ways {
    /// The ways of a stream whose packets name the switches that sum them, or not.
    ///
    /// # Errors
    /// What is wrong with them, and what to do.
    pub fn new(
        stream: &ProgramStream,
        is_addressed: bool,
        scenario: &Scenario,
        network: &mut Network,
    ) -> Result<Self, String> {
        let root = stream.waypoints.first().and_then(|way| way.last()).copied();
        let sites = scenario.sites.len();
        let mut ways = Self {
            root: root.ok_or("a worker has no way")?,
            usual: vec![None; sites],
            detours: Vec::new(),
            parts: vec![false; sites],
            after: vec![Vec::new(); network.links.count() as usize],
            from: vec![Vec::new(); sites],
            members: vec![Contributors::NONE; sites],
            parents: vec![None; sites],
        };
        for (rank, waypoints) in stream.waypoints.iter().enumerate() {
            if scenario.sites[waypoints[0]].forwards || waypoints.last() != Some(&ways.root) {
                return Err("its ways lead from workers to one root".into());
            }
            ways.add(rank as u8, waypoints, stream, is_addressed, network)?;
        }
        Ok(ways)
    }

    /// Where a contribution goes on.
    #[inline]
    pub fn up(&self, site: usize, node: NodeId, worker: u8) -> Option<u32> {
        match self.usual[site] {
            Some((to, direction)) if to == node && !self.parts[site] => Some(direction),
            usual => self.detour(site, node, worker).or_else(|| along(usual, node)),
        }
    }

    /// Where a result goes on that came in a direction, or begins at a site.
    #[inline]
    pub fn down(&self, site: usize, came: Option<u32>) -> &[Port] {
        came.map_or(&self.from[site], |direction| &self.after[direction as usize])
    }

    fn detour(&self, site: usize, node: NodeId, worker: u8) -> Option<u32> {
        let is_it = |d: &&Detour| (d.site, d.node, d.worker) == (site, node, worker);
        self.detours.iter().find(is_it).map(|detour| detour.direction)
    }

    /// A worker's way to the root, and back.
    fn add(
        &mut self,
        rank: u8,
        waypoints: &[usize],
        stream: &ProgramStream,
        is_addressed: bool,
        network: &mut Network,
    ) -> Result<(), String> {
        let mut way = Vec::new();
        for pair in waypoints.windows(2) {
            let node = if is_addressed { NodeId(pair[1] as u16) } else { ANY_NODE };
            let given = stream.ways.iter().find(|way| (way.from, way.to) == (pair[0], pair[1]));
            match given {
                Some(given) => self.follow(rank, node, &given.directions, network),
                None => self.search(rank, node, pair[0], pair[1], network)?,
            }
            .into_iter()
            .for_each(|direction| way.push(direction));
        }
        let summing = waypoints.len().saturating_sub(1);
        for (index, &site) in waypoints.iter().enumerate().take(summing).skip(1) {
            self.sum_at(site, rank, waypoints[index + 1])?;
        }
        self.lead_back(rank, &way, is_addressed, network)
    }

    /// A way that is given.
    fn follow(&mut self, rank: u8, node: NodeId, given: &[u32], network: &Network) -> Vec<u32> {
        for &direction in given {
            let site = network.links.end(direction ^ 1);
            match self.usual[site] {
                None => self.usual[site] = Some((node, direction)),
                Some(usual) if usual == (node, direction) => {}
                Some(_) => self.part(site, node, rank, direction),
            }
        }
        given.to_vec()
    }

    /// The shortest way, or that of others from a site on: sums must meet.
    fn search(
        &mut self,
        rank: u8,
        node: NodeId,
        from: usize,
        to: usize,
        network: &mut Network,
    ) -> Result<Vec<u32>, String> {
        let (mut at, mut way) = (from, Vec::new());
        while at != to {
            if way.len() > self.usual.len() {
                return Err(
                    "its ways go round in circles: choose nodes on the way to the server".into()
                );
            }
            let known = along(self.usual[at], node).or_else(|| self.detour(at, node, rank));
            let direction = match known.or_else(|| network.routes.next(at, to, to as u32)) {
                Some(direction) => direction,
                None => {
                    return Err(network
                        .path(at, to)
                        .map_or_else(|e| e.to_string(), |_| "no way".into()));
                }
            };
            match self.usual[at] {
                None => self.usual[at] = Some((node, direction)),
                Some(_) if known.is_none() => self.part(at, node, rank, direction),
                Some(_) => {}
            }
            way.push(direction);
            at = network.links.end(direction);
        }
        Ok(way)
    }

    fn part(&mut self, site: usize, node: NodeId, worker: u8, direction: u32) {
        if self.detour(site, node, worker).is_none() {
            self.detours.push(Detour { site, node, worker, direction });
            self.parts[site] = true;
        }
    }

    fn sum_at(&mut self, site: usize, rank: u8, parent: usize) -> Result<(), String> {
        self.members[site] = self.members[site].with(Contributors::one(rank));
        match self.parents[site].replace(parent) {
            Some(other) if other != parent => Err("a switch has one parent in a stream".into()),
            _ => Ok(()),
        }
    }

    /// Results take the same links as contributions, the other way round, without what leads in a circle: as live.
    fn lead_back(
        &mut self,
        rank: u8,
        way: &[u32],
        is_addressed: bool,
        network: &Network,
    ) -> Result<(), String> {
        if !is_addressed {
            for site in way.iter().map(|&direction| network.links.end(direction)) {
                self.members[site] = self.members[site].with(Contributors::one(rank));
            }
        }
        let mut came: Option<u32> = None;
        for &direction in network.without_circles(way).iter().rev() {
            let (site, back) = (network.links.end(direction), direction ^ 1);
            if let Some(came) = came {
                join(&mut self.after[came as usize], back, rank)?;
            }
            if came.is_none() || !is_addressed {
                join(&mut self.from[site], back, rank)?;
            }
            came = Some(back);
        }
        Ok(())
    }
}

fn along(usual: Option<(NodeId, u32)>, node: NodeId) -> Option<u32> {
    usual.filter(|(to, _)| *to == node).map(|(_, direction)| direction)
}

/// Lets a worker be behind a port; it is behind one only.
fn join(ports: &mut Vec<Port>, direction: u32, rank: u8) -> Result<(), String> {
    let worker = Contributors::one(rank);
    if ports.iter().any(|(to, behind)| *to != direction && behind.overlaps(worker)) {
        return Err("its ways pass a site twice: choose a node on the way to the server".into());
    }
    match ports.iter_mut().find(|(to, _)| *to == direction) {
        Some((_, behind)) => *behind = behind.with(worker),
        None => ports.push((direction, worker)),
    }
    Ok(())
}
