//! The daemon as a service: jobs come and go, are watched and bounded, over a Unix socket.
//!
//! One thread of its own speaks with clients and hands each request to the server's thread, which deals with it between two
//! batches of datagrams: so no client, however slow, makes a datagram wait, and nothing of the server needs a lock.
//! `docs/operating.md` describes the protocol.

mod limits;
mod listener;
mod metrics;
mod notify;
mod peer;
mod quantity;
mod reception;
mod request;

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use serde_json::Value;

use crate::takeover::Successor;
use listener::{ControlSocket, MetricsEndpoint};

pub use limits::{Limits, Load, MAX_JOBS, Refusal, usual_memory};
pub use metrics::exposition;
pub use notify::notify_ready;
pub use quantity::{parse_rate, parse_size};
pub use request::{JobQuota, Request};

/// Version of the protocol; in every request and answer.
pub const VERSION: u64 = 1;

/// Most letters of an error: what goes beyond is a value that somebody has given, at any length.
const MAX_ERROR: usize = 500;

/// An error as people are told it: at most [`MAX_ERROR`] letters.
#[must_use]
pub fn cut(problem: &str) -> String {
    let end = problem.char_indices().nth(MAX_ERROR).map(|(end, _)| end);
    end.map_or_else(|| problem.to_owned(), |end| format!("{}…", &problem[..end]))
}

/// What the kernel says, without the number of its error.
#[must_use]
pub fn reason(error: &io::Error) -> String {
    let said = error.to_string();
    said.split(" (os error").next().unwrap_or_default().to_owned()
}

/// Most bytes of a plan, or of another document that is read: as much as other readers of the project take. It ends the
/// reading of a device at once.
const MAX_DOCUMENT: u64 = 64 << 20;

/// The text of a file of at most [`MAX_DOCUMENT`] bytes.
///
/// # Errors
/// Why it cannot be read, or that it is too large.
pub fn read_document(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let len = File::open(path)?.take(MAX_DOCUMENT + 1).read_to_string(&mut text)? as u64;
    if len > MAX_DOCUMENT {
        let problem = format!("has more than {} MiB", MAX_DOCUMENT >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, problem));
    }
    Ok(text)
}

/// A request on its way to the server's thread.
pub struct Order {
    /// What is wanted.
    pub request: Request,
    /// Who wants everything, with [`Request::TakeOver`].
    pub successor: Option<Successor>,
    answer: Sender<Value>,
}

impl Order {
    /// Answers the client. One that has gone away is no matter.
    pub fn answer(self, value: Value) {
        let _ = self.answer.send(value);
    }
}

/// The server's end: orders, and a descriptor that becomes readable when there are some.
pub struct Orders {
    queue: Receiver<Order>,
    wake: UnixStream,
    /// Its file goes with the server.
    socket: ControlSocket,
    metrics: Option<MetricsEndpoint>,
}

impl Orders {
    /// The next order, if there is one.
    pub fn take(&mut self) -> Option<Order> {
        // Emptied before the queue is looked at, so that no order is overlooked.
        let mut bytes = [0; 64];
        while self.wake.read(&mut bytes).is_ok_and(|len| len == bytes.len()) {}
        self.queue.try_recv().ok()
    }

    /// What clients of the control socket connect to, for a successor.
    #[must_use]
    pub fn listener(&self) -> &UnixListener {
        &self.socket.listener
    }

    /// What readers of metrics connect to, for a successor.
    #[must_use]
    pub fn metrics_listener(&self) -> Option<&TcpListener> {
        self.metrics.as_ref().map(|metrics| &metrics.listener)
    }

    /// The control socket's file is a successor's from now on.
    pub fn let_go(&mut self) {
        self.socket.is_ours = false;
    }

    /// Where metrics are served.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(|metrics| metrics.address)
    }
}

impl AsFd for Orders {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

/// The clients' end.
#[derive(Clone)]
struct Desk {
    queue: Sender<Order>,
    wake: Arc<UnixStream>,
}

/// Opens the control socket, and the metrics' if an address is given.
///
/// # Errors
/// Which of them cannot be opened, and why.
pub fn open(control: &Path, metrics: Option<SocketAddr>) -> io::Result<Orders> {
    let listen = |address| {
        let remedy = "give --metrics an address of this host with a free port";
        TcpListener::bind(address).map_err(named(format!("metrics at {address}"), remedy))
    };
    let metrics = metrics.map(listen).transpose()?;
    let what = format!("control socket {}", control.display());
    let listener = listener::listen(control).map_err(named(what, "give --control another path"))?;
    serve(listener, control, metrics)
}

/// Says what an error is about and, where the kernel refuses, what to do; our own errors say it already.
fn named(what: String, remedy: &str) -> impl FnOnce(io::Error) -> io::Error {
    move |error| {
        let problem = match error.raw_os_error() {
            Some(_) => format!("{what}: cannot be opened ({}); {remedy}", reason(&error)),
            None => format!("{what}: {error}"),
        };
        io::Error::new(error.kind(), problem)
    }
}

/// As [`open`], on sockets that another process has opened.
///
/// # Errors
/// What the kernel says to threads and descriptors.
pub fn serve(
    control: UnixListener,
    path: &Path,
    metrics: Option<TcpListener>,
) -> io::Result<Orders> {
    let (sender, queue) = channel();
    let (wake, woken) = UnixStream::pair()?;
    wake.set_nonblocking(true)?;
    woken.set_nonblocking(true)?;
    let desk = Desk { queue: sender, wake: Arc::new(wake) };
    let socket = ControlSocket::serve(control, path, desk.clone())?;
    let metrics = metrics.map(|listener| MetricsEndpoint::serve(listener, desk)).transpose()?;
    Ok(Orders { queue, wake: woken, socket, metrics })
}

impl Desk {
    /// The server's answer; `None` if it has ended.
    fn ask(&self, request: Request) -> Option<Value> {
        self.ask_for(request, None)
    }

    /// As [`Self::ask`], for a client that may get more than an answer.
    fn ask_for(&self, request: Request, successor: Option<Successor>) -> Option<Value> {
        let (answer, received) = channel();
        self.queue.send(Order { request, successor, answer }).ok()?;
        // A full pipe has woken the server already.
        let _ = (&*self.wake).write(&[1]);
        received.recv_timeout(listener::ANSWER_TIMEOUT).ok()
    }
}
