//! Links: each direction a queue that drains at a rate, then delay and misfortune.

use wiresum_netem::Rng;

use super::{PS_PER_SECOND, picoseconds};
use crate::SimulationError;
use crate::scenario::{Direction, Scenario};
use crate::timeline::Loads;

/// No packet has been sent yet.
const NEVER: u64 = u64::MAX;

/// What crossed one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Bytes that arrive at the other end, copies included.
    pub bytes_out: u64,
    /// Bytes that the queue had no room for, or that came while the link was down.
    pub bytes_dropped: u64,
    /// Bytes that were lost on the way.
    pub bytes_lost: u64,
    /// Packets that found more than the threshold waiting.
    pub packets_marked: u64,
    /// Most bytes that waited.
    pub queue_bytes_max: u64,
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

/// What a direction is, where it stands, and the books that every packet writes: two cache lines, as large networks live by them.
#[repr(align(64))]
struct Wire {
    /// 0 without a limit.
    ps_per_byte: f64,
    bytes_per_ps: f64,
    /// When the last byte of the queue will have left.
    free_at_ps: u64,
    delay_ps: u64,
    queue_bytes: u64,
    ecn_bytes: u64,
    target: u32,
    /// Failures that hold it down.
    failures: u32,
    /// Packets that came to the queue, and their bytes on the wire.
    packets_in: u64,
    bytes_in: u64,
    /// Bytes that arrive at the other end, copies included.
    bytes_out: u64,
    queue_bytes_max: u64,
    /// When the first packet began to be sent.
    first_ps: u64,
    is_perfect: bool,
}

/// What only some directions do, and some packets meet.
#[derive(Clone, Copy, Debug)]
struct Mishaps {
    faults: Direction,
    jitter_ps: u64,
    bytes_dropped: u64,
    bytes_lost: u64,
    bytes_duplicated: u64,
    packets_marked: u64,
}

/// All directions of all links.
pub struct Links {
    wires: Vec<Wire>,
    mishaps: Vec<Mishaps>,
    /// Bytes that were taken off each direction's far end.
    arrived: Vec<u64>,
    timeline: Option<Loads>,
    /// Of the directions that do harm.
    rng: Rng,
}

