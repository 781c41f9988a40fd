//! A switch in the kernel: one of the policies of `crates/switch`, in `bpf/switch`, which is compiled once for each.

mod admission;
mod forwarding;
mod jobs;
mod judgement;
pub(crate) mod layout;
mod takeover;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use libbpf_rs::{MapCore, MapFlags};
use wiresum_switch::policy::{self, Policy};
use wiresum_switch::{Place, Table};
use wiresum_wire::{BLOCK_LEN, JobId, PAGE_VALUES};
use zerocopy::{FromZeros, IntoBytes};

use crate::engine::XdpAggregator;
use crate::kernel::{self, Image, Kernel};
use crate::layout::{Config, Endpoint, Hearing, MAX_ENDPOINTS};
use crate::test_run::TestRun;
use crate::{SwitchOptions, XdpError};
use layout::{
    Forgetting, MAX_PLACES, PlaceEntry, Slot, SwitchConfig, TableEntry, Tally, place_key,
};

pub use forwarding::Reach;
pub use judgement::Judgement;
#[doc(hidden)]
pub use layout::Feed;

/// The map that holds the table.
const TABLE: &str = ".data.table";
/// Values that a slot's memory has room for at least: the loops over values go in strides of four blocks.
const MIN_ROOM_LEN: usize = 4 * BLOCK_LEN;
/// Slots that one system call empties.
const CLEAR_BATCH: u32 = 1024;

