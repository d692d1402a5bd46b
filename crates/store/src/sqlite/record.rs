//! What is kept of an element in few bytes, and where they are.
//!
//! Records of [`PER_CHUNK`] consecutive elements make a chunk, which fits a page of
//! the database: a poll writes one page, as it would for a row, and going through
//! all elements is little more than reading their bytes.
//!
//! ```text
//!  0  source         u32      44  first_polled_at  i48
//!  4  group          u32      50  polled_at        i48
//!  8  weight         f32      56  synced_at        i48
//! 12  n_polls        u32      62  role, state      4 bits each
//! 16  n_changes      u32      63  flags
//! 20  memory      24 bytes
//! ```
//!
//! All is little-endian. Without its first flag, a record is of no element. A moment
//! in 48 bits reaches 4,459 years either way; what lies beyond is kept as the last
//! that fits.

use super::code::Code;
use crate::{Brief, ElementId, GroupId, History, Moment, Role, SourceId, State};

/// How many elements share a chunk: as many as fit into a page of 4096 bytes beside
/// what the database writes there.
pub(crate) const PER_CHUNK: u32 = 60;
/// The length of a record.
pub(super) const LENGTH: usize = 64;
/// The length of a chunk.
pub(super) const CHUNK: usize = PER_CHUNK as usize * LENGTH;

const IS_THERE: u8 = 1;
const HAS_FIRST: u8 = 2;
const HAS_POLLED: u8 = 4;
const HAS_SYNCED: u8 = 8;

/// The chunk that an element's record is in.
pub(super) fn chunk_of(element: ElementId) -> u32 {
    element.0 / PER_CHUNK
}

/// Where in its chunk an element's record is.
pub(super) fn place_of(element: ElementId) -> usize {
    (element.0 % PER_CHUNK) as usize * LENGTH
}

/// The number of an element, by its chunk and the place in it; nothing if there is
/// no such number.
pub(super) fn element_at(chunk: u32, index: usize) -> Option<ElementId> {
    let first = chunk.checked_mul(PER_CHUNK)?;
    Some(ElementId(first.checked_add(index as u32)?))
}

/// A record that is of no element.
pub(super) const NONE: [u8; LENGTH] = [0; LENGTH];

/// The record of an element.
pub(super) fn encode(brief: &Brief) -> [u8; LENGTH] {
    let history = &brief.history;
    let mut record = NONE;
    record[0..4].copy_from_slice(&brief.source.0.to_le_bytes());
    record[4..8].copy_from_slice(&brief.group.number().to_le_bytes());
    record[8..12].copy_from_slice(&brief.weight.to_le_bytes());
    record[12..16].copy_from_slice(&history.n_polls.to_le_bytes());
    record[16..20].copy_from_slice(&history.n_changes.to_le_bytes());
    record[20..44].copy_from_slice(&history.memory);
    let mut flags = IS_THERE;
    for (at, flag, moment) in [
        (44, HAS_FIRST, history.first_polled_at),
        (50, HAS_POLLED, history.polled_at),
        (56, HAS_SYNCED, history.synced_at),
    ] {
        if let Some(Moment(ms)) = moment {
            let ms = ms.clamp(-(1 << 47), (1 << 47) - 1);
            record[at..at + 6].copy_from_slice(&ms.to_le_bytes()[..6]);
            flags |= flag;
        }
    }
    record[62] = brief.role.code() | (brief.state.code() << 4);
    record[63] = flags;
    record
}

/// What a record says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Decoded {
    /// Of an element.
    Of(Brief),
    /// Of no element.
    None,
    /// It was not written by [`encode`].
    Damaged,
}

