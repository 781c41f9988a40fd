//! Lines of options, and files, that are wrong: one line says what, where, and what to give instead.

use std::path::PathBuf;
use std::process::Command;

mod cluster;

use cluster::{Shape, plan};
use wiresum_protocol::plan::{Lanes, Policy};

/// A folder with files as an operator has them, removed with this.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder =
            Self(std::env::temp_dir().join(format!("wiresum-usage-{name}-{}", std::process::id())));
        std::fs::create_dir_all(&folder.0).expect("a folder");
        let plan = plan(Shape::Star, 2, Lanes::Int32Le, Policy::Pool);
        let plan = serde_json::to_string(&plan).expect("JSON");
        let topology = r#"{"format": "wiresum-topology/1", "name": "star"}"#;
        let files: [(&str, &[u8]); 5] = [
            ("plan.json", plan.as_bytes()),
            ("topology.json", topology.as_bytes()),
            ("broken.json", b"{"),
            ("empty.json", b"\n"),
            ("binary.json", b"\xff\xfe\x00"),
        ];
        for (name, content) in files {
            std::fs::write(folder.0.join(name), content).expect("a file");
        }
        folder
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Lines of options, and what is said of each.
type Rows = &'static [(&'static str, &'static str)];

/// The daemon refuses each line with these words, in one line, and ends with code 2.
fn assert_refused(name: &str, rows: Rows) {
    let folder = Folder::new(name);
    for (line, says) in rows {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wiresum-node"));
        let ended = command.args(line.split_whitespace()).current_dir(&folder.0).output();
        let ended = ended.expect("an end");
        let said = String::from_utf8_lossy(&ended.stderr);
        let told: Vec<_> =
            said.lines().filter(|line| !line.contains("a node needs only its keys")).collect();
        assert_eq!(ended.status.code(), Some(2), "`{line}`: {said}");
        assert_eq!(told.len(), 1, "one line about `{line}`: {said}");
        assert!(told[0].starts_with("wiresum-node: "), "{said}");
        assert!(told[0].contains(says), "`{line}` is not told `{says}`: {said}");
        assert!(ended.stdout.is_empty(), "not ready");
    }
}

#[test]
fn options_that_are_missing_or_unknown() {
    assert_refused(
        "options",
        &[
            (
                "",
                "--node is missing: give the id that this host has among the plan's nodes; --plan",
            ),
            ("--plan plan.json", "--node is missing: give the id"),
            ("--node 0", "--plan is missing: give the file that `wiresum plan` wrote, or,"),
            ("--node 0 --control", "give the address to receive on, as --listen 10.0.0.9:5747"),
            ("--node 0 --plan plan.json --engin udp", "no option --engin: did you mean --engine?"),
            ("--node 0 --plan plan.json --zzz", "no option --zzz; `wiresum-node --help` lists all"),
            ("--node 0 plan.json", "plan.json stands without an option: write --plan plan.json"),
            ("--node 0 --node 1 --plan plan.json", "--node is given twice: give it once"),
            ("--node 0 --plan x --tables y", "--plan and --tables exclude each other"),
            ("--node 0 --plan x --snapshots y", "--plan and --snapshots exclude each other"),
            ("--node 0 --plan x --generic=1", "--generic takes no value"),
            ("--node 0 --plan x --take-over", "--control is missing: --take-over"),
            (
                "--node 0 --plan x --metrics 127.0.0.1:1",
                "--control is missing: --take-over and --metrics",
            ),
            (
                "--node 0 --tables x --snapshot-interval 1",
                "--snapshots is missing: --snapshot-interval",
            ),
        ],
    );
}

