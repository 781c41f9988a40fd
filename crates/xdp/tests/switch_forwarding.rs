//! Where the kernel's switch sends packets, against the reference's tables: in test-runs, and over real links.
#![cfg(wiresum_bpf)]

mod support;

use std::collections::BTreeMap;
use std::ffi::CString;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use support::namespaces::{Namespace, namespaces_work};
use support::switches::{SUMS, Wild, key_of, load, load_at};
use support::{XDP_DROP, XDP_PASS, XDP_REDIRECT, bpf_is_here, check_frame};
use wiresum_protocol::Quota;
use wiresum_protocol::association::GENERATION_SHIFT;
use wiresum_switch::policy::Policy;
use wiresum_switch::{
    ANY_NODE, Contributors, Egress, Forwarding, Hop, Leg, Neighbour, Packet, Site, Switch, Values,
    Verdict, Way, Ways, wire,
};
use wiresum_testkit::seeds::{Replay, seed_or, times_soak};
use wiresum_testkit::traffic::switch::RandomTraffic;
use wiresum_wire::{
    Flags, FragmentId, Header, JobId, JobKey, Kind, LaneType, MAGIC, NodeId, Round, SubModelId,
    VERSION, seal,
};
use wiresum_xdp::frames::{LOCAL_MAC, PEER_MAC, udp_frame};
use wiresum_xdp::{AttachMode, Reach, SwitchProgram, XdpError, attach_pass_program};
use zerocopy::{FromZeros, IntoBytes};

const NODE: NodeId = NodeId(1);
const PARENT: NodeId = NodeId(2);
/// A switch below, with workers 2 and 3 behind it.
const BELOW: NodeId = NodeId(3);
/// Random packets for each policy, role and family of addresses.
const PACKETS: u64 = 800;
/// A stream of worker 0 alone, which is not summed here.
const ALONE: SubModelId = SubModelId(9);
/// Results that are sent by one call; few enough for any queue.
const BURST: u32 = 20;
/// How long a packet may take from one namespace to the next on a busy machine.
const PATIENCE: Duration = Duration::from_secs(5);

fn neighbour(site: Site) -> Neighbour {
    Neighbour { site, link: 0 }
}

/// Workers 0 and 1 and the other switch below this one, the parent above. A root's results begin here.
fn ways(policy: Policy, is_root: bool, job: JobId, sub_model: SubModelId) -> Ways {
    let hop = |from, to| Hop { from, to, link: 0 };
    let of = |worker: u8| {
        let mut below = vec![Site::Worker(worker)];
        below.extend((worker >= 2).then_some(Site::Node(BELOW)));
        below.push(Site::Node(NODE));
        let mut hops: Vec<Hop> = below.windows(2).map(|pair| hop(pair[0], pair[1])).collect();
        let above = hop(Site::Node(NODE), Site::Node(PARENT));
        let legs = match (is_root, policy.is_addressed()) {
            (true, _) => vec![Leg { node: ANY_NODE, hops }],
            (false, true) => {
                vec![Leg { node: NODE, hops }, Leg { node: PARENT, hops: vec![above] }]
            }
            (false, false) => {
                hops.push(above);
                vec![Leg { node: ANY_NODE, hops }]
            }
        };
        Way { worker, legs }
    };
    Ways { job, sub_model, of: (0..4).map(of).collect() }
}

/// An address of a link.
fn ip(is_v6: bool, link: u8, last: u8) -> IpAddr {
    if is_v6 {
        Ipv6Addr::new(0xfd98, 0, 0, link.into(), 0, 0, 0, last.into()).into()
    } else {
        [10, 98, link, last].into()
    }
}

/// Where the switch listens in test-runs, and who sends.
fn ends(is_v6: bool) -> (SocketAddr, SocketAddr) {
    (SocketAddr::new(ip(is_v6, 99, 1), 5747), SocketAddr::new(ip(is_v6, 99, 2), 4000))
}

/// A switch's neighbours, with the interface of each and its index.
struct Links(Vec<(Neighbour, Reach, u32)>);

