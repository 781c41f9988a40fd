//! One AF_XDP socket: the frames of one receive queue of one interface, and frames to send through it.
//!
//! The frames lie in memory that is shared with the kernel. Each is at any time in exactly one place: with the kernel (in the
//! fill or the transmit ring, or on its way), with us, or free. Half of them are for receiving, half for sending.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::slice;

use wiresum_wire::PAGE_PACKET;

use super::ring::{Consumer, Producer};
use super::sending::Flushed;
use crate::memory::Memory;

/// Bytes of a frame: a page, which every driver can do, and which holds the largest packet behind the kernel's headroom.
pub const FRAME_LEN: usize = 4096;
/// Bytes before a datagram in its frame: room for the headers of any family, in whole cache lines.
const HEADROOM: usize = 64;
/// Places of a ring over the frames that it may have. The kernel shows a frame that it has filled, or sent, before it moves
/// its counter of the ring from which it took that frame, so for a moment there are more frames to be put in than places left.
const SLACK: u32 = 2;
/// Bytes that the kernel's sockets charge for one frame on its way out: frame and bookkeeping.
const SEND_CHARGE: usize = 2 * FRAME_LEN;

/// An AF_XDP socket with its frames, bound to one queue of one interface.
pub struct Socket {
    fd: OwnedFd,
    frames: Memory,
    frame_count: u32,
    fill: Producer<u64>,
    received: Consumer<libc::xdp_desc>,
    outgoing: Producer<libc::xdp_desc>,
    completed: Consumer<u64>,
    /// Offsets of the frames for sending that the kernel does not have.
    free: Vec<u64>,
    /// Something was sent that the kernel has not been told of.
    is_dirty: bool,
    /// System calls that had the kernel send.
    calls: u64,
}

