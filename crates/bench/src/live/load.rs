//! A generator of load for one aggregator: every child of a star, in one thread, without anything that a worker does to floats.
//!
//! It speaks through the same transports as workers do, so it measures any engine from outside. Over UDP a system call carries
//! dozens of packets each way, which makes it cheaper than what it measures.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use wiresum_protocol::Plan;
use wiresum_protocol::compose::hello;
use wiresum_protocol::plan::{PlanStream, Role};
use wiresum_wire::{Flags, HEADER_LEN, Header, Kind, LaneType, NodeId, header_sum, seal};
use zerocopy::{FromBytes, IntoBytes};

use super::BenchError;
use wiresum_node::clock::timespec;
use wiresum_node::engine::transport::{Preference, Transport};

/// The incarnation of the generated job.
const INCARNATION: u64 = 1_700_000_000_000_000;
/// Hellos are repeated this often, until the aggregator has welcomed everyone.
const HELLO_TRIALS: u32 = 50;
const HELLO_PATIENCE: Duration = Duration::from_millis(100);
/// Positions that are sent before results are looked at: what a veth's ring of 256 packets holds from a few children.
const BURST: u32 = 32;
/// Without a result for so long, what is in flight is taken for lost.
const STALL: Duration = Duration::from_millis(20);
/// How long results may come after the last packet was sent.
const DRAIN: Duration = Duration::from_millis(100);
/// Positions whose times of sending are remembered.
const STAMPS: u32 = 8192;

/// How much to send.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Positions in flight if there is no rate: the load that keeps the aggregator busy without loss.
    pub window: u32,
    /// Contributions per second, of all children together, whether or not results come back.
    pub rate: Option<f64>,
    /// How long.
    pub duration: Duration,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// Contributions sent.
    pub contributions: u64,
    /// Results received: without loss as many.
    pub results: u64,
    /// Seconds of sending.
    pub seconds: f64,
    /// From the last contribution to its result, in microseconds, in order of arrival.
    pub round_trips_us: Vec<f64>,
}

/// One child of the star.
struct Child {
    transport: Transport,
    packet: Vec<u8>,
    received: u32,
    is_blocked: bool,
}

struct Generator {
    node: SocketAddr,
    children: Vec<Child>,
    sent: u32,
    /// When the last child sent each position.
    stamps: Vec<Instant>,
    served: Served,
}

/// Joins as every child of node 0 of the plan, and sends.
///
/// # Errors
/// [`BenchError`], if a child cannot join or the network fails.
///
/// # Panics
/// If the plan has no node 0 that all workers are children of.
pub fn generate(plan: &Plan, load: &Load) -> Result<Served, BenchError> {
    let mut generator = Generator::new(plan)?;
    generator.join(plan)?;
    generator.run(load)?;
    Ok(generator.served)
}

impl Generator {
    fn new(plan: &Plan) -> Result<Self, BenchError> {
        let node = plan.node(NodeId(0)).expect("a plan with node 0").address;
        let values = plan.streams.iter().find(|s| s.role == Role::Values).expect("a valid plan");
        let child = |rank: u32| {
            let transport = Transport::bind(plan, rank, None, Preference::Udp)?;
            let packet = contribution(plan, values, rank as u8);
            Ok(Child { transport, packet, received: 0, is_blocked: false })
        };
        let children =
            (0..plan.workers.len() as u32).map(child).collect::<Result<_, BenchError>>()?;
        let stamps = vec![Instant::now(); STAMPS as usize];
        Ok(Self { node, children, sent: 0, stamps, served: Served::default() })
    }

    /// Says hello as every child in every sub-model until all are welcomed.
    fn join(&mut self, plan: &Plan) -> Result<(), BenchError> {
        for (child, Child { transport, .. }) in (0..).zip(&mut self.children) {
            let hello = |stream| hello(plan, NodeId(0), stream, child, INCARNATION);
            let hellos: Vec<_> = plan.streams.iter().map(hello).collect();
            say_hello(transport, self.node, &hellos)?;
        }
        Ok(())
    }

    fn run(&mut self, load: &Load) -> io::Result<()> {
        let (start, mut heard) = (Instant::now(), Instant::now());
        while start.elapsed() < load.duration {
            let count = self.due(load, start.elapsed());
            self.send(count);
            let before = self.served.results;
            self.receive()?;
            if self.served.results > before {
                heard = Instant::now();
            } else if load.rate.is_none() && heard.elapsed() > STALL {
                self.children.iter_mut().for_each(|child| child.received = self.sent);
                heard = Instant::now();
            }
            if count == 0 && self.served.results == before {
                self.wait(self.pause(load, start.elapsed()))?;
            }
        }
        self.served.seconds = start.elapsed().as_secs_f64();
        self.served.contributions = u64::from(self.sent) * self.children.len() as u64;
        self.drain()
    }

    /// Positions to send now.
    fn due(&self, load: &Load, elapsed: Duration) -> u32 {
        if self.children.iter().any(|child| child.is_blocked) {
            return 0;
        }
        let due = match load.rate {
            Some(rate) => self.scheduled(rate, elapsed).saturating_sub(self.sent),
            None => {
                let slowest = self.children.iter().map(|c| self.sent - c.received).max();
                load.window.saturating_sub(slowest.unwrap_or(0))
            }
        };
        due.min(BURST)
    }

