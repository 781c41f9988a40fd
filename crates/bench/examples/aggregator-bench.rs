//! Prints what one packet costs: `aggregator-bench [VALUES,… [CHILDREN,… [WORKING_SET_BYTES,… [LOCK 0|1]]]]`.

use wiresum_bench::packets::{Measurement, Parameters, measure};

fn numbers(position: usize) -> Option<Vec<usize>> {
    let argument = std::env::args().nth(position)?;
    Some(argument.split(',').map(|number| number.parse().expect("a number")).collect())
}

fn print(measurement: &Measurement) {
    let Measurement { engine, values, working_set, children, nanoseconds } = measurement;
    let mut sorted = nanoseconds.clone();
    sorted.sort_by(f64::total_cmp);
    let (median, last) = (sorted[sorted.len() / 2], sorted.len() - 1);
    println!(
        "{:<8} {values:>4} values  {children:>2} children  {:>3} MiB  {median:>7.1} ns  ({:.1} to {:.1})",
        engine.name(),
        working_set >> 20,
        sorted[0],
        sorted[last]
    );
}

fn main() {
    let mut parameters = Parameters::default();
    parameters.values = numbers(1).unwrap_or(parameters.values);
    parameters.children = numbers(2).unwrap_or(parameters.children);
    parameters.working_sets = numbers(3).unwrap_or(parameters.working_sets);
    parameters.options.lock_entries = numbers(4).is_none_or(|lock| lock != [0]);
    match measure(&parameters) {
        Ok(measurements) => measurements.iter().for_each(print),
        Err(error) => eprintln!("error: {error}"),
    }
}
