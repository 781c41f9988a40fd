//! The aggregator on real ports: veth pairs between namespaces, children with ordinary UDP sockets.
#![cfg(wiresum_bpf)]

mod support;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use support::bpf_is_here;
use support::namespaces::{Namespace, namespaces_work};
use wiresum_protocol::{Aggregator, Plan, Recipients};
use wiresum_testkit::seeds::{Replay, seed_or, times_soak};
use wiresum_testkit::traffic::aggregator::{RandomTraffic, Step};
use wiresum_wire::{Contributor, Exchange, NodeId, PAGE_PACKET};
use wiresum_xdp::{Options, XdpAggregator, attach_pass_program};

/// How long a packet may take from one namespace to the next on a busy machine.
const PATIENCE: Duration = Duration::from_secs(5);
/// Room for the largest packet, the most that plain XDP on veth allows.
const MTU: &str = "3400";
const PACKETS: u64 = 600;
/// Pairs of a result to one child and one to all.
const PAIRS: u32 = 20;

/// Worker 0 has a port of its own; workers 1 to 3 share another. Their addresses are those of a family.
struct Family {
    node: &'static str,
    gateways: [&'static str; 2],
    hosts: [&'static str; 2],
    prefix: u8,
    flag: &'static str,
}

const IPV4: Family = Family {
    node: "10.99.0.254",
    gateways: ["10.99.0.254", "10.99.1.254"],
    hosts: ["10.99.0.1", "10.99.1.1"],
    prefix: 24,
    flag: "-4",
};
const IPV6: Family = Family {
    node: "fd00:99:0::fe",
    gateways: ["fd00:99:0::fe", "fd00:99:1::fe"],
    hosts: ["fd00:99:0::1", "fd00:99:1::1"],
    prefix: 64,
    flag: "-6",
};

impl Family {
    fn node(&self) -> SocketAddr {
        SocketAddr::new(self.node.parse::<IpAddr>().expect("an address"), 5747)
    }

    fn plan(&self) -> Plan {
        let [alone, shared] = self.hosts;
        let workers: Vec<String> = [alone, shared, shared, shared]
            .iter()
            .enumerate()
            .map(|(rank, host)| {
                format!(r#"{{ "rank": {rank}, "name": "w{rank}", "address": "{host}" }}"#)
            })
            .collect();
        let leg = |rank| format!(r#"{{ "child": {{ "worker": {rank} }}, "parent": 0 }}"#);
        let legs = [1, 0, 3, 2].map(leg).join(", ");
        let text = format!(
            r#"{{ "format": "wiresum-plan/2", "job": {{ "id": 1, "secret": "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "values_per_packet": 736 }},
            "nodes": [{{ "id": 0, "name": "switch", "address": "{}", "engine": "xdp" }}], "workers": [{}],
            "streams": [
              {{ "id": 0, "name": "exponents", "role": "exponents", "share": 0, "policy": "pool", "window": 4,
                 "places": [{{ "node": 0, "slots": 8 }}], "legs": [{legs}] }},
              {{ "id": 1, "name": "values", "role": "values", "share": 1, "policy": "pool", "window": 8,
                 "places": [{{ "node": 0, "slots": 16 }}], "legs": [{legs}] }}] }}"#,
            self.node(),
            workers.join(", ")
        );
        Plan::from_json(&text).expect("a valid plan")
    }

    /// The switch with two ports, and the two hosts behind them, which have names of a test of their own.
    fn build(&self, test: &str) -> (Namespace, [Namespace; 2]) {
        let label = format!("{test}{}", self.flag.trim_start_matches('-'));
        let switch = Namespace::new(&format!("sw{label}"));
        let hosts = [0, 1].map(|i| Namespace::new(&format!("h{label}-{i}")));
        for (i, host) in hosts.iter().enumerate() {
            let port = format!("p{i}");
            let ends = ["type", "veth", "peer", "name", "e0", "netns", &host.name];
            switch.ip(&[&["link", "add", &port, "mtu", MTU][..], &ends].concat());
            host.ip(&["link", "set", "e0", "mtu", MTU, "up"]);
            switch.ip(&["link", "set", &port, "up"]);
            let address = |ip: &str| format!("{ip}/{}", self.prefix);
            let quick: &[&str] = if self.flag == "-6" { &["nodad"] } else { &[] };
            switch
                .ip(&[&["addr", "add", &address(self.gateways[i]), "dev", &port], quick].concat());
            host.ip(&[&["addr", "add", &address(self.hosts[i]), "dev", "e0"], quick].concat());
            host.ip(&[self.flag, "route", "add", "default", "via", self.gateways[i]]);
            host.enter(|| attach_pass_program("e0")).expect("the pass program attaches");
        }
        (switch, hosts)
    }
}

/// The daemon's part: it answers joining packets and mirrors who takes part.
struct Daemon {
    xdp: XdpAggregator,
    reference: Aggregator,
    socket: UdpSocket,
    plan: Plan,
}

impl Daemon {
    fn start(plan: &Plan, address: SocketAddr) -> Self {
        let placed = [(plan.clone(), NodeId(0))];
        let mut xdp = XdpAggregator::load(&placed, &Options::default()).expect("the program loads");
        for port in ["p0", "p1"] {
            xdp.attach(port).expect("the program attaches");
        }
        let socket = UdpSocket::bind(address).expect("the address is ours");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Self { xdp, reference: Aggregator::new(plan, NodeId(0)), socket, plan: plan.clone() }
    }

    fn admit_one(&mut self) {
        let mut buffer = [0; PAGE_PACKET];
        let (len, source) = self.socket.recv_from(&mut buffer).expect("the hello arrives");
        let outcome = self.reference.handle_datagram(source, &mut buffer, len);
        let (members, job) = (self.reference.membership(), self.plan.job_id());
        if members.children.len() == 1 {
            self.xdp
                .start_incarnation(job, members.key.expect("joined"))
                .expect("the job is known");
        }
        for (&sub_model, &keys) in &members.keys {
            self.xdp.renew(job, sub_model, keys).expect("the stream is known");
        }
        for (&(sub_model, child), &address) in &members.children {
            self.xdp.admit_child(job, sub_model, child, address).expect("heard");
        }
        let Recipients::One(destination) = outcome.recipients else {
            panic!("no welcome: {outcome:?}")
        };
        self.socket.send_to(&buffer[..outcome.len], destination).expect("the welcome leaves");
    }
}

type Sockets = BTreeMap<SocketAddr, UdpSocket>;

fn bind(family: &Family, plan: &Plan, hosts: &[Namespace; 2]) -> Sockets {
    let traffic = RandomTraffic::new(plan, NodeId(0), 0);
    let addresses = (0..4).map(|child| traffic.child_address(&plan.streams[0], child));
    let socket = |address: SocketAddr| {
        let host = family.hosts.iter().position(|host| host.parse() == Ok(address.ip()));
        let socket = hosts[host.expect("a known host")].enter(|| UdpSocket::bind(address));
        let socket = socket.expect("the address is the host's");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        (address, socket)
    };
    addresses.map(socket).collect()
}

/// Expects exactly these packets at these sockets, in order.
fn expect(sockets: &Sockets, packets: &[(SocketAddr, Vec<u8>)], at: &str) {
    let mut buffer = [0; PAGE_PACKET];
    for (destination, packet) in packets {
        let received = sockets[destination].recv(&mut buffer);
        let len =
            received.unwrap_or_else(|error| panic!("{at}: nothing at {destination}: {error}"));
        let differing = buffer[..len].iter().zip(packet).position(|(a, b)| a != b);
        assert_eq!(
            (len, differing),
            (packet.len(), None),
            "{at}: other bytes at {destination}: {:02x?} {:02x?}",
            &buffer[..40],
            &packet[..40]
        );
    }
}

/// A daemon that all children have joined, and what they send next.
fn join(family: &Family, plan: &Plan, sockets: &Sockets, seed: u64) -> (Daemon, RandomTraffic) {
    let mut daemon = Daemon::start(plan, family.node());
    let mut traffic = RandomTraffic::new(plan, NodeId(0), seed);
    for step in traffic.joining() {
        sockets[&step.source].send_to(&step.datagram, family.node()).expect("the hello leaves");
        daemon.admit_one();
        expect(sockets, &step.packets, "joining");
    }
    (daemon, traffic)
}

fn run(family: &Family) {
    if !bpf_is_here() || !namespaces_work() {
        return;
    }
    let (seed, packets) = (seed_or(1), times_soak(PACKETS));
    let _replay = Replay { test: "-p wiresum-xdp --test veth", seed };
    let plan = family.plan();
    let (switch, hosts) = family.build("");
    let sockets = bind(family, &plan, &hosts);
    switch.enter(|| {
        let (daemon, traffic) = join(family, &plan, &sockets, seed);
        for (index, step) in traffic.take(packets as usize).enumerate() {
            exchange(&daemon, &sockets, family.node(), &step, index);
        }
        for socket in sockets.values() {
            socket.set_nonblocking(true).expect("a mode");
            assert!(socket.recv(&mut [0; PAGE_PACKET]).is_err(), "a packet too many");
        }
    });
}

/// Results to one child and to all leave by its port in the same turn of the kernel, which would run one program on both.
fn mix(family: &Family) {
    if !bpf_is_here() || !namespaces_work() {
        return;
    }
    const VALUES: usize = 1;
    /// Children of the stream: worker 0, alone behind its port, and one of those behind the other.
    const ALONE: u8 = 1;
    const LAST: u8 = 2;
    let plan = family.plan();
    let (switch, hosts) = family.build("x");
    let sockets = bind(family, &plan, &hosts);
    switch.enter(|| {
        let (daemon, mut traffic) = join(family, &plan, &sockets, 1);
        for pair in 0..PAIRS {
            let sums = [Exchange::to(Contributor(ALONE)), Exchange::ALL];
            let copies = [Exchange::copy_to(Contributor(ALONE)), Exchange::COPY];
            let exchanges = if pair % 4 < 2 { sums } else { copies };
            let mut last = Vec::new();
            for (offset, takers) in (2 * pair..).zip(exchanges) {
                let gives = |child: &u8| takers == Exchange::ALL || *child != ALONE;
                let givers = (0..4).filter(|child| gives(child) && !takers.is_copy());
                for child in givers.filter(|child| *child != LAST) {
                    let step = traffic.contribution(VALUES, offset, child, takers);
                    exchange(&daemon, &sockets, family.node(), &step, offset as usize);
                }
                last.push(traffic.contribution(VALUES, offset, LAST, takers));
            }
            last.rotate_left(pair as usize % 2);
            send_at_once(&sockets[&last[0].source], family.node(), &last);
            for step in &last {
                expect(&sockets, &step.packets, &format!("pair {pair}"));
            }
        }
    });
}

/// Sends packets as one bundle, which the kernel takes apart just before the port.
fn send_at_once(socket: &UdpSocket, node: SocketAddr, steps: &[Step]) {
    let (bundle, segment) = (steps.iter().flat_map(|step| step.datagram.clone()), &steps[0]);
    let bundle: Vec<u8> = bundle.collect();
    for len in [segment.datagram.len(), 0] {
        let len = libc::c_int::try_from(len).expect("a packet is short");
        // SAFETY: the option is an integer, whose address and size are given.
        let set = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_UDP,
                libc::UDP_SEGMENT,
                (&raw const len).cast(),
                size_of_val(&len) as libc::socklen_t,
            )
        };
        assert_eq!(set, 0, "the kernel has segmentation offload for UDP");
        if len != 0 {
            socket.send_to(&bundle, node).expect("the bundle leaves");
        }
    }
}

