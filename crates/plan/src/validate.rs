//! What makes a plan one that every runner can honour.

use std::collections::BTreeSet;

use wiresum_wire::{BLOCK_LEN, LaneType, MAX_CONTRIBUTORS, MAX_PAYLOAD, MIN_VALUES, NodeId};

use crate::{
    Child, Engine, Exponents, FORMAT, MAX_BPS, MAX_MISSED, MAX_SLOTS, Plan, PlanError, Role,
    Rounds, SubModel, TreeNode, TreeWay,
};

impl Plan {
    /// Checks every field.
    ///
    /// # Errors
    /// The first [`PlanError::Field`] found.
    pub fn validate(&self) -> Result<(), PlanError> {
        self.validate_job()?;
        require(!self.workers.is_empty(), "workers", "a job needs at least one worker")?;
        for (index, worker) in self.workers.iter().enumerate() {
            let in_order = worker.rank as usize == index;
            require(
                in_order,
                &format!("workers[{index}].rank"),
                "must equal its index: list workers in rank order",
            )?;
        }
        self.validate_bandwidths()?;
        let apart = all_distinct(self.nodes.iter().map(|n| n.id));
        require(apart, "nodes", "two have the same id: give each its own")?;
        let uniform = !self.is_over_tcp() || self.nodes.iter().all(|n| n.engine == Engine::Tcp);
        require(
            uniform,
            "nodes",
            "the engine `tcp` is for all nodes or none, as children speak to every node alike",
        )?;
        let apart = all_distinct(self.sub_models.iter().map(|s| s.id));
        require(apart, "sub_models", "two have the same id: give each its own")?;
        let exponents = self.sub_models.iter().filter(|s| s.role == Role::Exponents).count();
        require(exponents == 1, "sub_models", "exactly one must have the role `exponents`")?;
        let share: f64 =
            self.sub_models.iter().filter(|s| s.role == Role::Values).map(|s| s.share).sum();
        require(
            (share - 1.0).abs() < 1e-6,
            "sub_models",
            "the shares of the `values` streams must add up to 1",
        )?;
        self.sub_models
            .iter()
            .enumerate()
            .try_for_each(|(index, s)| self.validate_sub_model(index, s))?;
        self.job.rounds.as_ref().map_or(Ok(()), |rounds| self.validate_rounds(rounds))?;
        self.fabric.as_ref().map_or(Ok(()), |fabric| fabric.validate(self))
    }

    fn validate_rounds(&self, rounds: &Rounds) -> Result<(), PlanError> {
        let is_agreed = self.job.codec == "block" && self.job.exponents == Exponents::Agreed;
        require(
            is_agreed,
            "job.rounds",
            "who takes part is agreed on with the exponents: use the codec `block` and exponents `agreed`",
        )?;
        let allowed = format!("must be 1..={MAX_MISSED}");
        let is_bounded = (1..=MAX_MISSED).contains(&rounds.most_missed);
        require(is_bounded, "job.rounds.most_missed", &allowed)?;
        let apart = all_distinct(rounds.counts.iter().map(|count| count.node));
        require(apart, "job.rounds.counts", "a node has two counts: give it one")?;
        let tree = self.sub_models.iter().find(|s| s.role == Role::Exponents);
        for count in &rounds.counts {
            let place = tree.and_then(|tree| tree.place(NodeId(count.node)));
            let fan_in = place.map_or(0, |place| place.children.len());
            let problem =
                format!("node {} has {fan_in} children, not {} or more", count.node, count.k);
            let is_possible = (1..=fan_in).contains(&usize::from(count.k));
            require(is_possible, "job.rounds.counts", &problem)?;
        }
        Ok(())
    }

    fn validate_bandwidths(&self) -> Result<(), PlanError> {
        let is_fit = |bps: Option<u64>| bps.is_none_or(|bps| (1..=MAX_BPS).contains(&bps));
        let problem = "must be a whole number of bit/s, 1 to 2^53";
        for (index, node) in self.nodes.iter().enumerate() {
            require(is_fit(node.ingress_bps), &format!("nodes[{index}].ingress_bps"), problem)?;
            require(is_fit(node.egress_bps), &format!("nodes[{index}].egress_bps"), problem)?;
        }
        for (index, worker) in self.workers.iter().enumerate() {
            require(is_fit(worker.egress_bps), &format!("workers[{index}].egress_bps"), problem)?;
        }
        Ok(())
    }

