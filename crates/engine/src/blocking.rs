//! Work that takes a while without waiting for anything.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Does work that keeps its thread busy, or waiting for the disk, for a while. Where
/// there are other threads, tasks go on there meanwhile.
pub(crate) fn blocking<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}
