//! Schedules an instance from standard input by each of the schedulers that are named, and prints a line for each.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a tool, which tells the time"
)]

use std::io::Read;
use std::time::Instant;

use wiresum_schedule::problem::Problem;
use wiresum_schedule::{Instance, Options, bound, schedule};

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
    }
    Ok(())
}
