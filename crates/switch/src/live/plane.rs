//! What sums at a node: the seam between its [`Station`](super::Station), which knows jobs and neighbours, and whatever deals with packets
//! of values.
//!
//! [`Here`] is this process. Another plane takes packets before they come here, and sums and forwards them by itself: the station tells
//! it which jobs run and who is next to the node, and gets what it hands up.

use std::net::SocketAddr;

use thiserror::Error;
use wiresum_protocol::Plan;
use wiresum_wire::{JobId, JobKey, Kind, NodeId};

use super::StationError;
use super::parts::{self, Room};
use crate::rmt::Profile;
use crate::{Egress, Outcome, Packet, Place, PlaceError, Switch, Values, Verdict};

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

/// See the module.
pub trait DataPlane: Send {
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
    switch: Option<Switch<Values>>,
    memory_bytes: usize,
}

impl Here {
    /// The switch of a node, with the memory that its plans want.
    ///
    /// # Errors
    /// [`StationError`] if they do not agree, or it does not fit.
    pub fn new(plans: &[Plan], node: NodeId) -> Result<Self, StationError> {
        let Some(Room { policy, slots, values }) = parts::common_room(plans, node)? else {
            return Ok(Self { switch: None, memory_bytes: 0 });
        };
        let switch = Switch::new(node, policy, slots, values, &Profile::UNLIMITED)?;
        Ok(Self { switch: Some(switch), memory_bytes: slots as usize * values as usize * 4 })
    }
}

impl DataPlane for Here {
    /// The station has looked at the key.
    fn install(
        &mut self,
        job: JobId,
        places: &[Place],
        _key: Option<JobKey>,
    ) -> Result<(), PlaneError> {
        let Some(switch) = &mut self.switch else { return Ok(()) };
        switch.remove(job);
        places.iter().try_for_each(|place| switch.install(*place))?;
        Ok(())
    }

    /// Whoever the operating system reaches is reached.
    fn meet(&mut self, _address: SocketAddr) -> Result<(), PlaneError> {
        Ok(())
    }

    fn handle(&mut self, packet: &mut Packet<Values>) -> Outcome {
        match &mut self.switch {
            Some(switch) => switch.handle(packet),
            None => passed(packet),
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let counters = self.switch.as_ref().map(|switch| *switch.counters()).unwrap_or_default();
        Verdict::STATION.map(|verdict| (verdict.name(), counters.get(verdict))).to_vec()
    }

    fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }
}

/// A packet that nothing is done with here.
#[must_use]
pub fn passed(packet: &Packet<Values>) -> Outcome {
    let egress = if packet.kind == Kind::Contribution { Egress::Up } else { Egress::Down };
    Outcome { verdict: Verdict::Passed, egress }
}