impl Links {
    /// On interfaces that lead nowhere, of both families in turn: what comes by one may leave by the other.
    fn to_nowhere(namespace: &Namespace) -> Self {
        let sites = [Site::Worker(0), Site::Worker(1), Site::Node(BELOW), Site::Node(PARENT)];
        let link = |(i, site): (usize, Site)| {
            let interface = format!("n{i}");
            namespace.ip(&["link", "add", &interface, "type", "veth"]);
            let address = |last: u8| SocketAddr::new(ip(i % 2 == 1, i as u8, last), 5747);
            let (mac, local_mac) = (PEER_MAC, LOCAL_MAC);
            let reach =
                Reach { interface, address: address(1), local: address(254), mac, local_mac };
            let index = namespace.enter(|| index_of(&reach.interface));
            (neighbour(site), reach, index)
        };
        Self(sites.into_iter().enumerate().map(link).collect())
    }

    fn tell(&self, program: &mut SwitchProgram) {
        for (neighbour, reach, _) in &self.0 {
            program.set_neighbour(*neighbour, reach).expect("an interface of its own");
        }
    }

    fn reach(&self, of: Neighbour) -> &Reach {
        &self.0.iter().find(|(neighbour, ..)| *neighbour == of).expect("a neighbour").1
    }
}

fn index_of(interface: &str) -> u32 {
    let name = CString::new(interface).expect("a name");
    // SAFETY: the pointer is to a NUL-terminated string that outlives the call.
    unsafe { libc::if_nametoindex(name.as_ptr()) }
}

/// The reference, its tables, and the kernel's switch with the same.
struct Pair {
    program: SwitchProgram,
    reference: Switch<Values>,
    forwarding: Forwarding,
    links: Links,
    jobs: Vec<JobId>,
    is_v6: bool,
}

impl Pair {
    fn new(policy: Policy, is_root: bool, is_v6: bool, namespace: &Namespace) -> Self {
        let traffic = RandomTraffic::new(policy, is_root, 0);
        let streams: Vec<_> = traffic
            .places()
            .iter()
            .map(|place| ways(policy, is_root, place.job, place.sub_model))
            .collect();
        let forwarding = Forwarding::of(Site::Node(NODE), &streams).expect("ways that lead there");
        let links = Links::to_nowhere(namespace);
        let (address, source) = ends(is_v6);
        let mut program = load_at(address, NODE, policy, traffic.slots(), 8, traffic.places());
        namespace.enter(|| {
            links.tell(&mut program);
            program.forward(&forwarding).expect("every neighbour is known");
        });
        program.expect(source).expect("room for one");
        for place in traffic.places() {
            program.run(place.job, key_of(place.job)).expect("room for its jobs");
        }
        let jobs = traffic.places().iter().map(|place| place.job).collect();
        Self { program, reference: traffic.switch(), forwarding, links, jobs, is_v6 }
    }

    /// The kernel's switch, as another process takes it over.
    fn successor(&self, namespace: &Namespace) -> SwitchProgram {
        let names = self.links.0.iter().map(|(name, reach, _)| (reach.address, *name)).collect();
        let program = &self.program;
        let successor = namespace.enter(|| program.successor(&names));
        let successor = successor.expect("maps of the same layout");
        assert!(self.links.0.iter().all(|(name, ..)| successor.reaches(*name)));
        successor
    }

    /// Another process takes over and dies, so that this one goes on.
    fn fail_to_hand_over(&self, namespace: &Namespace) {
        drop(self.successor(namespace));
        let program = &self.program;
        namespace.enter(|| program.reattach()).expect("its own maps");
    }

    fn feed(&mut self, datagram: &[u8], at: &str) {
        let (address, source) = ends(self.is_v6);
        let ran = self.program.forward_in_test(&udp_frame(source, address, datagram));
        let (action, frame) = ran.expect("a test-run");
        let Ok((key, mut packet)) = wire::parse(datagram) else {
            return assert_eq!(action, XDP_DROP, "{at}");
        };
        let job = packet.job;
        let outcome = self.reference.handle(&mut packet);
        let key = if packet.job == job { key } else { key_of(packet.job) };
        let up = self.forwarding.up(packet.job, packet.sub_model, packet.node, packet.worker);
        match (outcome.egress, up) {
            (Egress::Up, Some(next)) => {
                assert_eq!(action, XDP_REDIRECT, "{at}");
                self.check(next, &frame, &wire::emit(&packet, key), at);
            }
            (Egress::Down, _) if self.is_forwarded(&packet) => {
                assert_eq!(action, XDP_REDIRECT, "{at}");
                self.compare_copies(&frame, key, packet, at);
            }
            // What nothing was done with may be the station's; jobs that do not run are strangers.
            (Egress::Up, None) if outcome.verdict == Verdict::Passed && self.runs(job) => {
                assert_eq!(action, XDP_PASS, "{at}");
            }
            _ => assert_eq!(action, XDP_DROP, "{at}"),
        }
    }

