//! Sparse jobs on a star: the same bits for everybody, whatever is lost, and rounds as long as their bytes take.

use serde_json::{Value, json};

use crate::testing::{Tree, records, rounds};
use crate::{Fidelity, Record, Scenario};

const RATE_BPS: f64 = 50e6;

/// w0 … w3 and a server around a switch that sums hot rows.
fn scenario(loss: f64, hot: u32, rounds: usize, seed: u64) -> Scenario {
    let names = ["w0", "w1", "w2", "w3", "s0", "switch"];
    let site =
        |name: &&str| json!({ "name": name, "forwards": *name == "switch", "adding_bps": null });
    let direction = json!({ "rate_bps": RATE_BPS, "delay_s": 50e-6, "queue_bytes": 1 << 18, "ecn_bytes": null,
        "loss": loss, "duplication": loss, "reordering": loss, "jitter_s": 1e-3 });
    let link = |end: usize| json!({ "id": format!("l{end}"), "source": end, "target": 5, "forward": direction, "backward": direction });
    let row = |key: u32| json!([0, key, key, if key.is_multiple_of(3) { "B" } else { "A" }]);
    let map = json!({ "format": "wiresum-hot-map/1", "version": 1, "dim": 8, "positions": hot, "block": 0,
        "rows": (0..hot).map(row).collect::<Vec<_>>() });
    let table = json!({ "id": 0, "name": "rows", "rows": { "counted": 400 }, "dim": 8, "seed": 3,
        "optimizer": { "name": "sgd", "lr": 0.1 }, "initial": { "normal": 1.0 } });
    let mut job = json!({ "format": "wiresum-sparse-job/1", "id": 1, "workers": 4, "tables": [table],
        "servers": ["10.0.0.5:5748"], "secret": "01".repeat(32) });
    let mut hosts = vec![4];
    if hot > 0 {
        job["hot"] = map;
        job["switches"] = json!(["10.0.0.254:5748"]);
        hosts.push(5);
    }
    // Everybody touches the hot rows, and some of the others.
    let touched = |rank: usize, round: usize| {
        let own = (0..60).map(|n| 100 + (n * 4 + rank + round) as u64 % 300);
        let mut keys: Vec<u64> = (0..50).chain(own).collect();
        keys.sort_unstable();
        keys.dedup();
        json!([keys])
    };
    let touched: Vec<Vec<Value>> =
        (0..4).map(|rank| (0..=rounds).map(|round| touched(rank, round)).collect()).collect();
    let rows = json!({ "name": "job", "job": job, "hosts": hosts, "workers": [0, 1, 2, 3], "touched": touched });
    let scenario = json!({ "fidelity": "packets", "seed": seed, "patience_s": 5.0, "check_sums": true,
        "sites": names.iter().map(site).collect::<Vec<_>>(), "links": (0..5).map(link).collect::<Vec<_>>(),
        "jobs": [], "rows": rows });
    serde_json::from_value(scenario).expect("a scenario")
}

/// The same with a dense gradient, which the switch sums.
fn beside_dense(mut scenario: Scenario, bytes: u64) -> Scenario {
    let mut plan = Tree::star(4).plan("pool");
    plan["nodes"][0]["name"] = json!("switch");
    let at_once = json!({ "kind": "constant", "seconds": 0.0 });
    let times = vec![json!({ "start": at_once, "compute": at_once }); 4];
    let rounds = scenario.rows.as_ref().expect("rows").rounds();
    let dense = json!({ "name": "dense", "plan": plan, "bytes": bytes, "rounds": rounds, "workers": times,
        "streams": [], "barrier": false });
    scenario.jobs = vec![serde_json::from_value(dense).expect("a job")];
    scenario
}

fn checked(records: &[Record]) -> u64 {
    match records.last() {
        Some(Record::End { checked_values, .. }) => *checked_values,
        other => panic!("{other:?} is not the end"),
    }
}

