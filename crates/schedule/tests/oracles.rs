//! Instances whose best schedule is known.

mod common;

use common::{at_server, flows, network, quick, relay, star};
use wiresum_schedule::{Instance, Objective, Options, Status, Timetable, schedule};

fn turns(instance: &Instance) -> Timetable {
    schedule(instance, "turns", &quick(1)).expect("a schedule")
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6
}

/// P4INC-AOI, Fig. 2: three jobs of two, two and four workers in two units, servers in two others. Jobs 1 and 2 have
/// half a slot of bytes, job 3 a whole one; a circuit carries two workers.
fn figure(is_local: bool, places: u32) -> Instance {
    let mut instance = network(4, 4, places);
    instance.dark_s = 0.0;
    instance.port_bps *= 2.0;
    star(&mut instance, &[(0, 2)], 2, 0.5);
    star(&mut instance, &[(usize::from(!is_local), 2)], if is_local { 2 } else { 3 }, 0.5);
    let third: &[(usize, u32)] = if is_local { &[(1, 4)] } else { &[(0, 2), (1, 2)] };
    star(&mut instance, third, if is_local { 3 } else { 2 }, 1.0);
    instance
}

#[test]
fn figure_2_needs_four_three_two_and_no_connections() {
    for (is_local, places, connections, reconfigurations) in
        [(false, 0, 4, 3), (true, 0, 3, 2), (false, 2, 2, 1), (true, 2, 0, 0)]
    {
        let cost = turns(&figure(is_local, places)).cost;
        let counted = (cost.setups, cost.reconfigurations);
        assert_eq!(counted, (connections, reconfigurations), "{is_local} {places}");
        assert!(near(cost.completion_s, 1.0));
    }
}

#[test]
fn one_pair_takes_its_bytes_and_one_darkness() {
    let mut instance = network(2, 1, 0);
    for _ in 0..3 {
        star(&mut instance, &[(0, 1)], 1, 0.9);
    }
    // 2.7 slots of bytes and 0.1 of darkness, in one circuit that stays.
    let timetable = turns(&instance);
    assert!(near(timetable.cost.completion_s, 3.0));
    assert_eq!((timetable.cost.setups, timetable.status), (1, Status::Optimal));
    instance.before = wiresum_schedule::Before::Even;
    assert_eq!(turns(&instance).cost.setups, 0);
}

/// What two jobs send to each other's units fits one slot of a circuit, in a direction each; sums come back, and then it
/// does not. Flows have nothing that comes back.
#[test]
fn jobs_whose_gradients_go_opposite_ways_share_both_directions() {
    let mut jobs = network(2, 1, 0);
    star(&mut jobs, &[(0, 1)], 1, 0.9);
    star(&mut jobs, &[(1, 1)], 0, 0.9);
    let mut coflow = network(2, 1, 0);
    flows(&mut coflow, &[(0, 1, 0.9), (1, 0, 0.9)]);
    for (instance, completion_s) in [(&mut jobs, 2.0), (&mut coflow, 1.0)] {
        let timetable = turns(instance);
        assert!(near(timetable.cost.completion_s, completion_s), "{completion_s}");
        assert_eq!((timetable.cost.setups, timetable.status), (1, Status::Optimal));
        instance.slots = false;
        let cost = schedule(instance, "events", &quick(1)).expect("a schedule").cost;
        assert!(near(cost.completion_s, 0.1 + 0.9 * completion_s), "{}", cost.completion_s);
    }
}

/// A unit in the middle has a circuit to each of two others, which have one port. What is little between those needs a
/// slot of its own, with circuits that come and go, or a rest of the two that are there.
#[test]
fn little_goes_over_a_third_unit_instead_of_a_circuit_of_its_own() {
    let mut instance = network(3, 1, 0);
    instance.units[2].ports = 2;
    star(&mut instance, &[(0, 1)], 2, 1.7);
    star(&mut instance, &[(2, 1)], 1, 1.7);
    star(&mut instance, &[(0, 1)], 1, 0.1);
    let direct = turns(&instance).cost;
    relay(&mut instance, 2);
    let relayed = turns(&instance);
    assert!(near(direct.completion_s, 3.0) && near(relayed.cost.completion_s, 2.0));
    assert_eq!((direct.setups, relayed.cost.setups, relayed.status), (3, 2, Status::Optimal));
}

