//! Panics: none of ours is expected, and those of a library over damaged input
//! are errors like any other.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};

thread_local! {
    static CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Keeps panics that [`caught`] turns into errors off standard error.
pub(crate) fn install() {
    let default = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if !CAUGHT.get() {
            default(info);
        }
    }));
}

/// Runs something that may panic, silently, and gives its message if it does.
pub(crate) fn caught<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    let before = CAUGHT.replace(true);
    let outcome = panic::catch_unwind(AssertUnwindSafe(run));
    CAUGHT.set(before);
    outcome.map_err(|payload| {
        let text = payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned());
        text.or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "it makes no sense".to_owned())
    })
}
