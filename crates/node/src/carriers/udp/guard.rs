//! Floods. Whatever comes to a socket has to be read before it can be refused, so strangers can keep a job's packets out of the receive
//! buffer. When much has to be refused, the kernel is asked to do it for a while.
//!
//! Not always: what the kernel refuses is neither counted nor answered, and people want to know why they were refused.

use std::time::Duration;

use wiresum_protocol::Time;

use crate::udp::{Known, Socket};

/// A window, and what may be refused in it before the guard is raised: reading that takes about a hundredth of a core.
const WINDOW: Duration = Duration::from_millis(100);
const MOST_REFUSED: u64 = 1_000;
/// How long the guard stays up before it is seen whether the flood has ended. At worst a flood fills the receive buffer once so often.
const RAISED: Duration = Duration::from_secs(2);

/// Watches one socket.
#[derive(Default)]
pub(crate) struct Guard {
    window_start: Time,
    refused_before: u64,
    raised: Option<Raised>,
    /// How often it was raised.
    pub floods: u64,
}

struct Raised {
    until: Time,
    known: Vec<Known>,
}

impl Guard {
    /// Raises or lowers the guard, and keeps it to the jobs that run, which are `known`. `refused` counts what the kernel could have refused.
    pub fn follow(
        &mut self,
        now: Time,
        refused: u64,
        known: impl FnOnce() -> Vec<Known>,
        socket: &Socket,
    ) {
        let Some(raised) = &mut self.raised else { return self.watch(now, refused, known, socket) };
        if raised.until <= now {
            return self.lower(now, refused, socket);
        }
        let known = known();
        // Should the kernel refuse a filter that it took before, the one that is there would keep a new incarnation out.
        if raised.known != known && socket.guard(&known).is_err() {
            return self.lower(now, refused, socket);
        }
        raised.known = known;
    }

    /// When the guard wants its turn at the latest.
    pub fn idle_time(&self, now: Time) -> Option<Duration> {
        self.raised.as_ref().map(|raised| raised.until.since(now))
    }

    fn watch(
        &mut self,
        now: Time,
        refused: u64,
        known: impl FnOnce() -> Vec<Known>,
        socket: &Socket,
    ) {
        if refused - self.refused_before > MOST_REFUSED {
            self.raise(now, known(), socket);
        }
        if self.raised.is_some() || now.since(self.window_start) >= WINDOW {
            (self.window_start, self.refused_before) = (now, refused);
        }
    }

    fn raise(&mut self, now: Time, known: Vec<Known>, socket: &Socket) {
        if let Err(error) = socket.guard(&known) {
            return eprintln!(
                "wiresum-node: packets of strangers flood this node, and the kernel takes no filter against them: {error}"
            );
        }
        if self.floods == 0 {
            eprintln!(
                "wiresum-node: packets of strangers flood this node: until they end, the kernel drops what no job here takes, \
                 uncounted; look for their senders (logged once; `wiresum node status` counts `floods`)"
            );
        }
        self.floods += 1;
        self.raised = Some(Raised { until: now.plus(RAISED), known });
    }

    fn lower(&mut self, now: Time, refused: u64, socket: &Socket) {
        if let Err(error) = socket.unguard() {
            eprintln!(
                "wiresum-node: the filter against a flood cannot be taken away ({error}): new jobs may not be heard until this \
                 daemon is started again"
            );
        }
        (self.window_start, self.refused_before) = (now, refused);
        self.raised = None;
    }
}
