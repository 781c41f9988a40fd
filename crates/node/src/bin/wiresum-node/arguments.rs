//! The command line.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::num::NonZero;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use wiresum_node::aggregators::MAX_THREADS;
use wiresum_node::service::{
    JobQuota, Limits, MAX_JOBS, parse_rate, parse_size, read_document, usual_memory,
};
use wiresum_protocol::Plan;
use wiresum_protocol::plan::MAX_BPS;
use wiresum_wire::{JobId, NodeId};
use wiresum_xdp::{AttachMode, Options};

use crate::exit::{EXIT_CODES, Failure};
use crate::files;

/// Sums the gradients of the jobs whose plans it is given, at one of their nodes: an aggregator, a switch or a parameter server.
///
/// Prints a line that begins with `ready` on stdout when it serves, logs to stderr, and prints its counters when SIGINT
/// or SIGTERM ends it. An XDP program is detached when the daemon ends, however it ends.
#[derive(Debug, Parser)]
#[command(version, after_help = EXIT_CODES, allow_negative_numbers = true)]
pub struct Arguments {
    /// Plan of a job to serve; may be given more than once, and left out if jobs are to come later (--control, --listen, and
    /// for the engine xdp --memory).
    #[arg(long = "plan", value_name = "FILE", required_unless_present_any = ["control", "tables", "pairs"])]
    plans: Vec<PathBuf>,
    /// Sparse job to serve instead of plans, as a server of tables or as a switch that sums hot rows; may be given more than
    /// once. Nodes are the job's servers, numbered from 0, then its switches.
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "plans", "secrets", "listen", "take_over", "rate", "ingress_bps", "egress_bps",
    ])]
    pub tables: Vec<PathBuf>,
    /// Job of Zebra's program of keys and values to serve instead of plans, as its server (node 0) or as its switch (node 1).
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "plans", "tables", "secrets", "listen", "take_over", "rate", "ingress_bps", "egress_bps", "memory",
    ])]
    pub pairs: Option<PathBuf>,
    /// Folder in which servers of tables keep their last snapshots, and from which they go on when they are started again.
    #[arg(long, value_name = "FOLDER", requires = "tables", conflicts_with_all = ["plans", "pairs"])]
    pub snapshots: Option<PathBuf>,
    /// Seconds between snapshots [default: 30]. Workers keep what they send for so long.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, requires = "snapshots")]
    pub snapshot_interval: Option<Duration>,
    /// File with the secret of a plan, in the order of the plans [default: beside each plan, PLAN.secret].
    #[arg(long = "secret", value_name = "FILE")]
    secrets: Vec<PathBuf>,
    /// Which node of the plans this is, by its id.
    #[arg(long, value_name = "ID", value_parser = node_id)]
    pub node: u16,
    /// What sums.
    #[arg(long, value_enum, default_value_t)]
    pub engine: EngineChoice,
    /// Threads of the engine udp, which share the jobs [default: as many as a rank has by the plans, but no more than there
    /// are jobs or processors]. Each of a rank's threads is a job.
    #[arg(long, value_name = "NUMBER", value_parser = thread_count)]
    pub threads: Option<usize>,
    /// Network interface on which the XDP program runs; give one for each port that children or the parent are behind.
    #[arg(long = "interface", value_name = "IF")]
    pub interfaces: Vec<String>,
    /// Run the XDP program behind the driver: slower, but with any driver.
    #[arg(long)]
    pub generic: bool,
    /// Address to receive on, instead of the plan's address of the node.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    listen: Option<SocketAddr>,
    /// What the node's links bring to it, in bit/s on the wire, instead of the plan's `ingress_bps`. Rates are negotiated only
    /// where the plan has a bandwidth at some node of the tree.
    #[arg(long, value_name = "BIT/S", value_parser = bandwidth)]
    pub ingress_bps: Option<u64>,
    /// What its links take from it, instead of the plan's `egress_bps`.
    #[arg(long, value_name = "BIT/S", value_parser = bandwidth)]
    pub egress_bps: Option<u64>,
    /// Print the counters every so many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub stats_interval: Option<Duration>,
    /// Let jobs come and go: listen for `wiresum node` on this socket [default without a path: /run/wiresum/node-ID.sock for
    /// root, else $XDG_RUNTIME_DIR/wiresum/node-ID.sock].
    #[arg(long, value_name = "SOCKET", num_args = 0..=1)]
    control: Option<Option<PathBuf>>,
    /// Take over from the daemon that runs with this --control, with its jobs as they are and without losing a packet. Jobs,
    /// threads, interfaces, addresses and slot memory are that one's. If this fails, that one goes on.
    #[arg(long, requires = "control")]
    pub take_over: bool,
    /// Serve metrics for Prometheus at http://ADDRESS:PORT/metrics.
    #[arg(long, value_name = "ADDRESS:PORT", requires = "control", value_parser = address)]
    pub metrics: Option<SocketAddr>,
    /// Slot memory, or rows of tables, of all jobs: 2GiB, 64MB. The engine xdp allocates it at once [default: what the plans
    /// need; jobs that come later, and tables, may have three quarters of what is free at the start].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: Option<u64>,
    /// Bound what the children of a job of --plan send together, as 7=2gbit; once for each job.
    #[arg(long = "quota", value_name = "JOB=RATE", value_parser = job_rate)]
    pub quotas: Vec<(JobId, JobQuota)>,
    /// Most jobs.
    #[arg(long, value_name = "NUMBER", default_value_t = MAX_JOBS, value_parser = job_count)]
    max_jobs: usize,
    /// Rate that the quotas of all jobs share: 10gbit. Then each job needs a quota with a rate.
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub rate: Option<u64>,
    /// Print counters as one JSON object per line.
    #[arg(long)]
    pub json: bool,
}

