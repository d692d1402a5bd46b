//! What work costs, whoever else is busy on the machine.

use std::time::Duration;

/// The CPU time that this thread took for some work, to some milliseconds.
pub(crate) fn cpu_time(work: impl FnOnce()) -> Duration {
    let before = cpu_time_so_far();
    work();
    cpu_time_so_far() - before
}

fn cpu_time_so_far() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    let nanoseconds = stat.split_whitespace().next().unwrap();
    Duration::from_nanos(nanoseconds.parse().unwrap())
}
