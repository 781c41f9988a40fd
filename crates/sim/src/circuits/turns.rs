//! A schedule with names, for packets and trains: which links have light, and whose gates are open.
//!
//! Who holds packets asks [`Runner::next_s`] when something changes next, does what [`Runner::step`] says then, and tells
//! it of every packet that leaves a circuit. Light is that of [`super::light`], a pair of units for each circuit.

use serde::Deserialize;
use wiresum_netem::Links;
use wiresum_schedule::Darkens;

use super::Fault;
use super::light::{Fibres, Light};
use crate::network::{picoseconds, seconds};
use crate::{Record, SimulationError, Sink};

/// Relative excess that rounding to picoseconds explains, for packets of any length.
const SLACK: f64 = 1e-6;

/// Seconds between two looks whether a job has ended that others wait for.
const LOOK_S: f64 = 0.000_5;

/// Seconds that an interval waits for a job that is late; then others go on without it, as they do live.
const MOST_LATE_S: f64 = 30.0;

/// A timetable whose circuits are links of the scenario, and whose jobs are the scenario's.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turns {
    /// Name of the optical switch, for records.
    pub switch: String,
    /// Ports of each unit.
    pub ports: Vec<u32>,
    /// Seconds in which a new circuit carries nothing.
    pub dark_s: f64,
    /// Which circuits are dark after a change.
    #[serde(default)]
    pub darkens: Darkens,
    /// Rate of a circuit, each direction, in bit/s.
    pub port_bps: f64,
    /// Every circuit that is ever lit.
    pub circuits: Vec<Named>,
    /// In order of time; between two of them everything stays as it is.
    pub intervals: Vec<Turn>,
    /// For each job, the indices of the circuits on its ways.
    pub jobs: Vec<Vec<usize>>,
    /// Whether gates wait for light. Otherwise they open with their interval, and what meets darkness is lost.
    pub announced: bool,
    /// Whether an interval begins only when all jobs have ended that have no rate in it or later, as the driver has it;
    /// all later ones are as late then. Who is late with light sends as fast as it can. Who is late otherwise, or has no
    /// light, is served when the timetable is over.
    #[serde(default)]
    pub waits: bool,
    /// What fails.
    #[serde(default)]
    pub faults: Vec<Fault>,
    /// When the run stops and says what is seen, in seconds: a scheduler that is asked at each slot wants to know. All jobs
    /// end where absent.
    #[serde(default)]
    pub stop_s: Option<f64>,
}

/// A circuit.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Named {
    /// Index of the link that it is.
    pub link: usize,
    /// Indices of its two units, ascending.
    pub between: [usize; 2],
}

/// An interval.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// When it begins, in seconds.
    pub from_s: f64,
    /// When it ends.
    pub until_s: f64,
    /// Indices of the circuits that it has.
    pub circuits: Vec<usize>,
    /// Job, and bit/s on the cable at which each of its workers sends.
    pub rates: Vec<(usize, f64)>,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Change {
    /// A link got light, or lost it.
    Light { link: usize, is_lit: bool },
    /// A job's workers may send so many bit/s, which is nothing if it is 0, and as many as they can if it is infinite; they
    /// begin if they have not begun.
    Gate { job: usize, rate_bps: f64, is_first: bool },
}

/// One direction of a circuit.
#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    /// Packets that leave in this time were sent into darkness.
    void_from_ps: u64,
    void_until_ps: u64,
    /// Bytes that have crossed.
    bytes: u64,
}

/// Where a job stands.
#[derive(Clone, Copy, Debug, Default)]
struct Gate {
    has_begun: bool,
    /// Its interval's rate, or that of its last one if it is late; 0 before its first one and after its last sum.
    wanted_bps: f64,
    /// What its workers were told.
    open_bps: f64,
}

/// Follows a schedule.
pub(crate) struct Runner<'a> {
    turns: &'a Turns,
    light: Light,
    gates: Vec<Gate>,
    /// By circuit: what was told of it.
    is_lit: Vec<bool>,
    /// By link: the circuit that it is.
    circuit_of: Vec<Option<u32>>,
    lanes: Vec<[Lane; 2]>,
    /// By job: the interval in which it has a rate for the last time.
    last: Vec<usize>,
    next: usize,
    next_turn_s: f64,
    /// How much later than planned intervals begin, and how much of it the next one has waited.
    late_s: f64,
    waited_s: f64,
    lost_bytes: u64,
}

