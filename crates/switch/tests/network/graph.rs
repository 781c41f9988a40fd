//! Who is connected to whom, and the shortest way from anywhere to anywhere.

use std::collections::{BTreeMap, VecDeque};

use wiresum_switch::Workers;
use wiresum_wire::NodeId;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Site {
    Worker(u8),
    Switch(u16),
    Server,
}

#[derive(Clone, Debug)]
pub struct Graph {
    pub workers: u8,
    pub switches: u16,
    links: BTreeMap<Site, Vec<Site>>,
    /// The switch at which everything meets.
    top: u16,
}

impl Graph {
    /// `leaves` switches with `workers` in turn, below one more switch, which has the server.
    pub fn tree(workers: u8, leaves: u16) -> Self {
        let mut graph = Self { workers, switches: leaves + 1, links: BTreeMap::new(), top: leaves };
        for worker in 0..workers {
            let leaf = u16::from(worker) * leaves / u16::from(workers);
            graph.connect(Site::Worker(worker), Site::Switch(leaf));
        }
        for leaf in 0..leaves {
            graph.connect(Site::Switch(leaf), Site::Switch(leaves));
        }
        graph.connect(Site::Switch(leaves), Site::Server);
        graph
    }

    /// Everyone at one switch.
    pub fn star(workers: u8) -> Self {
        let mut graph = Self { workers, switches: 1, links: BTreeMap::new(), top: 0 };
        (0..workers).for_each(|w| graph.connect(Site::Worker(w), Site::Switch(0)));
        graph.connect(Site::Switch(0), Site::Server);
        graph
    }

    pub fn connect(&mut self, a: Site, b: Site) {
        self.links.entry(a).or_default().push(b);
        self.links.entry(b).or_default().push(a);
    }

    /// Where the last sum is made.
    pub fn root(&self, has_server: bool) -> Site {
        if has_server { Site::Server } else { Site::Switch(self.top) }
    }

    pub fn site(&self, node: NodeId) -> Site {
        if node == self.server_node() { Site::Server } else { Site::Switch(node.0) }
    }

    pub fn server_node(&self) -> NodeId {
        NodeId(self.switches)
    }

    /// Whether workers hang below a switch directly.
    pub fn is_leaf(&self, switch: u16) -> bool {
        self.links[&Site::Switch(switch)].iter().any(|site| matches!(site, Site::Worker(_)))
    }

    /// Workers whose way to the root leads over a switch.
    pub fn below(&self, switch: u16, has_server: bool) -> Workers {
        let mut members = Workers::NONE;
        for worker in 0..self.workers {
            let mut at = Site::Worker(worker);
            while at != self.root(has_server) {
                at = self.next_hop(at, self.root(has_server));
                if at == Site::Switch(switch) {
                    members = members.with(Workers::one(worker));
                }
            }
        }
        members
    }

    /// The neighbour on a shortest way; the first one that was connected if there are several.
    pub fn next_hop(&self, from: Site, to: Site) -> Site {
        let mut via = BTreeMap::from([(to, to)]);
        let mut queue = VecDeque::from([to]);
        while let Some(site) = queue.pop_front() {
            for &neighbour in &self.links[&site] {
                if neighbour == from {
                    return site;
                }
                let may_transit = matches!(neighbour, Site::Switch(_));
                if may_transit && !via.contains_key(&neighbour) {
                    via.insert(neighbour, site);
                    queue.push_back(neighbour);
                }
            }
        }
        panic!("no way from {from:?} to {to:?}");
    }
}
