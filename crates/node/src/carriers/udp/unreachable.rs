//! What hosts answer when nothing listens at a port: the sooner a worker knows that its node is gone, the shorter the pause.

use std::io;
use std::mem::{MaybeUninit, size_of, zeroed};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;

use socket2::SockAddr;

use wiresum_wire::HEADER_LEN;

use super::Socket;

/// How a datagram began that met nobody, as whoever sent the error quotes it; zeros where the quote ends early.
pub type Quote = [u8; HEADER_LEN];

/// What errors about earlier datagrams are called, by Linux' tables of ICMP and ICMPv6 (`icmp_err_convert`,
/// `icmpv6_err_convert`) and where a neighbour does not answer. Whoever guesses two ports can forge one, so none may end a
/// socket: what they are about is lost, and sent again.
const OF_A_DESTINATION: [libc::c_int; 10] = [
    libc::ECONNREFUSED,
    libc::EHOSTUNREACH,
    libc::ENETUNREACH,
    libc::EHOSTDOWN,
    libc::ENONET,
    libc::ENOPROTOOPT,
    libc::EOPNOTSUPP,
    libc::EPROTO,
    libc::EACCES,
    libc::EMSGSIZE,
];

/// Whether an error of a call is about an earlier datagram's destination, and not about the socket.
pub(super) fn is_of_a_destination(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| OF_A_DESTINATION.contains(&code))
}

/// Room for the control messages of one error: an extended error with the offender's address, and more that some kernels add.
const CONTROL_BYTES: usize = 512;

impl Socket {
    /// Asks the kernel to tell which destinations are unreachable. From now on [`Self::next_refused`] has to be called when
    /// [`Self::has_errors`].
    pub fn report_errors(&self) {
        let on: libc::c_int = 1;
        let options = [(libc::SOL_IP, libc::IP_RECVERR), (libc::SOL_IPV6, libc::IPV6_RECVERR)];
        for (level, option) in options {
            let len = size_of::<libc::c_int>() as libc::socklen_t;
            // SAFETY: the descriptor is open and the option's value is an integer that outlives the call. A refusal (the other
            // family's option) changes nothing.
            unsafe {
                libc::setsockopt(self.io.as_raw_fd(), level, option, (&raw const on).cast(), len)
            };
        }
    }

    /// Whether sending or receiving has met an error since the last call.
    pub fn has_errors(&self) -> bool {
        self.errors.take()
    }

    /// The next destination at which nothing listens, and the start of the datagram that did not get there; `None` when
    /// there are no more errors.
    pub fn next_refused(&self) -> Option<(SocketAddr, Quote)> {
        loop {
            let (destination, code, quote) = self.next_error().ok()?;
            if code == libc::ECONNREFUSED as u32
                && let Some(destination) = destination
            {
                return Some((destination, quote));
            }
        }
    }

