//! A station that has taken the place of one that workers had joined: what that one held is gone, and is had back from
//! workers (`spec/switch.md`, "Nodes that forget").

use std::net::SocketAddr;

use wiresum_plan::Serving;
use wiresum_wire::{Flags, FragmentId, JobId, Kind, NodeId, Round, SubModelId};

use super::notes::Note;
use super::plane::PlaneError;
use super::station::{Job, Station};
use crate::{Cohort, Contributors, Packet, Place, Values, Workers};

impl Station {
    /// A worker that has joined was welcomed by every node on its ways: a node that does not know it has forgotten it.
    /// From now on its switch sums nothing that is sent again. Where it is the root, a server does so beside it.
    pub(super) fn note_member(&mut self, note: &Note) {
        let Some(job) = self.jobs.get_mut(&note.job) else { return };
        if job.has_forgotten || !note.is_member || job.knows(note.worker) {
            return;
        }
        job.has_forgotten = true;
        if let Err(error) = self.bypass(note.job) {
            self.problem = Some(format!(
                "what is sent again of job {} is summed as if it were new: {error}",
                note.job
            ));
        }
    }

    /// The switch sums nothing that is sent again, and the station completes it in the streams that end here.
    pub(super) fn bypass(&mut self, id: JobId) -> Result<(), PlaneError> {
        let Some(job) = self.jobs.get(&id) else { return Ok(()) };
        let roots = job.places.iter().filter(|place| place.parent.is_none());
        roots.for_each(|place| self.server.serve(serving(place)));
        self.plane.bypass(id)
    }

    /// Asks workers for the result of a position that the server here lacks, if it has forgotten what it had: those of
    /// `candidates` whose contribution is not in.
    pub(super) fn recall(
        &mut self,
        (id, sub_model, position): (JobId, SubModelId, FragmentId),
        candidates: Workers,
        send: &mut impl FnMut(SocketAddr, &[u8]),
    ) {
        let Some(job) = self.jobs.get(&id).filter(|job| job.has_forgotten) else { return };
        let Some((members, lanes)) = job.completes(sub_model) else { return };
        let held = self.server.held(id, sub_model, position);
        let asked = candidates.without(held);
        if held == members || asked.is_empty() {
            return;
        }
        self.recalls += 1;
        for asked in asked.cohorts() {
            self.send_down(request((id, sub_model, position), asked, lanes), send);
        }
    }
}

impl Job {
    fn knows(&self, worker: u8) -> bool {
        self.known.contains(Workers::one(worker))
    }

    /// Where the sums of a stream go from here, all cohorts' alike; `None` if they are complete here, or not made here.
    pub(super) fn parent(&self, sub_model: SubModelId) -> Option<NodeId> {
        self.places.iter().find(|place| place.sub_model == sub_model)?.parent
    }

    /// The place of a stream that ends at the switch here: a job of one cohort's.
    fn root_place(&self, sub_model: SubModelId) -> Option<&Place> {
        let is_root = |place: &&Place| place.sub_model == sub_model && place.parent.is_none();
        self.places.iter().find(is_root)
    }

    /// The workers of a stream whose sums are complete here, and how its lanes are merged; `None` if they are complete
    /// elsewhere.
    fn completes(&self, sub_model: SubModelId) -> Option<(Workers, Flags)> {
        let served = self.servings.iter().find(|serving| serving.sub_model == sub_model).copied();
        let serving = served.or_else(|| self.root_place(sub_model).map(serving));
        serving.map(|serving| (serving.members, serving.lanes))
    }

    /// Whether the server here deals with a packet.
    pub(super) fn serves(&self, packet: &Packet<Values>) -> bool {
        let is_served = || self.servings.iter().any(|s| s.sub_model == packet.sub_model);
        let is_root = || self.completes(packet.sub_model).is_some();
        packet.kind == Kind::Contribution && is_served()
            || self.has_forgotten && is_sent_again(packet) && is_root()
    }
}

/// Whether a packet is a contribution that was sent before.
pub(super) fn is_sent_again(packet: &Packet<Values>) -> bool {
    packet.kind == Kind::Contribution && packet.is_resent()
}

fn serving(place: &Place) -> Serving {
    let Place { job, sub_model, cohort, members, window, lanes, .. } = *place;
    Serving { job, sub_model, members: Workers::of(cohort, members), window, lanes }
}

/// A recall, for workers of a cohort.
fn request(
    (job, sub_model, fragment): (JobId, SubModelId, FragmentId),
    (cohort, asked): (Cohort, Contributors),
    lanes: Flags,
) -> Packet<Values> {
    Packet {
        contributors: asked,
        fragment,
        round: Round(0),
        slot: 0,
        job,
        sub_model,
        node: crate::ANY_NODE,
        flags: lanes.with(Flags::REFUSED),
        kind: Kind::Result,
        worker: cohort.worker(0),
        expected: 0,
        priority: 0,
        exponent: 0,
        values: Values::new(),
    }
}
