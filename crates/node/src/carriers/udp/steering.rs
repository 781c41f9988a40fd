//! Several sockets at one address, each with jobs of its own: the kernel reads the job from a packet and chooses its
//! socket.
//!
//! The choice is a classic BPF program, which needs no privilege. It sees a datagram from its first byte on; where receive
//! offload has joined several, it judges by the first, so a packet may come to another socket than its job's.

use std::io;
use std::mem::offset_of;
use std::os::fd::AsRawFd;

use socket2::SockRef;
use wiresum_wire::{Header, JobId};

use super::Socket;
use super::filter::{IF_EQUAL, LOAD16, Program, RETURN};

impl Socket {
    /// One more socket at the address of this one, with room for as many datagrams as may be on their way to it.
    ///
    /// Whoever is alone at an address has taken it for itself, so no other daemon can be among those who share it.
    ///
    /// # Errors
    /// What the kernel says to `setsockopt` and `bind`.
    pub fn join(&self, datagrams: usize) -> io::Result<Self> {
        let address = self.local_address()?;
        let (socket, wanted) = Self::make(address, datagrams)?;
        SockRef::from(&self.io).set_reuse_port(true)?;
        socket.set_reuse_port(true)?;
        socket.bind(&address.into())?;
        Self::adopt(socket.into(), wanted)
    }

    /// Has the kernel put packets of these jobs into these sockets, counted in the order in which they were bound, and all
    /// others into the first.
    ///
    /// # Errors
    /// What the kernel says to the program.
    pub fn steer(&self, places: &[(JobId, usize)]) -> io::Result<()> {
        let instructions = program(places).0;
        let program = libc::sock_fprog {
            len: instructions.len() as libc::c_ushort,
            filter: instructions.as_ptr().cast_mut().cast(),
        };
        // SAFETY: the descriptor is open, and `SockFilter` is the kernel's `sock_filter`; the kernel copies the
        // instructions, and writes to none of them.
        let answer = unsafe {
            libc::setsockopt(
                self.io.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ATTACH_REUSEPORT_CBPF,
                (&raw const program).cast(),
                size_of_val(&program) as libc::socklen_t,
            )
        };
        if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// The number of a packet's socket. A packet too short to name a job goes to the first.
fn program(places: &[(JobId, usize)]) -> Program {
    let mut program = Program::default();
    program.then(LOAD16, offset_of!(Header, job) as u32);
    for (job, socket) in places {
        program.branch(IF_EQUAL, job.0.into(), 0, 1);
        program.then(RETURN, *socket as u32);
    }
    program.then(RETURN, 0);
    program
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, UdpSocket};

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use wiresum_testkit::capability;
    use wiresum_wire::HEADER_LEN;

    use super::*;
    use crate::udp::ReceiveBatch;

    const PATIENCE: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

    fn of_job(job: u16) -> Vec<u8> {
        let mut packet = vec![job as u8; HEADER_LEN];
        packet[offset_of!(Header, job)..][..2].copy_from_slice(&job.to_be_bytes());
        packet
    }

    /// Which of two sockets gets a datagram.
    fn taker(sockets: &[Socket; 2], datagram: &[u8]) -> usize {
        let to = sockets[0].local_address().expect("bound");
        let sender = UdpSocket::bind(SocketAddr::new(to.ip(), 0)).expect("a port");
        sender.send_to(datagram, to).expect("sent");
        let mut fds = [0, 1].map(|index| PollFd::new(&sockets[index], PollFlags::IN));
        assert_eq!(poll(&mut fds, Some(&PATIENCE)).expect("poll"), 1);
        let taker = usize::from(fds[0].revents().is_empty());
        let mut batch = ReceiveBatch::default();
        sockets[taker].receive(&mut batch).expect("received");
        assert!(batch.datagrams().all(|(_, arrived)| arrived == datagram));
        taker
    }

    #[test]
    fn packets_come_to_the_socket_of_their_job() {
        packets_are_steered("127.0.0.1:0");
    }

    #[test]
    fn packets_come_to_the_socket_of_their_job_over_ipv6() {
        let address = "[::1]:0";
        if capability::is_here("ipv6", UdpSocket::bind(address).map(drop)) {
            packets_are_steered(address);
        }
    }

    fn packets_are_steered(address: &str) {
        let first = Socket::bind(address.parse().expect("an address"), 1).expect("a socket");
        let second = first.join(1).expect("a second socket");
        let sockets = [first, second];
        for places in [[0, 1], [1, 0]] {
            let jobs = [JobId(7), JobId(0x0708)];
            let places = [(jobs[0], places[0]), (jobs[1], places[1])];
            sockets[0].steer(&places).expect("a program that the kernel takes");
            for (job, place) in places {
                assert_eq!(taker(&sockets, &of_job(job.0)), place, "job {job}");
            }
            for nobodys in [of_job(9), vec![], vec![7; 5]] {
                assert_eq!(taker(&sockets, &nobodys), 0, "{nobodys:?}");
            }
        }
    }

    #[test]
    fn an_address_that_is_shared_is_taken() {
        let first = Socket::bind("127.0.0.1:0".parse().expect("an address"), 1).expect("a socket");
        let _second = first.join(1).expect("a second socket");
        let refused = Socket::bind(first.local_address().expect("bound"), 1);
        assert_eq!(refused.err().map(|error| error.kind()), Some(io::ErrorKind::AddrInUse));
    }
}
