//! The program with as much memory as its tables need.

use wiresum_keys::Seat;
use wiresum_switch::keyed::{Arranged, Arrangement, MAX_WORKERS};
use wiresum_wire::{JobId, PAGE_PAYLOAD, SubModelId};
use zerocopy::{FromZeros, IntoBytes};

use super::layout::{Cell, HomeEntry, HotKey, KeyedConfig, TableEntry};
use super::{KeyedOptions, cell_of};
use crate::XdpError;
use crate::engine::child_index;
use crate::kernel::{self, Image, Kernel};
use crate::layout::{
    Config, Directory, Endpoint, MAX_JOBS, MAX_STREAMS, SeatKeyEntry, Stream, stream_key,
};
use crate::streams::limit;

/// Register arrays of a program: its counts of a packet's pairs by register are as many.
const MAX_REGISTERS: usize = 64;
/// Maps of the aggregator and of rows that summing pairs does without.
const UNUSED: [&str; 11] = [
    "entries",
    "values",
    "parents",
    "broadcasts",
    "ports",
    "armed",
    "serials",
    "hot_streams",
    "receptions",
    "numbers",
    "hot_rows",
];

/// The jobs of these tables, each once.
pub fn jobs(arrangement: &Arrangement) -> Vec<JobId> {
    let mut jobs = Vec::new();
    for table in &arrangement.tables {
        if !jobs.contains(&table.job) {
            jobs.push(table.job);
        }
    }
    jobs
}

/// The program, and all that follows from its tables.
pub fn load(
    image: &Image,
    options: &KeyedOptions,
    arrangement: &Arrangement,
    directory: &Directory,
) -> Result<Kernel, XdpError> {
    limit("register arrays", arrangement.spec.registers as usize, MAX_REGISTERS)?;
    let cells = u64::from(arrangement.spec.registers) * u64::from(arrangement.cells);
    limit("cells of all registers", cells as usize, u32::MAX as usize)?;
    let kernel = sized(image, options, arrangement, directory)?;
    for (index, table) in arrangement.tables.iter().enumerate() {
        fill(&kernel, options, arrangement, index, table)?;
    }
    Ok(kernel)
}

fn sized(
    image: &Image,
    options: &KeyedOptions,
    arrangement: &Arrangement,
    directory: &Directory,
) -> Result<Kernel, XdpError> {
    let mut open = kernel::open(image)?;
    let lock_entries = options.lock_tables.into();
    let config = Config { max_payload: PAGE_PAYLOAD as u32, lock_entries };
    let spec = arrangement.spec;
    let keyed = KeyedConfig { pairs: spec.pairs, recirculations: spec.recirculations };
    let keys: usize = arrangement.tables.iter().map(|table| table.homes.len()).sum();
    for mut map in open.maps_mut() {
        let sized = match map.name().to_str() {
            Some("keyed_numbers") => map.set_max_entries(arrangement.number_cells.max(1)),
            Some("keyed_registers") => {
                map.set_max_entries((spec.registers * arrangement.cells).max(1))
            }
            Some("homes") => map.set_max_entries((keys as u32).max(1)),
            Some(".rodata.config") => map.set_initial_value(config.as_bytes()),
            Some(".rodata.keyed") => map.set_initial_value(keyed.as_bytes()),
            Some(".data.directory") => map.set_initial_value(directory.as_bytes()),
            Some(name) if UNUSED.contains(&name) => map.set_autocreate(false),
            _ => Ok(()),
        };
        let name = map.name().to_string_lossy().into_owned();
        sized.map_err(|error| kernel::refused(format!("sizing the map `{name}`"), &error))?;
    }
    let sizes = [
        ("keyed_tables", size_of::<TableEntry>()),
        ("keyed_registers", size_of::<Cell>()),
        ("homes", size_of::<HomeEntry>()),
    ];
    kernel::compare_sizes(&open, &sizes).expect("layout.rs and maps.h agree");
    Ok(Kernel { object: kernel::load(open)? })
}

/// What the program is to know of these tables.
pub fn directory(
    options: &KeyedOptions,
    arrangement: &Arrangement,
    jobs: &[JobId],
) -> Result<Directory, XdpError> {
    limit("tables of hot keys", arrangement.tables.len(), MAX_STREAMS)?;
    limit("jobs with hot keys", jobs.len(), MAX_JOBS)?;
    let mut directory = Directory::new_zeroed();
    (directory.endpoint_count, directory.endpoints[0]) = (1, Endpoint::from(options.address));
    for (index, table) in arrangement.tables.iter().enumerate() {
        let job = jobs.iter().position(|job| *job == table.job).expect("one of the tables' jobs");
        directory.keys[index] = stream_key(table.job, SubModelId(table.table));
        directory.streams[index] = Stream {
            expected: members(table).into(),
            node: options.node.0,
            max_payload: PAGE_PAYLOAD as u16,
            job_index: job as u8,
            child_count: table.workers,
            is_root: 1,
            seat_count: table.workers,
            ..Stream::default()
        };
    }
    directory.stream_count = arrangement.tables.len() as u32;
    Ok(directory)
}

fn members(table: &Arranged) -> u32 {
    u32::MAX >> (MAX_WORKERS - table.workers)
}

/// Tells the program of a table, its hot keys, and the keys of its workers' seats.
fn fill(
    kernel: &Kernel,
    options: &KeyedOptions,
    arrangement: &Arrangement,
    index: usize,
    table: &Arranged,
) -> Result<(), XdpError> {
    let entry = TableEntry {
        packets: table.packets,
        first_number: table.first_number,
        number_cells: table.number_cells,
        members: members(table),
        ..TableEntry::default()
    };
    kernel.put("keyed_tables", &(index as u32), &entry)?;
    for (key, home) in &table.homes {
        let hot = HotKey { key: *key, table: index as u32, reserved: 0 };
        let cell = cell_of(arrangement, *home);
        kernel.put("homes", &hot, &HomeEntry { register_number: home.register, cell })?;
    }
    (0..table.workers).try_for_each(|worker| {
        let seat = Seat { node: options.node.0, stream: 0, contributor: worker };
        let key = options.keys.seat(seat).map(SeatKeyEntry::from).unwrap_or_default();
        kernel.put("seat_keys", &child_index(index, worker.into()), &key)
    })
}
