//! What a worker itself costs: sessions and one aggregator of a star, whose packets are handed over in memory.
//!
//! *Method.* One thread lets each worker write a burst of packets, the aggregator take them, and each worker take the
//! results, as the engine's thread does it, but without sockets, drivers and other processes. The workers' turns are
//! timed, and the aggregator's. So a worker's figure is conversion, protocol and what is kept: all that is left where
//! packets cost nothing.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ptr::NonNull;
use std::time::Duration;

use wiresum_codec::{ElementType, Operation};
use wiresum_node::clock::{Clock, thread_cpu_time};
use wiresum_node::tensor::{Elements, Formats};
use wiresum_protocol::aggregator::Recipients;
use wiresum_protocol::{Aggregator, Plan, Time};
use wiresum_wire::{MAX_PACKET, NodeId};
use wiresum_worker::{Event, Session};

/// Packets that a worker writes before the next one has its turn: about what a call to the kernel carries.
const BURST: usize = 32;
/// Turns in which nothing moves before the run counts as stuck.
const PATIENCE: u32 = 1000;
const DEADLINE: Duration = Duration::from_secs(3600);
const INCARNATION: u64 = 1_700_000_000_000_000;
const FIRST_PORT: u16 = 40_000;

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub struct Parameters {
    /// Workers of the star.
    pub workers: u32,
    /// float32 elements of a tensor.
    pub elements: usize,
    /// Lanes in a packet.
    pub values: usize,
    /// Packets of a worker under way at once.
    pub window: usize,
    /// Whether values are kept aside while results replace them.
    pub keeps: bool,
    /// All-reduces that count, after one that does not.
    pub runs: usize,
}

/// Processor seconds of one all-reduce.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// At a worker, in the mean of all.
    pub worker_s: f64,
    /// At the aggregator.
    pub aggregator_s: f64,
}

/// Times all-reduces.
///
/// # Panics
/// If the numbers make no plan, or a sum is wrong.
#[must_use]
pub fn measure(parameters: &Parameters) -> Vec<Spent> {
    let mut star = Star::new(parameters);
    star.join();
    star.all_reduce(0);
    (1..=parameters.runs).map(|run| star.all_reduce(run)).collect()
}

/// A packet where it was written.
struct Packet {
    bytes: Box<[u8; MAX_PACKET]>,
    len: usize,
}

impl Packet {
    fn new() -> Self {
        Self { bytes: Box::new([0; MAX_PACKET]), len: 0 }
    }
}

struct Rank {
    session: Session,
    address: SocketAddr,
    values: Vec<f32>,
    aside: Vec<f32>,
}

struct Star {
    parameters: Parameters,
    formats: Formats,
    clock: Clock,
    node: SocketAddr,
    ranks: Vec<Rank>,
    aggregator: Aggregator,
    /// Memory of packets that nobody uses.
    free: Vec<Packet>,
    /// What the aggregator has for one rank, or for all.
    results: VecDeque<(Option<SocketAddr>, Packet)>,
    spent: Spent,
}

impl Star {
    fn new(parameters: &Parameters) -> Self {
        let plan = plan(parameters);
        let rank = |rank: u32| Rank {
            session: Session::new(&plan, rank, INCARNATION),
            address: SocketAddr::from(([10, 0, 0, 2], FIRST_PORT + rank as u16)),
            values: vec![0.0; parameters.elements],
            aside: vec![0.0; if parameters.keeps { parameters.elements } else { 0 }],
        };
        Self {
            parameters: *parameters,
            formats: Formats::new(&plan).expect("the codec of all plans"),
            clock: Clock::default(),
            node: plan.nodes[0].address,
            ranks: (0..parameters.workers).map(rank).collect(),
            aggregator: Aggregator::new(&plan, NodeId(0)),
            free: Vec::new(),
            results: VecDeque::new(),
            spent: Spent::default(),
        }
    }

    fn join(&mut self) {
        let now = self.clock.now();
        for rank in &mut self.ranks {
            rank.session.join(now.plus(DEADLINE), now);
        }
        self.turn_until(|event| matches!(event, Event::Joined));
    }

    /// One all-reduce of values that differ by rank and run.
    fn all_reduce(&mut self, run: usize) -> Spent {
        let encoding = self.formats.encoding(ElementType::Float32, Operation::Sum);
        for (number, rank) in self.ranks.iter_mut().enumerate() {
            let own = (1 + number + run) as f32;
            rank.values.fill(own);
            let data = NonNull::from(rank.values.as_mut_slice()).cast();
            // SAFETY: the tensor outlives the collective, which has ended when this method returns, and nobody else uses it.
            let mut elements = unsafe { Elements::new(data, data, rank.values.len(), encoding) };
            if self.parameters.keeps {
                let aside = NonNull::from(rank.aside.as_mut_slice()).cast();
                // SAFETY: the same holds of what is aside, which is as long.
                elements = unsafe { elements.keeping(aside) };
            }
            let now = self.clock.now();
            rank.session.submit(elements.all_reduce(), now.plus(DEADLINE), now);
        }
        self.spent = Spent::default();
        self.turn_until(|event| match event {
            Event::Finished { outcome, .. } => {
                outcome.as_ref().expect("nothing is lost in memory");
                true
            }
            _ => false,
        });
        self.check(run);
        Spent { worker_s: self.spent.worker_s / self.ranks.len() as f64, ..self.spent }
    }

