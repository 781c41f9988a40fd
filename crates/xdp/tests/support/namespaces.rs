//! Network namespaces that live as long as a test.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::OnceLock;
use std::thread;

use wiresum_testkit::capability;

/// A namespace; deleted, with the interfaces in it, when dropped.
pub struct Namespace {
    pub name: String,
}

impl Namespace {
    pub fn new(label: &str) -> Self {
        let name = format!("ws-xdp-{}-{label}", std::process::id());
        ip(&["netns", "add", &name]);
        let namespace = Self { name };
        namespace.ip(&["link", "set", "lo", "up"]);
        namespace
    }

    /// Runs `ip` inside.
    pub fn ip(&self, arguments: &[&str]) {
        ip(&[&["-n", &self.name], arguments].concat());
    }

    /// Runs `work` on a thread inside; sockets that it makes belong to the namespace for good.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let file = File::open(format!("/run/netns/{}", self.name)).expect("the namespace exists");
        thread::scope(|scope| {
            let inside = scope.spawn(move || {
                // SAFETY: the descriptor is open; only this thread changes its namespace.
                let status = unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) };
                assert_eq!(status, 0, "setns: {}", std::io::Error::last_os_error());
                work()
            });
            inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.name]).status();
    }
}

/// Whether namespaces can be made here; says so aloud if not.
pub fn namespaces_work() -> bool {
    // Tests of one process run at once, and only one of them could make the probe.
    static WORK: OnceLock<bool> = OnceLock::new();
    let found = WORK.get_or_init(probe).then_some(()).ok_or("`ip netns add` failed; run as root");
    capability::is_here("namespaces", found)
}

fn probe() -> bool {
    let name = format!("ws-xdp-{}-probe", std::process::id());
    let made = Command::new("ip").args(["netns", "add", &name]).output();
    let works = made.is_ok_and(|output| output.status.success());
    if works {
        ip(&["netns", "del", &name]);
    }
    works
}

fn ip(arguments: &[&str]) {
    let output = Command::new("ip").args(arguments).output().expect("iproute2 is installed");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {}: {words}", arguments.join(" "));
}
