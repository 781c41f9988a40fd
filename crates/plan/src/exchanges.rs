//! Streams of fragments that not all workers give or take: `spec/givers.md`.

use wiresum_wire::Contributor;

use crate::validate::{SHARE_TOLERANCE, require};
use crate::{Child, Exponents, Plan, PlanError, PlanStream, Policy, Role};

/// Positions that one barrier is about. It is a power of two, so that they lie alike where positions wrap.
pub const BARRIER_FRAGMENTS: u32 = 64;

/// A stream of exchanges, and the stream of its barriers.
#[derive(Clone, Copy, Debug)]
pub struct Exchanged<'a> {
    /// Carries [`Role::Parts`] or [`Role::Copies`].
    pub values: &'a PlanStream,
    /// Carries their [`Role::Acknowledgements`].
    pub barriers: &'a PlanStream,
}

impl Plan {
    /// Whether it has streams for sums of one taker, and for copies.
    #[must_use]
    pub fn has_exchanges(&self) -> bool {
        self.of_role(Role::Parts).next().is_some()
    }

    /// The streams for sums of one taker, then those for copies, each with its barriers; none if the plan has none.
    pub fn exchanged(&self) -> impl Iterator<Item = Exchanged<'_>> {
        let values = self.of_role(Role::Parts).chain(self.of_role(Role::Copies));
        let both = values.zip(self.of_role(Role::Acknowledgements));
        both.map(|(values, barriers)| Exchanged { values, barriers })
    }

    fn of_role(&self, role: Role) -> impl Iterator<Item = &PlanStream> {
        self.streams.iter().filter(move |stream| stream.role == role)
    }

    pub(crate) fn validate_exchanges(&self) -> Result<(), PlanError> {
        let count = |role| self.of_role(role).count();
        let counts = [Role::Parts, Role::Copies, Role::Acknowledgements].map(count);
        if counts == [0; 3] {
            return Ok(());
        }
        let [parts, copies, barriers] = counts;
        let problem =
            "must have as many `copies` as `parts`, and twice as many `acknowledgements`, or none";
        require(parts > 0 && copies == parts && barriers == 2 * parts, "streams", problem)?;
        self.validate_job_of_exchanges()?;
        [Role::Parts, Role::Copies].into_iter().try_for_each(|role| self.validate_shares(role))?;
        for (index, stream) in self.streams.iter().enumerate() {
            if stream.role.is_exchange() {
                self.validate_exchange(stream, &format!("streams[{index}]"))?;
            }
        }
        Ok(())
    }

    /// The only stream of its role may have the share 0, as all had before several could share.
    fn validate_shares(&self, role: Role) -> Result<(), PlanError> {
        let shares: Vec<f64> = self.of_role(role).map(|stream| stream.share).collect();
        let is_whole = (shares.iter().sum::<f64>() - 1.0).abs() < SHARE_TOLERANCE;
        let is_of_old = shares.len() == 1 && shares[0] == 0.0;
        let problem = "the shares of `parts` must add up to 1, and so must those of `copies`";
        require(is_whole || is_of_old, "streams", problem)
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
        let is_barrier = stream.role == Role::Acknowledgements;
        let problem = "must be 0, as barriers are those of their own stream";
        require(!is_barrier || stream.share == 0.0, &format!("{field}.share"), problem)?;
        let policy = if is_barrier { Policy::Pool } else { Policy::Cache };
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
        let has_room = is_barrier || stream.slots() >= BARRIER_FRAGMENTS / 2;
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
