//! Sparse jobs over sockets: daemons as processes, workers as threads.

#[path = "../../xdp/tests/support/namespaces.rs"]
mod namespaces;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use namespaces::{Namespace, namespaces_work, star};
use serde_json::{Value, json};
use wiresum_netem::Rng;
use wiresum_node::tables::{ClientError, RowClient};
use wiresum_sparse::live::{Job, Renewal};
use wiresum_sparse::table::TableId;
use wiresum_testkit::capability::is_here;
use wiresum_testkit::seeds::{Replay, seed_or, times_soak};
use wiresum_xdp::XdpAggregator;

/// As often as keys can be renewed.
const OFTEN: Renewal = Renewal { rounds: 16, interval_ms: 200 };
const TIMEOUT: Duration = Duration::from_secs(60);
const ROWS: u64 = 40;
const DIM: usize = 8;
const TABLE: TableId = TableId(2);

/// Addresses that were free a moment ago.
fn addresses(count: usize) -> Vec<SocketAddr> {
    let socket = |_| UdpSocket::bind("127.0.0.1:0").expect("a port");
    let sockets: Vec<UdpSocket> = (0..count).map(socket).collect();
    sockets.iter().map(|socket| socket.local_addr().expect("bound")).collect()
}

/// A job with one table: row k is hot of tier A below 5, and of tier B below 10, until others are more popular.
fn job(workers: u32, servers: usize) -> Job {
    numbered_job(3, workers, &addresses(servers + 1))
}

/// The same with a number, at nodes of which the last one is the switch.
fn numbered_job(id: u16, workers: u32, nodes: &[SocketAddr]) -> Job {
    let servers = nodes.len() - 1;
    let hot: Vec<_> =
        (0..10).map(|key| json!([2, key, key, if key < 5 { "A" } else { "B" }])).collect();
    let job = json!({
        "format": "wiresum-sparse-job/1", "id": id, "workers": workers, "secret": "11".repeat(32),
        "servers": nodes[..servers], "switches": nodes[servers..], "packet_bytes": 300,
        "tables": [{
            "id": 2, "name": "users", "rows": {"counted": ROWS}, "dim": DIM, "seed": 1,
            "optimizer": {"name": "sgd", "lr": 1.0}, "initial": "zeros",
        }],
        "hot": {"format": "wiresum-hot-map/1", "version": 1, "dim": DIM, "positions": 10, "rows": hot},
        "tracking": {"name": "decaying", "period": 2, "per_round": 0.5},
        "memory_bytes": 1 << 20,
    });
    Job::from_json(&job.to_string()).expect("a job")
}

/// A folder with the job's file and snapshots, removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, job: &Job) -> Self {
        let folder = std::env::temp_dir().join(format!("wiresum-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("job.json"), serde_json::to_string(job).expect("JSON"))
            .expect("a file");
        Self(folder)
    }

    fn daemon(&self, node: usize) -> Daemon {
        self.daemon_with(node, &[])
    }

    fn daemon_with(&self, node: usize, more: &[&str]) -> Daemon {
        self.daemon_at(&["env"], node, more)
    }

    /// A daemon, behind words that say where it runs.
    fn daemon_at(&self, at: &[&str], node: usize, more: &[&str]) -> Daemon {
        let mut command = Command::new(at[0]);
        command.args(&at[1..]).arg(env!("CARGO_BIN_EXE_wiresum-node"));
        command.arg("--tables").arg(self.0.join("job.json")).args(["--node", &node.to_string()]);
        command.arg("--snapshots").arg(&self.0).args(["--snapshot-interval", "0.05"]);
        command.arg("--control").arg(self.socket(node)).args(more);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("a process");
        let mut ready = String::new();
        let stdout = child.stdout.as_mut().expect("a pipe");
        while !ready.ends_with('\n') {
            let mut byte = [0];
            assert_eq!(stdout.read(&mut byte).expect("a pipe"), 1, "no ready line: {ready}");
            ready.push(char::from(byte[0]));
        }
        assert!(ready.starts_with(&format!("ready node={node}")), "{ready}");
        Daemon(child)
    }
}

impl Folder {
    fn socket(&self, node: usize) -> PathBuf {
        self.0.join(format!("{node}.sock"))
    }

    /// What the control socket of a daemon answers.
    fn ask(&self, node: usize, request: &Value) -> Value {
        let mut client = UnixStream::connect(self.socket(node)).expect("the daemon is there");
        writeln!(client, "{request}").expect("it listens");
        let mut answer = String::new();
        BufReader::new(client).read_line(&mut answer).expect("an answer");
        serde_json::from_str(&answer).expect("JSON")
    }

