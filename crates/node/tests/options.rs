//! Every option at every kind of daemon: it is seen to work, or refused with its reason. None is ignored.

mod cluster;
mod switched;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use cluster::{Shape, over_tcp};
use serde_json::Value;
use switched::{Place, SERVER, SWITCH};
use wiresum_protocol::Plan;
use wiresum_protocol::plan::{Lanes, Policy};

const PATIENCE: Duration = Duration::from_secs(30);

/// What a daemon is; kinds in the kernel need privileges and are in `daemon.rs` and the testbed's tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Aggregator,
    OverTcp,
    Switch,
    Server,
}
use Kind::{Aggregator, OverTcp, Server, Switch};

const KINDS: [Kind; 4] = [Aggregator, OverTcp, Switch, Server];

/// What becomes of an option.
enum Outcome {
    /// It serves, and this is so.
    Works(fn(&mut Daemon)),
    /// It ends as the option has it, with these words.
    Bounds(&'static str),
    /// It says that it cannot honour the option, and why.
    Refused(&'static str),
}
use Outcome::{Bounds, Refused, Works};

/// An option with its values, and what becomes of it at a kind. `JOB` stands for the number of the plan's job, `SOCKET` for a path.
struct Row {
    option: &'static [&'static str],
    at: fn(Kind) -> Outcome,
}

const NO_PROGRAM: &str = "runs no program on interfaces";
const FLOW_CONTROL: &str = "flow control";
const NO_RATES: &str = "loss and delay";

const ROWS: [Row; 16] = [
    Row { option: &["--json"], at: |_| Works(ends_with_json) },
    Row { option: &["--stats-interval", "0.05", "--json"], at: |_| Works(reports_in_time) },
    Row {
        option: &["--listen", "127.0.0.1:0"],
        at: |_| {
            Works(|daemon| assert!(daemon.listen.starts_with("127.0.0.1:"), "{}", daemon.listen))
        },
    },
    Row {
        option: &["--control", "SOCKET"],
        at: |_| Works(|daemon| assert_eq!(daemon.status()["ok"], true)),
    },
    Row {
        option: &["--control", "SOCKET", "--metrics", "127.0.0.1:0"],
        at: |_| Works(serves_metrics),
    },
    Row { option: &["--control", "SOCKET", "--take-over"], at: |_| Bounds("no daemon answers") },
    // That the file's secret counts, tests of secrets see.
    Row { option: &["--secret", "/missing/secret"], at: |_| Bounds("secret /missing/secret") },
    Row { option: &["--memory", "1kb"], at: |_| Bounds("and this daemon has 1000") },
    Row { option: &["--max-jobs", "1", "--plan", "SECOND"], at: |_| Bounds("raise --max-jobs") },
    Row {
        option: &["--control", "SOCKET", "--quota", "JOB=80mbit"],
        at: |kind| match kind {
            OverTcp => Refused(FLOW_CONTROL),
            _ => Works(|daemon| {
                assert_eq!(daemon.status()["jobs"][0]["quota"]["bytes_per_second"], 10_000_000)
            }),
        },
    },
    Row {
        option: &["--rate", "1gbit"],
        at: |kind| {
            if kind == OverTcp { Refused(FLOW_CONTROL) } else { Bounds("quota with a rate") }
        },
    },
    Row {
        option: &["--control", "SOCKET", "--threads", "2"],
        at: |kind| match kind {
            Aggregator => Works(|daemon| assert_eq!(daemon.status()["threads"], 2)),
            _ => Refused("the engine udp alone"),
        },
    },
    Row { option: &["--interface", "lo"], at: |_| Refused(NO_PROGRAM) },
    Row { option: &["--generic"], at: |_| Refused(NO_PROGRAM) },
    // Where rates are negotiated, tests of rates see what this does.
    Row { option: &["--ingress-bps", "1000000"], at: rates },
    Row { option: &["--egress-bps", "1000000"], at: rates },
];

fn rates(kind: Kind) -> Outcome {
    if matches!(kind, Switch | Server) { Refused(NO_RATES) } else { Works(|_| ()) }
}

/// The names in the help text that are no rows: what every row gives, what shows a text and ends, and what is for
/// sparse jobs and jobs of pairs, which tests of these see.
const ELSEWHERE: [&str; 9] = [
    "--plan",
    "--node",
    "--engine",
    "--help",
    "--version",
    "--tables",
    "--pairs",
    "--snapshots",
    "--snapshot-interval",
];

/// What no node of a sparse job, or of one of pairs, can honour. What depends on the node's role is refused when the job has been read
/// (`tests/testbed/test_rows.py`).
const NOT_WITH_TABLES: [&[&str]; 7] = [
    &["--plan", "x"],
    &["--secret", "x"],
    &["--listen", "127.0.0.1:0"],
    &["--take-over", "--control"],
    &["--rate", "1gbit"],
    &["--ingress-bps", "1000000"],
    &["--egress-bps", "1000000"],
];

#[test]
fn a_node_of_a_sparse_job_refuses_what_it_cannot_honour() {
    for options in NOT_WITH_TABLES {
        for job in ["--tables", "--pairs"] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_wiresum-node"));
            let ended = command.args(["--node", "0", job, "x"]).args(options).output();
            let ended = ended.expect("an end");
            let said = String::from_utf8_lossy(&ended.stderr);
            assert_eq!(ended.status.code(), Some(2), "{job} {options:?}: {said}");
            assert!(said.contains("exclude each other"), "{job} {options:?}: {said}");
        }
    }
}

struct Daemon {
    child: Child,
    /// Its standard output after the ready line.
    output: BufReader<std::process::ChildStdout>,
    listen: String,
    socket: PathBuf,
}