impl<'a> Runner<'a> {
    /// All circuits are dark, and all gates shut, before the first step.
    pub fn new(turns: &'a Turns, links: usize) -> Self {
        let mut circuit_of = vec![None; links];
        for (index, circuit) in (0..).zip(&turns.circuits) {
            circuit_of[circuit.link] = Some(index);
        }
        let count = turns.circuits.len();
        let fibres = Fibres {
            pairs: turns.circuits.iter().map(|circuit| circuit.between).collect(),
            before: vec![0; count],
            ports: turns.ports.clone(),
            dark_s: turns.dark_s,
            darkens: turns.darkens,
            circuit_rate: turns.port_bps / 8.0,
        };
        Self {
            light: Light::new(fibres, &turns.faults),
            gates: vec![Gate::default(); turns.jobs.len()],
            is_lit: vec![false; count],
            circuit_of,
            lanes: vec![[Lane::default(); 2]; count],
            last: last_turns(turns),
            next: 0,
            late_s: 0.0,
            waited_s: 0.0,
            next_turn_s: turns.intervals.first().map_or(f64::INFINITY, |turn| turn.from_s),
            lost_bytes: 0,
            turns,
        }
    }

    /// Links that are circuits, which have no light yet.
    pub fn dark_links(&self) -> impl Iterator<Item = usize> + 'a {
        self.turns.circuits.iter().map(|circuit| circuit.link)
    }

    /// When something changes next; none if nothing ever does.
    pub fn next_ps(&self) -> Option<u64> {
        let next_s = self.next_turn_s.min(self.light.next_s());
        next_s.is_finite().then(|| picoseconds(next_s))
    }

    /// What changes now. `is_over` says which jobs have all their sums.
    ///
    /// # Errors
    /// [`SimulationError::Invariant`] names a circuit that has carried more than it had light for.
    pub fn step(
        &mut self,
        now_ps: u64,
        is_over: impl Fn(usize) -> bool,
        links: &Links,
    ) -> Result<Vec<Change>, SimulationError> {
        // What is due at this picosecond is due, whatever its seconds were rounded from.
        let due_s = self.next_turn_s.min(self.light.next_s());
        let now_s = if picoseconds(due_s) == now_ps { due_s } else { seconds(now_ps) };
        self.shine_until(now_s)?;
        self.light.fail();
        if self.next_turn_s <= now_s {
            self.turn(now_s, &is_over);
        }
        let mut changes = self.darken(now_ps, links);
        changes.extend(self.tell_gates());
        Ok(changes)
    }

    /// A packet or train of so many bytes has come to the end of a direction. Whether it has: its circuit went dark
    /// before it was sent, if not.
    #[inline]
    pub fn note_arrival(&mut self, direction: u32, now_ps: u64, bytes: u64) -> bool {
        let circuit = self.circuit_of.get(direction as usize / 2).copied().flatten();
        let Some(circuit) = circuit else { return true };
        let lane = &mut self.lanes[circuit as usize][direction as usize % 2];
        let is_void = lane.void_from_ps < now_ps && now_ps <= lane.void_until_ps;
        if is_void {
            self.lost_bytes += bytes;
        } else {
            lane.bytes += bytes;
        }
        !is_void
    }

    /// When the run stops, whether all jobs have ended or not.
    pub fn stop_ps(&self) -> Option<u64> {
        self.turns.stop_s.map(picoseconds)
    }

    /// Says what is seen when the run stops. Results are packets that all workers of each job have, at least.
    ///
    /// # Errors
    /// As [`Self::step`].
    pub fn look(
        &mut self,
        results: Vec<u64>,
        is_over: impl Fn(usize) -> bool,
        sink: &mut Sink,
    ) -> Result<(), SimulationError> {
        let at_s = self.turns.stop_s.unwrap_or_default();
        self.shine_until(at_s)?;
        self.light.fail();
        let there = self.light.circuits().into_iter().enumerate();
        let record = Record::Sight {
            at_s,
            is_over: (0..results.len()).map(is_over).collect(),
            results,
            circuits: there.filter(|(_, count)| *count > 0).map(|(index, _)| index).collect(),
            ports: self.light.ports(),
        };
        crate::record::tell(sink, &record)
    }

    /// The last packet has arrived: no circuit has carried more than it had light for, as at every step before.
    ///
    /// # Errors
    /// As [`Self::step`].
    pub fn end(&mut self, now_ps: u64) -> Result<(), SimulationError> {
        self.shine_until(seconds(now_ps))
    }

    fn shine_until(&mut self, now_s: f64) -> Result<(), SimulationError> {
        self.light.shine_until(now_s);
        for (index, lanes) in self.lanes.iter().enumerate() {
            let light = self.light.bytes[index] * (1.0 + SLACK) + SLACK;
            if let Some(lane) = lanes.iter().find(|lane| lane.bytes as f64 > light) {
                let link = self.turns.circuits[index].link;
                return Err(SimulationError::Invariant(format!(
                    "{} bytes crossed the circuit that is link {link}, and there was light for {light}",
                    lane.bytes
                )));
            }
        }
        Ok(())
    }

    /// Set-ups, orders, and bytes that were sent into darkness.
    pub fn report(&self, sink: &mut Sink) -> Result<(), SimulationError> {
        let counts = [
            ("setups", self.light.setups),
            ("orders", self.light.orders),
            ("dark_bytes", self.lost_bytes),
        ];
        counts.into_iter().try_for_each(|(name, count)| {
            let (site, job, name) = (self.turns.switch.clone(), String::new(), name.to_owned());
            crate::record::tell(sink, &Record::Counter { site, job, name, count })
        })
    }

    /// The next interval begins. After the last one there are circuits for those who are late, tried again from time to
    /// time as long as somebody is.
    fn turn(&mut self, now_s: f64, is_over: &impl Fn(usize) -> bool) {
        let late = self.late(is_over);
        for &job in &late {
            self.gates[job].wanted_bps = f64::INFINITY;
        }
        let is_planned = self.next < self.turns.intervals.len();
        if !late.is_empty() && is_planned && self.waited_s < MOST_LATE_S {
            self.late_s += LOOK_S;
            self.waited_s += LOOK_S;
            self.next_turn_s = now_s + LOOK_S;
            return;
        }
        self.waited_s = 0.0;
        let mut wanted = vec![0; self.turns.circuits.len()];
        let turn = self.turns.intervals.get(self.next);
        for (job, gate) in self.gates.iter_mut().enumerate() {
            if is_over(job) {
                gate.wanted_bps = 0.0;
            } else if turn.is_none() && gate.wanted_bps > 0.0 {
                self.turns.jobs[job].iter().for_each(|circuit| wanted[*circuit] = 1);
            }
        }
        if let Some(turn) = turn {
            turn.circuits.iter().for_each(|circuit| wanted[*circuit] = 1);
            turn.rates.iter().for_each(|&(job, bps)| self.gates[job].wanted_bps = bps);
        }
        self.light.order(&wanted);
        self.next += 1;
        let last = self.turns.intervals.last().map_or(0.0, |last| last.until_s - last.from_s);
        self.next_turn_s = match (self.turns.intervals.get(self.next), turn) {
            (Some(next), _) => next.from_s + self.late_s,
            (None, Some(turn)) => turn.until_s + self.late_s,
            (None, None) if self.gates.iter().any(|gate| gate.wanted_bps > 0.0) => now_s + last,
            (None, None) => f64::INFINITY,
        };
    }

    /// Jobs that are waited for, or have not ended with the timetable: they have no rate any more in what is due, and have
    /// light or get some.
    fn late(&self, is_over: &impl Fn(usize) -> bool) -> Vec<usize> {
        if !self.turns.waits || self.next > self.turns.intervals.len() {
            return Vec::new();
        }
        let is_late = |job: &usize| {
            let circuits = &self.turns.jobs[*job];
            self.last[*job] < self.next
                && self.gates[*job].wanted_bps > 0.0
                && !is_over(*job)
                && circuits.iter().all(|circuit| self.light.dark_s(*circuit).is_finite())
        };
        (0..self.last.len()).filter(is_late).collect()
    }

    /// Links that have light now and had none, or the other way round. What waits for a circuit that goes dark is sent
    /// into darkness.
    fn darken(&mut self, now_ps: u64, links: &Links) -> Vec<Change> {
        let mut changes = Vec::new();
        for (index, circuit) in self.turns.circuits.iter().enumerate() {
            let is_lit = self.light.lit(index) > 0;
            if self.is_lit[index] == is_lit {
                continue;
            }
            self.is_lit[index] = is_lit;
            for (lane, direction) in self.lanes[index].iter_mut().zip(2 * circuit.link as u32..) {
                if !is_lit {
                    let delay_ps = links.delay_ps(direction);
                    lane.void_from_ps = now_ps + delay_ps;
                    lane.void_until_ps = links.free_at_ps(direction).max(now_ps) + delay_ps;
                }
            }
            changes.push(Change::Light { link: circuit.link, is_lit });
        }
        changes
    }

    /// Gates that open, shut or change their rate. Where changes are announced, a gate whose circuits are dark by an
    /// order waits for them.
    fn tell_gates(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        for (job, gate) in self.gates.iter_mut().enumerate() {
            let has_light = || self.turns.jobs[job].iter().all(|circuit| self.is_lit[*circuit]);
            let waits = self.turns.announced && gate.wanted_bps > 0.0 && !has_light();
            let rate_bps = if waits { 0.0 } else { gate.wanted_bps };
            if gate.open_bps != rate_bps {
                gate.open_bps = rate_bps;
                let is_first = !std::mem::replace(&mut gate.has_begun, true);
                changes.push(Change::Gate { job, rate_bps, is_first });
            }
        }
        changes
    }
}

