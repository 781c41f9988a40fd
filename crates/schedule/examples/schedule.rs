//! Schedules an instance from standard input by each of the schedulers that are named, and prints a line for each; then
//! the same slot by slot, with what is known in each slot, and the seconds that the slowest slot took.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a tool, which tells the time"
)]

use std::io::Read;
use std::time::Instant;

use wiresum_schedule::problem::{EPSILON, Problem};
use wiresum_schedule::{Instance, Online, Options, bound, schedule};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let instance = Instance::from_json(&text)?;
    let began = Instant::now();
    let problem = Problem::new(&instance, true)?;
    let bound = bound::completion(&problem);
    println!("bound {:.4} s in {:.3} s", bound.completion_s, began.elapsed().as_secs_f64());
    let options = Options { bound: false, ..Options::default() };
    for name in std::env::args().skip(1) {
        let began = Instant::now();
        match schedule(&instance, &name, &options) {
            Err(error) => println!("{name}: {error}"),
            Ok(timetable) => println!(
                "{name}: {:.4} s, gap {:.2} %, {} set-ups, {:.0} % summed, in {:.3} s",
                timetable.cost.completion_s,
                100.0 * (timetable.cost.completion_s / bound.completion_s - 1.0),
                timetable.cost.setups,
                100.0 * timetable.cost.share_summed,
                began.elapsed().as_secs_f64()
            ),
        }
        match slots(&problem, &name, &options) {
            Err(error) => println!("{name}, slot by slot: {error}"),
            Ok(mut seconds) => {
                seconds.sort_by(f64::total_cmp);
                let (count, most) = (seconds.len(), seconds.last().copied().unwrap_or(0.0));
                let all = seconds.iter().sum::<f64>();
                println!(
                    "{name}, slot by slot: {count} slots in {all:.3} s, one in {most:.3} s at most"
                );
            }
        }
    }
    Ok(())
}

/// The seconds that each slot took to decide.
fn slots(
    problem: &Problem<'_>,
    name: &str,
    options: &Options,
) -> Result<Vec<f64>, Box<dyn std::error::Error>> {
    let mut online = Online::new(problem, name, options)?;
    let mut left: Vec<f64> = problem.transfers.iter().map(|transfer| transfer.bytes).collect();
    let mut seconds = Vec::new();
    while left.iter().zip(&problem.transfers).any(|(left, all)| *left > EPSILON * all.bytes) {
        let began = Instant::now();
        let slot = online.step()?;
        seconds.push(began.elapsed().as_secs_f64());
        slot.shares.iter().for_each(|share| left[share.transfer] -= share.bytes);
    }
    Ok(seconds)
}
