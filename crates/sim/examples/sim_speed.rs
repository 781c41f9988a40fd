//! Runs a resolved scenario, and prints what it did in how much time: `cargo run --release -p wiresum-sim --example sim_speed FILE.json`.
//!
//! `wiresum bench sim --keep FOLDER` writes such files. Without Python around it, a profiler sees the simulator alone.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a program of its own, with a clock and a file"
)]

use std::time::Instant;

use wiresum_sim::{Record, Scenario, simulate};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("which scenario?")?;
    let scenario: Scenario = serde_json::from_str(&std::fs::read_to_string(path)?)?;
    let begun = Instant::now();
    let mut end = None;
    simulate(&scenario, &mut |record| {
        if let Record::End { at_s, events, packet_hops, .. } = record {
            end = Some((*at_s, *events, *packet_hops));
        }
        true
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    let (at_s, events, hops) = end.ok_or("it did not end")?;
    println!(
        "{seconds:.3} s for {at_s:.6} s: {events} events ({:.2} M/s), {hops} hops ({:.2} M/s)",
        events as f64 / seconds / 1e6,
        hops as f64 / seconds / 1e6
    );
    Ok(())
}
