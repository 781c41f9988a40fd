//! The worker's engine: threads that each own a [`wiresum_worker::Session`] and its transport.
//!
//! As a rule there is one. Where a plan has several for a rank, each is a worker of a job of its own, and large sums are cut
//! into parts, one for each thread. Collectives are submitted from any thread; completions are called from the engine's
//! threads, one at a time, in order of submission, but those of shares, which need not wait for earlier collectives.
//! Threads sleep in `poll` until a datagram, a command or the protocol's next deadline; they never spin.

mod channel;
mod checks;
mod completion;
mod driver;
mod errors;
mod gathering;
mod statistics;
#[doc(hidden)]
pub mod transport;
mod wake;
mod whole;

use std::io::Write;
use std::net::SocketAddr;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use wiresum_codec::{Element, ElementType, Operation};
use wiresum_protocol::Plan;
use wiresum_wire::control::Absent;
use wiresum_worker::kind::{Kind, MAX_ROOTS, View};
use wiresum_worker::{Collective, Members, Participation, largest_share};

use crate::aside::Aside;
use crate::clock::Clock;
use crate::exact::{Exact, ExactOperation, ExactType};
use crate::tensor::{Elements, Encoding, Excess, Formats};
use channel::{Channel, Command, Orders, Submission};
use checks::{check_absent, check_members};
use completion::Completion;
pub use completion::{Done, Outcome};
pub use errors::{CollectiveError, JoinError};
use gathering::Gathering;
pub use statistics::{Outcomes, Statistics};
use transport::Preference;
pub(crate) use wake::Wake;
use whole::Whole;

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

/// Fewest grains in a part: with less to sum, an agreement of its own costs more than a thread saves.
const PART_GRAINS: usize = 16;

/// A worker that has joined its job.
pub struct Engine {
    /// At least one.
    channels: Vec<Channel>,
    /// What is said to each of them.
    orders: Arc<[Orders]>,
    /// The thread of the next collective that is not cut for all of them. It is locked while one is submitted, as every
    /// thread has to get its parts in the same order.
    next: Mutex<usize>,
    gathering: Arc<Gathering>,
    clock: Clock,
    said: String,
    /// Elements of whole packets, whatever their lanes: where tensors are cut, so that cuts change no bit of a sum.
    grain: usize,
    /// This worker's among those who have joined, and how many these are.
    rank: usize,
    ranks: usize,
    formats: Formats,
    /// That of a thread.
    job: Plan,
    has_exchanges: bool,
    largest_share: Option<usize>,
    /// No rank is absent.
    has_all: bool,
}

impl Engine {
    /// Joins the plan's job as `rank` and returns once every parent has welcomed it, or at once with a shut gate; with as
    /// many threads as the plan says, each of which joins a job of its own.
    ///
    /// # Errors
    /// [`JoinError`], at the latest after `options.timeout`.
    pub fn join(
        plan: &Plan,
        rank: u32,
        incarnation: u64,
        options: Options,
    ) -> Result<Self, JoinError> {
        let formats = checked(plan, rank, &options)?;
        let clock = Clock::default();
        let start = |(thread, job): (usize, Plan)| {
            let options = Options { bind: bind(options.bind, thread), ..options };
            Channel::start(&job, rank, incarnation, &options, clock)
        };
        let jobs = plan.of_threads();
        let job = jobs[0].clone();
        let started = jobs.into_iter().enumerate().map(start).collect::<Result<Vec<_>, _>>()?;
        let (channels, joined): (Vec<_>, Vec<_>) = started.into_iter().unzip();
        let said = said(&channels);
        let seat = rank as usize;
        let members = options.members;
        // Behind a gate a share would wait for its turn, and Gloo does not.
        let largest_share = largest_share(plan).filter(|_| options.shut_for.is_none());
        let engine = Self {
            orders: channels.iter().map(|channel| channel.orders().clone()).collect(),
            channels,
            next: Mutex::default(),
            gathering: Arc::default(),
            clock,
            said,
            grain: grain(plan),
            rank: members.and_then(|members| members.rank_of(seat)).unwrap_or(seat),
            ranks: members.map_or(plan.workers.len(), |members| members.ranks() as usize),
            formats,
            job,
            has_exchanges: plan.has_exchanges(),
            largest_share,
            has_all: options.absent.is_empty(),
        };
        // The protocol bounds the wait; a thread that dies drops the sender.
        let stopped = |_| JoinError::Start(std::io::Error::other("the engine's thread ended"));
        if options.shut_for.is_none() {
            joined.iter().try_for_each(|joined| joined.recv().map_err(stopped)?)?;
        }
        Ok(engine)
    }