    fn runs(&self, job: JobId) -> bool {
        self.jobs.contains(&job)
    }

    fn is_forwarded(&self, packet: &Packet<Values>) -> bool {
        let stream = (packet.job, packet.sub_model);
        self.forwarding.downs().any(|(job, sub_model, ..)| (job, sub_model) == stream)
    }

    /// Every neighbour gets what the reference sends it, and no other gets anything.
    fn compare_copies(&self, frame: &[u8], key: JobKey, mut packet: Packet<Values>, at: &str) {
        let next: BTreeMap<_, _> = self
            .forwarding
            .down(packet.job, packet.sub_model, packet.cohort(), packet.contributors)
            .collect();
        for (neighbour, _, ifindex) in &self.links.0 {
            let copy = self.program.copy_in_test(frame, *ifindex).expect("a test-run");
            let Some(&recipients) = next.get(neighbour) else {
                assert_eq!(copy, None, "{at}: a copy for {neighbour:?}");
                continue;
            };
            packet.contributors = recipients;
            let copy = copy.unwrap_or_else(|| panic!("{at}: no copy for {neighbour:?}"));
            self.check(*neighbour, &copy, &wire::emit(&packet, key), at);
        }
    }

    fn check(&self, next: Neighbour, frame: &[u8], datagram: &[u8], at: &str) {
        let Reach { local, address, .. } = self.links.reach(next);
        check_frame(frame, *local, *address, datagram, at);
    }
}

/// Every packet of random traffic, forwarded by both, while one process takes over from another.
#[test]
fn packets_go_where_the_reference_sends_them() {
    if !bpf_is_here() || !namespaces_work() {
        return;
    }
    let (seed, packets) = (seed_or(1), times_soak(PACKETS));
    let _replay = Replay { test: "-p wiresum-xdp --test switch_forwarding", seed };
    for policy in Policy::ALL {
        for is_root in [false, true] {
            if is_root && policy.needs_server() {
                continue;
            }
            for is_v6 in [false, true] {
                let name = format!("fw-{}-{is_root}-{is_v6}", policy.name());
                let namespace = Namespace::new(&name);
                let mut pair = Pair::new(policy, is_root, is_v6, &namespace);
                let wild = Wild::new(SUMS, policy, is_root, seed);
                for (i, datagram) in wild.take(packets as usize).enumerate() {
                    match i as u64 {
                        at if at == packets / 4 => pair.fail_to_hand_over(&namespace),
                        at if at == packets / 2 => pair.program = pair.successor(&namespace),
                        _ => {}
                    }
                    pair.feed(&datagram, &format!("{name}, packet {i}"));
                }
            }
        }
    }
}

/// Two jobs at one switch: each is counted by itself, and the quota of one leaves the other alone. What a job that goes
/// has counted stays with the node.
#[test]
fn jobs_are_counted_and_bounded_apart() {
    if !bpf_is_here() || !namespaces_work() {
        return;
    }
    let namespace = Namespace::new("fw-jobs");
    let Pair { mut program, .. } = Pair::new(Policy::Hash, false, false, &namespace);
    let of_job = |job, position| Packet { job: JobId(job), ..contribution(0, position) };
    let send = |program: &SwitchProgram, job, position| {
        let datagram = wire::emit(&of_job(job, position), key_of(JobId(job)));
        let (address, source) = ends(false);
        program.forward_in_test(&udp_frame(source, address, &datagram)).expect("a test-run");
    };
    let len = wire::emit(&of_job(1, 0), key_of(JobId(1))).len() as u64;
    let quota = Quota::with_burst(1, len * u64::from(BURST) / 2);
    program.set_quota(JobId(1), Some(quota)).expect("it is served");
    (0..BURST).for_each(|position| send(&program, 1, position));
    (0..BURST).for_each(|position| send(&program, 2, position));
    let counts = |program: &SwitchProgram, job| {
        let (counts, bytes) = program.job_counters(JobId(job)).expect("readable");
        let over = counts.iter().find(|(name, _)| *name == "over_quota").expect("counted").1;
        (over, counts.iter().map(|(_, count)| count).sum::<u64>(), bytes)
    };
    let ((over, all, bytes), others) = (counts(&program, 1), counts(&program, 2));
    assert_eq!(over, u64::from(BURST) / 2, "what is beyond the burst");
    assert_eq!((all, bytes), (BURST.into(), len * u64::from(BURST)));
    assert_eq!((others.0, others.2), (0, bytes));
    let before = program.counters().expect("readable");
    for job in [1, 2].map(JobId) {
        program.stop(job).expect("it runs");
        program.release(job).expect("nothing is in the way");
    }
    assert_eq!(program.counters().expect("readable"), before);
    assert_eq!(counts(&program, 1), (0, 0, 0));
}

