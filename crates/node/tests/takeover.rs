//! A daemon takes over from another in the middle of a job's rounds: nothing is lost, every sum is exact, and a successor that fails
//! leaves everything as it was.

mod cluster;
mod switched;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use cluster::{Shape, plan};
use serde_json::{Value, json};
use wiresum_codec::Operation;
use wiresum_node::engine::{Engine, Options};
use wiresum_node::takeover::Versions;
use wiresum_protocol::Plan;
use wiresum_protocol::plan::{Lanes, Policy};

/// More than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Some hundred packets a round, so that every upgrade meets some of them.
const ELEMENTS: usize = 40_000;
const UPGRADES: usize = 6;

/// One node of a plan, whichever process serves it.
struct Node {
    id: u16,
    plan_file: PathBuf,
    socket: PathBuf,
    process: Child,
}

impl Node {
    fn start(name: &str, plan: &Plan, id: u16) -> Self {
        let base = std::env::temp_dir().join(format!("wiresum-{}-{name}-{id}", std::process::id()));
        let (plan_file, socket) = (base.with_extension("json"), base.with_extension("sock"));
        fs::write(&plan_file, serde_json::to_string(plan).expect("JSON")).expect("a file");
        let threads = plan.job.threads.to_string();
        let process = spawn(id, &plan_file, &socket, &["--threads", &threads]);
        let mut node = Self { id, plan_file, socket, process };
        assert!(node.wait_until_ready().starts_with("ready"));
        node
    }

    /// What the process says first: its ready line, or nothing if it ends.
    fn wait_until_ready(&mut self) -> String {
        first_line(&mut self.process)
    }

    fn successor(&self) -> Child {
        spawn(self.id, &self.plan_file, &self.socket, &["--take-over"])
    }

    /// Has a new process take over, and waits for the end of the old one.
    fn upgrade(&mut self) {
        let mut successor = self.successor();
        let ready = first_line(&mut successor);
        assert!(ready.starts_with("ready"), "{}", last_words(successor));
        let mut former = std::mem::replace(&mut self.process, successor);
        assert!(former.wait().expect("an end").success(), "{}", last_words(former));
    }

    fn connect(&self) -> UnixStream {
        let client = UnixStream::connect(&self.socket).expect("the socket is there");
        client.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        client
    }

    fn ask(&self, request: &Value) -> Value {
        let mut client = self.connect();
        writeln!(client, "{request}").expect("the daemon listens");
        let mut answer = String::new();
        BufReader::new(client).read_line(&mut answer).expect("an answer");
        serde_json::from_str(&answer).unwrap_or_else(|_| panic!("no JSON: {answer}"))
    }

    fn status(&self) -> Value {
        self.ask(&json!({ "version": 1, "request": "status" }))
    }

    fn process_in_status(&self) -> u64 {
        self.status()["process"].as_u64().expect("a number")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_file(&self.socket);
        let _ = fs::remove_file(&self.plan_file);
    }
}

fn spawn(id: u16, plan_file: &PathBuf, socket: &PathBuf, more: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wiresum-node"));
    command.args(["--node", &id.to_string(), "--engine", "udp", "--plan"]).arg(plan_file);
    command.arg("--control").arg(socket).args(more);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a process")
}

