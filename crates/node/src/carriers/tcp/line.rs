//! A connection to a node above, made again whenever there is something to say and it is broken.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;
use wiresum_wire::{Header, Kind};
use zerocopy::FromBytes;

use super::inbox::Fill;
use super::outbox::WRITE_LEN;
use super::stream::PacketStream;
use crate::carriers::poller::Poller;
use crate::udp::SendCounters;

/// Pause between attempts to connect: that of hellos, which are what a worker says while it waits for a node to start.
const ATTEMPT_INTERVAL: Duration = Duration::from_millis(50);

/// The way to one node. It has no timer: whoever lacks something asks again, and asking makes the connection.
///
/// A new connection begins with the latest hello of each of the child's places there, as the node knows its children by where they call from.
/// A connection that breaks is made anew at once, unless it was made only just now.
pub struct Line {
    local: SocketAddr,
    remote: SocketAddr,
    token: usize,
    stream: Option<PacketStream>,
    attempted_at: Option<Instant>,
    hellos: Vec<((u16, u8), Vec<u8>)>,
    /// Why there is no connection.
    trouble: Option<String>,
}

impl Line {
    /// A line that has not been used yet; its events carry `token`.
    pub fn new(local: SocketAddr, remote: SocketAddr, token: usize) -> Self {
        let (stream, attempted_at, hellos, trouble) = (None, None, Vec::new(), None);
        Self { local, remote, token, stream, attempted_at, hellos, trouble }
    }

    /// Where the node is.
    pub fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// The connection, if there is one or one is being made.
    pub fn stream(&mut self) -> Option<&mut PacketStream> {
        self.stream.as_mut()
    }

    /// Queues a packet, connecting if need be; `true` if the line is due for a write. What cannot be queued is counted.
    pub fn push(&mut self, packet: &[u8], poller: &Poller, counters: &mut SendCounters) -> bool {
        let is_remembered = self.remember_hello(packet);
        let was_down = self.stream.is_none();
        if was_down {
            self.connect(poller);
        }
        let Some(stream) = &mut self.stream else {
            let trouble = self.trouble.as_deref().unwrap_or("the connection is broken");
            return refuse(counters, format!("{trouble} ({})", self.remote));
        };
        if was_down && is_remembered {
            counters.datagrams += 1;
            return false;
        }
        if !stream.outbox.push(packet) {
            return refuse(counters, format!("{} does not take what it is sent", self.remote));
        }
        counters.datagrams += 1;
        !stream.is_connecting() && stream.outbox.waiting() >= WRITE_LEN
    }

    /// Offers what waits to the kernel; `false` if it cannot take all of it now. A line in the making holds no one up.
    pub fn write(&mut self, may_come: bool, poller: &Poller, counters: &mut SendCounters) -> bool {
        let Some(stream) = &mut self.stream else { return true };
        match stream.write(counters).and_then(|_| stream.watch(may_come, poller)) {
            Ok(()) => stream.is_connecting() || stream.outbox.waiting() == 0,
            Err(error) => {
                self.hang_up(&format!("the connection broke: {error}"), poller, counters);
                true
            }
        }
    }

    /// To be called on each event of the line: notes that it is made, and reads what has come.
    pub fn read(
        &mut self,
        happened: EventFlags,
        poller: &Poller,
        counters: &mut SendCounters,
    ) -> Fill {
        let Some(stream) = &mut self.stream else { return Fill::Nothing };
        let was_connecting = stream.is_connecting();
        let read = stream.note_event(happened, poller).and_then(|()| {
            let is_due = happened.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::RDHUP);
            if is_due { stream.fill() } else { Ok(Fill::Nothing) }
        });
        let trouble = match read {
            Ok(Fill::End) => "the node has closed the connection".to_owned(),
            Ok(fill) => return fill,
            Err(error) if was_connecting => format!("connecting failed: {error}"),
            Err(error) => format!("the connection broke: {error}"),
        };
        self.hang_up(&trouble, poller, counters);
        Fill::Nothing
    }

    /// Gives the connection up with what waits in it, and makes another one unless this one is new.
    pub fn hang_up(&mut self, trouble: &str, poller: &Poller, counters: &mut SendCounters) {
        if let Some(stream) = self.stream.take() {
            counters.refused += stream.outbox.packets();
            counters.last_refusal = Some(format!("{trouble} ({})", self.remote));
        }
        self.trouble = Some(trouble.to_owned());
        self.connect(poller);
    }

    fn connect(&mut self, poller: &Poller) {
        let now = Instant::now();
        if self.attempted_at.is_some_and(|at| now < at + ATTEMPT_INTERVAL) {
            return;
        }
        self.attempted_at = Some(now);
        match PacketStream::connect(self.local, self.remote, self.token, poller) {
            Ok(mut stream) => {
                for (_, hello) in &self.hellos {
                    stream.outbox.push(hello);
                }
                self.stream = Some(stream);
            }
            Err(error) => self.trouble = Some(format!("connecting failed: {error}")),
        }
    }

    /// Keeps a hello for the next connection. There are as many as places of this child at the node.
    fn remember_hello(&mut self, packet: &[u8]) -> bool {
        let Ok((header, _)) = Header::ref_from_prefix(packet) else { return false };
        if header.kind != Kind::Hello as u8 {
            return false;
        }
        let place = (header.sub_model.get(), header.contributor);
        match self.hellos.iter_mut().find(|(known, _)| *known == place) {
            Some((_, hello)) => packet.clone_into(hello),
            None => self.hellos.push((place, packet.to_vec())),
        }
        true
    }
}

fn refuse(counters: &mut SendCounters, reason: impl Into<String>) -> bool {
    counters.refused += 1;
    counters.last_refusal = Some(reason.into());
    false
}

/// For an error that means that there is no packet where one should begin.
pub const NOT_A_PACKET: &str = "what the node sent is not a packet";

/// Whether an address can be bound here; a line binds one anew for each connection.
///
/// # Errors
/// What the kernel says.
pub fn check_local(local: SocketAddr) -> io::Result<()> {
    super::stream::bound(local).map(drop)
}
