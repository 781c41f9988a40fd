//! `wiresum-node` as a process: what it prints, and how it ends.

mod cluster;

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use cluster::{Shape, plan};
use wiresum_protocol::Plan;
use wiresum_protocol::plan::{Lanes, Policy};
use wiresum_testkit::capability::is_here;
use wiresum_xdp::XdpAggregator;

fn star() -> Plan {
    plan(Shape::Star, 2, Lanes::Int32Le, Policy::Pool)
}

/// A plan in a file that is removed with it.
struct PlanFile(PathBuf);

impl PlanFile {
    fn new(name: &str, plan: &Plan) -> Self {
        let file = format!("wiresum-{}-{name}.json", std::process::id());
        let path = std::env::temp_dir().join(file);
        std::fs::write(&path, serde_json::to_string(plan).expect("JSON")).expect("a file");
        Self(path)
    }
}

impl Drop for PlanFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn command(plans: &[&PlanFile], arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wiresum-node"));
    for plan in plans {
        command.arg("--plan").arg(&plan.0);
    }
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A daemon that serves; killed with the test if the test fails.
struct Daemon(Child);

impl Daemon {
    /// The daemon and its ready line.
    fn start(mut command: Command) -> (Self, String) {
        let mut child = command.spawn().expect("a process");
        let mut ready = String::new();
        let stdout = child.stdout.as_mut().expect("a pipe");
        // One byte at a time, so that nothing is taken that belongs to the rest of the output.
        while !ready.ends_with('\n') {
            let mut byte = [0];
            assert_eq!(stdout.read(&mut byte).expect("a pipe"), 1, "no ready line: {ready}");
            ready.push(char::from(byte[0]));
        }
        (Self(child), ready)
    }

    /// Ends it by a signal; its exit code and what it printed last.
    fn end(mut self, signal: rustix::process::Signal) -> (Option<i32>, String) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, signal).expect("a living process");
        let code = self.0.wait().expect("an end").code();
        let lines = BufReader::new(self.0.stdout.take().expect("a pipe")).lines();
        (code, lines.map_while(Result::ok).collect::<Vec<_>>().join("\n"))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
    }
}

/// What a daemon says beside the warning that it was given the secret, which these plans have inside.
fn told(stderr: &str) -> impl Iterator<Item = &str> {
    stderr.lines().filter(|line| !line.contains("a node needs only its keys"))
}

fn assert_fails(output: &Output, code: i32, says: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert!(stderr.contains(says), "`{says}` is not in: {stderr}");
    assert_eq!(told(&stderr).count(), 1, "one clear line: {stderr}");
    assert!(output.stdout.is_empty(), "not ready");
}

#[test]
fn serves_until_a_signal_and_prints_its_counters() {
    let file = PlanFile::new("serves", &star());
    for signal in [rustix::process::Signal::INT, rustix::process::Signal::TERM] {
        let arguments = ["--node", "0", "--listen", "127.0.0.1:0", "--json"];
        let (daemon, ready) = Daemon::start(command(&[&file], &arguments));
        assert!(ready.starts_with("ready node=0 engine=udp listen=127.0.0.1:"), "{ready}");
        assert!(ready.contains(" memory_bytes="), "{ready}");
        let (code, printed) = daemon.end(signal);
        assert_eq!(code, Some(0));
        let counters: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
        assert_eq!(counters["verdicts"]["malformed"], 0);
        assert_eq!(counters["socket"]["datagrams_received"], 0);
    }
}

#[test]
fn counts_in_a_table_for_people() {
    let file = PlanFile::new("table", &star());
    let arguments = ["--node", "0", "--listen", "127.0.0.1:0", "--stats-interval", "0.01"];
    let (daemon, ready) = Daemon::start(command(&[&file], &arguments));
    let address = ready.split("listen=").nth(1).and_then(|rest| rest.split(' ').next());
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.send_to(b"not a packet", address.expect("an address")).expect("sent");
    let mut daemon = daemon;
    let stdout = BufReader::new(daemon.0.stdout.as_mut().expect("a pipe"));
    let counted = stdout.lines().map_while(Result::ok).find(|line| line.starts_with("malformed"));
    assert_eq!(counted.expect("a row").split_whitespace().last(), Some("1"));
}

#[test]
fn a_port_in_use_is_named() {
    let file = PlanFile::new("port", &star());
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("bound").to_string();
    let output = command(&[&file], &["--node", "0", "--listen", &address]).output();
    assert_fails(&output.expect("a process"), 1, &address);
}

#[test]
fn wrong_plans_are_named() {
    let mut wrong = star();
    wrong.job.codec = "morse".to_owned();
    let (good, wrong) = (PlanFile::new("good", &star()), PlanFile::new("wrong", &wrong));
    let run = |plans: &[&PlanFile], arguments: &[&str]| {
        command(plans, arguments).output().expect("a process")
    };
    assert_fails(&run(&[&good], &["--node", "4"]), 2, "its nodes are 0 (n0)");
    assert_fails(&run(&[&wrong], &["--node", "0"]), 2, "morse");
    assert_fails(&run(&[&good, &good], &["--node", "0"]), 2, "job id 7");
    let absent = PlanFile(PathBuf::from("/nonexistent/plan.json"));
    assert_fails(&run(&[&absent], &["--node", "0"]), 2, "/nonexistent/plan.json");
    let elsewhere = ["--node", "0", "--listen", "203.0.113.9:5747"];
    assert_fails(&run(&[&good], &elsewhere), 2, "203.0.113.9");
}

