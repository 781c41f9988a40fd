//! What a station tells the plane below it, and what becomes of a hello where that refuses.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use wiresum_protocol::association::ValueKeys;
use wiresum_protocol::plan::Policy;
use wiresum_protocol::{Association, Plan, Time};
use wiresum_switch::live::notes::Note;
use wiresum_switch::live::plane::{DataPlane, PlaneError, passed};
use wiresum_switch::live::{PlaneState, Station, Unfit};
use wiresum_switch::{Outcome, Packet, Place, Values};
use wiresum_wire::{JobId, JobKey, MAX_PACKET, NodeId, SubModelId};
use wiresum_worker::Session;

use crate::plans::{Shape, plan};

#[derive(Default)]
struct Told {
    /// Number of places, and the key, of each call.
    installs: Vec<(usize, Option<JobKey>)>,
    met: Vec<SocketAddr>,
    bypassed: Vec<JobId>,
    /// Keys of values, of each stream of each incarnation.
    renewed: Vec<ValueKeys>,
    /// Number of places of each job that it goes on with.
    resumed: Vec<usize>,
    refuses_to_meet: bool,
    refuses_to_run: bool,
}

struct Plane(Arc<Mutex<Told>>);

fn no(yes: bool) -> Result<(), PlaneError> {
    if yes { Err(PlaneError::Carrier("not today".into())) } else { Ok(()) }
}

impl DataPlane for Plane {
    fn install(
        &mut self,
        _job: JobId,
        places: &[Place],
        key: Option<JobKey>,
    ) -> Result<(), PlaneError> {
        let mut told = self.0.lock().expect("no panics");
        told.installs.push((places.len(), key));
        no(told.refuses_to_run && key.is_some())
    }

    fn renew(
        &mut self,
        _job: JobId,
        _sub_model: SubModelId,
        keys: ValueKeys,
    ) -> Result<(), PlaneError> {
        self.0.lock().expect("no panics").renewed.push(keys);
        Ok(())
    }

    fn bypass(&mut self, job: JobId) -> Result<(), PlaneError> {
        self.0.lock().expect("no panics").bypassed.push(job);
        Ok(())
    }

    fn state(&self) -> Result<PlaneState, PlaneError> {
        Ok(PlaneState::default())
    }

    fn resume(&mut self, _state: PlaneState, jobs: &[(&Plan, &[Place])]) -> Result<(), Unfit> {
        let mut told = self.0.lock().expect("no panics");
        told.resumed.extend(jobs.iter().map(|(_, places)| places.len()));
        Ok(())
    }

    fn meet(&mut self, address: SocketAddr) -> Result<(), PlaneError> {
        let mut told = self.0.lock().expect("no panics");
        told.met.push(address);
        no(told.refuses_to_meet)
    }

    fn handle(&mut self, packet: &mut Packet<Values>) -> Outcome {
        passed(packet)
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("added", 7)]
    }

    fn memory_bytes(&self) -> usize {
        5
    }
}

const SOURCE: &str = "10.0.0.0:5748";

/// The switch of a star over a plane that notes what it is told.
struct Scene {
    plan: Plan,
    told: Arc<Mutex<Told>>,
    station: Station,
    answers: usize,
}

impl Scene {
    fn new() -> Self {
        let plan = plan(Policy::Hash, Shape::Star);
        let told = Arc::new(Mutex::new(Told::default()));
        let plane = Box::new(Plane(told.clone()));
        let station = Station::over(plane, std::slice::from_ref(&plan), NodeId(2));
        Self { plan, told, station: station.expect("it fits"), answers: 0 }
    }

    /// A worker's hello in an incarnation.
    fn greet(&mut self, incarnation: u64) {
        let now = Time(0);
        let mut session = Session::new(&self.plan, 0, incarnation);
        session.join(now.plus(Duration::from_secs(1)), now);
        session.handle_timeout(now);
        let mut buffer = [0; MAX_PACKET];
        let hello = session.poll_transmit(now, &mut buffer).expect("a hello");
        let len = hello.len;
        self.hear(&buffer[..len]);
    }

