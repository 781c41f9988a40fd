//! Jobs that follow from a plan: of groups of its workers, which sum by themselves, and of ranks' threads, which each sum
//! a part of every large tensor.

use std::collections::BTreeMap;

use wiresum_keys::Keyring;
use wiresum_wire::{JobId, NodeId};

use crate::validate::require;
use crate::{Child, Exponents, Plan, PlanError, PlanStream, Worker};

/// Most jobs that follow from a plan. A node serves 16 jobs, but not every node of a tree is in every group.
pub const MAX_GROUPS: usize = 255;
/// Most threads of a rank.
pub const MAX_THREADS: u8 = 8;

impl Plan {
    /// Numbers of the jobs that follow from it, from 1: thread t of group g, where 0 is all workers, has `g threads + t`.
    pub fn group_numbers(&self) -> impl Iterator<Item = u16> + use<> {
        1..=self.following() as u16
    }

    fn following(&self) -> usize {
        ((self.job.groups.len() + 1) * usize::from(self.job.threads)).saturating_sub(1)
    }

    /// The job of a group, or of a thread: the plan pruned to its seats, whose workers are the group's ranks, in order. Its
    /// root is the lowest node that all of them lead to, its number the job's plus its own, and its keys follow from the
    /// job's.
    ///
    /// # Errors
    /// There is no such job.
    pub fn group(&self, number: u16) -> Result<Self, PlanError> {
        let most = self.following();
        if !(1..=most).contains(&usize::from(number)) {
            let problem = format!("gives {most} jobs, and no job {number}: number them from 1");
            return Err(PlanError::Field { field: "job.groups".to_owned(), problem });
        }
        let thread = number % u16::from(self.job.threads);
        let first = number - thread;
        let mut made = self.pruned(first / u16::from(self.job.threads));
        made.job.id += number;
        made.job.secret = self.secret_of(first, thread);
        if thread > 0 {
            made.job.threads = 1;
        }
        Ok(made)
    }

    /// The job of each thread of a rank, of which this plan's is the first.
    ///
    /// # Panics
    /// The plan is none that is valid.
    #[must_use]
    pub fn of_threads(&self) -> Vec<Self> {
        let further = 1..u16::from(self.job.threads);
        let further = further.map(|thread| self.group(thread).expect("a thread of the plan"));
        std::iter::once(self.clone()).chain(further).collect()
    }

    /// The plan of a group's workers alone; 0 is all of them.
    fn pruned(&self, group: u16) -> Self {
        let all: Vec<u32> = (0..self.workers.len() as u32).collect();
        let seats = usize::from(group).checked_sub(1).map_or(&all, |at| &self.job.groups[at]);
        let ranks: BTreeMap<u32, u32> = seats.iter().copied().zip(0..).collect();
        let mut made = self.clone();
        made.workers = seats.iter().zip(0..).map(|(seat, rank)| self.seated(*seat, rank)).collect();
        made.streams.iter_mut().for_each(|stream| stream.prune(&ranks));
        made.nodes.retain(|node| made.streams.iter().any(|s| s.place(NodeId(node.id)).is_some()));
        made.solution = None;
        made.job.groups.clear();
        made
    }

    /// What this participant has of the job of a group's thread: a group's secret follows from the job's, and a thread's from
    /// its group's, so that whoever has a group's plan has those of its threads. A node has the keys of each.
    fn secret_of(&self, first: u16, thread: u16) -> Option<String> {
        let mut text = self.job.secret.clone()?;
        if self.keys().node().is_some() {
            return self.keys().text_of_group(first + thread);
        }
        for number in [first, thread].into_iter().filter(|number| *number > 0) {
            text = Keyring::from_text(&text).ok()?.text_of_group(number)?;
        }
        Some(text)
    }

    /// The plan, and the jobs that follow from it, that a node has a part in: what its daemon serves.
    ///
    /// # Errors
    /// Never of a plan that is valid.
    pub fn with_groups_at(self, node: NodeId) -> Result<Vec<Self>, PlanError> {
        let groups = self.group_numbers().map(|number| self.group(number));
        let groups = groups.collect::<Result<Vec<_>, _>>()?;
        let here = groups.into_iter().filter(|plan| plan.node(node).is_some());
        Ok(std::iter::once(self.clone()).chain(here).collect())
    }

    /// Numbers, at nodes, of the jobs that follow from it.
    pub fn jobs_of_groups(&self) -> impl Iterator<Item = JobId> + use<> {
        let first = self.job.id;
        self.group_numbers().map(move |number| JobId(first + number))
    }

    fn seated(&self, seat: u32, rank: u32) -> Worker {
        Worker { rank, ..self.workers[seat as usize].clone() }
    }

