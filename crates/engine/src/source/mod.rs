//! The formats in which sources say what elements they have: sitemaps, links in
//! pages, list files. Bytes in, addresses out; nothing here asks a network.

pub mod links;
pub mod list;
pub mod sitemap;