    fn hear(&mut self, datagram: &[u8]) {
        let source = SOURCE.parse().expect("an address");
        self.station.handle(source, datagram, |_, _| self.answers += 1);
    }
}

#[test]
fn a_plane_hears_of_places_neighbours_and_incarnations() {
    let mut scene = Scene::new();
    scene.greet(1);
    scene.greet(1);
    scene.greet(2);
    let told = scene.told.lock().expect("no panics");
    let keys = [1, 2].map(|incarnation| Some(scene.plan.job_key(incarnation)));
    assert_eq!(told.installs, [(3, None), (3, keys[0]), (3, keys[1])]);
    let keys = [1, 2].map(|incarnation| Association::new(&scene.plan, incarnation).keys());
    let of_streams = scene.plan.streams.len();
    assert_eq!(told.renewed, [[keys[0]].repeat(of_streams), [keys[1]].repeat(of_streams)].concat());
    assert_eq!(told.met, [SOURCE.parse::<SocketAddr>().expect("an address"); 3]);
    assert!(scene.answers > 0);
    assert_eq!(scene.station.memory_bytes(), 5, "no server is here");
    assert!(scene.station.counters().contains(&("added", 7)));
}

/// Installing would free the slots that the plane has.
#[test]
fn a_station_that_goes_on_installs_nothing() {
    let mut scene = Scene::new();
    scene.greet(1);
    let told = Arc::new(Mutex::new(Told::default()));
    let state = scene.station.state().expect("plain data");
    let plane = Box::new(Plane(told.clone()));
    let resumed = Station::resumed(plane, std::slice::from_ref(&scene.plan), NodeId(2), state);
    scene.station = resumed.expect("the same plan");
    let keys: BTreeSet<_> = scene.station.known().flat_map(|(_, keys)| keys).collect();
    let known = Association::new(&scene.plan, 1).keys();
    assert_eq!(keys, known.into_iter().flatten().collect(), "it runs");
    let told = told.lock().expect("no panics");
    assert_eq!((told.installs.len(), told.resumed.clone()), (0, vec![3]));
}

/// A worker that has joined was welcomed here before.
#[test]
fn a_plane_that_has_forgotten_a_job_is_told_so_once() {
    let mut scene = Scene::new();
    let key = scene.plan.keys().hello(0);
    let hello = Note { is_member: true, ..Note::hello(&scene.plan, 0, 1) };
    scene.hear(&Note { attempt: 1, ..hello }.proven(&key).emit());
    scene.hear(&Note { attempt: 2, ..hello }.proven(&key).emit());
    assert_eq!(scene.told.lock().expect("no panics").bypassed, [scene.plan.job_id()]);
}

#[test]
fn whom_the_plane_cannot_meet_gets_no_answer_and_the_log_says_why() {
    let mut scene = Scene::new();
    scene.told.lock().expect("no panics").refuses_to_meet = true;
    scene.greet(1);
    assert_eq!(scene.answers, 0);
    let problem = scene.station.take_problem().expect("a problem");
    assert!(problem.contains(SOURCE) && problem.contains("not today"), "{problem}");
    assert!(scene.station.counters().contains(&("strangers", 1)));
}

#[test]
fn a_job_that_cannot_begin_welcomes_nobody_until_it_can() {
    let mut scene = Scene::new();
    scene.told.lock().expect("no panics").refuses_to_run = true;
    scene.greet(1);
    assert_eq!(scene.answers, 0);
    let problem = scene.station.take_problem().expect("a problem");
    assert!(problem.contains("job 1 does not begin: not today"), "{problem}");
    scene.told.lock().expect("no panics").refuses_to_run = false;
    scene.greet(1);
    assert!(scene.answers > 0);
    assert_eq!(scene.station.take_problem(), None);
}
