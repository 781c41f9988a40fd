//! The daemon as a service: jobs come and go over its control socket, and what does not fit is refused.

mod cluster;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cluster::{Shape, over_tcp, plan};
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use serde_json::{Value, json};
use wiresum_codec::Operation;
use wiresum_node::engine::{Engine, JoinError, Options};
use wiresum_protocol::Plan;
use wiresum_protocol::plan::{Lanes, MAX_SLOTS, PlanStream, Policy};
use wiresum_testkit::capability::is_here;
use wiresum_testkit::traffic::aggregator::RandomTraffic;
use wiresum_wire::NodeId;

/// More than a busy machine takes to start a daemon or to sum a few values.
const PATIENCE: Duration = Duration::from_secs(20);

/// A daemon without jobs, killed with the test.
struct Daemon {
    child: Child,
    socket: PathBuf,
    address: SocketAddr,
}

impl Daemon {
    fn start(name: &str, arguments: &[&str]) -> Self {
        let over_udp = ["--engine", "udp", "--listen", "127.0.0.1:0"];
        Self::over(name, &[&over_udp, arguments].concat())
    }

    fn over(name: &str, arguments: &[&str]) -> Self {
        let file = format!("wiresum-{}-{name}.sock", std::process::id());
        let socket = std::env::temp_dir().join(file);
        let mut command = Command::new(env!("CARGO_BIN_EXE_wiresum-node"));
        command.args(["--node", "0", "--control"]);
        command.arg(&socket).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("a process");
        let mut ready = String::new();
        BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut ready).expect("text");
        let address = ready.split("listen=").nth(1).and_then(|rest| rest.split(' ').next());
        let address = address.and_then(|a| a.parse().ok()).unwrap_or_else(|| panic!("{ready}"));
        Self { child, socket, address }
    }

    fn ask(&self, line: &str) -> Value {
        let mut client = UnixStream::connect(&self.socket).expect("the socket is there");
        client.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        // A request that is too long is answered before it has been read.
        let _ = writeln!(client, "{line}");
        let mut answer = String::new();
        BufReader::new(client).read_line(&mut answer).expect("an answer");
        serde_json::from_str(&answer).unwrap_or_else(|_| panic!("no JSON: {answer}"))
    }

    fn add(&self, plan: &Plan, quota: &Value) -> Value {
        let request = json!({ "version": 1, "request": "add", "plan": plan, "quota": quota });
        self.ask(&request.to_string())
    }

    fn request(&self, request: &str, job: u16) -> Value {
        self.ask(&json!({ "version": 1, "request": request, "job": job }).to_string())
    }

    fn status(&self) -> Value {
        self.ask(r#"{"version":1,"request":"status"}"#)
    }

    /// A star of one worker at this daemon.
    fn plan(&self, job: u16) -> Plan {
        let mut plan = plan(Shape::Star, 1, Lanes::Int32Le, Policy::Pool);
        plan.job.id = job;
        plan.nodes[0].address = self.address;
        plan
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.socket);
    }
}

fn join(plan: &Plan, incarnation: u64) -> Result<Engine, JoinError> {
    Engine::join(plan, 0, incarnation, Options { timeout: PATIENCE, ..Options::default() })
}

/// Sums a tensor of ones with itself alone, and returns its last value.
fn reduce(plan: &Plan, incarnation: u64) -> f32 {
    reduce_at(&join(plan, incarnation).expect("the job is served"))
}

fn reduce_at(engine: &Engine) -> f32 {
    let mut values = vec![1f32; 10_000];
    engine.all_reduce(&mut values, Operation::Sum, PATIENCE).expect("a sum");
    values[values.len() - 1]
}

#[test]
fn jobs_come_are_summed_and_go() {
    jobs_come_and_go(&Daemon::start("jobs", &[]));
}

#[test]
fn jobs_come_and_go_at_several_threads() {
    let daemon = Daemon::start("threads", &["--threads", "2"]);
    jobs_come_and_go(&daemon);
    assert_eq!(daemon.status()["threads"], 2);
}

