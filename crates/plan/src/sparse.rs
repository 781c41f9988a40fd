//! The sparse part of a plan: tables of rows, the servers that keep them, and the switches that sum hot rows on the way.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use wiresum_wire::{HEADER_LEN, MAX_CONTRIBUTORS, MAX_ROW_VALUES, ROW_HEADER_LEN, RowKind};

use crate::validate::{all_distinct, require};
use crate::{Child, Plan, PlanError, PlanStream, Policy, Role, StreamPlace};

/// Most rows of a table: 2⁴⁰ rows of 16 float32 are 64 TB.
pub const MAX_TABLE_ROWS: u64 = 1 << 40;
/// Most servers of tables and switches of hot rows: with 64 workers, their numbers are below 256.
const MAX_ROW_HOSTS: usize = u8::MAX as usize - MAX_CONTRIBUTORS;

/// The sparse part of a plan; `spec/plan.md` describes every field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanSparse {
    /// Who decided where rows are summed, and why, for people.
    #[serde(default)]
    pub planner: String,
    /// The trace whose popularity was counted, for those who predict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// The tables, numbered in this order.
    pub tables: Vec<PlanTable>,
    /// Servers of tables, each of which keeps an equal share of all rows.
    pub servers: Vec<TableServer>,
    /// Where hot rows are summed. With a stream for each switch, the row at position p is summed by the switch of number p
    /// modulo that of switches; with one stream, the switches are its places, a tree with the root first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub switches: Vec<RowSwitch>,
    /// The hot map; absent where no row is hot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hot: Option<PlanHot>,
    /// Streams of hot rows, one for each switch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<PlanStream>,
    /// How hot rows follow popularity while the job runs; absent where they stay as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracking: Option<PlanTracking>,
    /// What rows begin with.
    #[serde(default)]
    pub initial: RowInitial,
    /// Seed of what rows begin with.
    #[serde(default)]
    pub seed: u64,
    /// Whether a round's gradient is the workers' sum divided by their number.
    #[serde(default)]
    pub is_averaged: bool,
    /// Largest datagram.
    #[serde(default = "packet_bytes")]
    pub packet_bytes: usize,
    /// Bytes that the rows of a server may take; what a server allows where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
}

/// A datagram of an Ethernet frame, below IPv4 and UDP.
fn packet_bytes() -> usize {
    1472
}

/// A table, as in `wiresum-tables/1`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanTable {
    /// Its name.
    pub name: String,
    /// Rows that there are, or that servers keep at most.
    pub rows: u64,
    /// Values of a row.
    pub dimension: u16,
    /// Type of a value.
    #[serde(rename = "type", default)]
    pub value: RowValue,
    /// What names a row.
    #[serde(default)]
    pub ids: Ids,
    /// Features that look rows up here.
    pub features: Vec<String>,
    /// What a gradient does to a row.
    pub optimizer: RowOptimizer,
}

/// Types of a row's values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum RowValue {
    #[default]
    Float32,
    Float16,
    Bfloat16,
}

/// What names a row of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ids {
    /// Numbers from 0 to the number of rows less one.
    #[default]
    Range,
    /// Any 64-bit numbers; rows appear on first use.
    Hashed,
}

/// An optimizer by name. What it does is known to `crates/sparse` alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowOptimizer {
    /// `sgd`, `adagrad`, `row-wise-adagrad`, `sparse-adam` or `ftrl`.
    pub name: OptimizerName,
    /// Learning rate.
    pub lr: f64,
}

/// Names of optimizers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)]
pub enum OptimizerName {
    Sgd,
    Adagrad,
    RowWiseAdagrad,
    SparseAdam,
    Ftrl,
}

/// What rows begin with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RowInitial {
    /// Zeros.
    #[default]
    Zeros,
    /// Numbers from minus this bound up to it.
    Uniform(f64),
    /// Normal, with this standard deviation.
    Normal(f64),
}