    fn scheduled(&self, rate: f64, elapsed: Duration) -> u32 {
        (rate / self.children.len() as f64 * elapsed.as_secs_f64()) as u32
    }

    /// How long nothing is to be sent.
    fn pause(&self, load: &Load, elapsed: Duration) -> Duration {
        let Some(rate) = load.rate else { return STALL };
        let next = f64::from(self.sent + 1) * self.children.len() as f64 / rate;
        Duration::from_secs_f64(next).saturating_sub(elapsed).min(STALL)
    }

    fn send(&mut self, count: u32) {
        let Self { node, children, sent, stamps, .. } = self;
        for child in children.iter_mut() {
            for position in *sent..*sent + count {
                name_position(&mut child.packet, position);
                child.transport.push(*node, &child.packet);
            }
            child.is_blocked = !child.transport.flush();
        }
        let now = Instant::now();
        (*sent..*sent + count).for_each(|p| stamps[(p % STAMPS) as usize] = now);
        *sent += count;
    }

    fn receive(&mut self) -> io::Result<()> {
        let Self { children, sent, stamps, served, .. } = self;
        let last = children.len() - 1;
        for (index, child) in children.iter_mut().enumerate() {
            let (mut results, mut round_trips) = (0, Vec::new());
            while child.transport.receive(|_, packet| {
                let Some(position) = result_position(packet) else { return };
                results += 1;
                if index == last && *sent - position < STAMPS {
                    round_trips.push(stamps[(position % STAMPS) as usize].elapsed());
                }
            })? {}
            child.received += results;
            served.results += u64::from(results);
            served.round_trips_us.extend(round_trips.iter().map(|t| t.as_secs_f64() * 1e6));
        }
        Ok(())
    }

    /// Waits for a result, or until there is something to send.
    fn wait(&self, timeout: Duration) -> io::Result<()> {
        let events = |child: &Child| {
            if child.is_blocked { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN }
        };
        let mut fds: Vec<_> = self
            .children
            .iter()
            .map(|child| PollFd::from_borrowed_fd(child.transport.as_fd(), events(child)))
            .collect();
        match poll(&mut fds, Some(&timespec(timeout))) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn drain(&mut self) -> io::Result<()> {
        let end = Instant::now() + DRAIN;
        while self.served.results < self.served.contributions && Instant::now() < end {
            self.wait(end.saturating_duration_since(Instant::now()))?;
            self.receive()?;
        }
        Ok(())
    }
}

/// Sends a child's hellos again and again until each is welcomed.
fn say_hello(
    transport: &mut Transport,
    node: SocketAddr,
    hellos: &[Vec<u8>],
) -> Result<(), BenchError> {
    let mut welcomed = vec![false; hellos.len()];
    for _ in 0..HELLO_TRIALS {
        for hello in hellos {
            transport.push(node, hello);
        }
        transport.flush();
        let mut fds = [PollFd::from_borrowed_fd(transport.as_fd(), PollFlags::IN)];
        let _ = poll(&mut fds, Some(&timespec(HELLO_PATIENCE)));
        transport.receive(|_, packet| {
            let is_welcome = Header::ref_from_prefix(packet)
                .is_ok_and(|(header, _)| header.kind == Kind::Welcome as u8);
            let of = hellos.iter().position(|h| sub_model(h) == sub_model(packet));
            if let Some(index) = of.filter(|_| is_welcome) {
                welcomed[index] = true;
            }
        })?;
        if welcomed.iter().all(|welcomed| *welcomed) {
            return Ok(());
        }
    }
    Err(BenchError::Silent(node))
}

fn header(packet: &[u8]) -> Option<&Header> {
    Header::ref_from_prefix(packet).ok().map(|(header, _)| header)
}

fn sub_model(packet: &[u8]) -> Option<u16> {
    header(packet).map(|header| header.sub_model.get())
}

fn result_position(packet: &[u8]) -> Option<u32> {
    header(packet).filter(|h| h.kind == Kind::Result as u8).map(|h| h.fragment.get())
}

/// A full packet of values for position 0.
fn contribution(plan: &Plan, sub_model: &PlanStream, contributor: u8) -> Vec<u8> {
    let len = plan.payload_len();
    let lanes = (0..len as u32 / 4).map(|lane| lane.wrapping_mul(0x9e37_79b9) >> 8);
    let payload: Vec<u8> = lanes.flat_map(u32::to_le_bytes).collect();
    let mut header = Header {
        job: plan.job.id.into(),
        job_key: plan.job_key(INCARNATION).0.into(),
        sub_model: sub_model.id.into(),
        value_count: ((len / 4) as u16).into(),
        contributor,
        expected: plan.workers.len() as u8,
        flags: Flags::LITTLE_ENDIAN.0.into(),
        ..Header::new(Kind::Contribution)
    };
    seal(&mut header, LaneType::I32Le.sum(&payload));
    [header.as_bytes(), &payload].concat()
}

/// Makes it a packet for another position; the check is linear, so the payload need not be summed again.
fn name_position(packet: &mut [u8], position: u32) {
    let (header, _) = Header::mut_from_prefix(&mut packet[..HEADER_LEN]).expect("a whole packet");
    let lane_sum = header.check.get().wrapping_sub(header_sum(header));
    header.fragment.set(position);
    seal(header, lane_sum);
}
