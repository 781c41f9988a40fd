//! Prints the speed of the codec on one core: `cargo run --release -p wiresum-codec --example codec_speed [runs]`.

#![allow(
    clippy::disallowed_methods,
    reason = "the clock that the measurement takes as an argument"
)]

use std::time::Instant;

use wiresum_codec::bench::{self, IN_CACHE, OUT_OF_CACHE};

const RUNS: usize = 7;

fn main() {
    let runs = std::env::args().nth(1).map_or(RUNS, |text| text.parse().expect("a number of runs"));
    let start = Instant::now();
    println!(
        "{:<14}{:<10}{:<10}{:>10}  GB/s: median (min to max) of {runs}",
        "step", "element", "lanes", "KiB"
    );
    for working_set in [IN_CACHE, OUT_OF_CACHE] {
        for m in bench::run(working_set, runs, &|| start.elapsed()) {
            let (median, min, max) = (m.median(), m.min(), m.max());
            let kibibytes = m.working_set >> 10;
            println!(
                "{:<14}{:<10}{:<10}{kibibytes:>10}  {median:.1} ({min:.1} to {max:.1}) {}",
                m.step,
                m.element,
                m.lanes.name(),
                m.instructions
            );
        }
    }
}