    fn validate_job(&self) -> Result<(), PlanError> {
        require(self.format == FORMAT, "format", &format!("this version reads only `{FORMAT}`"))?;
        let is_hex =
            |secret: &String| secret.len() == 16 && secret.bytes().all(|b| b.is_ascii_hexdigit());
        require(
            self.job.secret.as_ref().is_none_or(is_hex),
            "job.secret",
            "must be 16 hexadecimal digits",
        )?;
        let values = usize::from(self.job.values_per_packet);
        let fits = (MIN_VALUES..=MAX_PAYLOAD / 4).contains(&values)
            && (4 * values).is_multiple_of(BLOCK_LEN);
        let allowed = format!(
            "must be {MIN_VALUES}..={} and a multiple of {}",
            MAX_PAYLOAD / 4,
            BLOCK_LEN / 4
        );
        require(fits, "job.values_per_packet", &allowed)?;
        let is_wide = LaneType::from(self.job.lanes).width() == 4;
        require(
            is_wide || self.job.exponents == Exponents::Agreed,
            "job.exponents",
            "16-bit lanes have no bits to spare for what may be expected: use 32-bit lanes, or `agreed`",
        )
    }

    fn validate_sub_model(&self, index: usize, sub_model: &SubModel) -> Result<(), PlanError> {
        let field = |name: &str| format!("sub_models[{index}].{name}");
        let slots_ok = sub_model.slots.is_power_of_two() && sub_model.slots <= MAX_SLOTS;
        require(
            slots_ok,
            &field("slots"),
            &format!("must be a power of two, at most {MAX_SLOTS}"),
        )?;
        let window_ok = (1..=sub_model.slots).contains(&sub_model.window);
        require(window_ok, &field("window"), "must be between 1 and `slots`")?;
        let share_ok = (0.0..=1.0).contains(&sub_model.share);
        require(share_ok, &field("share"), "must be between 0 and 1")?;
        let apart = all_distinct(sub_model.tree.iter().map(|t| t.node));
        require(apart, &field("tree"), "a node has two places: give it one")?;
        let mut parents = sub_model.tree.iter().filter(|t| t.parent.is_none());
        require(
            parents.next().is_some() && parents.next().is_none(),
            &field("tree"),
            "must have exactly one root",
        )?;
        let mut seen = vec![false; self.workers.len()];
        for (index, place) in sub_model.tree.iter().enumerate() {
            // Which also rules out cycles.
            let after_parent = place
                .parent
                .is_none_or(|parent| sub_model.tree[..index].iter().any(|t| t.node == parent));
            let problem =
                format!("node {} comes before its parent: list the root first", place.node);
            require(after_parent, &field("tree"), &problem)?;
            self.validate_place(sub_model, place, &field("tree"), &mut seen)?;
        }
        require(
            seen.iter().all(|s| *s),
            &field("tree"),
            "every worker must be a child of exactly one node",
        )?;
        let ways = sub_model.ways.as_deref().unwrap_or_default();
        self.validate_ways(sub_model, ways, &field("ways"))
    }

    fn validate_ways(
        &self,
        sub_model: &SubModel,
        ways: &[TreeWay],
        field: &str,
    ) -> Result<(), PlanError> {
        let is_theirs = ways.is_empty() || self.fabric.is_none();
        require(is_theirs, field, "the fabric has the ways: leave these out")?;
        let once = all_distinct(ways.iter().map(|way| key(way.child)));
        require(once, field, "a child has two ways: give it one")?;
        for way in ways {
            let has_parent = sub_model.tree.iter().any(|place| place.children.contains(&way.child));
            require(
                has_parent,
                field,
                "one is of nobody that has a parent in the tree: remove it",
            )?;
            let is_path = !way.links.is_empty() && all_distinct(way.links.iter());
            require(is_path, field, "must have one link or more, none twice")?;
        }
        Ok(())
    }

