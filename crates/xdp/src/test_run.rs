//! The kernel's test-run: a program on a frame in memory, without a network, on the calling thread's CPU.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use crate::XdpError;

/// Largest frame that a test-run takes: a page less its headroom and tailroom.
const MAX_TEST_FRAME: usize = 3520;

/// What a test-run of a program gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestRun {
    /// An XDP action.
    pub action: u32,
    /// The frame as the program left it.
    pub frame: Vec<u8>,
    /// Mean time of one repetition in nanoseconds, by the kernel's clock.
    pub nanoseconds: u64,
}

/// Runs a program `repeat` times in a row on the same memory, which holds the frame at first.
///
/// # Errors
/// The kernel's refusal.
pub fn run(program: BorrowedFd<'_>, frame: &[u8], repeat: u32) -> io::Result<TestRun> {
    let mut out = vec![0; MAX_TEST_FRAME];
    let mut options = libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_sys::bpf_test_run_opts>() as libbpf_sys::size_t,
        data_in: frame.as_ptr().cast(),
        data_size_in: frame.len() as u32,
        data_out: out.as_mut_ptr().cast(),
        data_size_out: out.len() as u32,
        repeat: repeat as i32,
        ..Default::default()
    };
    // SAFETY: the descriptor is open; the kernel reads and writes the two frames, which outlive the call, within their lengths.
    let status =
        unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut options) };
    if status < 0 {
        return Err(io::Error::from_raw_os_error(-status));
    }
    out.truncate(options.data_size_out as usize);
    Ok(TestRun { action: options.retval, frame: out, nanoseconds: options.duration.into() })
}

/// Calls a program of type `syscall` without arguments; returns what it returns.
///
/// # Errors
/// The kernel's refusal.
pub fn call(program: impl AsFd) -> io::Result<i32> {
    let mut options = libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_sys::bpf_test_run_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    // SAFETY: the descriptor is open, and the kernel writes to the options alone, which outlive the call.
    let status = unsafe {
        libbpf_sys::bpf_prog_test_run_opts(program.as_fd().as_raw_fd(), &raw mut options)
    };
    if status < 0 {
        return Err(io::Error::from_raw_os_error(-status));
    }
    Ok(options.retval as i32)
}

/// The error for a test-run that the kernel refuses.
pub fn refused(program: &str, cause: &io::Error) -> XdpError {
    XdpError::Kernel { action: format!("test-run of `{program}`"), cause: cause.to_string() }
}

/// Real-time priority of threads that measure, above everyone who is merely at work.
const PRIORITY: i32 = 10;

/// The CPUs that this process may use.
pub fn cpus() -> Vec<usize> {
    // SAFETY: zero is a value of the set, which outlives the call.
    let allowed = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of_val(&set), &raw mut set);
        set
    };
    // SAFETY: the index is within the set.
    (0..libc::CPU_SETSIZE as usize)
        .filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &allowed) })
        .collect()
}

/// Keeps the calling thread on a CPU, ahead of others if it may: without the privilege, figures are noisier, and nothing else.
pub fn stay_on(cpu: usize) {
    // SAFETY: zero is a value of the set; both arguments outlive the calls.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set);
        let priority = libc::sched_param { sched_priority: PRIORITY };
        libc::sched_setscheduler(0, libc::SCHED_RR, &raw const priority);
    }
}

/// Moves the calling thread, and those that it will start, to a network namespace with nothing in it but loopback, which lives as
/// long as what is returned.
///
/// # Errors
/// The kernel's refusal.
pub fn enter_empty_network() -> Result<File, XdpError> {
    // SAFETY: no memory is involved.
    let entered = match unsafe { libc::unshare(libc::CLONE_NEWNET) } {
        0 => File::open("/proc/thread-self/ns/net"),
        _ => Err(io::Error::last_os_error()),
    };
    entered.map_err(|cause| XdpError::Kernel {
        action: "making a network namespace".to_owned(),
        cause: cause.to_string(),
    })
}
