//! A golden trace of `spec/vectors/keyed`, replayed by the kernel.

use serde_json::Value;
use wiresum_switch::keyed::{Arrangement, HotTable, KeyedSpec};
use wiresum_wire::{Header, JobId, JobKey, NodeId};
use wiresum_xdp::frames::udp_frame;
use wiresum_xdp::{KeyedOptions, KeyedProgram};
use zerocopy::FromBytes;

use super::super::{bytes, check_frame, list};
use super::{OVER_IPV4, join, keys, worker};

/// Every datagram of the trace, and what the registers hold behind them.
pub fn replay(trace: &Value, at: &str) {
    let number = |name: &str| trace[name].as_u64().expect("a number") as u32;
    let address = OVER_IPV4.parse().expect("an address");
    let (job, node) = (JobId(number("job") as u16), NodeId(number("node") as u16));
    let options = KeyedOptions { address, node, keys: keys(), lock_tables: true };
    let mut program = KeyedProgram::load(&options, arrangement(trace)).expect("it loads");
    let key = JobKey(trace["job_key"].as_u64().expect("a number"));
    program.run(job, key).expect("a job of the program");
    (0..number("workers") as u8).for_each(|rank| join(&mut program, address, (job, node), 0, rank));
    let mut round = number("first_round");
    program.open(0, round, number("map_version")).expect("nobody has the lock");
    for (index, step) in list(&trace["steps"]).iter().enumerate() {
        let at = format!("{at}, step {index}");
        let datagram = bytes(&step["arrives"]);
        let (header, _) = Header::ref_from_prefix(&datagram).expect("whole");
        let source = worker(address, header.contributor);
        let judged = program.judge(&udp_frame(source, address, &datagram)).expect("a run");
        assert_eq!(judged.verdict.name(), step["verdict"], "{at}");
        let leaves = bytes(&step["leaves"]);
        if !leaves.is_empty() {
            check_frame(&judged.frame, address, source, &leaves, &at);
        }
        let completed = step["completes"].as_bool().expect("a flag").then_some((0, round));
        assert_eq!(program.next_completion(), completed, "{at}");
        if completed.is_some() {
            round += 1;
            program.open(0, round, number("map_version")).expect("nobody has the lock");
        }
    }
    let tag = u64::from(round - number("first_round") + 1);
    let mut registers = 0;
    for array in list(&trace["cells"]) {
        let (name, cells) = (array[0].as_str().expect("a name"), list(&array[1]));
        let (map, first) = match name {
            "numbers" => ("keyed_numbers", 0),
            "missing" => ("keyed_missing", 0),
            "done" => ("keyed_done", 0),
            _ => ("keyed_registers", registers * cells.len()),
        };
        registers += usize::from(name == "register");
        for (index, cell) in cells.iter().enumerate() {
            let cell = cell.as_u64().expect("a cell");
            let expected = if cell >> 32 == tag { cell as u32 } else { 0 };
            let held = program.held(0, map, (first + index) as u32).expect("a cell");
            assert_eq!(held, expected, "{at}: {name}, cell {index}");
        }
    }
}

fn arrangement(trace: &Value) -> Arrangement {
    let number = |name: &str| trace[name].as_u64().expect("a number") as u32;
    let (registers, pairs) = (number("registers"), number("pairs"));
    let spec = KeyedSpec { registers, pairs, recirculations: number("recirculations") };
    let hot = HotTable {
        job: JobId(number("job") as u16),
        table: number("table") as u16,
        workers: number("workers") as u8,
        packets: number("packets"),
        keys: list(&trace["keys"]).iter().map(|key| key.as_u64().expect("a key")).collect(),
    };
    Arrangement::of(spec, &[hot]).expect("room")
}
