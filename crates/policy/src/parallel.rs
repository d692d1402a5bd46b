//! Parallel loops, or plain ones: with the feature `rayon` (the default) they run on as
//! many threads as there are, without it on one. Results are the same either way, for
//! sums are taken over chunks of a fixed size and added in order.

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
        fn par_chunks(&self, size: usize) -> std::slice::Chunks<'_, T>;
        fn par_chunks_mut(&mut self, size: usize) -> std::slice::ChunksMut<'_, T>;
    }

    impl<T> ParallelSlice<T> for [T] {
        fn par_iter(&self) -> std::slice::Iter<'_, T> {
            self.iter()
        }

        fn par_chunks(&self, size: usize) -> std::slice::Chunks<'_, T> {
            self.chunks(size)
        }

        fn par_chunks_mut(&mut self, size: usize) -> std::slice::ChunksMut<'_, T> {
            self.chunks_mut(size)
        }
    }

    pub(crate) trait ParallelIterator: Iterator + Sized {
        fn with_min_len(self, _: usize) -> Self {
            self
        }

        fn map_init<S, T>(
            self,
            init: impl Fn() -> S,
            mut each: impl FnMut(&mut S, Self::Item) -> T,
        ) -> impl Iterator<Item = T> {
            let mut state = init();
            self.map(move |item| each(&mut state, item))
        }
    }

    impl<I: Iterator> ParallelIterator for I {}
}
