//! How many receive queues an interface has.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// `ETHTOOL_GCHANNELS` of linux/ethtool.h.
const GET_CHANNELS: u32 = 0x3c;
/// More queues than this get no socket; what they receive takes the kernel's stack to the daemon's UDP socket.
const MAX_QUEUES: u32 = 64;

/// `struct ethtool_channels`.
#[derive(Default)]
#[repr(C)]
struct Channels {
    command: u32,
    most: [u32; 4],
    receive: u32,
    transmit: u32,
    other: u32,
    combined: u32,
}

/// Receive queues in use; 1 for a driver that does not say.
pub fn receive_queues(interface: &str) -> u32 {
    let channels = channels(interface).unwrap_or_default();
    (channels.receive + channels.combined).clamp(1, MAX_QUEUES)
}

fn channels(interface: &str) -> Option<Channels> {
    // SAFETY: no memory is passed.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return None;
    }
    // SAFETY: the kernel has just given us this descriptor.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut channels = Channels { command: GET_CHANNELS, ..Channels::default() };
    // SAFETY: zero is a value of every field.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes().take(libc::IFNAMSIZ - 1)) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut channels).cast();
    // SAFETY: the request and what it points to outlive the call; the kernel writes one `ethtool_channels`.
    let status = unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) };
    (status == 0).then_some(channels)
}