/// A way in which hot rows follow popularity. What it does, and which of its numbers can be, is known to `crates/sparse`
/// alone, which reads the job's file that follows from a plan.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case", deny_unknown_fields)]
#[allow(missing_docs)]
pub enum PlanTracking {
    /// Counts that decay, and a choice in every period, in which hot rows have an advantage.
    Decaying { period: u32, per_round: f64, reach: f64 },
    /// A choice after this round.
    Once { after: u32 },
    /// The same by a share of the gradients.
    Sampling { rate: f64, after: u32 },
}

/// A server of tables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableServer {
    /// Its name in the topology.
    pub name: String,
    /// Where it receives.
    pub address: SocketAddr,
}

/// A node that sums hot rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowSwitch {
    /// One of the plan's nodes.
    pub node: u16,
    /// Where it receives rows.
    pub address: SocketAddr,
}

/// The hot map, which is a file of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanHot {
    /// The file, beside the plan's.
    pub file: String,
    /// The map's digest, in 16 hexadecimal digits.
    pub digest: String,
    /// The map's version.
    pub version: u32,
    /// Values of each hot row.
    pub dim: u16,
    /// Positions that there are.
    pub positions: u32,
    /// Rows of tier A, the most popular ones.
    pub replicated: u32,
    /// Rows of tier B, the next.
    pub summed: u32,
}

impl PlanSparse {
    /// What participants must agree on: all but addresses, the file's name, and what is for people.
    pub(crate) fn agreed(&self) -> serde_json::Value {
        let servers: Vec<&str> = self.servers.iter().map(|one| one.name.as_str()).collect();
        let switches: Vec<u16> = self.switches.iter().map(|one| one.node).collect();
        let hot = self.hot.as_ref().map(|hot| (&hot.digest, hot.version, hot.dim, hot.positions));
        let begin = (self.initial, self.seed, self.is_averaged, self.packet_bytes);
        let agreed = (&self.tables, servers, switches, hot, &self.streams, begin);
        let mut agreed = serde_json::to_value(agreed).expect("a plan serialises");
        // Plans without it have the digest that they had before it could be said.
        if let (Some(tracking), Some(all)) = (&self.tracking, agreed.as_array_mut()) {
            all.push(serde_json::to_value(tracking).expect("a plan serialises"));
        }
        agreed
    }

    pub(crate) fn validate(&self, plan: &Plan) -> Result<(), PlanError> {
        let problem = "rows travel over networks that route: leave one of both out";
        require(plan.fabric.is_none(), "sparse", problem)?;
        let most = format!("{MAX_CONTRIBUTORS} workers at most meet in a sum of rows");
        require(plan.workers.len() <= MAX_CONTRIBUTORS, "sparse", &most)?;
        self.validate_tables()?;
        self.validate_hosts(plan)?;
        self.validate_hot(plan)
    }

    fn validate_tables(&self) -> Result<(), PlanError> {
        require(!self.tables.is_empty(), "sparse.tables", "are none: name at least one")?;
        let apart = all_distinct(self.tables.iter().map(|table| &table.name));
        require(apart, "sparse.tables", "two have the same name: give each its own")?;
        let apart = all_distinct(self.tables.iter().flat_map(|table| &table.features));
        require(apart, "sparse.tables", "two have the same feature: leave it to one")?;
        for (index, table) in self.tables.iter().enumerate() {
            let field = |name: &str| format!("sparse.tables[{index}].{name}");
            let is_possible = (1..=MAX_TABLE_ROWS).contains(&table.rows);
            require(is_possible, &field("rows"), "must be 1 to 2^40")?;
            let is_possible = (1..=MAX_ROW_VALUES).contains(&usize::from(table.dimension));
            require(is_possible, &field("dimension"), &format!("must be 1..={MAX_ROW_VALUES}"))?;
            let is_possible = table.optimizer.lr.is_finite() && table.optimizer.lr > 0.0;
            require(is_possible, &field("optimizer.lr"), "must be above 0")?;
            let needed = HEADER_LEN + ROW_HEADER_LEN;
            let needed = needed + RowKind::RowSums.payload_len(1, table.dimension.into());
            let problem = format!("is too small: a sum of table {} takes {needed}", table.name);
            require(needed <= self.packet_bytes, "sparse.packet_bytes", &problem)?;
        }
        Ok(())
    }