#[test]
fn ways_that_cannot_be_had() {
    if !bpf_is_here() || !namespaces_work() {
        return;
    }
    let namespace = Namespace::new("fw-bad");
    let links = Links::to_nowhere(&namespace);
    let stream = ways(Policy::Hash, false, JobId(1), SubModelId(0));
    let forwarding = Forwarding::of(Site::Node(NODE), &[stream]).expect("ways that lead there");
    let mut program = load(NODE, Policy::Hash, 8, 32, &[]);
    let early = program.forward(&forwarding);
    assert!(matches!(early, Err(XdpError::UnknownNeighbour(_))), "{early:?}");
    namespace.enter(|| {
        let (first, reach, _) = &links.0[0];
        links.tell(&mut program);
        program.set_neighbour(links.0[1].0, reach).expect("several at one interface");
        let shared = program.forward(&forwarding);
        assert!(matches!(shared, Err(XdpError::SharedInterface(_))), "{shared:?}");
        let reach = Reach { interface: "nonesuch".to_owned(), ..reach.clone() };
        let missing = program.set_neighbour(*first, &reach);
        assert!(matches!(missing, Err(XdpError::NoInterface(_))), "{missing:?}");
    });
}

/// Workers, a server and a switch between them, each a namespace, with links of their own.
struct Network {
    switch: Namespace,
    /// By site.
    sockets: BTreeMap<Site, UdpSocket>,
    /// Keeps the hosts.
    _hosts: Vec<Namespace>,
    links: Vec<(Neighbour, Reach)>,
}

impl Network {
    fn build(is_v6: bool) -> Self {
        let name = |end: &str| format!("lv{}-{end}", u8::from(is_v6));
        let switch = Namespace::new(&name("sw"));
        let (mut hosts, mut links, mut sockets) = (Vec::new(), Vec::new(), BTreeMap::new());
        let sites = [Site::Worker(0), Site::Worker(1), Site::Worker(2), Site::Node(PARENT)];
        for (i, site) in sites.into_iter().enumerate() {
            let host = Namespace::new(&name(&i.to_string()));
            let reach = connect(&switch, &host, i as u8, is_v6);
            let socket = host.enter(|| UdpSocket::bind(reach.address)).expect("the host's address");
            socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
            socket.connect(reach.local).expect("an address");
            sockets.insert(site, socket);
            links.push((neighbour(site), reach));
            hosts.push(host);
        }
        Self { switch, sockets, _hosts: hosts, links }
    }

    /// Everyone says hello, from which the program learns how they are reached; of someone who has not, it says so.
    fn introduce(&self, program: &mut SwitchProgram) {
        for (neighbour, reach) in &self.links {
            program.expect(reach.address).expect("room for four");
            let early = program.meet(*neighbour, reach.address);
            assert!(matches!(early, Err(XdpError::NotHeard(_))), "{early:?}");
            self.send(neighbour.site, &hello());
            let meets = || program.meet(*neighbour, reach.address).is_ok();
            assert!(comes_true(meets), "no hello from {neighbour:?}");
            assert!(!program.meet(*neighbour, reach.address).expect("it was heard"), "as before");
        }
    }

    fn send(&self, from: Site, datagram: &[u8]) {
        self.sockets[&from].send(datagram).expect("the link is up");
    }

    fn expect(&self, at: Site, datagram: &[u8]) {
        let mut buffer = [0; 4096];
        let received = self.sockets[&at].recv(&mut buffer);
        let len = received.unwrap_or_else(|error| panic!("nothing at {at:?}: {error}"));
        assert!(buffer[..len] == *datagram, "other bytes at {at:?}");
    }
}