/// Two jobs send to one server, whose link is as fast as a worker's: it takes both in two slots, with or without circuits.
#[test]
fn jobs_that_name_one_server_share_its_link() {
    let mut instance = network(3, 2, 0);
    (instance.dark_s, instance.server_bps) = (0.0, Some(instance.host_bps));
    for unit in [0, 1] {
        star(&mut instance, &[(unit, 1)], 2, 1.0);
    }
    assert!(near(turns(&instance).cost.completion_s, 1.0), "each has a server of its own");
    instance.jobs.clear();
    for unit in [0, 1] {
        star(&mut instance, &[(unit, 1)], 2, 1.0);
        at_server(&mut instance, "ps");
    }
    let timetable = turns(&instance);
    assert!(near(timetable.cost.completion_s, 2.0) && timetable.status == Status::Optimal);
}

#[test]
fn one_unit_needs_no_light() {
    let mut instance = network(1, 0, 1);
    for _ in 0..4 {
        star(&mut instance, &[(0, 2)], 0, 1.0);
    }
    let cost = turns(&instance).cost;
    assert_eq!((cost.setups, near(cost.completion_s, 1.0)), (0, true));
}

#[test]
fn without_darkness_and_with_short_slots_it_is_as_fast_as_a_fluid() {
    let mut instance = network(4, 2, 0);
    instance.dark_s = 0.0;
    instance.slot_s = 0.05;
    let sizes = [(0, 1, 1.5), (1, 2, 1.25), (2, 3, 1.0), (3, 0, 0.75), (0, 2, 0.5)];
    flows(&mut instance, &sizes);
    let mut at_units = [0.0; 4];
    for (from, to, slots) in sizes {
        at_units[from] += slots;
        at_units[to] += slots;
    }
    let fluid_s = at_units.into_iter().fold(0.0, f64::max) / 2.0;
    let timetable = turns(&instance);
    assert!(timetable.cost.completion_s >= fluid_s - 1e-9);
    assert!(timetable.cost.completion_s <= fluid_s + instance.slot_s + 1e-9, "{}", fluid_s);
}

#[test]
fn in_one_slot_circuits_are_a_matching() {
    let mut instance = network(6, 1, 0);
    instance.contiguous = true;
    for (a, b) in [(0, 3), (4, 1), (2, 5)] {
        star(&mut instance, &[(a, 1)], b, 0.9);
    }
    assert!(near(turns(&instance).cost.completion_s, 1.0));
    star(&mut instance, &[(0, 1)], 1, 0.9);
    let timetable = turns(&instance);
    assert!(near(timetable.bound_s.expect("asked for"), 2.0), "ports 0 and 1 are needed twice");
    assert!(near(timetable.cost.completion_s, 2.0));
}

#[test]
fn places_are_used_in_turns() {
    let mut instance = network(2, 1, 1);
    instance.dark_s = 0.5;
    for _ in 0..4 {
        star(&mut instance, &[(0, 1)], 1, 1.0);
    }
    // The circuit carries one job in two slots, as it is dark for half a slot; the switch sums the others in turns.
    let cost = turns(&instance).cost;
    assert!(near(cost.completion_s, 3.0), "{}", cost.completion_s);
    assert!(near(cost.share_summed, 0.75));
}

#[test]
fn for_the_mean_the_short_job_goes_first() {
    let mut instance = network(2, 1, 0);
    instance.dark_s = 0.0;
    for slots in [3.0, 1.0, 2.0] {
        star(&mut instance, &[(0, 1)], 1, slots);
    }
    let options = Options { objective: Objective::Mean, ..quick(1) };
    let cost = schedule(&instance, "turns", &options).expect("a schedule").cost;
    assert!(near(cost.sojourn_s.mean, (1.0 + 3.0 + 6.0) / 3.0), "{:?}", cost.sojourn_s);
    instance.jobs[0].weight = 10.0;
    let options = Options { objective: Objective::Weighted, ..quick(1) };
    let cost = schedule(&instance, "turns", &options).expect("a schedule").cost;
    assert!(near(cost.jobs[0].end_s, 3.0), "the heavy job is first: {:?}", cost.jobs);
}

#[test]
fn nobody_starts_before_it_arrives_with_or_without_foresight() {
    let mut instance = network(3, 1, 0);
    for (number, (from, to)) in [(0, 1), (1, 2), (0, 2)].into_iter().enumerate() {
        star(&mut instance, &[(from, 1)], to, 1.5);
        instance.jobs[number].arrival_s = 2.0 * number as f64 + 0.5;
    }
    for online in [false, true] {
        let timetable = schedule(&instance, "turns", &Options { online, ..quick(1) });
        let cost = timetable.expect("a schedule").cost;
        for (job, cost) in instance.jobs.iter().zip(&cost.jobs) {
            assert!(cost.start_s >= job.arrival_s);
        }
    }
}