    /// What it says about each job.
    fn jobs(&self, node: usize) -> Value {
        self.ask(node, &json!({"version": 1, "request": "status"}))["jobs"].clone()
    }

    /// What it says about the first job's tables.
    fn tables(&self, node: usize) -> Value {
        self.jobs(node)[0]["tables"].clone()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Values that float32 adds without an error, so that any order of adding is exact.
fn gradients(rank: u32, round: u32) -> BTreeMap<u64, [f32; DIM]> {
    // Everybody touches eight rows, which are others in each round, and each some more.
    let is_popular = |key: u64| (key + 2 * u64::from(round)) % ROWS < 8;
    let is_touched =
        |key: &u64| is_popular(*key) || (key * 7 + u64::from(rank + round)).is_multiple_of(3);
    let touched = (0..ROWS).filter(is_touched);
    let value = |key: u64, lane: usize| {
        let lanes = (lane as f32 * 3.0 + rank as f32) / 1024.0;
        (key as f32 - 20.0) / 64.0 + lanes + (round % 4) as f32
    };
    touched.map(|key| (key, std::array::from_fn(|lane| value(key, lane)))).collect()
}

/// A round with a rate of 1.
fn step(rows: &mut [f32], workers: u32, round: u32) {
    for (key, values) in (0..workers).flat_map(|rank| gradients(rank, round)) {
        let row = &mut rows[key as usize * DIM..][..DIM];
        row.iter_mut().zip(values).for_each(|(weight, value)| *weight -= value);
    }
}

/// What every row is after some rounds.
fn expected(workers: u32, rounds: u32) -> Vec<f32> {
    let mut rows = vec![0.0; ROWS as usize * DIM];
    (1..=rounds).for_each(|round| step(&mut rows, workers, round));
    rows
}

/// A worker's whole job: it compares all rows after each round. `begin` is asked before each round whether there is one.
fn work(job: &Arc<Job>, rank: u32, mut begin: impl FnMut(u32) -> bool) -> u64 {
    let client = RowClient::join(job, rank, 1, None, TIMEOUT, || false);
    let mut client = client.expect("welcome");
    let keys: Vec<u64> = (0..ROWS).collect();
    let mut rows = vec![0.0; keys.len() * DIM];
    let mut expected = rows.clone();
    for round in (1..).take_while(|round| begin(*round)) {
        for (key, values) in gradients(rank, round) {
            client.push(TABLE, &[key], &values).expect("a gradient");
        }
        assert_eq!(client.finish_round(), Ok(round));
        client.pull(TABLE, &keys, &mut rows).expect("rows");
        step(&mut expected, job.workers, round);
        assert_eq!(rows, expected, "rank {rank}, round {round}");
    }
    let map_version = client.statistics().into_iter().find(|(name, _)| *name == "map_version");
    map_version.expect("it is counted").1
}

/// Kills while the hot set changes: `WIRESUM_SOAK=25` makes 100 of them.
const KILLS: u64 = 4;

/// Servers are killed at any moment, the one that coordinates among them: no update is lost, and none counts twice.
#[test]
fn rows_are_exact_while_servers_are_killed() {
    let job = Arc::new(job(3, 2));
    let folder = Folder::new("kill", &job);
    let mut daemons: Vec<Daemon> = (0..3).map(|node| folder.daemon(node)).collect();
    let (begun, last) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(u32::MAX)));
    let ranks = (0..3).map(|rank| {
        let (job, begun, last) = (Arc::clone(&job), Arc::clone(&begun), Arc::clone(&last));
        std::thread::spawn(move || {
            work(&job, rank, |round| {
                begun.fetch_max(round, Ordering::SeqCst);
                // Time for snapshots.
                std::thread::sleep(Duration::from_millis(10));
                round <= last.load(Ordering::SeqCst)
            })
        })
    });
    let ranks: Vec<_> = ranks.collect();
    let wait_for = |round: u32| {
        while begun.load(Ordering::SeqCst) < round && !ranks.iter().any(|rank| rank.is_finished()) {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let seed = seed_or(1);
    let _replay = Replay { test: "-p wiresum-node --test tables", seed };
    let mut rng = Rng::new(seed);
    let mut pauses = Vec::new();
    for kill in 0..times_soak(KILLS) {
        wait_for(begun.load(Ordering::SeqCst) + 3 + rng.below(4) as u32);
        std::thread::sleep(Duration::from_millis(rng.below(20)));
        let shard = (kill % 2) as usize;
        let (killed, round) = (Instant::now(), begun.load(Ordering::SeqCst));
        daemons[shard].0.kill().expect("a living process");
        daemons[shard].0.wait().expect("an end");
        daemons[shard] = folder.daemon(shard);
        // Whoever had begun the round after has had the news of all servers before.
        wait_for(round + 2);
        pauses.push((shard, killed.elapsed().as_millis()));
    }
    println!("server killed, ms until the round after the next one: {pauses:?}");
    // Far enough ahead that nobody has begun it when it is stored.
    last.store(begun.load(Ordering::SeqCst) + 50, Ordering::SeqCst);
    let versions: Vec<u64> =
        ranks.into_iter().map(|rank| rank.join().expect("exact rows")).collect();
    let rounds = u64::from(last.load(Ordering::SeqCst));
    assert!(
        versions.iter().all(|version| *version == versions[0] && *version > rounds / 4),
        "{versions:?}"
    );
    for node in 0..2 {
        let tables = folder.tables(node);
        assert_eq!(
            (&tables["rounds"], &tables["map_version"]),
            (&json!(rounds), &json!(versions[0]))
        );
        assert!(tables["rows"] == ROWS / 2 && tables["snapshot_age_ms"].is_u64(), "{tables}");
    }
}

#[test]
fn what_is_submitted_is_done_in_order_while_the_program_goes_on() {
    const ROUNDS: u32 = 12;
    let job = Arc::new(job(3, 2));
    let folder = Folder::new("ahead", &job);
    let _daemons: Vec<Daemon> = (0..3).map(|node| folder.daemon(node)).collect();
    let submit_all = &|rank| {
        let mut client = RowClient::join(&job, rank, 1, None, TIMEOUT, || false).expect("welcome");
        let keys: Vec<u64> = (0..ROWS).collect();
        let mut asked = vec![client.ask(TABLE, &keys).expect("rows")];
        for round in 1..=ROUNDS {
            for (key, values) in gradients(rank, round) {
                client.push(TABLE, &[key], &values).expect("a gradient");
            }
            client.end_round().expect("a round");
            asked.push(client.ask(TABLE, &keys).expect("rows"));
        }
        for (round, rows) in (0..).zip(&asked) {
            assert_eq!(rows.wait(), Ok(expected(3, round)), "rank {rank}, round {round}");
            assert!(rows.is_done());
        }
        assert_eq!(client.version(), ROUNDS);
    };
    std::thread::scope(|scope| (0..3).for_each(|rank| drop(scope.spawn(move || submit_all(rank)))));
}

/// Ends after so many rounds.
fn work_for(job: &Arc<Job>, rounds: u32) {
    let ranks = (0..job.workers).map(|rank| {
        let job = Arc::clone(job);
        std::thread::spawn(move || work(&job, rank, |round| round <= rounds))
    });
    for rank in ranks.collect::<Vec<_>>() {
        rank.join().expect("exact rows");
    }
}

#[test]
fn jobs_come_and_go_at_daemons_of_tables() {
    let nodes = addresses(2);
    let jobs = [3, 4].map(|id| Arc::new(numbered_job(id, 2, &nodes)));
    let folder = Folder::new("several", &jobs[0]);
    // Rows of one job, and half of another's.
    let bytes = ROWS * DIM as u64 * 4;
    let memory = (bytes * 5 / 2).to_string();
    let _daemons = [0, 1].map(|node| folder.daemon_with(node, &["--memory", &memory]));
    let add = |node, job: &Job, quota: Value| {
        let job = serde_json::to_value(job).expect("JSON");
        folder
            .ask(node, &json!({"version": 1, "request": "add_tables", "job": job, "quota": quota}))
    };
    for node in 0..2 {
        assert_eq!(add(node, &jobs[1], json!({}))["job"], 4);
    }
    std::thread::scope(|scope| {
        for job in jobs.each_ref() {
            scope.spawn(|| work_for(job, 12));
        }
    });
    let seen = folder.jobs(0);
    for (job, id) in [(0, 3), (1, 4)] {
        assert_eq!((&seen[job]["job"], &seen[job]["tables"]["rounds"]), (&json!(id), &json!(12)));
        assert!(seen[job]["memory_bytes"].as_u64() >= Some(bytes), "{seen}");
    }
    let third = numbered_job(5, 2, &nodes);
    for (refused, says) in [
        (add(0, &third, json!({})), "job 5: it needs"),
        (add(0, &third, json!({"memory_bytes": 10})), "its quota is 10"),
        (add(0, &jobs[1], json!({})), "job 4 is served already"),
        (add(0, &numbered_job(5, 2, &addresses(2)), json!({})), "but this daemon is at"),
        (folder.ask(0, &json!({"version": 1, "request": "remove", "job": 9})), "not served here"),
    ] {
        let problem = refused["error"].as_str().expect("a refusal");
        assert!(problem.contains(says), "{problem}");
    }
    for node in 0..2 {
        let removed = folder.ask(node, &json!({"version": 1, "request": "remove", "job": 3}));
        assert_eq!(removed["ok"], true, "{removed}");
        assert_eq!(add(node, &third, json!({}))["ok"], true);
    }
    work_for(&Arc::new(third), 3);
    assert_eq!(folder.jobs(0)[0]["job"], 4);
}

#[test]
fn beyond_its_quota_a_job_is_slower_and_stays_exact() {
    let job = Arc::new(job(2, 1));
    let folder = Folder::new("quota", &job);
    let _daemons: Vec<Daemon> = (0..2).map(|node| folder.daemon(node)).collect();
    let quota = json!({"bytes_per_second": 100_000});
    for node in 0..2 {
        let order = json!({"version": 1, "request": "quota", "job": 3, "quota": quota});
        assert_eq!(folder.ask(node, &order)["ok"], true);
    }
    // More than the burst that any quota allows.
    work_for(&job, 150);
    let verdicts = folder.jobs(0)[0]["verdicts"].clone();
    assert!(verdicts["over_quota"].as_u64() > Some(0), "{verdicts}");
}

#[test]
fn wrong_calls_are_named_and_change_nothing() {
    let job = Arc::new(job(1, 1));
    let folder = Folder::new("wrong", &job);
    let _daemons: Vec<Daemon> = (0..2).map(|node| folder.daemon(node)).collect();
    let join = |rank, timeout| RowClient::join(&job, rank, 1, None, timeout, || false);
    let Err(problem) = join(1, TIMEOUT) else { panic!("there is one rank") };
    assert!(problem.to_string().contains("no rank 1: the job has 1 workers"), "{problem}");
    let mut client = join(0, TIMEOUT).expect("welcome");
    let ones = [1.0; DIM];
    for (problem, says) in [
        (client.push(TableId(9), &[0], &ones), "no table 9"),
        (client.push(TABLE, &[ROWS], &ones), "row 40 is none"),
        (client.push(TABLE, &[0], &ones[1..]), "rows of 8 values, and 7 came for 1 rows"),
        (client.push(TABLE, &[0, 1], &[[1.0; DIM], [f32::NAN; DIM]].concat()), "not finite"),
        (client.push(TABLE, &[0], &[4096.0; DIM]), "within ±4096"),
        (client.pull(TABLE, &[ROWS], &mut [0.0; DIM]), "row 40 is none"),
        (client.ask(TABLE, &[ROWS]).map(drop), "row 40 is none"),
    ] {
        let problem = problem.expect_err(says);
        assert!(problem.is_usage() && problem.to_string().contains(says), "{problem}");
    }
    client.push(TABLE, &[7, 7, 30], &[[1.0; DIM], [2.0; DIM], [4.0; DIM]].concat()).expect("rows");
    client.finish_round().expect("a round");
    let mut rows = [0.0; 3 * DIM];
    client.pull(TABLE, &[30, 0, 7], &mut rows).expect("rows");
    assert_eq!(rows.to_vec(), [[-4.0; DIM], [0.0; DIM], [-3.0; DIM]].concat());
}

#[test]
fn who_is_silent_is_named() {
    let job = Arc::new(job(2, 1));
    let short = Duration::from_millis(300);
    let Err(problem) = RowClient::join(&job, 0, 1, None, short, || false) else {
        panic!("nobody is there")
    };
    let says = format!("node 0 at {}", job.servers[0]);
    assert!(problem.to_string().contains(&says), "{problem}");
    let given_up = RowClient::join(&job, 0, 1, None, TIMEOUT, || true);
    assert_eq!(given_up.err(), Some(ClientError::Interrupted), "nobody is there");
    let folder = Folder::new("silent", &job);
    let _daemons: Vec<Daemon> = (0..2).map(|node| folder.daemon(node)).collect();
    let mut client = RowClient::join(&job, 0, 1, None, TIMEOUT, || false).expect("welcome");
    drop(client);
    client = RowClient::join(&job, 0, 2, None, Duration::from_secs(2), || false).expect("welcome");
    let problem = client.finish_round().expect_err("rank 1 is not there");
    assert!(problem.to_string().contains("another rank has not finished the round"), "{problem}");
    assert_eq!(client.finish_round(), Err(problem), "the job cannot go on");
}

#[test]
fn a_wrong_file_or_node_is_named() {
    let job = job(1, 1);
    let folder = Folder::new("file", &job);
    let run = |path: &str, node: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_wiresum-node"))
            .args(["--tables", path, "--node", node])
            .output()
            .expect("a process");
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let path = folder.0.join("job.json").display().to_string();
    assert!(run(&path, "2").contains("job.json: the job has no node 2"));
    std::fs::write(folder.0.join("no.json"), "{}").expect("a file");
    let no_format = "sparse job WRONG: cannot be read: missing field `format`";
    let wrong = folder.0.join("no.json").display().to_string();
    let said = run(&wrong, "0").replace(&wrong, "WRONG");
    assert!(said.contains(no_format), "{said}");
}

/// Rounds until keys were renewed so often: several generations, and several times.
fn work_until_renewed(job: &Arc<Job>, rank: u32, last: &AtomicU32) {
    let client = RowClient::join(job, rank, 1, None, TIMEOUT, || false);
    let mut client = client.expect("welcome");
    let keys: Vec<u64> = (0..ROWS).collect();
    let mut rows = vec![0.0; keys.len() * DIM];
    let mut expected = rows.clone();
    for round in (1..).take_while(|round| *round <= last.load(Ordering::SeqCst)) {
        for (key, values) in gradients(rank, round) {
            client.push(TABLE, &[key], &values).expect("a gradient");
        }
        assert_eq!(client.finish_round(), Ok(round));
        client.pull(TABLE, &keys, &mut rows).expect("rows");
        step(&mut expected, job.workers, round);
        assert_eq!(rows, expected, "rank {rank}, round {round}");
        // So few rounds that all sums are exact.
        std::thread::sleep(Duration::from_millis(5));
        let statistics = BTreeMap::from(client.statistics());
        if statistics["key_renewals"] >= 5 && statistics["key_generation"] >= 3 {
            // Others may have begun the next one, and nobody the one after.
            last.fetch_min(round + 2, Ordering::SeqCst);
        }
    }
}

#[test]
fn rows_are_exact_while_keys_are_renewed() {
    let job = Arc::new(Job { renewal: OFTEN, ..job(3, 2) });
    let folder = Folder::new("renewal", &job);
    let _daemons: Vec<Daemon> = (0..3).map(|node| folder.daemon(node)).collect();
    let last = AtomicU32::new(u32::MAX);
    std::thread::scope(|scope| {
        for rank in 0..3 {
            let (job, last) = (&job, &last);
            scope.spawn(move || work_until_renewed(job, rank, last));
        }
    });
    assert_eq!(folder.jobs(0)[0]["verdicts"]["refused_hellos"], 0, "{}", folder.jobs(0));
}

#[test]
fn the_kernel_adds_rows_while_keys_are_renewed() {
    if !is_here("bpf", XdpAggregator::check_support()) || !namespaces_work() {
        return;
    }
    let (at_switch, hosts) = star("rows", 97, 3);
    let nodes = ["10.97.0.1:5747", "10.97.0.254:5747"].map(|at| at.parse().expect("an address"));
    let job = Arc::new(Job { renewal: OFTEN, ..numbered_job(3, 2, &nodes) });
    let folder = Folder::new("renewal-xdp", &job);
    let inside = |namespace: &Namespace, node, more: &[&str]| {
        folder.daemon_at(&["ip", "netns", "exec", &namespace.name], node, more)
    };
    let _server = inside(&hosts[0], 0, &[]);
    let ports = ["p0", "p1", "p2"].map(|port| ["--interface", port]).concat();
    let _switch = inside(&at_switch, 1, &[&["--engine", "xdp"][..], &ports].concat());
    let last = AtomicU32::new(u32::MAX);
    std::thread::scope(|scope| {
        for (rank, host) in (0..2).zip(&hosts[1..]) {
            let (job, last) = (&job, &last);
            scope.spawn(move || host.enter(|| work_until_renewed(job, rank, last)));
        }
    });
    let seen = folder.jobs(1)[0]["verdicts"].clone();
    assert!(seen["added"].as_u64() > Some(0), "the kernel adds: {seen}");
}
