//! Writing packets.

use std::net::SocketAddr;

use wiresum_keys::{Seat, SeatKey, ValueHash};
use wiresum_wire::control::{self, Absent, KeyAge, hello};
use wiresum_wire::{
    Contributor, Exchange, Flags, HEADER_LEN, Header, JobId, JobKey, Kind, LaneType, NodeId,
    PROOF_LEN, SubModelId, seal,
};
use zerocopy::{FromBytes, IntoBytes};

use crate::Plan;
use crate::plan::PlanStream;

/// A datagram that a state machine wrote to its caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Where it goes.
    pub destination: SocketAddr,
    /// Bytes written.
    pub len: usize,
}

/// The header fields that a sender chooses; those of `spec/wire.md`.
#[derive(Clone, Debug)]
pub struct Draft {
    /// What the packet is.
    pub kind: Kind,
    /// The job that it belongs to.
    pub job: JobId,
    /// The node that it is for, or the one that answers.
    pub node: NodeId,
    /// Key of the job in its incarnation.
    pub key: JobKey,
    /// Its round.
    pub round: u32,
    /// Its position in the stream.
    pub fragment: u32,
    /// Its stream.
    pub sub_model: SubModelId,
    /// The child's index at the node.
    pub contributor: u8,
    /// Children whose contributions make a sum at the node.
    pub expected: u8,
    /// The fragment's exponent.
    pub exponent: i8,
    /// Who gives and who takes it.
    pub exchange: Exchange,
    /// Lanes, and what else is set.
    pub flags: Flags,
}

impl Default for Draft {
    fn default() -> Self {
        Self {
            kind: Kind::Contribution,
            job: JobId(0),
            node: NodeId(0),
            key: JobKey(0),
            round: 0,
            fragment: 0,
            sub_model: SubModelId(0),
            contributor: 0,
            expected: 0,
            exponent: 0,
            exchange: Exchange::ALL,
            flags: Flags(0),
        }
    }
}

impl Draft {
    /// Writes the header of the packet in `buffer`, whose payload of `payload_len` bytes is in place and sums to `lane_sum`.
    /// Returns the packet's length.
    pub fn emit(&self, buffer: &mut [u8], payload_len: usize, lane_sum: u32) -> usize {
        let mut header = self.header(payload_len);
        seal(&mut header, lane_sum);
        buffer[..HEADER_LEN].copy_from_slice(header.as_bytes());
        HEADER_LEN + payload_len
    }

    /// As [`Self::emit`], of values; with their proof behind them where they have one to be proven by.
    pub fn emit_values(
        &self,
        buffer: &mut [u8],
        (payload_len, lane_sum): (usize, u32),
        proof: Option<(&ValueHash, &SeatKey)>,
    ) -> usize {
        let Some((hash, key)) = proof else { return self.emit(buffer, payload_len, lane_sum) };
        let flags = self.flags.with(Flags::PROVEN);
        let len = Self { flags, ..self.clone() }.emit(buffer, payload_len, lane_sum);
        put_proof(hash, key, buffer, payload_len);
        len + PROOF_LEN
    }

    /// The header before a payload, without its check.
    fn header(&self, payload_len: usize) -> Header {
        Header {
            job: self.job.0.into(),
            node: self.node.0.into(),
            job_key: self.key.0.into(),
            round: self.round.into(),
            fragment: self.fragment.into(),
            sub_model: self.sub_model.0.into(),
            value_count: ((payload_len / self.lane_type().width()) as u16).into(),
            contributor: self.contributor,
            expected: self.expected,
            exponent: self.exponent,
            priority: self.exchange.0,
            flags: self.flags.0.into(),
            ..Header::new(self.kind)
        }
    }

    /// The seat that the packet is about.
    #[must_use]
    pub fn seat(&self) -> Seat {
        Seat::new(self.node, self.sub_model, Contributor(self.contributor))
    }

    /// Writes the header of the control packet in `buffer`, whose words are in place, and its proof. Returns its length.
    pub fn emit_proven(&self, buffer: &mut [u8], payload_len: usize, key: &SeatKey) -> usize {
        let mut header = self.header(payload_len);
        let (place, payload) = buffer.split_at_mut(HEADER_LEN);
        key.prove(&mut header, &mut payload[..payload_len]);
        place.copy_from_slice(header.as_bytes());
        HEADER_LEN + payload_len
    }