fn jobs_come_and_go(daemon: &Daemon) {
    let stranger = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    stranger.send_to(b"before there is a job", daemon.address).expect("sent");
    let (first, second) = (daemon.plan(7), daemon.plan(8));
    assert_eq!(daemon.add(&first, &json!({}))["ok"], true);
    assert_eq!(daemon.add(&second, &json!({}))["ok"], true);
    assert_eq!((reduce(&first, 1), reduce(&second, 1)), (1.0, 1.0));
    let status = daemon.status();
    assert_eq!(status["jobs"][1]["job"], 8);
    assert!(status["jobs"][1]["verdicts"]["completed"].as_u64() > Some(0), "{status}");
    assert!(status["jobs"][1]["bytes"].as_u64() > Some(10_000), "{status}");
    assert_eq!(daemon.request("remove", 7)["ok"], true);
    assert_eq!(daemon.status()["jobs"].as_array().map(Vec::len), Some(1));
    let refusal = join(&first, 2).err().expect("the job is gone").to_string();
    assert!(refusal.contains("did not answer"), "{refusal}");
    assert_eq!(reduce(&second, 2), 1.0, "the other job goes on");
}

#[test]
fn keys_of_another_node_are_refused_by_name() {
    let daemon = Daemon::start("keys", &[]);
    let whole = daemon.plan(7);
    let held = whole.clone().held_by(NodeId(0)).expect("its node");
    let mut others = held.clone();
    let keys = others.job.secret.take().expect("keys");
    others.job.secret = Some(keys.replacen("\"node\": 0", "\"node\": 1", 1));
    let answer = daemon.add(&others, &json!({}));
    assert!(answer.to_string().contains("keys of node 1, and this is node 0"), "{answer}");
    assert_eq!(daemon.add(&held, &json!({}))["ok"], true);
    assert_eq!(reduce(&whole, 1), 1.0, "the node's own keys are enough");
}

/// A job's connections end with it; others' stay.
#[test]
fn jobs_come_and_go_over_tcp() {
    let held = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = held.local_addr().expect("bound");
    let planned = |job| {
        let mut plan = over_tcp(plan(Shape::Star, 1, Lanes::Int32Le, Policy::Pool));
        (plan.job.id, plan.nodes[0].address) = (job, address);
        plan
    };
    let (first, second) = (planned(7), planned(8));
    let file = std::env::temp_dir().join(format!("wiresum-{}-over-tcp.json", std::process::id()));
    std::fs::write(&file, serde_json::to_string(&first).expect("JSON")).expect("a file");
    let listen = address.to_string();
    let path = file.to_str().expect("UTF-8");
    let daemon = Daemon::over("over-tcp", &["--plan", path, "--listen", &listen]);
    assert_eq!(daemon.add(&second, &json!({}))["ok"], true);
    let datagrams = daemon.plan(9);
    let refused = daemon.add(&datagrams, &json!({}));
    assert!(refused["error"].as_str().is_some_and(|e| e.contains("datagrams")), "{refused}");
    let engine = join(&second, 1).expect("the job is served");
    assert_eq!(reduce(&first, 1), 1.0);
    assert_eq!(daemon.request("remove", 7)["ok"], true);
    assert_eq!(reduce_at(&engine), 1.0, "the other job goes on");
    assert_eq!(daemon.status()["jobs"].as_array().map(Vec::len), Some(1));
    assert_eq!(daemon.add(&first, &json!({}))["ok"], true);
    assert_eq!(reduce(&first, 2), 1.0);
    let _ = std::fs::remove_file(&file);
}

/// Slots that no machine has are refused before any of them is allocated, whether somebody has named a bound or not.
#[test]
fn more_memory_than_there_is_ends_no_daemon() {
    for bound in [&["--memory", "64MB"][..], &[]] {
        let daemon = Daemon::start("hungry", bound);
        let small = daemon.plan(7);
        assert_eq!(daemon.add(&small, &json!({}))["ok"], true);
        let mut huge = daemon.plan(8);
        let most = |stream: PlanStream| stream.with_slots(MAX_SLOTS);
        huge.streams = huge.streams.into_iter().map(most).collect();
        let values = huge.streams[1].clone();
        let part = |id| PlanStream { id, name: format!("v{id}"), share: 0.02, ..values.clone() };
        huge.streams.truncate(1);
        huge.streams.extend((1..=50).map(part));
        let refused = daemon.add(&huge, &json!({}));
        let error = refused["error"].as_str().unwrap_or_default();
        assert!(error.contains("bytes of memory here"), "{refused}");
        assert_eq!(reduce(&small, 1), 1.0, "the other job goes on");
    }
}

