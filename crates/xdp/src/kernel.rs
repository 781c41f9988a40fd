//! The loaded BPF object and its maps, typed; every refusal of the kernel says what was attempted.

use std::ffi::OsStr;
use std::fs;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libbpf_rs::{
    ErrorKind, MapCore, MapFlags, MapHandle, MapType, Object, ObjectBuilder, OpenObject, Program,
};
use wiresum_wire::{JobKey, MAX_CONTRIBUTORS};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

use crate::layout::{
    Budget, Config, DevmapValue, Directory, Entry, Hearing, Job, Peer, Tally, ValueHashEntry,
};
use crate::pool::Pool;
use crate::test_run::{self, TestRun};
use crate::{AttachMode, XdpError};

/// Entries that one system call empties: 160 kB of zeros.
const CLEAR_BATCH: u32 = 4096;

/// The objects that `build.rs` compiled.
pub struct Image(pub &'static [u8]);

/// The aggregator.
pub const AGGREGATOR: Image = Image(include_bytes!(concat!(env!("OUT_DIR"), "/aggregator.bpf.o")));
/// The aggregator with the programs that tests and benchmarks need.
pub const BENCH: Image = Image(include_bytes!(concat!(env!("OUT_DIR"), "/bench.bpf.o")));
/// Encrypts packets, for a benchmark.
pub const CIPHER: Image = Image(include_bytes!(concat!(env!("OUT_DIR"), "/cipher.bpf.o")));
/// Passes everything.
pub const PASS: Image = Image(include_bytes!(concat!(env!("OUT_DIR"), "/pass.bpf.o")));

/// Hands data packets to AF_XDP sockets.
pub const STEER: Image = Image(include_bytes!(concat!(env!("OUT_DIR"), "/steer.bpf.o")));

/// A loaded object.
pub struct Kernel {
    pub(crate) object: Object,
}

impl Kernel {
    /// Loads an aggregator with this much memory.
    pub fn load(image: &Image, pool: &Pool, config: &Config) -> Result<Self, XdpError> {
        let mut open = open(image)?;
        size_maps(&mut open, pool, config)?;
        compare_sizes(&open, &MAP_SIZES).expect("layout.rs and maps.h agree");
        Ok(Self { object: load(open)? })
    }

    /// Loads an object that needs no memory.
    pub fn load_plain(image: &Image) -> Result<Self, XdpError> {
        Ok(Self { object: load(open(image)?)? })
    }

    /// Loads a steering program for an interface with so many receive queues. It shares the aggregator's parser, and of its
    /// maps only the constants.
    pub fn load_steering(
        image: &Image,
        directory: &Directory,
        queues: u32,
    ) -> Result<Self, XdpError> {
        let mut open = open(image)?;
        for mut map in open.maps_mut() {
            let sized = match map.name().to_str() {
                Some("queue_sockets") => map.set_max_entries(queues),
                Some(".data.directory") => map.set_initial_value(directory.as_bytes()),
                _ => map.set_autocreate(false),
            };
            sized.map_err(|error| {
                refused("sizing the steering program's maps".to_owned(), &error)
            })?;
        }
        Ok(Self { object: load(open)? })
    }

    /// A map by name.
    pub fn map(&self, name: &'static str) -> libbpf_rs::Map<'_> {
        let mut maps = self.object.maps();
        maps.find(|map| map.name() == OsStr::new(name)).expect("the program has this map")
    }

    /// A program by name.
    pub fn program(&self, name: &'static str) -> Program<'_> {
        let mut programs = self.object.progs();
        programs.find(|p| p.name() == OsStr::new(name)).expect("the object has this program")
    }

    /// Writes an element.
    pub fn put<K: IntoBytes + Immutable, V: IntoBytes + Immutable>(
        &self,
        map: &'static str,
        key: &K,
        value: &V,
    ) -> Result<(), XdpError> {
        let written = self.map(map).update(key.as_bytes(), value.as_bytes(), MapFlags::ANY);
        written.map_err(|error| refused(format!("writing to the map `{map}`"), &error))
    }

    /// Reads an element, if it is there.
    pub fn get<K: IntoBytes + Immutable, V: FromBytes>(
        &self,
        map: &'static str,
        key: &K,
    ) -> Result<Option<V>, XdpError> {
        let read = self.map(map).lookup(key.as_bytes(), MapFlags::ANY);
        let bytes = read.map_err(|error| refused(format!("reading the map `{map}`"), &error))?;
        Ok(bytes.map(|bytes| V::read_from_bytes(&bytes).expect("sizes were compared at load")))
    }

    /// Reads the bytes of an array's element.
    pub fn read(
        &self,
        map: &'static str,
        index: u32,
        flags: MapFlags,
    ) -> Result<Option<Vec<u8>>, XdpError> {
        let read = self.map(map).lookup(index.as_bytes(), flags);
        read.map_err(|error| refused(format!("reading the map `{map}`"), &error))
    }

    /// Removes an element; it need not be there.
    pub fn remove<K: IntoBytes + Immutable>(
        &self,
        map: &'static str,
        key: &K,
    ) -> Result<(), XdpError> {
        match self.map(map).delete(key.as_bytes()) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(refused(format!("removing from the map `{map}`"), &error))
            }
            _ => Ok(()),
        }
    }

    /// The counters of the job with this index, summed over CPUs.
    pub fn tally(&self, job: usize) -> Result<Tally, XdpError> {
        let read = self.map("tallies").lookup_percpu((job as u32).as_bytes(), MapFlags::ANY);
        let cpus = read.map_err(|error| refused("reading the counters".to_owned(), &error))?;
        let mut sum = Tally::new_zeroed();
        for cpu in cpus.iter().flatten() {
            sum.add(&Tally::read_from_bytes(cpu).expect("sizes were compared at load"));
        }
        Ok(sum)
    }

    /// Sets the counters of the job with this index to zero.
    pub fn clear_tally(&self, job: usize) -> Result<(), XdpError> {
        self.put_by_cpu("tallies", &(job as u32), |_| Tally::new_zeroed())
    }

    /// Writes an element of a map that has one for each CPU.
    pub fn put_by_cpu<V: IntoBytes + Immutable>(
        &self,
        map: &'static str,
        key: &u32,
        value: impl Fn(usize) -> V,
    ) -> Result<(), XdpError> {
        let cpus = libbpf_rs::num_possible_cpus()
            .map_err(|error| refused("counting CPUs".to_owned(), &error))?;
        let values: Vec<_> = (0..cpus).map(|cpu| value(cpu).as_bytes().to_vec()).collect();
        let written = self.map(map).update_percpu(key.as_bytes(), &values, MapFlags::ANY);
        written.map_err(|error| refused(format!("writing to the map `{map}`"), &error))
    }

    /// Empties entries that no program uses.
    pub fn clear_entries(&self, range: &Range<u32>) -> Result<(), XdpError> {
        let map = self.map("entries");
        for start in range.clone().step_by(CLEAR_BATCH as usize) {
            let count = CLEAR_BATCH.min(range.end - start);
            let keys: Vec<u32> = (start..start + count).collect();
            let zeros = vec![0; count as usize * size_of::<Entry>()];
            let cleared =
                map.update_batch(keys.as_bytes(), &zeros, count, MapFlags::ANY, MapFlags::ANY);
            cleared.map_err(|error| refused("clearing slots".to_owned(), &error))?;
        }
        Ok(())
    }

    /// Entries of a range, each as some packet has left it.
    pub fn read_entries(&self, range: Range<u32>) -> Result<Vec<Entry>, XdpError> {
        let read = |index| self.read("entries", index, MapFlags::ANY);
        let parse = |bytes: Vec<u8>| Entry::read_from_bytes(&bytes).expect("sizes were compared");
        range.filter_map(|index| read(index).transpose()).map(|bytes| bytes.map(parse)).collect()
    }

    /// Slot memory as the maps have it, all of it free.
    pub fn pool(&self) -> Pool {
        let payload_len = self.map("values").value_size() as usize;
        Pool::new(self.map("entries").max_entries(), payload_len)
    }

    /// Every map with its name.
    pub fn maps(&self) -> Vec<(String, BorrowedFd<'_>)> {
        let named = |map: libbpf_rs::Map<'_>| {
            // SAFETY: the descriptor is the object's own, which lives as long as what is returned.
            let descriptor = unsafe { BorrowedFd::borrow_raw(map.as_fd().as_raw_fd()) };
            (map.name().to_string_lossy().into_owned(), descriptor)
        };
        self.object.maps().map(named).collect()
    }

    /// A new, empty broadcast group for a stream.
    pub fn make_broadcast(&self, stream: u32) -> Result<MapHandle, XdpError> {
        let group = self.new_broadcast()?;
        self.put("broadcasts", &stream, &group.as_fd().as_raw_fd())?;
        Ok(group)
    }

    /// A new, empty broadcast group that no stream has yet.
    pub fn new_broadcast(&self) -> Result<MapHandle, XdpError> {
        let options = libbpf_sys::bpf_map_create_opts {
            sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
            ..Default::default()
        };
        let (key, value) = (size_of::<u32>() as u32, size_of::<DevmapValue>() as u32);
        let most = MAX_CONTRIBUTORS as u32;
        let made =
            MapHandle::create(MapType::Devmap, Some("broadcast"), key, value, most, &options);
        made.map_err(|error| refused("creating a devmap".to_owned(), &error))
    }

    /// An interface with the program that runs on all that leaves by it.
    pub fn outlet(&self, ifindex: u32) -> DevmapValue {
        DevmapValue { ifindex, program: self.program("send_copy").as_fd().as_raw_fd() }
    }

    /// Takes packets of a job, by its index, with this key.
    pub fn run_job(&self, index: usize, key: JobKey) -> Result<(), XdpError> {
        // Running comes last, so that no packet is compared with half a key.
        self.put("jobs", &(index as u32), &Job { key: key.0, running: 0 })?;
        self.put("jobs", &(index as u32), &Job { key: key.0, running: 1 })
    }

    /// Takes no packets of a job, by its index.
    pub fn stop_job(&self, index: usize) -> Result<(), XdpError> {
        self.put("jobs", &(index as u32), &Job::default())
    }

    /// Runs a program on a frame, `repeat` times in a row on the same memory.
    pub fn test_run(
        &self,
        program: &'static str,
        frame: &[u8],
        repeat: u32,
    ) -> Result<TestRun, XdpError> {
        test_run::run(self.program(program).as_fd(), frame, repeat)
            .map_err(|cause| test_run::refused(program, &cause))
    }
}

