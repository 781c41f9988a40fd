//! The kernel's aggregator and the reference, side by side.

// Each test binary uses its own part of this.
#![allow(dead_code)]

pub mod keyed;
pub mod namespaces;
pub mod rows;
pub mod switches;

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use serde_json::Value;
use wiresum_protocol::transmitter::{DataPlane, Survey};
use wiresum_protocol::{Aggregator, Outcome, Plan, Quota, Recipients, Verdict};
use wiresum_testkit::capability;
use wiresum_testkit::traffic::aggregator::RandomTraffic;
use wiresum_wire::{Exchange, FragmentId, Header, NodeId, PAGE_PACKET};
use wiresum_xdp::frames::{LOCAL_MAC, PEER_MAC, udp_frame};
use wiresum_xdp::{Options, XdpAggregator};
use zerocopy::FromBytes;

pub const XDP_DROP: u32 = 1;
pub const XDP_PASS: u32 = 2;
pub const XDP_TX: u32 = 3;
pub const XDP_REDIRECT: u32 = 4;

/// The kernel's test-run takes no frame without an Ethernet header.
const MIN_FRAME: usize = 14;

/// The joining packets of random traffic.
pub fn joining(traffic: &mut RandomTraffic) -> Vec<(SocketAddr, Vec<u8>)> {
    traffic.joining().into_iter().map(|step| (step.source, step.datagram)).collect()
}

/// Whether BPF programs can be loaded here; says so aloud if not.
pub fn bpf_is_here() -> bool {
    capability::is_here("bpf", XdpAggregator::check_support())
}

/// Keeps the calling thread on the CPU that it is on: copies of a broadcast are told apart by what that CPU has counted
/// (ADR 7), and a test-run takes place where its caller is.
fn stay_here() {
    // SAFETY: zero is a value of the set, which outlives the call; no memory of ours is written.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(libc::sched_getcpu().max(0) as usize, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set);
    }
}

/// Replays every golden trace of a folder of `spec/vectors`, with its name for messages.
pub fn replay_traces(folder: &str, mut replay: impl FnMut(&Value, &str)) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/vectors").join(folder);
    let mut replayed = 0;
    for file in std::fs::read_dir(&folder).expect("the traces are in the repository") {
        let path = file.expect("a readable folder").path();
        let text = std::fs::read_to_string(&path).expect("a readable trace");
        replay(&serde_json::from_str(&text).expect("a trace is JSON"), &path.display().to_string());
        replayed += 1;
    }
    assert!(replayed > 0, "no traces in {}", folder.display());
}

/// The elements of a trace's list.
pub fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

/// The bytes that a trace has in hexadecimal digits; none where it has nothing.
pub fn bytes(hex: &Value) -> Vec<u8> {
    let hex = hex.as_str().unwrap_or_default();
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal digits");
    (0..hex.len()).step_by(2).map(byte).collect()
}

/// Both implementations of one node of one job.
pub struct Pair {
    xdp: XdpAggregator,
    reference: Aggregator,
    plan: Plan,
    node: NodeId,
    /// Datagrams fed so far, for messages.
    fed: usize,
}

impl Pair {
    pub fn new(plan: &Plan, node: NodeId) -> Self {
        Self::with_options(plan, node, &Options::default())
    }

    pub fn with_options(plan: &Plan, node: NodeId, options: &Options) -> Self {
        Self::beside(&[], plan, node, options)
    }

    /// As a node of one job among others, which no one has joined.
    pub fn beside(others: &[(Plan, NodeId)], plan: &Plan, node: NodeId, options: &Options) -> Self {
        stay_here();
        let plans = [others, &[(plan.clone(), node)]].concat();
        let xdp = XdpAggregator::load_for_tests(&plans, options);
        let xdp = xdp.unwrap_or_else(|error| panic!("{error}"));
        Self { xdp, reference: Aggregator::new(plan, node), plan: plan.clone(), node, fed: 0 }
    }

