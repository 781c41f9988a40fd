//! Links: each direction a queue that drains at a rate, then delay and misfortune.

use wiresum_protocol::rng::Rng;

use super::{PS_PER_SECOND, picoseconds};
use crate::SimulationError;
use crate::scenario::{Direction, Scenario};

/// What crossed one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Packets that came to the queue, and their bytes on the wire.
    pub packets_in: u64,
    /// Bytes of these.
    pub bytes_in: u64,
    /// Packets that arrived at the other end, copies included.
    pub packets_out: u64,
    /// Bytes of these.
    pub bytes_out: u64,
    /// Bytes that the queue had no room for, or that came while the link was down.
    pub bytes_dropped: u64,
    /// Packets of these.
    pub packets_dropped: u64,
    /// Bytes that were lost on the way.
    pub bytes_lost: u64,
    /// Bytes of second copies.
    pub bytes_duplicated: u64,
    /// Packets that found more than the threshold waiting.
    pub packets_marked: u64,
    /// Most bytes that waited.
    pub queue_bytes_max: u64,
    /// When the first packet began to be sent.
    pub first_ps: Option<u64>,
    /// When the last one had been sent.
    pub last_ps: u64,
}

/// What became of a packet that was put on a link: when it arrives, and its second copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// When it arrives; `None` if it does not.
    pub at_ps: Option<u64>,
    /// When a second copy arrives.
    pub again_ps: Option<u64>,
    /// It met a queue beyond the threshold.
    pub is_marked: bool,
}

/// What a direction is, and where it stands.
struct Wire {
    target: u32,
    is_up: bool,
    is_perfect: bool,
    /// 0 without a limit.
    ps_per_byte: f64,
    delay_ps: u64,
    queue_bytes: u64,
    ecn_bytes: u64,
    jitter_ps: u64,
    /// When the last byte of the queue will have left.
    free_at_ps: u64,
    faults: Direction,
}

/// All directions of all links.
pub struct Links {
    wires: Vec<Wire>,
    loads: Vec<Load>,
    /// Of the directions that do harm.
    rng: Rng,
}

