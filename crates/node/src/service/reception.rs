//! Clients of one listener, all heard at once by one thread: whoever speaks slowly, or not at all, delays nobody.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::clock::timespec;

/// Clients that may be speaking at once. One more takes the place of whoever has been speaking for longest: so silent
/// clients, however many, keep nobody out. Times the longest request, this is 64 MiB.
const MAX_CLIENTS: usize = 16;
/// How long a client may take for a whole request, and to read an answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes that are read at a time.
const PIECE: usize = 64 << 10;
/// Pause after a failed `accept`, so that a lack of descriptors does not become a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What clients connect to.
pub(super) trait Door: AsFd {
    /// A connection.
    type Client: AsFd;

    /// The next client.
    fn admit(&self) -> io::Result<Self::Client>;
}

impl Door for UnixListener {
    type Client = UnixStream;

    fn admit(&self) -> io::Result<UnixStream> {
        Ok(self.accept()?.0)
    }
}

impl Door for TcpListener {
    type Client = TcpStream;

    fn admit(&self) -> io::Result<TcpStream> {
        Ok(self.accept()?.0)
    }
}

/// What a client hears.
pub(super) enum Reply {
    /// This, and it may ask again.
    Stay(String),
    /// This, and the connection ends.
    Leave(String),
    /// Nothing more: somebody else has answered.
    Gone,
}

/// How clients of a door speak.
pub(super) trait Protocol<C> {
    /// Most bytes of a request.
    const MAX_BYTES: usize;

    /// Length of the request that `heard` begins with, once it is whole.
    fn whole(heard: &[u8]) -> Option<usize>;

    /// Answers a request, or one that is longer than it may be (`None`).
    fn answer(&self, client: &C, request: Option<&[u8]>) -> Reply;
}

/// A client that is served.
struct Guest<C> {
    client: C,
    heard: Vec<u8>,
    /// The rest of an answer. Until the client has taken it, nothing more is heard of it.
    unsent: Vec<u8>,
    is_leaving: bool,
    until: Instant,
}

impl<C: AsFd> Guest<C> {
    fn new(client: C) -> Self {
        let until = Instant::now() + PATIENCE;
        Self { client, heard: Vec::new(), unsent: Vec::new(), is_leaving: false, until }
    }

    /// What it is waited for.
    fn interest(&self) -> PollFlags {
        if self.unsent.is_empty() { PollFlags::IN } else { PollFlags::OUT }
    }

    /// Hears or sends what is possible at once; `false` if the client is to go.
    fn attend<P: Protocol<C>>(&mut self, protocol: &P, is_ready: bool) -> bool {
        if !is_ready {
            return Instant::now() < self.until;
        }
        let done = if self.unsent.is_empty() { self.hear() } else { self.send() };
        done.is_ok() && self.answer(protocol) && !(self.is_leaving && self.unsent.is_empty())
    }

    fn hear(&mut self) -> Result<(), Errno> {
        let mut piece = [0; PIECE];
        match recv(&self.client, &mut piece[..], RecvFlags::DONTWAIT) {
            Ok((_, 0)) => return Err(Errno::PIPE),
            Ok((_, len)) => self.heard.extend_from_slice(&piece[..len]),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn send(&mut self) -> Result<(), Errno> {
        match send(&self.client, &self.unsent, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(len) => drop(self.unsent.drain(..len)),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Answers requests that are whole, one after the other as the client takes the answers.
    fn answer<P: Protocol<C>>(&mut self, protocol: &P) -> bool {
        while self.unsent.is_empty() && !self.is_leaving {
            let len = P::whole(&self.heard).filter(|len| *len <= P::MAX_BYTES);
            if len.is_none() && self.heard.len() < P::MAX_BYTES {
                return true;
            }
            let reply = protocol.answer(&self.client, len.map(|len| &self.heard[..len]));
            self.heard.drain(..len.unwrap_or(0));
            self.is_leaving = len.is_none() || matches!(reply, Reply::Leave(_));
            match reply {
                Reply::Gone => return false,
                Reply::Stay(text) | Reply::Leave(text) => self.unsent = text.into_bytes(),
            }
            self.until = Instant::now() + PATIENCE;
            if self.send().is_err() {
                return false;
            }
        }
        true
    }
}

/// Serves whoever comes, for ever.
pub(super) fn serve<D: Door>(door: &D, protocol: &impl Protocol<D::Client>) -> ! {
    let mut guests: Vec<Guest<D::Client>> = Vec::new();
    loop {
        let ready = listen(door, &guests);
        let mut of_guests = ready[1..].iter();
        guests.retain_mut(|guest| guest.attend(protocol, of_guests.next() == Some(&true)));
        if ready[0] {
            match door.admit() {
                Ok(client) => guests.push(Guest::new(client)),
                Err(_) => thread::sleep(ACCEPT_PAUSE),
            }
        }
        if guests.len() > MAX_CLIENTS {
            guests.remove(0);
        }
    }
}

/// Waits until somebody comes or speaks, or a client's time is over: whether there is a new client, then whether each
/// guest can be attended to.
fn listen<D: Door>(door: &D, guests: &[Guest<D::Client>]) -> Vec<bool> {
    let mut fds = vec![PollFd::new(door, PollFlags::IN)];
    fds.extend(guests.iter().map(|guest| PollFd::new(&guest.client, guest.interest())));
    let end = guests.iter().map(|guest| guest.until).min();
    let patience = end.map(|end| timespec(end.saturating_duration_since(Instant::now())));
    let _ = poll(&mut fds, patience.as_ref());
    fds.iter().map(|fd| !fd.revents().is_empty()).collect()
}