    fn validate_place(
        &self,
        sub_model: &SubModel,
        place: &TreeNode,
        field: &str,
        seen: &mut [bool],
    ) -> Result<(), PlanError> {
        let id = place.node;
        require(self.node(NodeId(id)).is_some(), field, &format!("node {id} is not in `nodes`"))?;
        let fan_in = (1..=MAX_CONTRIBUTORS).contains(&place.children.len());
        require(fan_in, field, &format!("node {id} must have 1..={MAX_CONTRIBUTORS} children"))?;
        let apart = all_distinct(place.children.iter().map(|child| key(*child)));
        require(apart, field, &format!("node {id} has the same child twice"))?;
        if let Some(parent) = place.parent {
            let listed = sub_model.position(NodeId(parent), Child::Node(id)).is_some();
            require(
                listed,
                field,
                &format!(
                    "node {id} names {parent} as its parent, which does not list it as a child"
                ),
            )?;
        }
        for child in &place.children {
            match *child {
                Child::Worker(rank) => {
                    let slot = seen.get_mut(rank as usize);
                    let fresh = slot.is_some_and(|s| !std::mem::replace(s, true));
                    require(fresh, field, &format!("worker {rank} is unknown or has two parents"))?;
                }
                Child::Node(node) => {
                    let agrees =
                        sub_model.place(NodeId(node)).is_some_and(|t| t.parent == Some(id));
                    require(
                        agrees,
                        field,
                        &format!("node {node} does not name {id} as its parent"),
                    )?;
                }
            }
        }
        Ok(())
    }
}

fn key(child: Child) -> (u8, u32) {
    match child {
        Child::Worker(rank) => (0, rank),
        Child::Node(node) => (1, u32::from(node)),
    }
}

fn all_distinct<T: Ord>(mut items: impl Iterator<Item = T>) -> bool {
    let mut seen = BTreeSet::new();
    items.all(|item| seen.insert(item))
}

