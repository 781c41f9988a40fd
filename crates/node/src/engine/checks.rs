//! Who may join a job as the caller wants it to.

use wiresum_protocol::Plan;
use wiresum_wire::control::Absent;

use super::Options;
use super::errors::JoinError;

/// Whether a worker may join an incarnation without these.
pub(super) fn check_absent(plan: &Plan, rank: u32, absent: Absent) -> Result<(), JoinError> {
    if absent.is_empty() {
        return Ok(());
    }
    let has = |other| (other as usize) < plan.workers.len();
    let problem = if absent.holds(rank) {
        "this worker is one of them"
    } else if !absent.ranks().all(has) {
        "the plan has no such worker"
    } else if plan.fabric.is_some() {
        "switches wait for every worker; plan servers in their place"
    } else {
        return Ok(());
    };
    Err(JoinError::Absent { absent: absent.ranks().collect(), problem })
}

/// Whether the workers of these seats may join alone.
pub(super) fn check_members(plan: &Plan, seat: u32, options: &Options) -> Result<(), JoinError> {
    let Some(members) = options.members else { return Ok(()) };
    let has = |seat| (seat as usize) < plan.workers.len();
    let problem = if !members.seats().all(has) {
        "the plan has no such worker"
    } else if !members.seats().any(|other| other == seat) {
        "this worker's seat is none of them"
    } else if !options.absent.is_empty() {
        "who is no member is not absent either"
    } else if plan.job.rounds.is_some() {
        "rounds that go on without late workers count those of the plan"
    } else if plan.fabric.is_some() && members.ranks() as usize != plan.workers.len() {
        "switches wait for every worker; plan servers in their place"
    } else {
        return Ok(());
    };
    Err(JoinError::Members { seats: members.seats().collect(), problem })
}
