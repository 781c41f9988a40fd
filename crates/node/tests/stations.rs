//! Switches and parameter servers as services: jobs come and go, are watched and bounded, as at aggregators.

mod switched;

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use switched::{Place, SERVER, SWITCH, WORKERS};
use wiresum_codec::Operation;
use wiresum_node::engine::{Engine, Options};
use wiresum_protocol::Plan;
use wiresum_wire::NodeId;

/// More than a busy machine takes to start a daemon or to sum a few values.
const PATIENCE: Duration = Duration::from_secs(60);
const SLOTS: u32 = 64;

/// A node of a plan, killed with the test.
struct Daemon {
    child: Child,
    files: [PathBuf; 2],
    address: SocketAddr,
}

impl Daemon {
    fn start(plan: &Plan, id: u16, arguments: &[&str]) -> Self {
        let address = plan.node(NodeId(id)).expect("in the plan").address;
        let base =
            std::env::temp_dir().join(format!("wiresum-{}-{id}", address.ip()).replace('.', "-"));
        let files = [base.with_extension("json"), base.with_extension("sock")];
        std::fs::write(&files[0], serde_json::to_string(plan).expect("JSON")).expect("a file");
        let mut command = Command::new(env!("CARGO_BIN_EXE_wiresum-node"));
        command.args(["--node", &id.to_string(), "--plan"]).arg(&files[0]);
        command.arg("--control").arg(&files[1]).args(arguments).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a process");
        let mut ready = String::new();
        BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut ready).expect("text");
        assert!(ready.starts_with("ready"), "{ready}");
        Self { child, files, address }
    }

    fn ask(&self, request: &Value) -> Value {
        let mut client = UnixStream::connect(&self.files[1]).expect("the socket is there");
        client.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        writeln!(client, "{request}").expect("the daemon listens");
        let mut answer = String::new();
        BufReader::new(client).read_line(&mut answer).expect("an answer");
        serde_json::from_str(&answer).unwrap_or_else(|_| panic!("no JSON: {answer}"))
    }

    fn add(&self, plan: &Plan) -> Value {
        self.ask(&json!({ "version": 1, "request": "add", "plan": plan }))
    }

    fn status(&self) -> Value {
        self.ask(&json!({ "version": 1, "request": "status" }))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.files.iter().for_each(|file| drop(std::fs::remove_file(file)));
    }
}

fn start(plan: &Plan) -> [Daemon; 2] {
    [SWITCH, SERVER].map(|id| Daemon::start(plan, id, &[]))
}

/// All workers of a job sum whole numbers, and compare every value.
fn assert_summed(plan: &Plan, incarnation: u64, len: usize) {
    let work = |rank: u32| {
        let options = Options { timeout: PATIENCE, ..Options::default() };
        let engine = Engine::join(plan, rank, incarnation, options).expect("everyone is there");
        let mut values: Vec<f32> = (0..len).map(|i| (i % 97) as f32 + rank as f32).collect();
        engine.all_reduce(&mut values, Operation::Sum, PATIENCE).expect("a sum");
        for (i, sum) in values.iter().enumerate() {
            assert_eq!(*sum, 2.0 * (i % 97) as f32 + 1.0, "rank {rank}, element {i}");
        }
    };
    std::thread::scope(|scope| {
        (0..WORKERS).for_each(|rank| drop(scope.spawn(move || work(rank))));
    });
}

fn assert_refused(answer: &Value, words: &str) {
    let error = answer["error"].as_str().unwrap_or_default();
    assert!(answer["ok"] == false && error.contains(words), "{words}: {answer}");
}

#[test]
fn jobs_come_are_summed_and_go() {
    let place = Place::default();
    let (first, second) = (place.plan(1, SLOTS), place.plan(2, SLOTS));
    let nodes = start(&first);
    nodes.iter().for_each(|node| assert_eq!(node.add(&second)["ok"], true));
    assert_summed(&first, 1, 5_000);
    assert_summed(&second, 1, 5_000);
    assert_refused(&nodes[0].add(&second), "served already");
    assert_refused(&nodes[0].add(&place.plan(3, 2 * SLOTS)), "a switch has one program");
    let status = nodes[1].status();
    for job in 0..2 {
        assert!(status["jobs"][job]["verdicts"]["completed"].as_u64() > Some(0), "{status}");
        assert!(status["jobs"][job]["bytes"].as_u64() > Some(5_000), "{status}");
        assert_eq!(status["jobs"][job]["members"], WORKERS);
    }
    for node in &nodes {
        let remove = json!({ "version": 1, "request": "remove", "job": 1 });
        assert_eq!(node.ask(&remove)["ok"], true);
        assert_eq!(node.status()["jobs"].as_array().map(Vec::len), Some(1));
    }
    let options = Options { timeout: Duration::from_secs(5), ..Options::default() };
    let refusal = Engine::join(&first, 0, 2, options).err().expect("the job is gone").to_string();
    assert!(refusal.contains("did not answer"), "{refusal}");
    assert_summed(&second, 2, 5_000);
    let text = nodes[1].ask(&json!({ "version": 1, "request": "metrics" }));
    let text = text["text"].as_str().expect("metrics");
    assert!(
        text.contains("wiresum_packets_total{node=\"1\",job=\"2\",verdict=\"completed\"}"),
        "{text}"
    );
}

