//! Entries' ids in as few bytes as they need: in memory there are two of each message's, and nearly all are UUIDs.

use std::fmt;
use std::sync::Arc;

use uuid::Uuid;
use uuid::fmt::Hyphenated;

use super::varint;

/// An id as it is packed: a UUID as the service writes them (36 characters, lower case) is 16 bytes, everything else is its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CompactId<'a> {
    /// Written [`Hyphenated`] it is the id again.
    Uuid(Uuid),
    /// Anything else.
    Text(&'a [u8]),
}

/// Room for the text of an id.
pub type Room = [u8; Hyphenated::LENGTH];

impl<'a> CompactId<'a> {
    /// The id `text`.
    #[must_use]
    pub fn of(text: &'a str) -> Self {
        // The other spellings of a UUID are other ids.
        let plain = text.len() == Hyphenated::LENGTH && !text.bytes().any(|byte| byte.is_ascii_uppercase());
        match Uuid::try_parse(text) {
            Ok(uuid) if plain => Self::Uuid(uuid),
            _ => Self::Text(text.as_bytes()),
        }
    }

    /// Appends it.
    pub fn put(self, bytes: &mut Vec<u8>) {
        match self {
            Self::Uuid(uuid) => {
                bytes.push(0);
                bytes.extend_from_slice(uuid.as_bytes());
            }
            Self::Text(text) => {
                varint::put(bytes, text.len() as u64 + 1);
                bytes.extend_from_slice(text);
            }
        }
    }

    /// Takes off the front what [`put`](Self::put) put there. Of other bytes it makes some id, never a panic.
    #[must_use]
    pub fn take(bytes: &mut &'a [u8]) -> Self {
        match varint::take(bytes) {
            0 => {
                let (uuid, rest) = bytes.split_first_chunk().unwrap_or((&[0; 16], &[]));
                *bytes = rest;
                Self::Uuid(Uuid::from_bytes(*uuid))
            }
            length => {
                let length = usize::try_from(length - 1).unwrap_or(usize::MAX).min(bytes.len());
                let (text, rest) = bytes.split_at(length);
                *bytes = rest;
                Self::Text(text)
            }
        }
    }

    /// Its bytes as they are packed, for hashing: two ids are the same where these are.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        match self {
            Self::Uuid(uuid) => uuid.as_bytes(),
            Self::Text(text) => text,
        }
    }

    /// Its text; a UUID's is written to `room`.
    #[must_use]
    pub fn text<'b>(&'b self, room: &'b mut Room) -> &'b str {
        match self {
            Self::Uuid(uuid) => uuid.hyphenated().encode_lower(room),
            // Only texts are put.
            Self::Text(text) => simdutf8::basic::from_utf8(text).unwrap_or_default(),
        }
    }

    /// As an id of its own.
    #[must_use]
    pub fn id(&self) -> EntryId {
        EntryId(match self {
            Self::Uuid(uuid) => Own::Uuid(*uuid),
            Self::Text(_) => Own::Text(Arc::from(self.text(&mut [0; _]))),
        })
    }
}

/// The id of what a row holds: the body's `id`, else the envelope's, else `seq`. Unique in one Bot's transcript.
///
/// A text; a UUID is held as one, so that nearly no row needs memory elsewhere for its id. Ids are ordered as [`CompactId`]s are.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId(Own);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Own {
    Uuid(Uuid),
    Text(Arc<str>),
}

impl EntryId {
    /// As it is packed.
    #[must_use]
    pub fn compact(&self) -> CompactId<'_> {
        match &self.0 {
            Own::Uuid(uuid) => CompactId::Uuid(*uuid),
            Own::Text(text) => CompactId::Text(text.as_bytes()),
        }
    }

    /// Its text, as the service writes it; a UUID's is written to `room`.
    #[must_use]
    pub fn text<'a>(&'a self, room: &'a mut Room) -> &'a str {
        match &self.0 {
            Own::Uuid(uuid) => uuid.hyphenated().encode_lower(room),
            Own::Text(text) => text,
        }
    }
}

impl From<&str> for EntryId {
    fn from(text: &str) -> Self {
        CompactId::of(text).id()
    }
}

impl From<String> for EntryId {
    fn from(text: String) -> Self {
        Self::from(&*text)
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text(&mut [0; _]))
    }
}

impl fmt::Debug for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text(&mut [0; _]))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn packed(text: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        CompactId::of(text).put(&mut bytes);
        bytes
    }

    fn comes_back(text: &str) {
        let bytes = packed(text);
        let mut rest = &bytes[..];
        assert_eq!(CompactId::take(&mut rest).id().to_string(), text);
        assert_eq!(EntryId::from(text).compact(), CompactId::of(text));
        assert_eq!(rest, [0; 0]);
    }

    proptest! {
        #[test]
        fn an_id_comes_back_as_it_was(text in ".*", uuid in any::<u128>()) {
            comes_back(&text);
            comes_back(&Uuid::from_u128(uuid).to_string());
        }

        #[test]
        fn foreign_bytes_are_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = CompactId::take(&mut &bytes[..]).id();
        }
    }

    #[test]
    fn only_a_uuid_as_the_service_writes_them_is_short() {
        let plain = "0f8fad5b-d9cb-469f-a165-70867728950e";
        for (text, length) in [
            (plain, 17),
            (&*plain.to_uppercase(), 37),
            (&*plain.replace('-', ""), 33),
            (&*format!("{{{plain}}}"), 39),
            (&*format!("urn:uuid:{plain}"), 46),
            ("0f8fad5b-d9cb-469f-a165-70867728950g", 37),
            ("0f8fad5b-d9cb-469f-a165-7086772895你", 38),
            ("t1", 3),
            ("", 1),
        ] {
            assert_eq!(packed(text).len(), length, "{text}");
            comes_back(text);
        }
    }

    #[test]
    fn ids_are_the_same_where_their_texts_are() {
        let texts = ["0f8fad5b-d9cb-469f-a165-70867728950e", "0F8FAD5B-d9cb-469f-a165-70867728950e", "t1", "t2", ""];
        for one in texts {
            for two in texts {
                assert_eq!(CompactId::of(one) == CompactId::of(two), one == two, "{one} {two}");
            }
        }
    }
}
