//! Links: each direction a queue that drains at a rate, then delay and misfortune.

use crate::{Conditions, Rng};

/// Picoseconds in a second: at 100 Gbit/s a byte takes 80 of them, and 64 bits hold 213 days.
pub const PS_PER_SECOND: f64 = 1e12;
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
    /// It met a queue beyond the threshold, or a link that marks at random.
    pub is_marked: bool,
    /// What arrives first is not what was sent.
    pub is_damaged: bool,
}

/// What a direction is, where it stands, and the books that every packet writes: two cache lines, as large networks live by them.
#[derive(Default)]
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
    conditions: Conditions,
    /// What [`Links::set`] changed of the time that the bytes so far took.
    earlier_ps: f64,
    bytes_dropped: u64,
    bytes_lost: u64,
    bytes_duplicated: u64,
    packets_marked: u64,
}

/// All directions of all links, each with a queue, its faults and its books.
///
/// The far end of a direction is a number that the caller chose. Nothing is allocated after [`Self::add`].
pub struct Links {
    wires: Vec<Wire>,
    mishaps: Vec<Mishaps>,
    /// Bytes that were taken off each direction's far end.
    arrived: Vec<u64>,
    /// Decides what happens to packets on directions that do harm.
    rng: Rng,
}

impl Links {
    /// None yet. Equal seeds and equal calls give equal misfortune.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let rng = Rng::new(seed);
        Self { wires: Vec::new(), mishaps: Vec::new(), arrived: Vec::new(), rng }
    }

    /// One more direction, to this far end; its number.
    pub fn add(&mut self, target: usize, conditions: &Conditions) -> u32 {
        let mut wire = Wire { target: target as u32, first_ps: NEVER, ..Wire::default() };
        wire.set(conditions);
        self.wires.push(wire);
        self.mishaps.push(Mishaps {
            conditions: *conditions,
            earlier_ps: 0.0,
            bytes_dropped: 0,
            bytes_lost: 0,
            bytes_duplicated: 0,
            packets_marked: 0,
        });
        self.arrived.push(0);
        self.wires.len() as u32 - 1
    }

    /// Changes a direction for what is put on it from now on.
    pub fn set(&mut self, direction: u32, conditions: &Conditions) {
        let mishaps = &mut self.mishaps[direction as usize];
        if mishaps.conditions == *conditions {
            return;
        }
        mishaps.conditions = *conditions;
        let wire = &mut self.wires[direction as usize];
        let before = wire.ps_per_byte;
        wire.set(conditions);
        let bytes = wire.bytes_in.saturating_sub(mishaps.bytes_dropped);
        mishaps.earlier_ps += bytes as f64 * (before - wire.ps_per_byte);
    }

    /// The far end.
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

    /// Picoseconds from the last byte sent to the last byte there.
    #[must_use]
    pub fn delay_ps(&self, direction: u32) -> u64 {
        self.wires[direction as usize].delay_ps
    }

    /// When the last byte that waits now will have left.
    #[must_use]
    pub fn free_at_ps(&self, direction: u32) -> u64 {
        self.wires[direction as usize].free_at_ps
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
    #[inline]
    pub fn carry(&mut self, direction: u32, now_ps: u64, bytes: u64) -> Carried {
        self.carry_noting(direction, now_ps, bytes, |_, _| {})
    }

    /// As [`Self::carry`]; `note` is told from when to when the bytes are sent, unless they are dropped.
    #[inline]
    pub fn carry_noting(
        &mut self,
        direction: u32,
        now_ps: u64,
        bytes: u64,
        note: impl FnOnce(u64, u64),
    ) -> Carried {
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
        note(begin_ps, wire.free_at_ps);
        let is_marked = waiting >= wire.ecn_bytes;
        if is_marked {
            self.mishaps[direction as usize].packets_marked += 1;
        }
        let at_ps = Some(wire.free_at_ps + wire.delay_ps);
        let carried = Carried { at_ps, is_marked, ..Carried::default() };
        if wire.is_perfect {
            wire.bytes_out += bytes;
            return carried;
        }
        harm(wire, &mut self.mishaps[direction as usize], &mut self.rng, bytes, carried)
    }

    /// What went in is on its way or has arrived, was dropped or was lost; and nothing was faster than its rate.
    ///
    /// # Errors
    /// Says which rule is broken, and in which direction.
    pub fn check(&self) -> Result<(), String> {
        let books = self.wires.iter().zip(&self.mishaps).zip(&self.arrived);
        for (direction, ((wire, mishaps), &arrived)) in books.enumerate() {
            let problem = wrong_books(wire, mishaps, arrived).or_else(|| too_fast(wire, mishaps));
            if let Some(problem) = problem {
                return Err(format!("direction {direction}: {problem}"));
            }
        }
        Ok(())
    }

    /// After the last event: nothing is on its way any more.
    ///
    /// # Errors
    /// Says which rule is broken, and in which direction.
    pub fn check_arrivals(&self) -> Result<(), String> {
        self.check()?;
        let mut books = self.wires.iter().zip(&self.arrived).enumerate();
        match books.find(|(_, (wire, arrived))| wire.bytes_out != **arrived) {
            None => Ok(()),
            Some((direction, (wire, arrived))) => {
                let sent = wire.bytes_out;
                Err(format!("direction {direction}: {arrived} bytes arrived of {sent}"))
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
    let bytes = wire.bytes_in.saturating_sub(mishaps.bytes_dropped);
    let sent = bytes as f64 * wire.ps_per_byte + mishaps.earlier_ps;
    let span = wire.free_at_ps.saturating_sub(wire.first_ps);
    // Each packet's time is rounded to a picosecond.
    (sent > span as f64 + wire.packets_in as f64)
        .then(|| format!("{sent} ps of bytes in {span} ps"))
}

impl Wire {
    fn set(&mut self, conditions: &Conditions) {
        self.ps_per_byte = conditions.rate_bps.map_or(0.0, |bps| 8.0 * PS_PER_SECOND / bps);
        self.bytes_per_ps = conditions.rate_bps.map_or(0.0, |bps| bps / (8.0 * PS_PER_SECOND));
        self.delay_ps = conditions.delay_ps;
        self.queue_bytes = conditions.queue_bytes;
        self.ecn_bytes = conditions.ecn_bytes.unwrap_or(u64::MAX);
        self.is_perfect = !conditions.do_harm();
    }
}

/// Loses a packet, makes it late, doubles it, marks it or damages it, in this order of chances.
fn harm(
    wire: &mut Wire,
    mishaps: &mut Mishaps,
    rng: &mut Rng,
    bytes: u64,
    carried: Carried,
) -> Carried {
    let faults = mishaps.conditions;
    if rng.chance(faults.loss) {
        mishaps.bytes_lost += bytes;
        return Carried { at_ps: None, ..carried };
    }
    let mut late = |chance, most: u64| rng.chance(chance).then(|| rng.below(most.max(1)));
    let at_ps = carried.at_ps.map(|at| at + late(faults.reordering, faults.jitter_ps).unwrap_or(0));
    let again_ps = late(faults.duplication, faults.late_ps).and_then(|by| Some(at_ps? + by));
    let copies = 1 + u64::from(again_ps.is_some());
    wire.bytes_out += copies * bytes;
    mishaps.bytes_duplicated += (copies - 1) * bytes;
    let is_unlucky = faults.marking > 0.0 && rng.chance(faults.marking);
    mishaps.packets_marked += u64::from(is_unlucky && !carried.is_marked);
    let is_damaged = faults.damage > 0.0 && rng.chance(faults.damage);
    Carried { at_ps, again_ps, is_marked: carried.is_marked || is_unlucky, is_damaged }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: u64 = 1000;

    /// Two packets on the first direction; one of them has arrived.
    fn used() -> Links {
        let mut links = Links::new(1);
        let gigabit =
            Conditions { rate_bps: Some(1e9), delay_ps: 5_000_000, ..Conditions::PERFECT };
        for target in 0..4 {
            links.add(target, &gigabit);
        }
        links.carry(0, 0, BYTES);
        links.carry(0, 0, BYTES);
        links.arrive(0, BYTES);
        links
    }

    fn broken_rule(outcome: Result<(), String>) -> String {
        outcome.expect_err("a broken rule")
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
