//! The measurement measures what it says, by a clock of our own.

use std::cell::Cell;
use std::time::Duration;

use wiresum_bench::codec as bench;

#[test]
fn speeds_are_bytes_of_elements_over_time() {
    let seconds = Cell::new(0);
    let clock = || {
        seconds.set(seconds.get() + 1);
        Duration::from_secs(seconds.get())
    };
    let measurements = bench::run(1 << 20, 2, &clock);
    for m in &measurements {
        let expected = f64::from(64 << 20) / 1e9;
        assert_eq!(m.gigabytes_per_second, [expected; 2], "{}: 64 MiB in a second", m.step);
        assert_eq!((m.min(), m.median(), m.max()), (expected, expected, expected));
    }
    let steps = |step| measurements.iter().filter(|m| m.step == step).count();
    assert!(steps("encode") >= 12, "three element types by four lane types");
    assert_eq!((steps("memcpy"), steps("naive encode"), steps("naive decode")), (1, 1, 1));
}
