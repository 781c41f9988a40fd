//! Contributions to the same fragments on several CPUs at once, as the receive queues of a network card bring them: every sum
//! is exact, whoever comes first. A virtual CPU that its host stops while it holds an entry makes another one give up waiting;
//! what that drops is sent again, as workers would.
#![cfg(wiresum_bpf)]

mod support;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use support::{Pair, XDP_DROP, XDP_REDIRECT, XDP_TX, bpf_is_here, joining};
use wiresum_protocol::Plan;
use wiresum_testkit::seeds::times_soak;
use wiresum_testkit::traffic::aggregator::{FIRST_WORKER_PORT, RandomTraffic};
use wiresum_wire::{
    Flags, FragmentId, Header, JobKey, Kind, LaneType, NodeId, Packet, Verdict, seal,
};
use wiresum_xdp::Options;
use wiresum_xdp::frames::udp_frame;
use wiresum_xdp::test_run;
use zerocopy::IntoBytes;

const CHILDREN: u8 = 8;
const VALUES: usize = 256;
const POSITIONS: u64 = 2000;
const SLOTS: u32 = 4096;
const CHILD_IP: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
const FRAME_HEADERS: usize = 42;

fn plan() -> Plan {
    let workers = (0..CHILDREN)
        .map(|r| format!(r#"{{"rank":{r},"name":"w{r}","address":"{CHILD_IP}"}}"#))
        .collect::<Vec<_>>()
        .join(",");
    let leg = |r| format!(r#"{{"child":{{"worker":{r}}},"parent":0}}"#);
    let legs = (0..CHILDREN).map(leg).collect::<Vec<_>>().join(",");
    let stream = |id: u8, role: &str| {
        format!(
            r#"{{"id":{id},"name":"{role}","role":"{role}","share":{id},"policy":"pool","window":1,
            "places":[{{"node":0,"slots":{SLOTS}}}],"legs":[{legs}]}}"#
        )
    };
    let text = format!(
        r#"{{"format":"wiresum-plan/2","job":{{"id":1,"secret":"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef","values_per_packet":{VALUES}}},
        "nodes":[{{"id":0,"name":"n","address":"10.0.0.1:5747"}}],"workers":[{workers}],
        "streams":[{},{}]}}"#,
        stream(0, "exponents"),
        stream(1, "values")
    );
    Plan::from_json(&text).expect("a valid plan")
}

fn lane(child: u8, position: u32, index: u32) -> u32 {
    (u32::from(child) + 1).wrapping_mul(position.wrapping_mul(0x9e37_79b9) ^ index)
}

fn check_sum(result: &[u8], position: u32) {
    let packet = Packet::parse(&result[FRAME_HEADERS..]).expect("a result whose check matches");
    let sums = packet.payload.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    for (index, sum) in sums.enumerate() {
        let lanes = (0..CHILDREN).map(|child| lane(child, position, index as u32));
        assert_eq!(sum, lanes.fold(0, u32::wrapping_add), "position {position}, lane {index}");
    }
}

/// The children of one node, on several CPUs.
struct Sender<'a> {
    plan: &'a Plan,
    key: JobKey,
    program: OwnedFd,
    cpus: usize,
}

