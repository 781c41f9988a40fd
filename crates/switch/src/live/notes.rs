//! Hellos of workers, and what nodes answer: beside the data, over the same links.
//!
//! A hello goes to every node on the worker's ways, handed from neighbour to neighbour, and each answers with a welcome the same way
//! back. Its header's round is the attempt, so that a node passes each on once; its sub-model and fragment say what the worker lacks.

use wiresum_keys::SeatKey;
use wiresum_protocol::Plan;
use wiresum_wire::control::{
    Absent, KeyAge, RefusalReason, double_word, hello, hello_payload, set_double_word, set_word,
    welcome, word,
};
use wiresum_wire::{
    Flags, FragmentId, HEADER_LEN, Header, JobId, Kind, LaneType, NodeId, SubModelId, seal,
};
use zerocopy::IntoBytes;

use crate::{Cohort, Contributors, Workers};

/// Bytes of a note.
pub const NOTE_LEN: usize = HEADER_LEN + 4 * hello::WORDS;

/// Who asks or answers what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note {
    /// Hello, welcome or refusal.
    pub kind: Kind,
    /// Job.
    pub job: JobId,
    /// Who answers; of a hello, everyone.
    pub node: NodeId,
    /// Who says hello.
    pub worker: u8,
    /// Number of the hello.
    pub attempt: u32,
    /// Stream of the position that the worker lacks.
    pub sub_model: SubModelId,
    /// Position that the worker lacks.
    pub fragment: FragmentId,
    /// Whether the sender of a hello has joined already.
    pub is_member: bool,
    /// The cohort that a welcome is about; a node answers with one welcome for each.
    pub cohort: Cohort,
    /// Words of the control packet.
    pub payload: [u8; 4 * hello::WORDS],
}

impl Note {
    /// A hello of an incarnation.
    #[must_use]
    pub fn hello(plan: &Plan, worker: u8, incarnation: u64) -> Self {
        Self {
            kind: Kind::Hello,
            job: JobId(plan.job.id),
            node: crate::ANY_NODE,
            worker,
            attempt: 0,
            sub_model: SubModelId(0),
            fragment: FragmentId(0),
            is_member: false,
            cohort: Cohort(0),
            payload: hello_payload(
                incarnation,
                plan.digest(),
                KeyAge::default(),
                Absent::default(),
            ),
        }
    }

    /// The note with the proof that its sender has this key.
    #[must_use]
    pub fn proven(mut self, key: &SeatKey) -> Self {
        let mut header = self.header();
        key.prove(&mut header, &mut self.payload);
        self
    }

    /// Whether its sender has this key.
    #[must_use]
    pub fn is_proven(&self, key: &SeatKey) -> bool {
        key.is_proven(&self.header(), &self.payload)
    }

    /// Incarnation.
    #[must_use]
    pub fn incarnation(&self) -> u64 {
        double_word(&self.payload, hello::INCARNATION_WORD)
    }

    /// Digest of the plan.
    #[must_use]
    pub fn digest(&self) -> u64 {
        double_word(&self.payload, hello::PLAN_DIGEST_WORD)
    }

    /// The age of the keys of its stream's values that a hello's sender knows of.
    #[must_use]
    pub fn age(&self) -> KeyAge {
        KeyAge::read(&self.payload)
    }

    /// A hello about a position of a stream, whose values have keys of this age.
    #[must_use]
    pub fn about(mut self, sub_model: SubModelId, fragment: FragmentId, age: KeyAge) -> Self {
        (self.sub_model, self.fragment) = (sub_model, fragment);
        age.write(&mut self.payload);
        self
    }

    /// Why a node refuses.
    #[must_use]
    pub fn reason(&self) -> Option<RefusalReason> {
        RefusalReason::from_wire(word(&self.payload, hello::REASON_WORD))
    }

    /// Workers of the cohort that the node knows.
    #[must_use]
    pub fn known(&self) -> Contributors {
        Contributors(double_word(&self.payload, welcome::KNOWN_WORD))
    }

    /// Workers of the cohort whose values the node holds of the position.
    #[must_use]
    pub fn held(&self) -> Contributors {
        Contributors(double_word(&self.payload, welcome::HELD_WORD))
    }

    /// The answer that lets the sender in, for a cohort: of the workers that the node knows, and of those whose values it
    /// holds.
    #[must_use]
    pub fn welcome(mut self, node: NodeId, cohort: Cohort, known: Workers, held: Workers) -> Self {
        (self.kind, self.node, self.is_member) = (Kind::Welcome, node, false);
        self.cohort = cohort;
        let (known, held) = (known.in_cohort(cohort), held.in_cohort(cohort));
        set_double_word(&mut self.payload, welcome::KNOWN_WORD, known.0);
        set_double_word(&mut self.payload, welcome::HELD_WORD, held.0);
        self
    }

    /// The answer that does not.
    #[must_use]
    pub fn refusal(mut self, node: NodeId, reason: RefusalReason) -> Self {
        (self.kind, self.node, self.is_member) = (Kind::Refusal, node, false);
        set_word(&mut self.payload, hello::REASON_WORD, reason as u32);
        self
    }

    /// The note in a datagram; `None` if it is none of these kinds.
    #[must_use]
    pub fn parse(datagram: &[u8]) -> Option<Self> {
        let packet = wiresum_wire::Packet::parse(datagram).ok()?;
        let is_note = matches!(packet.kind, Kind::Hello | Kind::Welcome | Kind::Refusal);
        let header = packet.header;
        // Workers are numbered below the bound, which is the largest number that a byte has.
        if !is_note || header.contributor == crate::MAX_WORKERS {
            return None;
        }
        Some(Self {
            kind: packet.kind,
            job: JobId(header.job.get()),
            node: NodeId(header.node.get()),
            worker: header.contributor,
            attempt: header.round.get(),
            sub_model: SubModelId(header.sub_model.get()),
            fragment: FragmentId(header.fragment.get()),
            is_member: packet.flags.contains(Flags::RETRANSMISSION),
            cohort: Cohort(header.expected),
            payload: packet.payload.try_into().ok()?,
        })
    }

    /// As a datagram.
    #[must_use]
    pub fn emit(&self) -> [u8; NOTE_LEN] {
        let mut header = self.header();
        seal(&mut header, LaneType::I32Be.sum(&self.payload));
        let mut datagram = [0; NOTE_LEN];
        datagram[..HEADER_LEN].copy_from_slice(header.as_bytes());
        datagram[HEADER_LEN..].copy_from_slice(&self.payload);
        datagram
    }

    /// Its header, without the check.
    fn header(&self) -> Header {
        let flags = if self.is_member { Flags::RETRANSMISSION } else { Flags(0) };
        Header {
            flags: flags.0.into(),
            job: self.job.0.into(),
            node: self.node.0.into(),
            round: self.attempt.into(),
            fragment: self.fragment.0.into(),
            sub_model: self.sub_model.0.into(),
            value_count: (hello::WORDS as u16).into(),
            contributor: self.worker,
            expected: self.cohort.0,
            ..Header::new(self.kind)
        }
    }
}
