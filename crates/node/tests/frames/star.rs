//! Two hosts and an aggregator, each in a namespace; and what may go wrong between them.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use wiresum_codec::Operation;
use wiresum_netem::Rng;
use wiresum_node::engine::transport::Preference;
use wiresum_node::engine::{CollectiveError, Engine, Options};
use wiresum_protocol::plan::{Lanes, Policy};
use wiresum_testkit::capability::is_here;
use wiresum_wire::NodeId;
use wiresum_worker::{Failure, Participation};
use wiresum_xdp::XdpAggregator;

use crate::cluster::{Cluster, PATIENCE, RunningNode, Shape, plan};
use crate::namespaces::{Namespace, namespaces_work};

pub const WORKERS: usize = 2;
const PORT: u16 = 5747;
/// How long datagrams of strangers may take on a busy machine.
const ECHO_PATIENCE: Duration = Duration::from_secs(20);

/// The namespaces; their interfaces are `p0`, `p1` at the node and `e0` at each host.
pub struct Star {
    node: Namespace,
    hosts: Vec<Namespace>,
}

/// What befalls a packet in a relay, each with this probability.
#[derive(Clone, Copy)]
pub struct Faults {
    pub seed: u64,
    pub one_in: u64,
}

impl Star {
    /// `None`, and said aloud, where namespaces or XDP are missing.
    pub fn new(label: &str) -> Option<Self> {
        if !namespaces_work() || !xdp_works() {
            return None;
        }
        let node = Namespace::new(&format!("{label}-n"));
        let host = |rank| {
            let host = Namespace::new(&format!("{label}-{rank}"));
            let port = format!("p{rank}");
            let ends = ["type", "veth", "peer", "name", "e0", "netns", &host.name];
            node.ip(&[&["link", "add", &port][..], &ends].concat());
            node.ip(&["addr", "add", &format!("10.97.{rank}.254/24"), "dev", &port]);
            node.ip(&["link", "set", &port, "up"]);
            host.ip(&["addr", "add", &format!("10.97.{rank}.1/24"), "dev", "e0"]);
            host.ip(&["link", "set", "e0", "up"]);
            host.ip(&["route", "add", "default", "via", &format!("10.97.{rank}.254")]);
            host
        };
        let hosts = (0..WORKERS).map(host).collect();
        Some(Self { node, hosts })
    }

    /// An aggregator and a worker on each host.
    pub fn start(&self, transport: Preference, faults: Option<Faults>) -> Cluster {
        self.start_on(transport, faults, [0, 1])
    }

