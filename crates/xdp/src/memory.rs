//! Memory that is shared with the kernel.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};

/// A mapping; unmapped when dropped.
pub struct Memory {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping belongs to the process, not to the thread that made it.
unsafe impl Send for Memory {}

impl Memory {
    /// Zeroed memory of the process, present from the start: the kernel writes packets to it where no page fault can be taken.
    pub fn anonymous(len: usize) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
        unsafe { Self::map(len, flags, -1, 0) }
    }

    /// A ring of an AF_XDP socket.
    pub fn of_socket(socket: BorrowedFd<'_>, len: usize, offset: libc::off_t) -> io::Result<Self> {
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: as above; the descriptor is open.
        unsafe { Self::map(len, flags, socket.as_raw_fd(), offset) }
    }

    /// The values of an array map that was made to be mapped.
    pub fn of_map(map: BorrowedFd<'_>, len: usize) -> io::Result<Self> {
        // SAFETY: as above.
        unsafe { Self::map(len, libc::MAP_SHARED, map.as_raw_fd(), 0) }
    }

    unsafe fn map(len: usize, flags: i32, fd: i32, offset: libc::off_t) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the callers' promise.
        let start = unsafe { libc::mmap(ptr::null_mut(), len, access, flags, fd, offset) };
        match NonNull::new(start.cast::<u8>()) {
            Some(start) if start.as_ptr().cast() != libc::MAP_FAILED => Ok(Self { start, len }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Address of the first byte, page-aligned.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Address of something `offset` bytes from the start.
    ///
    /// # Panics
    /// If it does not lie in the mapping, or is not aligned.
    pub fn place<T>(&self, offset: usize) -> NonNull<T> {
        let end = offset.checked_add(size_of::<T>());
        assert!(end.is_some_and(|end| end <= self.len), "offset {offset} of {} bytes", self.len);
        // SAFETY: the offset lies in the mapping.
        let place = unsafe { self.start.add(offset) }.cast::<T>();
        assert!(place.is_aligned(), "offset {offset} is not aligned");
        place
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing that borrows from it outlives it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
