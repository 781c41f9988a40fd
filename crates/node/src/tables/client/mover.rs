//! The thread of a client: it owns the socket, and shares the member with those who call.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use wiresum_protocol::Time;
use wiresum_sparse::hot::RowId;
use wiresum_sparse::live::Member;
use wiresum_sparse::worker::Gradients;

use super::ClientError;
use crate::clock::{Clock, timespec};
use crate::defect;
use crate::engine::Wake;
use crate::udp::{ReceiveBatch, SendCounters, SendQueue, Socket};

type Answer = Result<Vec<f32>, ClientError>;

/// Where the outcome of a step is put.
#[derive(Default)]
pub(super) struct Slot(Mutex<Option<Answer>>);

impl Slot {
    fn lock(&self) -> MutexGuard<'_, Option<Answer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is to be done, in order.
pub(super) enum Step {
    /// All nodes welcome this rank.
    Join { slot: Arc<Slot> },
    /// A round of this rank's gradients, and of rows that it puts.
    Round { gradients: Gradients, puts: BTreeMap<RowId, Vec<f32>>, slot: Arc<Slot> },
    /// Rows as they are after the step before.
    Ask { rows: Vec<RowId>, slot: Arc<Slot> },
    /// The same with the optimizer's state, which is told once the round before is over.
    AskStored { rows: Vec<RowId>, slot: Arc<Slot> },
}

/// What callers and the thread share.
pub(super) struct Shared {
    state: Mutex<State>,
    /// Something has ended.
    ended: Condvar,
    wake: Wake,
    clock: Clock,
}

struct State {
    member: Member,
    steps: VecDeque<Step>,
    /// Steps that end when the worker is idle: rows that were asked for, or none for a round.
    open: Vec<Open>,
    sent: SendCounters,
    has_left: bool,
    /// Why the job cannot go on.
    broken: Option<ClientError>,
}

struct Open {
    rows: Vec<RowId>,
    with_state: bool,
    slot: Arc<Slot>,
}

impl Shared {
    pub(super) fn new(member: Member) -> io::Result<Self> {
        let (steps, open, sent) = Default::default();
        let state = State { member, steps, open, sent, has_left: false, broken: None };
        let (ended, wake, clock) = (Condvar::new(), Wake::new()?, Clock::default());
        Ok(Self { state: Mutex::new(state), ended, wake, clock })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Whoever panics says so; the state says itself whether the job can go on.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn version(&self) -> u32 {
        self.lock().member.worker().version()
    }

    pub(super) fn statistics(&self) -> [(&'static str, u64); 7] {
        let state = self.lock();
        let keys = state.member.key_age();
        [
            ("rounds", state.member.worker().version().into()),
            ("datagrams_sent", state.sent.datagrams),
            ("bytes_sent", state.sent.bytes),
            ("map_version", state.member.worker().map().version().into()),
            ("messages_repeated", state.member.worker().repeated()),
            ("key_generation", keys.generation.into()),
            ("key_renewals", keys.renewal.into()),
        ]
    }

    pub(super) fn submit(&self, step: Step) -> Result<(), ClientError> {
        let mut state = self.lock();
        state.broken.clone().map_or(Ok(()), Err)?;
        state.steps.push_back(step);
        drop(state);
        self.wake.wake();
        Ok(())
    }

    /// The `count`-th of the rounds that have not begun, counted from the last one submitted.
    pub(super) fn round_before(&self, count: usize) -> Option<Arc<Slot>> {
        let state = self.lock();
        let rounds = state.steps.iter().rev().filter_map(|step| match step {
            Step::Round { slot, .. } => Some(slot),
            _ => None,
        });
        rounds.skip(count - 1).map(Arc::clone).next()
    }

    pub(super) fn is_done(&self, slot: &Slot) -> bool {
        slot.lock().is_some() || self.lock().broken.is_some()
    }

    /// The outcome, if there is one within this time.
    pub(super) fn wait(&self, slot: &Slot, patience: Duration) -> Option<Answer> {
        let state = self.lock();
        let is_open = |state: &mut State| slot.lock().is_none() && state.broken.is_none();
        let waited = self.ended.wait_timeout_while(state, patience, is_open);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        slot.lock().clone().or_else(|| state.broken.clone().map(Err))
    }

    /// Ends the job; the reason, which is the first one there was.
    pub(super) fn fail(&self, reason: ClientError) -> ClientError {
        let mut state = self.lock();
        let reason = state.broken.get_or_insert(reason).clone();
        drop(state);
        self.ended.notify_all();
        self.wake.wake();
        reason
    }

    pub(super) fn time_out(&self, what: &'static str, after: Duration) -> ClientError {
        let state = self.lock();
        let silent = |since| state.member.silent_since(since);
        let other = match state.member.job().tree {
            None => "another rank has not finished the round",
            Some(_) => "another rank has not finished the round, or a switch above is gone",
        };
        let error = ClientError::timeout(what, after, self.clock.now(), silent, other);
        drop(state);
        self.fail(error)
    }

    /// The owner goes: nothing is sent any more.
    pub(super) fn leave(&self) {
        self.lock().has_left = true;
        self.wake.wake();
    }
}

impl State {
    /// Ends what is done, and begins what comes next; whether anything has ended.
    fn advance(&mut self) -> bool {
        let mut has_ended = false;
        while self.member.has_joined() && self.member.worker().is_idle() {
            has_ended |= !self.open.is_empty();
            for Open { rows, with_state, slot } in std::mem::take(&mut self.open) {
                let worker = self.member.worker();
                let table = rows.first().map(|row| row.table); // that of all of them
                let row = |row| if with_state { worker.stored(row) } else { worker.weights(row) };
                let rows: Vec<&[f32]> =
                    rows.iter().map(|id| row(*id).expect("it is here")).collect();
                let mut values = rows.concat();
                if let Some(table) = table.filter(|_| !with_state) {
                    worker.round(table, &mut values);
                }
                *slot.lock() = Some(Ok(values));
            }
            let Some(step) = self.steps.pop_front() else { break };
            self.begin(step);
            self.ask_behind();
        }
        self.ask_behind();
        has_ended
    }

    /// Rows that are asked for behind what is under way.
    fn ask_behind(&mut self) {
        while self.member.has_joined() && matches!(self.steps.front(), Some(Step::Ask { .. })) {
            let step = self.steps.pop_front().expect("it was found");
            self.begin(step);
        }
    }

    fn begin(&mut self, step: Step) {
        match step {
            Step::Join { slot } => self.open(Vec::new(), false, slot),
            Step::Round { gradients, puts, slot } => {
                puts.into_iter().for_each(|(row, values)| self.member.put(row, values));
                self.member.begin(&gradients);
                self.open(Vec::new(), false, slot);
            }
            Step::Ask { rows, slot } => {
                let worker = self.member.worker();
                let is_missing = |row: &RowId| worker.weights(*row).is_none();
                let missing: Vec<RowId> = rows.iter().copied().filter(is_missing).collect();
                self.member.pull(missing);
                self.open(rows, false, slot);
            }
            Step::AskStored { rows, slot } => {
                let worker = self.member.worker();
                let is_missing = |row: &RowId| worker.stored(*row).is_none();
                let missing: Vec<RowId> = rows.iter().copied().filter(is_missing).collect();
                self.member.pull_stored(missing);
                self.open(rows, true, slot);
            }
        }
    }

    fn open(&mut self, rows: Vec<RowId>, with_state: bool, slot: Arc<Slot>) {
        self.open.push(Open { rows, with_state, slot });
    }
}

/// The client's thread: it moves datagrams between the socket and the member until the owner leaves.
pub(super) struct Mover {
    shared: Arc<Shared>,
    socket: Socket,
    received: ReceiveBatch,
    outgoing: SendQueue,
}

impl Mover {
    pub(super) fn new(shared: Arc<Shared>, socket: Socket) -> Self {
        let (received, outgoing) = Default::default();
        Self { shared, socket, received, outgoing }
    }

    /// Moves datagrams until the owner leaves, or the job cannot go on.
    pub(super) fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        match catch_unwind(AssertUnwindSafe(|| self.turn_until_left())) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => drop(shared.fail(error)),
            Err(panic) => drop(shared.fail(ClientError::Socket(defect::describe(&*panic)))),
        }
    }