pub fn open(image: &Image) -> Result<OpenObject, XdpError> {
    // The verifier's log of a failed load is in the error; libbpf's own remarks would go to standard error.
    libbpf_rs::set_print(None);
    let opened = ObjectBuilder::default().open_memory(image.0);
    opened.map_err(|error| refused("opening the BPF object".to_owned(), &error))
}

pub fn load(open: OpenObject) -> Result<Object, XdpError> {
    open.load().map_err(|error| refused("loading the BPF programs".to_owned(), &error))
}

fn size_maps(open: &mut OpenObject, pool: &Pool, config: &Config) -> Result<(), XdpError> {
    let entry_count = pool.entry_count().max(1);
    for mut map in open.maps_mut() {
        let sized = match map.name().to_str() {
            Some("entries") => map.set_max_entries(entry_count),
            Some("values") => map
                .set_max_entries(entry_count)
                .and_then(|()| map.set_value_size(pool.payload_len().max(1) as u32)),
            Some(".rodata.config") => map.set_initial_value(config.as_bytes()),
            _ => Ok(()),
        };
        let name = map.name().to_string_lossy().into_owned();
        sized.map_err(|error| refused(format!("sizing the map `{name}`"), &error))?;
    }
    Ok(())
}

/// Bytes of the values of the aggregator's maps that are written from here.
pub const MAP_SIZES: [(&str, usize); 10] = [
    (".rodata.config", size_of::<Config>()),
    (".data.directory", size_of::<Directory>()),
    ("budgets", size_of::<Budget>()),
    ("tallies", size_of::<Tally>()),
    ("entries", size_of::<Entry>()),
    ("jobs", size_of::<Job>()),
    ("children", size_of::<Peer>()),
    ("parents", size_of::<Peer>()),
    ("heard", size_of::<Hearing>()),
    ("value_hashes", size_of::<ValueHashEntry>()),
];