/// What a record says. Fewer bytes than a record has are damaged.
pub(super) fn decode(record: &[u8]) -> Decoded {
    let Ok(record) = <&[u8; LENGTH]>::try_from(record) else {
        return Decoded::Damaged;
    };
    let flags = record[63];
    if flags & IS_THERE == 0 {
        return if *record == NONE {
            Decoded::None
        } else {
            Decoded::Damaged
        };
    }
    let number = |at: usize| {
        u32::from_le_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]])
    };
    let moment = |at: usize, flag| {
        (flags & flag != 0).then(|| {
            let mut bytes = [0; 8];
            bytes[2..].copy_from_slice(&record[at..at + 6]);
            // Shifted down from the top, so that the sign comes along.
            Moment(i64::from_le_bytes(bytes) >> 16)
        })
    };
    let codes = (
        GroupId::new(number(4)),
        Role::from_code(record[62] & 15),
        State::from_code(record[62] >> 4),
    );
    let (Some(group), Some(role), Some(state)) = codes else {
        return Decoded::Damaged;
    };
    let mut memory = [0; 24];
    memory.copy_from_slice(&record[20..44]);
    Decoded::Of(Brief {
        source: SourceId(number(0)),
        group,
        weight: f32::from_le_bytes([record[8], record[9], record[10], record[11]]),
        role,
        state,
        history: History {
            first_polled_at: moment(44, HAS_FIRST),
            polled_at: moment(50, HAS_POLLED),
            synced_at: moment(56, HAS_SYNCED),
            n_polls: number(12),
            n_changes: number(16),
            memory,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn brief() -> Brief {
        Brief {
            source: SourceId(0x0403_0201),
            group: GroupId::new(0x0807_0605).unwrap(),
            weight: 1.5,
            role: Role::Hub,
            state: State::Gone,
            history: History {
                first_polled_at: Some(Moment(-1)),
                polled_at: None,
                synced_at: Some(Moment(0x0102_0304_0506)),
                n_polls: 0x0c0b_0a09,
                n_changes: 7,
                memory: [0xaa; 24],
            },
        }
    }

    #[test]
    fn a_record_is_laid_out_as_said() {
        let mut expected = vec![1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0xc0, 0x3f];
        expected.extend([9, 10, 11, 12, 7, 0, 0, 0]);
        expected.extend([0xaa; 24]);
        expected.extend([0xff; 6]);
        expected.extend([0; 6]);
        expected.extend([6, 5, 4, 3, 2, 1]);
        expected.extend([0x42, 1 | 2 | 8]);
        assert_eq!(encode(&brief()).as_slice(), expected);
    }

    #[test]
    fn a_record_says_what_was_put_into_it() {
        assert_eq!(decode(&encode(&brief())), Decoded::Of(brief()));
        let mut other = brief();
        other.history = History::default();
        other.state = State::New;
        assert_eq!(decode(&encode(&other)), Decoded::Of(other));
    }

    #[test]
    fn moments_that_do_not_fit_are_the_last_that_do() {
        let mut far = brief();
        far.history.first_polled_at = Some(Moment(i64::MIN));
        far.history.polled_at = Some(Moment(i64::MAX));
        let Decoded::Of(kept) = decode(&encode(&far)) else {
            panic!("a record");
        };
        assert_eq!(kept.history.first_polled_at, Some(Moment(-(1 << 47))));
        assert_eq!(kept.history.polled_at, Some(Moment((1 << 47) - 1)));
    }

    #[test]
    fn what_was_not_encoded_is_damaged_and_does_not_panic() {
        assert_eq!(decode(&NONE), Decoded::None);
        assert_eq!(decode(&[]), Decoded::Damaged);
        assert_eq!(decode(&[1; LENGTH - 1]), Decoded::Damaged);
        assert_eq!(decode(&[0xff; LENGTH]), Decoded::Damaged);
        let mut lost = encode(&brief());
        lost[63] = 0;
        assert_eq!(decode(&lost), Decoded::Damaged);
    }

    #[test]
    fn every_element_has_a_place_of_its_own() {
        for id in [0, 1, 59, 60, 61, 119, 120, u32::MAX] {
            let element = ElementId(id);
            let index = place_of(element) / LENGTH;
            assert_eq!(element_at(chunk_of(element), index), Some(element));
        }
        assert_eq!(element_at(u32::MAX, 0), None);
    }
}
