//! What makes a plan one that every runner can honour.

use std::collections::{BTreeMap, BTreeSet};

use wiresum_keys::Keyring;
use wiresum_wire::{BLOCK_LEN, MAX_CONTRIBUTORS, MAX_VALUES, MIN_VALUES, NodeId, PAGE_VALUES};

use crate::{
    Child, Engine, Exponents, FORMAT, Lanes, MAX_BPS, MAX_MISSED, MAX_SLOTS, Plan, PlanError,
    PlanStream, Policy, Role, Rounds, StreamPlace,
};

/// Nodes of a plan: several times what any network in the papers has, and checked in a tenth of a second. Checks of trees
/// look at each node's parents.
const MAX_NODES: usize = 4096;
/// By how much shares may miss 1, as floats do when they are added.
pub(crate) const SHARE_TOLERANCE: f64 = 1e-6;
/// Workers whose seals' pieces of 16 bits can be added in a lane of 32 bits.
const MAX_SEALED_WORKERS: usize = 1 << 16;
/// The same for pieces of 8 bits, in lanes of 16.
const MAX_NARROW_SEALED_WORKERS: usize = 1 << 8;

impl Plan {
    /// Checks every field.
    ///
    /// # Errors
    /// The first [`PlanError::Field`] found.
    pub fn validate(&self) -> Result<(), PlanError> {
        self.validate_job()?;
        require(!self.workers.is_empty(), "workers", "a job needs at least one worker")?;
        let is_bounded = self.nodes.len() <= MAX_NODES;
        require(is_bounded, "nodes", &format!("a plan has at most {MAX_NODES}"))?;
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
        let apart = all_distinct(self.streams.iter().map(|s| s.id));
        require(apart, "streams", "two have the same id: give each its own")?;
        let exponents = self.streams.iter().filter(|s| s.role == Role::Exponents).count();
        require(exponents == 1, "streams", "exactly one must have the role `exponents`")?;
        let hot = self.streams.iter().any(|s| s.role == Role::Hot);
        require(!hot, "streams", "hot rows belong into `sparse.streams`")?;
        let values = self.streams.iter().filter(|s| s.role == Role::Values);
        let share: f64 = values.map(|s| s.share).sum();
        let problem = "the shares of the `values` streams must add up to 1";
        require((share - 1.0).abs() < SHARE_TOLERANCE, "streams", problem)?;
        for (index, stream) in self.streams.iter().enumerate() {
            let field = format!("streams[{index}]");
            self.validate_stream(stream, &field)?;
            if self.fabric.is_none() {
                stream.validate_at_servers(&field)?;
            }
        }
        self.fabric.as_ref().map_or(Ok(()), |fabric| fabric.validate(self))?;
        self.validate_exchanges()?;
        self.sparse.as_ref().map_or(Ok(()), |sparse| sparse.validate(self))?;
        if self.job.sealed {
            self.validate_seals()?;
        }
        if self.job.proven {
            self.validate_proofs()?;
        }
        self.job.rounds.as_ref().map_or(Ok(()), |rounds| self.validate_rounds(rounds))?;
        self.validate_groups()
    }

    fn validate_rounds(&self, rounds: &Rounds) -> Result<(), PlanError> {
        let is_agreed = self.job.agrees() && self.job.exponents == Exponents::Agreed;
        require(
            is_agreed,
            "job.rounds",
            "rounds that go on without late workers need the codec `block` and exponents `agreed`, whose exchange says who is in",
        )?;
        let allowed = format!("must be 1..={MAX_MISSED}");
        let is_bounded = (1..=MAX_MISSED).contains(&rounds.most_missed);
        require(is_bounded, "job.rounds.most_missed", &allowed)?;
        let apart = all_distinct(rounds.counts.iter().map(|count| count.node));
        require(apart, "job.rounds.counts", "a node has two counts: give it one")?;
        for count in &rounds.counts {
            let counted = self.counted_at(NodeId(count.node));
            let who = if self.fabric.is_some() { "counts at the root of switches" } else { "has" };
            let problem = format!(
                "node {} {who} {counted} children or workers, not {} or more",
                count.node, count.k
            );
            let is_possible = (1..=counted).contains(&usize::from(count.k));
            require(is_possible, "job.rounds.counts", &problem)?;
        }
        Ok(())
    }