impl Links {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let mut links = Self {
            wires: Vec::new(),
            mishaps: Vec::new(),
            arrived: Vec::new(),
            timeline: scenario.timeline.then(|| Loads::new(2 * scenario.links.len())),
            rng: Rng::new(scenario.seed ^ 0x11_4b5),
        };
        for link in &scenario.links {
            let ends = [(link.source, link.target), (link.target, link.source)];
            for ((from, to), direction) in ends.into_iter().zip([link.forward, link.backward]) {
                // A host's own queue holds its sender back and never drops, as a socket does.
                let is_own = !scenario.sites[from].forwards;
                let queue_bytes = if is_own { u64::MAX } else { direction.queue_bytes };
                links.add(to, Direction { queue_bytes, ..direction });
            }
        }
        links
    }

    fn add(&mut self, target: usize, direction: Direction) {
        self.wires.push(wire(target, direction));
        self.mishaps.push(Mishaps {
            faults: direction,
            jitter_ps: picoseconds(direction.jitter_s).max(1),
            bytes_dropped: 0,
            bytes_lost: 0,
            bytes_duplicated: 0,
            packets_marked: 0,
        });
        self.arrived.push(0);
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
        self.add(site, direction);
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
    pub fn load(&self, direction: u32) -> Load {
        let (wire, mishaps) = (&self.wires[direction as usize], &self.mishaps[direction as usize]);
        Load {
            bytes_out: wire.bytes_out,
            bytes_dropped: mishaps.bytes_dropped,
            bytes_lost: mishaps.bytes_lost,
            packets_marked: mishaps.packets_marked,
            queue_bytes_max: wire.queue_bytes_max,
        }
    }

    /// Directions that there are.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.wires.len() as u32
    }

    /// What was sent over time, if that is kept.
    pub(crate) fn timeline(&self) -> Option<&Loads> {
        self.timeline.as_ref()
    }

    /// One more failure of both directions of a link, or one less.
    pub fn fail(&mut self, link: usize, is_back: bool) {
        for wire in &mut self.wires[2 * link..2 * link + 2] {
            wire.failures =
                if is_back { wire.failures.saturating_sub(1) } else { wire.failures + 1 };
        }
    }

    /// Takes bytes off the far end of a direction: each that [`Self::carry`] said would arrive, once.
    #[inline]
    pub fn arrive(&mut self, direction: u32, bytes: u64) {
        self.arrived[direction as usize] += bytes;
    }

    /// Puts `bytes` on a direction. First come, first served, so when they will have left is known at once: one event for each hop.
    pub fn carry(&mut self, direction: u32, now_ps: u64, bytes: u64) -> Carried {
        let wire = &mut self.wires[direction as usize];
        wire.packets_in += 1;
        wire.bytes_in += bytes;
        let begin_ps = wire.free_at_ps.max(now_ps);
        let waiting = ((begin_ps - now_ps) as f64 * wire.bytes_per_ps) as u64;
        let has_room = waiting.saturating_add(bytes) <= wire.queue_bytes.max(bytes);
        if wire.failures > 0 || !has_room {
            self.mishaps[direction as usize].bytes_dropped += bytes;
            return Carried::default();
        }
        wire.queue_bytes_max = wire.queue_bytes_max.max(waiting);
        wire.first_ps = wire.first_ps.min(begin_ps);
        // Rounded to a picosecond.
        wire.free_at_ps = begin_ps + (bytes as f64 * wire.ps_per_byte + 0.5) as u64;
        if let Some(timeline) = &mut self.timeline {
            timeline.note(direction, begin_ps, wire.free_at_ps, bytes as f64);
        }
        let is_marked = waiting >= wire.ecn_bytes;
        if is_marked {
            self.mishaps[direction as usize].packets_marked += 1;
        }
        let at_ps = Some(wire.free_at_ps + wire.delay_ps);
        let carried = Carried { at_ps, again_ps: None, is_marked };
        if wire.is_perfect {
            wire.bytes_out += bytes;
            return carried;
        }
        harm(wire, &mut self.mishaps[direction as usize], &mut self.rng, bytes, carried)
    }

    /// What went in is on its way or has arrived, was dropped or was lost; and nothing was faster than its rate.
    ///
    /// # Errors
    /// [`SimulationError::Invariant`] names the direction.
    pub fn check(&self) -> Result<(), SimulationError> {
        let books = self.wires.iter().zip(&self.mishaps).zip(&self.arrived);
        for (direction, ((wire, mishaps), &arrived)) in books.enumerate() {
            let problem = wrong_books(wire, mishaps, arrived).or_else(|| too_fast(wire, mishaps));
            if let Some(problem) = problem {
                let what = format!("direction {direction}: {problem}");
                return Err(SimulationError::Invariant(what));
            }
        }
        Ok(())
    }

    /// After the last event: nothing is on its way any more.
    ///
    /// # Errors
    /// [`SimulationError::Invariant`] names the direction.
    pub fn check_arrivals(&self) -> Result<(), SimulationError> {
        self.check()?;
        let mut books = self.wires.iter().zip(&self.arrived).enumerate();
        match books.find(|(_, (wire, arrived))| wire.bytes_out != **arrived) {
            None => Ok(()),
            Some((direction, (wire, arrived))) => {
                let sent = wire.bytes_out;
                let what = format!("direction {direction}: {arrived} bytes arrived of {sent}");
                Err(SimulationError::Invariant(what))
            }
        }
    }
}

/// Bytes that came from nowhere, or went there.
fn wrong_books(wire: &Wire, mishaps: &Mishaps, arrived: u64) -> Option<String> {
    let into = wire.bytes_in + mishaps.bytes_duplicated;
    let out = wire.bytes_out + mishaps.bytes_dropped + mishaps.bytes_lost;
    if into != out {
        return Some(format!("{into} bytes went in, {out} came out"));
    }
    let sent = wire.bytes_out;
    (arrived > sent).then(|| format!("{arrived} bytes arrived of {sent}"))
}

