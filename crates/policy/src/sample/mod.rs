//! Finding changes by sampling sources: the batch policies of the sampling paper.
