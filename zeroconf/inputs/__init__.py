"""Facts from the outside world, as types: model, cluster, workload, project file."""