fn too_fast(wire: &Wire, mishaps: &Mishaps) -> Option<String> {
    let sent = (wire.bytes_in - mishaps.bytes_dropped.min(wire.bytes_in)) as f64 * wire.ps_per_byte;
    let span = wire.free_at_ps.saturating_sub(wire.first_ps);
    // Each packet's time is rounded to a picosecond.
    (sent > span as f64 + wire.packets_in as f64)
        .then(|| format!("{sent} ps of bytes in {span} ps"))
}

fn wire(target: usize, direction: Direction) -> Wire {
    let harms = [direction.loss, direction.duplication, direction.reordering];
    Wire {
        ps_per_byte: direction.rate_bps.map_or(0.0, |bps| 8.0 * PS_PER_SECOND / bps),
        bytes_per_ps: direction.rate_bps.map_or(0.0, |bps| bps / (8.0 * PS_PER_SECOND)),
        free_at_ps: 0,
        delay_ps: picoseconds(direction.delay_s),
        queue_bytes: direction.queue_bytes,
        ecn_bytes: direction.ecn_bytes.unwrap_or(u64::MAX),
        target: target as u32,
        failures: 0,
        packets_in: 0,
        bytes_in: 0,
        bytes_out: 0,
        queue_bytes_max: 0,
        first_ps: NEVER,
        is_perfect: harms.iter().all(|chance| *chance == 0.0),
    }
}

/// Loses a packet, makes it late, or doubles it.
fn harm(
    wire: &mut Wire,
    mishaps: &mut Mishaps,
    rng: &mut Rng,
    bytes: u64,
    carried: Carried,
) -> Carried {
    let faults = mishaps.faults;
    if rng.chance(faults.loss) {
        mishaps.bytes_lost += bytes;
        return Carried { at_ps: None, ..carried };
    }
    let mut late = |chance: f64| rng.chance(chance).then(|| rng.below(mishaps.jitter_ps));
    let at_ps = carried.at_ps.map(|at| at + late(faults.reordering).unwrap_or(0));
    let again_ps = late(faults.duplication).and_then(|by| Some(at_ps? + by));
    let copies = 1 + u64::from(again_ps.is_some());
    wire.bytes_out += copies * bytes;
    mishaps.bytes_duplicated += (copies - 1) * bytes;
    Carried { at_ps, again_ps, ..carried }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{GIGABIT, Tree, scenario};

    const BYTES: u64 = 1000;

    /// Two packets on the first direction; one of them has arrived.
    fn used() -> Links {
        let mut links = Links::new(&scenario(&Tree::star(2), "pool", 4, GIGABIT));
        links.carry(0, 0, BYTES);
        links.carry(0, 0, BYTES);
        links.arrive(0, BYTES);
        links
    }

    fn broken_rule(outcome: Result<(), SimulationError>) -> String {
        match outcome {
            Err(SimulationError::Invariant(what)) => what,
            other => panic!("{other:?} instead of a broken rule"),
        }
    }

    #[test]
    fn what_is_on_its_way_is_missing_only_in_the_end() {
        let mut links = used();
        assert_eq!(links.check(), Ok(()));
        assert!(broken_rule(links.check_arrivals()).contains("1000 bytes arrived of 2000"));
        links.arrive(0, BYTES);
        assert_eq!(links.check_arrivals(), Ok(()));
    }

    #[test]
    fn a_byte_that_comes_from_nowhere_is_seen() {
        let mut links = used();
        links.arrive(0, BYTES + 1);
        assert!(broken_rule(links.check()).contains("2001 bytes arrived of 2000"));
    }

    #[test]
    fn a_byte_that_goes_nowhere_is_seen() {
        let mut links = used();
        links.mishaps[0].bytes_dropped += 1;
        assert!(broken_rule(links.check()).contains("2000 bytes went in, 2001 came out"));
    }

    #[test]
    fn a_direction_that_is_too_fast_is_seen() {
        let mut links = used();
        links.wires[0].free_at_ps = 0;
        links.carry(0, 0, BYTES);
        assert!(broken_rule(links.check()).contains("ps of bytes in"));
    }

    #[test]
    fn failures_that_overlap_have_all_to_end() {
        let mut links = used();
        links.fail(0, false);
        links.fail(0, false);
        links.fail(0, true);
        assert_eq!(links.carry(1, 0, BYTES), Carried::default());
        links.fail(0, true);
        assert!(links.carry(1, 0, BYTES).at_ps.is_some());
    }
}