/// What sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum EngineChoice {
    /// What the plan says.
    #[default]
    Plan,
    /// The kernel if possible, else user space, and say so.
    Auto,
    /// The XDP program in the kernel; needs CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON.
    Xdp,
    /// User space, past the kernel's network stack; needs those and CAP_NET_RAW.
    #[value(name = "af_xdp")]
    AfXdp,
    /// User space; needs no privileges.
    Udp,
    /// User space over TCP connections, if the plan says so.
    Tcp,
}

impl Arguments {
    /// Reads and checks every plan; those of groups follow that of their job.
    pub fn read_plans(&self) -> Result<Vec<Plan>, Failure> {
        let (plans, secrets) = (self.plans.len(), self.secrets.len());
        if secrets > plans {
            let problem = format!(
                "there are more files of --secret ({secrets}) than of --plan ({plans}): give one for each plan, in the \
                 same order"
            );
            return Err(Failure::Usage(problem));
        }
        let read = (0..self.plans.len()).map(|index| self.read_plan(index));
        let plans = read.collect::<Result<Vec<_>, _>>()?.concat();
        for (index, plan) in plans.iter().enumerate() {
            if plans[..index].iter().any(|other| other.job.id == plan.job.id) {
                let problem = format!(
                    "two plans have the job id {0}: give each job an id of its own (`wiresum plan --job`); groups of a \
                     job have the ids that follow its own",
                    plan.job.id
                );
                return Err(Failure::Usage(problem));
            }
        }
        Ok(plans)
    }

    fn read_plan(&self, index: usize) -> Result<Vec<Plan>, Failure> {
        let path = &self.plans[index];
        let failure = |problem: String| files::PLAN.failure(path, problem);
        let text = files::PLAN.read(path)?;
        let plan = Plan::from_json(&text);
        let plan = plan.map_err(|error| files::PLAN.refused(path, &text, error))?;
        let secret = self.read_secret(index).map_err(failure)?;
        let plan = plan.with_secret(secret.as_deref());
        let plan = plan.map_err(|error| failure(error.to_string()))?;
        wiresum_node::tensor::Formats::new(&plan).map_err(|error| failure(error.to_string()))?;
        if plan.node(NodeId(self.node)).is_none() {
            let known = plan.nodes.iter().map(|n| format!("{} ({})", n.id, n.name));
            let known = known.collect::<Vec<_>>().join(", ");
            return Err(failure(format!("has no node {}; its nodes are {known}", self.node)));
        }
        if plan.has_secret() {
            let (plan, node) = (path.display(), self.node);
            crate::log(&format!(
                "plan {plan} came with the secret of the whole job, and a node needs only its keys: make these with \
                 `wiresum keys {plan} --node {node}`, and put them here in the secret's place; this process keeps \
                 nothing else of the secret"
            ));
        }
        let node = NodeId(self.node);
        let held = plan.held_by(node).and_then(|plan| plan.with_groups_at(node));
        held.map_err(|error| failure(error.to_string()))
    }

