//! One AF_XDP socket: the frames of one receive queue of one interface, and frames to send through it.
//!
//! The frames lie in memory that is shared with the kernel. Each is at any time in exactly one place: with the kernel (in the
//! fill or the transmit ring, or on its way), with us, or free. Half of them are for receiving, half for sending.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::slice;

use super::ring::{Consumer, Producer};
use crate::memory::Memory;

/// Bytes of a frame: a page, which every driver can do, and which holds the largest packet behind the kernel's headroom.
pub const FRAME_LEN: usize = 4096;
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
        for ring in [
            libc::XDP_UMEM_FILL_RING,
            libc::XDP_UMEM_COMPLETION_RING,
            libc::XDP_RX_RING,
            libc::XDP_TX_RING,
        ] {
            set(&fd, libc::SOL_XDP, ring, &depth)
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
            fill: Producer::map(fd.as_fd(), &at.fr, fill, depth)?,
            received: Consumer::map(fd.as_fd(), &at.rx, libc::XDP_PGOFF_RX_RING, depth)?,
            outgoing: Producer::map(fd.as_fd(), &at.tx, libc::XDP_PGOFF_TX_RING, depth)?,
            completed: Consumer::map(fd.as_fd(), &at.cr, completion, depth)?,
            free: sending.map(|frame| u64::from(frame) * FRAME_LEN as u64).collect(),
            frame_count: 2 * depth,
            frames,
            fd,
            is_dirty: false,
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

    /// Lets `write` fill a frame of `len` bytes, to be sent by [`Self::flush`]; `false` if the kernel has all frames.
    pub fn send(&mut self, len: usize, write: impl FnOnce(&mut [u8])) -> bool {
        if self.free.is_empty() {
            self.reap();
        }
        let Some(addr) = self.free.pop() else { return false };
        write(self.frame(addr, len));
        let descriptor = libc::xdp_desc { addr, len: len as u32, options: 0 };
        assert!(self.outgoing.push(descriptor), "the ring has a place for each frame");
        self.is_dirty = true;
        true
    }

    /// Has the kernel send what is queued. What it cannot take now it takes at the next call.
    pub fn flush(&mut self) {
        if self.is_dirty {
            self.outgoing.publish();
            self.is_dirty = false;
        }
        // In copying mode a call sends a few dozen frames and then says EAGAIN, so there are at most as many calls as frames.
        for _ in 0..self.frame_count {
            if self.outgoing.is_drained() || !self.outgoing.needs_wakeup() || !self.wake() {
                break;
            }
        }
        self.reap();
    }

    /// Wakes the kernel's sender; `false` if it cannot go on before others have made room.
    fn wake(&self) -> bool {
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
        sent >= 0 || io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN)
    }

    fn reap(&mut self) {
        while let Some(addr) = self.completed.pop() {
            self.free.push(addr);
        }
        self.completed.release();
    }

    fn give_back(&mut self, addr: u64) {
        let start = addr & !(FRAME_LEN as u64 - 1);
        assert!(self.fill.push(start), "the ring has a place for each frame");
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
