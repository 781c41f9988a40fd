//! Acknowledgements of many packets in one.

use std::collections::BTreeMap;

use wiresum_wire::{ACKNOWLEDGEMENT_WORDS, RowKind};

use super::Envelope;
use crate::message::Sender;

/// Numbers after the first that one packet is about.
const SPAN: u32 = 32 * ACKNOWLEDGEMENT_WORDS as u32;

/// Acknowledgements that wait to be sent together, by receiver and round.
#[derive(Clone, Debug, Default)]
pub struct Acknowledgements(BTreeMap<(Sender, u32), Vec<u32>>);

impl Acknowledgements {
    /// One more packet has come.
    pub fn add(&mut self, to: Sender, round: u32, sequence: u32) {
        self.0.entry((to, round)).or_default().push(sequence);
    }

    /// Emits all, with the envelope for each receiver.
    pub fn emit(
        &mut self,
        envelope: impl Fn(Sender) -> Envelope,
        mut send: impl FnMut(Sender, &[u8]),
    ) {
        for ((to, round), mut numbers) in std::mem::take(&mut self.0) {
            numbers.sort_unstable();
            let mut rest = &numbers[..];
            while let Some(first) = rest.first() {
                let (near, behind) =
                    rest.split_at(rest.partition_point(|number| number - first <= SPAN));
                emit_one(&envelope(to), round, near, |bytes| send(to, bytes));
                rest = behind;
            }
        }
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