    /// How many contributions the rounds of a node may wait for: its children's, or, at the root of switches, which
    /// alone knows who is in, the workers'.
    fn counted_at(&self, node: NodeId) -> usize {
        let stream = self.exponents();
        match &self.fabric {
            None => stream.map_or(0, |stream| stream.fan_in(node)),
            Some(_) if stream.and_then(PlanStream::root) == Some(node) => self.workers.len(),
            Some(_) => 0,
        }
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
        let is_ring = |text: &String| Keyring::from_text(text).is_ok();
        require(
            self.job.secret.as_ref().is_none_or(is_ring),
            "job.secret",
            "must be 64 hexadecimal digits, or the keys of a node (`wiresum keys`); `wiresum plan` makes a new secret",
        )?;
        let values = usize::from(self.job.values_per_packet);
        let fits =
            (MIN_VALUES..=MAX_VALUES).contains(&values) && (4 * values).is_multiple_of(BLOCK_LEN);
        let allowed =
            format!("must be {MIN_VALUES}..={MAX_VALUES} and a multiple of {}", BLOCK_LEN / 4);
        require(fits, "job.values_per_packet", &allowed)?;
        let because = self.needs_pages().filter(|_| self.packet_pages() > 1);
        let too_long = format!(
            "must be at most {PAGE_VALUES} {}: plan without `--jumbo`",
            because.unwrap_or_default()
        );
        require(because.is_none(), "job.values_per_packet", &too_long)?;
        let is_wide = self.job.lanes.widest().width() == 4;
        require(
            is_wide || self.job.exponents == Exponents::Agreed,
            "job.exponents",
            "16-bit lanes have no bits to spare for what may be expected: use 32-bit lanes, or `agreed`",
        )?;
        require(
            self.job.lanes != Lanes::Auto || self.job.agrees(),
            "job.lanes",
            "`auto` needs the codec `block`, as one factor does not suit two widths: use `int32-le`, or `block`",
        )
    }

    /// Why a packet has to lie in one page, if it has.
    fn needs_pages(&self) -> Option<&'static str> {
        let sees_frames =
            self.nodes.iter().any(|n| matches!(n.engine, Engine::Xdp | Engine::AfXdp));
        [
            (self.fabric.is_some(), "where switches sum"),
            (
                sees_frames,
                "where a node has the engine `xdp` or `af_xdp` (`udp` and `tcp` take more)",
            ),
            (self.job.sealed, "in jobs that are `sealed`"),
            (self.job.proven, "in jobs that are `proven`"),
            (self.sparse.is_some(), "in jobs with `sparse` models"),
        ]
        .into_iter()
        .find_map(|(is_so, because)| is_so.then_some(because))
    }

    /// Whether everything that is summed can be sealed.
    fn validate_seals(&self) -> Result<(), PlanError> {
        let is_narrow = self.job.lanes.narrowest().width() == 2;
        let most = if is_narrow { MAX_NARROW_SEALED_WORKERS } else { MAX_SEALED_WORKERS };
        let are_few = self.workers.len() <= most;
        let problem = format!("has at most {most} workers with such lanes: leave it out");
        require(are_few, "job.sealed", &problem)?;
        let problem = "rows are not sealed: leave out `sparse`, or `sealed`";
        require(self.sparse.is_none(), "job.sealed", problem)
    }

    /// Whether everyone on the way of values can test their proofs.
    fn validate_proofs(&self) -> Result<(), PlanError> {
        let problem = "rows are not proven: leave out `sparse`, or `proven`";
        require(self.sparse.is_none(), "job.proven", problem)?;
        let policy = self.switch_policy();
        let problem = format!(
            "switches of the policy `{}` test no proofs of values: let servers sum, or leave it out",
            policy.map_or("", Policy::name)
        );
        require(policy.is_none(), "job.proven", &problem)
    }

    /// Whether the stream's legs are a tree over its places that all workers send into.
    pub(crate) fn validate_stream(
        &self,
        stream: &PlanStream,
        field: &str,
    ) -> Result<(), PlanError> {
        let [places, legs] = ["places", "legs"].map(|name| format!("{field}.{name}"));
        let share_ok = (0.0..=1.0).contains(&stream.share);
        require(share_ok, &format!("{field}.share"), "must be between 0 and 1")?;
        let window_ok = (1..=MAX_SLOTS).contains(&stream.window);
        let allowed = format!("must be 1..={MAX_SLOTS}");
        require(window_ok, &format!("{field}.window"), &allowed)?;
        let apart = all_distinct(stream.places.iter().map(|place| place.node));
        require(apart, &places, "a node has two places: give it one")?;
        let known: BTreeSet<u16> = self.nodes.iter().map(|node| node.id).collect();
        for StreamPlace { node, .. } in &stream.places {
            require(known.contains(node), &places, &format!("node {node} is not in `nodes`"))?;
            // Switches name workers of the job, not children.
            let most = if self.fabric.is_some() { usize::MAX } else { MAX_CONTRIBUTORS };
            let fan_in = (1..=most).contains(&stream.fan_in(NodeId(*node)));
            let problem = format!("node {node} must have 1..={MAX_CONTRIBUTORS} children");
            require(fan_in, &legs, &problem)?;
        }
        let once = all_distinct(stream.legs.iter().map(|leg| key(leg.child)));
        require(once, &legs, "a worker or node has two legs: give it one")?;
        for leg in &stream.legs {
            let is_known = match leg.child {
                Child::Worker(rank) => (rank as usize) < self.workers.len(),
                Child::Node(node) => stream.place(NodeId(node)).is_some(),
            };
            let problem = "one begins at a worker that is not in `workers`, or at a node without a place: remove it";
            require(is_known, &legs, problem)?;
            let problem =
                format!("one ends at node {}, which has no place: give it one", leg.parent);
            require(stream.place(NodeId(leg.parent)).is_some(), &legs, &problem)?;
            require(all_distinct(leg.links.iter()), &legs, "one names a link twice")?;
        }
        let workers =
            stream.legs.iter().filter(|leg| matches!(leg.child, Child::Worker(_))).count();
        require(workers == self.workers.len(), &legs, "every worker must have one")?;
        // As every place but one has a leg, and each leg an end, what does not lead to that one leads in a circle.
        let is_tree = stream.legs.len() + 1 == workers + stream.places.len()
            && stream.places_below_root() == stream.places.len();
        require(
            is_tree,
            &legs,
            "must lead to one root: the only place without a leg, and no circles",
        )
    }
}

