//! The loop of the engine's thread.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use wiresum_protocol::Time;
use wiresum_wire::Round;
use wiresum_worker::{Event, Failure, Participation, Session};

use super::channel::{Command, Gone, Lost, Submission};
use super::completion::Completion;
use super::transport::Transport;
use super::wake::Wake;
use super::{CollectiveError, JoinError, Statistics};
use crate::clock::{Clock, thread_cpu_time, timespec};
use crate::defect;

/// How long a leaving worker waits for the kernel to take its goodbyes: they are a courtesy, not a promise.
const FAREWELL: Duration = Duration::from_millis(200);
/// Commands taken before the network gets its turn, so that an eager owner cannot starve it.
const COMMANDS_PER_TURN: usize = 64;
/// How long a datagram may wait for others to share its call. A full batch of values takes less to make; one of exponents,
/// each found in a hundred values or more, takes milliseconds, in which the first ones may travel.
const BATCH_AGE: Duration = Duration::from_micros(100);

/// Everything that the engine's thread owns.
pub struct Driver {
    session: Session,
    transport: Transport,
    clock: Clock,
    inbox: Receiver<Command>,
    wake: Wake,
    joined: Option<Sender<Result<(), JoinError>>>,
    /// Parts that wait for the other parts of their collective, and what has come after them.
    coming: VecDeque<Submission>,
    /// Oldest first.
    open: VecDeque<(Round, Completion)>,
    statistics: Statistics,
    busy_since: Option<Time>,
    leave_by: Option<Time>,
    gone: Gone,
    lost: Lost,
}

/// What `poll` reported.
struct Ready {
    socket: bool,
    command: bool,
}

impl Driver {
    pub fn new(
        session: Session,
        transport: Transport,
        clock: Clock,
        inbox: Receiver<Command>,
        wake: Wake,
        joined: Option<Sender<Result<(), JoinError>>>,
    ) -> Self {
        Self {
            session,
            transport,
            clock,
            inbox,
            wake,
            joined,
            coming: VecDeque::new(),
            open: VecDeque::new(),
            statistics: Statistics::default(),
            busy_since: None,
            leave_by: None,
            gone: Gone::default(),
            lost: Lost::default(),
        }
    }

    /// Where to write of a node that is gone, and of a worker that is lost.
    pub fn telling(self, gone: Gone, lost: Lost) -> Self {
        Self { gone, lost, ..self }
    }

    /// Runs until the owner leaves. Whatever ends it, every open collective is told.
    pub fn run(mut self) -> Statistics {
        let end = catch_unwind(AssertUnwindSafe(|| self.turn_until_left()));
        let reason = match end {
            Ok(Ok(())) => CollectiveError::Closed,
            Ok(Err(error)) => CollectiveError::Stopped(format!("the socket failed: {error}")),
            Err(panic) => CollectiveError::Stopped(defect::describe(&*panic)),
        };
        let coming = std::mem::take(&mut self.coming).into_iter().map(|part| part.completion);
        let open = std::mem::take(&mut self.open).into_iter().map(|(_, completion)| completion);
        open.chain(coming).for_each(|completion| completion.finish(Err(reason.clone())));
        self.report()
    }

    fn turn_until_left(&mut self) -> io::Result<()> {
        let mut ready = Ready { socket: true, command: true };
        loop {
            if ready.command {
                self.wake.clear();
            }
            let more_commands = self.take_commands();
            self.begin(|part| part.whole.as_ref().is_none_or(|whole| whole.is_seen()));
            let more_datagrams = ready.socket && self.receive()?;
            let now = self.clock.now();
            if self.session.poll_timeout().is_some_and(|deadline| deadline <= now) {
                self.session.handle_timeout(now);
            }
            let all_sent = self.transmit();
            self.deliver();
            if self.has_left(all_sent) {
                return Ok(());
            }
            ready = if more_commands || more_datagrams {
                Ready { socket: true, command: false }
            } else {
                self.sleep(all_sent)?
            };
        }
    }

    /// Does what the owner wants; `true` if there may be more.
    fn take_commands(&mut self) -> bool {
        for _ in 0..COMMANDS_PER_TURN {
            match self.inbox.try_recv() {
                Ok(Command::Collect(submission)) => {
                    if let Some(whole) = &submission.whole {
                        whole.look_at(&*submission.collective.source);
                    }
                    self.coming.push_back(submission);
                }
                Ok(Command::Await(k)) => self.session.await_members(k),
                Ok(Command::Shut(period)) => {
                    let now = self.clock.now();
                    self.session.shut(now.plus(period), now);
                }
                Ok(Command::Open(rate_bps)) => self.session.open(rate_bps, self.clock.now()),
                Ok(Command::Stop { why, elsewhere }) => {
                    self.session.stop(why, elsewhere);
                    // What may never be known to be whole ends as all else does.
                    self.begin(|_| true);
                }
                Ok(Command::End(failure)) => {
                    self.session.end(failure);
                    self.begin(|_| true);
                }
                Ok(Command::Report(reply)) => {
                    let _ = reply.send(self.report());
                }
                Ok(Command::Leave) | Err(TryRecvError::Disconnected) => {
                    self.leave();
                    return false;
                }
                Err(TryRecvError::Empty) => return false,
            }
        }
        true
    }

    /// Submits what has come for as long as it may begin.
    fn begin(&mut self, may: impl Fn(&Submission) -> bool) {
        while self.coming.front().is_some_and(&may)
            && let Some(Submission { collective, deadline, completion, whole }) =
                self.coming.pop_front()
        {
            let now = self.clock.now();
            self.busy_since.get_or_insert(now);
            let collective = match whole {
                Some(whole) => whole.judge(collective),
                None => collective,
            };
            let round = self.session.submit(collective, deadline, now);
            self.open.push_back((round, completion));
        }
    }