fn sent_to(records: &[Record], name: &str) -> f64 {
    let to = |record: &Record| match record {
        Record::Link { target, wire_bytes, .. } if target == name => Some(*wire_bytes),
        _ => None,
    };
    records.iter().filter_map(to).sum()
}

#[test]
fn everybody_has_the_same_bits_whatever_is_lost() {
    for seed in 0..12 {
        let scenario = scenario(0.03, 40, 4, seed);
        let found = records(&scenario).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(checked(&found) > 0, "seed {seed}");
        assert_eq!(rounds(&found).len(), 4, "seed {seed}");
    }
}

#[test]
fn equal_scenarios_are_equal_runs() {
    let scenario = scenario(0.05, 40, 3, 7);
    assert_eq!(records(&scenario), records(&scenario));
}

#[test]
fn sums_on_the_way_spare_the_server() {
    let [summed, direct] = [40, 0].map(|hot| records(&scenario(0.0, hot, 4, 1)).expect("a run"));
    assert!(sent_to(&summed, "s0") < 0.8 * sent_to(&direct, "s0"));
    // What is sent takes at least its time at the link's rate.
    let seconds: f64 = rounds(&direct).iter().sum();
    assert!(seconds >= 8.0 * sent_to(&direct, "s0") / RATE_BPS * 0.8, "{seconds}");
}

#[test]
fn a_dense_gradient_beside_rows_is_exact_whatever_is_lost() {
    for seed in 0..4 {
        let rows = scenario(0.03, 40, 3, seed);
        let alone = records(&rows).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let both = records(&beside_dense(rows, 100_000))
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(rounds(&both).len(), 3, "seed {seed}");
        // Every value of the sum at every worker in every round.
        assert_eq!(checked(&both), checked(&alone) + 25_000 * 4 * 3, "seed {seed}");
    }
}

#[test]
fn a_dense_gradient_shares_links_with_rows() {
    let bytes = 200_000;
    let rows = scenario(0.0, 40, 3, 1);
    let alone = records(&rows).expect("a run");
    let both = records(&beside_dense(rows, bytes)).expect("a run");
    let dense_s = 8.0 * bytes as f64 / RATE_BPS;
    for (together, rows_s) in rounds(&both).into_iter().zip(rounds(&alone)) {
        assert!(together > dense_s && together > rows_s, "{together} s");
        assert!(together < 1.2 * (dense_s + rows_s), "{together} s of {dense_s} and {rows_s}");
    }
    let more =
        sent_to(&both, "w0") + sent_to(&both, "w3") - sent_to(&alone, "w0") - sent_to(&alone, "w3");
    // The sum comes once a round to each worker, with headers of 80 bytes a kilobyte, and exponents.
    assert!((1.0..1.2).contains(&(more / (6 * bytes) as f64)), "{more} bytes");
}

#[test]
fn what_cannot_be_simulated_is_named() {
    let wrong = |change: fn(&mut Scenario)| {
        let mut scenario = scenario(0.0, 40, 2, 1);
        change(&mut scenario);
        records(&scenario).expect_err("refused").to_string()
    };
    let problem = wrong(|scenario| scenario.rows.as_mut().expect("rows").hosts.truncate(1));
    assert!(problem.contains("needs a site"), "{problem}");
    let problem = wrong(|scenario| scenario.rows.as_mut().expect("rows").touched[1].truncate(1));
    assert!(problem.contains("in each round"), "{problem}");
    let problem = wrong(|scenario| {
        *scenario = beside_dense(scenario.clone(), 1000);
        scenario.jobs[0].rounds += 1;
    });
    assert!(problem.contains("of the same workers and rounds"), "{problem}");
    let problem = wrong(|scenario| scenario.fidelity = Fidelity::Trains);
    assert!(problem.contains("as packets or flows"), "{problem}");
    let problem = wrong(|scenario| scenario.sites[5].forwards = false);
    assert!(problem.contains("does not reach"), "{problem}");
    let problem = wrong(|scenario| scenario.links[4].forward.loss = 1.0);
    assert!(problem.contains("no progress"), "{problem}");
}