fn first_line(process: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(process.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("text");
    line
}

fn last_words(mut process: Child) -> String {
    let _ = process.kill();
    let output = process.wait_with_output().expect("an end");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A plan whose nodes have addresses that nobody uses.
fn placed(shape: Shape, workers: u32, policy: Policy) -> Plan {
    let mut made = plan(shape, workers, Lanes::Int32Le, policy);
    let held: Vec<_> =
        made.nodes.iter().map(|_| UdpSocket::bind("127.0.0.1:0").expect("a port")).collect();
    for (node, socket) in made.nodes.iter_mut().zip(&held) {
        node.address = socket.local_addr().expect("bound");
    }
    made
}

/// The same, with several threads of ranks and of nodes.
fn in_threads(mut plan: Plan, threads: u8) -> Plan {
    plan.job.threads = threads;
    plan.validate().expect("a valid plan");
    plan
}

/// Workers that sum round after round, and compare every value.
struct Training {
    stop: Arc<AtomicBool>,
    rounds: Arc<AtomicU64>,
    workers: Vec<JoinHandle<()>>,
}

impl Training {
    fn start(plan: &Plan) -> Self {
        let (stop, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let count = plan.workers.len() as u32;
        let worker = |rank: u32| {
            let (plan, stop, rounds) = (plan.clone(), Arc::clone(&stop), Arc::clone(&rounds));
            thread::spawn(move || train(&plan, rank, count, &stop, &rounds))
        };
        let workers = (0..count).map(worker).collect();
        Self { stop, rounds, workers }
    }

    /// Waits until some more rounds have ended.
    fn go_on(&self) {
        let (start, enough) = (Instant::now(), self.rounds.load(Ordering::Relaxed) + 3);
        while self.rounds.load(Ordering::Relaxed) < enough {
            let has_failed = self.workers.iter().any(JoinHandle::is_finished);
            assert!(!has_failed && start.elapsed() < PATIENCE, "the rounds have stopped");
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.workers.into_iter().for_each(|worker| worker.join().expect("every sum is exact"));
    }
}

/// Whole numbers are summed exactly; the first one says whether rank 0 has seen the end.
fn train(plan: &Plan, rank: u32, count: u32, stop: &AtomicBool, rounds: &AtomicU64) {
    let options = Options { timeout: PATIENCE, ..Options::default() };
    let engine = Engine::join(plan, rank, 1, options).expect("everyone is there");
    for round in 0.. {
        let value = |index: usize, rank: u32| ((index + round) % 97) as f32 + rank as f32;
        let mut values: Vec<f32> = (0..ELEMENTS).map(|index| value(index, rank)).collect();
        values[0] = f32::from(u8::from(rank == 0 && stop.load(Ordering::Relaxed)));
        engine.all_reduce(&mut values, Operation::Sum, PATIENCE).expect("a sum");
        for (index, sum) in values.iter().enumerate().skip(1) {
            let expected: f32 = (0..count).map(|rank| value(index, rank)).sum();
            assert_eq!(*sum, expected, "round {round}, element {index}, rank {rank}");
        }
        rounds.fetch_add(u64::from(rank == 0), Ordering::Relaxed);
        if values[0] > 0.0 {
            return;
        }
    }
}

#[test]
fn rounds_go_on_over_upgrades_in_a_row() {
    for (policy, threads) in [(Policy::Pool, 1), (Policy::Cache, 1), (Policy::Pool, 2)] {
        let plan = in_threads(placed(Shape::Star, 2, policy), threads);
        let mut node = Node::start("star", &plan, 0);
        let training = Training::start(&plan);
        training.go_on();
        for _ in 0..UPGRADES {
            let before = node.status();
            node.upgrade();
            training.go_on();
            let after = node.status();
            assert_eq!(after["process"], node.process.id());
            assert_eq!(after["threads"], threads);
            assert_eq!(after["jobs"][0]["members"], before["jobs"][0]["members"]);
            let completed = |status: &Value| status["verdicts"]["completed"].as_u64();
            assert!(completed(&after) > completed(&before), "counters go on: {after}");
        }
        training.end();
    }
}

#[test]
fn every_node_of_a_tree_can_be_upgraded() {
    for threads in [1, 2] {
        let plan = in_threads(placed(Shape::TwoLevels, 4, Policy::Pool), threads);
        let mut nodes: Vec<_> = (0..3).map(|id| Node::start("tree", &plan, id)).collect();
        let training = Training::start(&plan);
        training.go_on();
        for turn in 0..UPGRADES {
            nodes[turn % 3].upgrade();
            training.go_on();
        }
        training.end();
    }
}

/// What a switch has merged, and what its server holds, exists nowhere else.
#[test]
fn a_switch_and_its_server_can_be_upgraded() {
    let plan = switched::Place::default().plan(1, 64);
    let mut nodes: Vec<_> = (0..2).map(|id| Node::start("switched", &plan, id)).collect();
    let training = Training::start(&plan);
    training.go_on();
    for turn in 0..UPGRADES {
        let (node, before) = (turn % 2, nodes[turn % 2].status());
        nodes[node].upgrade();
        training.go_on();
        let after = nodes[node].status();
        let bytes = |status: &Value| status["jobs"][0]["bytes"].as_u64();
        assert!(bytes(&after) > bytes(&before), "counters go on: {after}");
        assert_eq!(after["jobs"][0]["members"], before["jobs"][0]["members"]);
    }
    training.end();
}

#[test]
fn a_job_that_came_later_is_handed_over_with_its_quota() {
    let plan = placed(Shape::Star, 1, Policy::Pool);
    let mut node = Node::start("added", &plan, 0);
    let mut other = plan.clone();
    other.job.id = 8;
    let quota = json!({ "bytes_per_second": 12_345_678 });
    let add = json!({ "version": 1, "request": "add", "plan": other, "quota": quota });
    assert_eq!(node.ask(&add)["ok"], true);
    node.upgrade();
    assert_eq!(node.status()["jobs"][1]["quota"]["bytes_per_second"], 12_345_678);
    assert_eq!(node.ask(&json!({ "version": 1, "request": "remove", "job": 8 }))["ok"], true);
    let training = Training::start(&plan);
    training.go_on();
    training.end();
}

/// A successor of another version is refused, and one that dies in the middle leaves everything as it was.
#[test]
fn the_running_daemon_goes_on_when_a_successor_fails() {
    goes_on_when_a_successor_fails(1);
}

#[test]
fn all_threads_of_the_running_daemon_go_on_when_a_successor_fails() {
    goes_on_when_a_successor_fails(2);
}

fn goes_on_when_a_successor_fails(threads: u8) {
    let plan = in_threads(placed(Shape::Star, 2, Policy::Pool), threads);
    let node = Node::start(&format!("failing-{threads}"), &plan, 0);
    let training = Training::start(&plan);
    training.go_on();
    let request =
        |versions: &Value| json!({ "version": 1, "request": "take_over", "versions": versions });
    for part in ["state", "layout"] {
        let mut versions = serde_json::to_value(Versions::OURS).expect("JSON");
        versions[part] = json!(999);
        let answer = node.ask(&request(&versions));
        assert!(
            answer["error"].as_str().is_some_and(|e| e.contains("999") && e.contains("restart")),
            "{answer}"
        );
        training.go_on();
    }
    for bytes_read in [0, 1, 100] {
        let mut successor = node.connect();
        writeln!(successor, "{}", request(&json!(Versions::OURS))).expect("sent");
        successor.read_exact(&mut vec![0; bytes_read]).expect("an offer");
        drop(successor);
        training.go_on();
    }
    let mut liar = node.connect();
    writeln!(liar, "{}\nnot ready", request(&json!(Versions::OURS))).expect("sent");
    training.go_on();
    assert_eq!(node.process_in_status(), u64::from(node.process.id()));
    training.end();
}

#[test]
fn of_two_successors_at_once_one_serves_in_the_end() {
    let plan = placed(Shape::Star, 2, Policy::Pool);
    let mut node = Node::start("two", &plan, 0);
    let training = Training::start(&plan);
    training.go_on();
    let mut rivals = [node.successor(), node.successor()];
    if !rivals.each_mut().map(first_line).iter().all(|said| said.starts_with("ready")) {
        panic!("{:?}", rivals.map(last_words));
    }
    let serving = node.process_in_status();
    assert!(node.process.wait().expect("an end").success());
    let index = rivals.iter().position(|rival| u64::from(rival.id()) == serving);
    let [first, second] = rivals;
    let (last, mut between) = if index == Some(0) { (first, second) } else { (second, first) };
    node.process = last;
    assert!(between.wait().expect("an end").success(), "it has handed over, too");
    training.go_on();
    training.end();
}

/// `wiresum node upgrade` and SIGHUP: the daemon starts its own successor.
#[test]
fn a_daemon_starts_its_own_successor() {
    let plan = placed(Shape::Star, 2, Policy::Pool);
    let mut node = Node::start("own", &plan, 0);
    let training = Training::start(&plan);
    training.go_on();
    let answer = node.ask(&json!({ "version": 1, "request": "upgrade" }));
    let second = answer["process"].as_u64().unwrap_or_else(|| panic!("{answer}"));
    assert!(node.process.wait().expect("an end").success());
    assert_eq!(node.process_in_status(), second);
    training.go_on();
    signal(second, rustix::process::Signal::HUP);
    let start = Instant::now();
    let third = loop {
        let serving = node.process_in_status();
        if serving != second {
            break serving;
        }
        assert!(start.elapsed() < PATIENCE, "{}", node.status());
        thread::sleep(Duration::from_millis(5));
    };
    training.go_on();
    training.end();
    signal(third, rustix::process::Signal::TERM);
}

#[test]
fn nobody_to_take_over_from_is_an_error() {
    let plan = placed(Shape::Star, 1, Policy::Pool);
    let plan_file =
        std::env::temp_dir().join(format!("wiresum-{}-nobody.json", std::process::id()));
    fs::write(&plan_file, serde_json::to_string(&plan).expect("JSON")).expect("a file");
    let process = spawn(0, &plan_file, &plan_file.with_extension("sock"), &["--take-over"]);
    let output = process.wait_with_output().expect("an end");
    let _ = fs::remove_file(&plan_file);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no daemon answers"));
}

fn signal(process: u64, signal: rustix::process::Signal) {
    let process = rustix::process::Pid::from_raw(process as i32).expect("a process");
    rustix::process::kill_process(process, signal).expect("it lives");
}
