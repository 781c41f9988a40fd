//! What sums at a node: the seam between its [`Station`](super::Station), which knows jobs and neighbours, and whatever deals with packets
//! of values.
//!
//! [`Here`] is this process. Another plane takes packets before they come here, and sums and forwards them by itself: the station tells
//! it which jobs run and who is next to the node, and gets what it hands up.

use std::any::Any;
use std::collections::BTreeMap;
use std::net::SocketAddr;

use thiserror::Error;
use wiresum_protocol::association::ValueKeys;
use wiresum_protocol::{Plan, Quota};
use wiresum_wire::{JobId, JobKey, Kind, NodeId, SubModelId};

use super::StationError;
use super::parts::{self, Room};
use super::remains::{PlaneState, Unfit};
use super::station::by_name;
use crate::rmt::Profile;
use crate::{Counters, Egress, Outcome, Packet, Place, PlaceError, Switch, Values, Verdict};

/// Why a plane cannot do what its station tells it.
#[derive(Debug, Error)]
pub enum PlaneError {
    /// A stream does not fit.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// What carries packets refuses.
    #[error(transparent)]
    Carrier(Box<dyn std::error::Error + Send + Sync>),
}

/// What sums at a station, in this process or in the kernel.
pub trait DataPlane: Any + Send {
    /// Makes room for one more job.
    ///
    /// # Errors
    /// [`StationError`] if it does not fit beside the others.
    fn admit(&mut self, _plan: &Plan) -> Result<(), StationError> {
        Ok(())
    }

    /// Forgets a job.
    ///
    /// # Errors
    /// [`PlaneError`].
    fn dismiss(&mut self, job: JobId) -> Result<(), PlaneError> {
        self.install(job, &[], None)
    }

    /// A job that runs has its neighbours at other addresses from now on.
    ///
    /// # Errors
    /// [`PlaneError`] if it cannot change them; then nothing has changed.
    fn readdress(&mut self, _plan: &Plan) -> Result<(), PlaneError> {
        Ok(())
    }

    /// Bytes of slots that one more job would take.
    ///
    /// # Errors
    /// As [`Self::admit`].
    fn memory_for(&self, _plan: &Plan) -> Result<usize, StationError> {
        Ok(0)
    }

    /// Bounds what a job's workers contribute where the station does not see it.
    ///
    /// # Errors
    /// [`PlaneError`] if that cannot be bounded.
    fn bound(&mut self, _job: JobId, _quota: Option<Quota>) -> Result<(), PlaneError> {
        Ok(())
    }

