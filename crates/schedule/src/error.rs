use thiserror::Error;

/// What is wrong with an instance, a timetable or a request, and where.
#[derive(Debug, Error)]
pub enum ScheduleError {
    /// Not JSON, or not of this shape.
    #[error("it cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// A field has a value that makes no sense.
    #[error("field `{field}`: {problem}")]
    Field {
        /// Path of the field.
        field: String,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// No schedule can serve this job.
    #[error("job {job} cannot be served: {problem}")]
    Infeasible {
        /// Its id.
        job: u32,
        /// Why not, and what would help.
        problem: String,
    },
    /// A timetable breaks a rule.
    #[error("the timetable breaks a rule at {at_s} s: {problem}")]
    Broken {
        /// When.
        at_s: f64,
        /// Which rule, by whom.
        problem: String,
    },
}
