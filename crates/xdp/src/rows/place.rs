//! Where the rows of each stream are in memory, and the program with as much of it.

use std::net::SocketAddr;
use std::ops::Range;

use wiresum_wire::{
    Contributor, Flags, JobId, MAX_CONTRIBUTORS, MAX_ROW_VALUES, PAGE_PAYLOAD, SubModelId,
};
use zerocopy::{FromZeros, IntoBytes};

use super::layout::{Numbers, Reception, RowsConfig, StreamEntry};
use super::room::words_of;
use crate::kernel::{self, Image, Kernel};
use crate::layout::{Config, Directory, Endpoint, MAX_JOBS, MAX_STREAMS, Stream, stream_key};
use crate::pool::Pool;
use crate::streams::limit;
use crate::{HotStream, RowRoom, XdpError};

/// Maps of the aggregator that summing rows does without.
const UNUSED: [&str; 7] =
    ["entries", "values", "parents", "broadcasts", "ports", "armed", "serials"];

/// The streams of a program, by index, and their jobs.
pub struct Places {
    pub directory: Directory,
    room: RowRoom,
    rows: Pool,
    words: Pool,
    jobs: [Option<JobId>; MAX_JOBS],
    streams: [Option<Placed>; MAX_STREAMS],
}

/// A stream that has its memory.
struct Placed {
    name: (JobId, SubModelId),
    /// As it was put; the generation is that of the round that was opened last.
    entry: StreamEntry,
    rows: Range<u32>,
    words: Range<u32>,
}

impl Places {
    /// No streams yet, at one address.
    pub fn new(address: SocketAddr, room: RowRoom) -> Self {
        let mut directory = Directory::new_zeroed();
        (directory.endpoint_count, directory.endpoints[0]) = (1, Endpoint::from(address));
        Self {
            directory,
            room,
            rows: Pool::new(room.positions, 0),
            words: Pool::new(room.words, 0),
            jobs: [None; MAX_JOBS],
            streams: [const { None }; MAX_STREAMS],
        }
    }

    /// Gives a stream its memory; its index. After an error all is as it was.
    pub fn add(&mut self, stream: &HotStream) -> Result<usize, XdpError> {
        let &HotStream { job, sub_model, workers, dim, is_float, .. } = stream;
        limit("workers of a stream", workers.into(), MAX_CONTRIBUTORS)?;
        limit("values of a row", dim.into(), MAX_ROW_VALUES)?;
        let longest = if is_float { self.room.float_values } else { self.room.int_values };
        limit("values of a row in this switch's memory", dim.into(), longest.into())?;
        let job_index = self.jobs.iter().position(|known| *known == Some(job));
        let job_index = job_index.or_else(|| self.jobs.iter().position(Option::is_none));
        let job_index = job_index.ok_or(too_many("jobs with hot rows", MAX_JOBS))?;
        let index = self.streams.iter().position(Option::is_none);
        let index = index.ok_or(too_many("streams of hot rows", MAX_STREAMS))?;
        let (rows, words) = self.take(stream)?;
        let entry = StreamEntry {
            first_row: rows.start,
            positions: stream.positions,
            first_word: words.start,
            words: words_of(stream),
            dim,
            lanes: if is_float { Flags::FLOAT.0 } else { 0 },
            ..StreamEntry::default()
        };
        self.jobs[job_index] = Some(job);
        self.streams[index] = Some(Placed { name: (job, sub_model), entry, rows, words });
        self.directory.streams[index] = in_directory(stream, job_index);
        self.directory.keys[index] = stream_key(job, sub_model);
        self.directory.stream_count = self.directory.stream_count.max(index as u32 + 1);
        Ok(index)
    }