    /// Where this worker receives, on its first thread.
    #[must_use]
    pub fn local_address(&self) -> SocketAddr {
        self.channels[0].local_address()
    }

    /// What packets travel by, and why, for people.
    #[must_use]
    pub fn transport(&self) -> &str {
        &self.said
    }

    /// Number of threads.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.channels.len()
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
        self.channels.iter().find_map(Channel::gone)
    }

    /// The rank of a worker that is lost, and what has become of it, once there is one. Collectives end with that, unless
    /// [`Options::outlives_workers`] has them wait in vain.
    #[must_use]
    pub fn lost(&self) -> Option<(u32, &str)> {
        self.channels.iter().find_map(Channel::lost)
    }

    /// Whether the plan has streams, or room, for so many elements of a collective of this kind.
    #[must_use]
    pub fn carries(&self, kind: Kind, elements: usize) -> bool {
        if kind.is_share() {
            return self.largest_share.is_some_and(|most| elements <= most);
        }
        self.has_exchanges && (!kind.needs_all() || self.has_all) || !kind.is_copy()
    }

    /// Most bytes of a rank's [share](Kind::is_share) of a collective; `None` where there are none.
    #[must_use]
    pub fn largest_share(&self) -> Option<usize> {
        self.largest_share
    }

    /// Where the source lies in the sink of a collective in place that takes more than the source has.
    pub(crate) fn own_in_sink(&self, kind: Kind, elements: usize) -> usize {
        if matches!(kind, Kind::AllGather | Kind::Gather) { self.rank * elements } else { 0 }
    }

    /// Whether this rank's source is looked at: of a scatter it is the root's alone.
    pub(crate) fn gives(&self, kind: Kind, root: u32) -> bool {
        kind != Kind::Scatter || root as usize == self.rank
    }

    /// How elements of this type become lanes.
    #[must_use]
    pub fn encoding(&self, element: ElementType, operation: Operation) -> Encoding {
        self.formats.encoding(element, operation)
    }

    /// How elements of this type become numbers of 8 bits; `None` where the plan has too many workers for that, or a
    /// codec without exponents.
    #[must_use]
    pub fn packed(
        &self,
        element: ElementType,
        operation: Operation,
        excess: Excess,
    ) -> Option<Encoding> {
        self.formats.packed(element, operation, excess).ok()
    }

    /// Bytes of the number that an element of this type becomes.
    #[must_use]
    pub fn width(&self, element: ExactType) -> usize {
        self.formats.lanes(element.width()).width()
    }

    /// How elements of this type become lanes that nodes combine without rounding, in an all-reduce; `None` where lanes are
    /// too narrow, where sums are sealed or proven, where rounds go on without late workers, and where switches sum.
    #[must_use]
    pub fn exact(&self, element: ExactType, operation: ExactOperation) -> Option<Exact> {
        let job = &self.job.job;
        let is_plain = !job.sealed && !job.proven && job.rounds.is_none();
        let is_at_servers = self.job.fabric.is_none();
        let lanes = self.formats.lanes(element.width());
        (is_plain && is_at_servers).then(|| Exact::new(element, operation, lanes)).flatten()
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
        if !collective.kind.is_share() {
            return self.submit_parts(vec![collective], None, timeout, done);
        }
        let gathering = Arc::clone(&self.gathering);
        let counted = Box::new(move |outcome| {
            gathering.count(&outcome);
            done(outcome);
        });
        self.orders[0].submit(self.submission(collective, timeout, None, counted))
    }

    /// The same for sums of a caller's elements that all ranks take, or the root, by all threads if that is worth it.
    ///
    /// # Errors
    /// [`CollectiveError::Closed`] if the engine has ended; then `done` is not called.
    pub fn submit_sum(
        &self,
        kind: Kind,
        root: u32,
        elements: Elements,
        timeout: Duration,
        done: Done,
    ) -> Result<(), CollectiveError> {
        let takes = self.part(kind, root, elements.len()).is_some_and(|part| !part.is_empty());
        let mut kept = Vec::new();
        let part = |range| {
            let part = elements.part(range, takes);
            kept.extend(part.replaced);
            Collective { kind, root, source: part.source, sink: part.sink }
        };
        let parts: Vec<_> = self.cuts(elements.len()).into_iter().map(part).collect();
        let done = undoing(kept, done);
        let is_at_risk = elements.is_at_risk() && parts.len() > 1;
        let wakes = || self.orders.iter().map(|orders| orders.wake().clone()).collect();
        let whole = is_at_risk.then(|| Arc::new(Whole::new(parts.len(), wakes())));
        self.submit_parts(parts, whole, timeout, done)
    }

    /// Where a tensor is cut for the threads.
    fn cuts(&self, elements: usize) -> Vec<Range<usize>> {
        let grains = elements.div_ceil(self.grain);
        let parts = (grains / PART_GRAINS).clamp(1, self.channels.len());
        let cut = |part: usize| (grains * part / parts * self.grain).min(elements);
        (0..parts).map(|part| cut(part)..cut(part + 1)).collect()
    }

    /// Elements of an all-reduce, as numbers of so many bytes, whose results another rank may lack that is not as far; the
    /// same on every rank.
    #[must_use]
    pub fn tail(&self, elements: usize, width: usize) -> Vec<Range<usize>> {
        let of_part = |part: Range<usize>| {
            let tails = wiresum_worker::tail(&self.job, part.len(), width);
            tails.into_iter().map(move |tail| part.start + tail.start..part.start + tail.end)
        };
        self.cuts(elements).into_iter().flat_map(of_part).collect()
    }

    fn submit_parts(
        &self,
        parts: Vec<Collective>,
        whole: Option<Arc<Whole>>,
        timeout: Duration,
        done: Done,
    ) -> Result<(), CollectiveError> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let number = self.gathering.open(parts.len(), done);
        let mut refused = Vec::new();
        for (at, part) in parts.into_iter().enumerate() {
            let (channel, whole) = (*next, whole.clone());
            *next = (*next + 1) % self.channels.len();
            let told = self.told(channel, number);
            let queued = self.orders[channel].submit(self.submission(part, timeout, whole, told));
            match queued {
                Err(error) if at == 0 => {
                    self.gathering.withdraw_last();
                    return Err(error);
                }
                // The parts before it are under way, and `done` waits for their ends.
                Err(error) => refused.push((channel, error)),
                Ok(()) => {}
            }
        }
        // Whoever is told may submit.
        drop(next);
        refused.into_iter().for_each(|(channel, error)| self.told(channel, number)(Err(error)));
        Ok(())
    }

    fn submission(
        &self,
        collective: Collective,
        timeout: Duration,
        whole: Option<Arc<Whole>>,
        done: Done,
    ) -> Submission {
        let deadline = self.clock.now().plus(timeout);
        Submission { collective, deadline, completion: Completion::new(done), whole }
    }

    /// Hears of the end of a part. If its job has ended, those of the other threads end, too.
    fn told(&self, channel: usize, number: u64) -> Done {
        let (gathering, orders) = (Arc::clone(&self.gathering), Arc::clone(&self.orders));
        Box::new(move |outcome| {
            let end = outcome.as_ref().err().filter(|error| error.ends_the_job());
            let end = end.map(CollectiveError::failure);
            // What it ended with comes before what that causes.
            gathering.note(number, outcome);
            if let Some(failure) = end {
                let others = orders.iter().enumerate().filter(|(other, _)| *other != channel);
                others.for_each(|(_, others)| others.say(Command::End(failure.clone())));
            }
            gathering.tell();
        })
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
        // SAFETY: the values are borrowed until the engine has dropped all parts, which `wait` waits for.
        let elements = unsafe { Elements::new(data, data, len, encoding) };
        wait(|done| self.submit_sum(Kind::AllReduce, 0, elements, timeout, done))
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
        wait(|done| self.submit(collective, timeout, done))
    }

    /// From now on rounds take this many of the children of this worker's node, at least. Nothing happens where the plan says that they
    /// take everyone, or after the end.
    pub fn await_children(&self, k: u32) {
        self.say(|| Command::Await(k));
    }

    /// From now on nothing is sent, for this long or until [`Self::open`]. What is on its way arrives.
    pub fn shut(&self, period: Duration) {
        self.say(|| Command::Shut(period));
    }

    /// From now on it is sent, at this rate in bit/s on the cable, or as fast as windows allow. Threads share the rate.
    pub fn open(&self, rate_bps: Option<u64>) {
        let rate_bps = rate_bps.map(|rate| (rate / self.threads() as u64).max(1));
        self.say(|| Command::Open(rate_bps));
    }

    /// Ends the job: open collectives and later ones fail, and this is why. With `elsewhere` every rank is told alike
    /// that others than the network have to sum; see [`Session::stop`](wiresum_worker::Session::stop).
    pub fn stop(&self, why: String, elsewhere: bool) {
        self.say(|| Command::Stop { why: why.clone(), elsewhere });
    }

    fn say(&self, command: impl Fn() -> Command) {
        self.orders.iter().for_each(|orders| orders.say(command()));
    }

    /// What the engine has done so far; after [`Self::close`], what it had done by then.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let mut statistics = self.channels[0].statistics();
        self.channels[1..].iter().for_each(|channel| statistics.add(&channel.statistics()));
        statistics.collectives = self.gathering.outcomes();
        statistics
    }

    /// The same for each thread, but for collectives, which are nobody's alone.
    #[must_use]
    pub fn statistics_by_thread(&self) -> Vec<Statistics> {
        self.channels.iter().map(Channel::statistics).collect()
    }

    /// Leaves the job and ends the threads. Open collectives fail. Harmless when repeated.
    pub fn close(&self) {
        self.channels.iter().for_each(Channel::leave);
        self.channels.iter().for_each(|channel| drop(channel.ended()));
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.close();
    }
}

