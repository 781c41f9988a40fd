//! Hellos of workers, and what nodes answer: beside the data, over the same links.
//!
//! A hello goes to every node on the worker's ways, handed from neighbour to neighbour, and each answers with a welcome the same way
//! back. Its header's round is the attempt, so that a node passes each on once; its sub-model and fragment say what the worker lacks.

use wiresum_protocol::Plan;
use wiresum_wire::control::{RefusalReason, double_word, hello, set_double_word, set_word, word};
use wiresum_wire::{
    FragmentId, HEADER_LEN, Header, JobId, JobKey, Kind, LaneType, MAGIC, NodeId, SubModelId,
    VERSION, seal,
};
use zerocopy::IntoBytes;

use crate::Contributors;

/// Instead of the secret, in a welcome: workers that the node knows.
const KNOWN_WORD: usize = hello::SECRET_WORD;
/// In a welcome: workers whose values the node holds of the fragment that was asked about.
const HELD_WORD: usize = hello::REASON_WORD;
/// Bytes of a note.
pub(super) const NOTE_LEN: usize = HEADER_LEN + 4 * hello::WORDS;

/// Who asks or answers what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Note {
    pub kind: Kind,
    pub job: JobId,
    /// Who answers; of a hello, everyone.
    pub node: NodeId,
    pub worker: u8,
    pub attempt: u32,
    pub sub_model: SubModelId,
    pub fragment: FragmentId,
    pub payload: [u8; 4 * hello::WORDS],
}

impl Note {
    /// A hello of an incarnation.
    pub fn hello(plan: &Plan, worker: u8, incarnation: u64) -> Self {
        let mut payload = [0; 4 * hello::WORDS];
        set_double_word(&mut payload, hello::SECRET_WORD, plan.secret());
        set_double_word(&mut payload, hello::INCARNATION_WORD, incarnation);
        set_double_word(&mut payload, hello::PLAN_DIGEST_WORD, plan.digest());
        Self {
            kind: Kind::Hello,
            job: JobId(plan.job.id),
            node: crate::ANY_NODE,
            worker,
            attempt: 0,
            sub_model: SubModelId(0),
            fragment: FragmentId(0),
            payload,
        }
    }

    pub fn secret(&self) -> u64 {
        double_word(&self.payload, hello::SECRET_WORD)
    }

    pub fn incarnation(&self) -> u64 {
        double_word(&self.payload, hello::INCARNATION_WORD)
    }

    pub fn digest(&self) -> u64 {
        double_word(&self.payload, hello::PLAN_DIGEST_WORD)
    }

    pub fn reason(&self) -> Option<RefusalReason> {
        RefusalReason::from_wire(word(&self.payload, hello::REASON_WORD))
    }

    pub fn known(&self) -> Contributors {
        Contributors(double_word(&self.payload, KNOWN_WORD))
    }

    pub fn held(&self) -> Contributors {
        Contributors(double_word(&self.payload, HELD_WORD))
    }

    /// The answer that lets the sender in.
    pub fn welcome(mut self, node: NodeId, known: Contributors, held: Contributors) -> Self {
        (self.kind, self.node) = (Kind::Welcome, node);
        set_double_word(&mut self.payload, KNOWN_WORD, known.0);
        set_double_word(&mut self.payload, HELD_WORD, held.0);
        self
    }

    /// The answer that does not.
    pub fn refusal(mut self, node: NodeId, reason: RefusalReason) -> Self {
        (self.kind, self.node) = (Kind::Refusal, node);
        set_double_word(&mut self.payload, hello::SECRET_WORD, 0);
        set_word(&mut self.payload, hello::REASON_WORD, reason as u32);
        self
    }

    /// The note in a datagram; `None` if it is none of these kinds.
    pub fn parse(datagram: &[u8]) -> Option<Self> {
        let packet = wiresum_wire::Packet::parse(datagram).ok()?;
        let is_note = matches!(packet.kind, Kind::Hello | Kind::Welcome | Kind::Refusal);
        let header = packet.header;
        if !is_note || header.contributor >= crate::MAX_WORKERS {
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
            payload: packet.payload.try_into().ok()?,
        })
    }

    /// As a datagram.
    pub fn emit(&self) -> [u8; NOTE_LEN] {
        let mut header = Header {
            magic: MAGIC.into(),
            version: VERSION,
            kind: self.kind as u8,
            job: self.job.0.into(),
            node: self.node.0.into(),
            job_key: JobKey(0).0.into(),
            round: self.attempt.into(),
            fragment: self.fragment.0.into(),
            sub_model: self.sub_model.0.into(),
            value_count: (hello::WORDS as u16).into(),
            contributor: self.worker,
            expected: 0,
            exponent: 0,
            priority: 0,
            flags: 0.into(),
            check: 0.into(),
        };
        seal(&mut header, LaneType::I32Be.sum(&self.payload));
        let mut datagram = [0; NOTE_LEN];
        datagram[..HEADER_LEN].copy_from_slice(header.as_bytes());
        datagram[HEADER_LEN..].copy_from_slice(&self.payload);
        datagram
    }
}
