//! Why a round is late: what the last statuses say, in names of the plan.

use std::time::Duration;

use wiresum_wire::NodeId;
use wiresum_wire::control::EntryState;

use super::Worker;
use super::failure::Failure;
use super::round::{OpenRound, Phase};
use crate::stream::asked::join::Stage;
use crate::stream::asked::stream::Stream;
use wiresum_protocol::Time;
use wiresum_protocol::plan::{Child, SubModel};
use wiresum_protocol::recovery::LastStatus;

impl Worker {
    /// The failure of the oldest round, which holds up all others.
    pub(crate) fn blame(&self, now: Time) -> Failure {
        let Some(round) = self.rounds.front() else { return Failure::Left };
        if self.stage != Stage::Joined {
            return self.not_welcomed(now);
        }
        let streams = self.streams_of(round);
        let silent = streams.iter().find(|stream| stream.recovery.is_silent());
        match (silent, streams.first()) {
            (Some(stream), _) => silence(round, stream, now),
            (None, Some(stream)) => match stream.recovery.last_status() {
                Some(status) => self.accuse(round, stream, status, now),
                None => silence(round, stream, now),
            },
            (None, None) => silence(round, &self.streams[0], now),
        }
    }

    /// The streams that a round waits for.
    fn streams_of(&self, round: &OpenRound) -> Vec<&Stream> {
        if round.phase == Phase::Preamble {
            return vec![&self.streams[0]];
        }
        let waits = |stream: &&Stream| {
            stream.locate(stream.recovery.oldest()).is_some_and(|(r, _)| r == round.round)
        };
        self.streams[1..].iter().filter(waits).collect()
    }

    fn accuse(&self, round: &OpenRound, stream: &Stream, status: LastStatus, now: Time) -> Failure {
        let (round_number, fragment) = (round.round, status.first.0);
        let waited = now.since(round.submitted);
        let sub_model = self.plan.sub_models.iter().find(|s| s.id() == stream.sub_model);
        let node = stream.node;
        let suspects = match (status.state, sub_model) {
            (EntryState::Empty | EntryState::Filling, Some(sub_model)) => {
                let missing = self.missing(sub_model, node, status.contributors);
                return Failure::Missing { round: round_number, fragment, node, missing, waited };
            }
            (EntryState::Forwarded, Some(sub_model)) => match stream.silent_above {
                Some((above, since)) => return self.silence_above(round, above, now.since(since)),
                None => self.beyond(sub_model, node),
            },
            _ => vec![self.name(Child::Node(node.0))],
        };
        Failure::NoResult { round: round_number, fragment, node, suspects, waited }
    }

    /// A node that is not this worker's own, as that has found out.
    fn silence_above(&self, round: &OpenRound, node: NodeId, silent: Duration) -> Failure {
        let address = self.plan.node(node).map_or(self.streams[0].address, |n| n.address);
        Failure::Silent { round: round.round, node, address, silent }
    }

    fn missing(&self, sub_model: &SubModel, node: NodeId, contributors: u64) -> Vec<String> {
        let children = sub_model.place(node).map_or(&[][..], |place| &place.children);
        let absent = children.iter().enumerate().filter(|(i, _)| contributors >> i & 1 == 0);
        absent.map(|(_, child)| self.name(*child)).collect()
    }

    /// Every node above `node`, and every other child of those.
    fn beyond(&self, sub_model: &SubModel, node: NodeId) -> Vec<String> {
        let mut names = Vec::new();
        let mut below = Child::Node(node.0);
        while let Some((above, _)) = sub_model.parent_of(below) {
            names.push(self.name(Child::Node(above.0)));
            let children = sub_model.place(above).map_or(&[][..], |place| &place.children);
            names.extend(children.iter().filter(|child| **child != below).map(|c| self.name(*c)));
            below = Child::Node(above.0);
        }
        names
    }

    fn name(&self, child: Child) -> String {
        let name = match child {
            Child::Worker(rank) => self.plan.workers.get(rank as usize).map(|w| &w.name),
            Child::Node(id) => self.plan.node(NodeId(id)).map(|n| &n.name),
        };
        name.cloned().unwrap_or_default()
    }
}

fn silence(round: &OpenRound, stream: &Stream, now: Time) -> Failure {
    let silent = now.since(stream.recovery.last_heard().unwrap_or(round.submitted));
    Failure::Silent { round: round.round, node: stream.node, address: stream.address, silent }
}
