//! Prints what the hot set gets while popularity drifts: `tracking-bench [ROUNDS] [SEED]`.

use wiresum_bench::tracking::measure;

fn main() {
    let argument = |place| std::env::args().nth(place).map(|text| text.parse().expect("a number"));
    let (rounds, seed) = (argument(1).unwrap_or(120), argument(2).unwrap_or(1));
    for one in measure(rounds as usize, seed) {
        println!(
            "{:<12} {:>5.2} %  {:<22} {:>6.3}  {:>5.1} % exchanged in 10 rounds",
            one.drift.name(),
            100.0 * one.replaced,
            one.way.name(),
            one.coverage,
            100.0 * one.exchanged
        );
    }
}
