//! Zebra's switch, server and workers as daemons and sockets: over loopback, and between namespaces with the program in the
//! kernel.

#[path = "../../xdp/tests/support/namespaces.rs"]
mod namespaces;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use namespaces::{Namespace, namespaces_work, star};
use serde_json::{Value, json};
use wiresum_netem::Rng;
use wiresum_node::node::Plane;
use wiresum_node::pairs::{PairClient, Pairs};
use wiresum_node::tables::ClientError;
use wiresum_sparse::live::Renewal;
use wiresum_sparse::live::keyed::{FORMAT, KeyedJob};
use wiresum_switch::keyed::Pair;
use wiresum_testkit::capability::is_here;
use wiresum_testkit::seeds::seed_or;
use wiresum_wire::JobId;
use wiresum_xdp::XdpAggregator;

const WORKERS: u8 = 3;
const ITERATIONS: u64 = 12;
const KEYS: u64 = 400;
/// Keys below are hot.
const HOT: u64 = 150;
const PATIENCE: Duration = Duration::from_secs(60);
const NODES: [usize; 2] = [0, 1];
/// As often as keys can be renewed.
const OFTEN: Renewal = Renewal { rounds: 16, interval_ms: 200 };
/// Renewals of a job that goes on over some.
const RENEWALS: u32 = 5;

fn job(server: SocketAddr, switch: SocketAddr) -> KeyedJob {
    let document = json!({
        "format": FORMAT, "id": 6, "workers": WORKERS, "server": server, "switch": switch,
        "hot": (0..HOT).collect::<Vec<u64>>(), "registers": 24, "pairs": 10, "secret": "33".repeat(32),
    });
    KeyedJob::from_json(&document.to_string()).expect("a job")
}

