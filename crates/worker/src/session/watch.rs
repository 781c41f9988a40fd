//! Whether the node is gone that a round waits for: long before a deadline, as its owner may go on without the network.

use std::time::Duration;

use wiresum_protocol::Time;

use super::failure::Failure;
use super::{Event, Session};

/// Looks in the time after which a silent node is gone, so that it is told by a quarter of that too late at most.
const LOOKS: u32 = 4;

/// Looks now and then whether the node answers that the oldest round waits for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watch {
    /// For how long a node has to be silent.
    after: Duration,
    /// When it looks next.
    due: Time,
    has_told: bool,
}

/// What a worker that is lost does to the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Losses {
    EndTheJob,
    /// The owner is to be told of one.
    AreToBeTold,
    /// It was.
    AreTold,
}

impl Session {
    /// From now on tells the owner, once, of another worker that is lost, in place of ending the job:
    /// [`Event::WorkerLost`]. Rounds go on meanwhile, and wait for that worker until the owner stops them.
    pub fn outlive_workers(&mut self) {
        if self.losses == Losses::EndTheJob {
            self.losses = Losses::AreToBeTold;
        }
    }

    /// Whether a failure is a loss that this worker outlives.
    pub(super) fn outlives(&self, failure: &Failure) -> bool {
        let is_loss = matches!(failure, Failure::WorkerLost { is_own: false, .. });
        is_loss && self.losses != Losses::EndTheJob
    }

    pub(super) fn tell_of_loss(&mut self, failure: Failure) {
        if self.losses == Losses::AreToBeTold {
            self.losses = Losses::AreTold;
            self.tell(Event::WorkerLost(failure));
        }
    }

    /// From now on tells the owner, once, if a node has left question after question unanswered for this long while a
    /// round waits for it, and there is no other node to go to: [`Event::NodeGone`]. The round goes on meanwhile.
    pub fn watch_nodes(&mut self, after: Duration, now: Time) {
        self.watch = Some(Watch { after, due: now.plus(after / LOOKS), has_told: false });
    }

    /// When [`Self::look_who_is_gone`] is due.
    pub(super) fn watch_timeout(&self) -> Option<Time> {
        self.rounds.oldest()?;
        self.watch.filter(|watch| self.has_joined && !watch.has_told).map(|watch| watch.due)
    }

    pub(super) fn look_who_is_gone(&mut self, now: Time) {
        let Some(oldest) = self.rounds.oldest() else { return };
        let waited = now.since(oldest.submitted);
        let Some(watch) = self.watch.as_mut().filter(|watch| watch.due <= now) else { return };
        watch.due = now.plus(watch.after / LOOKS);
        let after = watch.after;
        match self.blame(now) {
            // Between rounds nobody asks, so a node may have said nothing for longer.
            Failure::Silent { silent, .. } if silent.min(waited) < after => {}
            gone @ Failure::Silent { .. } => self.tell_once(gone),
            _ => {}
        }
    }

    fn tell_once(&mut self, gone: Failure) {
        let before = self.watch.as_mut().map(|watch| std::mem::replace(&mut watch.has_told, true));
        if before == Some(false) {
            self.tell(Event::NodeGone(gone));
        }
    }
}