    fn check(&self, run: usize) {
        let sum: f32 = (0..self.ranks.len()).map(|number| (1 + number + run) as f32).sum();
        let is_summed = |rank: &Rank| rank.values.iter().all(|value| *value == sum);
        assert!(self.ranks.iter().all(is_summed), "run {run}: a sum is not {sum}");
    }

    /// Goes round until every rank has told an event of this kind.
    fn turn_until(&mut self, is_it: impl Fn(&Event) -> bool) {
        let (mut left, mut idle) = (self.ranks.len(), 0);
        while left > 0 {
            let has_moved = self.turn();
            for rank in &mut self.ranks {
                while let Some(event) = rank.session.poll_event() {
                    left -= usize::from(is_it(&event));
                }
            }
            idle = if has_moved { 0 } else { idle + 1 };
            assert!(idle < PATIENCE, "{left} ranks wait for ever");
            if !has_moved {
                self.pass_time();
            }
        }
    }

    /// One turn of everybody; whether a packet has moved.
    fn turn(&mut self) -> bool {
        let now = self.clock.now();
        let mut has_moved = false;
        for index in 0..self.ranks.len() {
            let written = self.write(index, now);
            has_moved |= !written.is_empty();
            self.sum(index, written);
        }
        has_moved |= !self.results.is_empty();
        self.take(now);
        has_moved
    }

    /// A worker writes a burst.
    fn write(&mut self, index: usize, now: Time) -> Vec<Packet> {
        self.free.resize_with(self.free.len().max(BURST), Packet::new);
        let mut written = Vec::with_capacity(BURST);
        let began = thread_cpu_time();
        while written.len() < BURST {
            let mut packet = self.free.pop().expect("there is a burst of them");
            match self.ranks[index].session.poll_transmit(now, &mut packet.bytes[..]) {
                Some(transmit) => {
                    assert_eq!(transmit.destination, self.node, "a star has one node");
                    packet.len = transmit.len;
                    written.push(packet);
                }
                None => {
                    self.free.push(packet);
                    break;
                }
            }
        }
        self.spent.worker_s += (thread_cpu_time() - began).as_secs_f64();
        written
    }

    /// The aggregator takes it.
    fn sum(&mut self, index: usize, written: Vec<Packet>) {
        let source = self.ranks[index].address;
        let began = thread_cpu_time();
        for mut packet in written {
            let outcome =
                self.aggregator.handle_datagram(source, &mut packet.bytes[..], packet.len);
            packet.len = outcome.len;
            match outcome.recipients {
                Recipients::One(address) => self.results.push_back((Some(address), packet)),
                Recipients::Children => self.results.push_back((None, packet)),
                Recipients::None | Recipients::ControlHalf => self.free.push(packet),
            }
        }
        self.spent.aggregator_s += (thread_cpu_time() - began).as_secs_f64();
    }

    /// The workers take what is for them.
    fn take(&mut self, now: Time) {
        let began = thread_cpu_time();
        for rank in &mut self.ranks {
            for (to, packet) in &self.results {
                if to.is_none_or(|to| to == rank.address) {
                    rank.session.handle_datagram(self.node, &packet.bytes[..packet.len], now);
                }
            }
        }
        self.spent.worker_s += (thread_cpu_time() - began).as_secs_f64();
        self.free.extend(self.results.drain(..).map(|(_, packet)| packet));
    }

    /// Timers, which are due where nothing moves.
    fn pass_time(&mut self) {
        std::thread::sleep(Duration::from_micros(100));
        let now = self.clock.now();
        for rank in &mut self.ranks {
            if rank.session.poll_timeout().is_some_and(|due| due <= now) {
                rank.session.handle_timeout(now);
            }
        }
    }
}

/// A star whose slots hold two windows at least.
fn plan(parameters: &Parameters) -> Plan {
    let Parameters { workers, values, window, .. } = parameters;
    let list = |item: fn(u32) -> String| (0..*workers).map(item).collect::<Vec<_>>().join(",");
    let names = list(|rank| format!(r#"{{"rank":{rank},"name":"w{rank}","address":"10.0.0.2"}}"#));
    let legs = list(|rank| format!(r#"{{"child":{{"worker":{rank}}},"parent":0}}"#));
    let stream = |id: u16, role: &str, share: u8| {
        format!(
            r#"{{"id":{id},"name":"{role}","role":"{role}","share":{share},"policy":"pool","window":{window},
            "places":[{{"node":0,"slots":{}}}],"legs":[{legs}]}}"#,
            (2 * window).next_power_of_two()
        )
    };
    let text = format!(
        r#"{{"format":"wiresum-plan/2","job":{{"id":1,"secret":"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef","values_per_packet":{values}}},
        "nodes":[{{"id":0,"name":"node","address":"10.0.0.1:5747"}}],"workers":[{names}],"streams":[{},{}]}}"#,
        stream(0, "exponents", 0),
        stream(1, "values", 1)
    );
    Plan::from_json(&text).expect("a plan with sound numbers is valid")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_right_and_times_are_told() {
        for keeps in [false, true] {
            let parameters = Parameters {
                workers: 3,
                elements: 20_000,
                values: 256,
                window: 16,
                keeps,
                runs: 2,
            };
            let spent = measure(&parameters);
            assert_eq!(spent.len(), 2);
            assert!(spent.iter().all(|one| one.worker_s > 0.0 && one.aggregator_s > 0.0));
        }
    }
}
