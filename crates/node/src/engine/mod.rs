//! The worker's engine: one thread that owns a [`wiresum_worker::Session`] and its transport.
//!
//! Collectives are submitted from any thread; completions are called from the engine's thread in order of submission,
//! but those of shares, which need not wait for earlier collectives.
//! The thread sleeps in `poll` until a datagram, a command or the protocol's next deadline; it never spins.

mod driver;
mod statistics;
#[doc(hidden)]
pub mod transport;
mod wake;

use std::io::Write;
use std::net::SocketAddr;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::mpsc::{self, SendError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use thiserror::Error;
use wiresum_codec::{Element, ElementType, FormatError, Operation};
use wiresum_protocol::{Plan, Time};
use wiresum_wire::control::Absent;
use wiresum_worker::kind::{Kind, MAX_ROOTS, View};
use wiresum_worker::{Collective, Failure, Members, Participation, Session, largest_share};

use crate::clock::Clock;
use crate::tensor::{Encoding, Formats, sink, source};
use driver::Driver;
pub use statistics::Statistics;
use transport::{Preference, Transport};
pub(crate) use wake::Wake;

/// Time to join if the caller does not say: enough for a cluster's slowest host to start.
pub const DEFAULT_JOIN_TIMEOUT: Duration = Duration::from_secs(30);

/// What [`Engine::join`] can be told beyond the plan.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Address to bind; by default the plan's address of this worker and a port that the kernel chooses.
    pub bind: Option<SocketAddr>,
    /// How long to wait until every parent has welcomed this worker.
    pub timeout: Duration,
    /// Begin with a shut gate, which opens by itself after this time. Then [`Engine::join`] does not wait: the worker
    /// joins when the gate opens, and if it cannot, its collectives fail.
    pub shut_for: Option<Duration>,
    /// What packets travel by, where plan and host leave a choice.
    pub transport: Preference,
    /// Tell nodes that this worker is alive, and have it taken for dead after this time without a word: see
    /// [`Session::keep_alive`]. Without it only deadlines find a worker that is gone.
    pub dead_after: Option<Duration>,
    /// Say of a node that is silent for this long while a collective waits for it that it is gone: see
    /// [`Engine::gone`] and [`Session::watch_nodes`].
    pub gone_after: Option<Duration>,
    /// Workers that the incarnation goes on without, as all others say, too: see [`Session::without`].
    pub absent: Absent,
    /// Who joins, where it is not all workers of the plan, each as the rank that it is among them: see
    /// [`Session::of_members`]. It goes without `absent`.
    pub members: Option<Members>,
    /// A lost worker ends no collective: see [`Engine::lost`] and [`Session::outlive_workers`].
    pub outlives_workers: bool,
}

impl Default for Options {
    fn default() -> Self {
        let transport = Preference::default();
        let timeout = DEFAULT_JOIN_TIMEOUT;
        Self {
            bind: None,
            timeout,
            shut_for: None,
            transport,
            dead_after: None,
            gone_after: None,
            absent: Absent::default(),
            members: None,
            outlives_workers: false,
        }
    }
}

/// Why a worker is not part of its job.
#[derive(Debug, Error)]
pub enum JoinError {
    /// The plan has no such worker.
    #[error("rank {rank} is not in the plan, which has {workers} workers")]
    Rank {
        /// Rank asked for.
        rank: u32,
        /// Workers in the plan.
        workers: usize,
    },
    /// The plan's lanes and codec cannot carry its workers' values.
    #[error("plan field `job`: {0}")]
    Format(#[from] FormatError),
    /// The job cannot go on without these workers.
    #[error("the job cannot go on without ranks {absent:?}: {problem}")]
    Absent {
        /// Their ranks.
        absent: Vec<u32>,
        /// Why not.
        problem: &'static str,
    },
    /// The job has not these seats, or not for these members.
    #[error("the job cannot be that of the members with seats {seats:?}: {problem}")]
    Members {
        /// Their seats, by rank.
        seats: Vec<u32>,
        /// Why not.
        problem: &'static str,
    },
    /// The sums are sealed from whom these keys are for.
    #[error(
        "these are the keys of a node, which cannot open sealed sums: give this rank the job's secret"
    )]
    Keys,
    /// This worker's nodes cannot be reached through one socket.
    #[error(
        "the nodes that rank {0} sends to have both IPv4 and IPv6 addresses: use one family in the plan"
    )]
    MixedFamilies(u32),
    /// The address is not this host's, or its port is taken.
    #[error(
        "cannot bind {address}: {source}; is workers[{rank}].address of the plan an address of this host?"
    )]
    Bind {
        /// Address asked for.
        address: SocketAddr,
        /// Rank whose address it is.
        rank: u32,
        /// What the kernel says.
        source: std::io::Error,
    },
    /// The process has no thread or descriptor left.
    #[error("cannot start the engine's thread: {0}")]
    Start(#[source] std::io::Error),
    /// No node, or a refusal.
    #[error("{failure}{remark}")]
    Protocol {
        /// What the protocol says.
        failure: Failure,
        /// What the socket has to add.
        remark: String,
    },
}