/// A batch of flows whose own rates do not bind, over even numbers of ports.
fn batch(seed: u64) -> Instance {
    let mut rng = wiresum_netem::Rng::new(seed);
    let units = 3 + rng.below(5) as usize;
    let mut instance = network(units, 2 * (1 + rng.below(3) as u32), 0);
    (instance.slots, instance.dark_s) = (false, 0.0);
    instance.units.iter_mut().for_each(|unit| unit.switch_bps *= 10.0);
    let mut sizes = Vec::new();
    for from in 0..units {
        for to in 0..units {
            if from != to && (from == 0 || rng.below(3) == 0) {
                sizes.push((from, to, 0.1 + rng.below(1000) as f64 / 50.0));
            }
        }
    }
    flows(&mut instance, &sizes);
    instance
}

/// Without darkness and slots, even numbers of ports carry all the time at the busiest unit: Petersen's 2-factors, and
/// Birkhoff's matchings.
#[test]
fn without_darkness_and_slots_it_is_the_fluid() {
    for seed in 0..20 {
        let instance = batch(seed);
        let timetable = schedule(&instance, "events", &quick(1)).expect("a schedule");
        let bound_s = timetable.bound_s.expect("asked for");
        let ends_s = timetable.cost.completion_s;
        assert!(ends_s <= bound_s * (1.0 + 1e-6), "seed {seed}: {ends_s} s, fluid {bound_s} s");
    }
}

/// Circuits change when they must: 2.7 seconds of bytes and one darkness, to the end of no slot.
#[test]
fn without_slots_nothing_is_rounded_up() {
    let mut instance = network(2, 1, 0);
    instance.slots = false;
    for _ in 0..3 {
        star(&mut instance, &[(0, 1)], 1, 0.9);
    }
    let timetable = schedule(&instance, "events", &quick(1)).expect("a schedule");
    assert!(near(timetable.cost.completion_s, 2.8), "{}", timetable.cost.completion_s);
    assert_eq!((timetable.cost.setups, timetable.status), (1, Status::Optimal));
}

/// While the only place of a switch is taken, the circuit of the job that waits for it is tuned: it carries at once.
#[test]
fn the_next_circuit_is_tuned_while_others_carry() {
    let mut instance = network(3, 1, 0);
    instance.slots = false;
    // The switch of u0 passes one job at a time, and what stays there twice, as its sums come back.
    instance.units[0].switch_bps = 16e9;
    star(&mut instance, &[(0, 1)], 0, 1.0);
    star(&mut instance, &[(0, 1)], 1, 1.0);
    let timetable = schedule(&instance, "events", &quick(1)).expect("a schedule");
    assert!(near(timetable.cost.completion_s, 3.0), "{}", timetable.cost.completion_s);
}

/// Switches of two units sum four workers each: one gradient crosses where four did, and no server is needed.
#[test]
fn switches_of_all_units_send_one_gradient() {
    let mut instance = network(2, 1, 1);
    star(&mut instance, &[(0, 4), (1, 4)], 1, 1.0);
    for (trees, slots, completion_s) in
        [(false, true, 5.0), (true, true, 2.0), (false, false, 4.1), (true, false, 1.1)]
    {
        (instance.trees, instance.slots) = (trees, slots);
        let name = if slots { "turns" } else { "events" };
        let timetable = schedule(&instance, name, &quick(1)).expect("a schedule");
        let cost = timetable.cost;
        assert!(near(cost.completion_s, completion_s), "{trees} {slots}: {}", cost.completion_s);
        assert!(near(cost.share_summed, if trees { 1.0 } else { 0.0 }));
        assert!(timetable.bound_s.expect("asked for") <= completion_s + 1e-6);
    }
}

/// Workers in four units need three circuits at the server's unit at once, and two along a tree of switches.
#[test]
fn a_job_in_more_units_than_ports_is_summed_along_a_tree() {
    let mut instance = network(4, 2, 1);
    star(&mut instance, &[(0, 2), (1, 2), (2, 2), (3, 2)], 0, 0.9);
    let refused = schedule(&instance, "turns", &quick(1)).expect_err("too few ports").to_string();
    assert!(refused.contains("`trees`"), "{refused}");
    instance.trees = true;
    let cost = turns(&instance).cost;
    assert_eq!((cost.setups, near(cost.completion_s, 1.0)), (3, true));
    // A switch without a place ends that.
    instance.units[3].places = 0;
    schedule(&instance, "turns", &quick(1)).expect_err("no place");
}