    fn validate_hosts(&self, plan: &Plan) -> Result<(), PlanError> {
        require(!self.servers.is_empty(), "sparse.servers", "are none: rows live at one at least")?;
        let count = self.servers.len() + self.switches.len();
        let problem = format!("and switches are {count}: {MAX_ROW_HOSTS} at most have numbers");
        require(count <= MAX_ROW_HOSTS, "sparse.servers", &problem)?;
        let addresses = self.servers.iter().map(|server| server.address);
        let apart = all_distinct(addresses.chain(self.switches.iter().map(|one| one.address)));
        require(apart, "sparse.servers", "and switches need an address each: two have the same")?;
        let known = |switch: &RowSwitch| plan.nodes.iter().any(|node| node.id == switch.node);
        require(self.switches.iter().all(known), "sparse.switches", "one is not in `nodes`")?;
        let apart = all_distinct(self.switches.iter().map(|switch| switch.node));
        require(apart, "sparse.switches", "a node is named twice")
    }

    fn validate_hot(&self, plan: &Plan) -> Result<(), PlanError> {
        let positions = self.hot.as_ref().map_or(0, |hot| hot.positions);
        let problem = "hot rows need a switch that sums them, and cold rows none";
        require((positions > 0) != self.switches.is_empty(), "sparse.switches", problem)?;
        let can_follow = self.tracking.is_none() || positions > 0;
        let problem = "needs hot rows that follow popularity: leave it out, or give a hot map";
        require(can_follow, "sparse.tracking", problem)?;
        let each = self.streams.len() == self.switches.len() || self.is_tree();
        let problem =
            "must be one for each switch, in their order, or one that has a place at each";
        require(each, "sparse.streams", problem)?;
        let ids = plan.streams.iter().chain(&self.streams).map(|stream| stream.id);
        require(all_distinct(ids), "sparse.streams", "have an id of another stream")?;
        for (number, stream) in self.streams.iter().enumerate() {
            self.validate_stream(plan, number, stream, positions)?;
        }
        self.hot.as_ref().map_or(Ok(()), PlanHot::validate)
    }

    fn validate_stream(
        &self,
        plan: &Plan,
        number: usize,
        stream: &PlanStream,
        positions: u32,
    ) -> Result<(), PlanError> {
        let field = format!("sparse.streams[{number}]");
        plan.validate_stream(stream, &field)?;
        require(stream.role == Role::Hot, &format!("{field}.role"), "must be `hot`")?;
        let problem = "must be `exclusive`: each position has a slot of its own";
        require(stream.policy == Policy::Exclusive, &format!("{field}.policy"), problem)?;
        let streams = self.streams.len() as u32;
        let slots = positions.saturating_sub(number as u32).div_ceil(streams);
        let switches =
            if self.is_tree() { &self.switches } else { &self.switches[number..=number] };
        let is_switch = |(place, switch): (&StreamPlace, &RowSwitch)| {
            place.node == switch.node && place.base == 0 && place.slots == Some(slots)
        };
        let are_switches = stream.places.len() == switches.len()
            && stream.places.iter().zip(switches).all(is_switch);
        let problem =
            format!("must be its switches', in their order, with {slots} slots and no base");
        require(are_switches, &format!("{field}.places"), &problem)?;
        let is_before = |(number, place): (usize, &StreamPlace)| {
            let above = stream.leg(Child::Node(place.node)).map(|leg| leg.parent);
            let above =
                above.and_then(|node| stream.places.iter().position(|one| one.node == node));
            above.is_none_or(|above| above < number) && above.is_some() == (number > 0)
        };
        let problem = "must have the root first, and each place behind the one above it";
        let is_ordered = stream.places.iter().enumerate().all(is_before);
        require(is_ordered, &format!("{field}.places"), problem)
    }

    /// Whether sums of some workers' rows are summed on at another switch: there is one stream, with a place at each.
    fn is_tree(&self) -> bool {
        self.streams.len() == 1 && self.switches.len() > 1
    }
}

