//! What every store has to do, as tests over any of them.
//!
//! Each function is given an empty store, or a [`Place`] where there is one, and panics
//! if a promise is broken. A store's test file says how a place is come by, and
//! [`conformance!`](crate::conformance!) makes a test of each:
//!
//! ```
//! # use springtide_store::conformance::Place;
//! # use springtide_store::{Error, Memory, Reader, Writer};
//! struct InMemory(Memory);
//!
//! impl Place for InMemory {
//!     fn open(&self) -> Result<Box<dyn Writer>, Error> {
//!         Ok(Box::new(self.0.take_over()))
//!     }
//!
//!     fn read(&self) -> Result<Box<dyn Reader>, Error> {
//!         Ok(Box::new(self.0.clone()))
//!     }
//!
//!     fn end_lease(&self) {
//!         self.0.take_over();
//!     }
//! }
//!
//! fn with_place(test: fn(&dyn Place)) {
//!     test(&InMemory(Memory::new()));
//! }
//! springtide_store::conformance!(with_place);
//! ```
//!
//! [`assert_same`] asks two stores everything that can be asked.

mod elements;
mod records;
mod same;
mod samples;
mod state;

pub use elements::*;
pub use records::*;
pub use same::assert_same;
pub use state::*;

use crate::{Error, Reader, Writer};

/// Where there is a store to be tested, empty at first.
pub trait Place {
    /// Opens the store to write; nobody else writes to it.
    fn open(&self) -> Result<Box<dyn Writer>, Error>;
    /// Opens the store to read, beside whoever writes; it was opened to write before.
    fn read(&self) -> Result<Box<dyn Reader>, Error>;
    /// Takes the lease away from the writer there is, so that another may come.
    fn end_lease(&self);
}

/// A test for every function here, with a function that calls what it is given with a
/// [`Place`].
#[macro_export]
macro_rules! conformance {
    ($with_place:path) => {
        $crate::conformance! {
            $with_place:
            stores {
                an_empty_store_has_no_answers,
                sources_are_kept_and_come_in_the_order_of_their_numbers,
                totals_and_errors_are_those_of_their_source,
                groups_are_kept_and_found_by_number,
                hosts_and_robots_txt_are_kept_each_for_itself,
                what_is_remembered_is_kept_by_what_it_is_of,
                notes_are_kept_and_forgotten,
                a_new_element_is_found_by_number_and_by_locator,
                one_locator_may_be_in_several_sources,
                what_an_element_is_may_change_without_what_is_known_of_it,
                everything_about_an_element_is_kept,
                a_copy_may_go_again,
                an_element_that_moved_is_found_where_it_is_and_not_where_it_was,
                elements_come_in_pages,
                new_elements_are_listed_and_counted_by_host,
                a_scan_passes_every_element_in_order,
                a_scan_with_a_stride_takes_whole_blocks,
                changes_are_numbered_as_they_come_and_listed_newest_first,
                changes_are_filtered_by_source_element_and_time,
                polls_are_listed_newest_first,
                audits_tell_whether_a_copy_was_fresh,
                the_latest_polls_that_count_are_listed,
                what_is_known_of_queries_is_kept_and_listed_by_text,
                bodies_of_copies_and_of_versions_are_named,
                what_is_forgotten_is_gone_and_the_rest_is_as_it_was,
                a_removed_source_leaves_nothing_and_its_numbers_are_not_given_again,
                facts_of_one_batch_are_kept_in_their_order,
            }
            places {
                what_was_kept_is_there_for_the_next_writer,
                whoever_reads_beside_a_writer_sees_what_was_committed,
                whoever_has_lost_the_lease_keeps_nothing,
                no_number_that_a_fact_has_is_given_again,
            }
        }
    };
    ($with_place:path: stores { $($store:ident,)+ } places { $($place:ident,)+ }) => {
        $(
            #[test]
            fn $store() {
                $with_place(|place| {
                    $crate::conformance::$store(&mut *place.open().expect("a store"));
                });
            }
        )+
        $(
            #[test]
            fn $place() {
                $with_place($crate::conformance::$place);
            }
        )+
    };
}
