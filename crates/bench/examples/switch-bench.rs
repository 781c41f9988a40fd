//! Prints what one contribution costs the kernel's switch under each policy: `switch-bench [VALUES,… [WORKERS,… [SLOTS]]]`.

use wiresum_bench::packets::switch::{Measurement, Parameters, measure};

fn numbers(position: usize) -> Option<Vec<usize>> {
    let argument = std::env::args().nth(position)?;
    Some(argument.split(',').map(|number| number.parse().expect("a number")).collect())
}

fn print(Measurement { subject, values, workers, nanoseconds }: &Measurement) {
    let mut sorted = nanoseconds.clone();
    sorted.sort_by(f64::total_cmp);
    let (median, last) = (sorted[sorted.len() / 2], sorted.len() - 1);
    println!(
        "{:<16} {values:>4} values  {workers:>2} workers  {median:>7.1} ns  ({:.1} to {:.1})",
        subject.name(),
        sorted[0],
        sorted[last]
    );
}

fn main() {
    let mut parameters = Parameters::default();
    parameters.values = numbers(1).unwrap_or(parameters.values);
    if let Some(workers) = numbers(2) {
        parameters.workers = workers.iter().map(|&workers| workers as u8).collect();
    }
    parameters.slots = numbers(3).map_or(parameters.slots, |slots| slots[0] as u32);
    match measure(&parameters) {
        Ok(measurements) => measurements.iter().for_each(print),
        Err(error) => eprintln!("error: {error}"),
    }
}
