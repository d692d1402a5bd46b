//! What sources list.
