//! How often the program sends packets round again: counted by the program itself.

use wiresum_switch::keyed::Body;
use wiresum_switch::keyed::{Arrangement, HotTable, KeyedSpec, KeyedSwitch, Packet, Pair};
use wiresum_switch::rmt::Profile;
use wiresum_wire::{JobId, Verdict};

use crate::layout::{Layout, Packets};

/// Registers of the largest program that the model of a pipeline takes: it has 48 arrays, and three are for other things.
pub const MAX_PROGRAM_REGISTERS: u32 = 45;

const JOB: JobId = JobId(0);

/// Sends one push of `rows` positions through the program; the recirculations of all its packets. `None` if the layout has more
/// registers than a program can have.
///
/// # Panics
/// If a packet has more than `pairs` pairs, or a position beyond `rows`.
#[must_use]
pub fn recirculations(packets: &Packets, layout: &Layout, rows: u32, pairs: u32) -> Option<u64> {
    if layout.registers() > MAX_PROGRAM_REGISTERS {
        return None;
    }
    let mut keys = vec![0; rows as usize];
    (0..rows).for_each(|position| keys[layout.place(position) as usize] = u64::from(position));
    let spec = KeyedSpec { registers: layout.registers(), pairs, recirculations: pairs - 1 };
    let count = packets.len() as u32;
    let hot = HotTable { job: JOB, table: 0, workers: 1, packets: count, keys };
    let arrangement = Arrangement::of(spec, &[hot]).expect("a layout has registers");
    // Passes are counted here, and not bounded as a switch would.
    let mut program = KeyedSwitch::new(arrangement, &Profile::UNLIMITED).expect("no limits");
    program.open(0, 0, 0);
    let send = |(number, positions): (u32, &[u32])| {
        let pair = |position: &u32| Pair { key: u64::from(*position), value: 1 };
        let body = Body::Pairs(positions.iter().map(pair).collect());
        let packet = Packet { table: 0, worker: 0, round: 0, number, map_version: 0, body };
        let handled = program.handle(JOB, &packet);
        assert_eq!(handled.verdict, Verdict::Added, "packet {number} of {count}");
        u64::from(handled.recirculations)
    };
    Some((0..).zip(packets.iter()).map(send).sum())
}
