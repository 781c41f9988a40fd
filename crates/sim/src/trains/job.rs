//! A job's workers and streams.

use std::time::Duration;

use wiresum_plan::first_slot;
use wiresum_protocol::Time;
use wiresum_switch::policy::Policy;
use wiresum_switch::{ANY_NODE, Cohort, MAX_WORKERS, Place, Sending, Serving, Worker, Workers};
use wiresum_wire::{Flags, JobId, NodeId, SubModelId};

use super::pace::Pace;
use super::ways::TrainWays;
use crate::network::RoutedLinks;
use crate::scenario::{Program, ProgramStream};
use crate::{Scenario, SimulationError};

/// Stands for a site without a worker of the job.
const NOBODY: u8 = u8::MAX;

/// A worker of a job.
pub(super) struct Host {
    /// By stream.
    pub workers: Vec<Worker>,
    pub site: usize,
    pub round: u32,
    /// It has a collective that has not ended.
    pub is_busy: bool,
    pub alarm: Option<Time>,
    pub pace: Pace,
    /// Which stream sends next.
    turn: usize,
}

impl Host {
    /// The stream whose turn it is; the next one's follows.
    pub fn next_turn(&mut self) -> usize {
        let turn = self.turn;
        self.turn = (turn + 1) % self.workers.len();
        turn
    }

    pub fn is_done(&self) -> bool {
        self.workers.iter().all(Worker::is_done)
    }

    /// When its first stream may have something to do, or its gate lets the next train out.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.workers.iter().filter_map(Worker::poll_timeout).chain(self.pace.resumes).min()
    }
}

pub(super) struct Job {
    pub name: String,
    pub policy: Policy,
    pub packet_bytes: u64,
    pub hosts: Vec<Host>,
    /// By stream.
    pub ways: Vec<TrainWays>,
    /// By site: whose it is, whether one of the job's switches is there, and whether a stream ends there.
    ranks: Vec<u8>,
    switches: Vec<bool>,
    roots: Vec<bool>,
}

impl Job {
    pub fn new(
        number: usize,
        program: &Program,
        scenario: &Scenario,
        network: &mut RoutedLinks,
    ) -> Result<Self, SimulationError> {
        let wrong = |problem: String| SimulationError::Job { job: program.name.clone(), problem };
        let policy = Policy::from_name(&program.policy);
        let policy = policy.ok_or_else(|| wrong("there is no policy of that name".into()))?;
        let count = program.workers.len();
        if !(1..=usize::from(MAX_WORKERS)).contains(&count) {
            return Err(wrong(format!(
                "it has {count} workers, and packets at switches count {MAX_WORKERS}: give it fewer, or simulate it with \
                 the fidelity `flows`"
            )));
        }
        if program.streams.is_empty() || program.streams.iter().any(|s| s.waypoints.len() != count)
        {
            return Err(wrong("it has a stream or more, and each a way for each worker".into()));
        }
        let streams = program.streams.iter();
        let ways: Result<Vec<_>, _> =
            streams.map(|s| TrainWays::new(s, policy.is_addressed(), scenario, network)).collect();
        let ways = ways.map_err(wrong)?;
        let host = |rank: usize| Host {
            workers: sub_models(program)
                .zip(&ways)
                .map(|(stream, ways)| {
                    Worker::new(sending(number, rank, policy, program, stream, ways))
                })
                .collect(),
            site: program.streams[0].waypoints[rank][0],
            round: 0,
            is_busy: false,
            alarm: None,
            pace: Pace::default(),
            turn: 0,
        };
        let mut job = Self {
            name: program.name.clone(),
            policy,
            packet_bytes: program.packet_bytes.into(),
            hosts: (0..count).map(host).collect(),
            ways,
            ranks: vec![NOBODY; scenario.sites.len()],
            switches: vec![false; scenario.sites.len()],
            roots: vec![false; scenario.sites.len()],
        };
        job.note_sites(program);
        Ok(job)
    }

    fn note_sites(&mut self, program: &Program) {
        for (rank, host) in self.hosts.iter().enumerate() {
            self.ranks[host.site] = rank as u8;
        }
        for (stream, ways) in program.streams.iter().zip(&self.ways) {
            self.roots[ways.root] = true;
            for &(site, _) in &stream.switches {
                self.switches[site] |= !ways.members[site].is_empty();
            }
        }
    }

    /// The rank of the worker at a site.
    #[inline]
    pub fn rank_at(&self, site: usize) -> Option<usize> {
        Some(self.ranks[site]).filter(|rank| *rank != NOBODY).map(usize::from)
    }

    /// Whether a switch at this site runs the job's program.
    #[inline]
    pub fn is_switch(&self, site: usize) -> bool {
        self.switches[site]
    }

    /// Whether a stream of the job ends at a site.
    #[inline]
    pub fn is_root(&self, site: usize) -> bool {
        self.roots[site]
    }

    /// Whether contributions of the job are added at a site.
    #[inline]
    pub fn sums_at(&self, site: usize) -> bool {
        self.switches[site] || self.roots[site]
    }

    /// The ways of a packet's stream.
    #[inline]
    pub fn ways_of(&self, sub_model: SubModelId) -> &TrainWays {
        &self.ways[usize::from(sub_model.0)]
    }

    /// A switch's places in a stream, from a slot on, one for each cohort whose ways lead over it.
    pub fn places(
        &self,
        number: usize,
        (id, stream): (SubModelId, &ProgramStream),
        (site, base): (usize, u32),
    ) -> impl Iterator<Item = Place> {
        let ways = self.ways_of(id);
        let (all, parent, policy) = (ways.members[site], ways.parents[site], self.policy);
        let (slots, window) = (stream.slots, stream.window);
        all.cohorts().map(move |(cohort, members)| Place {
            job: JobId(number as u16),
            sub_model: id,
            cohort,
            members,
            parent,
            base: first_slot(policy, (base, slots), all, cohort),
            slots,
            window,
            lanes: Flags(0),
        })
    }

    pub fn serving(&self, number: usize, (id, stream): (SubModelId, &ProgramStream)) -> Serving {
        Serving {
            job: JobId(number as u16),
            sub_model: id,
            members: Workers::first(self.hosts.len() as u8),
            window: stream.window,
            lanes: Flags(0),
        }
    }
}

/// The streams of a program, with their numbers in packets.
pub(super) fn sub_models(program: &Program) -> impl Iterator<Item = (SubModelId, &ProgramStream)> {
    program.streams.iter().enumerate().map(|(index, stream)| (SubModelId(index as u16), stream))
}

fn sending(
    number: usize,
    rank: usize,
    policy: Policy,
    program: &Program,
    (id, stream): (SubModelId, &ProgramStream),
    ways: &TrainWays,
) -> Sending {
    let addressed = NodeId(stream.waypoints[rank].get(1).copied().unwrap_or_default() as u16);
    let first = stream.switches.iter().find(|(site, _)| ways.firsts[rank] == Some(*site));
    let base = first.map(|(site, base)| {
        let region = (*base, stream.slots);
        first_slot(policy, region, ways.members[*site], Cohort::of(rank as u8))
    });
    Sending {
        policy,
        job: JobId(number as u16),
        sub_model: id,
        worker: rank as u8,
        workers: program.workers.len() as u8,
        node: if policy.is_addressed() { addressed } else { ANY_NODE },
        window: stream.window,
        initial_window: stream.window,
        base: base.unwrap_or(stream.base),
        slots: stream.slots,
        priority: program.priority,
        timeout: Duration::from_secs_f64(program.timeout_s),
    }
}
