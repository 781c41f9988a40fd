//! Whether a worker may send, and how fast: its job's turn, where several jobs share a network.
//!
//! A shut gate lets nothing out, and no time passes for what waits behind it. It opens by itself in the end, so a
//! scheduler that has died shuts nobody out for good.

use std::time::Duration;

use wiresum_protocol::Time;

use crate::bucket::Bucket;

/// What a gate lets out at once, as time at its rate: more than a busy host is late by, and no more than what drains
/// from a link's queue before light goes.
const BURST: Duration = Duration::from_millis(8);

#[derive(Clone, Debug)]
pub(super) struct Gate {
    shut: Option<Shut>,
    /// Bytes on the cable, as bits per second; `None`: as fast as the streams' own windows.
    rate_bps: Option<u64>,
    bucket: Bucket,
    /// When something may be sent again that the rate holds back.
    resumes: Option<Time>,
}

#[derive(Clone, Copy, Debug)]
struct Shut {
    since: Time,
    until: Time,
}

impl Default for Gate {
    fn default() -> Self {
        Self { shut: None, rate_bps: None, bucket: Bucket::of(BURST), resumes: None }
    }
}

impl Gate {
    /// Lets nothing out before `until`, unless it is opened.
    pub fn shut(&mut self, now: Time, until: Time) {
        let since = self.shut.map_or(now, |shut| shut.since);
        self.shut = Some(Shut { since, until });
        self.resumes = None;
    }

    /// Lets everything out at a rate. Since when it was shut, if it was.
    pub fn open(&mut self, rate_bps: Option<u64>) -> Option<Time> {
        if self.rate_bps != rate_bps {
            (self.rate_bps, self.bucket) = (rate_bps, Bucket::of(BURST));
        }
        self.shut.take().map(|shut| shut.since)
    }

    pub fn is_shut(&self) -> bool {
        self.shut.is_some()
    }

    /// Whether nobody has opened it in time.
    pub fn has_expired(&self, now: Time) -> bool {
        self.shut.is_some_and(|shut| shut.until <= now)
    }

    /// Whether a packet may leave now.
    pub fn lets_out(&mut self, now: Time) -> bool {
        self.resumes = self.rate_bps.and_then(|_| self.bucket.resumes_at(now));
        self.shut.is_none() && self.resumes.is_none()
    }

    /// A packet leaves, which takes so many bytes on the cable.
    pub fn note_sent(&mut self, bytes: usize, now: Time) {
        self.rate_bps.iter().for_each(|&rate_bps| self.bucket.take(bytes, rate_bps, now));
    }

    /// When it opens by itself, or lets the next packet out.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.shut.map_or(self.resumes, |shut| Some(shut.until))
    }
}
