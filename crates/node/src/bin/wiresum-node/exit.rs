//! How the daemon fails: the one place for exit codes.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::process::ExitCode;

use thiserror::Error;
use wiresum_node::aggregators::kernel::KernelError;
use wiresum_node::station::LoadError;
use wiresum_xdp::XdpError;

/// For `--help`.
pub const EXIT_CODES: &str = "\
Exit codes:
  0  ended by SIGINT or SIGTERM
  1  failed while starting or serving
  2  a wrong option, plan or other file
  3  a privilege or a kernel feature is missing";

/// Why the daemon ends, with the remedy.
#[derive(Debug, Error)]
pub enum Failure {
    /// Exit code 1.
    #[error("{0}")]
    Runtime(String),
    /// Exit code 2.
    #[error("{0}")]
    Usage(String),
    /// Exit code 3.
    #[error("{0}")]
    Unsupported(String),
}

impl Failure {
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Runtime(_) => ExitCode::from(1),
            Self::Usage(_) => ExitCode::from(2),
            Self::Unsupported(_) => ExitCode::from(3),
        }
    }
}

pub fn bind_failure(address: SocketAddr, error: &io::Error) -> Failure {
    match error.kind() {
        ErrorKind::AddrInUse => Failure::Runtime(format!(
            "{address} is in use, perhaps by another wiresum-node (`ss -tulpn` says): end that, or choose another address with \
             --listen"
        )),
        ErrorKind::AddrNotAvailable => Failure::Usage(format!(
            "{address} is no address of this host: correct it in the plan, or choose another with --listen"
        )),
        ErrorKind::PermissionDenied => Failure::Unsupported(format!(
            "binding {address} is not permitted: choose a port above 1023 with --listen"
        )),
        _ => Failure::Runtime(format!(
            "{address}: cannot be bound ({error}); choose another address with --listen"
        )),
    }
}

pub fn switch_failure(error: LoadError) -> Failure {
    match error {
        LoadError::Kernel(error) => kernel_failure(error),
        other => Failure::Usage(other.to_string()),
    }
}

pub fn kernel_failure(error: KernelError) -> Failure {
    let message = error.to_string();
    match error.cause {
        XdpError::NotBuilt(_)
        | XdpError::NotPermitted
        | XdpError::Kernel { .. }
        | XdpError::Layout(_) => Failure::Unsupported(message),
        XdpError::NoInterface(_)
        | XdpError::TooMany { .. }
        | XdpError::LongPackets { .. }
        | XdpError::NoMemory { .. }
        | XdpError::NoRows { .. }
        | XdpError::Plan { .. }
        | XdpError::Place(_)
        | XdpError::SharedInterface(_) => Failure::Usage(message),
        XdpError::UnknownJob(_)
        | XdpError::UnknownPeer { .. }
        | XdpError::NotHeard(_)
        | XdpError::SlotBusy(_)
        | XdpError::UnknownNeighbour(_) => Failure::Runtime(message),
    }
}