    /// The secret of a plan: from the file that is named for it, which must be there, or from the one beside the plan.
    fn read_secret(&self, index: usize) -> Result<Option<String>, String> {
        let named = self.secrets.get(index);
        let file = named.cloned().unwrap_or_else(|| {
            let mut beside = self.plans[index].clone().into_os_string();
            beside.push(".secret");
            beside.into()
        });
        match read_document(&file) {
            Ok(secret) => Ok(Some(secret)),
            Err(error) if named.is_none() && error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("secret {}: {}", file.display(), files::unreadable(&error))),
        }
    }

    /// Where to receive: jobs share one socket, so their plans have to agree.
    pub fn address(&self, plans: &[Plan]) -> Result<SocketAddr, Failure> {
        let mut planned = plans.iter().filter_map(|p| p.node(NodeId(self.node))).map(|n| n.address);
        let first = planned.next();
        match (self.listen, first) {
            (Some(listen), _) => Ok(listen),
            (None, Some(first)) if planned.all(|address| address == first) => Ok(first),
            (None, None) => Err(Failure::Usage(
                "--plan and --listen are missing: without a plan, give the address to receive on, as --listen \
                 10.0.0.9:5747"
                    .to_owned(),
            )),
            _ => Err(Failure::Usage(
                "the plans give this node different addresses: choose one with --listen ADDRESS:PORT"
                    .to_owned(),
            )),
        }
    }

    /// Whether packets come over connections. Children learn from the plan what carries theirs, so the daemon cannot choose.
    pub fn is_over_tcp(&self, plans: &[Plan]) -> Result<bool, Failure> {
        let over_tcp = plans.iter().filter(|plan| plan.is_over_tcp()).count();
        let (all, none) = (over_tcp > 0 && over_tcp == plans.len(), over_tcp == 0);
        match self.engine {
            EngineChoice::Plan | EngineChoice::Auto | EngineChoice::Tcp if all => Ok(true),
            EngineChoice::Tcp => Err(()),
            _ if none => Ok(false),
            _ => Err(()),
        }
        .map_err(|()| {
            Failure::Usage(format!(
                "{over_tcp} of {} plans have the engine tcp, and workers send as their plan says: leave --engine out here, \
                 and make all plans with the same `wiresum plan --engine`",
                plans.len()
            ))
        })
    }

    /// Jobs that are bounded have to be there: a quota of another one would bound nothing.
    pub fn require_jobs_of_quotas(&self, jobs: &[JobId]) -> Result<(), Failure> {
        let Some((absent, _)) = self.quotas.iter().find(|(job, _)| !jobs.contains(job)) else {
            return Ok(());
        };
        let known = jobs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let known = if known.is_empty() {
            "there is none".to_owned()
        } else {
            format!("it is one of {known}")
        };
        Err(Failure::Usage(format!(
            "--quota: job {absent} is not served from the start; give the number of a job that is ({known})"
        )))
    }

    /// The engines that run a program on interfaces have to be told on which.
    pub fn require_interfaces(&self, engine: &str) -> Result<(), Failure> {
        if self.interfaces.is_empty() {
            return Err(Failure::Usage(format!(
                "the engine `{engine}` needs --interface IF for each port that children or the parent are behind; \
                 or choose --engine udp"
            )));
        }
        Ok(())
    }

    /// The kernel allocates slots once: without a plan nothing says how many.
    pub fn require_room(&self, plans: &[Plan]) -> Result<(), String> {
        if plans.is_empty() && self.memory.is_none() {
            return Err(
                "--plan and --memory are missing: without a plan, give the memory that the jobs to come share in the \
                 kernel, as --memory 2GiB, or choose --engine udp"
                    .to_owned(),
            );
        }
        Ok(())
    }

    pub fn xdp_options(&self) -> Options {
        let mode = if self.generic { AttachMode::Generic } else { AttachMode::Native };
        Options { mode, memory: self.memory.map(|bytes| bytes as usize), ..Options::default() }
    }

    /// What the daemon takes on.
    pub fn limits(&self) -> Limits {
        let memory_bytes = self.memory.or_else(usual_memory);
        Limits { jobs: self.max_jobs, memory_bytes, bytes_per_second: self.rate }
    }

    /// Threads that are to share the jobs. More than there are jobs have nothing to do, unless jobs may come.
    pub fn thread_count(&self, plans: &[Plan]) -> usize {
        let processors = || std::thread::available_parallelism().map_or(1, NonZero::get);
        let of_rank = plans.iter().map(|plan| usize::from(plan.job.threads)).max().unwrap_or(1);
        let wanted = self.threads.unwrap_or_else(|| of_rank.min(processors()));
        let useful = if self.control.is_some() { MAX_THREADS } else { plans.len() };
        wanted.min(useful).max(1)
    }

    /// Where plans that come later have to put this node: where the first ones do, unless --listen overrides them all.
    pub fn planned_address(&self, address: SocketAddr) -> Option<SocketAddr> {
        self.listen.is_none().then_some(address)
    }

    /// The control socket, if there is to be one.
    pub fn control_path(&self) -> Result<Option<PathBuf>, Failure> {
        let Some(given) = &self.control else { return Ok(None) };
        if given.is_some() {
            return Ok(given.clone());
        }
        let folder = if rustix::process::geteuid().is_root() {
            PathBuf::from("/run")
        } else {
            let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
            let problem = "--control has no default path, as XDG_RUNTIME_DIR is not set; \
                           write one, as --control /tmp/node.sock";
            runtime.ok_or_else(|| Failure::Usage(problem.to_owned()))?
        };
        Ok(Some(folder.join(format!("wiresum/node-{}.sock", self.node))))
    }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!(
            "`{text}` is no IP address with a port; write it as 10.0.0.9:5747, or [fd00::9]:5747"
        )
    })
}