/// A veth pair between the switch and a host, with known addresses.
fn connect(switch: &Namespace, host: &Namespace, i: u8, is_v6: bool) -> Reach {
    let interface = format!("p{i}");
    let (mac, local_mac) = ([2, 0, 0, 1, i, 1], [2, 0, 0, 1, i, 2]);
    let text = |mac: [u8; 6]| mac.map(|byte| format!("{byte:02x}")).join(":");
    let ends = ["type", "veth", "peer", "name", "e0", "netns", &host.name];
    switch.ip(&[&["link", "add", &interface, "address", &text(local_mac)][..], &ends].concat());
    host.ip(&["link", "set", "e0", "address", &text(mac), "up"]);
    switch.ip(&["link", "set", &interface, "up"]);
    let (prefix, rest) = if is_v6 { (64, &["nodad"][..]) } else { (24, &[][..]) };
    let add = |namespace: &Namespace, last: u8, device: &str| {
        let address = format!("{}/{prefix}", ip(is_v6, i, last));
        namespace.ip(&[&["addr", "add", &address, "dev", device], rest].concat());
    };
    add(switch, 254, &interface);
    add(host, 1, "e0");
    // What is redirected to a veth arrives only where its peer has a program.
    host.enter(|| attach_pass_program("e0")).expect("the pass program attaches");
    let address = SocketAddr::new(ip(is_v6, i, 1), 4000);
    let local = SocketAddr::new(ip(is_v6, i, 254), 5747);
    Reach { interface, address, local, mac, local_mac }
}

/// Three workers' values become a sum on the way to the server, whose result comes to each of them.
fn sum_over_real_links(is_v6: bool) {
    if !bpf_is_here() || !namespaces_work() {
        return;
    }
    let (network, (job, sub_model)) = (Network::build(is_v6), (JobId(1), SubModelId(3)));
    let mut streams = ways(Policy::Hash, false, job, sub_model);
    streams.of.truncate(2);
    let own = Hop { from: Site::Worker(2), to: Site::Node(NODE), link: 0 };
    let above = Hop { from: Site::Node(NODE), to: Site::Node(PARENT), link: 0 };
    streams.of.push(Way { worker: 2, legs: vec![Leg { node: ANY_NODE, hops: vec![own, above] }] });
    let mut alone = ways(Policy::Hash, false, job, ALONE);
    alone.of.truncate(1);
    let both = [streams, alone];
    let forwarding = Forwarding::of(Site::Node(NODE), &both).expect("ways that lead there");
    let place = RandomTraffic::new(Policy::Hash, false, 0).places()[0];
    let anywhere = if is_v6 { "[::]:5747" } else { "0.0.0.0:5747" };
    let anywhere: SocketAddr = anywhere.parse().expect("an address");
    let mut program = load_at(anywhere, NODE, Policy::Hash, place.slots, 8, &[place]);
    // Hellos go on to a socket, as they do to a station's; without, the kernel would refuse them aloud.
    let _station = network.switch.enter(|| {
        let station = UdpSocket::bind(anywhere).expect("a port of its own");
        for (_, reach) in &network.links {
            program.attach(&reach.interface, AttachMode::Native).expect("veth has native XDP");
        }
        network.introduce(&mut program);
        program.forward(&forwarding).expect("every neighbour is known");
        station
    });
    program.run(job, key_of(job)).expect("the first job");
    for position in 0..50 {
        one_round(&network, position);
    }
    results_in_a_burst(&network);
    let strangers = [(JobId(1), JobKey(1)), (JobId(2), key_of(JobId(2)))];
    for (id, key) in strangers {
        let mut packet = contribution(0, 50);
        packet.job = id;
        network.send(Site::Worker(0), &wire::emit(&packet, key));
    }
    let is_counted = || program.counter(Verdict::Strangers).expect("a counter") == 2;
    assert!(comes_true(is_counted), "another incarnation and a job that does not run");
    let renewed = [JobKey(2), key_of(job), JobKey(3), JobKey(4)];
    for (renewal, position) in (1 << GENERATION_SHIFT..).take(3).enumerate() {
        // Around a renewal by time a key may be the present one, the next or the last.
        let mut keys = [[JobKey(5); 4]; 3];
        keys[renewal] = renewed;
        program.renew(job, contribution(0, 50).sub_model, keys).expect("room for its stream");
        one_round(&network, position);
    }
    network.send(Site::Worker(0), &wire::emit(&contribution(0, 50), key_of(job)));
    let is_counted = || program.counter(Verdict::Strangers).expect("a counter") == 3;
    assert!(comes_true(is_counted), "a key of other positions");
    program.stop(job).expect("it runs");
    network.send(Site::Worker(0), &wire::emit(&contribution(0, 50), key_of(job)));
    let is_counted = || program.counter(Verdict::Strangers).expect("a counter") == 4;
    assert!(comes_true(is_counted), "a job that runs no more");
}

