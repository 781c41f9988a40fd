//! Which workers below a node are alive, and who is told that one is lost: "Heartbeats" in `spec/aggregation.md`.
//!
//! A worker's engine sends heartbeats, whatever its owner computes. A node counts its own *looks* between them, not
//! time: a node that was stopped itself looks once when it goes on, and takes in the heartbeats that have waited for
//! it before it looks again.
//!
//! | file | what it decides |
//! | --- | --- |
//! | `seat` | whether the holder of one seat is silent |
//! | `watched` | what is known of one job, and who is to be told |

mod seat;
#[cfg(test)]
mod tests;
mod watched;

use std::net::SocketAddr;
use std::time::Duration;

use wiresum_wire::control::{Demand, ready, word};
use wiresum_wire::{JobId, Kind, NodeId, Packet};

use crate::aggregator::Membership;
use crate::{ControlHalf, Plan, Time, Transmit};
use watched::Watched;

/// Between two looks: a fraction of the shortest time after which a worker counts as lost.
pub const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Watches the workers of all jobs of a node.
pub struct Liveness {
    node: NodeId,
    jobs: Vec<Watched>,
    counters: Counters,
}

#[derive(Clone, Debug, Default)]
struct Counters {
    heartbeats: u64,
    late_heartbeats: u64,
    lost_workers: u64,
    notices_sent: u64,
}

impl Liveness {
    /// For `node`, which serves no job yet.
    #[must_use]
    pub fn new(node: NodeId) -> Self {
        Self { node, jobs: Vec::new(), counters: Counters::default() }
    }

    fn handle_heartbeat(&mut self, packet: &Packet, now: Time) {
        let demand = Demand::from_wire(word(packet.payload, ready::DEMAND_WORD));
        if demand != Some(Demand::Alive) {
            return;
        }
        let Some(job) = self.jobs.iter_mut().find(|job| job.is_named(packet)) else { return };
        let is_news = job.take_heartbeat(packet, now);
        self.counters.heartbeats += u64::from(is_news);
        self.counters.late_heartbeats += u64::from(!is_news);
    }

    /// The parent has a message about a lost worker.
    fn handle_notice(&mut self, packet: &Packet, now: Time) {
        if let Some(job) = self.jobs.iter_mut().find(|job| job.is_named(packet)) {
            job.take_notice(packet, now);
        }
    }
}

impl ControlHalf for Liveness {
    fn handle_job(&mut self, plan: &Plan) {
        self.jobs.retain(|job| job.id() != plan.job_id());
        self.jobs.extend(Watched::new(plan, self.node));
    }

    fn handle_membership(&mut self, job: JobId, membership: &Membership, now: Time) {
        for watched in self.jobs.iter_mut().filter(|watched| watched.id() == job) {
            watched.take_members(membership, now);
        }
    }

    fn handle_packet(&mut self, _source: SocketAddr, packet: &Packet, now: Time) {
        match packet.kind {
            Kind::Ready => self.handle_heartbeat(packet, now),
            Kind::Rate => self.handle_notice(packet, now),
            _ => {}
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        for job in self.jobs.iter_mut().filter(|job| job.look_at().is_some_and(|at| at <= now)) {
            self.counters.lost_workers += u64::from(job.look(now));
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.jobs.iter().filter_map(Watched::look_at).min()
    }

    fn poll_transmit(&mut self, _now: Time, buffer: &mut [u8]) -> Option<Transmit> {
        let node = self.node;
        let notice = self.jobs.iter_mut().find_map(|job| job.write_notice(node, buffer))?;
        self.counters.notices_sent += 1;
        Some(notice)
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let counted = &self.counters;
        vec![
            ("heartbeats", counted.heartbeats),
            ("late_heartbeats", counted.late_heartbeats),
            ("lost_workers", counted.lost_workers),
            ("loss_notices_sent", counted.notices_sent),
        ]
    }
}