/// Whether the structs here are as long as the maps' values. If the maps are this crate's own, any test would show it.
pub fn compare_sizes(open: &OpenObject, expected: &[(&str, usize)]) -> Result<(), String> {
    for &(name, size) in expected {
        let map = open.maps().find(|map| map.name() == OsStr::new(name));
        let have = map.map(|map| map.value_size() as usize);
        if have != Some(size) {
            return Err(format!("`{name}` has values of {have:?} bytes, and not of {size}"));
        }
    }
    Ok(())
}

/// An error of the kernel in the crate's own words. Capabilities were checked before, so a lack of permission is the
/// verifier's or a security module's refusal, which only its own words explain.
pub fn refused(action: String, error: &libbpf_rs::Error) -> XdpError {
    XdpError::Kernel { action, cause: error.to_string() }
}

/// The index of a network interface of this namespace.
pub fn interface_index(name: &str) -> Result<u32, XdpError> {
    let missing = || XdpError::NoInterface(name.to_owned());
    let name = std::ffi::CString::new(name).map_err(|_| missing())?;
    // SAFETY: the pointer is to a NUL-terminated string that outlives the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(missing()),
        index => Ok(index),
    }
}

/// The name of a network interface of this namespace, or its number where it has gone.
pub fn interface_name(index: u32) -> String {
    let mut name = [0u8; libc::IF_NAMESIZE];
    // SAFETY: the buffer has the length that the call asks for.
    let found = unsafe { libc::if_indextoname(index, name.as_mut_ptr().cast()) };
    let text = std::ffi::CStr::from_bytes_until_nul(&name).map(|name| name.to_string_lossy());
    match text {
        Ok(text) if !found.is_null() => text.into_owned(),
        _ => format!("number {index}"),
    }
}

