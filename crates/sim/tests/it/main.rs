//! The simulator against closed forms, hand-made worlds and itself.

mod closed_forms;
mod first_hours;
mod learned;
mod search;
mod table;
mod worlds;
