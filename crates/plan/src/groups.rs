//! Groups of a job's workers that sum by themselves: each is a job of its own, which follows from the plan.

use std::collections::BTreeMap;

use wiresum_wire::{JobId, NodeId};

use crate::validate::require;
use crate::{Child, Plan, PlanError, PlanStream, Worker};

/// Most groups of a plan. A node serves 16 jobs, but not every node of a tree is in every group.
pub const MAX_GROUPS: usize = 255;

impl Plan {
    /// Numbers of its groups, from 1.
    pub fn group_numbers(&self) -> impl Iterator<Item = u16> + use<> {
        1..=self.job.groups.len() as u16
    }

    /// The job of a group: the plan pruned to its seats, whose workers are the group's ranks, in order. Its root is the
    /// lowest node that all of them lead to, its number the job's plus the group's, and its keys follow from the job's.
    ///
    /// # Errors
    /// There is no such group.
    pub fn group(&self, number: u16) -> Result<Self, PlanError> {
        let seats = usize::from(number).checked_sub(1).and_then(|at| self.job.groups.get(at));
        let Some(seats) = seats else {
            let problem =
                format!("has {}, and no group {number}: number them from 1", self.job.groups.len());
            let field = "job.groups".to_owned();
            return Err(PlanError::Field { field, problem });
        };
        let ranks: BTreeMap<u32, u32> = seats.iter().copied().zip(0..).collect();
        let mut made = self.clone();
        made.workers = seats.iter().zip(0..).map(|(seat, rank)| self.seated(*seat, rank)).collect();
        made.streams.iter_mut().for_each(|stream| stream.prune(&ranks));
        made.nodes.retain(|node| made.streams.iter().any(|s| s.place(NodeId(node.id)).is_some()));
        made.solution = None;
        made.job.id += number;
        made.job.groups.clear();
        made.job.secret = self.job.secret.as_ref().and_then(|_| self.keys().text_of_group(number));
        Ok(made)
    }

    /// The plan, and those of its groups, that a node has a part in: what its daemon serves.
    ///
    /// # Errors
    /// Never of a plan that is valid.
    pub fn with_groups_at(self, node: NodeId) -> Result<Vec<Self>, PlanError> {
        let groups = self.group_numbers().map(|number| self.group(number));
        let groups = groups.collect::<Result<Vec<_>, _>>()?;
        let here = groups.into_iter().filter(|plan| plan.node(node).is_some());
        Ok(std::iter::once(self.clone()).chain(here).collect())
    }

    /// Numbers of the jobs of its groups.
    pub fn jobs_of_groups(&self) -> impl Iterator<Item = JobId> + use<> {
        let first = self.job.id;
        self.group_numbers().map(move |number| JobId(first + number))
    }

    fn seated(&self, seat: u32, rank: u32) -> Worker {
        Worker { rank, ..self.workers[seat as usize].clone() }
    }

    pub(crate) fn validate_groups(&self) -> Result<(), PlanError> {
        let groups = &self.job.groups;
        if groups.is_empty() {
            return Ok(());
        }
        let problem = format!("has {}; a plan has at most {MAX_GROUPS}", groups.len());
        require(groups.len() <= MAX_GROUPS, "job.groups", &problem)?;
        let last = usize::from(self.job.id) + groups.len();
        let problem = format!("the groups are jobs up to {last}; give the job a lower `id`");
        require(last <= usize::from(u16::MAX), "job.groups", &problem)?;
        let refuse = |is_there: bool, what: &str| {
            let problem = format!("do not go with {what}: leave out one of them");
            require(!is_there, "job.groups", &problem)
        };
        refuse(self.fabric.is_some(), "switches that sum")?;
        refuse(self.sparse.is_some(), "tables of rows")?;
        refuse(self.job.rounds.is_some(), "rounds without late workers")?;
        let mut groups = groups.iter().enumerate();
        groups.try_for_each(|(at, seats)| self.validate_group(seats, &format!("job.groups[{at}]")))
    }

    fn validate_group(&self, seats: &[u32], field: &str) -> Result<(), PlanError> {
        let problem = "has fewer than two seats, who have nothing to sum: name more, or remove it";
        require(seats.len() > 1, field, problem)?;
        let problem = "must have its seats in ascending order, each once";
        require(seats.is_sorted_by(|one, next| one < next), field, problem)?;
        let last = self.workers.len() - 1;
        let unknown = seats.iter().find(|seat| **seat as usize > last);
        let problem = unknown.map(|seat| format!("has no seat {seat}: workers are 0 to {last}"));
        require(unknown.is_none(), field, &problem.unwrap_or_default())
    }
}

impl PlanStream {
    /// Keeps the legs from workers with new ranks, and the nodes up to the lowest one that all of these lead to.
    fn prune(&mut self, ranks: &BTreeMap<u32, u32>) {
        self.legs.retain(|leg| match leg.child {
            Child::Worker(rank) => ranks.contains_key(&rank),
            Child::Node(_) => true,
        });
        while let Some(node) = self.childless() {
            self.drop_place(node);
        }
        while let Some(root) = self.root()
            && let [Child::Node(_)] = self.children(root).collect::<Vec<_>>()[..]
        {
            self.drop_place(root);
        }
        for leg in &mut self.legs {
            if let Child::Worker(rank) = &mut leg.child {
                *rank = ranks[rank];
            }
        }
    }

    fn childless(&self) -> Option<NodeId> {
        let mut nodes = self.places.iter().map(|place| NodeId(place.node));
        nodes.find(|node| self.fan_in(*node) == 0)
    }