    pub(crate) fn validate_groups(&self) -> Result<(), PlanError> {
        let threads = self.job.threads;
        let problem = format!("is {threads}; a rank has 1 to {MAX_THREADS}");
        require((1..=MAX_THREADS).contains(&threads), "job.threads", &problem)?;
        if self.following() == 0 {
            return Ok(());
        }
        let field = if threads > 1 { "job.threads" } else { "job.groups" };
        let problem = format!(
            "makes {} jobs; a plan has at most {MAX_GROUPS} beside its own",
            self.following()
        );
        require(self.following() <= MAX_GROUPS, field, &problem)?;
        let last = usize::from(self.job.id) + self.following();
        let problem = format!("the groups are jobs up to {last}; give the job a lower `id`");
        require(last <= usize::from(u16::MAX), field, &problem)?;
        let refuse = |is_there: bool, what: &str| {
            let problem = format!("do not go with {what}: leave out one of them");
            require(!is_there, field, &problem)
        };
        refuse(self.fabric.is_some(), "switches that sum")?;
        refuse(self.sparse.is_some(), "tables of rows")?;
        refuse(self.job.rounds.is_some(), "rounds without late workers")?;
        refuse(
            threads > 1 && self.job.exponents == Exponents::Expected,
            "exponents that are expected, as parts of a tensor may differ in whether they were",
        )?;
        let mut groups = self.job.groups.iter().enumerate();
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
        assert!(problem.contains("no job 4"), "{problem}");
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
            (
                json!(vec![[0, 1]; MAX_GROUPS + 1]),
                "job.groups`: makes 256 jobs; a plan has at most 255",
            ),
        ] {
            let problem = plan_of(&groups).expect_err("no groups").to_string();
            assert!(problem.contains(words), "{problem}");
        }
        assert!(plan_of(&json!([[0, -1]])).is_err());
    }

    fn threaded(threads: u8) -> Plan {
        let mut made = plan();
        made.job.threads = threads;
        made
    }

    #[test]
    fn each_thread_of_a_group_has_a_job_of_the_same_seats() {
        let whole = threaded(3);
        whole.validate().expect("a valid plan");
        assert_eq!(whole.group_numbers().count(), 11, "three of each of four, but its own");
        let jobs: Vec<_> = whole.group_numbers().map(|n| whole.group(n).expect("a job")).collect();
        let workers =
            |n: usize| jobs[n - 1].workers.iter().map(|w| w.name.clone()).collect::<Vec<_>>();
        for (first, alone) in [(3, 1), (6, 2), (9, 3)] {
            let expected = plan().group(alone).expect("a group").workers;
            let expected: Vec<_> = expected.into_iter().map(|worker| worker.name).collect();
            for thread in 0..3 {
                assert_eq!(workers(first + thread), expected, "thread {thread} of group {alone}");
            }
        }
        assert_eq!(workers(1).len(), 4);
        assert_eq!(jobs[1].streams, whole.streams, "a second thread of all");
        for (made, number) in jobs.iter().zip(1..) {
            made.validate().expect("a valid plan");
            assert_eq!(made.job.threads, if number % 3 == 0 { 3 } else { 1 });
        }
        for (first, jobs) in [(0, &whole), (3, &jobs[2]), (9, &jobs[8])] {
            for (thread, made) in jobs.of_threads().iter().enumerate().skip(1) {
                let expected = whole.group(first + thread as u16).expect("a job");
                assert_eq!(made, &expected, "a group's plan has its threads");
            }
        }
        let mut secrets: Vec<_> = jobs.iter().map(|made| made.job.secret.clone()).collect();
        secrets.sort_unstable();
        secrets.dedup();
        assert_eq!(secrets.len(), jobs.len(), "each has its own");
    }

    #[test]
    fn nodes_have_the_keys_of_each_thread() {
        for node in BOTH {
            let held = threaded(2).held_by(node).and_then(|plan| plan.with_groups_at(node));
            let held = held.expect("jobs");
            assert_eq!(held.len(), if node == NodeId(0) { 6 } else { 8 });
            for theirs in held {
                let number = theirs.job.id - plan().job.id;
                let whole = threaded(2);
                let ours = if number == 0 { whole } else { whole.group(number).expect("a job") };
                let seat = Seat { node: node.0, stream: 1, contributor: 0 };
                assert_eq!(theirs.keys().seat(seat), ours.keys().seat(seat));
                assert_eq!((theirs.digest(), theirs.job_key(7)), (ours.digest(), ours.job_key(7)));
            }
        }
    }

    #[test]
    fn a_plan_of_one_thread_is_what_it_was_before_there_were_more() {
        assert_eq!(threaded(1).digest(), plan().digest());
        let json = serde_json::to_string(&threaded(1)).expect("JSON");
        assert!(!json.contains("threads"), "{json}");
        assert_ne!(threaded(2).digest(), plan().digest());
    }

    #[test]
    fn threads_that_no_rank_has_are_refused() {
        for (threads, words) in [
            (0, "job.threads`: is 0; a rank has 1 to 8"),
            (9, "job.threads`: is 9; a rank has 1 to 8"),
        ] {
            let problem = threaded(threads).validate().expect_err("no threads").to_string();
            assert!(problem.contains(words), "{problem}");
        }
        let mut expecting = threaded(2);
        expecting.job.exponents = Exponents::Expected;
        let problem = expecting.validate().expect_err("no agreement").to_string();
        assert!(problem.contains("job.threads`: do not go with exponents"), "{problem}");
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
