//! Reads `wiresum-plan/1`, in which a stream was a tree, and beside it a stream of a fabric.
//!
//! Each edge of a tree becomes a leg. Of a fabric, each worker's way is cut where the stream is summed, and the tree
//! beside it is left behind: it told people what the ways say.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};
use wiresum_wire::Policy;

use crate::fabric::{DEFAULT_TIMEOUT_S, Fabric, FabricLink, Memory, site};
use crate::validate::require;
use crate::ways::Site;
use crate::{Child, FORMAT as PRESENT, Plan, PlanError, PlanStream, Role, StreamLeg, StreamPlace};

/// The value of `format` in such plans.
pub(crate) const FORMAT: &str = "wiresum-plan/1";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SubModel {
    id: u16,
    name: String,
    role: Role,
    share: f64,
    policy: Policy,
    slots: u32,
    window: u32,
    tree: Vec<TreeNode>,
    #[serde(default)]
    ways: Option<Vec<TreeWay>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TreeNode {
    node: u16,
    #[serde(default)]
    parent: Option<u16>,
    children: Vec<Child>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TreeWay {
    child: Child,
    links: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OldFabric {
    policy: Policy,
    #[serde(default)]
    timeout_s: Option<f64>,
    links: Vec<FabricLink>,
    memory: Vec<Memory>,
    streams: Vec<FabricStream>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FabricStream {
    sub_model: u16,
    #[serde(default)]
    priority: u8,
    places: Vec<StreamPlace>,
    ways: Vec<FabricWay>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FabricWay {
    worker: u32,
    legs: Vec<FabricLeg>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FabricLeg {
    #[serde(default)]
    node: Option<u16>,
    links: Vec<u16>,
}

/// The same plan in the present format; its values are not checked.
///
/// # Errors
/// It is no such plan, or says what the present format cannot: the error names the field.
pub(crate) fn converted(text: &str) -> Result<Plan, PlanError> {
    let mut document: Map<String, Value> = serde_json::from_str(text)?;
    let mut taken = |field: &str| document.remove(field).unwrap_or_default();
    let sub_models: Vec<SubModel> = serde_json::from_value(taken("sub_models"))?;
    let fabric: Option<OldFabric> = serde_json::from_value(taken("fabric"))?;
    document.insert("format".into(), PRESENT.into());
    document.insert("streams".into(), Value::Array(Vec::new()));
    let mut plan: Plan = serde_json::from_value(Value::Object(document))?;
    let Some(fabric) = fabric else {
        plan.streams = sub_models.into_iter().map(of_tree).collect::<Result<_, _>>()?;
        return Ok(plan);
    };
    let ids = sub_models.iter().map(|sub_model| sub_model.id);
    let is_all = ids.eq(fabric.streams.iter().map(|stream| stream.sub_model));
    require(is_all, "fabric.streams", "must be one for each sub-model, in their order")?;
    let pairs = sub_models.into_iter().zip(&fabric.streams);
    plan.streams = pairs.map(|(s, stream)| fabric.stream(s, stream)).collect::<Result<_, _>>()?;
    let OldFabric { timeout_s, links, memory, .. } = fabric;
    plan.fabric = Some(Fabric { timeout_s: timeout_s.unwrap_or(DEFAULT_TIMEOUT_S), links, memory });
    Ok(plan)
}

/// A tree's edges as legs, in the order of nodes and of their children.
fn of_tree(old: SubModel) -> Result<PlanStream, PlanError> {
    for node in &old.tree {
        let lists = |t: &TreeNode| t.children.contains(&Child::Node(node.node));
        let above = old.tree.iter().find(|t| lists(t)).map(|t| t.node);
        let problem =
            format!("node {} names another parent than the node that lists it", node.node);
        require(above == node.parent, &format!("sub_models, {}: tree", old.name), &problem)?;
    }
    let mut named: Vec<TreeWay> = old.ways.unwrap_or_default();
    let mut legs = Vec::new();
    for TreeNode { node, children, .. } in &old.tree {
        for child in children {
            let way = named.iter().position(|way| way.child == *child);
            let links = way.map_or_else(Vec::new, |index| named.swap_remove(index).links);
            legs.push(StreamLeg { child: *child, parent: *node, links });
        }
    }
    let problem = "one is of nobody that has a parent in the tree, or there twice: remove it";
    require(named.is_empty(), &format!("sub_models, {}: ways", old.name), problem)?;
    let place = |t: &TreeNode| StreamPlace { node: t.node, base: 0, slots: Some(old.slots) };
    Ok(PlanStream {
        id: old.id,
        name: old.name,
        role: old.role,
        share: old.share,
        policy: old.policy,
        window: old.window,
        priority: 0,
        places: old.tree.iter().map(place).collect(),
        legs,
    })
}

impl OldFabric {
    fn stream(&self, old: SubModel, stream: &FabricStream) -> Result<PlanStream, PlanError> {
        let mut places = stream.places.clone();
        let mut legs: BTreeMap<Site, StreamLeg> = BTreeMap::new();
        for way in &stream.ways {
            for leg in self.cut(way, &places, &old.name)? {
                let problem = format!("the sums of {:?} take two ways: plan anew", leg.child);
                let first = legs.entry(site(leg.child)).or_insert_with(|| leg.clone());
                require(*first == leg, &format!("fabric.streams, {}: ways", old.name), &problem)?;
            }
        }
        let has_place = |node: u16| stream.places.iter().any(|place| place.node == node);
        let root = legs.values().map(|leg| leg.parent).find(|to| !has_place(*to));
        places.extend(root.map(|node| StreamPlace { node, base: 0, slots: None }));
        Ok(PlanStream {
            id: old.id,
            name: old.name,
            role: old.role,
            share: old.share,
            policy: self.policy,
            window: old.window,
            priority: stream.priority,
            places,
            legs: legs.into_values().collect(),
        })
    }

    /// A worker's way as legs: it ends one where its packets are addressed to, or, if they have no address, wherever
    /// the stream has a place, and at the last link.
    fn cut(
        &self,
        way: &FabricWay,
        places: &[StreamPlace],
        name: &str,
    ) -> Result<Vec<StreamLeg>, PlanError> {
        let field = format!("fabric.streams, {name}: ways");
        let (mut from, mut at) = (Child::Worker(way.worker), Child::Worker(way.worker));
        let (mut legs, mut links) = (Vec::new(), Vec::new());
        for old in &way.legs {
            for (index, link) in old.links.iter().enumerate() {
                let link = self.links.get(usize::from(*link));
                let ends = link.map(|link| [link.ends[0].at, link.ends[1].at]);
                let next = ends.filter(|ends| ends.contains(&at));
                let problem = "one names a link that does not begin where it has come";
                require(next.is_some(), &field, problem)?;
                let (Some([one, other]), Some(link)) = (next, link) else { continue };
                at = if one == at { other } else { one };
                links.push(link.id.clone());
                let is_last = index + 1 == old.links.len();
                let is_placed = |to| places.iter().any(|place| place.node == to);
                if let Child::Node(to) = at
                    && (is_last || old.node.is_none() && is_placed(to))
                {
                    legs.push(StreamLeg {
                        child: from,
                        parent: to,
                        links: std::mem::take(&mut links),
                    });
                    from = at;
                }
            }
        }
        require(links.is_empty(), &field, "one ends at a worker: end it at a node")?;
        Ok(legs)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wiresum_wire::NodeId;

    use super::*;
    use crate::ways::ANY_NODE;

    const TREES: &str = include_str!("../tests/plans/version1.json");

    /// Workers 0 and 1 at switch 0, which hangs on switch 1, and that on server 2. Links lead from one to the next.
    fn fabric(policy: &str, places: &[u16], legs: &Value) -> Value {
        let ends = [
            [json!({ "worker": 0 }), json!({ "node": 0 })],
            [json!({ "worker": 1 }), json!({ "node": 0 })],
            [json!({ "node": 0 }), json!({ "node": 1 })],
            [json!({ "node": 1 }), json!({ "node": 2 })],
            [json!({ "node": 0 }), json!({ "node": 2 })],
        ];
        let end = |at: &Value| json!({ "at": at, "address": "10.0.0.1:1" });
        let links: Vec<_> = (ends.iter().enumerate())
            .map(|(i, ends)| json!({ "id": format!("l{i}"), "ends": ends.each_ref().map(end) }))
            .collect();
        let children = json!([{ "worker": 0 }, { "worker": 1 }]);
        let sub_model = |id: u16, role: &str| {
            json!({ "id": id, "name": role, "role": role, "share": f64::from(id), "policy": "pool", "slots": 8,
                    "window": 4, "tree": [{ "node": 2, "children": children }] })
        };
        let places: Vec<_> =
            places.iter().map(|node| json!({ "node": node, "base": 0, "slots": 4 })).collect();
        let ways: Vec<_> =
            (0..2).map(|rank| json!({ "worker": rank, "legs": legs[rank] })).collect();
        let straight: Vec<_> = (0..2)
            .map(|rank| json!({ "worker": rank, "legs": [{ "node": legs[rank][0].get("node").map(|_| 2), "links": [rank, 2, 3] }] }))
            .collect();
        json!({
            "format": FORMAT,
            "job": { "id": 1, "values_per_packet": 64, "codec": "fixed:1" },
            "nodes": (0..3).map(|id| json!({ "id": id, "name": "n", "address": "10.0.0.1:1" })).collect::<Vec<_>>(),
            "workers": (0..2).map(|rank| json!({ "rank": rank, "name": "w" })).collect::<Vec<_>>(),
            "sub_models": [sub_model(0, "exponents"), sub_model(1, "values")],
            "fabric": { "policy": policy, "links": links,
                "memory": [{ "node": 0, "slots": 4 }, { "node": 1, "slots": 4 }],
                "streams": [{ "sub_model": 0, "places": [], "ways": straight },
                            { "sub_model": 1, "places": places, "ways": ways }] },
        })
    }

    /// Where the legs of the values lead, with their links.
    fn legs(plan: &Plan) -> Vec<(Child, u16, String)> {
        let legs = plan.streams[1].legs.iter();
        legs.map(|leg| (leg.child, leg.parent, leg.links.join(" "))).collect()
    }

    #[test]
    fn a_plan_of_trees_is_the_same_in_the_present_format() {
        let present = include_str!("../../protocol/tests/plans/tree.json");
        let present = Plan::from_json(present).expect("valid");
        assert_eq!(Plan::from_json(TREES).expect("it can be converted"), present);
    }

    #[test]
    fn ways_without_an_address_are_cut_where_they_are_summed() {
        let legs_of = json!([[{ "links": [0, 2, 3] }], [{ "links": [1, 2, 3] }]]);
        let old = fabric("hash", &[0], &legs_of).to_string();
        let plan = Plan::from_json(&old).expect("it can be converted");
        let expected = [
            (Child::Worker(0), 0, "l0".to_owned()),
            (Child::Worker(1), 0, "l1".to_owned()),
            (Child::Node(0), 2, "l2 l3".to_owned()),
        ];
        assert_eq!(legs(&plan), expected);
        let way = &plan.ways()[1].of[0];
        assert_eq!((way.first_address(), way.hops().count()), (ANY_NODE, 3));
        assert_eq!(plan.streams[1].places.last().map(|p| (p.node, p.slots)), Some((2, None)));
        let duties = plan.site(NodeId(0)).expect("valid");
        assert_eq!((duties.places.len(), duties.places[0].members.0), (1, 0b11));
    }

    #[test]
    fn ways_with_addresses_are_cut_there() {
        let legs_of = json!([
            [{ "node": 1, "links": [0, 2] }, { "node": 2, "links": [3] }],
            [{ "node": 2, "links": [1, 2, 3] }],
        ]);
        let old = fabric("exclusive", &[1], &legs_of).to_string();
        let plan = Plan::from_json(&old).expect("it can be converted");
        let expected = [
            (Child::Worker(0), 1, "l0 l2".to_owned()),
            (Child::Worker(1), 2, "l1 l2 l3".to_owned()),
            (Child::Node(1), 2, "l3".to_owned()),
        ];
        assert_eq!(legs(&plan), expected);
    }

    #[test]
    fn sums_over_two_ways_cannot_be_converted() {
        let legs_of = json!([[{ "links": [0, 2, 3] }], [{ "links": [1, 4] }]]);
        let old = fabric("hash", &[0], &legs_of).to_string();
        let error = Plan::from_json(&old).expect_err("a sum has one way now").to_string();
        assert!(error.contains("two ways: plan anew"), "{error}");
    }

    #[test]
    fn what_was_wrong_is_wrong() {
        for (pointer, value, words) in [
            ("/sub_models/0/tree/1/parent", Value::Null, "names another parent"),
            ("/sub_models/0/tree/1/node", json!(5), "names another parent"),
            ("/sub_models/0/tree/1/children", json!([]), "must have 1..=64 children"),
            ("/sub_models/0/slots", json!(12), "power of two"),
            ("/sub_models/0/id", json!("a"), "cannot be read"),
        ] {
            let mut plan: Value = serde_json::from_str(TREES).expect("JSON");
            *plan.pointer_mut(pointer).expect("a field of the plan") = value;
            let error = Plan::from_json(&plan.to_string()).expect_err(pointer).to_string();
            assert!(error.contains(words), "{pointer}: {error}");
        }
    }
}