#[test]
fn what_does_not_fit_is_refused_with_numbers() {
    let daemon = Daemon::start("limits", &["--memory", "2MB", "--max-jobs", "1"]);
    let mut large = daemon.plan(7);
    large.streams = large.streams.into_iter().map(|stream| stream.with_slots(4096)).collect();
    let says = |answer: Value, words: &str| {
        let error = answer["error"].as_str().unwrap_or_default().to_owned();
        assert!(answer["ok"] == false && error.contains(words), "{words}: {answer}");
    };
    says(daemon.add(&large, &json!({})), "2000000 are free");
    let small = daemon.plan(7);
    says(daemon.add(&small, &json!({ "memory_bytes": 10 })), "its quota is 10");
    assert_eq!(daemon.add(&small, &json!({}))["ok"], true);
    says(daemon.add(&small, &json!({})), "served already");
    says(daemon.add(&daemon.plan(8), &json!({})), "--max-jobs");
    says(daemon.request("remove", 9), "not served");
    let mut elsewhere = daemon.plan(8);
    elsewhere.nodes[0].id = 4;
    says(daemon.add(&elsewhere, &json!({})), "streams");
    says(daemon.ask("nonsense"), "not JSON");
}

#[test]
fn a_quota_bounds_a_job_and_can_be_lifted() {
    for threads in ["1", "2"] {
        quotas_bound(&Daemon::start("quota", &["--rate", "1gbit", "--threads", threads]));
    }
}

fn quotas_bound(daemon: &Daemon) {
    let plan = daemon.plan(7);
    let refused = daemon.add(&plan, &json!({}));
    assert!(refused["error"].as_str().is_some_and(|error| error.contains("quota with a rate")));
    assert_eq!(daemon.add(&plan, &json!({ "bytes_per_second": 125_000_000 }))["ok"], true);
    assert_eq!(reduce(&plan, 1), 1.0);
    let more = json!({ "version": 1, "request": "quota", "job": 7, "quota": { "bytes_per_second": 125_000_001 } });
    assert!(
        daemon.ask(&more.to_string())["error"]
            .as_str()
            .is_some_and(|e| e.contains("of this daemon's 1000000000"))
    );
    let less = json!({ "version": 1, "request": "quota", "job": 7, "quota": { "bytes_per_second": 60_000 } });
    assert_eq!(daemon.ask(&less.to_string())["ok"], true);
    assert_eq!(daemon.status()["jobs"][0]["quota"]["bytes_per_second"], 60_000);
}

/// Jobs of the command line have quotas from the start; one for a job that is not there is a mistake.
#[test]
fn a_quota_can_be_given_at_the_start() {
    let plan = plan(Shape::Star, 1, Lanes::Int32Le, Policy::Pool);
    let file = std::env::temp_dir().join(format!("wiresum-{}-quota.json", std::process::id()));
    std::fs::write(&file, serde_json::to_string(&plan).expect("JSON")).expect("a file");
    let path = file.to_str().expect("UTF-8");
    let daemon = Daemon::start("start", &["--plan", path, "--quota", "7=80mbit"]);
    assert_eq!(daemon.status()["jobs"][0]["quota"]["bytes_per_second"], 10_000_000);
    for (wrong, reason) in
        [("8=80mbit", "job 8 is not served"), ("80mbit", "7=2gbit"), ("7=fast", "no rate")]
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wiresum-node"));
        command.args(["--node", "0", "--listen", "127.0.0.1:0", "--plan", path, "--quota", wrong]);
        let output = command.output().expect("an end");
        assert_eq!(output.status.code(), Some(2));
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(errors.contains(reason), "{wrong}: {errors}");
    }
    let _ = std::fs::remove_file(&file);
}

