//! One thread of an engine, and the owner's end of it.

use std::net::SocketAddr;
use std::sync::mpsc::{self, Receiver, SendError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use wiresum_protocol::{Plan, Time};
use wiresum_worker::{Collective, Failure, Session};

use super::completion::Completion;
use super::driver::Driver;
use super::errors::{CollectiveError, JoinError};
use super::transport::Transport;
use super::wake::Wake;
use super::whole::Whole;
use super::{Options, Statistics};
use crate::clock::Clock;

/// A collective, or a part of one, on its way to a thread.
pub(super) struct Submission {
    pub collective: Collective,
    pub deadline: Time,
    pub completion: Completion,
    /// What it may not begin before.
    pub whole: Option<Arc<Whole>>,
}

pub(super) enum Command {
    Collect(Submission),
    Await(u32),
    Shut(Duration),
    Open(Option<u64>),
    Stop { why: String, elsewhere: bool },
    End(Failure),
    Report(Sender<Statistics>),
    Leave,
}

/// The failure that a node causes which is gone, in words; the thread writes it.
pub(super) type Gone = Arc<OnceLock<String>>;
/// The rank of a worker that is lost, and what has become of it, in words; the thread writes it.
pub(super) type Lost = Arc<OnceLock<(u32, String)>>;
/// Hears of the welcome, or of why there is none.
pub(super) type WhenJoined = Receiver<Result<(), JoinError>>;

/// A session of one job, with a transport of its own, on a thread of its own.
pub(super) struct Channel {
    orders: Orders,
    thread: Mutex<Thread>,
    local_address: SocketAddr,
    said: String,
    gone: Gone,
    lost: Lost,
}

/// What is said to a thread.
#[derive(Clone)]
pub(super) struct Orders {
    wake: Wake,
    commands: Sender<Command>,
}

/// The thread, or what it left behind.
enum Thread {
    Running(JoinHandle<Statistics>),
    Ended(Box<Statistics>),
}

impl Channel {
    /// Has a worker join the plan's job. It has joined when that is said; with a shut gate nothing is.
    pub fn start(
        plan: &Plan,
        rank: u32,
        incarnation: u64,
        options: &Options,
        clock: Clock,
    ) -> Result<(Self, WhenJoined), JoinError> {
        let transport = Transport::bind(plan, rank, options.bind, options.transport)?;
        let local_address = transport.local_address().map_err(JoinError::Start)?;
        let said = transport.said().to_owned();
        let wake = Wake::new().map_err(JoinError::Start)?;
        let (commands, inbox) = mpsc::channel();
        let (joined, when_joined) = mpsc::channel();
        let session = session(plan, rank, incarnation, options, clock.now());
        let joined = options.shut_for.is_none().then_some(joined);
        let (gone, lost) = (Gone::default(), Lost::default());
        let driver = Driver::new(session, transport, clock, inbox, wake.clone(), joined)
            .telling(Arc::clone(&gone), Arc::clone(&lost));
        let thread = std::thread::Builder::new()
            .name(format!("wiresum-{rank}"))
            .spawn(move || driver.run())
            .map_err(JoinError::Start)?;
        let thread = Mutex::new(Thread::Running(thread));
        let orders = Orders { wake, commands };
        Ok((Self { orders, thread, local_address, said, gone, lost }, when_joined))
    }

    pub fn orders(&self) -> &Orders {
        &self.orders
    }

    pub fn local_address(&self) -> SocketAddr {
        self.local_address
    }

    pub fn said(&self) -> &str {
        &self.said
    }

    pub fn gone(&self) -> Option<&str> {
        self.gone.get().map(String::as_str)
    }

    pub fn lost(&self) -> Option<(u32, &str)> {
        self.lost.get().map(|(rank, why)| (*rank, why.as_str()))
    }

    /// What the thread has done so far; after its end, what it had done by then.
    pub fn statistics(&self) -> Statistics {
        let (reply, replied) = mpsc::channel();
        self.orders.say(Command::Report(reply));
        replied.recv().unwrap_or_else(|_| self.ended())
    }

    /// Has the thread leave, and does not wait for it.
    pub fn leave(&self) {
        self.orders.say(Command::Leave);
    }

    /// Waits for the thread's end.
    pub fn ended(&self) -> Statistics {
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

impl Drop for Channel {
    fn drop(&mut self) {
        self.leave();
        self.ended();
    }
}

impl Orders {
    /// Nothing happens after the end.
    pub fn say(&self, command: Command) {
        if self.commands.send(command).is_ok() {
            self.wake.wake();
        }
    }

    /// Queues a collective; where the thread has ended, its completion is not called.
    pub fn submit(&self, submission: Submission) -> Result<(), CollectiveError> {
        if let Err(SendError(command)) = self.commands.send(Command::Collect(submission)) {
            if let Command::Collect(submission) = command {
                submission.completion.disarm();
            }
            return Err(CollectiveError::Closed);
        }
        self.wake.wake();
        Ok(())
    }

    pub fn wake(&self) -> &Wake {
        &self.wake
    }
}

/// What the worker is from its first hello on.
fn session(plan: &Plan, rank: u32, incarnation: u64, options: &Options, now: Time) -> Session {
    let mut session = Session::new(plan, rank, incarnation);
    if !options.absent.is_empty() {
        session = session.without(options.absent);
    }
    if let Some(members) = options.members {
        session = session.of_members(members);
    }
    if options.outlives_workers {
        session.outlive_workers();
    }
    options.shut_for.iter().for_each(|period| session.shut(now.plus(*period), now));
    options.dead_after.iter().for_each(|after| session.keep_alive(*after, now));
    options.gone_after.iter().for_each(|after| session.watch_nodes(*after, now));
    session.join(now.plus(options.timeout), now);
    session
}
