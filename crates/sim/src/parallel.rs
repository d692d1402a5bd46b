//! Experiments side by side, or one after the other: with the feature `rayon` (the
//! default) they run on as many threads as there are, without it on one. Each has a
//! generator of its own, so results are the same either way.

#[cfg(feature = "rayon")]
pub(crate) use rayon::prelude::*;
#[cfg(not(feature = "rayon"))]
pub(crate) use serial::*;

/// As much of rayon's traits as we use, on one thread.
#[cfg(not(feature = "rayon"))]
mod serial {
    pub(crate) trait IntoParallelIterator: IntoIterator + Sized {
        fn into_par_iter(self) -> Self::IntoIter {
            self.into_iter()
        }
    }

    impl<I: IntoIterator> IntoParallelIterator for I {}

    pub(crate) trait ParallelSlice<T> {
        fn par_iter(&self) -> std::slice::Iter<'_, T>;
    }

    impl<T> ParallelSlice<T> for [T] {
        fn par_iter(&self) -> std::slice::Iter<'_, T> {
            self.iter()
        }
    }
}