#[test]
fn a_sum_goes_up_and_its_result_down_over_real_links() {
    sum_over_real_links(false);
}

#[test]
fn and_over_links_of_ipv6() {
    sum_over_real_links(true);
}

/// Whether something is so before patience ends.
fn comes_true(mut is_so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if is_so() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}

/// As a worker's, as far as a switch looks at it.
fn hello() -> Vec<u8> {
    let payload = [0; 4 * wiresum_wire::control::hello::WORDS];
    let mut header = Header::new_zeroed();
    (header.magic, header.version) = (MAGIC.into(), VERSION);
    (header.kind, header.value_count) = (Kind::Hello as u8, (payload.len() as u16 / 4).into());
    seal(&mut header, LaneType::I32Be.sum(&payload));
    [header.as_bytes(), &payload].concat()
}

/// Results for all and for one, in turn, which the switch finds in its queue at once: those for one leave directly, those for all as
/// copies, and both by the same interface.
fn results_in_a_burst(network: &Network) {
    let results: Vec<Packet<Values>> = (0..BURST).map(result).collect();
    let datagrams: Vec<_> = results.iter().map(|r| wire::emit(r, key_of(JobId(1)))).collect();
    let socket = &network.sockets[&Site::Node(PARENT)];
    let segment = libc::c_int::try_from(datagrams[0].len()).expect("a packet");
    // SAFETY: the descriptor is open, and the option's value is an integer that outlives the call.
    let status = unsafe {
        let (value, len) = ((&raw const segment).cast(), size_of_val(&segment) as u32);
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, value, len)
    };
    assert_eq!(status, 0, "segmentation offload: {}", std::io::Error::last_os_error());
    network.send(Site::Node(PARENT), &datagrams.concat());
    for mut result in results {
        let recipients = result.contributors;
        for worker in recipients.iter() {
            result.contributors = Contributors::one(worker);
            network.expect(Site::Worker(worker), &wire::emit(&result, key_of(JobId(1))));
        }
    }
}

fn result(position: u32) -> Packet<Values> {
    let (is_alone, mut result) = (position.is_multiple_of(2), contribution(0, 1000 + position));
    (result.kind, result.expected) = (Kind::Result, 3);
    result.contributors = if is_alone { Contributors::one(0) } else { Contributors::first(3) };
    result.sub_model = if is_alone { ALONE } else { result.sub_model };
    result
}

fn one_round(network: &Network, position: u32) {
    let contribution = |worker: u8| contribution(worker, position);
    for worker in 0..3 {
        network.send(Site::Worker(worker), &wire::emit(&contribution(worker), key_of(JobId(1))));
    }
    // Links of their own may overtake each other: whoever came last at the switch sent the sum.
    let mut buffer = [0; 4096];
    let len = network.sockets[&Site::Node(PARENT)].recv(&mut buffer).expect("the sum arrives");
    let (key, sum) = wire::parse(&buffer[..len]).expect("well-formed");
    assert_eq!((key, sum.contributors), (key_of(JobId(1)), Contributors::first(3)));
    assert_eq!(sum.values, RandomTraffic::sum(&sum, Contributors::first(3)));
    let mut result = sum;
    (result.kind, result.expected) = (Kind::Result, 3);
    network.send(Site::Node(PARENT), &wire::emit(&result, key));
    for worker in 0..3 {
        result.contributors = Contributors::one(worker);
        network.expect(Site::Worker(worker), &wire::emit(&result, key));
    }
}

fn contribution(worker: u8, position: u32) -> Packet<Values> {
    let mut packet = Packet {
        contributors: Contributors::one(worker),
        fragment: FragmentId(position),
        round: Round(0),
        slot: position % 4,
        job: JobId(1),
        sub_model: SubModelId(3),
        node: ANY_NODE,
        flags: Flags::LITTLE_ENDIAN.with(Flags::SWITCHED),
        kind: Kind::Contribution,
        worker,
        expected: 3,
        priority: 0,
        exponent: 0,
        values: Values::new(),
    };
    packet.values = RandomTraffic::sum(&packet, packet.contributors);
    packet
}