/// Sends a packet, unless no child would, and waits for what follows from it.
fn exchange(daemon: &Daemon, sockets: &Sockets, node: SocketAddr, step: &Step, index: usize) {
    let Some(socket) = sockets.get(&step.source) else { return };
    let at = format!(
        "packet {index} of {} bytes from {}, {:?}",
        step.datagram.len(),
        step.source,
        step.outcome.verdict
    );
    let counted = || daemon.xdp.counter(step.outcome.verdict).expect("counters can be read");
    let (before, patience) = (counted(), Instant::now() + PATIENCE);
    socket.send_to(&step.datagram, node).unwrap_or_else(|error| panic!("{at}: {error}"));
    while counted() == before {
        assert!(Instant::now() < patience, "{at}: not counted, {:?}", daemon.xdp.counters());
    }
    expect(sockets, &step.packets, &at);
}

#[test]
fn every_child_gets_its_own_result_over_ipv4() {
    run(&IPV4);
}

#[test]
fn every_child_gets_its_own_result_over_ipv6() {
    run(&IPV6);
}

#[test]
fn results_to_one_and_to_all_leave_together_over_ipv4() {
    mix(&IPV4);
}

#[test]
fn results_to_one_and_to_all_leave_together_over_ipv6() {
    mix(&IPV6);
}