#[test]
fn values_that_are_none() {
    assert_refused(
        "values",
        &[
            ("--node 0 --plan", "--plan has no value: write --plan FILE"),
            ("--node x --plan p", "--node: `x` is no id of a node; give a number from 0 to 65535"),
            ("--node -1 --plan p", "--node: `-1` is no id"),
            (
                "--node 0 --plan p --engine zzz",
                "--engine: `zzz` is not known; give one of plan, auto, xdp",
            ),
            (
                "--node 0 --plan p --listen x",
                "--listen: `x` is no IP address with a port; write it as 10.0.0.9:5747",
            ),
            ("--node 0 --control --metrics 9100", "--metrics: `9100` is no IP address with a port"),
            (
                "--node 0 --plan p --ingress-bps 10g",
                "--ingress-bps: `10g` is no bandwidth in bit/s; give",
            ),
            ("--node 0 --plan p --egress-bps 0", "--egress-bps: `0` is no bandwidth"),
            (
                "--node 0 --plan p --stats-interval -1",
                "`-1` is no time; give a number of seconds above 0",
            ),
            ("--node 0 --plan p --memory lots", "--memory: `lots` is no size; write it as 2GiB"),
            ("--node 0 --plan p --rate fast", "--rate: `fast` is no rate; write it as 500mbit"),
            (
                "--node 0 --plan p --quota 7",
                "--quota: `7` is no job with a rate; write it as 7=2gbit",
            ),
            ("--node 0 --plan p --quota x=1gbit", "`x` is no number of a job; write 7=2gbit"),
            (
                "--node 0 --plan p --max-jobs 0",
                "--max-jobs: `0` is no number of jobs; give one from 1 to 16",
            ),
        ],
    );
}

#[test]
fn files_that_are_not_what_is_wanted() {
    assert_refused(
        "files",
        &[
            (
                "--node 0 --plan absent.json",
                "plan absent.json: cannot be read (No such file or directory); check the",
            ),
            ("--node 0 --plan .", "plan .: cannot be read (Is a directory)"),
            (
                "--node 0 --plan binary.json",
                "plan binary.json: is no text in UTF-8; check the path",
            ),
            (
                "--node 0 --plan empty.json",
                "is empty: check the path, or make a plan with `wiresum plan`",
            ),
            ("--node 0 --plan broken.json", "is not valid JSON (EOF"),
            (
                "--node 0 --plan topology.json",
                "is a wiresum-topology/1, and a wiresum-plan/2 is wanted; make a plan",
            ),
            ("--node 0 --plan plan.json --secret absent", "secret absent: cannot be read (No such"),
            (
                "--node 0 --plan plan.json --secret a --secret b",
                "more files of --secret (2) than of --plan (1)",
            ),
            ("--node 9 --plan plan.json", "plan plan.json: has no node 9; its nodes are 0 (n0)"),
            ("--node 0 --tables absent.json", "sparse job absent.json: cannot be read"),
            (
                "--node 0 --tables plan.json",
                "a wiresum-sparse-job/1 is wanted; make one with `wiresum sparse job",
            ),
            ("--node 0 --pairs plan.json", "a wiresum-keyed-job/1 is wanted; spec/keyed.md"),
        ],
    );
}

#[test]
fn a_quota_bounds_a_job_that_is_there() {
    assert_refused(
        "quotas",
        &[
            (
                "--node 0 --plan plan.json --listen 127.0.0.1:0 --quota 99=1gbit",
                "--quota: job 99 is not served from the start; give the number of a job that is (it is one of 7)",
            ),
            (
                "--node 0 --control s.sock --listen 127.0.0.1:0 --quota 99=1gbit",
                "that is (there is none)",
            ),
        ],
    );
}

#[test]
fn a_successor_without_a_daemon_is_told_to_be_one() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wiresum-node"));
    let ended =
        command.args(["--node", "0", "--control", "/nowhere/s.sock", "--take-over"]).output();
    let ended = ended.expect("an end");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("no daemon answers at the control socket /nowhere/s.sock"), "{said}");
    assert!(said.contains("start this one without --take-over"), "{said}");
}

#[test]
fn help_and_version_are_printed_as_asked() {
    for option in ["--help", "--version"] {
        let ended = Command::new(env!("CARGO_BIN_EXE_wiresum-node")).arg(option).output();
        let ended = ended.expect("an end");
        assert_eq!(ended.status.code(), Some(0));
        assert!(ended.stderr.is_empty() && !ended.stdout.is_empty(), "{ended:?}");
    }
}