    /// Writes a packet of joining. Its round is the number of the hello that it is, or is about.
    pub fn emit_joining(
        &self,
        buffer: &mut [u8],
        words: [u8; 4 * hello::WORDS],
        key: &SeatKey,
    ) -> usize {
        buffer[HEADER_LEN..JOINING_LEN].copy_from_slice(&words);
        self.emit_proven(buffer, words.len(), key)
    }

    /// The values with this payload, and their proof.
    #[must_use]
    pub fn proven_values(&self, payload: &[u8], hash: &ValueHash, key: &SeatKey) -> Vec<u8> {
        let mut buffer = vec![0; HEADER_LEN + payload.len() + PROOF_LEN];
        buffer[HEADER_LEN..][..payload.len()].copy_from_slice(payload);
        let values = (payload.len(), self.lane_type().sum(payload));
        self.emit_values(&mut buffer, values, Some((hash, key)));
        buffer
    }

    /// Writes the header as [`Self::emit`] does, summing the payload here.
    pub fn emit_summed(&self, buffer: &mut [u8], payload_len: usize) -> usize {
        let lane_sum = self.lane_type().sum(&buffer[HEADER_LEN..][..payload_len]);
        self.emit(buffer, payload_len, lane_sum)
    }

    fn lane_type(&self) -> LaneType {
        if self.kind.carries_values() { LaneType::of(self.flags) } else { LaneType::I32Be }
    }

    /// The packet with this payload.
    #[must_use]
    pub fn datagram(&self, payload: &[u8]) -> Vec<u8> {
        let mut buffer = vec![0; HEADER_LEN + payload.len()];
        buffer[HEADER_LEN..].copy_from_slice(payload);
        self.emit_summed(&mut buffer, payload.len());
        buffer
    }

    /// The control packet with this payload, and the proof of its seat.
    #[must_use]
    pub fn proven(&self, payload: &[u8], key: &SeatKey) -> Vec<u8> {
        let mut buffer = vec![0; HEADER_LEN + payload.len()];
        buffer[HEADER_LEN..].copy_from_slice(payload);
        self.emit_proven(&mut buffer, payload.len(), key);
        buffer
    }
}

/// Writes the proof of the values in `buffer` behind them; their header is complete but for the check.
///
/// # Panics
/// If the buffer is shorter than that.
pub(crate) fn put_proof(hash: &ValueHash, key: &SeatKey, buffer: &mut [u8], payload_len: usize) {
    let (header, rest) = Header::ref_from_prefix(buffer).expect("a header");
    let proof = key.value_proof(hash, header, &rest[..payload_len]);
    buffer[HEADER_LEN + payload_len..][..PROOF_LEN].copy_from_slice(&proof.to_be_bytes());
}

/// Bytes of a packet of joining: hello, welcome, refusal, goodbye.
pub const JOINING_LEN: usize = HEADER_LEN + 4 * hello::WORDS;

/// The first hello of a node's child in one stream.
///
/// # Panics
/// If the plan's keys are of another node.
#[must_use]
pub fn hello(
    plan: &Plan,
    node: NodeId,
    sub_model: &PlanStream,
    contributor: u8,
    incarnation: u64,
) -> Vec<u8> {
    let draft = Draft {
        kind: Kind::Hello,
        job: plan.job_id(),
        node,
        key: plan.job_key(incarnation),
        round: 1,
        sub_model: sub_model.id(),
        contributor,
        expected: sub_model.fan_in(node) as u8,
        ..Draft::default()
    };
    let (age, absent) = (KeyAge::default(), Absent::default());
    joining(plan, &draft, control::hello_payload(incarnation, plan.digest(), age, absent))
}

/// A packet of joining with the proof of its seat.
///
/// # Panics
/// If the plan's keys are of another node.
#[must_use]
pub fn joining(plan: &Plan, draft: &Draft, words: [u8; 4 * hello::WORDS]) -> Vec<u8> {
    let key = plan.keys().seat(draft.seat()).expect("the seat's key");
    draft.proven(&words, &key)
}