    fn turn_until_left(&mut self) -> Result<(), ClientError> {
        let failed = |error: io::Error| ClientError::Socket(error.to_string());
        loop {
            self.shared.wake.clear();
            self.receive().map_err(failed)?;
            let (is_sent, due) = {
                let shared = Arc::clone(&self.shared);
                let mut state = shared.lock();
                if state.has_left || state.broken.is_some() {
                    return Ok(());
                }
                if let Some(error) = state.member.error() {
                    return Err(error.into());
                }
                if state.advance() {
                    shared.ended.notify_all();
                }
                let is_sent = self.send(&mut state);
                (is_sent, state.member.poll_timeout().filter(|_| is_sent))
            };
            self.sleep(is_sent, due).map_err(failed)?;
        }
    }

    /// Sends what is due; `false` if the kernel cannot take all of it now.
    fn send(&mut self, state: &mut State) -> bool {
        let Self { shared, socket, outgoing, .. } = self;
        if !outgoing.is_empty() && !outgoing.flush(socket) {
            return false;
        }
        state.member.poll(shared.clock.now(), |to, bytes| {
            if outgoing.push(to, bytes) {
                outgoing.flush(socket);
            }
        });
        let is_sent = outgoing.is_empty() || outgoing.flush(socket);
        state.sent = outgoing.counters.clone();
        is_sent
    }

    fn receive(&mut self) -> io::Result<()> {
        loop {
            let more = self.socket.receive(&mut self.received)?;
            let now = self.shared.clock.now();
            let mut state = self.shared.lock();
            for (source, datagram) in self.received.datagrams() {
                state.member.handle(source, datagram, now);
            }
            if !more {
                return Ok(());
            }
        }
    }

    fn sleep(&self, is_sent: bool, due: Option<Time>) -> io::Result<()> {
        let room = if is_sent { PollFlags::empty() } else { PollFlags::OUT };
        let mut fds = [
            PollFd::new(&self.socket, PollFlags::IN | room),
            PollFd::new(&self.shared.wake, PollFlags::IN),
        ];
        let patience = due.map(|due| timespec(due.since(self.shared.clock.now())));
        match poll(&mut fds, patience.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