pub(crate) fn require(condition: bool, field: &str, problem: &str) -> Result<(), PlanError> {
    if condition {
        Ok(())
    } else {
        Err(PlanError::Field { field: field.to_owned(), problem: problem.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const TREE: &str = include_str!("../../protocol/tests/plans/tree.json");

    /// The field and the problem that the validator names after one change to a valid plan.
    fn complaint(pointer: &str, value: Value) -> String {
        let mut plan: Value = serde_json::from_str(TREE).expect("JSON");
        *plan.pointer_mut(pointer).expect("a field of the plan") = value;
        match Plan::from_json(&plan.to_string()) {
            Err(PlanError::Field { field, problem }) => format!("{field}: {problem}"),
            other => panic!("{pointer}: {other:?}"),
        }
    }

    #[test]
    fn the_example_and_the_test_plans_are_valid() {
        for text in [TREE, include_str!("../../../spec/example-plan.json")] {
            Plan::from_json(text).expect("a valid plan");
        }
    }

    #[test]
    fn every_wrong_field_is_named() {
        for (pointer, value, field) in [
            ("/format", json!("wiresum-plan/9"), "format"),
            ("/job/secret", json!("+123456789abcdef"), "job.secret"),
            ("/job/values_per_packet", json!(65), "job.values_per_packet"),
            ("/job/values_per_packet", json!(744), "job.values_per_packet"),
            ("/workers", json!([]), "workers"),
            ("/workers/1/rank", json!(0), "workers[1].rank"),
            ("/nodes/1/id", json!(0), "nodes"),
            (
                "/nodes/1",
                json!({ "id": 1, "name": "left", "address": "10.0.0.2:5747", "engine": "tcp" }),
                "nodes",
            ),
            ("/sub_models/1/id", json!(0), "sub_models"),
            ("/sub_models/0/role", json!("values"), "sub_models"),
            ("/sub_models/1/share", json!(0.6), "sub_models"),
            ("/sub_models/0/share", json!(-1.0), "sub_models[0].share"),
            ("/sub_models/1/slots", json!(12), "sub_models[1].slots"),
            ("/sub_models/1/slots", json!(8_388_608), "sub_models[1].slots"),
            ("/sub_models/2/window", json!(65), "sub_models[2].window"),
            ("/sub_models/2/window", json!(0), "sub_models[2].window"),
        ] {
            let complaint = complaint(pointer, value);
            assert!(complaint.starts_with(&format!("{field}: ")), "{pointer}: {complaint}");
        }
    }

    #[test]
    fn bandwidths_are_whole_and_within_bounds() {
        for (list, field) in
            [("nodes", "ingress_bps"), ("nodes", "egress_bps"), ("workers", "egress_bps")]
        {
            let with = |bps: u64| {
                let mut plan: Value = serde_json::from_str(TREE).expect("JSON");
                plan[list][0][field] = bps.into();
                Plan::from_json(&plan.to_string())
            };
            with(MAX_BPS).expect("within bounds");
            for bps in [0, MAX_BPS + 1] {
                let problem = with(bps).expect_err("out of bounds").to_string();
                assert!(problem.contains(&format!("{list}[0].{field}")), "{problem}");
            }
        }
    }

    #[test]
    fn every_wrong_tree_is_told_apart() {
        for (pointer, value, problem) in [
            ("/tree/1/node", json!(0), "a node has two places"),
            ("/tree/1/parent", json!(null), "exactly one root"),
            ("/tree/1/node", json!(5), "does not name 0 as its parent"),
            ("/tree/1/children", json!([]), "must have 1..=64 children"),
            ("/tree/1/children", json!([{ "worker": 1 }, { "worker": 1 }]), "the same child twice"),
            ("/tree/1/children", json!([{ "worker": 1 }, { "worker": 9 }]), "worker 9 is unknown"),
            ("/tree/1/children", json!([{ "worker": 1 }]), "every worker must be a child"),
            ("/tree/0/children", json!([{ "worker": 0 }]), "does not list it as a child"),
        ] {
            let complaint = complaint(&format!("/sub_models/0{pointer}"), value);
            assert!(complaint.starts_with("sub_models[0].tree: "), "{complaint}");
            assert!(complaint.contains(problem), "{pointer}: {complaint}");
        }
    }

    #[test]
    fn every_wrong_way_is_told_apart() {
        for (ways, problem) in [
            (json!([{ "child": { "worker": 9 }, "links": ["a"] }]), "nobody that has a parent"),
            (json!([{ "child": { "node": 0 }, "links": ["a"] }]), "nobody that has a parent"),
            (json!([{ "child": { "worker": 0 }, "links": [] }]), "one link or more"),
            (json!([{ "child": { "worker": 0 }, "links": ["a", "a"] }]), "none twice"),
            (
                json!([
                    { "child": { "worker": 0 }, "links": ["a"] },
                    { "child": { "worker": 0 }, "links": ["b"] }
                ]),
                "a child has two ways",
            ),
        ] {
            let mut plan: Value = serde_json::from_str(TREE).expect("JSON");
            plan["sub_models"][1]["ways"] = ways;
            let complaint = Plan::from_json(&plan.to_string()).expect_err("no way").to_string();
            assert!(complaint.contains("sub_models[1].ways"), "{complaint}");
            assert!(complaint.contains(problem), "{complaint}");
        }
    }

    #[test]
    fn a_node_comes_after_its_parent() {
        let mut plan: Value = serde_json::from_str(TREE).expect("JSON");
        let places = plan.pointer("/sub_models/0/tree").and_then(Value::as_array).expect("a tree");
        let reversed: Vec<Value> = places.iter().rev().cloned().collect();
        plan["sub_models"][0]["tree"] = reversed.into();
        let problem = Plan::from_json(&plan.to_string()).expect_err("a cycle could hide there");
        assert!(problem.to_string().contains("node 1 comes before its parent"), "{problem}");
    }

    #[test]
    fn a_secret_comes_with_the_plan_or_from_its_file() {
        let whole = Plan::from_json(TREE).expect("valid");
        let mut bare = whole.clone();
        bare.job.secret = None;
        assert_eq!(bare.digest(), whole.digest());
        let secret = whole.job.secret.clone().expect("an old plan has one");
        let file = format!("{secret}\n");
        assert_eq!(bare.clone().with_secret(Some(&file)).expect("a secret"), whole);
        assert_eq!(whole.clone().with_secret(Some("fedcba9876543210")).expect("its own"), whole);
        for file in [None, Some("short")] {
            let problem = bare.clone().with_secret(file).expect_err("no secret").to_string();
            assert!(problem.contains("`job.secret`"), "{problem}");
        }
    }

    #[test]
    fn unknown_fields_are_refused() {
        let plan = TREE.replacen("\"planner\"", "\"plannner\"", 1);
        assert!(matches!(Plan::from_json(&plan), Err(PlanError::Json(_))));
    }
}
