//! Instances for tests: sizes in slots of a circuit, so that answers can be told by hand.
#![allow(dead_code, reason = "each test uses some of it")]

use std::collections::BTreeMap;

use wiresum_schedule::{
    Before, Darkens, Flow, INSTANCE_FORMAT, Instance, Job, Options, Star, Traffic, Unit,
};

/// Bytes that a circuit, or a worker's link, carries in a slot of one second.
pub const SLOT: f64 = 1e9;

/// Units `u0`, `u1`, … with fast switches, circuits that are dark for a tenth of a slot, no jobs yet.
pub fn network(units: usize, ports: u32, places: u32) -> Instance {
    let unit = |index| Unit { name: format!("u{index}"), ports, switch_bps: 8e3 * SLOT, places };
    Instance {
        format: INSTANCE_FORMAT.to_owned(),
        slot_s: 1.0,
        dark_s: 0.1,
        darkens: Darkens::Added,
        port_bps: 8.0 * SLOT,
        host_bps: 8.0 * SLOT,
        server_bps: Some(8e3 * SLOT),
        units: (0..units).map(unit).collect(),
        before: Before::None,
        jobs: Vec::new(),
        paper: false,
        contiguous: true,
        slots: true,
        trees: false,
    }
}

/// Adds a synchronous job: workers by unit, the server's unit, slots of bytes for each worker.
pub fn star(instance: &mut Instance, workers: &[(usize, u32)], server: usize, slots: f64) {
    let workers: BTreeMap<String, u32> =
        workers.iter().map(|(unit, count)| (format!("u{unit}"), *count)).collect();
    let server = format!("u{server}");
    let (bytes, via) = (slots * SLOT, BTreeMap::new());
    let (update_s, host_bps, server_host) = (0.0, None, None);
    let star = Star { workers, server, server_host, bytes, update_s, host_bps, via };
    add(instance, Traffic::Star(star));
}

/// Adds a coflow: from, to, slots of bytes.
pub fn flows(instance: &mut Instance, flows: &[(usize, usize, f64)]) {
    let flow = |(from, to, slots): &(usize, usize, f64)| Flow {
        from: format!("u{from}"),
        to: format!("u{to}"),
        bytes: slots * SLOT,
        via: None,
    };
    add(instance, Traffic::Flows(flows.iter().map(flow).collect()));
}

/// Gives the last job, if it has one, the server of that name in its unit.
pub fn at_server(instance: &mut Instance, name: &str) {
    let job = instance.jobs.last_mut().expect("a job was added");
    if let Traffic::Star(star) = &mut job.traffic {
        star.server_host = Some(format!("{}-{name}", star.server));
    }
}

/// Lets a unit relay what the last job sends between two others.
pub fn relay(instance: &mut Instance, unit: usize) {
    let name = format!("u{unit}");
    match &mut instance.jobs.last_mut().expect("a job was added").traffic {
        Traffic::Star(star) => {
            let remote = star.workers.keys().filter(|from| ![&star.server, &name].contains(from));
            let remote: Vec<String> = remote.filter(|_| star.server != name).cloned().collect();
            star.via = remote.into_iter().map(|from| (from, name.clone())).collect();
        }
        Traffic::Flows(flows) => {
            let third =
                |flow: &&mut Flow| flow.from != flow.to && ![&flow.from, &flow.to].contains(&&name);
            flows.iter_mut().filter(third).for_each(|flow| flow.via = Some(name.clone()));
        }
    }
}

fn add(instance: &mut Instance, traffic: Traffic) {
    let id = instance.jobs.len() as u32 + 1;
    instance.jobs.push(Job { id, arrival_s: 0.0, weight: 1.0, traffic });
}

/// With few rounds, as tests are many.
pub fn quick(seed: u64) -> Options {
    Options { seed, rounds: 100, ..Options::default() }
}