/// For each job, the last interval in which it has a rate.
fn last_turns(turns: &Turns) -> Vec<usize> {
    let mut last = vec![0; turns.jobs.len()];
    for (index, turn) in turns.intervals.iter().enumerate() {
        turn.rates.iter().for_each(|(job, _)| last[*job] = index);
    }
    last
}

#[cfg(test)]
mod tests {
    use super::super::Faulty;
    use super::*;
    use wiresum_netem::{Conditions, PS_PER_SECOND};

    /// Bytes of the packets that are sent, each in a hundredth of a second.
    const PACKET: u64 = 10_000;
    const RATE_BPS: f64 = 8.0 * 100.0 * PACKET as f64;

    /// Two units with one port each, joined by either of two links: one in the first second, the other in the next two.
    fn turns(announced: bool, faults: Vec<Fault>) -> Turns {
        let circuit = |link| Named { link, between: [0, 1] };
        let turn = |from_s: f64, until_s, job| Turn {
            from_s,
            until_s,
            circuits: vec![job],
            rates: vec![(job, RATE_BPS)],
        };
        Turns {
            switch: "oxc".to_owned(),
            ports: vec![1, 1],
            dark_s: 0.1,
            darkens: Darkens::Added,
            port_bps: RATE_BPS,
            circuits: vec![circuit(0), circuit(1)],
            intervals: vec![turn(0.0, 1.0, 0), turn(1.0, 3.0, 1)],
            jobs: vec![vec![0], vec![1]],
            announced,
            waits: false,
            faults,
            stop_s: None,
        }
    }

