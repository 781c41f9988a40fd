//! Network interfaces of this host, by address.

use std::ffi::CStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr;

/// The name of the interface that has an address.
pub fn with_address(wanted: IpAddr) -> Option<String> {
    let mut first = ptr::null_mut();
    // SAFETY: the pointer is to a place for the list's head.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return None;
    }
    let mut next: *const libc::ifaddrs = first;
    let mut found = None;
    // SAFETY: what the kernel's list points to lasts until it is freed, below.
    while let Some(entry) = unsafe { next.as_ref() } {
        // SAFETY: as above; the name ends with a NUL.
        if unsafe { address(entry) } == Some(wanted) {
            let name = unsafe { CStr::from_ptr(entry.ifa_name) };
            found = Some(name.to_string_lossy().into_owned());
            break;
        }
        next = entry.ifa_next;
    }
    // SAFETY: the list was made above, and nothing refers to it any more.
    unsafe { libc::freeifaddrs(first) };
    found
}

/// The address of an entry, if it is of the Internet.
///
/// # Safety
/// The entry is of `getifaddrs`.
unsafe fn address(entry: &libc::ifaddrs) -> Option<IpAddr> {
    // SAFETY: by the contract the pointer is null or to a socket address, whose family says how long it is.
    unsafe {
        match i32::from(entry.ifa_addr.as_ref()?.sa_family) {
            libc::AF_INET => {
                let address = &*entry.ifa_addr.cast::<libc::sockaddr_in>();
                Some(IpAddr::V4(Ipv4Addr::from(address.sin_addr.s_addr.to_ne_bytes())))
            }
            libc::AF_INET6 => {
                let address = &*entry.ifa_addr.cast::<libc::sockaddr_in6>();
                Some(IpAddr::V6(Ipv6Addr::from(address.sin6_addr.s6_addr)))
            }
            _ => None,
        }
    }
}
