//! Bodies, by their content.

/// The name of a body: the BLAKE3 digest of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BodyId(pub [u8; 32]);
