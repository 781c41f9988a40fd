//! Sparse jobs on a star: the same bits for everybody, whatever is lost, and rounds as long as their bytes take.

use serde_json::{Value, json};

use crate::{Record, Scenario, SimulationError, simulate};

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

fn records(scenario: &Scenario) -> Result<Vec<Record>, SimulationError> {
    let mut records = Vec::new();
    simulate(scenario, &mut |record| {
        records.push(record.clone());
        true
    })?;
    Ok(records)
}

/// Seconds of each round.
fn rounds(records: &[Record]) -> Vec<f64> {
    let of_round = |record: &Record| match record {
        Record::Round { begin_s, end_s, .. } => Some(end_s - begin_s),
        _ => None,
    };
    records.iter().filter_map(of_round).collect()
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
        let Some(Record::End { checked_values, .. }) = found.last() else { panic!("no end") };
        assert!(*checked_values > 0, "seed {seed}");
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
    let problem = wrong(|scenario| scenario.sites[5].forwards = false);
    assert!(problem.contains("does not reach"), "{problem}");
    let problem = wrong(|scenario| scenario.links[4].forward.loss = 1.0);
    assert!(problem.contains("no progress"), "{problem}");
}
