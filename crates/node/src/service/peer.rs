//! Who is at the other end of the control socket, by what the kernel says of its process.

use std::io;
use std::mem::size_of;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;

/// The option of `getsockopt` that tells a peer's supplementary groups (`asm-generic/socket.h`); the crate has no name for
/// it.
const SO_PEERGROUPS: libc::c_int = 59;
/// Most groups that a user is in (`NGROUPS_MAX` of Linux).
const MAX_GROUPS: usize = 65_536;

/// Whether a client may give orders: root, the daemon's user, or a member of the socket's group, whatever the file's
/// mode is by now.
///
/// # Errors
/// Who it is, and what to do.
pub(super) fn require_trusted(client: &UnixStream, socket: &Path) -> Result<(), String> {
    let failed = |error: io::Error| format!("the control socket's client is not known: {error}");
    let user = socket_peercred(client).map_err(|error| failed(error.into()))?;
    let group = std::fs::symlink_metadata(socket).map_err(failed)?.gid();
    let is_owner = user.uid.is_root() || user.uid == geteuid();
    if is_owner || user.gid.as_raw() == group || groups(client).map_err(failed)?.contains(&group) {
        return Ok(());
    }
    Err(format!(
        "user {} may not give orders: become the daemon's user, or a member of group {group}, which the socket has",
        user.uid.as_raw()
    ))
}

/// Supplementary groups of the process that has connected, as they were then.
fn groups(client: &UnixStream) -> io::Result<Vec<libc::gid_t>> {
    let mut groups = vec![0; MAX_GROUPS];
    let mut len = (MAX_GROUPS * size_of::<libc::gid_t>()) as libc::socklen_t;
    let (level, option) = (libc::SOL_SOCKET, SO_PEERGROUPS);
    // SAFETY: the descriptor is open, and `len` is the length in bytes of a list that outlives the call.
    let result = unsafe {
        libc::getsockopt(
            client.as_raw_fd(),
            level,
            option,
            groups.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    groups.truncate(len as usize / size_of::<libc::gid_t>());
    Ok(groups)
}