    fn leave(&mut self) {
        if self.leave_by.is_none() {
            let now = self.clock.now();
            self.session.leave(now);
            self.leave_by = Some(now.plus(FAREWELL));
        }
    }

    /// Takes a batch of what has arrived; `true` if there may be more.
    fn receive(&mut self) -> io::Result<bool> {
        let now = self.clock.now();
        let more = self.transport.receive(|source, packet| {
            self.statistics.datagrams_received += 1;
            self.statistics.bytes_received += packet.len() as u64;
            self.session.handle_datagram(source, packet, now);
        })?;
        while let Some((address, quote)) = self.transport.next_refused() {
            self.session.handle_unreachable(address, &quote, now);
        }
        Ok(more)
    }

    /// Sends all that the protocol has to send; `false` if the socket cannot take it now.
    fn transmit(&mut self) -> bool {
        if !self.transport.flush() {
            return false;
        }
        let mut now = self.clock.now();
        let mut flush_by = now.plus(BATCH_AGE);
        while let Some(transmit) = self.session.poll_transmit(now, self.transport.room()) {
            let is_full = self.transport.push_room(transmit.destination, transmit.len);
            now = self.clock.now();
            if is_full || now >= flush_by {
                flush_by = now.plus(BATCH_AGE);
                if !self.transport.flush() {
                    return false;
                }
            }
        }
        self.transport.flush()
    }

    /// Passes the protocol's events on.
    fn deliver(&mut self) {
        while let Some(event) = self.session.poll_event() {
            match event {
                Event::Joined => self.tell_joined(Ok(())),
                Event::Moved(switch) => {
                    super::log(&format!("wiresum: {}\n", self.session.describe(&switch)));
                }
                Event::Unattended => super::log(
                    "wiresum: nobody has opened this rank's gate in time; it sends without turns\n",
                ),
                Event::NodeGone(failure) => {
                    let remark = self.remark(&failure);
                    let _ = self.gone.set(format!("{failure}{remark}"));
                }
                Event::WorkerLost(failure) => {
                    if let Failure::WorkerLost { rank, .. } = failure {
                        let _ = self.lost.set((rank, failure.to_string()));
                    }
                }
                Event::HeldUp(failure) => {
                    let remark = self.remark(&failure);
                    super::log(&format!(
                        "wiresum: no result comes. Unless that changes, the job will end with: {failure}{remark}\n"
                    ));
                }
                Event::Finished { outcome: Err(failure), .. } if self.joined.is_some() => {
                    let remark = self.remark(&failure);
                    self.tell_joined(Err(JoinError::Protocol { failure, remark }));
                    self.leave();
                }
                Event::Finished { round, collective, outcome, participation } => {
                    // The caller may free the memory as soon as it is told.
                    drop(collective);
                    self.finish(round, outcome.map(|()| participation));
                }
            }
        }
    }

    fn tell_joined(&mut self, outcome: Result<(), JoinError>) {
        if let Some(joined) = self.joined.take() {
            let _ = joined.send(outcome);
        }
    }

    fn finish(&mut self, round: Round, outcome: Result<Participation, Failure>) {
        let outcome = outcome.map_err(|failure| {
            let remark = self.remark(&failure);
            CollectiveError::Protocol { failure, remark }
        });
        // As a rule the first; what ends before it is a share's.
        let index = self.open.iter().position(|(open, _)| *open == round);
        if let Some((_, completion)) = index.and_then(|index| self.open.remove(index)) {
            completion.finish(outcome);
        }
        if self.open.is_empty() {
            self.add_busy_time();
        }
    }

    /// What the socket knows about a failure that the protocol cannot know.
    fn remark(&self, failure: &Failure) -> String {
        let sent = self.transport.sent();
        match (&sent.last_refusal, failure) {
            (None, _) | (_, Failure::Mismatch { .. } | Failure::Ended { .. } | Failure::Left) => {
                String::new()
            }
            (_, failure) if failure.spares_the_job() => String::new(),
            (Some(refusal), _) => format!(" ({} datagrams were not sent: {refusal})", sent.refused),
        }
    }

    fn has_left(&self, all_sent: bool) -> bool {
        self.leave_by.is_some_and(|by| self.open.is_empty() && (all_sent || self.clock.now() >= by))
    }

    fn add_busy_time(&mut self) {
        if let Some(since) = self.busy_since.take() {
            self.statistics.busy += self.clock.now().since(since);
        }
    }

    /// Sleeps until there is something to do.
    fn sleep(&mut self, all_sent: bool) -> io::Result<Ready> {
        let room = if all_sent { PollFlags::empty() } else { PollFlags::OUT };
        let mut fds = [
            PollFd::new(&self.transport, PollFlags::IN | room),
            PollFd::new(&self.wake, PollFlags::IN),
        ];
        let deadline = self.session.poll_timeout().into_iter().chain(self.leave_by).min();
        let timeout = deadline.map(|deadline| timespec(deadline.since(self.clock.now())));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        self.statistics.sleeps += 1;
        let readable = |fd: &PollFd<'_>| fd.revents().intersects(PollFlags::IN | PollFlags::ERR);
        Ok(Ready { socket: readable(&fds[0]), command: readable(&fds[1]) })
    }

    fn report(&mut self) -> Statistics {
        let mut statistics = self.statistics.clone();
        if let Some(since) = self.busy_since {
            statistics.busy += self.clock.now().since(since);
        }
        statistics.sent = self.transport.sent().clone();
        statistics.frames = self.transport.frames();
        statistics.threads = 1;
        statistics.cpu = thread_cpu_time();
        statistics.protocol = self.session.counters();
        statistics
    }
}
