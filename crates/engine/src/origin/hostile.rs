//! Servers that mean harm, or were never tested.
