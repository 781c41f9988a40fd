//! A job's workers, switch and server as they are live, datagram by datagram on one network.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use serde_json::json;
use wiresum_netem::{Cargo, Conditions, Network, Next, Rng, Time};
use wiresum_sparse::layout::Packaging;
use wiresum_sparse::live::Renewal;
use wiresum_sparse::live::keyed::{FORMAT, KeyedJob, KeyedMember, KeyedNode, SERVER, SWITCH};
use wiresum_switch::keyed::Pair;

/// No iteration takes longer, in virtual time: a packet that is lost ten times costs 4 s.
const DEADLINE_US: u64 = 60_000_000;
/// Bytes of frames and of IPv4 and UDP around a datagram.
const HEADERS: u64 = 66;

/// What is drawn for a run.
#[derive(Clone, Copy, Debug)]
pub struct Drawn {
    pub workers: u8,
    pub registers: u32,
    pub pairs: u32,
    /// Keys below are hot.
    pub hot: u64,
    pub keys: u64,
    pub rounds: u32,
    pub packaging: Packaging,
    /// Chance that a packet is lost; it is also that of being repeated, late, or damaged.
    pub loss: f64,
    pub renewal: Renewal,
    /// Longest pause of a worker before an iteration, in microseconds.
    pub pause_us: u64,
}

#[derive(Clone, Debug)]
struct Datagram(Vec<u8>);

impl Cargo for Datagram {
    fn wire_bytes(&self) -> u64 {
        self.0.len() as u64 + HEADERS
    }

    fn damage(&mut self, rng: &mut Rng) {
        let at = rng.below(self.0.len() as u64) as usize;
        self.0[at] ^= 1 << rng.below(8);
    }
}

/// Hosts are numbered from 1: the server, the switch, then workers.
fn address(host: usize) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, host as u16 + 1).into()
}

fn host(address: SocketAddr) -> usize {
    usize::from(address.port()) - 1
}

pub fn job(drawn: Drawn) -> KeyedJob {
    let document = json!({
        "format": FORMAT, "id": 4, "workers": drawn.workers, "secret": "77".repeat(32),
        "server": address(usize::from(SERVER)), "switch": address(usize::from(SWITCH)),
        "hot": (0..drawn.hot).collect::<Vec<u64>>(), "registers": drawn.registers, "pairs": drawn.pairs,
        "recirculations": drawn.pairs - 1, "packaging": drawn.packaging,
        "renewal": drawn.renewal,
    });
    KeyedJob::from_json(&document.to_string()).expect("a job")
}

pub struct World {
    drawn: Drawn,
    job: Arc<KeyedJob>,
    network: Network<usize, Datagram>,
    conditions: Conditions,
    rng: Rng,
    pub nodes: Vec<KeyedNode>,
    pub members: Vec<KeyedMember>,
    /// When each worker begins the iteration; `None` if it has.
    starts: Vec<Option<Time>>,
}

impl World {
    pub fn new(seed: u64, drawn: Drawn) -> Self {
        let job = Arc::new(job(drawn));
        let node = |node| KeyedNode::new(&job, node, 1, false).expect("a node of the job");
        let late = 3_000_000_000; // 3 ms
        let Drawn { loss, workers, .. } = drawn;
        let conditions = Conditions {
            rate_bps: Some(1e8),
            delay_ps: 20_000_000,
            queue_bytes: 200_000,
            loss,
            duplication: loss,
            late_ps: late,
            reordering: loss,
            jitter_ps: late,
            damage: loss,
            ..Conditions::PERFECT
        };
        Self {
            drawn,
            network: Network::new(seed),
            conditions,
            rng: Rng::new(!seed),
            nodes: [SERVER, SWITCH].map(node).into(),
            members: Vec::new(),
            starts: vec![None; workers.into()],
            job,
        }
    }

    /// All workers begin anew, with a later incarnation than before: some are still at work.
    pub fn start(&mut self, incarnation: u64) {
        let member = |rank| KeyedMember::new(&self.job, rank, incarnation);
        self.members = (0..self.drawn.workers).map(member).collect();
        self.starts.fill(None);
    }

    /// A node begins again, having forgotten everything.
    pub fn restart(&mut self, node: u16) {
        let own = self.network.now().0 as u32 + 2;
        let restarted = KeyedNode::new(&self.job, node, own, false);
        self.nodes[usize::from(node)] = restarted.expect("a node of the job");
    }

    /// Packets that were sent again.
    pub fn repeated(&self) -> u64 {
        let nodes = self.nodes.iter().map(KeyedNode::repeated);
        nodes.chain(self.members.iter().map(KeyedMember::repeated)).sum()
    }

    /// One iteration: what each worker has in the end.
    pub fn run(&mut self, pushed: &[Vec<Pair>]) -> Vec<BTreeMap<u64, i32>> {
        self.begin();
        let deadline = Time(self.network.now().0 + DEADLINE_US);
        while !(0..self.members.len()).all(|worker| self.has_all(worker)) {
            assert!(self.network.now() < deadline, "an iteration of {:?} hangs", self.drawn);
            self.step(pushed);
        }
        self.members.iter().map(|member| member.sums().expect("complete").clone()).collect()
    }

    /// Runs until every worker says why it cannot go on.
    pub fn problems(&mut self, pushed: &[Vec<Pair>]) -> Vec<String> {
        let deadline = Time(self.network.now().0 + DEADLINE_US);
        while self.members.iter().any(|member| member.error().is_none()) {
            assert!(self.network.now() < deadline, "nobody says what is wrong: {:?}", self.drawn);
            self.step(pushed);
        }
        self.members.iter().filter_map(|member| Some(member.error()?.to_string())).collect()
    }

    /// Workers will begin an iteration; some are late by as much as it takes.
    pub fn begin(&mut self) {
        let now = self.network.now();
        let Self { starts, rng, drawn, .. } = self;
        starts.iter_mut().for_each(|start| *start = Some(Time(now.0 + rng.below(drawn.pause_us))));
    }

    fn has_all(&self, worker: usize) -> bool {
        self.starts[worker].is_none() && self.members[worker].sums().is_some()
    }

    /// Whatever is next.
    pub fn step(&mut self, pushed: &[Vec<Pair>]) {
        let nodes = self.nodes.iter().filter_map(KeyedNode::poll_timeout);
        let members = self.members.iter().filter_map(KeyedMember::poll_timeout);
        let due = nodes.chain(members).chain(self.starts.iter().filter_map(|start| *start));
        let next = self.network.advance(due.min()).expect("somebody waits");
        let now = self.network.now();
        if let Next::Arrival(flight) = next {
            let (source, bytes) = (address(flight.from), &flight.cargo.0);
            match self.nodes.get_mut(flight.to) {
                Some(node) => node.handle(source, bytes, now),
                None => self.members[flight.to - 2].handle(source, bytes, now),
            }
        }
        for (worker, start) in self.starts.iter_mut().enumerate() {
            if start.is_some_and(|start| start <= now) {
                *start = None;
                self.members[worker].begin(&pushed[worker]);
            }
        }
        let Self { network, conditions, nodes, members, .. } = self;
        let mut send = |from: usize, to: SocketAddr, bytes: &[u8]| {
            network.send(conditions, from, host(to), Datagram(bytes.to_vec()));
        };
        for (from, node) in nodes.iter_mut().enumerate() {
            node.poll(now, |to, bytes| send(from, to, bytes));
        }
        for (from, member) in (2..).zip(members) {
            member.poll(now, |to, bytes| send(from, to, bytes));
        }
    }
}
