//! Streams of fragments that not all workers give or take: `spec/givers.md`.

use wiresum_wire::Contributor;

use crate::validate::require;
use crate::{Child, Exponents, Plan, PlanError, PlanStream, Policy, Role};

/// Positions that one barrier is about. It is a power of two, so that they lie alike where positions wrap.
pub const BARRIER_FRAGMENTS: u32 = 64;

/// The streams of one kind of exchange, and the stream of their barriers.
#[derive(Clone, Copy, Debug)]
pub struct Exchanged<'a> {
    /// Carries [`Role::Parts`] or [`Role::Copies`].
    pub values: &'a PlanStream,
    /// Carries their [`Role::Acknowledgements`].
    pub barriers: &'a PlanStream,
}

impl Plan {
    /// The streams for sums of one taker, then those for copies; `None` if the plan has none.
    #[must_use]
    pub fn exchanged(&self) -> Option<[Exchanged<'_>; 2]> {
        let of = |role| self.streams.iter().filter(move |s| s.role == role);
        let mut barriers = of(Role::Acknowledgements);
        let parts = Exchanged { values: of(Role::Parts).next()?, barriers: barriers.next()? };
        let copies = Exchanged { values: of(Role::Copies).next()?, barriers: barriers.next()? };
        Some([parts, copies])
    }

    pub(crate) fn validate_exchanges(&self) -> Result<(), PlanError> {
        let count = |role| self.streams.iter().filter(|s| s.role == role).count();
        let counts = [Role::Parts, Role::Copies, Role::Acknowledgements].map(count);
        if counts == [0; 3] {
            return Ok(());
        }
        let problem = "a plan has one stream `parts`, one `copies` and two `acknowledgements`, or none of these";
        require(counts == [1, 1, 2], "streams", problem)?;
        self.validate_job_of_exchanges()?;
        for (index, stream) in self.streams.iter().enumerate() {
            if stream.role.is_exchange() {
                self.validate_exchange(stream, &format!("streams[{index}]"))?;
            }
        }
        Ok(())
    }

    /// What does not go together with exchanges yet.
    fn validate_job_of_exchanges(&self) -> Result<(), PlanError> {
        let refuse = |is_there: bool, field: &str| {
            let problem = "does not go with streams of `parts` and `copies`: leave out one of them";
            require(!is_there, field, problem)
        };
        refuse(self.fabric.is_some(), "fabric")?;
        refuse(self.job.sealed, "job.sealed")?;
        refuse(self.job.proven, "job.proven")?;
        refuse(self.job.rounds.is_some(), "job.rounds")?;
        refuse(!self.job.agrees(), "job.codec")?;
        refuse(self.job.exponents != Exponents::Agreed, "job.exponents")?;
        let problem = "a single one has nobody to give to: leave out `parts` and `copies`";
        require(self.workers.len() > 1, "workers", problem)
    }

    fn validate_exchange(&self, stream: &PlanStream, field: &str) -> Result<(), PlanError> {
        require(stream.share == 0.0, &format!("{field}.share"), "must be 0: only `values` share")?;
        let policy =
            if stream.role == Role::Acknowledgements { Policy::Pool } else { Policy::Cache };
        let problem = "must be `cache` for `parts` and `copies`, `pool` for `acknowledgements`";
        require(stream.policy == policy, &format!("{field}.policy"), problem)?;
        let is_star = stream.places.len() == 1;
        require(is_star, &format!("{field}.places"), "must be one: exchanges are made on stars")?;
        let is_in_order = |rank: u32| {
            let index = stream.parent_of(Child::Worker(rank)).map(|(_, index)| index);
            index == Some(Contributor(rank as u8))
        };
        let problem = "must be in the order of ranks, as exchanges name contributors by rank";
        let in_order = (0..self.workers.len() as u32).all(is_in_order);
        require(in_order, &format!("{field}.legs"), problem)?;
        let problem = format!("`slots` must be at least {}", BARRIER_FRAGMENTS / 2);
        let has_room =
            stream.role == Role::Acknowledgements || stream.slots() >= BARRIER_FRAGMENTS / 2;
        require(has_room, &format!("{field}.places"), &problem)
    }
}

impl Role {
    /// Whether it is one of those of rounds with givers and takers.
    #[must_use]
    pub fn is_exchange(self) -> bool {
        matches!(self, Self::Parts | Self::Copies | Self::Acknowledgements)
    }
}
