//! Who can reach whom, and what links do to packets.

mod links;
mod paths;
mod routes;

pub use links::Links;
pub use paths::Paths;
pub use routes::Routes;

use wiresum_netem::PS_PER_SECOND;

use crate::SimulationError;
use crate::scenario::Scenario;

/// Seconds as the simulation's time.
#[must_use]
pub fn picoseconds(seconds: f64) -> u64 {
    (seconds * PS_PER_SECOND).round() as u64
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