impl PlanStream {
    /// Places from which legs lead to the root, itself included; each leg is gone once.
    fn places_below_root(&self) -> usize {
        let mut below: BTreeMap<u16, Vec<u16>> = BTreeMap::new();
        for leg in &self.legs {
            if let Child::Node(node) = leg.child {
                below.entry(leg.parent).or_default().push(node);
            }
        }
        let mut found: Vec<u16> = self.root().map(|root| root.0).into_iter().collect();
        let mut seen = 0;
        while let Some(node) = found.get(seen) {
            found.extend(below.remove(node).into_iter().flatten());
            seen += 1;
        }
        seen
    }

    /// Whether servers, whose slots are laid out alike at all places, can sum the stream.
    fn validate_at_servers(&self, field: &str) -> Result<(), PlanError> {
        let policy_ok = matches!(self.policy, Policy::Pool | Policy::Cache);
        let problem =
            "servers have the policies `pool` and `cache`; others need a `fabric` of switches";
        require(policy_ok, &format!("{field}.policy"), problem)?;
        let slots = self.slots();
        let places = format!("{field}.places");
        let slots_ok = slots.is_power_of_two() && slots <= MAX_SLOTS;
        let allowed = format!("`slots` must be a power of two, at most {MAX_SLOTS}");
        require(slots_ok, &places, &allowed)?;
        let alike = self.places.iter().all(|place| place.slots == Some(slots) && place.base == 0);
        require(alike, &places, "servers all have the same `slots`, and no `base`")?;
        require(self.window <= slots, &format!("{field}.window"), "must be at most `slots`")?;
        let problem = "is for switches that preempt: leave it out";
        require(self.priority == 0, &format!("{field}.priority"), problem)
    }
}

fn key(child: Child) -> (u8, u32) {
    match child {
        Child::Worker(rank) => (0, rank),
        Child::Node(node) => (1, u32::from(node)),
    }
}