    fn links() -> Links {
        let mut links = Links::new(1);
        let wire = Conditions { rate_bps: Some(RATE_BPS), ..Conditions::PERFECT };
        for end in 0..4 {
            links.add(end % 2, &wire);
        }
        links
    }

    /// All changes until some time, with their seconds.
    fn changes(runner: &mut Runner<'_>, links: &Links, until_s: f64) -> Vec<(f64, Change)> {
        let mut all = Vec::new();
        while let Some(at_ps) = runner.next_ps().filter(|at_ps| seconds(*at_ps) <= until_s) {
            // The second job has all its sums when the timetable asks, the first one never.
            let changes = runner.step(at_ps, |job| job == 1, links).expect("light is conserved");
            all.extend(changes.into_iter().map(|change| (seconds(at_ps), change)));
        }
        all
    }

    fn light(link: usize, is_lit: bool) -> Change {
        Change::Light { link, is_lit }
    }

    fn gate(job: usize, rate_bps: f64, is_first: bool) -> Change {
        Change::Gate { job, rate_bps, is_first }
    }

    #[test]
    fn announced_gates_open_with_their_light_and_others_before() {
        let (lit, open) = (light(0, true), gate(0, RATE_BPS, true));
        for (announced, wanted) in
            [(true, [(0.1, lit), (0.1, open)]), (false, [(0.0, open), (0.1, lit)])]
        {
            let turns = turns(announced, Vec::new());
            let mut runner = Runner::new(&turns, 2);
            assert_eq!(changes(&mut runner, &links(), 0.5), wanted);
        }
    }

    /// The first job has not ended: its gate shuts with its light, and after the timetable it has its circuit again.
    #[test]
    fn who_is_late_waits_for_the_end_of_the_timetable() {
        let turns = turns(true, Vec::new());
        let mut runner = Runner::new(&turns, 2);
        let all = changes(&mut runner, &links(), 3.2);
        let of_first = [(1.0, gate(0, 0.0, false)), (3.1, gate(0, RATE_BPS, false))];
        assert!(of_first.iter().all(|one| all.contains(one)), "{all:?}");
    }