    /// The same quota in both, of which no byte comes back while a test runs.
    pub fn limit(&mut self, bytes: u64) {
        const NANOSECONDS_PER_BYTE: u64 = 1 << 33;
        let quota =
            Quota { byte_cost: NANOSECONDS_PER_BYTE << 16, burst: bytes * NANOSECONDS_PER_BYTE };
        self.reference.set_quota(Some(quota));
        self.xdp.set_quota(self.plan.job_id(), Some(quota)).expect("the job is known");
    }

    /// A descriptor of one of the kernel's programs.
    pub fn program(&self, name: &'static str) -> std::os::fd::OwnedFd {
        self.xdp.program(name).expect("a descriptor")
    }

    /// How often the kernel's programs gave a verdict.
    pub fn counter(&self, verdict: Verdict) -> u64 {
        self.xdp.counter(verdict).expect("counters can be read")
    }

    /// The node's address, or, if that is any, one of the sender's family.
    fn address(&self, peer: SocketAddr) -> SocketAddr {
        let address = self.plan.node(self.node).expect("in the plan").address;
        let any = address.ip().is_unspecified();
        if any { SocketAddr::new(peer.ip(), address.port()) } else { address }
    }

    /// Runs joining packets through the program and the reference, and mirrors who takes part.
    pub fn join(&mut self, packets: &[(SocketAddr, Vec<u8>)]) {
        self.greet(packets);
        let (members, job) = (self.reference.membership(), self.plan.job_id());
        self.xdp.start_incarnation(job, members.key.expect("joined")).expect("the job is known");
        for (sub_model, seats) in &members.vacant {
            self.xdp.vacate(job, *sub_model, *seats).expect("the stream is known");
        }
        self.tell_keys();
        for (&(sub_model, child), &address) in &members.children {
            self.xdp.admit_child(job, sub_model, child, address).expect("heard");
        }
        for (&sub_model, &address) in &members.parents {
            self.xdp.set_parent(job, sub_model, address).expect("heard");
        }
    }

    /// As [`Self::join`], of members who tell that keys are renewed.
    pub fn renew(&mut self, packets: &[(SocketAddr, Vec<u8>)]) {
        self.greet(packets);
        self.tell_keys();
    }

    fn greet(&mut self, packets: &[(SocketAddr, Vec<u8>)]) {
        for (source, datagram) in packets {
            let (action, _) =
                self.run("aggregate", &udp_frame(*source, self.address(*source), datagram));
            assert_eq!(action, XDP_PASS, "joining packets go to the daemon");
            self.ask_reference(*source, datagram);
        }
    }

    fn tell_keys(&mut self) {
        for (sub_model, keys) in self.reference.membership().keys {
            self.xdp.renew(self.plan.job_id(), sub_model, keys).expect("the stream is known");
        }
    }

    /// Feeds a datagram to both, and panics unless verdict, recipients and bytes agree.
    pub fn feed(&mut self, source: SocketAddr, datagram: &[u8]) -> Verdict {
        let at = format!("datagram {} from {source}, {} bytes", self.fed, datagram.len());
        self.fed += 1;
        let (outcome, packet) = self.ask_reference(source, datagram);
        let before = self.xdp.counter(outcome.verdict).expect("counters can be read");
        let (action, frame) =
            self.run("aggregate", &udp_frame(source, self.address(source), datagram));
        let after = self.xdp.counter(outcome.verdict).expect("counters can be read");
        assert_eq!(
            after,
            before + 1,
            "{at}: the reference says {:?}; {}",
            outcome.verdict,
            self.counts()
        );
        match outcome.recipients {
            Recipients::None => assert_eq!(action, XDP_DROP, "{at}"),
            Recipients::One(address) => {
                assert_eq!(action, XDP_TX, "{at}");
                check_frame(&frame, self.address(address), address, &packet, &at);
            }
            Recipients::ControlHalf => {
                assert_eq!(action, XDP_PASS, "{at}");
                assert!(frame.ends_with(&packet), "{at}: the daemon gets the packet as it arrived");
            }
            Recipients::Children => {
                assert_eq!(action, XDP_REDIRECT, "{at}");
                self.check_copies(&frame, packet, &at);
            }
        }
        outcome.verdict
    }