/// What could not be done, and why.
pub type Failed = (&'static str, io::Error);

impl Socket {
    /// Opens a socket with `depth` frames each way (a power of two) and binds it to a queue. The driver's zero-copy mode is
    /// taken where it has one, copying otherwise.
    pub fn open(interface: u32, queue: u32, depth: u32) -> Result<Self, Failed> {
        let fd = socket().map_err(|error| ("opening an AF_XDP socket", error))?;
        let frame_count = 2 * depth;
        let frames = Memory::anonymous(frame_count as usize * FRAME_LEN)
            .map_err(|error| ("allocating the frames of an AF_XDP socket", error))?;
        let step = |step: &'static str| move |error| (step, error);
        register(&fd, &frames, frame_count)
            .map_err(step("registering the frames of an AF_XDP socket"))?;
        for (ring, len) in [
            (libc::XDP_UMEM_FILL_RING, SLACK * depth),
            (libc::XDP_UMEM_COMPLETION_RING, depth),
            (libc::XDP_RX_RING, depth),
            (libc::XDP_TX_RING, SLACK * depth),
        ] {
            set(&fd, libc::SOL_XDP, ring, &len)
                .map_err(step("sizing the rings of an AF_XDP socket"))?;
        }
        let mut socket =
            Self::map(fd, frames, depth).map_err(step("mapping the rings of an AF_XDP socket"))?;
        (0..depth).for_each(|frame| socket.give_back(u64::from(frame) * FRAME_LEN as u64));
        socket.fill.publish();
        bind(&socket.fd, interface, queue).map_err(step("binding an AF_XDP socket to a queue"))?;
        Ok(socket)
    }

    fn map(fd: OwnedFd, frames: Memory, depth: u32) -> io::Result<Self> {
        let at: libc::xdp_mmap_offsets = get(&fd, libc::XDP_MMAP_OFFSETS)?;
        let (fill, completion) = (
            libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t,
            libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t,
        );
        let sending = depth..2 * depth;
        Ok(Self {
            fill: Producer::map(fd.as_fd(), &at.fr, fill, SLACK * depth)?,
            received: Consumer::map(fd.as_fd(), &at.rx, libc::XDP_PGOFF_RX_RING, depth)?,
            outgoing: Producer::map(fd.as_fd(), &at.tx, libc::XDP_PGOFF_TX_RING, SLACK * depth)?,
            completed: Consumer::map(fd.as_fd(), &at.cr, completion, depth)?,
            free: sending.map(|frame| u64::from(frame) * FRAME_LEN as u64).collect(),
            frame_count: 2 * depth,
            frames,
            fd,
            is_dirty: false,
            calls: 0,
        })
    }

    /// Shows the next received frame to `read`; `None` if there is none.
    pub fn receive<R>(&mut self, read: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let descriptor = self.received.pop()?;
        let result = read(self.frame(descriptor.addr, descriptor.len as usize));
        self.give_back(descriptor.addr);
        Some(result)
    }

    /// Gives the kernel the frames that have been read.
    pub fn recycle(&mut self) {
        self.received.release();
        self.fill.publish();
    }

    /// Memory for a datagram, in a frame that is to be sent next; `None` if the kernel has all frames.
    pub fn room(&mut self) -> Option<&mut [u8; PAGE_PACKET]> {
        if self.free.is_empty() {
            self.reap();
        }
        let frame = *self.free.last()?;
        let room = self.frame(frame + HEADROOM as u64, PAGE_PACKET);
        Some(room.try_into().expect("as long as a packet"))
    }

    /// Queues the datagram of `len` bytes that is in the [`Self::room`], behind `headers` bytes that `write` is to fill: it is
    /// shown all of the frame. It leaves with [`Self::flush`].
    ///
    /// # Panics
    /// If there was no room, or the headers are longer than any.
    pub fn send_room(&mut self, headers: usize, len: usize, write: impl FnOnce(&mut [u8])) {
        let frame = self.free.pop().expect("there was room");
        let addr = frame + (HEADROOM - headers) as u64;
        let len = headers + len;
        write(self.frame(addr, len));
        let descriptor = libc::xdp_desc { addr, len: len as u32, options: 0 };
        assert!(self.outgoing.push(descriptor), "the ring has a place for each frame");
        self.is_dirty = true;
    }

    /// Has the kernel send what is queued. What it cannot take now it takes at the next call.
    pub fn flush(&mut self) -> Flushed {
        if self.is_dirty {
            self.outgoing.publish();
            self.is_dirty = false;
        }
        let flushed = self.wake_until_drained();
        self.reap();
        flushed
    }

    /// In copying mode a call sends a few dozen frames and then says EAGAIN, so there are at most as many calls as frames.
    fn wake_until_drained(&mut self) -> Flushed {
        for _ in 0..self.frame_count {
            if self.outgoing.is_drained() || !self.outgoing.needs_wakeup() {
                return Flushed::All;
            }
            self.calls += 1;
            match self.wake() {
                Ok(()) | Err(libc::EAGAIN) => {}
                Err(libc::ENXIO) => return Flushed::Gone,
                Err(_) => break,
            }
        }
        Flushed::Some
    }

    /// Wakes the kernel's sender; the error is its number.
    fn wake(&self) -> Result<(), i32> {
        // SAFETY: the descriptor is open; nothing is passed.
        let sent = unsafe {
            libc::sendto(
                self.fd.as_raw_fd(),
                std::ptr::null(),
                0,
                libc::MSG_DONTWAIT,
                std::ptr::null(),
                0,
            )
        };
        if sent >= 0 {
            return Ok(());
        }
        Err(io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }

    fn reap(&mut self) {
        while let Some(addr) = self.completed.pop() {
            self.free.push(start_of_frame(addr));
        }
        self.completed.release();
    }

    fn give_back(&mut self, addr: u64) {
        assert!(self.fill.push(start_of_frame(addr)), "the ring has a place for each frame");
    }

    /// `len` bytes of a frame from offset `addr`, which may lie behind the frame's headroom.
    ///
    /// # Panics
    /// If the kernel names bytes that are not in one frame.
    fn frame(&mut self, addr: u64, len: usize) -> &mut [u8] {
        let (start, within) = (addr as usize, addr as usize % FRAME_LEN);
        let most = self.frame_count as usize * FRAME_LEN;
        assert!(
            within + len <= FRAME_LEN && start + len <= most,
            "{len} bytes at {addr} of {most}"
        );
        // SAFETY: the bytes lie in the mapping, and the frame is ours: the kernel has just given it to us, or it was free.
        // No other reference exists, as this one borrows the socket.
        unsafe { slice::from_raw_parts_mut(self.frames.start().as_ptr().add(start), len) }
    }

    /// Whether the driver reads and writes the frames itself.
    pub fn is_zero_copy(&self) -> bool {
        let options: io::Result<u32> = get(&self.fd, libc::XDP_OPTIONS);
        options.is_ok_and(|options| options & libc::XDP_OPTIONS_ZEROCOPY != 0)
    }

    /// System calls that had the kernel send.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Frames that the kernel had to drop because we were too slow.
    pub fn dropped(&self) -> u64 {
        let statistics: io::Result<[u64; 6]> = get(&self.fd, libc::XDP_STATISTICS);
        // Dropped, ring full, fill ring empty; the others count descriptors that we got wrong.
        statistics.map_or(0, |counts| counts[0] + counts[3] + counts[4])
    }

    /// Bytes of frames; fixed.
    pub fn memory_bytes(&self) -> usize {
        self.frame_count as usize * FRAME_LEN
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Offset of the frame that has the byte at this offset: the kernel names a packet by its first byte.
fn start_of_frame(addr: u64) -> u64 {
    addr & !(FRAME_LEN as u64 - 1)
}

fn socket() -> io::Result<OwnedFd> {
    // SAFETY: no memory is passed.
    let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given us this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn register(fd: &OwnedFd, frames: &Memory, frame_count: u32) -> io::Result<()> {
    let registration = libc::xdp_umem_reg {
        addr: frames.start().as_ptr() as u64,
        len: u64::from(frame_count) * FRAME_LEN as u64,
        chunk_size: FRAME_LEN as u32,
        headroom: 0,
        flags: 0,
        tx_metadata_len: 0,
    };
    set(fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &registration)?;
    // Copied frames are charged to the socket until the receiver has them. Without CAP_NET_ADMIN the system's limit holds.
    let charge = (frame_count as usize * SEND_CHARGE) as libc::c_int;
    set(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &charge)
        .or_else(|_| set(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, &charge))
}

fn bind(fd: &OwnedFd, interface: u32, queue: u32) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        // Neither XDP_COPY nor XDP_ZEROCOPY: the kernel tries the latter and falls back.
        sxdp_flags: libc::XDP_USE_NEED_WAKEUP,
        sxdp_ifindex: interface,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: 0,
    };
    let len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the address outlives the call, and its length is right.
    let status = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn set<T>(fd: &OwnedFd, level: i32, option: i32, value: &T) -> io::Result<()> {
    let (at, len) = ((&raw const *value).cast(), size_of::<T>() as libc::socklen_t);
    // SAFETY: the value outlives the call, and its length is right.
    let status = unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, at, len) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// An option of the level SOL_XDP; `T` is a struct of integers, for which any bytes will do.
fn get<T>(fd: &OwnedFd, option: i32) -> io::Result<T> {
    let mut value = std::mem::MaybeUninit::<T>::zeroed();
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to the value.
    let status = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_XDP,
            option,
            value.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: integers, all written: by zeros first, and by the kernel.
    Ok(unsafe { value.assume_init() })
}

#[cfg(test)]
mod tests {
    use wiresum_testkit::capability;

    use super::*;
    use crate::test_run::enter_empty_network;
    use crate::{XdpAggregator, kernel};

    const DEPTH: u32 = 256;

    /// A socket at the loopback interface of a network of its own, which is down, so nothing takes or brings a frame.
    fn quiet_socket() -> (std::fs::File, Socket) {
        let network = enter_empty_network().expect("a network namespace");
        let interface = kernel::interface_index("lo").expect("a loopback interface");
        (network, Socket::open(interface, 0, DEPTH).expect("a socket"))
    }

    #[test]
    fn frames_find_a_place_before_the_kernel_has_moved_its_counters() {
        if !capability::is_here("bpf", XdpAggregator::check_support()) {
            return;
        }
        let (_network, mut socket) = quiet_socket();
        // As if all had been received, or sent, by a kernel whose counters are late.
        (0..DEPTH).for_each(|frame| socket.give_back(u64::from(frame) * FRAME_LEN as u64));
        let sending = socket.free.clone();
        for frames in [&sending, &sending] {
            socket.free.clone_from(frames);
            (0..DEPTH).for_each(|_| socket.send_room(0, 1, |_| ()));
        }
    }
}
