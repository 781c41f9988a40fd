//! One point of the benchmark: a job with one stream, and a packet of it that becomes the next one again and again.

use std::fs::File;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::panic::resume_unwind;
use std::thread;
use std::time::Instant;

use wiresum_protocol::compose::hello;
use wiresum_protocol::{Aggregator, Plan, Verdict};
use wiresum_wire::{
    BLOCK_LEN, Flags, HEADER_LEN, Header, Kind, LaneType, MIN_VALUES, NodeId, PAGE_PACKET,
    PROOF_LEN, SubModelId, header_sum, seal,
};
use zerocopy::{FromBytes, IntoBytes};

use super::Engine;
use super::proofs::Step;
use wiresum_xdp::XdpAggregator;
use wiresum_xdp::cipher::Cipher;
use wiresum_xdp::frames::udp_frame;
use wiresum_xdp::layout::{Feed, V4_FRAME_LEN};
use wiresum_xdp::test_run::{self, cpus, stay_on};
use wiresum_xdp::{Options, XdpError};

const NODE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 5747);
const INCARNATION: u64 = 1;
/// Port of child 0; child i uses the one i further on.
const FIRST_WORKER_PORT: u16 = 40_000;
/// The address of all children; their ports tell them apart.
const CHILDREN: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
/// The sub-model that is measured.
const STREAM: u16 = 1;

/// A job with one stream, and a packet of it that becomes the next one again and again.
pub struct Job {
    plan: Plan,
    xdp: XdpAggregator,
    reference: Aggregator,
    /// The datagram, with room for any.
    packet: Vec<u8>,
    payload_len: usize,
    /// What all packets have in common; its key is derived once.
    header: Header,
    children: u8,
    /// Contributor and position of the reference's last packet.
    last: (u8, u32),
    memory: Vec<u32>,
    next_slot: usize,
    /// The kernel's own cipher, where it has one.
    cipher: Option<Cipher>,
}

/// The packets that come in on a CPU.
pub struct Share {
    pub children: Range<u32>,
    /// The first position.
    pub first: u32,
    /// Positions, a power of two, that one child sends in a row; `skip` positions that come in elsewhere follow them.
    pub batch: u32,
    pub skip: u32,
}

impl Job {
    /// A job whose slots hold `working_set` bytes of values, with every child admitted.
    pub fn new(
        values: usize,
        working_set: usize,
        children: usize,
        options: &Options,
    ) -> Result<Self, XdpError> {
        assert!((4 * values).is_multiple_of(BLOCK_LEN), "packets hold whole blocks");
        Self::of(plan(values, working_set, children), values, working_set, options)
    }

    /// The same job with proofs behind its values.
    pub fn proven(values: usize, children: usize, options: &Options) -> Result<Self, XdpError> {
        let mut plan = plan(values, 0, children);
        plan.job.proven = true;
        Self::of(plan, values, 0, options)
    }

    fn of(
        plan: Plan,
        values: usize,
        working_set: usize,
        options: &Options,
    ) -> Result<Self, XdpError> {
        let children = plan.workers.len();
        let mut job = Self {
            xdp: XdpAggregator::load_for_tests(&[(plan.clone(), NodeId(0))], options)?,
            reference: Aggregator::new(&plan, NodeId(0)),
            packet: vec![0; PAGE_PACKET],
            payload_len: 4 * values,
            header: header(&plan, values, children),
            children: children as u8,
            last: (u8::MAX, 0),
            memory: vec![0; (working_set / 4).max(values)],
            next_slot: 0,
            cipher: plan.job.proven.then(Cipher::load).and_then(Result::ok),
            plan,
        };
        job.join()?;
        job.fill_packet();
        job.share_out(|_| Share { children: 0..children as u32, first: 0, batch: 1, skip: 0 })?;
        Ok(job)
    }

    /// Says which packets come in on each CPU.
    pub fn share_out(&self, share: impl Fn(usize) -> Share) -> Result<(), XdpError> {
        self.xdp.kernel().put_by_cpu("feeds", &0, |cpu| self.feed(&share(cpu)))
    }

    fn join(&mut self) -> Result<(), XdpError> {
        for sub_model in &self.plan.streams {
            for child in 0..self.children {
                let source = SocketAddr::new(CHILDREN, FIRST_WORKER_PORT + u16::from(child));
                let hello = hello(&self.plan, NodeId(0), sub_model, child, INCARNATION);
                self.xdp.test_run("aggregate", &udp_frame(source, NODE, &hello), 1)?;
                self.packet[..hello.len()].copy_from_slice(&hello);
                self.reference.handle_datagram(source, &mut self.packet, hello.len());
            }
        }
        let job = self.plan.job_id();
        self.xdp.start_incarnation(job, self.plan.job_key(INCARNATION))?;
        for ((sub_model, child), address) in self.reference.membership().children {
            self.xdp.admit_child(job, sub_model, child, address)?;
        }
        Ok(())
    }