impl Sender<'_> {
    fn frame(&self, child: u8, position: u32) -> Vec<u8> {
        let payload: Vec<u8> =
            (0..VALUES as u32).flat_map(|i| lane(child, position, i).to_le_bytes()).collect();
        let mut header = Header {
            job: 1.into(),
            job_key: self.key.0.into(),
            fragment: position.into(),
            sub_model: 1.into(),
            value_count: (VALUES as u16).into(),
            contributor: child,
            expected: CHILDREN,
            flags: Flags::LITTLE_ENDIAN.0.into(),
            ..Header::new(Kind::Contribution)
        };
        seal(&mut header, LaneType::I32Le.sum(&payload));
        let source = SocketAddr::new(CHILD_IP, FIRST_WORKER_PORT + u16::from(child));
        let node = self.plan.node(NodeId(0)).expect("in the plan").address;
        udp_frame(source, node, &[header.as_bytes(), &payload].concat())
    }

    /// Sends a contribution; whether a sum came back, which is exact.
    fn is_answered(&self, frame: &[u8], position: u32) -> bool {
        let run = test_run::run(self.program.as_fd(), frame, 1).expect("test-run");
        match run.action {
            XDP_DROP => false,
            XDP_REDIRECT | XDP_TX => {
                check_sum(&run.frame, position);
                true
            }
            other => panic!("position {position}: action {other}"),
        }
    }

    /// Sends all contributions to a position once more; whether its sum came back.
    fn sends_again(&self, position: u32) -> bool {
        let frames = (0..CHILDREN).map(|child| self.frame(child, position));
        // To count them sends them all, as the node needs them all.
        frames.filter(|frame| self.is_answered(frame, position)).count() > 0
    }
}

/// One CPU's share: the contributions of every `cpus`-th child. All CPUs are at the same position at the same time.
/// Returns the positions whose sum came back.
fn contribute(sender: &Sender, cpu: usize, at: &AtomicUsize, positions: Range<u32>) -> Vec<u32> {
    test_run::stay_on(cpu);
    let mut answered = Vec::new();
    for (step, position) in positions.enumerate() {
        let mine = (0..CHILDREN).filter(|child| usize::from(*child) % sender.cpus == cpu);
        let frames: Vec<_> = mine.map(|child| sender.frame(child, position)).collect();
        at.fetch_add(1, Ordering::AcqRel);
        while at.load(Ordering::Acquire) < sender.cpus * (step + 1) {
            thread::yield_now();
        }
        let sums = frames.iter().filter(|frame| sender.is_answered(frame, position));
        answered.extend(sums.map(|_| position));
    }
    answered
}

/// All contributions to some positions, on all CPUs; the positions whose sum came back.
fn contribute_on_all_cpus(sender: &Sender, positions: &Range<u32>) -> Vec<u32> {
    let at = AtomicUsize::new(0);
    thread::scope(|scope| {
        let share = |cpu| {
            let (at, positions) = (&at, positions.clone());
            scope.spawn(move || contribute(sender, cpu, at, positions))
        };
        let threads: Vec<_> = (0..sender.cpus).map(share).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, Vec<u32>>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().flat_map(join).collect()
    })
}

#[test]
fn sums_are_exact_on_all_cpus_at_once() {
    if !bpf_is_here() {
        return;
    }
    let plan = plan();
    let mut pair = Pair::with_options(&plan, NodeId(0), &Options::default());
    let mut traffic = RandomTraffic::new(&plan, NodeId(0), 0);
    pair.join(&joining(&mut traffic));
    let sender = Sender {
        plan: &plan,
        key: traffic.association().key(FragmentId(0)),
        program: pair.program("aggregate"),
        cpus: thread::available_parallelism().map_or(2, usize::from).clamp(2, CHILDREN.into()),
    };
    let positions = times_soak(POSITIONS) as u32;
    for first in (0..positions).step_by(SLOTS as usize) {
        let window = first..positions.min(first + SLOTS);
        let before = pair.counter(Verdict::Contended);
        let answered = contribute_on_all_cpus(&sender, &window);
        let lost: Vec<_> = window.clone().filter(|at| !answered.contains(at)).collect();
        assert_eq!(answered.len() + lost.len(), window.len(), "no position is completed twice");
        let contended = pair.counter(Verdict::Contended) - before;
        assert!(lost.len() as u64 <= contended, "{lost:?} are lost, {contended} packets dropped");
        for position in lost {
            assert!(sender.sends_again(position), "{position} is completed in the end");
        }
    }
    assert_eq!(pair.counter(Verdict::Completed), u64::from(positions));
}
