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

/// A switch at 10.OCTET.h.254 with a port `p{h}` for each host h, and the hosts, which are at 10.OCTET.h.1 behind `e0`.
#[allow(dead_code, reason = "each test uses a part")]
pub fn star(label: &str, octet: u8, hosts: usize) -> (Namespace, Vec<Namespace>) {
    let switch = Namespace::new(label);
    let host = |number: usize| {
        let host = Namespace::new(&format!("{label}-{number}"));
        let port = format!("p{number}");
        let ends = ["type", "veth", "peer", "name", "e0", "netns", &host.name];
        switch.ip(&[&["link", "add", &port][..], &ends].concat());
        switch.ip(&["addr", "add", &format!("10.{octet}.{number}.254/24"), "dev", &port]);
        switch.ip(&["link", "set", &port, "up"]);
        host.ip(&["addr", "add", &format!("10.{octet}.{number}.1/24"), "dev", "e0"]);
        host.ip(&["link", "set", "e0", "up"]);
        host.ip(&["route", "add", "default", "via", &format!("10.{octet}.{number}.254")]);
        host.enter(|| wiresum_xdp::attach_pass_program("e0")).expect("the pass program attaches");
        host
    };
    let hosts = (0..hosts).map(host).collect();
    switch.enter(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1")).expect("a switch");
    (switch, hosts)
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
