//! Who has answered: what a worker knows of the nodes on its ways.

use std::time::Duration;

use wiresum_protocol::Time;
use wiresum_protocol::ways::{Site, Way};
use wiresum_wire::NodeId;

use wiresum_switch::Workers;
use wiresum_switch::live::notes::Note;

/// Longest time between two attempts.
pub(super) const RETRY: Duration = Duration::from_millis(100);
/// The first of those that double, where workers join at the same moment and each has to hear of the others.
const FIRST_RETRY: Duration = Duration::from_millis(5);

/// A node that has not answered for so long, while it was asked, is silent.
const SILENCE: Duration = Duration::from_secs(1);

/// A node on the ways.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    pub node: NodeId,
    pub last: Option<Time>,
    pub known: Workers,
    /// Workers whose values it had of what was asked about last.
    pub held: Workers,
}

/// Hellos and their answers.
#[derive(Clone, Debug)]
pub(super) struct Hearing {
    /// In order of the ways, each once: a node comes after those that its hellos pass.
    pub nodes: Vec<Heard>,
    pub attempt: u32,
    /// When the next hello is due, while any is.
    pub next: Option<Time>,
    /// When this asking began.
    pub since: Time,
    /// Time until the attempt after the next one.
    retry: Duration,
}

impl Hearing {
    pub fn new<'a>(ways: impl Iterator<Item = &'a Way>) -> Self {
        let hops = ways.flat_map(|way| &way.legs).flat_map(|leg| &leg.hops);
        let mut nodes: Vec<Heard> = Vec::new();
        for hop in hops {
            if let Site::Node(node) = hop.to
                && nodes.iter().all(|heard| heard.node != node)
            {
                let (known, held) = (Workers::NONE, Workers::NONE);
                nodes.push(Heard { node, last: None, known, held });
            }
        }
        Self { nodes, attempt: 0, next: None, since: Time(0), retry: RETRY }
    }

    /// Asks from now on.
    pub fn begin(&mut self, now: Time) {
        if self.next.is_none() {
            (self.next, self.since) = (Some(now), now);
        }
    }

    /// Attempts, if any are due, begin now, and come quickly at first.
    pub fn hasten(&mut self, now: Time) {
        self.next = self.next.map(|_| now);
        self.retry = FIRST_RETRY;
    }

    /// The number of the attempt that is due, if one is.
    pub fn due(&mut self, now: Time) -> Option<u32> {
        self.next.filter(|next| *next <= now)?;
        self.next = Some(now.plus(self.retry));
        self.retry = RETRY.min(2 * self.retry);
        Some(self.next_attempt())
    }

    /// The number of the next attempt, which is made.
    pub fn next_attempt(&mut self) -> u32 {
        self.attempt = self.attempt.wrapping_add(1);
        self.attempt
    }

    /// A welcome: what a node says of a cohort.
    pub fn hear(&mut self, welcome: &Note, now: Time) {
        let heard = self.nodes.iter_mut().find(|heard| heard.node == welcome.node);
        if let Some(heard) = heard {
            heard.last = Some(now);
            heard.known = heard.known.with_cohort(welcome.cohort, welcome.known());
        }
    }

    /// What a node says with it of the position that the oldest round lacks.
    pub fn hear_held(&mut self, welcome: &Note) {
        let heard = self.nodes.iter_mut().find(|heard| heard.node == welcome.node);
        if let Some(heard) = heard {
            heard.held = heard.held.with_cohort(welcome.cohort, welcome.held());
        }
    }

    /// The first node that has not answered lately, nor before the asking began, and since when it has been silent.
    pub fn silent(&self, now: Time) -> Option<(NodeId, Time)> {
        let oldest = self.since.max(Time(now.0.saturating_sub(SILENCE.as_micros() as u64)));
        let is_silent = |heard: &&Heard| heard.last.is_none_or(|last| last < oldest);
        let silent = self.nodes.iter().find(is_silent)?;
        Some((silent.node, silent.last.unwrap_or(self.since)))
    }

    /// Workers that a node knows, and those whose values it holds.
    pub fn of(&self, node: NodeId) -> (Workers, Workers) {
        let heard = self.nodes.iter().find(|heard| heard.node == node);
        heard.map_or((Workers::NONE, Workers::NONE), |h| (h.known, h.held))
    }
}