/// Where a collective fails, the values of all its parts are back before anybody is told.
pub(crate) fn undoing(parts: Vec<Aside>, done: Done) -> Done {
    if parts.is_empty() {
        return done;
    }
    Box::new(move |outcome| {
        if outcome.is_err() {
            // SAFETY: all parts have ended, and the elements are the caller's only when it is told.
            parts.iter().for_each(|part| unsafe { part.take_back() });
        }
        done(outcome);
    })
}

/// Submits, and waits for the end.
fn wait(
    submit: impl FnOnce(Done) -> Result<(), CollectiveError>,
) -> Result<Participation, CollectiveError> {
    let (ended, when_ended) = mpsc::channel();
    submit(Box::new(move |outcome| {
        let _ = ended.send(outcome);
    }))?;
    when_ended.recv().unwrap_or(Err(CollectiveError::Closed))
}

/// How values become lanes, if the worker may join as the caller wants it to.
fn checked(plan: &Plan, rank: u32, options: &Options) -> Result<Formats, JoinError> {
    check_members(plan, rank, options)?;
    check_absent(plan, rank, options.absent)?;
    let formats = Formats::new(plan)?;
    if plan.job.sealed && plan.keys().node().is_some() {
        return Err(JoinError::Keys);
    }
    Ok(options.members.map_or(formats, |members| formats.of_group(members.ranks())))
}

/// What packets travel by, and on how many threads, where it is not one. Only one of them has an interface for frames.
fn said(channels: &[Channel]) -> String {
    match channels {
        [only] => only.said().to_owned(),
        all => format!("{} ({} threads)", all[0].said(), all.len()),
    }
}

/// Where a thread is bound: a port has one of them.
fn bind(address: Option<SocketAddr>, thread: usize) -> Option<SocketAddr> {
    address.map(|address| match thread {
        0 => address,
        _ => SocketAddr::new(address.ip(), 0),
    })
}

/// Elements of a packet of numbers of one byte, which are those of two of two bytes, and of four of four.
fn grain(plan: &Plan) -> usize {
    plan.values_len()
}

/// One line on stderr, written at once: other ranks may share the terminal.
fn log(line: &str) {
    let _ = std::io::stderr().write_all(line.as_bytes());
}