/// A folder with the job's file, removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, job: &KeyedJob) -> Self {
        let folder = std::env::temp_dir().join(format!("wiresum-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let text = serde_json::to_string(job).expect("JSON");
        std::fs::write(folder.join("job.json"), text).expect("a file");
        Self(folder)
    }

    /// A daemon, behind words that say where it runs.
    fn daemon(&self, at: &[&str], node: usize, more: &[&str]) -> Daemon {
        let words = [at, &[env!("CARGO_BIN_EXE_wiresum-node")]].concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg("--pairs").arg(self.0.join("job.json"));
        command.args(["--node", &node.to_string(), "--json"]).args(more);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("a process");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut ready = String::new();
        output.read_line(&mut ready).expect("a pipe");
        assert!(ready.starts_with(&format!("ready node={node}")), "{ready}");
        Daemon { child, output, ready }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Daemon {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
    ready: String,
}

impl Daemon {
    /// Ends it; its counters.
    fn end(mut self) -> Value {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
        let mut last = String::new();
        self.output.read_to_string(&mut last).expect("a pipe");
        serde_json::from_str(last.trim()).expect("JSON")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a worker pushes in an iteration: now and then nothing, or nothing hot.
fn gradients(seed: u64, rank: u8, iteration: u64) -> Vec<Pair> {
    let mut rng = Rng::new(seed ^ (iteration << 8) ^ u64::from(rank));
    let first = [0, 0, HOT, KEYS][rng.below(4) as usize];
    let keys = (first..KEYS).filter(|_| rng.chance(0.4)).collect::<Vec<_>>();
    keys.into_iter().map(|key| Pair { key, value: rng.next() as i32 }).collect()
}

fn expected(seed: u64, iteration: u64) -> BTreeMap<u64, i32> {
    let mut sums = BTreeMap::new();
    for pair in (0..WORKERS).flat_map(|rank| gradients(seed, rank, iteration)) {
        let sum: &mut i32 = sums.entry(pair.key).or_default();
        *sum = sum.wrapping_add(pair.value);
    }
    sums
}

/// A worker of a whole job.
fn work(job: &Arc<KeyedJob>, seed: u64, rank: u8, incarnation: u64) {
    let mut client = PairClient::join(job, rank, incarnation, PATIENCE).expect("welcome");
    for iteration in 0..ITERATIONS {
        let sums = client.sum(&gradients(seed, rank, iteration)).expect("sums");
        let sums: BTreeMap<u64, i32> = sums.iter().map(|pair| (pair.key, pair.value)).collect();
        assert_eq!(sums, expected(seed, iteration), "seed {seed}, rank {rank}, {iteration}");
    }
}

/// Iterations of a worker until keys were renewed so often; all end with the same one.
fn work_until_renewed(job: &Arc<KeyedJob>, rank: u8, last: &AtomicU64) {
    let mut client = PairClient::join(job, rank, 1, PATIENCE).expect("welcome");
    for iteration in (0..).take_while(|iteration| *iteration <= last.load(Ordering::SeqCst)) {
        let sums = client.sum(&gradients(1, rank, iteration)).expect("sums");
        let sums: BTreeMap<u64, i32> = sums.iter().map(|pair| (pair.key, pair.value)).collect();
        assert_eq!(sums, expected(1, iteration), "rank {rank}, {iteration}");
        if client.key_renewals() >= RENEWALS {
            // Others may have begun the next one, and nobody the one after.
            last.fetch_min(iteration + 2, Ordering::SeqCst);
        }
    }
}

/// Addresses that were free a moment ago.
fn addresses() -> [SocketAddr; 2] {
    let sockets = NODES.map(|_| UdpSocket::bind("127.0.0.1:0").expect("a port"));
    sockets.map(|socket| socket.local_addr().expect("bound"))
}

#[test]
fn every_worker_has_the_exact_sums_and_a_later_incarnation_begins_anew() {
    let seed = seed_or(11);
    let [server, switch] = addresses();
    let job = Arc::new(job(server, switch));
    let folder = Folder::new("pairs", &job);
    let daemons = NODES.map(|node| folder.daemon(&["env"], node, &[]));
    for incarnation in [1, 2] {
        thread::scope(|scope| {
            for rank in 0..WORKERS {
                let job = &job;
                scope.spawn(move || work(job, seed + incarnation, rank, incarnation));
            }
        });
    }
    let late = PairClient::join(&job, 0, 1, PATIENCE).err().expect("it is over").to_string();
    assert!(late.contains("newer incarnation"), "{late}");
    let [_, switch] = daemons.map(Daemon::end);
    assert!(switch["verdicts"]["added"].as_u64() > Some(0), "{switch}");
    assert_eq!(switch["verdicts"]["wrong"], 0, "{switch}");
    assert_eq!(switch["control"]["iterations"], ITERATIONS, "{switch}");
}

#[test]
fn sums_are_exact_while_keys_are_renewed() {
    let [server, switch] = addresses();
    let job = Arc::new(KeyedJob { renewal: OFTEN, ..job(server, switch) });
    let folder = Folder::new("pairs-renewal", &job);
    let _daemons = NODES.map(|node| folder.daemon(&["env"], node, &[]));
    let last = AtomicU64::new(u64::MAX);
    thread::scope(|scope| {
        for rank in 0..WORKERS {
            let (job, last) = (&job, &last);
            scope.spawn(move || work_until_renewed(job, rank, last));
        }
    });
}

#[test]
fn who_is_silent_is_named() {
    let [server, switch] = addresses();
    let job = Arc::new(job(server, switch));
    let folder = Folder::new("pairs-silent", &job);
    let _switch = folder.daemon(&["env"], 1, &[]);
    let silent = PairClient::join(&job, 0, 1, Duration::from_secs(2)).err().expect("no server");
    let message = silent.to_string();
    assert!(matches!(silent, ClientError::Timeout { .. }), "{message}");
    assert!(message.contains(&format!("node 0 at {server} said nothing")), "{message}");
    let rank = PairClient::join(&job, WORKERS, 1, PATIENCE).err().expect("no such rank");
    assert_eq!(rank.to_string(), "there is no rank 3: the job has 3 workers");
}

/// Iterates until it cannot go on, and says so when it has begun; why it could not.
fn work_until_it_fails(
    job: &Arc<KeyedJob>,
    rank: u8,
    incarnation: u64,
    begun: &Sender<()>,
) -> String {
    let mut client = PairClient::join(job, rank, incarnation, PATIENCE).expect("welcome");
    let failed = (0..).find_map(|iteration| {
        let sums = client.sum(&gradients(1, rank, iteration));
        let _ = begun.send(());
        sums.err()
    });
    failed.expect("an error").to_string()
}

#[test]
fn a_node_that_was_restarted_is_named_to_every_worker() {
    let [server, switch] = addresses();
    let job = Arc::new(job(server, switch));
    let folder = Folder::new("pairs-restart", &job);
    let mut daemons = NODES.map(|node| Some(folder.daemon(&["env"], node, &[])));
    for (node, address) in NODES.into_iter().zip([server, switch]) {
        let (begun, has_begun) = channel();
        thread::scope(|scope| {
            let (job, begun) = (&job, &begun);
            let work = |rank| work_until_it_fails(job, rank, 1 + node as u64, begun);
            let workers: Vec<_> =
                (0..WORKERS).map(|rank| scope.spawn(move || work(rank))).collect();
            for _ in 0..WORKERS {
                has_begun.recv_timeout(PATIENCE).expect("sums");
            }
            daemons[node].take().expect("it runs").end();
            daemons[node] = Some(folder.daemon(&["env"], node, &[]));
            for worker in workers {
                let problem = worker.join().expect("no panic");
                let named = format!("node {node} at {address} was restarted");
                assert!(problem.contains(&named), "{problem}");
            }
        });
    }
}

#[test]
fn another_job_is_refused_by_name() {
    let [server, switch] = addresses();
    let mut node = Pairs::bind(&Arc::new(job(server, switch)), 0, None).expect("a node");
    let problem = node.remove(JobId(6)).expect_err("it stays");
    assert!(problem.contains(&format!("this daemon at {server} serves job 6")), "{problem}");
    assert!(problem.contains("start another daemon"), "{problem}");
}

#[test]
fn the_kernel_adds_pairs_and_the_station_brings_the_sums_to_the_server() {
    if !is_here("bpf", XdpAggregator::check_support()) || !namespaces_work() {
        return;
    }
    let seed = seed_or(12);
    let (at_switch, hosts) = star("pairs", 98, 1 + usize::from(WORKERS));
    let address = |text: &str| text.parse().expect("an address");
    let job = job(address("10.98.0.1:5747"), address("10.98.0.254:5747"));
    let job = Arc::new(KeyedJob { renewal: OFTEN, ..job });
    let folder = Folder::new("pairs-xdp", &job);
    let inside = |namespace: &Namespace| {
        ["ip", "netns", "exec"]
            .map(str::to_owned)
            .into_iter()
            .chain([namespace.name.clone()])
            .collect::<Vec<_>>()
    };
    let start = |namespace, node, more: &[&str]| {
        let words = inside(namespace);
        folder.daemon(&words.iter().map(String::as_str).collect::<Vec<_>>(), node, more)
    };
    let server = start(&hosts[0], 0, &[]);
    let ports: Vec<String> = (0..hosts.len()).map(|number| format!("p{number}")).collect();
    let mut options = vec!["--engine", "xdp"];
    ports.iter().for_each(|port| options.extend(["--interface", port.as_str()]));
    let switch = start(&at_switch, 1, &options);
    assert!(switch.ready.contains(" engine=xdp "), "{}", switch.ready);
    let last = AtomicU64::new(u64::MAX);
    thread::scope(|scope| {
        for (rank, host) in (0..WORKERS).zip(&hosts[1..]) {
            let (job, last) = (&job, &last);
            scope.spawn(move || host.enter(|| work_until_renewed(job, rank, last)));
        }
    });
    for incarnation in [2, 3] {
        thread::scope(|scope| {
            for (rank, host) in (0..WORKERS).zip(&hosts[1..]) {
                let job = &job;
                scope
                    .spawn(move || host.enter(|| work(job, seed + incarnation, rank, incarnation)));
            }
        });
    }
    let (switch, _) = (switch.end(), server.end());
    assert!(switch["verdicts"]["added"].as_u64() > Some(0), "{switch}");
    assert_eq!(switch["verdicts"]["wrong"], 0, "{switch}");
    assert_eq!(switch["control"]["iterations"], ITERATIONS, "{switch}");
}