    /// The first job never ends: the second one begins when nobody waits any longer.
    #[test]
    fn an_interval_waits_for_who_has_to_end_before_it() {
        let turns = Turns { waits: true, ..turns(true, Vec::new()) };
        let mut runner = Runner::new(&turns, 2);
        let all = changes(&mut runner, &links(), 1.0 + 2.0 * MOST_LATE_S);
        assert!(all.contains(&(1.0, gate(0, f64::INFINITY, false))), "{all:?}");
        let (at_s, _) = all.iter().find(|(_, one)| *one == light(1, true)).expect("its turn");
        assert!((at_s - (1.0 + MOST_LATE_S + 0.1)).abs() < 2.0 * LOOK_S, "{at_s}");
    }

    /// The first job's circuit does not come up: the second one begins in its turn.
    #[test]
    fn nobody_waits_for_who_has_no_light() {
        let faults = vec![Fault { what: Faulty::Circuit([0, 1]), at_s: 0.0, until_s: Some(0.5) }];
        let turns = Turns { waits: true, ..turns(true, faults) };
        let mut runner = Runner::new(&turns, 2);
        let all = changes(&mut runner, &links(), 2.0);
        assert_eq!(all, [(1.1, light(1, true)), (1.1, gate(1, RATE_BPS, true))]);
    }

    #[test]
    fn a_circuit_that_does_not_come_up_is_tried_again() {
        let what = Faulty::Circuit([1, 0]);
        let faults = vec![Fault { what, at_s: 0.5, until_s: Some(2.0) }];
        let never = turns(true, faults);
        let mut runner = Runner::new(&never, 2);
        let all = changes(&mut runner, &links(), 3.5);
        let lit: Vec<f64> =
            all.iter().filter(|(_, one)| *one == light(1, true)).map(|(at_s, _)| *at_s).collect();
        assert!(lit.is_empty() && all.contains(&(3.1, light(0, true))), "{all:?}");
        assert_eq!(runner.light.setups, 3);
        let faults = vec![Fault { what: Faulty::Circuit([0, 1]), at_s: 0.0, until_s: Some(0.5) }];
        let mut once = turns(true, faults);
        once.intervals = [0.0, 1.0]
            .map(|from_s| Turn { from_s, until_s: from_s + 1.0, ..once.intervals[0].clone() })
            .into();
        let mut runner = Runner::new(&once, 2);
        assert_eq!(
            changes(&mut runner, &links(), 1.5),
            [(1.1, light(0, true)), (1.1, gate(0, RATE_BPS, true))]
        );
    }

    /// Ten packets wait when the light goes: those that have left have crossed, others have not.
    #[test]
    fn what_waits_when_the_light_goes_is_lost() {
        let turns = turns(true, Vec::new());
        let (mut runner, mut links) = (Runner::new(&turns, 2), links());
        changes(&mut runner, &links, 0.5);
        let now_ps = picoseconds(0.955);
        let arrivals: Vec<u64> =
            (0..10).filter_map(|_| links.carry(0, now_ps, PACKET).at_ps).collect();
        changes(&mut runner, &links, 1.0);
        let crossed = arrivals.iter().filter(|at_ps| runner.note_arrival(0, **at_ps, PACKET));
        assert_eq!(crossed.count(), 4);
        assert_eq!((runner.lost_bytes, runner.note_arrival(2, now_ps, PACKET)), (6 * PACKET, true));
    }

    /// At 0.8 s the first circuit is lit, or has gone with its port.
    #[test]
    fn who_looks_sees_what_is_lit_and_what_works() {
        let stuck = Fault { what: Faulty::Port(1), at_s: 0.8, until_s: None };
        for (faults, lit, ports) in
            [(vec![], vec![0], vec![1, 1]), (vec![stuck], vec![], vec![1, 0])]
        {
            let turns = Turns { stop_s: Some(0.8), ..turns(true, faults) };
            let (mut runner, mut records) = (Runner::new(&turns, 2), Vec::new());
            changes(&mut runner, &links(), 0.7);
            let mut sink = |record: &Record| {
                records.push(record.clone());
                true
            };
            runner.look(vec![7, 9], |job| job == 1, &mut sink).expect("light is conserved");
            let (results, is_over) = (vec![7, 9], vec![false, true]);
            let seen = Record::Sight { at_s: 0.8, results, is_over, circuits: lit, ports };
            assert_eq!(records, [seen]);
        }
    }

    #[test]
    fn a_byte_without_light_is_seen() {
        let turns = turns(true, Vec::new());
        let mut runner = Runner::new(&turns, 2);
        changes(&mut runner, &links(), 0.5);
        // A second has passed, less the darkness: 90 packets, and one more.
        for _ in 0..91 {
            assert!(runner.note_arrival(0, 1, PACKET));
        }
        assert!(runner.step((PS_PER_SECOND) as u64, |_| false, &links()).is_err());
    }
}