    /// Feeds a frame with some bits of its headers changed to the program alone, unless the change makes no difference. It must
    /// leave the sums as they are, or the packets that follow will differ.
    pub fn feed_mutated(
        &mut self,
        source: SocketAddr,
        datagram: &[u8],
        chance: &mut impl FnMut() -> usize,
    ) {
        let mut frame = udp_frame(source, self.address(source), datagram);
        let headers = frame.len() - datagram.len();
        for _ in 0..1 + chance() % 3 {
            let at = chance() % headers;
            frame[at] ^= 1 << (chance() % 8);
        }
        frame.truncate(
            frame.len() - usize::from(chance().is_multiple_of(4)) * (chance() % frame.len().max(1)),
        );
        frame.resize(frame.len().max(MIN_FRAME), 0);
        if self.is_for_the_node(&frame, source) {
            return;
        }
        let (action, left) = self.run("aggregate", &frame);
        if action == XDP_PASS {
            assert!(left == frame, "a frame that is passed is left as it was");
        } else {
            assert_eq!(action, XDP_DROP, "a frame from no child is not answered: {}", hex(&frame));
        }
    }

    /// Whether the addresses, ports and length of a mutated frame are still those of a packet from `source`.
    fn is_for_the_node(&self, frame: &[u8], source: SocketAddr) -> bool {
        let same = udp_frame(source, self.address(source), &[]);
        let fields = [12..14, 14..15, 23..24, 26..38];
        let is_fragment = be16(frame.get(20..22).unwrap_or(&[0; 2])) & 0x3fff != 0;
        let agrees = |field: std::ops::Range<usize>| frame[field.clone()] == same[field];
        frame.len() >= same.len() && !is_fragment && fields.into_iter().all(agrees)
    }

    /// Every child's copy, in the order in which they leave; all children are behind one port here.
    fn check_copies(&self, frame: &[u8], mut packet: Vec<u8>, at: &str) {
        for child in 0..self.reference.child_count() {
            let Some(address) = self.reference.address_to_child(child, &mut packet) else {
                if is_giver(child, &packet) {
                    let (action, _) = self.run("test_copy", frame);
                    assert_eq!(action, XDP_DROP, "{at}: the giver's copy");
                }
                continue;
            };
            let (action, copy) = self.run("test_copy", frame);
            assert_eq!(action, XDP_PASS, "{at}: copy for child {child}");
            check_frame(&copy, self.address(address), address, &packet, at);
        }
        let (action, _) = self.run("test_copy", frame);
        assert_eq!(action, XDP_DROP, "{at}: one copy too many");
    }

    fn run(&self, program: &'static str, frame: &[u8]) -> (u32, Vec<u8>) {
        let run = self.xdp.test_run(program, frame, 1).unwrap_or_else(|error| panic!("{error}"));
        (run.action, run.frame)
    }

    fn ask_reference(&mut self, source: SocketAddr, datagram: &[u8]) -> (Outcome, Vec<u8>) {
        let mut buffer = [0; PAGE_PACKET];
        buffer[..datagram.len()].copy_from_slice(datagram);
        let outcome = self.reference.handle_datagram(source, &mut buffer, datagram.len());
        (outcome, buffer[..outcome.len].to_vec())
    }

    fn counts(&self) -> String {
        let counters = self.xdp.counters().expect("counters can be read");
        let seen = counters.iter().filter(|(_, count)| *count > 0);
        seen.map(|(verdict, count)| format!("{} {count} ", verdict.name())).collect()
    }

    /// Feeds both a datagram that nobody may believe, and panics if it is answered. Whether both count it alike,
    /// [`Self::check_counters`] tells, which costs as much as a hundred packets.
    pub fn feed_refused(&mut self, source: SocketAddr, datagram: &[u8]) -> Verdict {
        let (outcome, _) = self.ask_reference(source, datagram);
        assert_eq!(outcome.recipients, Recipients::None, "{:?}", outcome.verdict);
        let frame = udp_frame(source, self.address(source), datagram);
        let (action, _) = self.run("aggregate", &frame);
        assert_eq!(action, XDP_DROP, "{:?} from {source}: {}", outcome.verdict, self.counts());
        outcome.verdict
    }