    /// Takes an error from the socket's queue: the destination of the datagram that it is about, its number, and what
    /// it quotes.
    fn next_error(&self) -> io::Result<(Option<SocketAddr>, u32, Quote)> {
        #[repr(C, align(8))]
        struct Control([u8; CONTROL_BYTES]);
        let mut control = Control([0; CONTROL_BYTES]);
        let mut name = MaybeUninit::<libc::sockaddr_storage>::zeroed();
        let mut quote: Quote = [0; HEADER_LEN];
        let mut part = libc::iovec { iov_base: quote.as_mut_ptr().cast(), iov_len: quote.len() };
        // SAFETY: all zeros is a message without name, data and control, which are set below. What is quoted beyond
        // the room for it is left out.
        let mut message: libc::msghdr = unsafe { zeroed() };
        message.msg_name = name.as_mut_ptr().cast();
        message.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = CONTROL_BYTES;
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        // SAFETY: the message points to memory of this frame, as long as it says.
        if unsafe { libc::recvmsg(self.io.as_raw_fd(), &raw mut message, flags) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has written the name, of this length; the rest is zeros.
        let name =
            unsafe { SockAddr::new(transmute_storage(name.assume_init()), message.msg_namelen) };
        Ok((name.as_socket(), error_number(&message), quote))
    }
}

/// socket2 wraps the same C struct.
fn transmute_storage(storage: libc::sockaddr_storage) -> socket2::SockAddrStorage {
    // SAFETY: `SockAddrStorage` is a transparent wrapper of `sockaddr_storage`.
    unsafe { std::mem::transmute(storage) }
}

/// The number in the extended error of a message from an error queue; 0 if it has none.
fn error_number(message: &libc::msghdr) -> u32 {
    // SAFETY: the message's control memory is alive and as long as the kernel has left it; these macros stay within it.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while let Some(control) = header.as_ref() {
            let kind = (control.cmsg_level, control.cmsg_type);
            if kind == (libc::SOL_IP, libc::IP_RECVERR)
                || kind == (libc::SOL_IPV6, libc::IPV6_RECVERR)
            {
                let data = libc::CMSG_DATA(header).cast::<libc::sock_extended_err>();
                return data.read_unaligned().ee_errno;
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use socket2::{Domain, Protocol, Type};
    use std::net::{IpAddr, SocketAddr};
    use std::panic::resume_unwind;
    use std::process::Command;
    use std::thread;
    use wiresum_wire::HEADER_LEN;
    use wiresum_xdp::test_run::enter_empty_network;

    /// Codes of "destination unreachable", fragmentation needed among them, and of two further types.
    const FORGED: [(u8, u8); 18] = [
        (3, 0),
        (3, 1),
        (3, 2),
        (3, 3),
        (3, 4),
        (3, 5),
        (3, 6),
        (3, 7),
        (3, 8),
        (3, 9),
        (3, 10),
        (3, 11),
        (3, 12),
        (3, 13),
        (3, 14),
        (3, 15),
        (11, 0),
        (12, 0),
    ];
    const FORGED_V6: [(u8, u8); 10] =
        [(1, 0), (1, 1), (1, 2), (1, 3), (1, 4), (1, 5), (1, 6), (2, 0), (3, 0), (4, 0)];

    fn wait(socket: &Socket) {
        let mut fds = [PollFd::new(socket, PollFlags::IN)];
        let patience = Timespec { tv_sec: 5, tv_nsec: 0 };
        assert!(poll(&mut fds, Some(&patience)).expect("poll") > 0, "no answer");
    }

    #[test]
    fn a_closed_port_is_named_and_the_socket_goes_on() {
        for any in ["127.0.0.1:0", "[::1]:0"] {
            let bound = Socket::bind(any.parse().expect("an address"), 1);
            let version = if any.starts_with('[') { "ipv6" } else { "ipv4" };
            if !wiresum_testkit::capability::is_here(version, bound.as_ref().map(drop)) {
                continue;
            }
            let socket = bound.expect("judged above");
            socket.report_errors();
            let closed = Socket::bind(any.parse().expect("an address"), 1).expect("a socket");
            let address = closed.local_address().expect("bound");
            drop(closed);
            let mut queue = SendQueue::default();
            queue.push(address, &[7; HEADER_LEN]);
            assert!(queue.flush(&socket));
            wait(&socket);
            let mut batch = ReceiveBatch::default();
            assert!(
                !socket
                    .receive(&mut batch)
                    .expect("an error of a destination is none of the socket")
            );
            assert!(socket.has_errors());
            assert_eq!(socket.next_refused(), Some((address, [7; HEADER_LEN])));
            assert_eq!(socket.next_refused(), None);
            let own = socket.local_address().expect("bound");
            queue.push(own, &[7; HEADER_LEN]);
            assert!(queue.flush(&socket));
            wait(&socket);
            socket.receive(&mut batch).expect("receive");
            assert_eq!(batch.datagrams().count(), 1);
        }
    }

    #[test]
    fn errors_that_anyone_can_forge_end_no_socket() {
        for (any, version, forged) in
            [("127.0.0.1:0", "ipv4", &FORGED[..]), ("[::1]:0", "ipv6", &FORGED_V6[..])]
        {
            let any: SocketAddr = any.parse().expect("an address");
            let bound = Socket::bind(any, 1).map(drop);
            let raw = raw(any.ip()).map(drop);
            if wiresum_testkit::capability::is_here(version, bound)
                && wiresum_testkit::capability::is_here("root", raw)
            {
                in_a_network_of_its_own(|| meet_errors(any, forged));
            }
        }
    }

    /// The kernel remembers for ten minutes what these errors say of paths, and misleads whoever else uses the host's
    /// loopback.
    fn in_a_network_of_its_own(work: impl FnOnce() + Send) {
        let alone = || {
            let _network = enter_empty_network().expect("a network namespace");
            let up = Command::new("ip").args(["link", "set", "lo", "up"]).status();
            assert!(up.expect("iproute2 is installed").success());
            work();
        };
        let outcome = thread::scope(|scope| scope.spawn(alone).join());
        outcome.unwrap_or_else(|panic| resume_unwind(panic));
    }

    fn meet_errors(any: SocketAddr, forged: &[(u8, u8)]) {
        let socket = Socket::bind(any, 1).expect("a socket");
        let raw = raw(any.ip()).expect("a socket for ICMP");
        socket.report_errors();
        let own = socket.local_address().expect("bound");
        for &(kind, code) in forged {
            let message = icmp(own, kind, code);
            raw.send_to(&message, &SocketAddr::new(own.ip(), 0).into()).expect("sent");
            let mut queue = SendQueue::default();
            queue.push(own, &[code; HEADER_LEN]);
            assert!(queue.flush(&socket), "type {kind}, code {code}");
            assert_eq!(queue.counters.refused, 0, "type {kind}, code {code}");
            assert_eq!(arrived(&socket), 1, "type {kind}, code {code}");
        }
    }

    /// How many datagrams come at once; what else wakes the socket is taken from its queue of errors.
    fn arrived(socket: &Socket) -> usize {
        let mut batch = ReceiveBatch::default();
        loop {
            wait(socket);
            socket.receive(&mut batch).expect("an error of a destination is none of the socket");
            while socket.next_refused().is_some() {}
            match batch.datagrams().count() {
                0 => {}
                count => return count,
            }
        }
    }

    fn raw(address: IpAddr) -> std::io::Result<socket2::Socket> {
        let protocol = if address.is_ipv4() { Protocol::ICMPV4 } else { Protocol::ICMPV6 };
        let domain = if address.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
        socket2::Socket::new(domain, Type::RAW, Some(protocol))
    }

    /// A message that a datagram from `own` to port 9 of its host did not arrive.
    fn icmp(own: SocketAddr, kind: u8, code: u8) -> Vec<u8> {
        let mut message = vec![kind, code, 0, 0, 0, 0, 0, 0];
        if let (IpAddr::V4(_), 3, 4) = (own.ip(), kind, code) {
            message[6..8].copy_from_slice(&1_400u16.to_be_bytes());
        }
        match own.ip() {
            IpAddr::V4(ip) => {
                message.extend([0x45, 0, 0, 128, 0, 0, 0, 0, 64, 17, 0, 0]);
                message.extend([ip.octets(), ip.octets()].concat());
            }
            IpAddr::V6(ip) => {
                message[4..8]
                    .copy_from_slice(&u32::from(kind == 2).wrapping_mul(1_400).to_be_bytes());
                message.extend([0x60, 0, 0, 0, 0, 128, 17, 64]);
                message.extend([ip.octets(), ip.octets()].concat());
            }
        }
        message.extend(
            [own.port().to_be_bytes(), 9u16.to_be_bytes(), 108u16.to_be_bytes(), [0; 2]].concat(),
        );
        if own.is_ipv4() {
            let sum = message
                .chunks(2)
                .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
                .sum::<u32>();
            let sum = (sum & 0xffff) + (sum >> 16);
            message[2..4].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
        }
        message
    }
}
