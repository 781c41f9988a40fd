//! The judge and the reader name what is wrong.

mod common;

use common::{flows, network, quick, star};
use serde_json::{Value, json};
use wiresum_schedule::{Instance, Interval, SCHEDULERS, judge, schedule};

/// Two jobs from u0 to u1 in turns, over a circuit that is dark for a tenth of the first slot.
fn right() -> (Instance, Vec<Interval>) {
    let mut instance = network(3, 1, 1);
    star(&mut instance, &[(0, 1)], 1, 0.9);
    star(&mut instance, &[(0, 1)], 1, 1.0);
    let intervals: Vec<Interval> = serde_json::from_value(json!([
        { "from_s": 0.0, "until_s": 1.0, "circuits": [{ "between": ["u0", "u1"], "circuits": 1 }],
          "rates": [{ "job": 1, "by": "server", "rate_bps": 7.2e9 }] },
        { "from_s": 1.0, "until_s": 2.0, "circuits": [{ "between": ["u1", "u0"], "circuits": 1 }],
          "rates": [{ "job": 2, "by": "server", "rate_bps": 8e9 }] },
    ]))
    .expect("intervals");
    (instance, intervals)
}

#[test]
fn what_keeps_the_rules_is_priced() {
    let (instance, intervals) = right();
    let cost = judge(&instance, &intervals).expect("it keeps the rules");
    assert_eq!((cost.setups, cost.reconfigurations), (1, 1));
    assert!((cost.completion_s - 2.0).abs() < 1e-9 && (cost.light_used - 1.0).abs() < 1e-9);
    assert!((cost.sojourn_s.mean - 1.5).abs() < 1e-9 && (cost.iteration_s.p99 - 1.0).abs() < 1e-9);
}

#[test]
fn every_broken_rule_is_named() {
    let pair =
        |between: [&str; 2], circuits: u32| json!([{ "between": between, "circuits": circuits }]);
    let rate = |job: u32, by: &str, bps: f64| json!({ "job": job, "by": by, "rate_bps": bps });
    let (first, second) = (rate(1, "server", 7.2e9), rate(2, "server", 8e9));
    for (pointer, value, words) in [
        ("/1/from_s", json!(0.5), "follow each other"),
        ("/1/until_s", json!(2.5), "slots of 1 s"),
        ("/0/circuits", pair(["u0", "u1"], 2), "u0 has 1 ports and 2 circuits"),
        ("/0/circuits", pair(["u0", "u0"], 1), "joins u0 to itself"),
        ("/0/circuits", pair(["u0", "u9"], 1), "no unit u9"),
        ("/0/circuits", pair(["u0", "u2"], 1), "between u0 and u1 and light for 0"),
        ("/1/circuits", json!([]), "light for 0"),
        ("/0/rates", json!([rate(1, "server", 8e9)]), "light for 900000000"),
        ("/0/rates", json!([rate(1, "server", 9e9)]), "faster than its own links"),
        ("/0/rates", json!([first, first]), "two rates"),
        ("/0/rates", json!([rate(9, "server", 1.0)]), "no job 9"),
        ("/0/rates", json!([rate(1, "server", 0.0)]), "without a rate"),
        ("/0/rates", json!([rate(1, "server", 7e9)]), "has sent"),
        ("/1/rates", json!([rate(1, "switch", 1.0), second]), "changes who sums it"),
        (
            "/0/rates",
            json!([rate(1, "switch", 7.2e9), rate(2, "switch", 1.0)]),
            "1 places and sums 2",
        ),
    ] {
        let (instance, intervals) = right();
        let mut document = serde_json::to_value(intervals).expect("JSON");
        *document.pointer_mut(pointer).expect("a field") = value;
        let intervals: Vec<Interval> = serde_json::from_value(document).expect("intervals");
        let error = judge(&instance, &intervals).expect_err(words).to_string();
        assert!(error.contains(words), "{pointer}: {error}");
    }
}

