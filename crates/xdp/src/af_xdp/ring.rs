//! The rings between user space and the kernel: a power of two of places and two counters that only grow. One side fills
//! places and then moves the producer's counter, the other empties them and moves the consumer's.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::memory::Memory;

/// What both ends of a ring consist of.
struct Ring<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    places: NonNull<T>,
    mask: u32,
    /// Our own counter; the kernel sees it when it is published.
    own: u32,
    /// The kernel's counter as last seen.
    other: u32,
    /// Keeps the pointers valid.
    _memory: Memory,
}

// SAFETY: the pointers are into `_memory`, which is the process's; a ring has one owner, and the kernel's side is only
// reached through atomics, or in places that the counters say are ours.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    fn map(
        socket: BorrowedFd<'_>,
        at: &libc::xdp_ring_offset,
        page: libc::off_t,
        len: u32,
    ) -> io::Result<Self> {
        assert!(len.is_power_of_two(), "a ring has a power of two of places");
        let places = at.desc as usize;
        let memory = Memory::of_socket(socket, places + len as usize * size_of::<T>(), page)?;
        Ok(Self {
            producer: memory.place(at.producer as usize),
            consumer: memory.place(at.consumer as usize),
            flags: memory.place(at.flags as usize),
            places: memory.place(places),
            mask: len - 1,
            own: 0,
            other: 0,
            _memory: memory,
        })
    }

    /// The place that our counter points to; `own & mask` is below the number of places that were mapped.
    fn place(&self) -> *mut T {
        // SAFETY: see above.
        unsafe { self.places.as_ptr().add((self.own & self.mask) as usize) }
    }
}

/// A counter or the flags of a ring.
fn shared(at: &NonNull<AtomicU32>) -> &AtomicU32 {
    // SAFETY: the pointer is into the ring's memory, which lives as long as the ring that `at` is borrowed from.
    unsafe { at.as_ref() }
}

/// A ring that we fill.
pub struct Producer<T>(Ring<T>);

impl<T: Copy> Producer<T> {
    /// Maps a ring of `len` places.
    pub fn map(
        socket: BorrowedFd<'_>,
        at: &libc::xdp_ring_offset,
        page: libc::off_t,
        len: u32,
    ) -> io::Result<Self> {
        Ring::map(socket, at, page, len).map(Self)
    }

    /// Puts something into the next place; `false` if the ring is full. The kernel sees it after [`Self::publish`].
    pub fn push(&mut self, element: T) -> bool {
        let ring = &mut self.0;
        if ring.own.wrapping_sub(ring.other) > ring.mask {
            ring.other = shared(&ring.consumer).load(Ordering::Acquire);
            if ring.own.wrapping_sub(ring.other) > ring.mask {
                return false;
            }
        }
        // SAFETY: the consumer is past this place, so it is ours until the producer's counter moves past it.
        unsafe { ring.place().write(element) };
        ring.own = ring.own.wrapping_add(1);
        true
    }

    /// Shows the kernel what was pushed.
    pub fn publish(&mut self) {
        shared(&self.0.producer).store(self.0.own, Ordering::Release);
    }

    /// Whether the kernel has to be called to look at the ring.
    pub fn needs_wakeup(&self) -> bool {
        shared(&self.0.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    /// Whether the kernel has taken all that was published.
    pub fn is_drained(&self) -> bool {
        shared(&self.0.consumer).load(Ordering::Acquire) == self.0.own
    }
}

/// A ring that we empty.
pub struct Consumer<T>(Ring<T>);

impl<T: Copy> Consumer<T> {
    /// Maps a ring of `len` places.
    pub fn map(
        socket: BorrowedFd<'_>,
        at: &libc::xdp_ring_offset,
        page: libc::off_t,
        len: u32,
    ) -> io::Result<Self> {
        Ring::map(socket, at, page, len).map(Self)
    }

    /// Takes the next element, if there is one. The kernel may reuse its place after [`Self::release`].
    pub fn pop(&mut self) -> Option<T> {
        let ring = &mut self.0;
        if ring.own == ring.other {
            ring.other = shared(&ring.producer).load(Ordering::Acquire);
            if ring.own == ring.other {
                return None;
            }
        }
        // SAFETY: the producer has filled this place, and it is ours until the consumer's counter moves past it.
        let element = unsafe { ring.place().read() };
        ring.own = ring.own.wrapping_add(1);
        Some(element)
    }

    /// Gives the places of what was taken back.
    pub fn release(&mut self) {
        shared(&self.0.consumer).store(self.0.own, Ordering::Release);
    }
}
