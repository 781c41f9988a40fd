//! One non-blocking connection with its memory.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustix::event::epoll::EventFlags;
use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};

use super::inbox::{Fill, Inbox};
use super::outbox::Outbox;
use crate::carriers::poller::Poller;
use crate::udp::SendCounters;

/// Silence after which the kernel asks whether the peer's host is still there, and its pause between questions. A peer that
/// vanished without a word is noticed within four times this.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// A connection, made or in the making. The kernel sizes its buffers, as it does for every careful program.
pub struct PacketStream {
    socket: TcpStream,
    token: usize,
    interest: EventFlags,
    is_connecting: bool,
    /// What has come.
    pub inbox: Inbox,
    /// What is to go.
    pub outbox: Outbox,
}

impl PacketStream {
    /// A connection that a peer has made.
    ///
    /// # Errors
    /// What the kernel says to the socket's options.
    pub fn accepted(socket: TcpStream, token: usize, poller: &Poller) -> io::Result<Self> {
        Self::watched(Socket::from(socket), token, false, poller)
    }

    /// Begins to connect from `local` to `remote`.
    ///
    /// # Errors
    /// What the kernel says; a refusal may also come later.
    pub fn connect(
        local: SocketAddr,
        remote: SocketAddr,
        token: usize,
        poller: &Poller,
    ) -> io::Result<Self> {
        let socket = bound(local)?;
        socket.set_nonblocking(true)?;
        match socket.connect(&remote.into()) {
            Ok(()) => {}
            Err(error)
                if rustix::io::Errno::from_io_error(&error)
                    == Some(rustix::io::Errno::INPROGRESS) => {}
            Err(error) => return Err(error),
        }
        Self::watched(socket, token, true, poller)
    }

    fn watched(
        socket: Socket,
        token: usize,
        is_connecting: bool,
        poller: &Poller,
    ) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        // Writes are large, or the last for a while: none gains by waiting for more.
        socket.set_tcp_nodelay(true)?;
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE);
        socket.set_tcp_keepalive(&keepalive.with_retries(3))?;
        let socket = TcpStream::from(socket);
        let interest = if is_connecting { EventFlags::OUT } else { EventFlags::IN };
        poller.add(&socket, token, interest)?;
        let (inbox, outbox) = (Inbox::new(), Outbox::default());
        Ok(Self { socket, token, interest, is_connecting, inbox, outbox })
    }

    /// Whether the peer has not answered yet.
    pub fn is_connecting(&self) -> bool {
        self.is_connecting
    }

    /// To be called on each event: notes that the connection is made.
    ///
    /// # Errors
    /// Why it is not, or why it broke.
    pub fn note_event(&mut self, happened: EventFlags, poller: &Poller) -> io::Result<()> {
        if happened.contains(EventFlags::ERR)
            && let Some(error) = self.socket.take_error()?
        {
            return Err(error);
        }
        if self.is_connecting && happened.contains(EventFlags::OUT) {
            self.is_connecting = false;
            self.watch(true, poller)?;
        }
        Ok(())
    }

    /// Reads once into the inbox.
    ///
    /// # Errors
    /// What the kernel says, except that nothing is there.
    pub fn fill(&mut self) -> io::Result<Fill> {
        self.inbox.fill(&self.socket)
    }

    /// Offers what waits to the kernel; whether it has taken anything. Nothing is lost if it has not.
    ///
    /// # Errors
    /// Why the connection broke.
    pub fn write(&mut self, counters: &mut SendCounters) -> io::Result<bool> {
        if self.is_connecting || self.outbox.waiting() == 0 {
            return Ok(false);
        }
        self.outbox.write_to(&self.socket, counters)
    }

    /// Watches for what is worth waking up for: bytes, if they `may_come`, and room, if something waits for it.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn watch(&mut self, may_come: bool, poller: &Poller) -> io::Result<()> {
        if self.is_connecting {
            return Ok(());
        }
        let mut interest = EventFlags::empty();
        interest.set(EventFlags::IN, may_come);
        interest.set(EventFlags::OUT, self.outbox.waiting() > 0);
        if interest != self.interest {
            poller.modify(&self.socket, self.token, interest)?;
            self.interest = interest;
        }
        Ok(())
    }
}

/// A socket that is bound to `local`. The address may be shared with connections to other peers, and with broken ones.
///
/// # Errors
/// What the kernel says to `socket` and `bind`.
pub fn bound(local: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(local), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.bind(&local.into())?;
    Ok(socket)
}
