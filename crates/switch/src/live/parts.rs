//! What a plan's fabric means for the programs of this crate.

use serde::{Deserialize, Serialize};
use wiresum_plan::Plan;
use wiresum_wire::NodeId;

use super::StationError;
use crate::policy::Policy;

/// A switch program and its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
    /// The program.
    pub policy: Policy,
    /// Fragments.
    pub slots: u32,
    /// Values of a fragment.
    pub values: u32,
}

impl Room {
    /// Bytes of its slots' values.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.slots as usize * self.values as usize * 4
    }
}

/// What a switch needs for a job; `None` if it only forwards there.
#[must_use]
pub fn room(plan: &Plan, node: NodeId) -> Option<Room> {
    let slots = plan.fabric.as_ref()?.slots(node)?;
    Some(Room { policy: plan.switch_policy()?, slots, values: plan.job.values_per_packet.into() })
}

/// What a switch needs for all jobs of its plans: it has one program. `None` if it only forwards.
///
/// # Errors
/// [`StationError::Programs`] if they want different ones.
pub fn common_room(plans: &[Plan], node: NodeId) -> Result<Option<Room>, StationError> {
    let rooms: Vec<Room> = plans.iter().filter_map(|plan| room(plan, node)).collect();
    if rooms.windows(2).any(|pair| pair[0] != pair[1]) {
        return Err(StationError::Programs(node));
    }
    Ok(rooms.first().copied())
}
