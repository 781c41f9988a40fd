//! Plans with streams of parts and of copies: what is read, and what is refused by name.

use serde_json::{Value, json};
use wiresum_plan::{Plan, PlanError, Role};

/// The example, a star of two workers, with these streams besides.
fn plan() -> Value {
    let text = include_str!("../../../spec/example-plan.json");
    let mut plan: Value = serde_json::from_str(text).expect("JSON");
    let streams = plan["streams"].as_array_mut().expect("a list");
    let roles = ["parts", "copies", "acknowledgements", "acknowledgements"];
    for (id, role) in (2..).zip(roles) {
        let policy = if role == "acknowledgements" { "pool" } else { "cache" };
        let mut stream = streams[0].clone();
        for (field, value) in [("id", json!(id)), ("role", json!(role)), ("policy", json!(policy))]
        {
            stream[field] = value;
        }
        streams.push(stream);
    }
    plan
}

/// The field that is named after one change.
fn complaint(pointer: &str, value: Value) -> String {
    let mut plan = plan();
    *plan.pointer_mut(pointer).expect("a field of the plan") = value;
    match Plan::from_json(&plan.to_string()) {
        Err(PlanError::Field { field, .. }) => field,
        other => panic!("{pointer}: {other:?}"),
    }
}

#[test]
fn barriers_belong_to_parts_and_copies_in_order() {
    let plan = Plan::from_json(&plan().to_string()).expect("a valid plan");
    let [parts, copies] = plan.exchanged().expect("the streams");
    assert_eq!([parts.values.role, copies.values.role], [Role::Parts, Role::Copies]);
    assert_eq!([parts.barriers.id, copies.barriers.id], [4, 5]);
    assert_eq!(parts.values.most_begun(), 2 * parts.values.slots());
    assert_eq!(parts.barriers.most_begun(), parts.barriers.slots());
}

#[test]
fn a_plan_without_them_has_none() {
    let text = include_str!("../../../spec/example-plan.json");
    assert!(Plan::from_json(text).expect("a valid plan").exchanged().is_none());
}

#[test]
fn what_cannot_be_exchanged_is_refused_by_name() {
    let legs = json!([
        { "child": { "worker": 1 }, "parent": 0 },
        { "child": { "worker": 0 }, "parent": 0 }
    ]);
    for (pointer, value, field) in [
        ("/streams/2/role", json!("copies"), "streams"),
        ("/streams/5/role", json!("copies"), "streams"),
        ("/streams/2/share", json!(0.5), "streams[2].share"),
        ("/streams/3/policy", json!("pool"), "streams[3].policy"),
        ("/streams/4/policy", json!("cache"), "streams[4].policy"),
        ("/streams/3/legs", legs, "streams[3].legs"),
        ("/streams/2/places/0/slots", json!(16), "streams[2].window"),
        ("/job/codec", json!("fixed:1e8"), "job.codec"),
    ] {
        assert_eq!(complaint(pointer, value), field, "{pointer}");
    }
    let mut small = plan();
    small["streams"][2]["window"] = json!(16);
    small["streams"][2]["places"][0]["slots"] = json!(16);
    let refused = Plan::from_json(&small.to_string()).expect_err("barriers need 32 slots");
    assert!(refused.to_string().contains("at least 32"), "{refused}");
}

#[test]
fn trees_are_refused_by_name() {
    let text = include_str!("../../protocol/tests/plans/tree.json");
    let mut tree: Value = serde_json::from_str(text).expect("JSON");
    let streams = tree["streams"].as_array_mut().expect("a list");
    for (id, role) in (10..).zip(["parts", "copies", "acknowledgements", "acknowledgements"]) {
        let mut stream = streams[0].clone();
        let policy = if role == "acknowledgements" { "pool" } else { "cache" };
        (stream["id"], stream["role"], stream["policy"]) = (json!(id), json!(role), json!(policy));
        streams.push(stream);
    }
    let refused = Plan::from_json(&tree.to_string()).expect_err("exchanges are made on stars");
    assert!(refused.to_string().contains("stars"), "{refused}");
}
