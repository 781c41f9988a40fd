//! Prints what sealing a packet costs a rank: `seal-bench [RUNS]`.

use std::time::Instant;

use wiresum_bench::seal::run;
use wiresum_wire::LaneType;

fn main() {
    let runs = std::env::args().nth(1).map_or(7, |runs| runs.parse().expect("a number of runs"));
    let start = Instant::now();
    for lanes in [LaneType::I32Le, LaneType::I32Be, LaneType::I16Le] {
        for values in [64, 128, 256, 352, 728] {
            for m in run(lanes, 4 * values, runs.max(1), &|| start.elapsed()) {
                let median = m.nanoseconds[m.nanoseconds.len() / 2];
                let count = (m.bytes / lanes.width()) as f64;
                println!(
                    "{:<9} {count:>5} values  {:<6}  {median:>8.1} ns  {:>6.3} ns a value  {:>6.2} GB/s",
                    lanes.name(),
                    m.step,
                    median / count,
                    m.bytes as f64 / median
                );
            }
        }
    }
}
