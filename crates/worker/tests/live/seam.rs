//! What a station tells the plane below it, and what becomes of a hello where that refuses.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use wiresum_protocol::plan::Policy;
use wiresum_protocol::{Plan, Time};
use wiresum_switch::live::plane::{DataPlane, PlaneError, passed};
use wiresum_switch::live::{PlaneState, Station, Unfit};
use wiresum_switch::{Outcome, Packet, Place, Values};
use wiresum_wire::{JobId, JobKey, MAX_PACKET, NodeId};
use wiresum_worker::Session;

use crate::plans::{Shape, plan};

#[derive(Default)]
struct Told {
    /// Number of places, and the key, of each call.
    installs: Vec<(usize, Option<JobKey>)>,
    met: Vec<SocketAddr>,
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

    fn bypass(&mut self, _job: JobId) -> Result<(), PlaneError> {
        Ok(())
    }

    fn state(&self) -> Result<PlaneState, PlaneError> {
        Ok(PlaneState::default())
    }

    fn resume(&mut self, _: PlaneState, _: &[(&Plan, &[Place])]) -> Result<(), Unfit> {
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
        let (source, len) = (SOURCE.parse().expect("an address"), hello.len);
        self.station.handle(source, &buffer[..len], |_, _| self.answers += 1);
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
    assert_eq!(told.met, [SOURCE.parse::<SocketAddr>().expect("an address"); 3]);
    assert!(scene.answers > 0);
    assert_eq!(scene.station.memory_bytes(), 5, "no server is here");
    assert!(scene.station.counters().contains(&("added", 7)));
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
