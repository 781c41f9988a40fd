//! What a station reports: counts of each job, and its state for the process that takes over.

use wiresum_plan::Plan;
use wiresum_protocol::Association;
use wiresum_wire::control::KeyAge;
use wiresum_wire::{JobId, JobKey, NodeId, SubModelId};

use super::super::plane::{DataPlane, PlaneError};
use super::super::remains::{JobState, StationState, Unfit};
use super::{Job, Station, StationError, server_bytes};
use crate::{Counters, Verdict, Workers};

/// What there is to say of a job.
#[derive(Clone, Debug)]
pub struct Report {
    /// Its number.
    pub job: JobId,
    /// Whether an incarnation of it runs.
    pub is_running: bool,
    /// Workers that have said hello in this incarnation.
    pub known: u8,
    /// Workers that there are.
    pub workers: u8,
    /// Bytes that its entries at a server may hold, and for the first job the switch's slots, which all jobs share.
    pub memory_bytes: usize,
    /// Bytes of its packets.
    pub bytes: u64,
    /// These packets by fate.
    pub verdicts: Vec<(&'static str, u64)>,
    /// Contributions of each stream that came to the station, and that it sent upwards.
    pub streams: Vec<(SubModelId, u64, u64)>,
}

impl Station {
    /// What there is to say of each job.
    #[must_use]
    pub fn reports(&self) -> Vec<Report> {
        let mut slots = self.plane.memory_bytes();
        let report = |(id, job): (&JobId, &Job)| {
            let (mut verdicts, bytes) = self.plane.job_counters(*id);
            add_to(&mut verdicts, by_name(&job.served));
            add_to(&mut verdicts, [("over_quota", job.over_quota)]);
            Report {
                job: *id,
                is_running: job.incarnation.is_some(),
                known: job.known.count() as u8,
                workers: job.plan.workers.len() as u8,
                memory_bytes: server_bytes(&job.plan, &job.servings) + std::mem::take(&mut slots),
                bytes: bytes + job.bytes,
                verdicts,
                streams: self.streams(*id),
            }
        };
        self.jobs.iter().map(report).collect()
    }

    /// All that it knows.
    ///
    /// # Errors
    /// Why no other process can go on with it.
    pub fn state(&self) -> Result<StationState, PlaneError> {
        let job = |(id, job): (&JobId, &Job)| JobState {
            job: id.0,
            incarnation: job.incarnation,
            known: job.known.bits(),
            has_forgotten: job.has_forgotten,
            ages: job.associations.iter().map(|(id, a)| age_of(*id, a)).collect(),
            back: job.back.clone(),
            served: job.served.to_vec(),
            over_quota: job.over_quota,
            bytes: job.bytes,
            streams: self
                .streams(*id)
                .into_iter()
                .map(|(s, came, left)| (s.0, came, left))
                .collect(),
            entries: self.server.state(*id),
        };
        Ok(StationState {
            jobs: self.jobs.iter().map(job).collect(),
            plane: self.plane.state()?,
            served: self.server.counters().to_vec(),
            others: [self.malformed, self.foreign, self.unrouted, self.handled],
        })
    }

    /// The node of the same plans, which goes on with that over what sums there.
    ///
    /// # Errors
    /// [`StationError::Unfit`], or what is wrong with a plan.
    pub fn resumed(
        plane: Box<dyn DataPlane>,
        plans: &[Plan],
        node: NodeId,
        state: StationState,
    ) -> Result<Self, StationError> {
        let mut station = Self::without_jobs(plane, node);
        for plan in plans {
            let id = station.enter(plan)?;
            station.serve(id);
        }
        station.resume(state)?;
        Ok(station)
    }

    fn resume(&mut self, state: StationState) -> Result<(), Unfit> {
        self.server.set_counters(Counters::from_slice(&state.served));
        [self.malformed, self.foreign, self.unrouted, self.handled] = state.others;
        let jobs: Vec<_> = self.jobs.values().map(|job| (&job.plan, &*job.places)).collect();
        self.plane.resume(state.plane, &jobs)?;
        state.jobs.into_iter().try_for_each(|job| self.resume_job(job)).ok_or(Unfit)
    }

    fn resume_job(&mut self, state: JobState) -> Option<()> {
        let id = JobId(state.job);
        let job = self.jobs.get_mut(&id).filter(|job| job.back.len() == state.back.len())?;
        job.key = state.incarnation.map_or(JobKey(0), |incarnation| job.plan.job_key(incarnation));
        job.incarnation = state.incarnation;
        for (stream, generation, renewal) in state.ages {
            let mut association = Association::new(&job.plan, state.incarnation?);
            association.learn(&job.plan, KeyAge { generation, renewal });
            job.associations.insert(SubModelId(stream), association);
        }
        (job.known, job.back) = (Workers::from_bits(state.known), state.back);
        job.has_forgotten = state.has_forgotten;
        job.served = Counters::from_slice(&state.served);
        (job.over_quota, job.bytes) = (state.over_quota, state.bytes);
        for (sub_model, came, left) in state.streams {
            self.arrived.insert((id, SubModelId(sub_model)), came);
            self.departed.insert((id, SubModelId(sub_model)), left);
        }
        if state.has_forgotten {
            self.bypass(id).ok()?;
        }
        let mut entries = state.entries.into_iter();
        entries.try_for_each(|(stream, held)| self.server.restore(id, SubModelId(stream), held))
    }

    /// Packets by fate, at the switch and the server together, and those that met none.
    #[must_use]
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut sums = self.plane.counters();
        add_to(&mut sums, by_name(self.server.counters()));
        let over_quota = self.jobs.values().map(|job| job.over_quota).sum::<u64>();
        let others = [
            ("malformed", self.malformed),
            ("strangers", self.foreign),
            ("unrouted", self.unrouted),
            ("recalls", self.recalls),
            ("over_quota", over_quota),
        ];
        add_to(&mut sums, others);
        sums
    }

    fn streams(&self, id: JobId) -> Vec<(SubModelId, u64, u64)> {
        let left = |stream| self.departed.get(stream).copied().unwrap_or(0);
        let of_job = self.arrived.iter().filter(|((job, _), _)| *job == id);
        of_job.map(|(stream, came)| (stream.1, *came, left(stream))).collect()
    }
}

pub(in super::super) fn by_name(
    counters: &Counters,
) -> [(&'static str, u64); Verdict::STATION.len()] {
    Verdict::STATION.map(|verdict| (verdict.name(), counters.get(verdict)))
}

/// Adds counts of the same name.
fn add_to(
    sums: &mut Vec<(&'static str, u64)>,
    counts: impl IntoIterator<Item = (&'static str, u64)>,
) {
    for (name, count) in counts {
        match sums.iter_mut().find(|(other, _)| *other == name) {
            Some((_, sum)) => *sum += count,
            None => sums.push((name, count)),
        }
    }
}

/// A stream, and the age of its values' keys.
fn age_of(sub_model: SubModelId, association: &Association) -> (u16, u32, u32) {
    let KeyAge { generation, renewal } = association.age();
    (sub_model.0, generation, renewal)
}