    fn fill_packet(&mut self) {
        let payload: Vec<u8> =
            (0..self.payload_len as u32 / 4).flat_map(|lane| (7 * lane).to_le_bytes()).collect();
        let mut header = self.header;
        seal(&mut header, LaneType::I32Le.sum(&payload));
        self.packet[..HEADER_LEN].copy_from_slice(header.as_bytes());
        self.packet[HEADER_LEN..][..payload.len()].copy_from_slice(&payload);
    }

    /// Entries of the slots that are measured: two for each.
    pub fn entry_count(&self) -> u32 {
        let stream = self.xdp.streams().index(self.plan.job_id(), SubModelId(STREAM));
        self.xdp.streams().stream(stream.expect("the plan has it")).entry_mask + 1
    }

    /// What a run begins with.
    pub fn frame(&self) -> Vec<u8> {
        let source = SocketAddr::new(CHILDREN, FIRST_WORKER_PORT);
        // Whatever is to be the proof: the benchmark's program makes it, as it makes the rest of the packet.
        let proof_len = if self.plan.job.proven { PROOF_LEN } else { 0 };
        udp_frame(source, NODE, &self.packet[..HEADER_LEN + self.payload_len + proof_len])
    }

    /// What `bpf/bench.bpf.c` makes packets from; one step before the first of them.
    fn feed(&self, share: &Share) -> Feed {
        let mut feed = Feed {
            contributor: share.children.end - 1,
            first_child: share.children.start,
            end_child: share.children.end,
            position: share.first.wrapping_sub(1 + share.skip),
            batch: share.batch,
            skip: share.skip,
            first_port: FIRST_WORKER_PORT,
            frame: [0; V4_FRAME_LEN],
            header: [0; HEADER_LEN],
            padding: [0; 2],
        };
        feed.frame.copy_from_slice(&self.frame()[..V4_FRAME_LEN]);
        feed.header.copy_from_slice(self.header.as_bytes());
        feed
    }

    /// Mean nanoseconds for one packet.
    pub fn run(&mut self, engine: Engine, packets: u32) -> Result<f64, XdpError> {
        match engine {
            Engine::Xdp => self.run_program("feed_and_aggregate", packets),
            Engine::Feed => self.run_program("feed_alone", packets),
            Engine::Empty => self.run_program("nothing", packets),
            Engine::Protocol => Ok(mean(packets, || self.aggregate_in_user_space())),
            Engine::Memory => Ok(mean(packets, || self.add_in_memory())),
        }
    }

    /// Mean nanoseconds that a step of packets with proofs takes in the kernel.
    pub fn run_step(&self, step: Step, packets: u32) -> Result<f64, XdpError> {
        match &self.cipher {
            Some(cipher) if step == Step::Cipher => Ok(cipher.run(&self.frame(), packets)? as f64),
            _ => self.run_program(step.program(), packets),
        }
    }

    /// Whether the kernel has a cipher of its own for [`Step::Cipher`].
    pub fn has_cipher(&self) -> bool {
        self.cipher.is_some()
    }

    /// Attaches one of the benchmark's programs to the loopback interface of an empty network namespace, to which it moves the calling
    /// thread, and which lives as long as what is returned. A test-run first makes a program known to the kernel's
    /// dispatcher, and waits for all CPUs meanwhile, unless it is known already; several would not start at once.
    pub fn keep_ready(&mut self, program: &'static str) -> Result<File, XdpError> {
        let network = test_run::enter_empty_network()?;
        self.xdp.attach_program(program, "lo")?;
        Ok(network)
    }

    /// Contributions that have gone into a sum.
    pub fn summed(&self) -> Result<u64, XdpError> {
        let verdicts = [Verdict::First, Verdict::Added, Verdict::Completed];
        verdicts.into_iter().map(|verdict| self.xdp.counter(verdict)).sum()
    }

    /// Contributions that were dropped, as another CPU was at their slot for too long.
    pub fn contended(&self) -> Result<u64, XdpError> {
        self.xdp.counter(Verdict::Contended)
    }

    /// A descriptor of one of the benchmark's programs.
    pub fn program(&self, name: &'static str) -> std::io::Result<OwnedFd> {
        self.xdp.program(name)
    }

    fn run_program(&self, program: &'static str, packets: u32) -> Result<f64, XdpError> {
        let before = self.summed()?;
        let run = self.xdp.test_run(program, &self.frame(), packets)?;
        let aggregated = self.summed()? - before;
        let expected = if program.ends_with("and_aggregate") { u64::from(packets) } else { 0 };
        assert_eq!(aggregated, expected, "every packet of the benchmark is summed");
        Ok(run.nanoseconds as f64)
    }

