//! Places where a process may be made to die, to see that nothing is lost.

/// The names of all of them.
pub const FAIL_POINTS: &[&str] = &[
    "answered",
    "fetched",
    "body-kept",
    "before-commit",
    "after-commit",
    "before-launch",
];

/// Dies here, at once and without a word, if the variable `SPRINGTIDE_FAIL_POINT` says
/// `name:n` and this is the n-th time. Release builds do not look.
#[inline]
pub(crate) fn fail_point(name: &str) {
    debug_assert!(FAIL_POINTS.contains(&name));
    #[cfg(debug_assertions)]
    armed::pass(name);
    #[cfg(not(debug_assertions))]
    let _ = name;
}

#[cfg(debug_assertions)]
mod armed {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    static WHERE: LazyLock<Option<(String, u32)>> = LazyLock::new(|| {
        let value = std::env::var("SPRINGTIDE_FAIL_POINT").ok()?;
        let (name, n) = value.split_once(':')?;
        Some((name.to_owned(), n.parse().ok()?))
    });
    static PASSED: AtomicU32 = AtomicU32::new(0);

    pub(super) fn pass(name: &str) {
        if let Some((wanted, n)) = &*WHERE
            && wanted == name
            && PASSED.fetch_add(1, Ordering::SeqCst) + 1 == *n
        {
            // No destructor runs and nothing is flushed, as when the process is
            // killed.
            std::process::abort();
        }
    }
}