/// A node without jobs has no program yet, so that it takes whatever memory the next job wants.
#[test]
fn an_empty_switch_takes_another_memory() {
    let place = Place::default();
    let (first, second) = (place.plan(1, SLOTS), place.plan(2, 2 * SLOTS));
    let nodes = start(&first);
    let remove = json!({ "version": 1, "request": "remove", "job": 1 });
    for node in &nodes {
        assert_eq!(node.ask(&remove)["ok"], true);
        assert_eq!(node.add(&second)["ok"], true);
    }
    assert_eq!(nodes[0].status()["memory_bytes"], 2 * SLOTS * switched::VALUES as u32 * 4);
    assert_summed(&second, 1, 5_000);
}

/// Where the server is not, nothing is lost but time; only addresses of links may change.
#[test]
fn a_job_that_runs_is_reached_at_other_addresses() {
    let place = Place::default();
    let plan = place.plan(1, SLOTS);
    let nodes = start(&plan);
    let mut elsewhere = plan.clone();
    let links = &mut elsewhere.fabric.as_mut().expect("a fabric").links;
    links.iter_mut().find(|link| link.id == "l2").expect("to the server").ends[1].address =
        "127.0.0.1:9".parse().expect("an address");
    let readdress =
        |plan: &Plan| nodes[0].ask(&json!({ "version": 1, "request": "readdress", "plan": plan }));
    std::thread::scope(|scope| {
        let sums = scope.spawn(|| assert_summed(&plan, 1, 200_000));
        assert_eq!(readdress(&elsewhere)["ok"], true);
        std::thread::sleep(Duration::from_millis(300));
        assert!(!sums.is_finished(), "values went to a server that is not there");
        assert_eq!(readdress(&plan)["ok"], true);
    });
    assert_refused(&readdress(&place.plan(1, 2 * SLOTS)), "only addresses of its links");
    assert_refused(&readdress(&place.plan(2, SLOTS)), "not served here");
}

#[test]
fn a_quota_bounds_what_workers_contribute() {
    let plan = Place::default().plan(1, SLOTS);
    let nodes = start(&plan);
    let quota = json!({ "version": 1, "request": "quota", "job": 1, "quota": { "bytes_per_second": 1_000_000 } });
    assert_eq!(nodes[0].ask(&quota)["ok"], true);
    assert_summed(&plan, 1, 200_000);
    let status = nodes[0].status();
    assert_eq!(status["jobs"][0]["quota"]["bytes_per_second"], 1_000_000);
    assert!(status["jobs"][0]["verdicts"]["over_quota"].as_u64() > Some(0), "{status}");
}

/// The server dies without a word while values flow, and another one starts in its place with nothing in memory. Then
/// the same happens to the switch.
#[test]
fn a_node_that_is_killed_in_mid_round_and_starts_again_loses_no_step() {
    let plan = Place::default().plan(1, SLOTS);
    let [mut switch, mut server] = start(&plan);
    std::thread::scope(|scope| {
        let sums = scope.spawn(|| assert_summed(&plan, 1, 2_000_000));
        wait_for_completed(&server, 1_000);
        drop(server);
        server = Daemon::start(&plan, SERVER, &[]);
        wait_for_completed(&server, 1_000);
        drop(switch);
        switch = Daemon::start(&plan, SWITCH, &[]);
        wait_for_completed(&server, 2_000);
        assert!(!sums.is_finished(), "nothing was killed in mid round");
        // Before the nodes go.
        sums.join().expect("exact sums");
        assert!(switch.status()["verdicts"]["forwarded"].as_u64() > Some(0));
    });
}

/// Waits until a server has completed so many sums.
fn wait_for_completed(server: &Daemon, count: u64) {
    let since = Instant::now();
    while server.status()["verdicts"]["completed"].as_u64() < Some(count) {
        assert!(since.elapsed() < PATIENCE, "no end in sight: {}", server.status());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Thousands of hellos of strangers: none is answered, and the job goes on.
#[test]
fn a_flood_of_hellos_is_not_answered() {
    let place = Place::default();
    let plan = place.plan(1, SLOTS);
    let nodes = start(&plan);
    let hello = stranger_hello();
    let stranger = UdpSocket::bind("127.0.0.1:0").expect("a port");
    for _ in 0..20_000 {
        stranger.send_to(&hello, nodes[0].address).expect("sent");
    }
    assert_summed(&plan, 1, 1_000);
    let status = nodes[0].status();
    assert!(status["verdicts"]["strangers"].as_u64() > Some(0), "{status}");
    stranger.set_nonblocking(true).expect("a socket");
    let answer = stranger.recv(&mut [0; 100]).map_err(|error| error.kind());
    assert_eq!(answer, Err(std::io::ErrorKind::WouldBlock));
}

/// A hello of a job that no one serves.
fn stranger_hello() -> Vec<u8> {
    use wiresum_wire::control::hello;
    use wiresum_wire::{HEADER_LEN, Header, Kind, LaneType, MAGIC, VERSION, seal};
    use zerocopy::{FromZeros, IntoBytes};
    let payload = [0; 4 * hello::WORDS];
    let mut header = Header::new_zeroed();
    (header.magic, header.version, header.kind) = (MAGIC.into(), VERSION, Kind::Hello as u8);
    (header.job, header.value_count) = (999.into(), (hello::WORDS as u16).into());
    seal(&mut header, LaneType::I32Be.sum(&payload));
    assert_eq!(header.as_bytes().len(), HEADER_LEN);
    [header.as_bytes(), &payload].concat()
}