impl Links {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let both =
            scenario.links.iter().flat_map(|l| [(l.target, l.forward), (l.source, l.backward)]);
        let wires: Vec<Wire> = both.map(|(target, direction)| wire(target, direction)).collect();
        let loads = vec![Load::default(); wires.len()];
        Self { wires, loads, rng: Rng::new(scenario.seed ^ 0x11_4b5) }
    }

    /// Adds what a site does as one more direction, from the site to itself; its number.
    pub fn add_inner(&mut self, site: usize, rate_bps: f64) -> u32 {
        let direction = Direction {
            rate_bps: Some(rate_bps),
            delay_s: 0.0,
            queue_bytes: u64::MAX,
            ecn_bytes: None,
            loss: 0.0,
            duplication: 0.0,
            reordering: 0.0,
            jitter_s: 0.0,
        };
        self.wires.push(wire(site, direction));
        self.loads.push(Load::default());
        self.wires.len() as u32 - 1
    }

    /// The site at the far end.
    #[inline]
    #[must_use]
    pub fn end(&self, direction: u32) -> usize {
        self.wires[direction as usize].target as usize
    }

    /// bit/s; `None` without a limit.
    #[must_use]
    pub fn rate_bps(&self, direction: u32) -> Option<f64> {
        let ps_per_byte = self.wires[direction as usize].ps_per_byte;
        (ps_per_byte > 0.0).then(|| 8.0 * PS_PER_SECOND / ps_per_byte)
    }

    /// What has crossed it.
    #[must_use]
    pub fn load(&self, direction: u32) -> &Load {
        &self.loads[direction as usize]
    }

    /// Directions that there are.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.wires.len() as u32
    }

    /// Takes both directions of a link away, or gives them back.
    pub fn set_up(&mut self, link: usize, is_up: bool) {
        self.wires[2 * link].is_up = is_up;
        self.wires[2 * link + 1].is_up = is_up;
    }

    /// Puts `bytes` on a direction. First come, first served, so when they will have left is known at once: one event for each hop.
    ///
    /// A host's own queue holds its sender back and never drops: `is_own`.
    pub fn carry(&mut self, direction: u32, now_ps: u64, bytes: u64, is_own: bool) -> Carried {
        let wire = &mut self.wires[direction as usize];
        let load = &mut self.loads[direction as usize];
        load.packets_in += 1;
        load.bytes_in += bytes;
        let begin_ps = wire.free_at_ps.max(now_ps);
        let waiting = wire.waiting_bytes(begin_ps - now_ps);
        let has_room = is_own || waiting + bytes <= wire.queue_bytes.max(bytes);
        if !wire.is_up || !has_room {
            load.bytes_dropped += bytes;
            load.packets_dropped += 1;
            return Carried::default();
        }
        load.queue_bytes_max = load.queue_bytes_max.max(waiting);
        load.first_ps.get_or_insert(begin_ps);
        wire.free_at_ps = begin_ps + (bytes as f64 * wire.ps_per_byte).round() as u64;
        load.last_ps = wire.free_at_ps;
        let at_ps = wire.free_at_ps + wire.delay_ps;
        let is_marked = waiting >= wire.ecn_bytes;
        load.packets_marked += u64::from(is_marked);
        if wire.is_perfect {
            load.packets_out += 1;
            load.bytes_out += bytes;
            return Carried { at_ps: Some(at_ps), again_ps: None, is_marked };
        }
        harm(
            wire,
            load,
            &mut self.rng,
            bytes,
            Carried { at_ps: Some(at_ps), again_ps: None, is_marked },
        )
    }

    /// What went in has come out, was dropped or was lost; and nothing was faster than its rate.
    ///
    /// # Errors
    /// [`SimulationError::Invariant`] names the direction.
    pub fn check(&self) -> Result<(), SimulationError> {
        for (direction, (wire, load)) in self.wires.iter().zip(&self.loads).enumerate() {
            let into = load.bytes_in + load.bytes_duplicated;
            let out = load.bytes_out + load.bytes_dropped + load.bytes_lost;
            if into != out {
                let what = format!("direction {direction}: {into} bytes went in, {out} came out");
                return Err(SimulationError::Invariant(what));
            }
            let sent = (load.bytes_in - load.bytes_dropped) as f64 * wire.ps_per_byte;
            let span = load.last_ps - load.first_ps.unwrap_or(load.last_ps);
            // Each packet's time is rounded to a picosecond.
            if sent > span as f64 + load.packets_in as f64 {
                let what = format!("direction {direction}: {sent} ps of bytes in {span} ps");
                return Err(SimulationError::Invariant(what));
            }
        }
        Ok(())
    }
}

impl Wire {
    fn waiting_bytes(&self, waiting_ps: u64) -> u64 {
        if self.ps_per_byte > 0.0 { (waiting_ps as f64 / self.ps_per_byte) as u64 } else { 0 }
    }
}

fn wire(target: usize, direction: Direction) -> Wire {
    let harms = [direction.loss, direction.duplication, direction.reordering];
    Wire {
        target: target as u32,
        is_up: true,
        is_perfect: harms.iter().all(|chance| *chance == 0.0),
        ps_per_byte: direction.rate_bps.map_or(0.0, |bps| 8.0 * PS_PER_SECOND / bps),
        delay_ps: picoseconds(direction.delay_s),
        queue_bytes: direction.queue_bytes,
        ecn_bytes: direction.ecn_bytes.unwrap_or(u64::MAX),
        jitter_ps: picoseconds(direction.jitter_s).max(1),
        free_at_ps: 0,
        faults: direction,
    }
}

/// Loses a packet, makes it late, or doubles it.
fn harm(wire: &Wire, load: &mut Load, rng: &mut Rng, bytes: u64, carried: Carried) -> Carried {
    if rng.chance(wire.faults.loss) {
        load.bytes_lost += bytes;
        return Carried { at_ps: None, ..carried };
    }
    let mut late = |chance: f64| rng.chance(chance).then(|| rng.below(wire.jitter_ps));
    let at_ps = carried.at_ps.map(|at| at + late(wire.faults.reordering).unwrap_or(0));
    let again_ps = late(wire.faults.duplication).and_then(|by| Some(at_ps? + by));
    let copies = 1 + u64::from(again_ps.is_some());
    load.packets_out += copies;
    load.bytes_out += copies * bytes;
    load.bytes_duplicated += (copies - 1) * bytes;
    Carried { at_ps, again_ps, ..carried }
}
