//! What an engine's thread drives: a worker of a tree of servers, or one of a fabric of switches.

use std::net::SocketAddr;

use wiresum_protocol::{Plan, Time, Transmit};
use wiresum_worker::session::SwitchOver;
use wiresum_worker::stream::answered::Session;
use wiresum_worker::{Buffer, Event, Worker};

/// The worker's state machine; both kinds have the same commands, inputs and outputs.
pub enum Machine {
    /// Servers sum.
    Tree(Box<Worker>),
    /// Switches sum.
    Fabric(Box<Session>),
}

/// Calls the method of whichever it is.
macro_rules! either {
    ($self:ident, $worker:ident => $call:expr) => {
        match $self {
            Self::Tree($worker) => $call,
            Self::Fabric($worker) => $call,
        }
    };
}

impl Machine {
    /// A worker that has not joined yet.
    ///
    /// # Panics
    /// If `rank` is not in the plan.
    pub fn new(plan: &Plan, rank: u32, incarnation: u64) -> Self {
        if plan.fabric.is_some() {
            Self::Fabric(Box::new(Session::new(plan, rank, incarnation)))
        } else {
            Self::Tree(Box::new(Worker::new(plan, rank, incarnation)))
        }
    }

    pub fn join(&mut self, deadline: Time, now: Time) {
        either!(self, worker => worker.join(deadline, now));
    }

    pub fn submit(&mut self, buffer: Box<dyn Buffer>, deadline: Time, now: Time) {
        either!(self, worker => worker.submit(buffer, deadline, now));
    }

    /// Rounds of a fabric take every worker.
    pub fn await_children(&mut self, k: u32) {
        if let Self::Tree(worker) = self {
            worker.await_children(k);
        }
    }

    pub fn leave(&mut self, now: Time) {
        either!(self, worker => worker.leave(now));
    }

    pub fn handle_datagram(&mut self, source: SocketAddr, datagram: &[u8], now: Time) {
        either!(self, worker => worker.handle_datagram(source, datagram, now));
    }

    /// Nobody listens at an address. A session asks its nodes itself, and goes by their answers.
    pub fn handle_unreachable(&mut self, address: SocketAddr, now: Time) {
        if let Self::Tree(worker) = self {
            worker.handle_unreachable(address, now);
        }
    }

    pub fn handle_timeout(&mut self, now: Time) {
        either!(self, worker => worker.handle_timeout(now));
    }

    pub fn poll_transmit(&mut self, now: Time, buffer: &mut [u8]) -> Option<Transmit> {
        either!(self, worker => worker.poll_transmit(now, buffer))
    }

    pub fn poll_event(&mut self) -> Option<Event> {
        either!(self, worker => worker.poll_event())
    }

    pub fn poll_timeout(&self) -> Option<Time> {
        either!(self, worker => worker.poll_timeout())
    }

    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        either!(self, worker => worker.counters())
    }

    /// A line for people; only workers of trees move.
    pub fn describe(&self, switch: &SwitchOver) -> String {
        match self {
            Self::Tree(worker) => worker.describe(switch),
            Self::Fabric(_) => String::new(),
        }
    }
}
