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
    use wiresum_wire::HEADER_LEN;

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
}