/// Whether a worker may join an incarnation without these.
fn check_absent(plan: &Plan, rank: u32, absent: Absent) -> Result<(), JoinError> {
    let has = |other| (other as usize) < plan.workers.len();
    let problem = if absent.holds(rank) {
        "this worker is one of them"
    } else if !absent.ranks().all(has) {
        "the plan has no such worker"
    } else if plan.fabric.is_some() {
        "switches wait for every worker; plan servers in their place"
    } else {
        return Ok(());
    };
    Err(JoinError::Absent { absent: absent.ranks().collect(), problem })
}

/// Whether the workers of these seats may join alone.
fn check_members(plan: &Plan, seat: u32, options: &Options) -> Result<(), JoinError> {
    let Some(members) = options.members else { return Ok(()) };
    let has = |seat| (seat as usize) < plan.workers.len();
    let problem = if !members.seats().all(has) {
        "the plan has no such worker"
    } else if !members.seats().any(|other| other == seat) {
        "this worker's seat is none of them"
    } else if !options.absent.is_empty() {
        "who is no member is not absent either"
    } else if plan.job.rounds.is_some() {
        "rounds that go on without late workers count those of the plan"
    } else if plan.fabric.is_some() && members.ranks() as usize != plan.workers.len() {
        "switches wait for every worker; plan servers in their place"
    } else {
        return Ok(());
    };
    Err(JoinError::Members { seats: members.seats().collect(), problem })
}

/// Why a collective did not end in a sum.
#[derive(Clone, Debug, Error)]
pub enum CollectiveError {
    /// A failure of the protocol: see [`Failure`] for which of them end the job.
    #[error("{failure}{remark}")]
    Protocol {
        /// What the protocol says.
        failure: Failure,
        /// What the socket has to add.
        remark: String,
    },
    /// The engine's thread has ended.
    #[error("the engine is closed")]
    Closed,
    /// The engine's thread has ended because of an error of the operating system, or a defect.
    #[error("the engine has stopped: {0}")]
    Stopped(String),
}

/// Receives the outcome of a collective on the engine's thread; must not block.
pub type Done = Box<dyn FnOnce(Result<Participation, CollectiveError>) + Send>;

/// A collective on its way to the engine.
struct Submission {
    collective: Collective,
    deadline: Time,
    completion: Completion,
}

/// Calls [`Done`] exactly once, come what may: if the engine's thread ends first, with [`CollectiveError::Closed`].
struct Completion(Option<Done>);

impl Completion {
    fn finish(mut self, outcome: Result<Participation, CollectiveError>) {
        if let Some(done) = self.0.take() {
            done(outcome);
        }
    }

    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        if let Some(done) = self.0.take() {
            done(Err(CollectiveError::Closed));
        }
    }
}

enum Command {
    Collect(Submission),
    Await(u32),
    Shut(Duration),
    Open(Option<u64>),
    Stop { why: String, elsewhere: bool },
    Report(Sender<Statistics>),
    Leave,
}

/// A worker that has joined its job.
pub struct Engine {
    clock: Clock,
    wake: Wake,
    commands: Sender<Command>,
    thread: Mutex<Thread>,
    local_address: SocketAddr,
    said: String,
    /// This worker's among those who have joined, and how many these are.
    rank: usize,
    ranks: usize,
    formats: Formats,
    has_exchanges: bool,
    largest_share: Option<usize>,
    gone: Gone,
    lost: Lost,
    /// No rank is absent.
    has_all: bool,
}

/// The failure that a node causes which is gone, in words; the engine's thread writes it.
type Gone = Arc<OnceLock<String>>;
/// The rank of a worker that is lost, and what has become of it, in words; the engine's thread writes it.
type Lost = Arc<OnceLock<(u32, String)>>;

/// The engine's thread, or what it left behind.
enum Thread {
    Running(JoinHandle<Statistics>),
    Ended(Box<Statistics>),
}

