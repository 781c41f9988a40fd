//! Share of its links that a collective uses, by loss and window: a table that is checked in, so that a change of the
//! protocol shows what it costs.
//!
//! Virtual time makes the figures exact. After a change that is meant, run the test with `WIRESUM_BLESS=1` and read the
//! difference of `tests/snapshots/throughput.txt`.

use std::fmt::Write;

use wiresum_wire::{HEADER_LEN, PAGE_PAYLOAD};

use super::*;

const SNAPSHOT: &str = include_str!("../../tests/snapshots/throughput.txt");
const SNAPSHOT_PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/snapshots/throughput.txt");

const RATE: u64 = 500_000_000;
/// 1.6 MB.
const ELEMENTS: usize = 400_000;
const LOSSES: [f64; 4] = [0.0, 0.001, 0.01, 0.05];
const WINDOWS: [u32; 4] = [8, 32, 128, 512];
/// In the trees: enough to see that loss inside costs no more than at the edge.
const TREE_LOSSES: [f64; 2] = [0.0, 0.01];
const TREE_WINDOWS: [u32; 2] = [32, 128];

/// Where a table's losses are.
#[derive(Clone, Copy)]
enum Lossy {
    /// On every link of a star of four workers.
    Star,
    /// On every link of a tree of three levels.
    Tree,
    /// On the links between the nodes of that tree.
    InnerLinks,
}

impl Lossy {
    fn title(self) -> &'static str {
        match self {
            Self::Star => "star, 4 workers",
            Self::Tree => "tree of 3 levels, 6 workers, loss on every link",
            Self::InnerLinks => "tree of 3 levels, 6 workers, loss on the links between nodes only",
        }
    }

    fn losses(self) -> &'static [f64] {
        if matches!(self, Self::Star) { &LOSSES } else { &TREE_LOSSES }
    }

    fn windows(self) -> &'static [u32] {
        if matches!(self, Self::Star) { &WINDOWS } else { &TREE_WINDOWS }
    }

    fn tree(self) -> Tree {
        match self {
            Self::Star => Tree::star(4),
            Self::Tree | Self::InnerLinks => Tree::three_levels(),
        }
    }
}

fn conditions(loss: f64) -> Conditions {
    Conditions { rate_bps: Some(RATE as f64), queue_bytes: 16 << 20, ..lossy(loss) }
}

/// Time that the packets of one worker take on its link, over the time that the collective took.
fn share(lossy: Lossy, policy: &'static str, window: u32, loss: f64) -> f64 {
    // Where there is luck, a median of it. In a tree one run in 13 loses a packet that all wait for, and takes a fifth longer.
    let seeds = match lossy {
        _ if loss == 0.0 => 1..2,
        Lossy::Star => 1..6,
        Lossy::Tree | Lossy::InnerLinks => 1..22,
    };
    let mut shares: Vec<f64> =
        seeds.map(|seed| share_once(lossy, policy, window, loss, seed)).collect();
    shares.sort_by(f64::total_cmp);
    shares[shares.len() / 2]
}

fn share_once(lossy: Lossy, policy: &'static str, window: u32, loss: f64, seed: u64) -> f64 {
    let slots = if policy == "pool" { 4 * window.next_power_of_two() } else { 2048 };
    let stream = Values { share: 1.0, policy, slots, window };
    let plan = plan_with(&lossy.tree(), &[stream], 736, "int32-le");
    let at_edge = if matches!(lossy, Lossy::InnerLinks) { 0.0 } else { loss };
    let mut cluster = Cluster::new(plan, conditions(at_edge), seed);
    cluster.inner_conditions = Some(conditions(loss));
    cluster.join_all();
    cluster.run_until(Time(1_000_000));
    let began = cluster.now();
    cluster.submit_all(&[ELEMENTS]);
    cluster.run();
    cluster.assert_sums();
    let fragments = ELEMENTS.div_ceil(PAGE_PAYLOAD / 4) as u64;
    let bits = 8 * ((HEADER_LEN + PAGE_PAYLOAD) as u64 + OVERHEAD_BYTES) * fragments;
    let least = bits as f64 / RATE as f64;
    least / cluster.now().since(began).as_secs_f64()
}

