//! A switch beneath another one: its sums go there as they are, and results come from there for those beneath.
//!
//! The switch above hears it as it hears a worker: rows in order of position, packets by number, an end. So a row's sum is
//! complete there when it is complete here, and a part of a tree that is slow delays the rows that it has.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use wiresum_netem::Time;
use wiresum_wire::RowKind;

use super::{Leaving, Summer, keys};
use crate::message::{FromSwitch, HotSums, PartialSums, ToSwitch};
use crate::sending::{END, Sending};
use crate::server::PushError;

/// The switch above, as the only receiver.
const ABOVE: u16 = 0;

/// What goes to the switch above, and what has come from there.
#[derive(Clone, Debug)]
pub(super) struct Above {
    /// Sums that are complete here.
    pub(super) leaving: Leaving,
    sending: Sending<ToSwitch>,
    /// Acknowledgements of results.
    acknowledgements: VecDeque<ToSwitch>,
    /// The last round of which results have come, and which parts.
    relayed: (u32, BTreeSet<u32>),
}

impl Above {
    /// With the share of several flows.
    pub(super) fn of(flows: f64) -> Self {
        let (leaving, acknowledgements, relayed) = Default::default();
        Self { leaving, sending: Sending::of(flows), acknowledgements, relayed }
    }

    pub(super) fn set_time(&mut self, now: Time) {
        self.sending.set_time(now);
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        let at_once = (!self.acknowledgements.is_empty()).then_some(Time(0));
        [self.sending.next_due(), at_once].into_iter().flatten().min()
    }

    /// Whether a part of the results is to be passed on: it has not come before. It is acknowledged in any case.
    fn is_new(&mut self, round: u32, part: u32) -> bool {
        self.acknowledgements.push_back(ToSwitch::Acknowledgement { round, part });
        if round > self.relayed.0 {
            self.relayed = (round, BTreeSet::new());
        }
        round == self.relayed.0 && self.relayed.1.insert(part)
    }
}

impl Summer {
    /// Adds sums of a switch beneath.
    pub(super) fn add_sums(&mut self, child: usize, rows: &PartialSums) -> Result<(), PushError> {
        let workers = self.spec.children[child].workers;
        let is_beneath = |ranks: &u64| *ranks != 0 && ranks & !workers == 0;
        if let Some(ranks) = rows.contributors.iter().find(|ranks| !is_beneath(ranks)) {
            return Err(PushError::Contributors(ranks.count_ones()));
        }
        let added = self.sums.add_sums(&rows.contributors, &keys(&rows.positions), &rows.lanes);
        added.map_err(|problem| self.named(problem))
    }

    /// Sends the switch above what is complete here, as far as it fills packets; all of it and an end if the round is over.
    pub(super) fn send_above(&mut self, is_over: bool) {
        let dim = self.map.document().dim.into();
        let (round, map_version) = (self.round, self.map.version());
        let most = RowKind::RowSums.rows_for(self.spec.room, dim).max(1);
        let Some(Above { leaving, sending, .. }) = &mut self.above else { return };
        while leaving.has_packet(most) || is_over && !leaving.positions.is_empty() {
            let mut rows = PartialSums { positions: leaving.take(most), ..PartialSums::default() };
            for position in &rows.positions {
                let (ranks, lanes) = self.sums.get((*position).into()).expect("it has a sum");
                rows.contributors.push(ranks);
                rows.lanes.extend_from_slice(lanes);
            }
            let (sequence, rows) = (leaving.packets - 1, Arc::new(rows));
            let sums = ToSwitch::Sums { round, sequence, map_version, rows };
            sending.send((ABOVE, round, sequence), sums);
        }
        if is_over {
            let end = ToSwitch::End { round, packets: leaving.packets, map_version };
            sending.send((ABOVE, round, END), end);
            *leaving = Leaving::default();
        }
    }

    /// Something has come from the switch above.
    pub fn handle_above(&mut self, message: &FromSwitch) {
        let Some(above) = &mut self.above else { return };
        match message {
            FromSwitch::Acknowledgement { round, sequence } => {
                above.sending.settled((ABOVE, *round, *sequence));
            }
            FromSwitch::Refusal { problem, .. } => self.fail(problem),
            FromSwitch::Results { round, part, parts, rows } => {
                self.pass_on(*round, *part, *parts, rows)
            }
        }
    }

    /// Results for those beneath. None are of a round that is not begun here, as its rows come from here too.
    fn pass_on(&mut self, round: u32, part: u32, parts: u32, rows: &Arc<HotSums>) {
        let dim = usize::from(self.map.document().dim);
        let Some(above) = &mut self.above else { return };
        if round > self.round || rows.values.len() != rows.positions.len() * dim {
            return;
        }
        if above.is_new(round, part) {
            self.send_part(round, part, parts, rows);
        }
    }

    /// The job cannot go on: all beneath are told why.
    pub fn fail(&mut self, problem: &str) {
        let round = self.round;
        let refusal = |child: &super::Child| {
            (child.sender, FromSwitch::Refusal { round, problem: problem.to_owned() })
        };
        self.outbox.extend(self.spec.children.iter().map(refusal));
    }

    /// The next thing for the switch above.
    pub fn poll_above(&mut self, now: Time) -> Option<ToSwitch> {
        let above = self.above.as_mut()?;
        let next = |(_, message)| message;
        above.acknowledgements.pop_front().or_else(|| above.sending.poll(now).map(next))
    }
}