impl Engine {
    /// Joins the plan's job as `rank` and returns once every parent has welcomed it, or at once with a shut gate.
    ///
    /// # Errors
    /// [`JoinError`], at the latest after `options.timeout`.
    pub fn join(
        plan: &Plan,
        rank: u32,
        incarnation: u64,
        options: Options,
    ) -> Result<Self, JoinError> {
        check_members(plan, rank, &options)?;
        let mut formats = Formats::new(plan)?;
        if plan.job.sealed && plan.keys().node().is_some() {
            return Err(JoinError::Keys);
        }
        let transport = Transport::bind(plan, rank, options.bind, options.transport)?;
        let local_address = transport.local_address().map_err(JoinError::Start)?;
        let said = transport.said().to_owned();
        let (clock, wake) = (Clock::default(), Wake::new().map_err(JoinError::Start)?);
        let (commands, inbox) = mpsc::channel();
        let (joined, when_joined) = mpsc::channel();
        let mut worker = Session::new(plan, rank, incarnation);
        if !options.absent.is_empty() {
            check_absent(plan, rank, options.absent)?;
            worker = worker.without(options.absent);
        }
        if let Some(members) = options.members {
            worker = worker.of_members(members);
            formats = formats.of_group(members.ranks());
        }
        if options.outlives_workers {
            worker.outlive_workers();
        }
        let now = clock.now();
        options.shut_for.iter().for_each(|period| worker.shut(now.plus(*period), now));
        options.dead_after.iter().for_each(|after| worker.keep_alive(*after, now));
        options.gone_after.iter().for_each(|after| worker.watch_nodes(*after, now));
        worker.join(now.plus(options.timeout), now);
        let joined = options.shut_for.is_none().then_some(joined);
        let waits = joined.is_some();
        let (gone, lost) = (Gone::default(), Lost::default());
        let driver = Driver::new(worker, transport, clock, inbox, wake.clone(), joined)
            .telling(Arc::clone(&gone), Arc::clone(&lost));
        let thread = std::thread::Builder::new()
            .name(format!("wiresum-{rank}"))
            .spawn(move || driver.run())
            .map_err(JoinError::Start)?;
        let thread = Mutex::new(Thread::Running(thread));
        let has_exchanges = plan.exchanged().is_some();
        // Behind a gate a share would wait for its turn, and Gloo does not.
        let largest_share = largest_share(plan).filter(|_| options.shut_for.is_none());
        let engine = Self {
            clock,
            wake,
            commands,
            thread,
            local_address,
            said,
            rank: options
                .members
                .and_then(|members| members.rank_of(rank as usize))
                .unwrap_or(rank as usize),
            ranks: options.members.map_or(plan.workers.len(), |members| members.ranks() as usize),
            formats,
            has_exchanges,
            largest_share,
            gone,
            lost,
            has_all: options.absent.is_empty(),
        };
        // The protocol bounds the wait; a thread that dies drops the sender.
        let stopped = |_| JoinError::Start(std::io::Error::other("the engine's thread ended"));
        if waits {
            when_joined.recv().map_err(stopped)??;
        }
        Ok(engine)
    }

    /// Where this worker receives.
    #[must_use]
    pub fn local_address(&self) -> SocketAddr {
        self.local_address
    }

    /// What packets travel by, and why, for people.
    #[must_use]
    pub fn transport(&self) -> &str {
        &self.said
    }

    /// Elements of a collective whose results this worker takes; `None` if the root is not a rank of the job.
    #[must_use]
    pub fn part(&self, kind: Kind, root: u32, elements: usize) -> Option<Range<usize>> {
        let (rank, ranks) = (self.rank, self.ranks);
        let is_rank = (root as usize) < ranks.min(MAX_ROOTS as usize);
        let root = root as usize;
        is_rank.then(|| kind.part(View { rank, ranks, root, elements }))
    }

    /// What collectives wait for in vain: a node that is gone, in words, once there is one.
    #[must_use]
    pub fn gone(&self) -> Option<&str> {
        self.gone.get().map(String::as_str)
    }

    /// The rank of a worker that is lost, and what has become of it, once there is one. Collectives end with that, unless
    /// [`Options::outlives_workers`] has them wait in vain.
    #[must_use]
    pub fn lost(&self) -> Option<(u32, &str)> {
        self.lost.get().map(|(rank, why)| (*rank, why.as_str()))
    }

    /// Whether the plan has streams, or room, for so many elements of a collective of this kind.
    #[must_use]
    pub fn carries(&self, kind: Kind, elements: usize) -> bool {
        if kind.is_share() {
            return self.largest_share.is_some_and(|most| elements <= most);
        }
        // Nobody gives an absent rank's share.
        self.has_exchanges && (kind != Kind::AllGather || self.has_all) || !kind.is_copy()
    }

    /// Most bytes of a rank's [share](Kind::is_share) of a collective; `None` where there are none.
    #[must_use]
    pub fn largest_share(&self) -> Option<usize> {
        self.largest_share
    }

    /// Where the source lies in the sink of a collective in place that takes more than the source has.
    pub(crate) fn own_in_sink(&self, kind: Kind, elements: usize) -> usize {
        if kind == Kind::AllGather { self.rank * elements } else { 0 }
    }