/// What is summed or copied at once: each alone, and both that FSDP2 has under way.
const EXCHANGES: [&[Kind]; 4] = [
    &[Kind::AllReduce],
    &[Kind::ReduceScatter],
    &[Kind::AllGather],
    &[Kind::ReduceScatter, Kind::AllGather],
];
/// Slots and windows: the planner's, and twice that window.
const EXCHANGE_WINDOWS: [(u32, u32); 2] = [(512, 192), (512, 384)];

/// Time that the packets in the fuller direction of a worker's link take, over the time that all of this took.
fn share_of_exchanges(kinds: &[Kind], slots: u32, window: u32) -> f64 {
    let stream = Values { share: 1.0, policy: "pool", slots, window };
    let plan = plan_with(&Tree::star(4), &[stream], 736, "int32-le");
    let mut cluster = Cluster::new(with_exchanges(plan, slots, window), conditions(0.0), 1);
    cluster.join_all();
    cluster.run_until(Time(1_000_000));
    let began = cluster.now();
    // As many bytes of an all-gather's shares in all as of a reduce-scatter's tensor.
    let calls: Vec<_> =
        kinds.iter().map(|kind| Call { kind: *kind, root: 0, size: 4 * ELEMENTS }).collect();
    cluster.submit_calls(&calls);
    cluster.run();
    cluster.assert_sums();
    let fragments = (4 * ELEMENTS).div_ceil(PAGE_PAYLOAD / 4) as f64;
    let heavy = if kinds.len() == 1 && kinds[0] != Kind::AllReduce { 0.75 } else { 1.0 };
    let bits = 8 * ((HEADER_LEN + PAGE_PAYLOAD) as u64 + OVERHEAD_BYTES);
    heavy * fragments * bits as f64 / RATE as f64 / cluster.now().since(began).as_secs_f64()
}

fn table_of_exchanges(table: &mut String) {
    table.push_str("\nstar, 4 workers, 6.4 MB of each, both directions counted apart\n");
    write!(table, "{:<27} window", "").expect("a string grows");
    EXCHANGE_WINDOWS
        .iter()
        .for_each(|(_, window)| write!(table, "{window:>8}").expect("a string grows"));
    for kinds in EXCHANGES {
        let name = kinds.iter().map(ToString::to_string).collect::<Vec<_>>().join(" beside ");
        write!(table, "\n  {name:<32}").expect("a string grows");
        for (slots, window) in EXCHANGE_WINDOWS {
            let share = share_of_exchanges(kinds, slots, window);
            write!(table, "{share:>8.3}").expect("a string grows");
        }
    }
    table.push('\n');
}

fn table() -> String {
    let mut table = String::from(
        "Share of the link used by an all-reduce of 1.6 MB: 500 Mbit/s, 50 us each way, 736 values per packet.\n",
    );
    for lossy in [Lossy::Star, Lossy::Tree, Lossy::InnerLinks] {
        write!(table, "\n{}\n", lossy.title()).expect("a string grows");
        for policy in ["pool", "cache"] {
            write!(table, "{policy:<6} window").expect("a string grows");
            for window in lossy.windows() {
                write!(table, "{window:>8}").expect("a string grows");
            }
            for loss in lossy.losses() {
                write!(table, "\n  loss {:>5} %", 100.0 * loss).expect("a string grows");
                for window in lossy.windows() {
                    let share = share(lossy, policy, *window, *loss);
                    write!(table, "{share:>8.3}").expect("a string grows");
                }
            }
            table.push('\n');
        }
    }
    table_of_exchanges(&mut table);
    table
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the new table is asked for from outside")]
fn throughput_by_loss_and_window_is_as_it_was() {
    let table = table();
    if std::env::var("WIRESUM_BLESS").is_ok() {
        std::fs::write(SNAPSHOT_PATH, &table).expect("the snapshot can be written");
    } else {
        assert_eq!(
            table, SNAPSHOT,
            "WIRESUM_BLESS=1 cargo test -p wiresum-testkit --test cluster throughput updates the table"
        );
    }
}