/// Attaches a program for as long as the returned descriptor is open.
pub fn link(
    program: BorrowedFd<'_>,
    interface: &str,
    mode: AttachMode,
) -> Result<OwnedFd, XdpError> {
    let index = interface_index(interface)?;
    let options = libbpf_sys::bpf_link_create_opts {
        sz: size_of::<libbpf_sys::bpf_link_create_opts>() as libbpf_sys::size_t,
        flags: mode_flags(mode),
        ..Default::default()
    };
    // SAFETY: the descriptors are open, the options outlive the call.
    let link = unsafe {
        libbpf_sys::bpf_link_create(
            program.as_raw_fd(),
            index as i32,
            libbpf_sys::BPF_XDP,
            &raw const options,
        )
    };
    if link < 0 {
        return Err(attach_error(interface, mode, -link));
    }
    // SAFETY: the kernel has just given us this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(link) })
}

/// Puts another program on a link; the kernel does it between two packets.
pub fn update_link(link: BorrowedFd<'_>, program: BorrowedFd<'_>) -> Result<(), XdpError> {
    // SAFETY: the descriptors are open; no options are given.
    let status = unsafe {
        libbpf_sys::bpf_link_update(link.as_raw_fd(), program.as_raw_fd(), std::ptr::null())
    };
    if status == 0 {
        return Ok(());
    }
    let cause = std::io::Error::from_raw_os_error(-status).to_string();
    Err(XdpError::Kernel { action: "putting the XDP program on a link".to_owned(), cause })
}

/// Attaches a program until the interface is gone.
pub fn attach(program: BorrowedFd<'_>, interface: &str, mode: AttachMode) -> Result<(), XdpError> {
    let index = interface_index(interface)?;
    // SAFETY: the descriptor is open; no options are given.
    let status = unsafe {
        libbpf_sys::bpf_xdp_attach(
            index as i32,
            program.as_raw_fd(),
            mode_flags(mode),
            std::ptr::null(),
        )
    };
    if status < 0 { Err(attach_error(interface, mode, -status)) } else { Ok(()) }
}

fn mode_flags(mode: AttachMode) -> u32 {
    match mode {
        AttachMode::Native => libbpf_sys::XDP_FLAGS_DRV_MODE,
        AttachMode::Generic => libbpf_sys::XDP_FLAGS_SKB_MODE,
    }
}

fn attach_error(interface: &str, mode: AttachMode, code: i32) -> XdpError {
    let cause = std::io::Error::from_raw_os_error(code);
    let hint = match code {
        libc::EPERM => return XdpError::NotPermitted,
        libc::EBUSY | libc::EEXIST => {
            "another XDP program is attached: `ip link set dev … xdp off` removes it"
        }
        libc::EOPNOTSUPP if mode == AttachMode::Native => {
            "the driver has no native XDP: use the generic mode"
        }
        libc::EINVAL | libc::ERANGE | libc::EOPNOTSUPP => {
            "is the MTU above what the driver allows with XDP (veth: about 3500)?"
        }
        _ => "",
    };
    XdpError::Kernel {
        action: format!("attaching the XDP program to `{interface}`"),
        cause: format!("{cause}{}{hint}", if hint.is_empty() { "" } else { "; " }),
    }
}

/// Whether the effective capabilities of this process allow loading the program. The verifier wants CAP_PERFMON for packet
/// pointers whose offset it does not know; without it, every such offset would have to be a constant.
pub fn is_permitted() -> bool {
    const CAP_NET_ADMIN: u32 = 12;
    const CAP_SYS_ADMIN: u32 = 21;
    const CAP_PERFMON: u32 = 38;
    const CAP_BPF: u32 = 39;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    let has = |capability: u32| bits >> capability & 1 == 1;
    has(CAP_NET_ADMIN) && (has(CAP_SYS_ADMIN) || has(CAP_BPF) && has(CAP_PERFMON))
}