macro_rules! images {
    ($($(#[$doc:meta])* $variant:ident $name:literal $module:ident, $kernel:literal: $properties:tt;)+) => {
        /// The policy's object.
        fn image(policy: Policy) -> Image {
            match policy { $(Policy::$variant => object!("switch-", $kernel),)+ }
        }

        /// The same, with the programs that tests and the benchmark need.
        pub(crate) fn image_for_tests(policy: Policy) -> Image {
            match policy { $(Policy::$variant => object!("switch-bench-", $kernel),)+ }
        }
    };
}

macro_rules! object {
    ($prefix:literal, $kernel:literal) => {
        Image(include_bytes!(concat!(env!("OUT_DIR"), "/", $prefix, $kernel, ".bpf.o")))
    };
}

wiresum_wire::policies!(images);

/// A loaded switch, with all the memory that it will ever have.
pub struct SwitchProgram {
    kernel: Kernel,
    options: SwitchOptions,
    streams: Table,
    table: TableEntry,
    tables: forwarding::Tables,
    expected: BTreeSet<SocketAddr>,
    met: BTreeMap<SocketAddr, Hearing>,
    links: Vec<OwnedFd>,
    /// Index of each job, by which the program counts and bounds it.
    numbers: BTreeMap<JobId, usize>,
    /// What jobs have counted that are gone.
    retired: Tally,
}

impl SwitchProgram {
    /// Loads the policy's program, and allocates its slots.
    ///
    /// # Errors
    /// [`XdpError`] says what the kernel lacks.
    ///
    /// # Panics
    /// If there are more values in a packet than the format allows.
    pub fn load(options: SwitchOptions) -> Result<Self, XdpError> {
        Self::load_image(&image(options.policy), options)
    }

    /// As [`Self::load`], with the programs that tests and the benchmark need.
    ///
    /// # Errors
    /// As [`Self::load`].
    #[doc(hidden)]
    pub fn load_for_tests(options: SwitchOptions) -> Result<Self, XdpError> {
        Self::load_image(&image_for_tests(options.policy), options)
    }

    fn load_image(image: &Image, options: SwitchOptions) -> Result<Self, XdpError> {
        assert!(
            (1..=PAGE_VALUES).contains(&options.values_per_packet),
            "a packet that there can be"
        );
        XdpAggregator::check_support()?;
        let mut table = TableEntry::new_zeroed();
        (table.endpoint_count, table.endpoints[0]) = (1, Endpoint::from(options.address));
        const { assert!(MAX_ENDPOINTS >= 1) };
        let kernel = load(image, &options, &table)?;
        let streams = Table::new(options.slots, MAX_PLACES);
        let (tables, expected, met, numbers) = Default::default();
        let (links, retired) = (Vec::new(), Tally::new_zeroed());
        let program = Self {
            kernel,
            options,
            streams,
            table,
            tables,
            expected,
            met,
            links,
            numbers,
            retired,
        };
        program.bound_strangers()?;
        Ok(program)
    }

    /// Sums a stream from now on.
    ///
    /// # Errors
    /// [`XdpError::Place`] says why it cannot; else the kernel's refusal.
    pub fn install(&mut self, place: &Place) -> Result<(), XdpError> {
        let unsuited = policy::program::<()>(self.options.policy).unsuited(place);
        let index = usize::from(self.streams.install(*place, unsuited)?) - 1;
        self.table.places[index] = PlaceEntry::from(place);
        self.table.forgotten &= !(1 << index);
        // The key comes last, so that no packet finds half a place.
        self.publish()?;
        self.table.keys[index] = place_key(place);
        self.table.place_count = self.table.place_count.max(index as u32 + 1);
        self.publish()
    }

    /// Forgets a job, and frees the slots that it holds.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn remove(&mut self, job: JobId) -> Result<(), XdpError> {
        let removed = self.streams.remove(job);
        for (number, _) in &removed {
            self.table.keys[usize::from(*number) - 1] = 0;
        }
        if removed.is_empty() {
            return Ok(());
        }
        self.publish()?;
        self.wait_for_programs()?;
        removed.iter().try_for_each(|(number, place)| self.forget(*number, place))
    }

    /// What is sent again of a job goes past its slots until it is removed: up, or to the station where nothing is above.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn bypass(&mut self, job: JobId) -> Result<(), XdpError> {
        let is_of_job = |place: &Option<Place>| place.is_some_and(|place| place.job == job);
        let numbers = self.streams.places().iter().zip(0u32..);
        let of_job = numbers.filter(|(place, _)| is_of_job(place)).map(|(_, index)| 1 << index);
        self.table.forgotten |= of_job.sum::<u64>();
        self.publish()
    }

    fn publish(&self) -> Result<(), XdpError> {
        self.kernel.put(TABLE, &0u32, &self.table)
    }

    fn forget(&self, number: u16, place: &Place) -> Result<(), XdpError> {
        let (first, end) = (place.base, place.base + place.slots);
        let per_slot = self.entry_count() / self.options.slots;
        // Without keys, all that a register tells is whose range it is in.
        let arrays = policy::program::<()>(self.options.policy).layout(1, 1).arrays;
        let has_keys = arrays.iter().any(|array| array.name == "key");
        let frame = Forgetting {
            number: if has_keys { number.into() } else { 0 },
            first: per_slot * first,
            end: per_slot * end,
            reserved: 0,
        };
        let run = self.kernel.test_run("forget", frame.as_bytes(), 1)?;
        if run.action == frame.end - frame.first {
            Ok(())
        } else {
            Err(XdpError::SlotBusy(place.job))
        }
    }

    /// Entries of each register array.
    fn entry_count(&self) -> u32 {
        entry_count(&self.options)
    }

    /// Bytes of slot memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let entry_len = size_of::<Slot>() + self.kernel.map("values").value_size() as usize;
        self.entry_count() as usize * entry_len
    }

    /// What the register arrays hold, by name, in the order of the reference's layout.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn registers(&self) -> Result<Vec<(&'static str, Vec<u64>)>, XdpError> {
        let slots: Result<Vec<Slot>, _> = (0..self.entry_count()).map(|i| self.slot(i)).collect();
        let (slots, values) = (slots?, self.options.values_per_packet as u32);
        let layout = policy::program::<()>(self.options.policy).layout(self.options.slots, values);
        let cells = |name| slots.iter().map(|slot| slot.register(name)).collect();
        Ok(layout.arrays.iter().map(|array| (array.name, cells(array.name))).collect())
    }

    fn slot(&self, index: u32) -> Result<Slot, XdpError> {
        Ok(self.kernel.get("slots", &index)?.expect("an index within the map"))
    }

    /// The loaded object.
    #[doc(hidden)]
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// A descriptor of one of the object's programs, for tests.
    #[doc(hidden)]
    pub fn program(&self, name: &'static str) -> std::io::Result<OwnedFd> {
        self.kernel.program(name).as_fd().try_clone_to_owned()
    }

    /// Runs the program on a frame; `None` if that is not for this switch.
    ///
    /// # Errors
    /// The kernel's refusal.
    #[doc(hidden)]
    pub fn judge(&self, frame: &[u8]) -> Result<Option<Judgement>, XdpError> {
        let TestRun { action, frame, .. } = self.kernel.test_run("judge", frame, 1)?;
        let judged = judgement::decode(action);
        Ok(judged.map(|(verdict, egress)| Judgement { verdict, egress, frame }))
    }

    /// Sets all slots to zero, as they were at first.
    ///
    /// # Errors
    /// The kernel's refusal.
    #[doc(hidden)]
    pub fn reset(&self) -> Result<(), XdpError> {
        for map in ["slots", "values"] {
            let map = self.kernel.map(map);
            for start in (0..self.entry_count()).step_by(CLEAR_BATCH as usize) {
                let count = CLEAR_BATCH.min(self.entry_count() - start);
                let keys: Vec<u32> = (start..start + count).collect();
                let zeros = vec![0; count as usize * map.value_size() as usize];
                map.update_batch(keys.as_bytes(), &zeros, count, MapFlags::ANY, MapFlags::ANY)
                    .map_err(|error| kernel::refused("clearing slots".to_owned(), &error))?;
            }
        }
        Ok(())
    }
}

