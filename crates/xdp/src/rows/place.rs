//! Where the rows of each stream are in memory, and the program with as much of it.

use std::net::SocketAddr;

use wiresum_wire::{
    Contributor, Flags, JobId, MAX_CONTRIBUTORS, MAX_PAYLOAD, MAX_ROW_VALUES, SubModelId,
};
use zerocopy::{FromZeros, IntoBytes};

use super::layout::{
    NUMBERS_PER_WORD, Numbers, ROW_LEN, Reception, RowsConfig, STRIDE, StreamEntry,
};
use crate::kernel::{self, Image, Kernel};
use crate::layout::{Config, Directory, Endpoint, MAX_JOBS, MAX_STREAMS, Stream, stream_key};
use crate::streams::limit;
use crate::{HotStream, XdpError};

/// Maps of the aggregator that summing rows does without.
const UNUSED: [&str; 7] =
    ["entries", "values", "parents", "broadcasts", "ports", "armed", "serials"];

/// The streams of a program, by index, and their jobs.
pub struct Places {
    pub directory: Directory,
    pub jobs: Vec<JobId>,
    pub names: Vec<(JobId, SubModelId)>,
    /// As they are before a round is opened; the generation is that of the last one.
    pub entries: Vec<StreamEntry>,
    rows: u32,
    words: u32,
    config: RowsConfig,
}

impl Places {
    /// Streams of jobs that listen at one address.
    pub fn of(address: SocketAddr, streams: &[HotStream]) -> Result<Self, XdpError> {
        let mut directory = Directory::new_zeroed();
        (directory.endpoint_count, directory.endpoints[0]) = (1, Endpoint::from(address));
        let (jobs, names, entries) = Default::default();
        let config = RowsConfig::default();
        let mut places = Self { directory, jobs, names, entries, rows: 0, words: 0, config };
        streams.iter().try_for_each(|stream| places.add(stream))?;
        Ok(places)
    }

    fn add(&mut self, stream: &HotStream) -> Result<(), XdpError> {
        let &HotStream { job, sub_model, workers, positions, dim, .. } = stream;
        let index = self.entries.len();
        limit("streams of hot rows", index + 1, MAX_STREAMS)?;
        limit("workers of a stream", workers.into(), MAX_CONTRIBUTORS)?;
        limit("values of a row", dim.into(), MAX_ROW_VALUES)?;
        let job_index = self.jobs.iter().position(|known| *known == job).unwrap_or_else(|| {
            self.jobs.push(job);
            self.jobs.len() - 1
        });
        limit("jobs with hot rows", self.jobs.len(), MAX_JOBS)?;
        // Every packet has a row, and each row comes once from a worker.
        let words = positions.div_ceil(NUMBERS_PER_WORD);
        let lanes = if stream.is_float { Flags::FLOAT.0 } else { 0 };
        let (first_row, first_word) = (self.rows, self.words);
        let entry = StreamEntry {
            first_row,
            positions,
            first_word,
            words,
            dim,
            lanes,
            ..StreamEntry::default()
        };
        let too_many = || XdpError::TooMany {
            what: "positions of all streams",
            have: usize::MAX,
            most: u32::MAX as usize,
        };
        self.rows = self.rows.checked_add(positions).ok_or_else(too_many)?;
        let all_words = words.checked_mul(workers.into());
        self.words = all_words.and_then(|all| self.words.checked_add(all)).ok_or_else(too_many)?;
        let RowsConfig { float_room, int_room } = &mut self.config;
        let room = if stream.is_float { float_room } else { int_room };
        *room = (*room).max(u32::from(dim).next_multiple_of(STRIDE));
        self.names.push((job, sub_model));
        self.entries.push(entry);
        self.directory.keys[index] = stream_key(job, sub_model);
        self.directory.streams[index] = in_directory(stream, job_index);
        self.directory.stream_count = index as u32 + 1;
        Ok(())
    }

    /// The index of a job.
    pub fn job(&self, job: JobId) -> Result<usize, XdpError> {
        self.jobs.iter().position(|known| *known == job).ok_or(XdpError::UnknownJob(job))
    }

    /// The index of a stream that has this worker.
    pub fn stream(
        &self,
        job: JobId,
        sub_model: SubModelId,
        worker: Contributor,
    ) -> Result<usize, XdpError> {
        let index = self.names.iter().position(|name| *name == (job, sub_model));
        let has_worker = |index: &usize| worker.0 < self.directory.streams[*index].seat_count;
        let unknown = XdpError::UnknownPeer { job, sub_model, contributor: worker };
        index.filter(has_worker).ok_or(unknown)
    }

    /// Indices of a job's streams.
    pub fn of_job(&self, job: usize) -> Vec<usize> {
        let is_of = |index: &usize| usize::from(self.directory.streams[*index].job_index) == job;
        (0..self.entries.len()).filter(is_of).collect()
    }
}

fn in_directory(stream: &HotStream, job_index: usize) -> Stream {
    Stream {
        expected: u64::MAX >> (MAX_CONTRIBUTORS - usize::from(stream.workers)),
        node: stream.node.0,
        max_payload: MAX_PAYLOAD as u16,
        job_index: job_index as u8,
        child_count: stream.workers,
        is_root: 1,
        seat_count: stream.workers,
        ..Stream::default()
    }
}

/// The program with memory for these streams.
pub fn load(image: &Image, places: &Places, lock_streams: bool) -> Result<Kernel, XdpError> {
    let mut open = kernel::open(image)?;
    let config = Config { max_payload: MAX_PAYLOAD as u32, lock_entries: lock_streams.into() };
    let RowsConfig { float_room, int_room } = places.config;
    let lanes_len = (8 * float_room).max(4 * int_room);
    for mut map in open.maps_mut() {
        let sized = match map.name().to_str() {
            Some("hot_rows") => map
                .set_max_entries(places.rows.max(1))
                .and_then(|()| map.set_value_size(ROW_LEN as u32 + lanes_len)),
            Some("numbers") => map.set_max_entries(places.words.max(1)),
            Some(".rodata.config") => map.set_initial_value(config.as_bytes()),
            Some(".rodata.rows") => map.set_initial_value(places.config.as_bytes()),
            Some(".data.directory") => map.set_initial_value(places.directory.as_bytes()),
            Some(name) if UNUSED.contains(&name) => map.set_autocreate(false),
            _ => Ok(()),
        };
        let name = map.name().to_string_lossy().into_owned();
        sized.map_err(|error| kernel::refused(format!("sizing the map `{name}`"), &error))?;
    }
    let sizes = [
        ("hot_streams", size_of::<StreamEntry>()),
        ("receptions", size_of::<Reception>()),
        ("numbers", size_of::<Numbers>()),
    ];
    for (name, size) in sizes {
        let map = open.maps().find(|map| map.name() == name).expect("the program has this map");
        assert_eq!(map.value_size() as usize, size, "layout.rs and maps.h agree about `{name}`");
    }
    Ok(Kernel { object: kernel::load(open)? })
}