fn node_id(text: &str) -> Result<u16, String> {
    let problem =
        "is no id of a node; give a number from 0 to 65535, as `wiresum explain PLAN` lists them";
    text.parse().map_err(|_| format!("`{text}` {problem}"))
}

fn bandwidth(text: &str) -> Result<u64, String> {
    let bps = text.parse().ok().filter(|bps| (1..=MAX_BPS).contains(bps));
    let problem = "is no bandwidth in bit/s; give a whole number, as 10000000000 for 10 Gbit/s";
    bps.ok_or_else(|| format!("`{text}` {problem}"))
}

fn job_rate(text: &str) -> Result<(JobId, JobQuota), String> {
    let problem = "is no job with a rate; write it as 7=2gbit";
    let (job, rate) = text.split_once('=').ok_or_else(|| format!("`{text}` {problem}"))?;
    let job = job.parse().map_err(|_| format!("`{job}` is no number of a job; write 7=2gbit"))?;
    let quota = JobQuota { bytes_per_second: Some(parse_rate(rate)?), ..JobQuota::default() };
    Ok((JobId(job), quota))
}

fn job_count(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=MAX_JOBS).contains(count));
    count.ok_or_else(|| format!("`{text}` is no number of jobs; give one from 1 to {MAX_JOBS}"))
}

fn thread_count(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=MAX_THREADS).contains(count));
    count.ok_or_else(|| {
        format!("`{text}` is no number of threads; give one from 1 to {MAX_THREADS}")
    })
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|s| Duration::try_from_secs_f64(s).ok());
    let seconds = seconds.filter(|s| !s.is_zero());
    seconds.ok_or_else(|| format!("`{text}` is no time; give a number of seconds above 0"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::Arguments;

    fn control_path(more: &[&str]) -> Option<String> {
        let line = ["wiresum-node", "--node", "3", "--plan", "plan.json"];
        let arguments = Arguments::try_parse_from(line.iter().chain(more)).expect("options");
        match arguments.control_path() {
            Ok(path) => path.map(|path| path.display().to_string()),
            Err(failure) => Some(failure.to_string()),
        }
    }

    #[test]
    fn the_control_socket_may_be_named_or_not() {
        assert_eq!(control_path(&[]), None);
        assert_eq!(control_path(&["--control", "/tmp/a.sock"]).as_deref(), Some("/tmp/a.sock"));
        let by_default = control_path(&["--control"]).expect("a socket");
        let is_known =
            by_default.ends_with("wiresum/node-3.sock") || by_default.contains("XDG_RUNTIME_DIR");
        assert!(is_known, "{by_default}");
    }
}