    /// Memory for the rows of a stream, and for the numbers of its packets.
    fn take(&mut self, stream: &HotStream) -> Result<(Range<u32>, Range<u32>), XdpError> {
        let rows = self.rows.take(stream.positions);
        let all_words = words_of(stream).checked_mul(stream.workers.into());
        match (rows, all_words.and_then(|count| self.words.take(count))) {
            (Some(rows), Some(words)) => Ok((rows, words)),
            (rows, _) => {
                rows.iter().for_each(|range| self.rows.give_back(range));
                let (job, needed) = (stream.job, stream.positions);
                Err(XdpError::NoRows { job, needed, have: self.room.positions })
            }
        }
    }

    /// Forgets a job's streams, whose memory is nobody's then.
    pub fn remove(&mut self, job: usize) {
        for index in self.of_job(job) {
            let Placed { rows, words, .. } = self.streams[index].take().expect("it was found");
            self.rows.give_back(&rows);
            self.words.give_back(&words);
            self.directory.keys[index] = 0;
        }
        self.jobs[job] = None;
    }

    /// The index of a job.
    pub fn job(&self, job: JobId) -> Result<usize, XdpError> {
        let index = self.jobs.iter().position(|known| *known == Some(job));
        index.ok_or(XdpError::UnknownJob(job))
    }

    /// The index of a stream that has this worker.
    pub fn stream(
        &self,
        job: JobId,
        sub_model: SubModelId,
        worker: Contributor,
    ) -> Result<usize, XdpError> {
        let index = (0..MAX_STREAMS).find(|index| self.name(*index) == Some((job, sub_model)));
        let has_worker = |index: &usize| worker.0 < self.directory.streams[*index].seat_count;
        let unknown = XdpError::UnknownPeer { job, sub_model, contributor: worker };
        index.filter(has_worker).ok_or(unknown)
    }

    /// Job and number of a stream.
    pub fn name(&self, stream: usize) -> Option<(JobId, SubModelId)> {
        self.streams[stream].as_ref().map(|placed| placed.name)
    }

    /// A stream in use.
    pub fn entry(&self, stream: usize) -> &StreamEntry {
        &self.streams[stream].as_ref().expect("a stream in use").entry
    }

    /// A round of a stream in use was opened.
    pub fn set_generation(&mut self, stream: usize, generation: u32) {
        let placed = self.streams[stream].as_mut().expect("a stream in use");
        placed.entry.generation = generation;
    }

    /// Indices of a job's streams.
    pub fn of_job(&self, job: usize) -> Vec<usize> {
        let is_of = |index: &usize| {
            self.name(*index).is_some_and(|(named, _)| Some(named) == self.jobs[job])
        };
        (0..MAX_STREAMS).filter(is_of).collect()
    }
}

fn too_many(what: &'static str, most: usize) -> XdpError {
    XdpError::TooMany { what, have: most + 1, most }
}

fn in_directory(stream: &HotStream, job_index: usize) -> Stream {
    Stream {
        expected: stream.contributors,
        node: stream.node.0,
        max_payload: PAGE_PAYLOAD as u16,
        job_index: job_index as u8,
        child_count: stream.workers,
        is_root: 1,
        seat_count: stream.workers,
        ..Stream::default()
    }
}

/// The program with this much memory.
pub fn load(image: &Image, places: &Places, lock_streams: bool) -> Result<Kernel, XdpError> {
    let mut open = kernel::open(image)?;
    let config = Config { max_payload: PAGE_PAYLOAD as u32, lock_entries: lock_streams.into() };
    let room = places.room;
    let rows_config = RowsConfig { float_room: room.float_room(), int_room: room.int_room() };
    for mut map in open.maps_mut() {
        let sized = match map.name().to_str() {
            Some("hot_rows") => map
                .set_max_entries(room.positions.max(1))
                .and_then(|()| map.set_value_size(room.row_len() as u32)),
            Some("numbers") => map.set_max_entries(room.words.max(1)),
            Some(".rodata.config") => map.set_initial_value(config.as_bytes()),
            Some(".rodata.rows") => map.set_initial_value(rows_config.as_bytes()),
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
    kernel::compare_sizes(&open, &sizes).expect("layout.rs and maps.h agree");
    Ok(Kernel { object: kernel::load(open)? })
}
