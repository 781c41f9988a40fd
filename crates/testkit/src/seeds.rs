//! Chance in tests: how much of it, and how a failure is replayed.
//!
//! A random test takes its numbers from seeds that are always the same. `WIRESUM_SEED=7` runs it with that seed alone, and
//! `WIRESUM_SOAK=100`, which `make soak` sets, with a hundred times as many seeds, packets or cases.

use std::ops::Range;

const SEED: &str = "WIRESUM_SEED";
const SOAK: &str = "WIRESUM_SOAK";

/// `count`, as many times over as `make soak` asks for.
pub fn times_soak(count: u64) -> u64 {
    count * setting(SOAK).unwrap_or(1)
}

/// The seed of a test that needs one: `usual`, unless another is asked for.
pub fn seed_or(usual: u64) -> u64 {
    setting(SEED).unwrap_or(usual)
}

/// Runs a test with `count` seeds from `first` on, times [`SOAK`], or with the one that is asked for. `test` is what
/// `cargo test` takes to run it.
pub fn for_each_seed(test: &str, first: u64, count: u64, mut run: impl FnMut(u64)) {
    for seed in chosen(setting(SEED), first, times_soak(count)) {
        let _replay = Replay { test, seed };
        run(seed);
    }
}

fn chosen(asked: Option<u64>, first: u64, count: u64) -> Range<u64> {
    asked.map_or(first..first + count, |seed| seed..seed + 1)
}

/// Prints the command that replays a test, if the test fails before this is dropped.
pub struct Replay<'a> {
    /// What `cargo test` takes to run the test.
    pub test: &'a str,
    /// Its seed.
    pub seed: u64,
}

impl Drop for Replay<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self { test, seed } = self;
            eprintln!("replay: {SEED}={seed} {SOAK}={} cargo test {test}", times_soak(1));
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a replay and a soak are asked for from outside")]
fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_is_run_in_place_of_all() {
        assert_eq!(chosen(None, 10, 3), 10..13);
        assert_eq!(chosen(Some(7), 10, 3), 7..8);
    }
}
