//! What values carry at a node of a fabric, and when it changes (`spec/security.md`, "Renewal").

use wiresum_wire::{FragmentId, JobKey, SubModelId};

use super::notes::Note;
use super::station::{Job, Station};

impl Station {
    /// A worker needs old generations of a stream's values no more, or has renewed its keys.
    pub(super) fn renew(&mut self, note: &Note) {
        let Some(job) = self.jobs.get_mut(&note.job) else { return };
        let Some(association) = job.associations.get_mut(&note.sub_model) else { return };
        let mut renewed = *association;
        if !renewed.learn(&job.plan, note.age()) {
            return;
        }
        // What the plane refuses, it is told again with the next hello.
        match self.plane.renew(note.job, note.sub_model, renewed.keys()) {
            Ok(()) => *association = renewed,
            Err(error) => {
                self.problem = Some(format!("job {} keeps keys that are over: {error}", note.job));
            }
        }
    }
}

impl Job {
    /// Whether the values of a position may carry a key.
    pub(super) fn takes(
        &self,
        (sub_model, position): (SubModelId, FragmentId),
        key: JobKey,
    ) -> bool {
        let association = self.associations.get(&sub_model);
        association.map_or(self.key == key, |association| association.takes(position, key))
    }

    /// What the values of a position are sent with.
    pub(super) fn key_of(&self, (sub_model, position): (SubModelId, FragmentId)) -> JobKey {
        let association = self.associations.get(&sub_model);
        association.map_or(self.key, |association| association.key(position))
    }
}