#[test]
fn arrivals_pauses_and_switches_are_judged() {
    let (mut instance, intervals) = right();
    instance.jobs[1].arrival_s = 1.5;
    let error = judge(&instance, &intervals).expect_err("too soon").to_string();
    assert!(error.contains("job 2 sends before it arrives"), "{error}");

    let (mut instance, intervals) = right();
    instance.units[1].switch_bps = 8e9;
    let error = judge(&instance, &intervals).expect_err("too fast").to_string();
    assert!(error.contains("the switch of u1 passes"), "{error}");

    let (instance, mut intervals) = right();
    let mut half = intervals[1].clone();
    half.rates[0].rate_bps = 4e9;
    intervals[1] = half.clone();
    (half.from_s, half.until_s) = (3.0, 4.0);
    intervals.push(half);
    let error = judge(&instance, &intervals).expect_err("a pause").to_string();
    assert!(error.contains("job 2 has paused"), "{error}");
    judge(&Instance { contiguous: false, ..instance }, &intervals).expect("allowed now");
}

#[test]
fn every_wrong_field_is_named_with_its_job() {
    let star = |field: &str, value: Value| {
        let mut star = json!({ "workers": { "u0": 1 }, "server": "u1", "bytes": 1.0 });
        star[field] = value;
        json!([{ "id": 7, "traffic": { "star": star } }])
    };
    let flow = json!({ "from": "u0", "to": "u1", "bytes": 1.0 });
    for (pointer, value, words) in [
        ("/format", json!("wiresum-plan/1"), "`format`"),
        ("/slot_s", json!(0.0), "`slot_s`"),
        ("/dark_s", json!(1.0), "`dark_s`: must be shorter"),
        ("/units/1/name", json!("u0"), "`units`: two have the same name"),
        ("/units/1/switch_bps", json!(0.0), "`units[1].switch_bps`"),
        (
            "/before",
            json!({ "given": [{ "between": ["u0", "u1"], "circuits": 2 }] }),
            "u0 has 1 ports",
        ),
        ("/jobs", json!([]), "`jobs`"),
        ("/jobs/1/id", json!(1), "`jobs[id 1].id`"),
        ("/jobs/1/arrival_s", json!(-1.0), "`jobs[id 2].arrival_s`"),
        ("/jobs", star("bytes", json!(0.0)), "`jobs[id 7].bytes`"),
        ("/jobs", star("server", json!("u9")), "`jobs[id 7].server`: there is no unit u9"),
        ("/jobs", star("workers", json!({})), "`jobs[id 7].workers`"),
        (
            "/jobs",
            star("workers", json!({ "u0": 1, "u2": 1 })),
            "job 7 cannot be served: unit u1 has 1 ports",
        ),
        (
            "/jobs",
            json!([{ "id": 7, "traffic": { "flows": [flow, flow] } }]),
            "`jobs[id 7].flows[1].to`",
        ),
    ] {
        let mut document = serde_json::to_value(right().0).expect("JSON");
        *document.pointer_mut(pointer).expect("a field") = value;
        let read = Instance::from_json(&document.to_string());
        let error = read.and_then(|instance| schedule(&instance, "turns", &quick(1)));
        let error = error.expect_err(words).to_string();
        assert!(error.contains(words), "{pointer}: {error}");
    }
}

#[test]
fn an_unknown_scheduler_is_refused_with_the_names_of_all() {
    let error = schedule(&right().0, "best", &quick(1)).expect_err("unknown").to_string();
    assert!(SCHEDULERS.iter().all(|scheduler| error.contains(scheduler.name)), "{error}");
}

#[test]
fn who_finds_no_circuits_is_named() {
    let mut instance = network(3, 1, 0);
    flows(&mut instance, &[(0, 2, 1.0)]);
    let error =
        schedule(&instance, "window-fixed", &quick(1)).expect_err("no circuits").to_string();
    assert!(error.contains("job 1 cannot be served"), "{error}");
}
