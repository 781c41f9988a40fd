//! One point of the benchmark: a stream of hot rows, and a packet of it that becomes the next one again and again.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use half::{bf16, f16};
use wiresum_keys::{Keyring, Seat, Secret};
use wiresum_wire::{
    Contributor, HEADER_LEN, Header, JobId, JobKey, Kind, MAX_CONTRIBUTORS, NodeId, ROW_HEADER_LEN,
    RowDraft, RowKind, RowValue, SubModelId, Verdict, control::hello,
};
use wiresum_xdp::frames::udp_frame;
use wiresum_xdp::{HotStream, RowsFeed, RowsProgram, XdpError};
use zerocopy::IntoBytes;

use super::{Engine, Lanes, Shape, user_space};

const NODE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 5747);
const JOB: JobId = JobId(1);
const STREAM: SubModelId = SubModelId(0);
const KEY: JobKey = JobKey(1);
const FIRST_PORT: u16 = 40_000;
const ROUND: u32 = 1;
const MAP_VERSION: u32 = 1;

/// A stream of hot rows, and a packet of it that becomes the next one again and again.
pub struct Job {
    program: RowsProgram,
    shape: Shape,
    frame: Vec<u8>,
    datagram: Vec<u8>,
}

impl Job {
    /// A switch with one stream, all workers of which have joined.
    pub fn new(shape: &Shape) -> Result<Self, XdpError> {
        let stream = HotStream {
            job: JOB,
            sub_model: STREAM,
            node: NodeId(1),
            keys: Keyring::whole(Secret::from_bytes(b"measured")),
            workers: shape.workers,
            contributors: u64::MAX >> (MAX_CONTRIBUTORS - usize::from(shape.workers)),
            positions: shape.positions(),
            dim: shape.dim,
            is_float: shape.lanes != Lanes::Int,
        };
        let keys = stream.keys.clone();
        let mut program = RowsProgram::load_for_tests(NODE, &[stream], true)?;
        program.set_in_map(JOB, STREAM, (0..shape.positions()).map(|position| (position, true)))?;
        program.run(JOB, KEY)?;
        for worker in 0..shape.workers {
            program.judge(&udp_frame(source(worker), NODE, &joining(&keys, worker)))?;
            program.admit(JOB, STREAM, Contributor(worker), source(worker))?;
        }
        let datagram = rows(shape);
        let frame = udp_frame(source(0), NODE, &datagram);
        Ok(Self { program, shape: *shape, frame, datagram })
    }

    /// Mean nanoseconds for one packet.
    pub fn run(&mut self, engine: Engine, packets: u32) -> Result<f64, XdpError> {
        match engine {
            Engine::Xdp => self.run_program("feed_and_sum", packets),
            Engine::Feed => self.run_program("feed_alone", packets),
            Engine::UserSpace => Ok(user_space::run(&self.shape, &self.datagram, packets)),
            Engine::Acknowledgement => self.acknowledge(packets),
        }
    }

    fn run_program(&mut self, name: &'static str, packets: u32) -> Result<f64, XdpError> {
        self.begin_anew()?;
        let before = self.summed()?;
        let run = self.program.kernel().test_run(name, &self.frame, packets)?;
        let summed = self.summed()? - before;
        let expected = if name == "feed_and_sum" { u64::from(packets) } else { 0 };
        assert_eq!(summed, expected, "every packet of the benchmark is summed");
        Ok(run.nanoseconds as f64)
    }

    /// Round 1, of which nothing has come.
    fn begin_anew(&mut self) -> Result<(), XdpError> {
        self.program.open(JOB, STREAM, ROUND, MAP_VERSION)?;
        self.program.kernel().put("row_feeds", &0u32, &feed(&self.shape))
    }

    fn acknowledge(&self, packets: u32) -> Result<f64, XdpError> {
        let headers = &self.datagram[..HEADER_LEN + ROW_HEADER_LEN];
        let frame = udp_frame(source(0), NODE, headers);
        Ok(self.program.kernel().test_run("acknowledge_alone", &frame, packets)?.nanoseconds as f64)
    }

    fn summed(&self) -> Result<u64, XdpError> {
        let counters = self.program.counters()?;
        Ok(counters
            .into_iter()
            .filter(|(verdict, _)| *verdict == Verdict::Added)
            .map(|(_, count)| count)
            .sum())
    }
}

fn source(worker: u8) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), FIRST_PORT + u16::from(worker))
}

const _: () = assert!(FIRST_PORT as usize + MAX_CONTRIBUTORS <= u16::MAX as usize);

/// A worker's hello, by which the program learns how it is reached.
fn joining(keys: &Keyring, worker: u8) -> Vec<u8> {
    let mut payload = [0; 4 * hello::WORDS];
    let mut header = Header {
        job: JOB.0.into(),
        node: 1.into(),
        contributor: worker,
        value_count: (hello::WORDS as u16).into(),
        ..Header::new(Kind::Hello)
    };
    let seat = Seat { node: 1, stream: STREAM.0, contributor: worker };
    keys.seat(seat).expect("the secret").prove(&mut header, &mut payload);
    [header.as_bytes(), &payload].concat()
}

/// Worker 0's first packet.
fn rows(shape: &Shape) -> Vec<u8> {
    let mut draft = RowDraft::new(RowKind::HotRows);
    let header = &mut draft.header;
    (header.job, header.node) = (JOB.0.into(), 1.into());
    (header.job_key, header.round) = (KEY.0.into(), ROUND.into());
    match shape.lanes {
        Lanes::Int => header.flags = wiresum_wire::Flags::LITTLE_ENDIAN.0.into(),
        Lanes::Float => {}
        Lanes::Bfloat => draft.set_value(RowValue::Bfloat16),
        Lanes::Half => draft.set_value(RowValue::Float16),
    }
    draft.rows.stamp.set(MAP_VERSION);
    (draft.rows.rows, draft.rows.dim) = (shape.rows.into(), shape.dim.into());
    let spacing = shape.spacing.positions() as u16;
    let mut columns: Vec<u8> =
        (0..shape.rows).flat_map(|row| (row * spacing).to_be_bytes()).collect();
    columns.resize(columns.len().next_multiple_of(4), 0);
    // Gradients of many sizes and both signs.
    let value = |index: u32| (index as f32 - 250.0) * 2f32.powi(-((index % 24) as i32));
    let values = (0..u32::from(shape.rows) * u32::from(shape.dim)).map(value);
    match shape.lanes {
        Lanes::Int | Lanes::Float => columns.extend(values.flat_map(f32::to_le_bytes)),
        Lanes::Bfloat => columns.extend(values.flat_map(|x| bf16::from_f32(x).to_le_bytes())),
        Lanes::Half => columns.extend(values.flat_map(|x| f16::from_f32(x).to_le_bytes())),
    }
    let mut datagram = Vec::new();
    draft.emit(&columns, &mut datagram);
    datagram
}

/// One step before worker 0's first packet.
fn feed(shape: &Shape) -> RowsFeed {
    RowsFeed {
        contributor: u32::from(shape.workers) - 1,
        contributors: shape.workers.into(),
        number: u32::MAX,
        packets: shape.packets(),
        step: shape.step(),
        stream: 0,
        first_port: FIRST_PORT,
        reserved: 0,
    }
}