impl PlanHot {
    fn validate(&self) -> Result<(), PlanError> {
        let is_hex = self.digest.len() == 16 && self.digest.bytes().all(|b| b.is_ascii_hexdigit());
        require(is_hex, "sparse.hot.digest", "must be 16 hexadecimal digits")?;
        let rows = u64::from(self.replicated) + u64::from(self.summed);
        let fits = (1..=u64::from(self.positions)).contains(&rows);
        require(fits, "sparse.hot", "must have a row at least, and a position for each")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::{Plan, PlanError};

    const TREE: &str = include_str!("../../protocol/tests/plans/tree.json");

    /// A plan of trees with two tables, two servers, and hot rows at one of its nodes.
    fn document() -> Value {
        let mut plan: Value = serde_json::from_str(TREE).expect("JSON");
        let legs: Vec<Value> = (0..plan["workers"].as_array().expect("a list").len())
            .map(|rank| json!({ "child": { "worker": rank }, "parent": 0 }))
            .collect();
        let table = |name: &str| {
            json!({ "name": name, "rows": 1000, "dimension": 16, "features": [name],
                    "optimizer": { "name": "sgd", "lr": 0.1 } })
        };
        plan["sparse"] = json!({
            "tables": [table("users"), table("items")],
            "servers": [{ "name": "s0", "address": "10.0.0.9:5748" }, { "name": "s1", "address": "10.0.0.10:5748" }],
            "switches": [{ "node": 0, "address": "10.0.0.1:5748" }],
            "hot": { "file": "hot.json", "digest": "0123456789abcdef", "version": 1, "dim": 16, "positions": 30,
                     "replicated": 10, "summed": 20 },
            "streams": [{ "id": 9, "name": "hot", "role": "hot", "share": 1.0, "policy": "exclusive", "window": 30,
                          "places": [{ "node": 0, "slots": 30 }], "legs": legs }],
        });
        plan
    }

    fn read(plan: &Value) -> Result<Plan, PlanError> {
        Plan::from_json(&plan.to_string())
    }

    #[test]
    fn rows_are_not_sealed() {
        let mut plan = document();
        plan["job"]["sealed"] = json!(true);
        let problem = read(&plan).expect_err("rows travel in the open").to_string();
        assert!(problem.contains("`job.sealed`: rows are not sealed"), "{problem}");
    }

    #[test]
    fn every_wrong_field_is_named() {
        read(&document()).expect("a valid plan");
        for (pointer, value, field) in [
            ("/tables", json!([]), "sparse.tables"),
            ("/tables/1/name", json!("users"), "sparse.tables"),
            ("/tables/1/features", json!(["users"]), "sparse.tables"),
            ("/tables/0/rows", json!(0), "sparse.tables[0].rows"),
            ("/tables/1/dimension", json!(257), "sparse.tables[1].dimension"),
            ("/tables/0/optimizer/lr", json!(0.0), "sparse.tables[0].optimizer.lr"),
            ("/servers", json!([]), "sparse.servers"),
            ("/servers/0/address", json!("10.0.0.1:5748"), "sparse.servers"),
            ("/switches/0/node", json!(77), "sparse.switches"),
            ("/switches", json!([]), "sparse.switches"),
            ("/hot", json!(null), "sparse.switches"),
            ("/hot/digest", json!("short"), "sparse.hot.digest"),
            ("/hot/summed", json!(21), "sparse.hot"),
            ("/streams", json!([]), "sparse.streams"),
            ("/streams/0/id", json!(0), "sparse.streams"),
            ("/streams/0/role", json!("values"), "sparse.streams[0].role"),
            ("/streams/0/policy", json!("pool"), "sparse.streams[0].policy"),
            ("/streams/0/places/0/slots", json!(29), "sparse.streams[0].places"),
            ("/streams/0/legs/0/parent", json!(1), "sparse.streams[0].legs"),
        ] {
            let mut plan = document();
            let sparse = plan.pointer_mut("/sparse").expect("a part");
            // A field that is absent by default can be set all the same.
            match sparse.pointer_mut(pointer) {
                Some(place) => *place = value,
                None => panic!("{pointer} is no field"),
            }
            let problem = read(&plan).expect_err(pointer).to_string();
            assert!(problem.contains(&format!("`{field}`")), "{pointer}: {problem}");
        }
    }

    /// Node 1 is beneath node 0, and worker 0 beneath node 1.
    #[test]
    fn switches_may_be_a_tree() {
        let mut plan = document();
        plan["sparse"]["switches"] = json!([
            { "node": 0, "address": "10.0.0.1:5748" }, { "node": 1, "address": "10.0.0.2:5748" }
        ]);
        let stream = &mut plan["sparse"]["streams"][0];
        stream["places"] = json!([{ "node": 0, "slots": 30 }, { "node": 1, "slots": 30 }]);
        stream["legs"][0]["parent"] = json!(1);
        let legs = stream["legs"].as_array_mut().expect("a list");
        legs.push(json!({ "child": { "node": 1 }, "parent": 0 }));
        read(&plan).expect("a tree");
        plan["sparse"]["streams"][0]["places"][1]["slots"] = json!(15);
        let problem = read(&plan).expect_err("half of the slots").to_string();
        assert!(problem.contains("in their order, with 30 slots and no base"), "{problem}");
        plan["sparse"]["streams"][0]["places"] =
            json!([{ "node": 1, "slots": 30 }, { "node": 0, "slots": 30 }]);
        let switches = plan["sparse"]["switches"].as_array_mut().expect("a list");
        switches.reverse();
        let problem = read(&plan).expect_err("the root is behind").to_string();
        assert!(problem.contains("must have the root first"), "{problem}");
    }

    #[test]
    fn rows_do_not_fit_every_packet() {
        let mut plan = document();
        plan["sparse"]["packet_bytes"] = json!(150);
        let problem = read(&plan).expect_err("a small packet").to_string();
        assert!(problem.contains("sparse.packet_bytes"), "{problem}");
    }

    #[test]
    fn rows_that_are_not_hot_follow_nothing() {
        let mut plan = document();
        let decaying =
            json!({ "name": "decaying", "period": 10, "per_round": 0.965, "reach": 1.3 });
        plan["sparse"]["tracking"] = decaying.clone();
        let read_back = read(&plan).expect("hot rows may follow");
        let sparse = serde_json::to_value(&read_back.sparse).expect("JSON");
        assert_eq!(sparse["tracking"], decaying);
        for field in ["hot", "switches", "streams"] {
            plan["sparse"].as_object_mut().expect("a part").remove(field);
        }
        let problem = read(&plan).expect_err("no hot rows").to_string();
        assert!(problem.contains("`sparse.tracking`: needs hot rows"), "{problem}");
    }

    #[test]
    fn hot_rows_are_no_stream_of_dense_values() {
        let mut plan = document();
        plan["streams"][1]["role"] = json!("hot");
        let problem = read(&plan).expect_err("a stream of another kind").to_string();
        assert!(problem.contains("belong into `sparse.streams`"), "{problem}");
    }

    #[test]
    fn the_digest_has_what_participants_agree_on() {
        let digest = |change: fn(&mut Value)| {
            let mut plan = document();
            change(&mut plan);
            read(&plan).expect("a valid plan").digest()
        };
        let own = digest(|_| ());
        for same in [
            digest(|plan| plan["sparse"]["servers"][0]["address"] = json!("10.0.0.77:1")),
            digest(|plan| plan["sparse"]["hot"]["file"] = json!("other.json")),
            digest(|plan| plan["sparse"]["planner"] = json!("tiers")),
            digest(|plan| plan["sparse"]["memory_bytes"] = json!(1 << 20)),
        ] {
            assert_eq!(same, own);
        }
        for other in [
            digest(|plan| plan["sparse"]["tables"][0]["rows"] = json!(999)),
            digest(|plan| plan["sparse"]["hot"]["digest"] = json!("0123456789abcdee")),
            digest(|plan| plan["sparse"]["seed"] = json!(7)),
            digest(|plan| plan["sparse"]["tracking"] = json!({ "name": "once", "after": 10 })),
            digest(|plan| {
                plan.as_object_mut().expect("a plan").remove("sparse");
            }),
        ] {
            assert_ne!(other, own);
        }
    }
}