    /// Packets of a job by fate, and the bytes of those that the station does not see.
    fn job_counters(&self, _job: JobId) -> (Vec<(&'static str, u64)>, u64) {
        (Vec::new(), 0)
    }

    /// Sums a job in these places, where nothing of it is left. Packets with this key are its; with none it does not run.
    ///
    /// # Errors
    /// [`PlaneError`]; then the job does not run.
    fn install(
        &mut self,
        job: JobId,
        places: &[Place],
        key: Option<JobKey>,
    ) -> Result<(), PlaneError>;

    /// From now on the values of a stream of a job that runs carry these keys.
    ///
    /// # Errors
    /// [`PlaneError`]; then those that it knows count.
    fn renew(
        &mut self,
        _job: JobId,
        _sub_model: SubModelId,
        _keys: ValueKeys,
    ) -> Result<(), PlaneError> {
        Ok(())
    }

    /// What is sent again of a job that runs goes past the slots from now on, until the job is installed anew: up, or to
    /// the station where nothing is above.
    ///
    /// # Errors
    /// [`PlaneError`]; then such packets are summed.
    fn bypass(&mut self, job: JobId) -> Result<(), PlaneError>;

    /// What another process needs to go on.
    ///
    /// # Errors
    /// Why none can.
    fn state(&self) -> Result<PlaneState, PlaneError>;

    /// Goes on with that, and with these jobs in these places; none is admitted yet.
    ///
    /// # Errors
    /// [`Unfit`].
    fn resume(&mut self, state: PlaneState, jobs: &[(&Plan, &[Place])]) -> Result<(), Unfit>;

    /// A hello or an answer has come from this address.
    ///
    /// # Errors
    /// Packets cannot be exchanged with it.
    fn meet(&mut self, address: SocketAddr) -> Result<(), PlaneError>;

    /// What becomes of a packet that has come to the station.
    fn handle(&mut self, packet: &mut Packet<Values>) -> Outcome;

    /// Packets by fate.
    fn counters(&self) -> Vec<(&'static str, u64)>;

    /// Bytes of slots; fixed.
    fn memory_bytes(&self) -> usize;
}

/// Sums in this process; a node without memory hands on.
pub struct Here {
    node: NodeId,
    switch: Option<(Room, Switch<Values>)>,
    /// Packets by fate, of each job.
    counters: BTreeMap<JobId, Counters>,
    /// Those of jobs that are gone.
    retired: Counters,
}

impl Here {
    /// A node that has memory when its first job wants some.
    #[must_use]
    pub fn new(node: NodeId) -> Self {
        Self { node, switch: None, counters: BTreeMap::new(), retired: Counters::default() }
    }

    /// The memory that a plan wants, if this node has not got it yet.
    fn wanted(&self, plan: &Plan) -> Result<Option<Room>, StationError> {
        let Some(room) = parts::room(plan, self.node) else { return Ok(None) };
        match &self.switch {
            Some((have, _)) if *have == room => Ok(None),
            Some((_, switch)) if !switch.is_empty() => Err(StationError::Programs(self.node)),
            _ => Ok(Some(room)),
        }
    }
}

impl DataPlane for Here {
    fn admit(&mut self, plan: &Plan) -> Result<(), StationError> {
        if let Some(room) = self.wanted(plan)? {
            let Room { policy, slots, values } = room;
            let switch = Switch::new(self.node, policy, slots, values, &Profile::UNLIMITED)?;
            self.switch = Some((room, switch));
        }
        self.counters.insert(plan.job_id(), Counters::default());
        Ok(())
    }

    fn dismiss(&mut self, job: JobId) -> Result<(), PlaneError> {
        self.retired.add(&self.counters.remove(&job).unwrap_or_default());
        self.install(job, &[], None)
    }

    fn memory_for(&self, plan: &Plan) -> Result<usize, StationError> {
        Ok(self.wanted(plan)?.map_or(0, |room| room.bytes()))
    }

    /// The station has looked at the key.
    fn install(
        &mut self,
        job: JobId,
        places: &[Place],
        _key: Option<JobKey>,
    ) -> Result<(), PlaneError> {
        let Some((_, switch)) = &mut self.switch else { return Ok(()) };
        switch.remove(job);
        places.iter().try_for_each(|place| switch.install(*place))?;
        Ok(())
    }

    fn bypass(&mut self, job: JobId) -> Result<(), PlaneError> {
        self.switch.iter_mut().for_each(|(_, switch)| switch.bypass(job));
        Ok(())
    }

    fn state(&self) -> Result<PlaneState, PlaneError> {
        let counts = |(job, counters): (&JobId, &Counters)| (job.0, counters.to_vec());
        Ok(PlaneState {
            switch: self.switch.as_ref().map(|(_, switch)| switch.state()),
            counters: self.counters.iter().map(counts).collect(),
            retired: self.retired.to_vec(),
        })
    }

    fn resume(&mut self, state: PlaneState, jobs: &[(&Plan, &[Place])]) -> Result<(), Unfit> {
        for (plan, places) in jobs {
            self.admit(plan).map_err(|_| Unfit)?;
            self.install(plan.job_id(), places, None).map_err(|_| Unfit)?;
        }
        let counts = |(job, counts): (u16, Vec<u64>)| (JobId(job), Counters::from_slice(&counts));
        self.counters = state.counters.into_iter().map(counts).collect();
        self.retired = Counters::from_slice(&state.retired);
        match (&mut self.switch, state.switch) {
            (Some((_, switch)), Some(state)) => switch.restore(state).ok_or(Unfit),
            (_, None) => Ok(()),
            (None, Some(_)) => Err(Unfit),
        }
    }

    /// Whoever the operating system reaches is reached.
    fn meet(&mut self, _address: SocketAddr) -> Result<(), PlaneError> {
        Ok(())
    }

    fn handle(&mut self, packet: &mut Packet<Values>) -> Outcome {
        let (job, switch) = (packet.job, &mut self.switch);
        let outcome = switch.as_mut().map(|(_, switch)| switch.handle(packet));
        let outcome = outcome.unwrap_or_else(|| passed(packet));
        self.counters.entry(job).or_default().count(outcome.verdict);
        outcome
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut sum = self.retired;
        self.counters.values().for_each(|counters| sum.add(counters));
        by_name(&sum).to_vec()
    }

    fn job_counters(&self, job: JobId) -> (Vec<(&'static str, u64)>, u64) {
        (by_name(&self.counters.get(&job).copied().unwrap_or_default()).to_vec(), 0)
    }

    fn memory_bytes(&self) -> usize {
        self.switch.as_ref().map_or(0, |(room, _)| room.bytes())
    }
}

/// A packet that nothing is done with here.
#[must_use]
pub fn passed(packet: &Packet<Values>) -> Outcome {
    let egress = if packet.kind == Kind::Contribution { Egress::Up } else { Egress::Down };
    Outcome { verdict: Verdict::Passed, egress }
}