#[test]
fn several_jobs_share_a_node() {
    let mut other = star();
    other.job.id = 8;
    let (first, second) = (PlanFile::new("first", &star()), PlanFile::new("second", &other));
    let arguments = ["--node", "0", "--listen", "127.0.0.1:0"];
    let (_daemon, ready) = Daemon::start(command(&[&first, &second], &arguments));
    assert!(ready.contains(" jobs=2 "), "{ready}");
}

#[test]
fn the_xdp_engine_wants_an_interface_that_exists() {
    let file = PlanFile::new("xdp", &star());
    let arguments = ["--node", "0", "--engine", "xdp"];
    let output = command(&[&file], &arguments).output().expect("a process");
    assert_fails(&output, 2, "--interface");
    if !is_here("bpf", XdpAggregator::check_support()) {
        return;
    }
    let arguments = ["--node", "0", "--engine", "xdp", "--interface", "ws-absent"];
    let output = command(&[&file], &arguments).output().expect("a process");
    assert_fails(&output, 2, "ws-absent");
}

#[test]
fn auto_falls_back_to_user_space_and_says_so() {
    let file = PlanFile::new("auto", &star());
    let arguments = ["--node", "0", "--engine", "auto", "--listen", "127.0.0.1:0"];
    let unusable = ["--interface", "ws-absent"];
    let (mut daemon, ready) =
        Daemon::start(command(&[&file], &[&arguments[..], &unusable].concat()));
    assert!(ready.contains(" engine=udp "), "{ready}");
    let stderr = daemon.0.stderr.take().expect("a pipe");
    let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("xdp cannot be had")), "no reason for udp");
}

#[test]
fn packets_longer_than_a_page_are_summed_in_user_space_alone() {
    if !is_here("bpf", XdpAggregator::check_support()) {
        return;
    }
    let mut long = star();
    long.job.values_per_packet = 2232;
    let file = PlanFile::new("long", &long);
    let with = |engine| {
        ["--node", "0", "--listen", "127.0.0.1:0", "--interface", "lo", "--engine", engine]
    };
    for engine in ["xdp", "af_xdp"] {
        let output = command(&[&file], &with(engine)).output().expect("a process");
        assert_fails(&output, 2, "packets of 2232 values");
    }
    let (mut daemon, ready) = Daemon::start(command(&[&file], &with("auto")));
    assert!(ready.contains(" engine=udp "), "{ready}");
    let stderr = daemon.0.stderr.take().expect("a pipe");
    let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("packets of 2232 values")), "no reason for udp");
}

/// A network namespace with a veth pair `ws0`–`ws1`, removed with this.
struct Namespace(String);

impl Namespace {
    fn new() -> Self {
        let namespace = Self(format!("ws-node-{}", std::process::id()));
        ip(&["netns", "add", &namespace.0]);
        namespace.ip(&["link", "add", "ws0", "type", "veth", "peer", "name", "ws1"]);
        for interface in ["lo", "ws0", "ws1"] {
            namespace.ip(&["link", "set", interface, "up"]);
        }
        namespace
    }

    fn ip(&self, arguments: &[&str]) -> String {
        ip(&[&["-netns", &self.0], arguments].concat())
    }

    /// The daemon of `file`, inside, on interface `ws0`.
    fn daemon(&self, file: &PlanFile) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0, env!("CARGO_BIN_EXE_wiresum-node"), "--plan"]);
        command.arg(&file.0).args(["--node", "0", "--engine", "xdp", "--interface", "ws0"]);
        command.args(["--listen", "127.0.0.1:0", "--json"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn runs_xdp(&self) -> bool {
        self.ip(&["link", "show", "dev", "ws0"]).contains("xdp")
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "delete", &self.0]).status();
    }
}

fn ip(arguments: &[&str]) -> String {
    let output = Command::new("ip").args(arguments).output().expect("iproute2");
    assert!(output.status.success(), "ip {arguments:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_xdp_program_goes_with_the_daemon_however_it_ends() {
    let iproute = Command::new("ip").arg("-V").output().map(drop);
    if !is_here("bpf", XdpAggregator::check_support()) || !is_here("namespaces", iproute) {
        return;
    }
    let (namespace, file) = (Namespace::new(), PlanFile::new("killed", &star()));
    for (signal, code) in
        [(rustix::process::Signal::INT, Some(0)), (rustix::process::Signal::KILL, None)]
    {
        let (daemon, ready) = Daemon::start(namespace.daemon(&file));
        assert!(ready.contains(" engine=xdp "), "{ready}");
        assert!(namespace.runs_xdp(), "attached while it serves");
        assert_eq!(daemon.end(signal).0, code);
        assert!(!namespace.runs_xdp(), "detached after {signal:?}");
    }
}

#[test]
fn the_kernel_engine_without_a_plan_asks_for_memory() {
    let mut daemon = command(&[], &["--node", "0", "--engine", "xdp", "--interface", "lo"]);
    let socket = std::env::temp_dir().join(format!("wiresum-{}-room.sock", std::process::id()));
    daemon.arg("--control").arg(&socket).args(["--listen", "127.0.0.1:0"]);
    let ended = daemon.output().expect("a process");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(2), "{said}");
    assert!(said.contains("--memory 2GiB"), "{said}");
}