/// Thousands of hellos without a proof: none is answered.
#[test]
fn a_flood_of_hellos_is_not_answered() {
    let daemon = Daemon::start("flood", &[]);
    assert_eq!(daemon.add(&daemon.plan(7), &json!({}))["ok"], true);
    let mut other = daemon.plan(7);
    other.job.secret = Some("f".repeat(64));
    let hello = RandomTraffic::new(&other, NodeId(0), 1).joining().remove(0).datagram;
    let stranger = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    for _ in 0..20_000 {
        stranger.send_to(&hello, daemon.address).expect("sent");
    }
    // Answered in order, so everything before has been dealt with.
    assert_eq!(reduce(&daemon.plan(7), 1), 1.0);
    let verdicts = daemon.status()["verdicts"].clone();
    let count = |verdict: &str| verdicts[verdict].as_u64().expect("a number");
    assert!(count("foreign") > 0, "{verdicts}");
    stranger.set_nonblocking(true).expect("a socket");
    let answer = stranger.recv(&mut [0; 100]).map_err(|error| error.kind());
    assert_eq!(answer, Err(std::io::ErrorKind::WouldBlock));
}

/// The kernel refuses a flood after a while; the job goes on, and once the flood is over, what is refused is counted again.
#[test]
fn a_flood_is_refused_for_a_while() {
    for threads in ["1", "2"] {
        floods_are_refused(&Daemon::start("guard", &["--threads", threads]));
    }
}

fn floods_are_refused(daemon: &Daemon) {
    assert_eq!(daemon.add(&daemon.plan(7), &json!({}))["ok"], true);
    let stranger = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let start = Instant::now();
    while daemon.status()["floods"] == 0 {
        assert!(start.elapsed() < PATIENCE, "no flood was seen: {}", daemon.status());
        (0..5_000).for_each(|_| assert!(stranger.send_to(&[0; 64], daemon.address).is_ok()));
    }
    assert_eq!(reduce(&daemon.plan(7), 1), 1.0);
    let malformed = || daemon.status()["verdicts"]["malformed"].as_u64();
    let (start, before) = (Instant::now(), malformed());
    while malformed() == before {
        assert!(start.elapsed() < PATIENCE, "the guard was not lowered: {}", daemon.status());
        stranger.send_to(&[0; 64], daemon.address).expect("sent");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Where a daemon says that it serves metrics.
fn metrics_address(daemon: &mut Daemon) -> String {
    let mut errors = BufReader::new(daemon.child.stderr.take().expect("a pipe"));
    loop {
        let mut line = String::new();
        assert!(errors.read_line(&mut line).expect("text") > 0, "no address");
        if let Some(rest) = line.trim().split("metrics at http://").nth(1) {
            return rest.trim_end_matches("/metrics").to_owned();
        }
    }
}

fn get(address: &str, path: &str) -> String {
    let mut client = TcpStream::connect(address).expect("it listens");
    client.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    write!(client, "GET {path} HTTP/1.1\r\nHost: node\r\n\r\n").expect("sent");
    let mut text = String::new();
    client.read_to_string(&mut text).expect("an answer");
    text
}

/// Clients that say nothing, or a byte now and then, or take no answers. One after the other they would be waited for
/// for minutes; whoever speaks is answered meanwhile.
#[test]
fn silent_clients_delay_nobody() {
    const SILENT: usize = 300;
    const UNREAD: usize = 2000;
    let mut daemon = Daemon::start("silent", &["--metrics", "127.0.0.1:0"]);
    let address = metrics_address(&mut daemon);
    let mut deaf = UnixStream::connect(&daemon.socket).expect("it listens");
    deaf.set_write_timeout(Some(Duration::from_millis(100))).expect("a timeout");
    let request = b"{\"version\":1,\"request\":\"metrics\"}\n";
    let _ = (0..UNREAD).try_for_each(|_| deaf.write_all(request));
    let half = |client: &mut dyn Write| client.write_all(b"GET ").expect("sent");
    let mut silent = Vec::new();
    let mut waiting = Vec::new();
    for _ in 0..SILENT {
        let mut client = UnixStream::connect(&daemon.socket).expect("it listens");
        half(&mut client);
        silent.push(client);
        let mut client = TcpStream::connect(&address).expect("it listens");
        half(&mut client);
        waiting.push(client);
        if silent.len() % 50 == 0 {
            assert_eq!(daemon.status()["node"], 0);
            assert!(get(&address, "/metrics").starts_with("HTTP/1.1 200"));
        }
    }
}

/// The kernel says who a client is: a file that all may write to gives nobody a right.
#[test]
fn only_the_owner_and_the_group_give_orders() {
    let root = rustix::process::geteuid().is_root();
    if !is_here("root", root.then_some(()).ok_or("only root can be somebody else")) {
        return;
    }
    const NOBODY: u32 = 65_534;
    let daemon = Daemon::start("others", &[]);
    std::fs::set_permissions(&daemon.socket, PermissionsExt::from_mode(0o666)).expect("ours");
    let ask_as = |group: u32, groups: Vec<u32>| {
        let ask = || {
            // The limit holds for this thread alone.
            let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(group));
            let groups: Vec<Gid> = groups.into_iter().map(Gid::from_raw).collect();
            set_thread_groups(&groups).expect("root may");
            set_thread_res_gid(group, group, group).expect("root may");
            set_thread_res_uid(user, user, user).expect("root may");
            daemon.status()
        };
        std::thread::scope(|scope| scope.spawn(ask).join().expect("an answer"))
    };
    let error = ask_as(NOBODY, vec![])["error"].as_str().unwrap_or_default().to_owned();
    assert!(error.contains("user 65534 may not"), "{error}");
    std::os::unix::fs::chown(&daemon.socket, None, Some(4242)).expect("root may");
    assert_eq!(ask_as(4242, vec![])["ok"], true);
    assert_eq!(ask_as(NOBODY, vec![77, 4242])["ok"], true);
    assert_eq!(ask_as(NOBODY, vec![77])["ok"], false);
    assert_eq!(daemon.status()["ok"], true, "root may always");
}

/// What is wrong with a request is said in a few lines, however long the wrong value is.
#[test]
fn errors_are_short() {
    let daemon = Daemon::start("short", &[]);
    let long = "x".repeat(100_000);
    let mut named = serde_json::to_value(daemon.plan(7)).expect("a plan");
    named[&long] = json!(1);
    for answer in [
        daemon.ask(&json!({ "version": 1, "request": long }).to_string()),
        daemon.ask(&json!({ "version": 1, "request": "add", "plan": named }).to_string()),
        daemon.ask(&"[".repeat(100_000)),
        daemon.ask(&"x".repeat(5 << 20)),
    ] {
        let error = answer["error"].as_str().expect("an error");
        assert!(error.len() < 1000, "{} bytes", error.len());
    }
}

/// A device has no end, and no plan has gigabytes.
#[test]
fn a_device_is_no_plan() {
    for option in ["--plan", "--tables"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wiresum-node"));
        let output = command.args(["--node", "0", option, "/dev/zero"]).output().expect("an end");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains("64 MiB"), "{error}");
    }
}

