//! One thread with aggregators of its own, which it lends to whoever carries out orders.
//!
//! A loan takes the place of a lock: while the thread has the aggregators nobody else can reach them, and packets cost no
//! synchronisation. Whoever wants them wakes the thread, which hands them over between two batches of packets and waits until
//! they are back.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use crate::aggregators::UdpAggregators;
use crate::clock::timespec;
use crate::engine::Wake;
use crate::node::Plane;

/// A thread, seen by whoever gives it orders. It ends with this.
pub(crate) struct ServingThread {
    wake: Wake,
    is_wanted: Arc<AtomicBool>,
    loans: Receiver<Loan>,
    /// Absent only while the thread is to end.
    returns: Option<SyncSender<Box<UdpAggregators>>>,
    /// The aggregators, while the thread waits for them.
    held: RefCell<Option<Box<UdpAggregators>>>,
    /// Why the thread has ended.
    failure: RefCell<Option<io::Error>>,
    thread: Option<JoinHandle<()>>,
}

struct Loan {
    aggregators: Box<UdpAggregators>,
    /// The thread has ended by this, and wants nothing back.
    failure: Option<io::Error>,
}

impl ServingThread {
    /// A thread that waits for its aggregators, which are held until [`Self::release`]. `wake` wakes it; it wakes `news`
    /// when it ends.
    ///
    /// # Errors
    /// If there can be no thread more.
    pub fn start(
        number: usize,
        aggregators: UdpAggregators,
        wake: Wake,
        news: Wake,
    ) -> io::Result<Self> {
        let is_wanted = Arc::new(AtomicBool::new(false));
        let ((lend, loans), (returns, back)) = (sync_channel(1), sync_channel(1));
        let lender = Lender { wake: wake.clone(), is_wanted: is_wanted.clone(), lend, back, news };
        let named = thread::Builder::new().name(format!("node-{number}"));
        let thread = named.spawn(move || lender.run())?;
        Ok(Self {
            wake,
            is_wanted,
            loans,
            returns: Some(returns),
            held: RefCell::new(Some(Box::new(aggregators))),
            failure: RefCell::default(),
            thread: Some(thread),
        })
    }

    /// Does something with the aggregators, between two batches of the thread.
    pub fn with<T>(&self, act: impl FnOnce(&mut UdpAggregators) -> T) -> T {
        let was_held = self.held.borrow().is_some();
        self.hold();
        let result = act(self.held.borrow_mut().as_mut().expect("held just now"));
        if !was_held {
            self.release();
        }
        result
    }

    /// Has the thread wait until [`Self::release`].
    pub fn hold(&self) {
        if self.held.borrow().is_none() {
            self.is_wanted.store(true, Ordering::Release);
            self.wake.wake();
            self.take(self.loans.recv().expect("the thread ends without a panic"));
        }
    }

    /// Has the thread go on, unless it has failed.
    pub fn release(&self) {
        if self.failure.borrow().is_none()
            && let Some(aggregators) = self.held.borrow_mut().take()
            && let Some(returns) = &self.returns
        {
            returns.send(aggregators).expect("the thread waits");
        }
    }

    /// Whether the thread serves.
    ///
    /// # Errors
    /// What the kernel said to it when it asked for packets.
    pub fn check(&self) -> io::Result<()> {
        match self.loans.try_recv() {
            Ok(loan) => self.take(loan),
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) if self.failure.borrow().is_some() => {}
            Err(TryRecvError::Disconnected) => {
                return Err(io::Error::other("a thread has ended by a defect"));
            }
        }
        let failure = self.failure.borrow();
        failure
            .as_ref()
            .map_or(Ok(()), |error| Err(io::Error::new(error.kind(), error.to_string())))
    }

    fn take(&self, loan: Loan) {
        *self.held.borrow_mut() = Some(loan.aggregators);
        if loan.failure.is_some() {
            *self.failure.borrow_mut() = loan.failure;
        }
    }
}

impl Drop for ServingThread {
    fn drop(&mut self) {
        self.returns = None;
        self.is_wanted.store(true, Ordering::Release);
        self.wake.wake();
        // A panic has been printed, and there is nobody left to tell.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// The thread's own side.
struct Lender {
    wake: Wake,
    is_wanted: Arc<AtomicBool>,
    lend: SyncSender<Loan>,
    back: Receiver<Box<UdpAggregators>>,
    news: Wake,
}

impl Lender {
    /// Serves whenever it has the aggregators, until nobody gives them back.
    fn run(self) {
        while let Ok(mut aggregators) = self.back.recv() {
            let failure = self.serve(&mut aggregators).err();
            let has_failed = failure.is_some();
            if self.lend.send(Loan { aggregators, failure }).is_err() || has_failed {
                return;
            }
        }
    }

    /// Serves until somebody wants the aggregators.
    fn serve(&self, aggregators: &mut UdpAggregators) -> io::Result<()> {
        let mut more = false;
        loop {
            self.sleep(aggregators, more)?;
            if self.is_wanted.swap(false, Ordering::Acquire) {
                return Ok(());
            }
            more = aggregators.turn()?;
        }
    }

    /// Waits for packets, or to be woken; not at all if there is more to do.
    fn sleep(&self, aggregators: &UdpAggregators, more: bool) -> io::Result<()> {
        let timeout = if more { Some(Duration::ZERO) } else { aggregators.idle_time() };
        let mut fds = aggregators.watched();
        fds.push(PollFd::new(&self.wake, PollFlags::IN));
        match poll(&mut fds, timeout.map(timespec).as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if fds.last().is_some_and(|wake| !wake.revents().is_empty()) {
            self.wake.clear();
        }
        Ok(())
    }
}

impl Drop for Lender {
    fn drop(&mut self) {
        self.news.wake();
    }
}
