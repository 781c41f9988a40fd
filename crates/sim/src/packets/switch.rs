//! A node of a network of switches, as its daemon runs it: one station for all jobs.

use std::net::SocketAddr;

use wiresum_protocol::{Plan, Time};
use wiresum_switch::live::{Station, StationError};
use wiresum_wire::NodeId;

use super::daemon::Outbox;

pub(super) struct Switch<'a> {
    id: NodeId,
    jobs: Vec<(usize, &'a Plan)>,
    station: Station,
}

impl<'a> Switch<'a> {
    pub fn new(id: NodeId) -> Result<Self, StationError> {
        Ok(Self { id, jobs: Vec::new(), station: Station::new(&[], id)? })
    }

    pub fn serve(&mut self, job: usize, plan: &'a Plan) -> Result<(), StationError> {
        self.jobs.push((job, plan));
        self.station.add(plan)
    }

    pub fn serves(&self, job: usize) -> bool {
        self.jobs.iter().any(|(served, _)| *served == job)
    }

    /// Starts again, having forgotten everything.
    pub fn restart(&mut self) {
        let plans: Vec<Plan> = self.jobs.iter().map(|(_, plan)| (*plan).clone()).collect();
        self.station = Station::new(&plans, self.id).expect("they were served before");
    }

    pub fn handle(
        &mut self,
        job: usize,
        source: SocketAddr,
        datagram: &[u8],
        now: Time,
        send: &mut Outbox,
    ) {
        self.station.set_time(now);
        self.station.handle(source, datagram, |to, packet| send(job, to, packet));
    }

    /// What each job's packets met.
    pub fn counters(&self) -> impl Iterator<Item = (usize, &'static str, u64)> {
        let reports = self.station.reports().into_iter();
        reports.flat_map(|report| {
            let of_job = |(_, plan): &&(usize, &Plan)| plan.job_id() == report.job;
            let job = self.jobs.iter().find(of_job).map(|(job, _)| *job);
            let counts = report.verdicts.into_iter();
            counts.filter_map(move |(name, count)| Some((job?, name, count)))
        })
    }
}
