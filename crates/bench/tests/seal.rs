//! The measurement measures what it says, by a clock of our own.

use std::cell::Cell;
use std::time::Duration;

use wiresum_bench::seal as bench;
use wiresum_wire::LaneType;

#[test]
fn each_step_is_time_over_packets() {
    let seconds = Cell::new(0);
    let clock = || {
        seconds.set(seconds.get() + 1);
        Duration::from_secs(seconds.get())
    };
    let measured = bench::run(LaneType::I32Le, 256, 2, &clock);
    let steps: Vec<_> = measured.iter().map(|m| m.step).collect();
    assert_eq!(steps, ["encode", "seal", "open"]);
    assert!(measured.iter().all(|m| m.nanoseconds == [1e9 / 4096.0; 2] && m.bytes == 256));
}