#[test]
fn metrics_are_served_over_http() {
    let mut daemon = Daemon::start("metrics", &["--metrics", "127.0.0.1:0"]);
    assert_eq!(daemon.add(&daemon.plan(7), &json!({}))["ok"], true);
    let address = metrics_address(&mut daemon);
    let text = get(&address, "/metrics");
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    assert!(text.contains("wiresum_memory_bytes{node=\"0\",job=\"7\"}"), "{text}");
    assert!(get(&address, "/").starts_with("HTTP/1.1 404"));
}

/// The engine `udp` with no user id of its own and no capabilities.
#[test]
fn the_daemon_needs_no_root() {
    let root = rustix::process::geteuid().is_root();
    if !is_here("root", root.then_some(()).ok_or("only root can give up root")) {
        return;
    }
    let folder = std::env::temp_dir().join(format!("wiresum-{}-nobody", std::process::id()));
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o777)).expect("a folder for all");
    // The folder in which cargo builds may be closed to others.
    let (socket, daemon) = (folder.join("node.sock"), folder.join("wiresum-node"));
    std::fs::copy(env!("CARGO_BIN_EXE_wiresum-node"), &daemon).expect("a copy");
    let arguments = ["--node", "0", "--engine", "udp", "--listen", "127.0.0.1:0", "--control"];
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"]);
    command.args(["--bounding-set=-all", "--inh-caps=-all"]).arg(&daemon).args(arguments);
    command.arg(&socket).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("setpriv of util-linux");
    let mut ready = String::new();
    BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut ready).expect("text");
    let _ = child.kill();
    let output = child.wait_with_output().expect("an end");
    let _ = std::fs::remove_dir_all(&folder);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(ready.contains("engine=udp"), "{ready}{errors}");
}