    fn drop_place(&mut self, node: NodeId) {
        self.places.retain(|place| place.node != node.0);
        self.legs.retain(|leg| leg.child != Child::Node(node.0) && leg.parent != node.0);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use wiresum_keys::Seat;

    use super::*;

    /// Node 0 sums worker 0 and node 1, and node 1 workers 1 to 3.
    const TREE: &str = include_str!("../../protocol/tests/plans/tree.json");
    const BOTH: [NodeId; 2] = [NodeId(0), NodeId(1)];

    fn plan_of(groups: &Value) -> Result<Plan, PlanError> {
        let mut plan: Value = serde_json::from_str(TREE).expect("JSON");
        plan["job"]["groups"] = groups.clone();
        plan["job"]["secret"] = "5e".repeat(32).into();
        Plan::from_json(&plan.to_string())
    }

    fn plan() -> Plan {
        plan_of(&json!([[0, 2], [1, 3], [0, 1, 2, 3]])).expect("a valid plan")
    }

    fn nodes(plan: &Plan) -> Vec<u16> {
        plan.nodes.iter().map(|node| node.id).collect()
    }

    #[test]
    fn a_group_is_a_valid_plan_of_its_ranks_below_their_lowest_common_node() {
        let [pair, below, all] = [1, 2, 3].map(|number| plan().group(number).expect("a group"));
        for made in [&pair, &below, &all] {
            made.validate().expect("a valid plan");
            assert!(made.job.groups.is_empty());
        }
        assert_eq!((nodes(&pair), nodes(&below), nodes(&all)), (vec![0, 1], vec![1], vec![0, 1]));
        let names = |plan: &Plan| plan.workers.iter().map(|w| w.name.clone()).collect::<Vec<_>>();
        assert_eq!(
            names(&below),
            [&plan().workers[1].name, &plan().workers[3].name].map(String::clone)
        );
        let children: Vec<_> = below.streams[0].children(NodeId(1)).collect();
        assert_eq!(children, [Child::Worker(0), Child::Worker(1)]);
        assert_eq!(pair.streams[0].root(), Some(NodeId(0)));
        assert_eq!(all.streams, plan().streams);
    }

    #[test]
    fn groups_are_jobs_of_their_own() {
        let whole = plan();
        let numbers: Vec<_> = whole.jobs_of_groups().map(|job| job.0 - whole.job.id).collect();
        assert_eq!(numbers, [1, 2, 3]);
        let mut digests: Vec<_> =
            whole.group_numbers().map(|n| whole.group(n).expect("a group").digest()).collect();
        digests.extend([whole.digest(), Plan::from_json(TREE).expect("a plan").digest()]);
        digests.sort_unstable();
        digests.dedup();
        assert_eq!(digests.len(), 5, "what is agreed on differs");
        let problem = whole.group(4).expect_err("no group").to_string();
        assert!(problem.contains("no group 4"), "{problem}");
        assert!(whole.group(0).is_err() && whole.group(1).expect("a group").group(1).is_err());
    }

    #[test]
    fn ranks_and_nodes_have_the_same_keys_of_a_group_and_nodes_no_others() {
        for node in BOTH {
            let held = plan().held_by(node).expect("its node").with_groups_at(node);
            for theirs in held.expect("groups") {
                theirs.validate().expect("a valid plan");
                let number = theirs.job.id - plan().job.id;
                let ours =
                    if number == 0 { plan() } else { plan().group(number).expect("a group") };
                let seat = Seat { node: node.0, stream: 1, contributor: 0 };
                assert_eq!(theirs.keys().seat(seat), ours.keys().seat(seat));
                assert_eq!(theirs.keys().node(), Some(node));
                assert_eq!(theirs.job_key(7), ours.job_key(7));
                assert_eq!(theirs.digest(), ours.digest());
            }
        }
        let at_root = plan().held_by(NodeId(0)).and_then(|plan| plan.with_groups_at(NodeId(0)));
        let jobs: Vec<_> =
            at_root.expect("groups").iter().map(|p| p.job.id - plan().job.id).collect();
        assert_eq!(jobs, [0, 1, 3], "group 2 is below");
        let others = plan().held_by(NodeId(0)).expect("its node").group(2).expect("a plan");
        assert_eq!(others.job.secret, None, "the root has no part in it");
    }

    #[test]
    fn sets_that_are_none_are_refused_by_name() {
        for (groups, words) in [
            (json!([[0, 1], [2]]), "job.groups[1]`: has fewer than two seats"),
            (json!([[]]), "job.groups[0]`: has fewer than two"),
            (json!([[0, 0]]), "job.groups[0]`: must have its seats in ascending order, each once"),
            (json!([[1, 0]]), "ascending order"),
            (json!([[0, 4]]), "job.groups[0]`: has no seat 4: workers are 0 to 3"),
            (json!(vec![[0, 1]; MAX_GROUPS + 1]), "job.groups`: has 256; a plan has at most 255"),
        ] {
            let problem = plan_of(&groups).expect_err("no groups").to_string();
            assert!(problem.contains(words), "{problem}");
        }
        assert!(plan_of(&json!([[0, -1]])).is_err());
    }

    #[test]
    fn the_last_group_has_a_number_too() {
        let numbered = |id: u16| {
            let mut plan = plan();
            plan.job.id = id;
            plan.validate()
        };
        numbered(u16::MAX - 3).expect("room for three");
        let problem = numbered(u16::MAX - 2).expect_err("no room").to_string();
        assert!(problem.contains("jobs up to 65536"), "{problem}");
    }
}
