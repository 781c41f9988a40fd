//! Schedules of jobs over optical circuits.

use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, Sender};

use pyo3::prelude::*;
use serde::Serialize;
use wiresum_schedule::bound::{Relaxation, Times, proven_s, refuses};
use wiresum_schedule::problem::Problem;
use wiresum_schedule::{Dialogue, Instance, Interval, Options, SCHEDULERS, ScheduleError, Sight};

use crate::errors;

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("it serialises")
}

/// Schedules an instance (JSON) by the scheduler of that name; options and answer are JSON, too.
#[pyfunction]
pub fn schedule(
    py: Python<'_>,
    instance: &str,
    scheduler: &str,
    options: &str,
) -> PyResult<String> {
    let answer = || -> Result<String, ScheduleError> {
        let instance = Instance::from_json(instance)?;
        let options: Options = serde_json::from_str(options)?;
        Ok(json(&wiresum_schedule::schedule(&instance, scheduler, &options)?))
    };
    py.detach(answer).map_err(errors::schedule_error)
}

/// Judges intervals (JSON) of an instance (JSON); returns what they cost, as JSON.
#[pyfunction]
pub fn validate_timetable(py: Python<'_>, instance: &str, intervals: &str) -> PyResult<String> {
    let answer = || -> Result<String, ScheduleError> {
        let intervals: Vec<Interval> = serde_json::from_str(intervals)?;
        Ok(json(&wiresum_schedule::judge(&Instance::from_json(instance)?, &intervals)?))
    };
    py.detach(answer).map_err(errors::schedule_error)
}

/// Name and summary of every scheduler.
#[pyfunction]
pub fn schedulers() -> Vec<(&'static str, &'static str)> {
    SCHEDULERS.iter().map(|scheduler| (scheduler.name, scheduler.summary)).collect()
}

/// A time before which no schedule of an instance (JSON) completes all jobs, in seconds.
#[pyfunction]
#[pyo3(signature = (instance, sums=true))]
pub fn schedule_bound(py: Python<'_>, instance: &str, sums: bool) -> PyResult<f64> {
    let answer = || -> Result<f64, ScheduleError> {
        let instance = Instance::from_json(instance)?;
        Ok(proven_s(&Problem::new(&instance, sums)?))
    };
    py.detach(answer).map_err(errors::schedule_error)
}

/// Whether it is proven that no schedule completes all jobs of an instance (JSON) by a time.
#[pyfunction]
#[pyo3(signature = (instance, by_s, sums=true))]
pub fn schedule_refuses(py: Python<'_>, instance: &str, by_s: f64, sums: bool) -> PyResult<bool> {
    let answer = || -> Result<bool, ScheduleError> {
        let instance = Instance::from_json(instance)?;
        Ok(refuses(&Problem::new(&instance, sums)?, by_s))
    };
    py.detach(answer).map_err(errors::schedule_error)
}

/// An instance (JSON) in numbers, as JSON: pairs, pools, and what each transfer takes from them.
#[pyfunction]
#[pyo3(signature = (instance, sums=true))]
pub fn schedule_problem(instance: &str, sums: bool) -> PyResult<String> {
    let answer = || -> Result<String, ScheduleError> {
        Ok(json(&Problem::new(&Instance::from_json(instance)?, sums)?))
    };
    answer().map_err(errors::schedule_error)
}

/// What any schedule needs that completes an instance (JSON) by a time, as a programme (JSON).
#[pyfunction]
#[pyo3(signature = (instance, completion_s, sums=true))]
pub fn schedule_relaxation(instance: &str, completion_s: f64, sums: bool) -> PyResult<String> {
    let answer = || -> Result<String, ScheduleError> {
        let instance = Instance::from_json(instance)?;
        Ok(json(&Relaxation::new(&Problem::new(&instance, sums)?, completion_s)))
    };
    answer().map_err(errors::schedule_error)
}

/// The times from one to another, both included, at which an instance (JSON) can be complete, in seconds.
#[pyfunction]
#[pyo3(signature = (instance, from_s, until_s, sums=true))]
pub fn schedule_times(instance: &str, from_s: f64, until_s: f64, sums: bool) -> PyResult<Vec<f64>> {
    let answer = || -> Result<Vec<f64>, ScheduleError> {
        let instance = Instance::from_json(instance)?;
        let times = Times::new(&Problem::new(&instance, sums)?);
        let indices = times.not_after(from_s)..=times.not_after(until_s);
        Ok(indices.map(|index| times.seconds(index)).collect())
    };
    answer().map_err(errors::schedule_error)
}

/// A scheduler that is asked slot by slot, in a thread of its own: it borrows from the instance.
#[pyclass(name = "OnlineScheduler", module = "wiresum._native", frozen)]
pub struct PyOnlineScheduler {
    line: Mutex<Line>,
}

struct Line {
    questions: Sender<Sight>,
    answers: Receiver<Result<Interval, ScheduleError>>,
}

#[pymethods]
impl PyOnlineScheduler {
    #[new]
    fn new(instance: &str, scheduler: &str, options: &str) -> PyResult<Self> {
        let parsed = || -> Result<(Instance, Options), ScheduleError> {
            Ok((Instance::from_json(instance)?, serde_json::from_str(options)?))
        };
        let (instance, options) = parsed().map_err(errors::schedule_error)?;
        let (scheduler, (questions, asked)) = (scheduler.to_owned(), mpsc::channel::<Sight>());
        let (answer, answers) = mpsc::channel();
        std::thread::spawn(move || {
            let ended = (|| {
                let problem = Problem::new(&instance, options.sums)?;
                let mut dialogue = Dialogue::new(&problem, &scheduler, &options)?;
                for sight in asked {
                    let _ = answer.send(Ok(dialogue.next(&sight)?));
                }
                Ok(())
            })();
            if let Err(error) = ended {
                let _ = answer.send(Err(error));
            }
        });
        Ok(Self { line: Mutex::new(Line { questions, answers }) })
    }

    /// Decides the next slot with what is seen (JSON); returns it as an interval (JSON).
    fn next(&self, py: Python<'_>, sight: &str) -> PyResult<String> {
        let answer = || -> Result<String, ScheduleError> {
            let line = self.line.lock().expect("nobody panics with it");
            // Where the thread has ended, its last answer says why.
            let _ = line.questions.send(serde_json::from_str(sight)?);
            let ended = || ScheduleError::Field {
                field: "scheduler".to_owned(),
                problem: "it has ended; its last answer said why".to_owned(),
            };
            Ok(json(&line.answers.recv().map_err(|_| ended())??))
        };
        py.detach(answer).map_err(errors::schedule_error)
    }
}
