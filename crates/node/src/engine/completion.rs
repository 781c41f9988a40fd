//! Who is told how a collective has ended.

use super::errors::CollectiveError;
use wiresum_worker::Participation;

/// How a collective has ended.
pub type Outcome = Result<Participation, CollectiveError>;

/// Receives the outcome of a collective on one of the engine's threads, one at a time; must not block.
pub type Done = Box<dyn FnOnce(Outcome) + Send>;

/// Calls [`Done`] exactly once, come what may: if the thread ends first, with [`CollectiveError::Closed`].
pub(super) struct Completion(Option<Done>);

impl Completion {
    pub fn new(done: Done) -> Self {
        Self(Some(done))
    }

    pub fn finish(mut self, outcome: Outcome) {
        if let Some(done) = self.0.take() {
            done(outcome);
        }
    }

    pub fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        if let Some(done) = self.0.take() {
            done(Err(CollectiveError::Closed));
        }
    }
}
