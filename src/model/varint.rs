//! Whole numbers in as few bytes as they need: seven bits a byte, low ones first (LEB128). For what is kept in memory by the million.

/// Appends `value`.
pub fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        // The low seven bits, and the mark that more follow.
        bytes.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    bytes.push(value.to_le_bytes()[0]);
}

/// Takes a number off the front. Of bytes that [`put`] didn't write it makes some number, never a panic.
pub fn take(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    let mut shift = 0;
    while let Some((&byte, rest)) = bytes.split_first() {
        *bytes = rest;
        value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte < 0x80 {
            break;
        }
        shift += 7;
    }
    value
}

/// Appends a text behind its length.
pub fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put(bytes, text.len() as u64);
    bytes.extend_from_slice(text.as_bytes());
}

/// Takes off the front what [`put_text`] put there. Whether it is still a text is for who needs one to look.
pub fn take_text<'a>(bytes: &mut &'a [u8]) -> &'a [u8] {
    let length = usize::try_from(take(bytes)).unwrap_or(usize::MAX).min(bytes.len());
    let (text, rest) = bytes.split_at(length);
    *bytes = rest;
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_put_is_taken(values in prop::collection::vec(any::<u64>(), 0..20), text in ".*") {
            let mut bytes = Vec::new();
            for &value in &values {
                put(&mut bytes, value);
            }
            put_text(&mut bytes, &text);
            let mut rest = &bytes[..];
            for &value in &values {
                prop_assert_eq!(take(&mut rest), value);
            }
            prop_assert_eq!(take_text(&mut rest), text.as_bytes());
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn foreign_bytes_are_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut rest = &bytes[..];
            take_text(&mut rest);
            take(&mut rest);
        }
    }

    #[test]
    fn small_numbers_are_short() {
        for (value, length) in [(0, 1), (0x7f, 1), (0x80, 2), (u64::MAX, 10)] {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            assert_eq!(bytes.len(), length, "{value}");
        }
    }
}
