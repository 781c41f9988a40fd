//! Acknowledgements of many packets in one.
//!
//! They wait a little, as in QUIC (RFC 9000, section 13.2.2), so that one packet is about several also where packets
//! come one by one: what a sender gains by an answer for each is less than what the answers take of its processor and
//! its link. Each says again what the one before has said, as far as it has room, so that one that is lost costs
//! nothing.

use std::collections::BTreeMap;

use wiresum_netem::Time;
use wiresum_wire::{ACKNOWLEDGEMENT_WORDS, RowKind};

use super::Envelope;
use crate::flow::LONGEST_WAIT_US;
use crate::message::Sender;
use crate::sending::END;

/// Numbers after the first that one packet is about.
const SPAN: u32 = 32 * ACKNOWLEDGEMENT_WORDS as u32;
/// So many are sent at once.
const MOST_WAITING: usize = 16;

/// Acknowledgements that wait to be sent together, by receiver and round.
#[derive(Clone, Debug, Default)]
pub struct Acknowledgements(BTreeMap<(Sender, u32), Batch>);

#[derive(Clone, Debug, Default)]
struct Batch {
    numbers: Vec<u32>,
    /// When they are sent, if there are any.
    due: Option<Time>,
    /// Those that were sent last.
    sent: Vec<u32>,
}

impl Acknowledgements {
    /// One more packet has come.
    pub fn add(&mut self, to: Sender, round: u32, sequence: u32, now: Time) {
        if !self.0.contains_key(&(to, round)) {
            // What was said of other rounds needs no saying again.
            self.0.retain(|(other, _), batch| *other != to || batch.due.is_some());
        }
        let batch = self.0.entry((to, round)).or_default();
        batch.numbers.push(sequence);
        // Behind an end nothing comes that could be answered with it.
        let is_full = batch.numbers.len() >= MOST_WAITING || sequence == END;
        let due = if is_full { now } else { Time(now.0 + LONGEST_WAIT_US) };
        batch.due = Some(batch.due.map_or(due, |before| before.min(due)));
    }

    /// When some are to be sent.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.0.values().filter_map(|batch| batch.due).min()
    }

    /// Emits those that have waited long enough, with the envelope for each receiver.
    pub fn emit(
        &mut self,
        now: Time,
        envelope: impl Fn(Sender) -> Envelope,
        mut send: impl FnMut(Sender, &[u8]),
    ) {
        for ((to, round), batch) in &mut self.0 {
            if batch.due.is_none_or(|due| due > now) {
                continue;
            }
            let numbers = batch.take();
            let mut rest = &numbers[..];
            while let Some(first) = rest.first() {
                let (near, behind) =
                    rest.split_at(rest.partition_point(|number| number - first <= SPAN));
                emit_one(&envelope(*to), *round, near, |bytes| send(*to, bytes));
                rest = behind;
            }
        }
    }
}

impl Batch {
    /// Numbers in order, those among them that were sent before and have room beside the first ones.
    fn take(&mut self) -> Vec<u32> {
        self.due = None;
        self.numbers.sort_unstable();
        let numbers = std::mem::take(&mut self.numbers);
        let near = numbers.partition_point(|number| number - numbers[0] <= SPAN);
        let has_room =
            |number: &u32| numbers[near - 1].checked_sub(*number).is_some_and(|d| d <= SPAN);
        let again = std::mem::replace(&mut self.sent, numbers.clone()).into_iter().filter(has_room);
        let mut all: Vec<u32> = again.chain(numbers.iter().copied()).collect();
        all.sort_unstable();
        all
    }
}

/// Emits one packet, about numbers that it has room for.
fn emit_one(envelope: &Envelope, round: u32, numbers: &[u32], mut send: impl FnMut(&[u8])) {
    let mut words = [0u32; ACKNOWLEDGEMENT_WORDS];
    for place in numbers.iter().filter_map(|number| (number - numbers[0]).checked_sub(1)) {
        words[place as usize / 32] |= 1 << (place % 32);
    }
    let used = words.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
    let columns: Vec<u8> = words[..used].iter().flat_map(|word| word.to_be_bytes()).collect();
    let mut draft = envelope.draft(RowKind::Acknowledgement, round, numbers[0]);
    draft.rows.rows = (used as u16).into();
    let mut out = Vec::new();
    draft.emit(&columns, &mut out);
    send(&out);
}
