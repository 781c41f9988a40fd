"""What a flood at one host costs another host's job: `load` is the job, or the flood."""
