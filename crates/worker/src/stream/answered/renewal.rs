//! Telling every node on the ways how far the keys of a stream's values are renewed (`spec/security.md`, "Renewal").

use std::collections::BTreeSet;

use wiresum_protocol::Time;
use wiresum_switch::live::notes::Note;
use wiresum_wire::NodeId;

use super::Stream;
use super::hearing::RETRY;

/// Streams of which nodes have still to be told, one after the other.
#[derive(Debug)]
pub(super) struct Renewal {
    streams: BTreeSet<usize>,
    /// The first attempt about the first of them.
    since: Option<u32>,
    /// Nodes that have answered it, or a later one.
    heard: BTreeSet<NodeId>,
    next: Time,
}

impl Renewal {
    /// Nodes are told of streams that do not begin with the first generation.
    pub fn of(streams: &[Stream]) -> Self {
        let is_late = |index: &usize| streams[*index].association.oldest() > 0;
        let streams = (0..streams.len()).filter(is_late).collect();
        Self { streams, since: None, heard: BTreeSet::new(), next: Time(0) }
    }

    /// Keys of a stream are renewed.
    pub fn begin(&mut self, stream: usize) {
        self.streams.insert(stream);
        if self.streams.first() == Some(&stream) {
            (self.since, self.next) = (None, Time(0));
        }
    }

    /// The stream of which nodes are to be told now.
    pub fn due(&mut self, now: Time) -> Option<usize> {
        let stream = self.streams.first().filter(|_| self.next <= now)?;
        self.next = now.plus(RETRY);
        Some(*stream)
    }

    /// They are told in this attempt.
    pub fn note_told(&mut self, attempt: u32) {
        if self.since.is_none() {
            (self.since, self.heard) = (Some(attempt), BTreeSet::new());
        }
    }

    /// A node's answer to a hello about a stream; `nodes` are on the ways.
    pub fn hear(&mut self, stream: Option<usize>, note: &Note, nodes: usize) {
        if stream != self.streams.first().copied() || self.since.is_none_or(|s| note.attempt < s) {
            return;
        }
        self.heard.insert(note.node);
        if self.heard.len() == nodes {
            self.streams.pop_first();
            (self.since, self.next) = (None, Time(0));
        }
    }

    /// Whether all nodes know of all streams.
    pub fn is_settled(&self) -> bool {
        self.streams.is_empty()
    }

    /// When to tell again.
    pub fn next(&self) -> Option<Time> {
        self.since.map(|_| self.next)
    }
}