fn entry_count(options: &SwitchOptions) -> u32 {
    let values = options.values_per_packet as u32;
    policy::program::<()>(options.policy).layout(options.slots, values).arrays[0].length
}

fn load(image: &Image, options: &SwitchOptions, table: &TableEntry) -> Result<Kernel, XdpError> {
    let mut open = kernel::open(image)?;
    let payload_len = (4 * options.values_per_packet).next_multiple_of(BLOCK_LEN);
    let room = payload_len.max(MIN_ROOM_LEN) as u32;
    let banks = policy::program::<()>(options.policy).layout(1, 1).banks.len() as u32;
    let lock_entries = options.lock_slots.into();
    let config = Config { max_payload: room, lock_entries };
    let switch_config =
        SwitchConfig { payload_len: payload_len as u32, node: options.node.0, reserved: 0 };
    for mut map in open.maps_mut() {
        let sized = match map.name().to_str() {
            Some("slots") => map.set_max_entries(entry_count(options)),
            Some("values") => map
                .set_max_entries(entry_count(options))
                .and_then(|()| map.set_value_size(banks * room)),
            Some(".rodata.config") => map.set_initial_value(config.as_bytes()),
            Some(".rodata.switch") => map.set_initial_value(switch_config.as_bytes()),
            Some(".data.table") => map.set_initial_value(table.as_bytes()),
            _ => Ok(()),
        };
        let name = map.name().to_string_lossy().into_owned();
        sized.map_err(|error| kernel::refused(format!("sizing the map `{name}`"), &error))?;
    }
    kernel::compare_sizes(&open, &MAP_SIZES).expect("layout.rs and maps.h agree");
    Ok(Kernel { object: kernel::load(open)? })
}

/// Bytes of the maps' values that are written from here.
const MAP_SIZES: [(&str, usize); 8] = [
    (".rodata.config", size_of::<Config>()),
    (TABLE, size_of::<TableEntry>()),
    ("slots", size_of::<Slot>()),
    ("tallies", size_of::<Tally>()),
    ("budgets", size_of::<crate::layout::Budget>()),
    ("downs", size_of::<layout::Down>()),
    ("neighbours", size_of::<crate::layout::Peer>()),
    ("acquaintances", size_of::<Hearing>()),
];
