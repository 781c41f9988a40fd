//! `cache`: the rows of `pool`, for a whole gradient.

use super::*;

#[test]
fn a_late_worker_finds_a_whole_gradient_waiting() {
    let mut bench = Bench::with(Policy::Cache, &[Place { parent: None, ..place() }]);
    for fragment in 0..8 {
        assert_eq!(bench.contribute(2, fragment), absorbed(Verdict::Added));
    }
    for fragment in 0..8 {
        assert_eq!(bench.send(contribution(2, fragment)), down(Verdict::Completed));
        assert_eq!(bench.left(), (0b111, 111));
    }
    assert_eq!(bench.send(contribution(0, 3)), down(Verdict::Answered));
}
