//! Who can reach whom, and what links do to packets.

mod links;
mod paths;
mod routes;

pub use links::Links;
pub use paths::Paths;
pub use routes::Routes;

use std::time::Duration;

use wiresum_netem::PS_PER_SECOND;

use crate::SimulationError;
use crate::scenario::Scenario;

/// Last moment of a simulation, 53 days from its start: the sum of four such times still fits.
const LAST_PS: u64 = u64::MAX / 4;

/// Seconds as the simulation's time, at most [`LAST_PS`].
#[must_use]
pub fn picoseconds(seconds: f64) -> u64 {
    ((seconds * PS_PER_SECOND).round() as u64).min(LAST_PS)
}

/// Seconds as a time of the state machines, at most [`LAST_PS`].
pub(crate) fn duration(s: f64) -> Duration {
    Duration::from_secs_f64(seconds(picoseconds(s)))
}

/// Refuses a moment that the simulation's time cannot express.
pub(crate) fn require_time(at_ps: u64) -> Result<(), SimulationError> {
    if at_ps < LAST_PS {
        return Ok(());
    }
    Err(SimulationError::Unsupported(format!(
        "the jobs take more than {:.0} days of virtual time: give shorter times, fewer bytes or fewer rounds",
        seconds(LAST_PS) / 86_400.0
    )))
}

/// The simulation's time as seconds.
#[must_use]
pub fn seconds(picoseconds: u64) -> f64 {
    picoseconds as f64 / PS_PER_SECOND
}

/// Sites, the directions of links between them, and the ways over these.
pub struct RoutedLinks {
    /// By direction: link i has directions 2i (from its source) and 2i + 1.
    pub links: Links,
    /// The ways.
    pub routes: Routes,
}

impl RoutedLinks {
    /// The scenario's.
    #[must_use]
    pub fn new(scenario: &Scenario) -> Self {
        Self { links: Links::new(scenario), routes: Routes::new(scenario) }
    }

    /// The directions from one site to another.
    ///
    /// # Errors
    /// [`SimulationError::Unreachable`] if there is no way.
    pub fn path(&mut self, source: usize, target: usize) -> Result<Vec<u32>, SimulationError> {
        let choice = Routes::choice(source, target);
        let mut path = Vec::new();
        let mut at = source;
        while at != target {
            let direction = self.routes.next(at, target, choice);
            let direction = direction.ok_or_else(|| self.routes.unreachable(source, target))?;
            path.push(direction);
            at = self.links.end(direction);
        }
        Ok(path)
    }

    /// A way without what leads to a site and back there.
    #[must_use]
    pub fn without_circles(&self, way: &[u32]) -> Vec<u32> {
        let mut kept: Vec<u32> = Vec::new();
        for &direction in way {
            let to = self.links.end(direction);
            match kept.iter().position(|earlier| self.links.end(earlier ^ 1) == to) {
                Some(index) => kept.truncate(index),
                None => kept.push(direction),
            }
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_of_seconds_panics() {
        for seconds in [-1.0, 0.0, 1e-320, 1e6, 1e300, f64::MAX, f64::INFINITY, f64::NAN] {
            assert!(picoseconds(seconds) <= LAST_PS, "{seconds}");
            assert!(duration(seconds) <= duration(f64::MAX), "{seconds}");
        }
        assert_eq!(duration(0.01), Duration::from_millis(10));
    }

    #[test]
    fn refuses_a_moment_after_the_last_one() {
        assert_eq!(require_time(picoseconds(1e6)), Ok(()));
        let refused = require_time(picoseconds(1e9)).expect_err("too late");
        assert!(refused.to_string().contains("more than 53 days of virtual time"), "{refused}");
    }
}