    fn aggregate_in_user_space(&mut self) {
        let (contributor, position) = self.last;
        self.last = match contributor.wrapping_add(1) {
            next if next < self.children => (next, position),
            _ => (0, position.wrapping_add(1)),
        };
        let (mut header, len) = (self.header, HEADER_LEN + self.payload_len);
        let (sent, _) = Header::ref_from_prefix(&self.packet).expect("the packet has a header");
        let lane_sum = sent.check.get().wrapping_sub(header_sum(sent));
        header.contributor = self.last.0;
        header.fragment.set(self.last.1);
        seal(&mut header, lane_sum);
        self.packet[..HEADER_LEN].copy_from_slice(header.as_bytes());
        let source = SocketAddr::new(CHILDREN, FIRST_WORKER_PORT + u16::from(self.last.0));
        let outcome = self.reference.handle_datagram(source, &mut self.packet, len);
        assert!(
            matches!(outcome.verdict, Verdict::First | Verdict::Added | Verdict::Completed),
            "every packet of the benchmark is summed, not {:?}",
            outcome.verdict
        );
    }

    fn add_in_memory(&mut self) {
        let values = self.payload_len / 4;
        let start = self.next_slot * values;
        let lanes = self.packet[HEADER_LEN..].chunks_exact(4);
        for (total, lane) in self.memory[start..start + values].iter_mut().zip(lanes) {
            let lane = u32::from_le_bytes([lane[0], lane[1], lane[2], lane[3]]);
            *total = total.wrapping_add(lane);
        }
        black_box(&mut self.memory);
        self.next_slot =
            if start + 2 * values <= self.memory.len() { self.next_slot + 1 } else { 0 };
    }
}

/// Does the work on one CPU, as each CPU has a feed of its own.
pub fn on_one_cpu<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let pinned = || {
        stay_on(cpus()[0]);
        work()
    };
    let done = thread::scope(|scope| scope.spawn(pinned).join());
    done.unwrap_or_else(|panic| resume_unwind(panic))
}

fn header(plan: &Plan, values: usize, children: usize) -> Header {
    let proven = if plan.job.proven { Flags::PROVEN } else { Flags(0) };
    let flags = Flags::LITTLE_ENDIAN.with(proven);
    Header {
        job: plan.job.id.into(),
        job_key: plan.job_key(INCARNATION).0.into(),
        sub_model: STREAM.into(),
        value_count: (values as u16).into(),
        expected: children as u8,
        flags: flags.0.into(),
        ..Header::new(Kind::Contribution)
    }
}

fn mean(packets: u32, mut work: impl FnMut()) -> f64 {
    let start = Instant::now();
    (0..packets).for_each(|_| work());
    start.elapsed().as_nanos() as f64 / f64::from(packets)
}

/// A star with two streams, of which the second has slots for `working_set` bytes.
fn plan(values: usize, working_set: usize, children: usize) -> Plan {
    let slot_len = 4 * values.max(MIN_VALUES);
    let slots = (working_set / slot_len / 2).next_power_of_two();
    let list = |item: fn(usize) -> String| (0..children).map(item).collect::<Vec<_>>().join(",");
    let workers =
        list(|rank| format!(r#"{{"rank":{rank},"name":"w{rank}","address":"10.0.0.2"}}"#));
    let legs = list(|rank| format!(r#"{{"child":{{"worker":{rank}}},"parent":0}}"#));
    let stream = |id: u16, role: &str, share: u8, slots: usize| {
        format!(
            r#"{{"id":{id},"name":"{role}","role":"{role}","share":{share},"policy":"pool","window":1,
            "places":[{{"node":0,"slots":{slots}}}],"legs":[{legs}]}}"#
        )
    };
    let text = format!(
        r#"{{"format":"wiresum-plan/2","job":{{"id":1,"secret":"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef","values_per_packet":{}}},
        "nodes":[{{"id":0,"name":"node","address":"{NODE}"}}],"workers":[{workers}],"streams":[{},{}]}}"#,
        slot_len / 4,
        stream(0, "exponents", 0, 1),
        stream(STREAM, "values", 1, slots)
    );
    Plan::from_json(&text).expect("a plan with sound numbers is valid")
}

#[cfg(test)]
mod tests {
    use zerocopy::FromZeros;

    use super::*;
    use wiresum_xdp::layout::Entry;

    fn take_all_locks(job: &Job, lock: u32) {
        let entries = job.xdp.streams().pool.entry_count();
        for index in 0..entries {
            let entry = Entry { lock, ..Entry::new_zeroed() };
            job.xdp.kernel().put("entries", &index, &entry).expect("an entry");
        }
    }

    #[test]
    fn a_lock_that_is_never_released_costs_the_packet_and_nothing_else() {
        if !wiresum_testkit::capability::is_here("bpf", XdpAggregator::check_support()) {
            return;
        }
        on_one_cpu(|| {
            let job = Job::new(64, 0, 2, &Options::default()).expect("a job");
            let run = || job.xdp.test_run("feed_and_aggregate", &job.frame(), 1).expect("a run");
            take_all_locks(&job, 1);
            run();
            assert_eq!(job.summed().expect("counters"), 0);
            assert_eq!(job.xdp.counter(Verdict::Contended).expect("counters"), 1);
            take_all_locks(&job, 0);
            run();
            assert_eq!(job.summed().expect("counters"), 1);
        });
    }
}
