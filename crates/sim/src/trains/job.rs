//! A job's workers and ways.

use std::time::Duration;

use wiresum_protocol::Time;
use wiresum_switch::policy::PolicyName;
use wiresum_switch::{ANY_NODE, Contributors, Place, Sending, Serving, Worker};
use wiresum_wire::{JobId, NodeId, SubModelId};

use crate::network::Network;
use crate::scenario::Program;
use crate::{Scenario, SimulationError};

/// Workers of a job at most: the bits of a contributor set.
const MAX_WORKERS: usize = 64;
/// A job has one stream.
const STREAM: SubModelId = SubModelId(0);

/// A worker of a job.
pub(super) struct Host {
    pub worker: Worker,
    pub site: usize,
    pub round: u32,
    /// It has a collective that has not ended.
    pub is_busy: bool,
    pub alarm: Option<Time>,
}

/// See the module.
pub(super) struct Job {
    pub name: String,
    pub packet_bytes: u64,
    pub fragments: u32,
    pub hosts: Vec<Host>,
    pub root: usize,
    /// By site: the direction in which contributions go on.
    up: Vec<Option<u32>>,
    /// By site: directions in which results go on, and to whom they lead.
    ports: Vec<Vec<(u32, Contributors)>>,
}

impl Job {
    pub fn new(
        number: usize,
        program: &Program,
        scenario: &Scenario,
        network: &mut Network,
    ) -> Result<Self, SimulationError> {
        let wrong = |problem: &str| SimulationError::Job {
            job: program.name.clone(),
            problem: problem.into(),
        };
        let policy = PolicyName::from_name(&program.policy);
        let policy = policy.ok_or_else(|| wrong("there is no policy of that name"))?;
        if program.waypoints.is_empty() || program.waypoints.len() > MAX_WORKERS {
            return Err(wrong("it has 1 to 64 workers; split it"));
        }
        let root = program.waypoints[0].last().copied();
        let mut job = Self {
            name: program.name.clone(),
            packet_bytes: program.packet_bytes.into(),
            fragments: program.fragments,
            hosts: Vec::new(),
            root: root.ok_or_else(|| wrong("a worker has no way"))?,
            up: vec![None; scenario.sites.len()],
            ports: vec![Vec::new(); scenario.sites.len()],
        };
        for (rank, waypoints) in program.waypoints.iter().enumerate() {
            let site = waypoints[0];
            if scenario.sites[site].forwards || waypoints.last() != Some(&job.root) {
                return Err(wrong("its ways lead from workers to one root"));
            }
            for pair in waypoints.windows(2) {
                job.lay(rank as u8, pair[0], pair[1], network)?;
            }
            let worker = Worker::new(sending(number, rank as u8, policy, program));
            job.hosts.push(Host { worker, site, round: 0, is_busy: false, alarm: None });
        }
        Ok(job)
    }

    /// A part of a worker's way, and the way back.
    fn lay(
        &mut self,
        rank: u8,
        from: usize,
        to: usize,
        network: &mut Network,
    ) -> Result<(), SimulationError> {
        let mut at = from;
        let mut passed = vec![false; self.up.len()];
        while at != to {
            if std::mem::replace(&mut passed[at], true) {
                return Err(SimulationError::Job {
                    job: self.name.clone(),
                    problem: "its ways pass a site twice: choose a node on the way to the server"
                        .into(),
                });
            }
            // Everyone's contributions take the same way from a site on: sums must meet.
            let direction = self.up[at].or_else(|| network.routes.next(at, to, to as u32));
            let Some(direction) = direction else { return network.path(at, to).map(drop) };
            self.up[at] = Some(direction);
            at = network.links.end(direction);
            let ports = &mut self.ports[at];
            match ports.iter_mut().find(|(back, _)| *back == direction ^ 1) {
                Some((_, behind)) => *behind = behind.with(Contributors::one(rank)),
                None => ports.push((direction ^ 1, Contributors::one(rank))),
            }
        }
        Ok(())
    }

    /// Where contributions go on.
    #[inline]
    pub fn up(&self, site: usize) -> Option<u32> {
        self.up[site]
    }

    /// Directions in which results go on, and to whom they lead.
    #[inline]
    pub fn ports(&self, site: usize) -> &[(u32, Contributors)] {
        &self.ports[site]
    }

    /// Workers whose way leads over a site.
    pub fn members(&self, site: usize) -> Contributors {
        let behind = self.ports[site].iter().map(|(_, behind)| *behind);
        behind.fold(Contributors::NONE, Contributors::with)
    }

    /// A switch's place in the job; `None` if nobody's way leads over it.
    pub fn place(&self, number: usize, site: usize, program: &Program) -> Option<Place> {
        let members = self.members(site);
        let place = Place {
            job: JobId(number as u16),
            sub_model: STREAM,
            members,
            parent: (site != self.root).then_some(NodeId(self.root as u16)),
            base: program.base,
            slots: program.slots,
            window: program.window,
        };
        (!members.is_empty()).then_some(place)
    }

    pub fn serving(&self, number: usize, program: &Program) -> Serving {
        Serving {
            job: JobId(number as u16),
            sub_model: STREAM,
            members: Contributors::first(self.hosts.len() as u8),
            window: program.window,
        }
    }
}

fn sending(number: usize, rank: u8, policy: PolicyName, program: &Program) -> Sending {
    Sending {
        policy,
        job: JobId(number as u16),
        sub_model: STREAM,
        worker: rank,
        workers: program.waypoints.len() as u8,
        node: program.node.map_or(ANY_NODE, |site| NodeId(site as u16)),
        window: program.window,
        initial_window: program.window,
        base: program.base,
        slots: program.slots,
        priority: program.priority,
        timeout: Duration::from_secs_f64(program.timeout_s),
    }
}