    /// Panics unless both tell a transmitter the same about the slots of every sub-model, from position `first` on.
    pub fn check_slots(&mut self, first: FragmentId) {
        let mut slots = self.xdp.slots(self.plan.job_id());
        let payload = &mut [[0; PAGE_PACKET]; 2];
        for sub_model in self.plan.streams.iter().map(|sub_model| sub_model.id()) {
            let expected = self.reference.survey(sub_model, first);
            assert_eq!(slots.survey(sub_model, first), expected, "{sub_model} from {first}");
            for position in (0..Survey::POSITIONS).map(|index| first.plus(index)) {
                let expected = self.reference.sum(sub_model, position, &mut payload[0]);
                assert_eq!(slots.sum(sub_model, position, &mut payload[1]), expected);
                let len = expected.map_or(0, |sum| sum.payload_len);
                assert_eq!(payload[0][..len], payload[1][..len], "{sub_model}, {position}");
            }
        }
    }

    /// Panics unless both have counted the same (the reference counts joining packets too).
    pub fn check_counters(&self) {
        let ours = self.xdp.counters().expect("counters can be read");
        for (reference, xdp) in self.reference.counters().iter().zip(ours) {
            assert_eq!(*reference, xdp);
        }
    }
}

/// Panics unless the frame carries `packet` from the aggregator to `destination`, with right lengths and checksums.
pub fn check_frame(
    frame: &[u8],
    source: SocketAddr,
    destination: SocketAddr,
    packet: &[u8],
    at: &str,
) {
    assert_eq!(frame[..6], PEER_MAC, "{at}: Ethernet destination");
    assert_eq!(frame[6..12], LOCAL_MAC, "{at}: Ethernet source");
    let (headers, from, to): (usize, IpAddr, IpAddr) = match frame[12..14] {
        [0x08, 0x00] => {
            assert_eq!(ones_complement(&frame[14..34]), 0xffff, "{at}: IPv4 checksum");
            assert_eq!(be16(&frame[16..]), frame.len() - 14, "{at}: IPv4 length");
            let ip = |at: usize| <[u8; 4]>::try_from(&frame[at..at + 4]).expect("4 bytes").into();
            (42, ip(26), ip(30))
        }
        [0x86, 0xdd] => {
            let udp_len = (frame.len() - 54) as u16;
            assert_eq!(be16(&frame[18..]), usize::from(udp_len), "{at}: IPv6 length");
            let pseudo = [&frame[22..54], &udp_len.to_be_bytes(), &[0, 17], &frame[54..]].concat();
            assert_eq!(ones_complement(&pseudo), 0xffff, "{at}: UDP checksum");
            let ip =
                |at: usize| <[u8; 16]>::try_from(&frame[at..at + 16]).expect("16 bytes").into();
            (62, ip(22), ip(38))
        }
        _ => panic!("{at}: neither IPv4 nor IPv6"),
    };
    let ports = [be16(&frame[headers - 8..]), be16(&frame[headers - 6..])].map(|port| port as u16);
    assert_eq!(SocketAddr::new(from, ports[0]), source, "{at}: source");
    assert_eq!(SocketAddr::new(to, ports[1]), destination, "{at}: destination");
    assert_eq!(be16(&frame[headers - 4..]), frame.len() - headers + 8, "{at}: UDP length");
    assert!(
        frame[headers..] == *packet,
        "{at}: bytes differ\n xdp {}\n ref {}",
        hex(&frame[headers..]),
        hex(packet)
    );
}

fn be16(bytes: &[u8]) -> usize {
    usize::from(bytes[0]) << 8 | usize::from(bytes[1])
}

fn ones_complement(bytes: &[u8]) -> u32 {
    let words =
        bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    (folded & 0xffff) + (folded >> 16)
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().take(80).map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a result is a copy of what this child has given: its port gets one too, and drops it.
fn is_giver(child: usize, packet: &[u8]) -> bool {
    let (header, _) = Header::ref_from_prefix(packet).expect("a packet");
    Exchange(header.priority).is_copy() && usize::from(header.expected) == child
}
