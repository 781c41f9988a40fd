//! Plans with streams of parts and of copies: what is read, and what is refused by name.

use serde_json::{Value, json};
use wiresum_plan::{Plan, PlanError, Role};

/// The example, a star of two workers, with these streams besides, as plans had them before several could share.
fn plan() -> Value {
    sharing(&[0.0])
}

/// The same with several sets of these streams, each with its share.
fn sharing(shares: &[f64]) -> Value {
    let text = include_str!("../../../spec/example-plan.json");
    let mut plan: Value = serde_json::from_str(text).expect("JSON");
    let streams = plan["streams"].as_array_mut().expect("a list");
    let roles = ["parts", "copies", "acknowledgements", "acknowledgements"];
    let sets = roles.into_iter().flat_map(|role| shares.iter().map(move |share| (role, *share)));
    for (id, (role, share)) in (2..).zip(sets) {
        let is_barrier = role == "acknowledgements";
        let (policy, share) = if is_barrier { ("pool", 0.0) } else { ("cache", share) };
        let mut stream = streams[0].clone();
        (stream["id"], stream["role"]) = (json!(id), json!(role));
        (stream["policy"], stream["share"]) = (json!(policy), json!(share));
        streams.push(stream);
    }
    plan
}

/// The field that is named after one change.
fn complaint(pointer: &str, value: Value) -> String {
    complaint_of(plan(), pointer, value)
}

fn complaint_of(mut plan: Value, pointer: &str, value: Value) -> String {
    *plan.pointer_mut(pointer).expect("a field of the plan") = value;
    match Plan::from_json(&plan.to_string()) {
        Err(PlanError::Field { field, .. }) => field,
        other => panic!("{pointer}: {other:?}"),
    }
}

#[test]
fn barriers_belong_to_parts_and_copies_in_order() {
    let plan = Plan::from_json(&plan().to_string()).expect("a valid plan");
    let [parts, copies] = plan.exchanged().collect::<Vec<_>>()[..] else { panic!("no pair") };
    assert_eq!([parts.values.role, copies.values.role], [Role::Parts, Role::Copies]);
    assert_eq!([parts.barriers.id, copies.barriers.id], [4, 5]);
    assert_eq!(parts.values.most_begun(), 2 * parts.values.slots());
    assert_eq!(parts.barriers.most_begun(), parts.barriers.slots());
}

#[test]
fn a_plan_without_them_has_none() {
    let text = include_str!("../../../spec/example-plan.json");
    let plan = Plan::from_json(text).expect("a valid plan");
    assert!(!plan.has_exchanges() && plan.exchanged().next().is_none());
}

#[test]
fn several_share_what_is_exchanged() {
    let plan = Plan::from_json(&sharing(&[0.2, 0.3, 0.5]).to_string()).expect("a valid plan");
    let ids: Vec<_> = plan.exchanged().map(|one| (one.values.id, one.barriers.id)).collect();
    assert_eq!(ids, [(2, 8), (3, 9), (4, 10), (5, 11), (6, 12), (7, 13)]);
    let whole = Plan::from_json(&sharing(&[1.0]).to_string());
    assert_eq!(whole.expect("one alone may say that it carries all").exchanged().count(), 2);
    for (pointer, value, field) in [
        ("/streams/2/share", json!(0.3), "streams"),
        ("/streams/5/share", json!(0.1), "streams"),
        ("/streams/8/share", json!(0.2), "streams[8].share"),
        ("/streams/7/role", json!("parts"), "streams"),
    ] {
        assert_eq!(complaint_of(sharing(&[0.2, 0.3, 0.5]), pointer, value), field, "{pointer}");
    }
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
        ("/streams/2/share", json!(0.5), "streams"),
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