impl Daemon {
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("text");
        line
    }

    fn status(&self) -> Value {
        let mut client = UnixStream::connect(&self.socket).expect("the socket is there");
        client.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        writeln!(client, r#"{{"version":1,"request":"status"}}"#).expect("the daemon listens");
        let mut answer = String::new();
        BufReader::new(client).read_line(&mut answer).expect("an answer");
        serde_json::from_str(&answer).unwrap_or_else(|_| panic!("no JSON: {answer}"))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ends_with_json(daemon: &mut Daemon) {
    let process = rustix::process::Pid::from_child(&daemon.child);
    rustix::process::kill_process(process, rustix::process::Signal::INT).expect("it lives");
    let line = daemon.line();
    assert!(
        serde_json::from_str::<Value>(&line).is_ok_and(|c| c["verdicts"].is_object()),
        "{line}"
    );
}

fn reports_in_time(daemon: &mut Daemon) {
    for _ in 0..2 {
        let line = daemon.line();
        assert!(serde_json::from_str::<Value>(&line).is_ok(), "{line}");
    }
}

fn serves_metrics(daemon: &mut Daemon) {
    let mut errors = BufReader::new(daemon.child.stderr.take().expect("a pipe"));
    let address = loop {
        let mut line = String::new();
        assert!(errors.read_line(&mut line).expect("text") > 0, "no address");
        if let Some(rest) = line.trim().split("metrics at http://").nth(1) {
            break rest.trim_end_matches("/metrics").to_owned();
        }
    };
    let mut client = TcpStream::connect(address).expect("it listens");
    client.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    write!(client, "GET /metrics HTTP/1.1\r\nHost: node\r\n\r\n").expect("sent");
    let mut text = String::new();
    client.read_to_string(&mut text).expect("an answer");
    assert!(text.contains("wiresum_node_packets_total{"), "{text}");
}

fn plans(kind: Kind) -> [Plan; 2] {
    if matches!(kind, Switch | Server) {
        let place = Place::default();
        return [1, 2].map(|job| place.plan(job, 64));
    }
    // A port that nobody has now.
    let held = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = held.local_addr().expect("bound");
    [1, 2].map(|job| {
        let mut plan = cluster::plan(Shape::Star, 2, Lanes::Int32Le, Policy::Pool);
        (plan.job.id, plan.nodes[0].address) = (job, address);
        if kind == OverTcp { over_tcp(plan) } else { plan }
    })
}

/// Starts a daemon of a kind with an option: it serves, or has ended with these words.
fn start(kind: Kind, plans: &[Plan; 2], option: &[&str], folder: &Path) -> Result<Daemon, String> {
    let files = ["first.json", "second.json"].map(|name| folder.join(name));
    for (file, plan) in files.iter().zip(plans) {
        std::fs::write(file, serde_json::to_string(&plan).expect("JSON")).expect("a file");
    }
    let socket = folder.join("node.sock");
    let node = if kind == Server { SERVER } else { SWITCH };
    let mut command = Command::new(env!("CARGO_BIN_EXE_wiresum-node"));
    command.args(["--node", &node.to_string(), "--plan"]).arg(&files[0]);
    for part in option {
        match *part {
            "SOCKET" => command.arg(&socket),
            "SECOND" => command.arg(&files[1]),
            "JOB=80mbit" => command.arg("1=80mbit"),
            other => command.arg(other),
        };
    }
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a process");
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut ready = String::new();
    output.read_line(&mut ready).expect("text");
    if ready.is_empty() {
        let ended = child.wait_with_output().expect("an end");
        return Err(String::from_utf8_lossy(&ended.stderr).into_owned());
    }
    let listen = ready.split("listen=").nth(1).and_then(|rest| rest.split(' ').next());
    let listen = listen.unwrap_or_else(|| panic!("{ready}")).to_owned();
    Ok(Daemon { child, output, listen, socket })
}

#[test]
fn every_option_works_or_is_refused() {
    for kind in KINDS {
        let plans = plans(kind);
        for (number, row) in ROWS.iter().enumerate() {
            let name = format!("wiresum-{}-{kind:?}-{number}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            std::fs::create_dir_all(&folder).expect("a folder");
            let started = start(kind, &plans, row.option, &folder);
            let cell = format!("{} at {kind:?}", row.option.join(" "));
            match ((row.at)(kind), started) {
                (Works(is_so), Ok(mut daemon)) => is_so(&mut daemon),
                (Bounds(words), Err(said)) => assert!(said.contains(words), "{cell}: {said}"),
                (Refused(why), Err(said)) => {
                    assert!(said.contains("leave --") && said.contains(why), "{cell}: {said}");
                }
                (Works(_), Err(said)) => panic!("{cell}: {said}"),
                (Bounds(_) | Refused(_), Ok(_)) => panic!("{cell}: ignored"),
            }
            let _ = std::fs::remove_dir_all(&folder);
        }
    }
}

#[test]
fn every_option_is_in_the_table() {
    let help = Command::new(env!("CARGO_BIN_EXE_wiresum-node")).arg("--help").output();
    let help = String::from_utf8(help.expect("an end").stdout).expect("text");
    let named = help.lines().filter_map(|line| {
        let line = line.trim_start();
        let line = line.split_once(", --").map_or(line.to_owned(), |(_, rest)| format!("--{rest}"));
        let name = line.split([' ', '[', ',', '.', ')']).next()?.to_owned();
        name.starts_with("--").then_some(name)
    });
    let known: Vec<&str> =
        ROWS.iter().flat_map(|row| row.option).copied().chain(ELSEWHERE).collect();
    let named: Vec<String> = named.collect();
    assert!(named.len() > ELSEWHERE.len(), "{help}");
    for name in named {
        assert!(known.contains(&name.as_str()), "{name} is in no row");
    }
}
