//! The command line.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use wiresum_node::service::{
    JobQuota, Limits, MAX_JOBS, parse_rate, parse_size, read_document, usual_memory,
};
use wiresum_protocol::Plan;
use wiresum_protocol::plan::MAX_BPS;
use wiresum_wire::{JobId, NodeId};
use wiresum_xdp::{AttachMode, Options};

use crate::exit::{EXIT_CODES, Failure};

/// Sums the gradients of the jobs whose plans it is given, at one of their nodes: an aggregator, a switch or a parameter server.
///
/// Prints a line that begins with `ready` on stdout when it serves, logs to stderr, and prints its counters when SIGINT
/// or SIGTERM ends it. An XDP program is detached when the daemon ends, however it ends.
#[derive(Debug, Parser)]
#[command(version, after_help = EXIT_CODES)]
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
    #[arg(long, value_name = "FOLDER", requires = "tables")]
    pub snapshots: Option<PathBuf>,
    /// Seconds between snapshots [default: 30]. Workers keep what they send for so long.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, requires = "snapshots")]
    pub snapshot_interval: Option<Duration>,
    /// File with the secret of a plan, in the order of the plans [default: beside each plan, PLAN.secret].
    #[arg(long = "secret", value_name = "FILE")]
    secrets: Vec<PathBuf>,
    /// Which node of the plans this is, by its id.
    #[arg(long, value_name = "ID")]
    pub node: u16,
    /// What sums.
    #[arg(long, value_enum, default_value_t)]
    pub engine: EngineChoice,
    /// Network interface on which the XDP program runs; give one for each port that children or the parent are behind.
    #[arg(long = "interface", value_name = "IF")]
    pub interfaces: Vec<String>,
    /// Run the XDP program behind the driver: slower, but with any driver.
    #[arg(long)]
    pub generic: bool,
    /// Address to receive on, instead of the plan's address of the node.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// What the node's links bring to it, in bit/s on the wire, instead of the plan's `ingress_bps`. Rates are negotiated only
    /// where the plan has a bandwidth at some node of the tree.
    #[arg(long, value_name = "BIT/S", value_parser = clap::value_parser!(u64).range(1..=MAX_BPS))]
    pub ingress_bps: Option<u64>,
    /// What its links take from it, instead of the plan's `egress_bps`.
    #[arg(long, value_name = "BIT/S", value_parser = clap::value_parser!(u64).range(1..=MAX_BPS))]
    pub egress_bps: Option<u64>,
    /// Print the counters every so many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub stats_interval: Option<Duration>,
    /// Let jobs come and go: listen for `wiresum node` on this socket [default without a path: /run/wiresum/node-ID.sock for
    /// root, else $XDG_RUNTIME_DIR/wiresum/node-ID.sock].
    #[arg(long, value_name = "SOCKET", num_args = 0..=1)]
    control: Option<Option<PathBuf>>,
    /// Take over from the daemon that runs with this --control, with its jobs as they are and without losing a packet. Jobs,
    /// interfaces, addresses and slot memory are that one's. If this fails, that one goes on.
    #[arg(long, requires = "control")]
    pub take_over: bool,
    /// Serve metrics for Prometheus at http://ADDRESS:PORT/metrics.
    #[arg(long, value_name = "ADDRESS:PORT", requires = "control")]
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
        let read = (0..self.plans.len()).map(|index| self.read_plan(index));
        let plans = read.collect::<Result<Vec<_>, _>>()?.concat();
        for (index, plan) in plans.iter().enumerate() {
            if plans[..index].iter().any(|other| other.job.id == plan.job.id) {
                let problem = format!(
                    "two plans have the job id {}: number them, and leave numbers to the groups of each",
                    plan.job.id
                );
                return Err(Failure::Usage(problem));
            }
        }
        Ok(plans)
    }

    fn read_plan(&self, index: usize) -> Result<Vec<Plan>, Failure> {
        let path = &self.plans[index];
        let failure =
            |problem: String| Failure::Usage(format!("plan {}: {problem}", path.display()));
        let text = read_document(path).map_err(|error| failure(error.to_string()))?;
        let secret = self.read_secret(index).map_err(failure)?;
        let plan = Plan::from_json(&text).and_then(|plan| plan.with_secret(secret.as_deref()));
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
                "the secret of plan {plan} is the job's own, of which a node needs only its keys: make them with \
                 `wiresum keys {plan} --node {node}` and bring them here instead; this process keeps nothing else of it"
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
            Err(error) => Err(format!("secret {}: {error}", file.display())),
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
                "without a --plan, say where to receive: --listen ADDRESS:PORT".to_owned(),
            )),
            _ => Err(Failure::Usage(
                "the plans give this node different addresses: choose one with --listen".to_owned(),
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
                "{over_tcp} of {} plans say that packets travel over TCP, and workers do as their plan says: give all plans the \
                 same engine (`wiresum plan --engine`), and leave --engine out here",
                plans.len()
            ))
        })
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
                "without a --plan, say how much memory the jobs to come may have in the kernel: \
                        --memory 2GiB; or choose --engine udp"
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
            let problem =
                "XDG_RUNTIME_DIR is not set: name the control socket, as --control /tmp/node.sock";
            runtime.ok_or_else(|| Failure::Usage(problem.to_owned()))?
        };
        Ok(Some(folder.join(format!("wiresum/node-{}.sock", self.node))))
    }
}

fn job_rate(text: &str) -> Result<(JobId, JobQuota), String> {
    let (job, rate) = text.split_once('=').ok_or("must be a job and its rate, as 7=2gbit")?;
    let job = job.parse().map_err(|_| format!("`{job}` is not the number of a job"))?;
    let quota = JobQuota { bytes_per_second: Some(parse_rate(rate)?), ..JobQuota::default() };
    Ok((JobId(job), quota))
}

fn job_count(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=MAX_JOBS).contains(count));
    count.ok_or_else(|| format!("must be a number from 1 to {MAX_JOBS}"))
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|s| Duration::try_from_secs_f64(s).ok());
    seconds.filter(|s| !s.is_zero()).ok_or_else(|| "must be a number of seconds above 0".to_owned())
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