    /// How elements of this type become lanes.
    #[must_use]
    pub fn encoding(&self, element: ElementType, operation: Operation) -> Encoding {
        self.formats.encoding(element, operation)
    }

    /// Queues a collective that the plan [carries](Self::carries) and returns at once; `done` follows when it
    /// has ended, `timeout` from now at the latest.
    ///
    /// # Errors
    /// [`CollectiveError::Closed`] if the engine has ended; then `done` is not called.
    pub fn submit(
        &self,
        collective: Collective,
        timeout: Duration,
        done: Done,
    ) -> Result<(), CollectiveError> {
        let deadline = self.clock.now().plus(timeout);
        let submission = Submission { collective, deadline, completion: Completion(Some(done)) };
        if let Err(SendError(command)) = self.commands.send(Command::Collect(submission)) {
            if let Command::Collect(submission) = command {
                submission.completion.disarm();
            }
            return Err(CollectiveError::Closed);
        }
        self.wake.wake();
        Ok(())
    }

    /// Sums `values` in place with those of all other ranks, and waits for it. Who took part: everyone, unless the
    /// plan lets rounds go on without late workers.
    ///
    /// # Errors
    /// [`CollectiveError`], at the latest after `timeout`.
    pub fn all_reduce<T: Element>(
        &self,
        values: &mut [T],
        operation: Operation,
        timeout: Duration,
    ) -> Result<Participation, CollectiveError> {
        let (data, len) = (NonNull::from(&mut *values).cast(), values.len());
        let encoding = self.encoding(T::TYPE, operation);
        // SAFETY: the values are borrowed until the engine has dropped both, which `collect` waits for.
        let (source, sink) = unsafe { (source(data, len, encoding), sink(data, len, encoding)) };
        self.collect(Collective::all_reduce(source, sink), timeout)
    }

    /// Takes part in a collective, and waits for its end.
    ///
    /// # Errors
    /// [`CollectiveError`], at the latest after `timeout`.
    pub fn collect(
        &self,
        collective: Collective,
        timeout: Duration,
    ) -> Result<Participation, CollectiveError> {
        let (ended, when_ended) = mpsc::channel();
        let done = move |outcome| {
            let _ = ended.send(outcome);
        };
        self.submit(collective, timeout, Box::new(done))?;
        when_ended.recv().unwrap_or(Err(CollectiveError::Closed))
    }

    /// From now on rounds take this many of the children of this worker's node, at least. Nothing happens where the plan says that they
    /// take everyone, or after the end.
    pub fn await_children(&self, k: u32) {
        if self.commands.send(Command::Await(k)).is_ok() {
            self.wake.wake();
        }
    }

    /// From now on nothing is sent, for this long or until [`Self::open`]. What is on its way arrives.
    pub fn shut(&self, period: Duration) {
        if self.commands.send(Command::Shut(period)).is_ok() {
            self.wake.wake();
        }
    }

    /// From now on it is sent, at this rate in bit/s on the cable, or as fast as windows allow.
    pub fn open(&self, rate_bps: Option<u64>) {
        if self.commands.send(Command::Open(rate_bps)).is_ok() {
            self.wake.wake();
        }
    }

    /// Ends the job: open collectives and later ones fail, and this is why. With `elsewhere` every rank is told alike
    /// that others than the network have to sum; see [`Session::stop`].
    pub fn stop(&self, why: String, elsewhere: bool) {
        if self.commands.send(Command::Stop { why, elsewhere }).is_ok() {
            self.wake.wake();
        }
    }

    /// What the engine has done so far; after [`Self::close`], what it had done by then.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let (reply, replied) = mpsc::channel();
        if self.commands.send(Command::Report(reply)).is_ok() {
            self.wake.wake();
        }
        replied.recv().unwrap_or_else(|_| self.ended())
    }

    /// Leaves the job and ends the thread. Open collectives fail. Harmless when repeated.
    pub fn close(&self) {
        let _ = self.commands.send(Command::Leave);
        self.wake.wake();
        self.ended();
    }

    /// Waits for the thread's end.
    fn ended(&self) -> Statistics {
        let mut thread = self.lock_thread();
        let before = std::mem::replace(&mut *thread, Thread::Ended(Box::default()));
        let statistics = match before {
            // The thread turns its own panics into failed collectives; what is left of one is an empty report.
            Thread::Running(handle) => handle.join().unwrap_or_default(),
            Thread::Ended(statistics) => *statistics,
        };
        *thread = Thread::Ended(Box::new(statistics.clone()));
        statistics
    }

    fn lock_thread(&self) -> MutexGuard<'_, Thread> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.close();
    }
}

/// One line on stderr, written at once: other ranks may share the terminal.
fn log(line: &str) {
    let _ = std::io::stderr().write_all(line.as_bytes());
}