    /// As [`Self::start`], with these hosts by rank.
    pub fn start_on(
        &self,
        transport: Preference,
        faults: Option<Faults>,
        hosts: [usize; WORKERS],
    ) -> Cluster {
        let mut plan = plan(Shape::Star, WORKERS as u32, Lanes::Int32Le, Policy::Pool);
        for (worker, host) in plan.workers.iter_mut().zip(hosts) {
            worker.address = Some(format!("10.97.{host}.1").parse().expect("an address"));
        }
        let outside: SocketAddr = format!("10.97.0.254:{PORT}").parse().expect("an address");
        let inside = SocketAddr::from(([127, 0, 0, 1], PORT));
        let bound = if faults.is_some() { inside } else { outside };
        let (node, _) = self.node.enter(|| RunningNode::start_at(bound, &plan, NodeId(0)));
        if let Some(faults) = faults {
            self.node.enter(|| relay(outside, inside, faults));
        }
        plan.nodes[0].address = outside;
        let join = |rank: usize| {
            let options = Options { transport, timeout: PATIENCE, ..Options::default() };
            let engine =
                self.hosts[hosts[rank]].enter(|| Engine::join(&plan, rank as u32, 1, options));
            engine.expect("welcome")
        };
        let engines = thread::scope(|scope| {
            let joining: Vec<_> =
                (0..WORKERS).map(|rank| scope.spawn(move || join(rank))).collect();
            joining.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        Cluster { plan, nodes: vec![node], engines }
    }

    /// Whether an XDP program is at a host's interface.
    pub fn has_program(&self, host: usize) -> bool {
        let name = &self.hosts[host].name;
        let shown = Command::new("ip").args(["-n", name, "link", "show", "dev", "e0"]).output();
        String::from_utf8_lossy(&shown.expect("iproute2 is installed").stdout).contains("prog/xdp")
    }

    /// Sockets of strangers at a host and at the node.
    pub fn other_sockets(&self, host: usize) -> (UdpSocket, UdpSocket) {
        let bind = |address: String| {
            let socket = UdpSocket::bind((address, 0)).expect("an address of this namespace");
            socket.set_read_timeout(Some(ECHO_PATIENCE)).expect("a timeout");
            socket
        };
        let here = self.hosts[host].enter(|| bind(format!("10.97.{host}.1")));
        (here, self.node.enter(|| bind(format!("10.97.{host}.254"))))
    }

    /// Takes a host's link down and up again; its route goes and comes with it.
    pub fn flap(&self, host: usize) {
        self.hosts[host].ip(&["link", "set", "e0", "down"]);
        thread::sleep(Duration::from_millis(100));
        self.hosts[host].ip(&["link", "set", "e0", "up"]);
        let gateway = format!("10.97.{host}.254");
        self.hosts[host].ip(&["route", "replace", "default", "via", &gateway]);
        thread::sleep(Duration::from_millis(100));
    }

    /// Gives the node's port another Ethernet address, which it announces as a standby that takes over does.
    pub fn change_mac(&self, host: usize) {
        let port = format!("p{host}");
        self.node.enter(|| {
            let file = format!("/proc/sys/net/ipv4/conf/{port}/arp_notify");
            // `/proc/sys/net` shows the namespace of the thread that opens it.
            std::fs::write(file, "1").expect("a setting of the namespace");
        });
        self.node.ip(&["link", "set", &port, "address", "02:00:00:00:97:01"]);
    }

    pub fn delete_interface(&self, host: usize) {
        self.hosts[host].ip(&["link", "del", "e0"]);
    }
}

fn xdp_works() -> bool {
    static WORKS: OnceLock<Result<(), String>> = OnceLock::new();
    let found = WORKS.get_or_init(|| XdpAggregator::check_support().map_err(|e| e.to_string()));
    is_here("xdp", found.clone())
}

/// Stands at `outside` for the node at `inside`, and loses, doubles and delays packets both ways. Ends with the process.
fn relay(outside: SocketAddr, inside: SocketAddr, faults: Faults) {
    let front = UdpSocket::bind(outside).expect("an address of this namespace");
    thread::spawn(move || {
        let mut rng = Rng::new(faults.seed);
        let mut backs: BTreeMap<SocketAddr, UdpSocket> = BTreeMap::new();
        let (mut buffer, mut held) = ([0; 4096], None);
        while let Ok((len, worker)) = front.recv_from(&mut buffer) {
            let back = backs.entry(worker).or_insert_with(|| {
                let back = UdpSocket::bind("127.0.0.1:0").expect("a port");
                back.connect(inside).expect("loopback");
                answer(&front, &back, worker, faults);
                back
            });
            pass(&mut rng, faults.one_in, &mut held, &buffer[..len], |packet| {
                let _ = back.send(packet);
            });
        }
    });
}

/// The way from the node to a worker.
fn answer(front: &UdpSocket, back: &UdpSocket, worker: SocketAddr, faults: Faults) {
    let (front, back) = (front.try_clone().expect("a copy"), back.try_clone().expect("a copy"));
    thread::spawn(move || {
        let mut rng = Rng::new(faults.seed ^ u64::from(worker.port()));
        let (mut buffer, mut held) = ([0; 4096], None);
        while let Ok(len) = back.recv(&mut buffer) {
            pass(&mut rng, faults.one_in, &mut held, &buffer[..len], |packet| {
                let _ = front.send_to(packet, worker);
            });
        }
    });
}

/// Sends a packet as fate wants: not, twice, or after the next one.
fn pass(
    rng: &mut Rng,
    one_in: u64,
    held: &mut Option<Vec<u8>>,
    packet: &[u8],
    mut send: impl FnMut(&[u8]),
) {
    match rng.below(one_in) {
        0 => return,
        1 => send(packet),
        2 if held.is_none() => return *held = Some(packet.to_vec()),
        _ => {}
    }
    send(packet);
    held.take().iter().for_each(|late| send(late));
}

/// Every rank adds whole numbers, and every value is compared.
pub fn assert_sums(cluster: &Cluster, len: usize) {
    let values = |rank: usize| (0..len).map(|i| ((i + rank) % 1000) as f32).collect::<Vec<_>>();
    for (sums, outcome) in cluster.all_reduce(Operation::Sum, PATIENCE, values) {
        outcome.expect("a sum");
        let sum = |i| (0..WORKERS).map(|rank| ((i + rank) % 1000) as f32).sum::<f32>();
        let expected = (0..len).map(sum);
        assert!(sums.into_iter().eq(expected), "not the sum");
    }
}

pub fn failure(outcome: Result<Participation, CollectiveError>) -> Failure {
    match outcome {
        Err(CollectiveError::Protocol { failure, .. }) => failure,
        other => panic!("expected a failure of the protocol, not {other:?}"),
    }
}

pub fn counts(engine: &Engine) -> BTreeMap<&'static str, u64> {
    engine.statistics().counts().into_iter().collect()
}
