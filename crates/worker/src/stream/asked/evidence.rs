//! Why nothing comes: what the last statuses say, in names of the plan.

use wiresum_protocol::plan::{Child, PlanStream};
use wiresum_protocol::recovery::LastStatus;
use wiresum_wire::NodeId;
use wiresum_wire::control::EntryState;

use super::Asked;
use super::join::Stage;
use super::stream::Stream;
use crate::session::rounds::Rounds;
use crate::stream::Evidence;

impl Asked {
    /// What holds up the oldest round, which holds up all others.
    pub(super) fn accuse(&self, rounds: &Rounds) -> Evidence {
        if self.stage != Stage::Joined {
            return self.not_welcomed();
        }
        let awaited = rounds.awaited(|index| self.streams[index].recovery.oldest());
        let awaited: Vec<usize> = awaited.into_iter().map(|index| self.hindrance(index)).collect();
        let mut streams = awaited.iter().map(|index| &self.streams[*index]);
        let first = streams.clone().next().unwrap_or(&self.streams[0]);
        match (streams.find(|stream| stream.recovery.is_silent()), first.recovery.last_status()) {
            (None, Some(status)) if !awaited.is_empty() => {
                let givers = rounds.givers(awaited[0], status.first);
                self.consider(first, status, givers)
            }
            (silent, _) => silence(silent.unwrap_or(first)),
        }
    }

    /// The stream that a stream waits for: that of its barriers if it has nothing on its way itself.
    fn hindrance(&self, index: usize) -> usize {
        let stream = &self.streams[index];
        let barriers = stream.barriers.filter(|_| !stream.recovery.is_busy());
        barriers.map_or(index, |barriers| barriers.stream)
    }

    /// What a node's last status says of a fragment that has these givers.
    fn consider(&self, stream: &Stream, status: LastStatus, givers: u64) -> Evidence {
        let (node, fragment) = (stream.node, status.first.0);
        let sub_model = self.plan.streams.iter().find(|s| s.id() == stream.sub_model);
        let suspects = match (status.state, sub_model) {
            (EntryState::Empty | EntryState::Filling, Some(sub_model)) => {
                let missing = self.missing(sub_model, node, status.contributors | !givers);
                return Evidence::Missing { node, fragment, missing };
            }
            (EntryState::Forwarded, Some(sub_model)) => match stream.silent_above {
                // A node that is not this worker's own, as that has found out.
                Some((above, since)) => {
                    let address = self.plan.node(above).map(|node| node.address);
                    let address = address.unwrap_or(self.streams[0].address);
                    return Evidence::Silent { node: above, address, since: Some(since) };
                }
                None => self.beyond(sub_model, node),
            },
            _ => vec![self.name(Child::Node(node.0))],
        };
        Evidence::NoResult { node, fragment, suspects }
    }

    fn missing(&self, sub_model: &PlanStream, node: NodeId, contributors: u64) -> Vec<String> {
        let children = sub_model.children(node).enumerate();
        let vacant = sub_model.vacancies(node, |rank| self.absent.holds(rank));
        let late = children.filter(|(i, _)| (contributors | vacant) >> i & 1 == 0);
        late.map(|(_, child)| self.name(child)).collect()
    }

    /// Every node above `node`, and every other child of those.
    fn beyond(&self, sub_model: &PlanStream, node: NodeId) -> Vec<String> {
        let mut names = Vec::new();
        let mut below = Child::Node(node.0);
        while let Some((above, _)) = sub_model.parent_of(below) {
            names.push(self.name(Child::Node(above.0)));
            let others = sub_model.children(above).filter(|child| *child != below);
            names.extend(others.map(|child| self.name(child)));
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

fn silence(stream: &Stream) -> Evidence {
    let (node, address) = (stream.node, stream.address);
    Evidence::Silent { node, address, since: stream.recovery.last_heard() }
}