pub(crate) fn all_distinct<T: Ord>(mut items: impl Iterator<Item = T>) -> bool {
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
    fn long_packets_are_for_servers_in_user_space_alone() {
        let mut plan = Plan::from_json(TREE).expect("a valid plan");
        plan.job.values_per_packet = MAX_VALUES as u16;
        plan.validate().expect("user space sums them");
        let refusal = |plan: &Plan| plan.validate().expect_err("refused").to_string();
        plan.nodes[1].engine = Engine::AfXdp;
        assert!(refusal(&plan).contains("a node has the engine `xdp` or `af_xdp`"));
        plan.nodes[1].engine = Engine::Udp;
        plan.job.sealed = true;
        assert!(refusal(&plan).contains("`sealed`"));
        (plan.job.sealed, plan.job.proven) = (false, true);
        assert!(refusal(&plan).contains("`proven`"));
    }

    #[test]
    fn every_wrong_field_is_named() {
        for (pointer, value, field) in [
            ("/format", json!("wiresum-plan/9"), "format"),
            ("/job/secret", json!(format!("+{}", "0".repeat(63))), "job.secret"),
            ("/job/values_per_packet", json!(65), "job.values_per_packet"),
            ("/job/values_per_packet", json!(2240), "job.values_per_packet"),
            ("/workers", json!([]), "workers"),
            ("/workers/1/rank", json!(0), "workers[1].rank"),
            ("/nodes/1/id", json!(0), "nodes"),
            (
                "/nodes/1",
                json!({ "id": 1, "name": "left", "address": "10.0.0.2:5747", "engine": "tcp" }),
                "nodes",
            ),
            ("/streams/1/id", json!(0), "streams"),
            ("/streams/0/role", json!("values"), "streams"),
            ("/streams/1/share", json!(0.6), "streams"),
            ("/streams/0/share", json!(-1.0), "streams[0].share"),
            ("/streams/1/places/0/slots", json!(12), "streams[1].places"),
            ("/streams/1/places/0/slots", json!(8_388_608), "streams[1].places"),
            ("/streams/1/places/1/slots", json!(32), "streams[1].places"),
            ("/streams/1/places/1/slots", json!(null), "streams[1].places"),
            ("/streams/1/policy", json!("hash"), "streams[1].policy"),
            ("/streams/2/window", json!(65), "streams[2].window"),
            ("/streams/2/window", json!(0), "streams[2].window"),
        ] {
            let complaint = complaint(pointer, value);
            assert!(complaint.starts_with(&format!("{field}: ")), "{pointer}: {complaint}");
        }
    }

    /// A chain of nodes, which is what checks of trees take longest for.
    #[test]
    fn a_plan_of_as_many_nodes_as_may_be_is_read() {
        let chain = |count: u16| {
            let mut plan: Value = serde_json::from_str(TREE).expect("JSON");
            let node =
                |id: u16| json!({ "id": id, "name": format!("n{id}"), "address": "10.0.0.1:5747" });
            plan["nodes"] = (0..count).map(node).collect();
            for stream in plan["streams"].as_array_mut().expect("a list") {
                let workers: Vec<Value> = stream["legs"].as_array().expect("a list").clone();
                let workers =
                    workers.into_iter().filter(|leg| leg["child"].get("worker").is_some());
                let last = workers.map(|leg| json!({ "child": leg["child"], "parent": count - 1 }));
                let between =
                    (1..count).map(|id| json!({ "child": { "node": id }, "parent": id - 1 }));
                stream["legs"] = last.chain(between).collect();
                stream["places"] =
                    (0..count).map(|node| json!({ "node": node, "slots": 64 })).collect();
            }
            Plan::from_json(&plan.to_string())
        };
        chain(MAX_NODES as u16).expect("as many as may be");
        let problem = chain(MAX_NODES as u16 + 1).expect_err("one too many").to_string();
        assert!(problem.contains("at most 4096"), "{problem}");
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

    /// The problem that the validator names in a field of stream 0, after one change to it.
    fn problem(field: &str, change: impl Fn(&mut Value)) -> String {
        let mut plan: Value = serde_json::from_str(TREE).expect("JSON");
        change(&mut plan["streams"][0]);
        let error = Plan::from_json(&plan.to_string()).expect_err("no tree").to_string();
        assert!(error.contains(&format!("`streams[0].{field}`")), "{error}");
        error
    }

    #[test]
    fn every_wrong_tree_is_told_apart() {
        // Legs 0 to 3 are those of workers 0 and 1 to 3, and the last is node 1's.
        for (pointer, value, words) in [
            ("/legs/0/child", json!({ "worker": 1 }), "a worker or node has two legs"),
            ("/legs/0/child", json!({ "worker": 9 }), "not in `workers`"),
            ("/legs/0/parent", json!(5), "ends at node 5, which has no place"),
            ("/legs/1/child", json!({ "node": 7 }), "a node without a place"),
            (
                "/legs/0",
                json!({ "child": { "worker": 0 }, "parent": 0, "links": ["a", "a"] }),
                "names a link twice",
            ),
        ] {
            let problem = problem("legs", |stream| {
                *stream.pointer_mut(pointer).expect("a field of the stream") = value.clone();
            });
            assert!(problem.contains(words), "{pointer}: {problem}");
        }
    }

    #[test]
    fn every_worker_has_one_leg_and_every_place_children() {
        let without = |kept: fn(&Value) -> bool| {
            move |stream: &mut Value| {
                stream["legs"].as_array_mut().expect("a list").retain(kept);
            }
        };
        let missing = problem("legs", without(|leg| leg["child"]["worker"] != 3));
        assert!(missing.contains("every worker must have one"), "{missing}");
        let roots = problem("legs", without(|leg| leg["child"]["node"] != 1));
        assert!(roots.contains("must lead to one root"), "{roots}");
        let circle = problem("legs", |stream| {
            let legs = stream["legs"].as_array_mut().expect("a list");
            legs.push(json!({ "child": { "node": 0 }, "parent": 1 }));
        });
        assert!(circle.contains("must lead to one root"), "{circle}");
        let idle = problem("legs", without(|leg| leg["parent"] != 1));
        assert!(idle.contains("node 1 must have 1..=64 children"), "{idle}");
        let twice = problem("places", |stream| stream["places"][1]["node"] = 0.into());
        assert!(twice.contains("a node has two places"), "{twice}");
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
        assert_eq!(whole.clone().with_secret(Some(&"f".repeat(64))).expect("its own"), whole);
        for file in [None, Some("short")] {
            let problem = bare.clone().with_secret(file).expect_err("no secret").to_string();
            assert!(problem.contains("`job.secret`"), "{problem}");
        }
    }

    #[test]
    fn lanes_may_be_as_wide_as_the_elements() {
        let fixed = Plan::from_json(TREE).expect("valid");
        let mut auto = fixed.clone();
        auto.job.lanes = Lanes::Auto;
        auto.validate().expect("servers add lanes of any width");
        assert_ne!(auto.digest(), fixed.digest());
        assert_eq!([2, 4].map(|bytes| auto.job.lanes.of_elements(bytes).width()), [2, 4]);
        assert_eq!([2, 4].map(|bytes| fixed.job.lanes.of_elements(bytes).width()), [4, 4]);
        auto.job.exponents = Exponents::Expected;
        auto.validate().expect("wide elements have bits to spare");
        (auto.job.exponents, auto.job.codec) = (Exponents::Agreed, "fixed:1e8".to_owned());
        let problem = auto.validate().expect_err("one factor for two widths").to_string();
        assert!(problem.contains("`job.lanes`: `auto` needs the codec `block`"), "{problem}");
    }

    #[test]
    fn whether_sums_are_sealed_is_agreed_on() {
        let open = Plan::from_json(TREE).expect("valid");
        let mut sealed = open.clone();
        sealed.job.sealed = true;
        sealed.validate().expect("any tree of servers may add what is sealed");
        assert_ne!(sealed.digest(), open.digest());
        assert_eq!(
            sealed.values_len() + 32,
            open.values_len(),
            "a block of each packet is its seal"
        );
        for (lanes, most) in [(Lanes::Int32Le, 65_536), (Lanes::Int16Le, 256)] {
            sealed.job.lanes = lanes;
            sealed.workers = vec![sealed.workers[0].clone(); most];
            sealed.validate_seals().expect("each piece fits a lane");
            sealed.workers.push(sealed.workers[0].clone());
            let problem = sealed.validate_seals().expect_err("too many pieces").to_string();
            assert!(
                problem.contains(&format!("`job.sealed`: has at most {most} workers")),
                "{problem}"
            );
        }
    }

    #[test]
    fn a_node_holds_its_keys_alone_and_no_other_nodes() {
        let whole = Plan::from_json(TREE).expect("valid");
        let secret = whole.job.secret.clone().expect("it has one");
        let held = whole.clone().held_by(NodeId(1)).expect("its node");
        assert!(whole.has_secret() && !held.has_secret());
        assert!(!serde_json::to_string(&held).expect("a plan").contains(&secret));
        assert_eq!((held.digest(), held.job_key(7)), (whole.digest(), whole.job_key(7)));
        assert_eq!(held.clone().held_by(NodeId(1)).expect("held already"), held);
        let problem = held.held_by(NodeId(0)).expect_err("another's").to_string();
        assert!(problem.contains("keys of node 1, and this is node 0"), "{problem}");
    }

    #[test]
    fn unknown_fields_are_refused() {
        let plan = TREE.replacen("\"planner\"", "\"plannner\"", 1);
        assert!(matches!(Plan::from_json(&plan), Err(PlanError::Json(_))));
    }
}
