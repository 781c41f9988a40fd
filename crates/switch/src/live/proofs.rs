//! Keys of a job's workers at one node: who has said a hello, and by what an answer is known.

use wiresum_keys::SeatKey;
use wiresum_protocol::Plan;
use wiresum_wire::NodeId;

use super::notes::Note;

/// The keys by which one node knows a job's workers, and they its answers.
pub(super) struct Proofs {
    /// By worker.
    hellos: Vec<SeatKey>,
    /// By worker; absent where the plan's keys are another node's.
    answers: Vec<Option<SeatKey>>,
}

impl Proofs {
    pub fn of(plan: &Plan, node: NodeId) -> Self {
        let (keys, workers) = (plan.keys(), 0..plan.workers.len());
        Self {
            hellos: workers.clone().map(|worker| keys.hello(worker as u8)).collect(),
            answers: workers.map(|worker| keys.answer(node, worker as u8)).collect(),
        }
    }

    /// Whether a hello is of the worker that it names.
    pub fn is_said(&self, hello: &Note) -> bool {
        self.hellos.get(usize::from(hello.worker)).is_some_and(|key| hello.is_proven(key))
    }

    /// The key of the answer to a hello; `None` for whoever does not prove to be the worker, and gets no answer.
    pub fn answering(&self, hello: &Note) -> Option<SeatKey> {
        self.answers[..]
            .get(usize::from(hello.worker))
            .copied()
            .flatten()
            .filter(|_| self.is_said(hello))
    }
}
