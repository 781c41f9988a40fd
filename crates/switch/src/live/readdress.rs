//! Neighbours of a job that move while it runs, as where another circuit joins the same two nodes.

use wiresum_plan::Plan;

use super::station::{Station, StationError, fabric_neighbours};

impl Station {
    /// Reaches the neighbours of a job elsewhere from now on, while it runs: its sums stay as they are. Nobody else need
    /// know, as no digest has an address in it.
    ///
    /// # Errors
    /// [`StationError::OtherJob`] if the plan differs in more than addresses of links, or what carries packets refuses.
    pub fn readdress(&mut self, plan: &Plan) -> Result<(), StationError> {
        let id = plan.job_id();
        let job = self.jobs.get_mut(&id).filter(|job| job.digest == plan.digest());
        let job = job.ok_or(StationError::OtherJob(id.0))?;
        self.plane.readdress(plan)?;
        job.plan.fabric.clone_from(&plan.fabric);
        job.onward = job.plan.onward(self.node);
        job.neighbours = fabric_neighbours(&job.plan, self.node);
        Ok(())
    }
}
