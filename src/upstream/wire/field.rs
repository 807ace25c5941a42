//! JSON values read tolerantly: a wrong type is a value.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::{Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// A field read tolerantly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::upstream) enum Field<T> {
    /// Left out, `null`, or `false` where no flag stands: defaults are omitted, and some servers write them out instead.
    #[default]
    Absent,
    /// Of a type that can't be read.
    Odd,
    /// Present.
    Is(T),
}

impl<T> Field<T> {
    fn map<U>(self, with: impl FnOnce(T) -> U) -> Field<U> {
        match self {
            Self::Absent => Field::Absent,
            Self::Odd => Field::Odd,
            Self::Is(value) => Field::Is(with(value)),
        }
    }

    /// The value, if there is one that can be read.
    pub(in crate::upstream) fn is(self) -> Option<T> {
        match self {
            Self::Is(value) => Some(value),
            Self::Absent | Self::Odd => None,
        }
    }

    /// Takes the field out of its record.
    pub(in crate::upstream) fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    /// The value or the default; an odd one is an error.
    pub(in crate::upstream) fn or_default(self) -> Result<T, Odd>
    where
        T: Default,
    {
        match self {
            Self::Is(value) => Ok(value),
            Self::Absent => Ok(T::default()),
            Self::Odd => Err(Odd),
        }
    }

    /// The value, if the field is present; an odd one is an error.
    pub(in crate::upstream) fn optional(self) -> Result<Option<T>, Odd> {
        match self {
            Self::Is(value) => Ok(Some(value)),
            Self::Absent => Ok(None),
            Self::Odd => Err(Odd),
        }
    }
}

/// A field that is needed couldn't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::upstream) struct Odd;

/// What a [`Field`] can hold, by the JSON type that comes. What isn't overridden is odd.
pub(in crate::upstream) trait FromJson<'de>: Sized {
    /// A string.
    fn from_text(_text: Cow<'de, str>) -> Field<Self> {
        Field::Odd
    }
    /// A string with escapes, which lies in the parser's buffer. Overridden by what needs no copy of it.
    fn from_unescaped(text: &str) -> Field<Self> {
        Self::from_text(Cow::Owned(text.to_owned()))
    }
    /// A whole number without sign.
    fn from_number(_number: u64) -> Field<Self> {
        Field::Odd
    }
    /// `true`.
    fn from_true() -> Field<Self> {
        Field::Odd
    }
    /// `false`.
    fn from_false() -> Field<Self> {
        Field::Absent
    }
    /// An object.
    fn from_map<A: MapAccess<'de>>(mut map: A) -> Result<Field<Self>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Field::Odd)
    }
    /// An array.
    fn from_seq<A: SeqAccess<'de>>(mut seq: A) -> Result<Field<Self>, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Field::Odd)
    }
}

impl<'de, T: FromJson<'de>> Deserialize<'de> for Field<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FieldVisitor(PhantomData))
    }
}

struct FieldVisitor<T>(PhantomData<T>);

impl<'de, T: FromJson<'de>> Visitor<'de> for FieldVisitor<T> {
    type Value = Field<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(if value { T::from_true() } else { T::from_false() })
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(T::from_number(value))
    }

    fn visit_i64<E>(self, _value: i64) -> Result<Self::Value, E> {
        // Negative: a number without sign comes as u64.
        Ok(Field::Odd)
    }

    fn visit_f64<E>(self, _value: f64) -> Result<Self::Value, E> {
        Ok(Field::Odd)
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Self::Value, E> {
        Ok(T::from_text(Cow::Borrowed(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(T::from_unescaped(value))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Field::Absent)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
        T::from_seq(seq)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::from_map(map)
    }
}

/// Text.
pub(in crate::upstream) type Text<'a> = Field<Cow<'a, str>>;

impl<'de: 'a, 'a> FromJson<'de> for Cow<'a, str> {
    fn from_text(text: Cow<'de, str>) -> Field<Self> {
        Field::Is(text)
    }
}

/// Text that is long and plain: base64. It is read as bytes, since serde_json finds their end several times as fast as a text's, of which it looks at
/// each character: a third of the work of reading a list of rows. What it leaves unseen there is looked for here.
///
/// What isn't such a text (`null` as well) fails, and with it the list, which is then read with its elements raw.
#[derive(Debug, Default)]
pub(in crate::upstream) struct Long<'a>(pub(in crate::upstream) Text<'a>);

impl<'a> From<Long<'a>> for Text<'a> {
    fn from(long: Long<'a>) -> Self {
        long.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Long<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(LongVisitor).map(|text| Self(Field::Is(text)))
    }
}

struct LongVisitor;

impl<'de> Visitor<'de> for LongVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_borrowed_bytes<E: serde::de::Error>(self, bytes: &'de [u8]) -> Result<Self::Value, E> {
        plain(bytes).map(Cow::Borrowed)
    }

    fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
        plain(bytes).map(|text| Cow::Owned(text.to_owned()))
    }
}

/// The bytes of a string as its text. Half a surrogate pair is no UTF-8 in them; and a control character must not stand in a JSON string, but one
/// that was written as an escape, which isn't told apart here, may.
fn plain<E: serde::de::Error>(bytes: &[u8]) -> Result<&str, E> {
    let lowest = bytes.iter().fold(u8::MAX, |lowest, byte| lowest.min(*byte));
    match simdutf8::basic::from_utf8(bytes) {
        Ok(text) if lowest >= b' ' => Ok(text),
        _ => Err(E::custom("no plain text")),
    }
}

/// Text that stays: copied once, into the form in which it is kept.
pub(in crate::upstream) type Kept = Field<Arc<str>>;

impl FromJson<'_> for Arc<str> {
    fn from_text(text: Cow<'_, str>) -> Field<Self> {
        Self::from_unescaped(&text)
    }

    fn from_unescaped(text: &str) -> Field<Self> {
        Field::Is(Arc::from(text))
    }
}

/// What few records have lies apart: a record with room for all of it is moved as a whole several times while it is read.
impl<'de, T: FromJson<'de>> FromJson<'de> for Box<T> {
    fn from_text(text: Cow<'de, str>) -> Field<Self> {
        T::from_text(text).map(Box::new)
    }

    fn from_unescaped(text: &str) -> Field<Self> {
        T::from_unescaped(text).map(Box::new)
    }

    fn from_number(number: u64) -> Field<Self> {
        T::from_number(number).map(Box::new)
    }

    fn from_true() -> Field<Self> {
        T::from_true().map(Box::new)
    }

    fn from_false() -> Field<Self> {
        T::from_false().map(Box::new)
    }

    fn from_map<A: MapAccess<'de>>(map: A) -> Result<Field<Self>, A::Error> {
        Ok(T::from_map(map)?.map(Box::new))
    }

    fn from_seq<A: SeqAccess<'de>>(seq: A) -> Result<Field<Self>, A::Error> {
        Ok(T::from_seq(seq)?.map(Box::new))
    }
}

/// A 64-bit number: a decimal string in the service's own JSON, a number in others'. Never read through a float.
pub(in crate::upstream) type Number = Field<u64>;

impl FromJson<'_> for u64 {
    fn from_text(text: Cow<'_, str>) -> Field<Self> {
        if text.is_empty() {
            return Field::Absent;
        }
        decimal(&text).map_or(Field::Odd, Field::Is)
    }

    fn from_number(number: u64) -> Field<Self> {
        Field::Is(number)
    }
}

/// Digits alone: `parse` would take a plus sign, too.
fn decimal(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// A flag that is up; one that is down is absent.
pub(in crate::upstream) type Flag = Field<bool>;

impl FromJson<'_> for bool {
    fn from_text(text: Cow<'_, str>) -> Field<Self> {
        match &*text {
            "" | "false" | "0" => Field::Absent,
            "true" | "1" => Field::Is(true),
            _ => Field::Odd,
        }
    }

    fn from_number(number: u64) -> Field<Self> {
        match number {
            0 => Field::Absent,
            1 => Field::Is(true),
            _ => Field::Odd,
        }
    }

    fn from_true() -> Field<Self> {
        Field::Is(true)
    }
}

/// A flag whose explicit `false` says more than its absence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::upstream) enum Said {
    Yes,
    No,
}

impl FromJson<'_> for Said {
    fn from_true() -> Field<Self> {
        Field::Is(Self::Yes)
    }

    fn from_false() -> Field<Self> {
        Field::Is(Self::No)
    }
}

/// An enum value: a full name, a name without its prefix, or a number. New ones are values like all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::upstream) enum Name<'a> {
    Text(Cow<'a, str>),
    Number(u64),
}

impl<'de: 'a, 'a> FromJson<'de> for Name<'a> {
    fn from_text(text: Cow<'de, str>) -> Field<Self> {
        if text.is_empty() {
            return Field::Absent;
        }
        Field::Is(match decimal(&text) {
            Some(number) => Name::Number(number),
            None => Name::Text(text),
        })
    }

    fn from_number(number: u64) -> Field<Self> {
        Field::Is(Name::Number(number))
    }
}

impl Name<'_> {
    /// Whether this is the value `short` of an enum whose full names start with `prefix`, or its number.
    pub(in crate::upstream) fn is(&self, prefix: &str, short: &str, number: u64) -> bool {
        match self {
            Self::Text(text) => text.strip_prefix(prefix).unwrap_or(text) == short,
            Self::Number(value) => *value == number,
        }
    }
}

/// Something is there: not `null`, `false` or an empty string.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::upstream) struct Present(pub(in crate::upstream) bool);

/// What makes a [`Present`] present.
struct Something;

impl FromJson<'_> for Something {
    fn from_text(text: Cow<'_, str>) -> Field<Self> {
        if text.is_empty() { Field::Absent } else { Field::Is(Self) }
    }
    fn from_number(_number: u64) -> Field<Self> {
        Field::Is(Self)
    }
    fn from_true() -> Field<Self> {
        Field::Is(Self)
    }
}

impl<'de> Deserialize<'de> for Present {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Objects, arrays and other numbers are odd to `Something`, and there all the same.
        Field::<Something>::deserialize(deserializer).map(|field| Self(!matches!(field, Field::Absent)))
    }
}

/// A list with its elements unread.
pub(in crate::upstream) type List<'a> = Field<Vec<&'a RawValue>>;

impl<'de: 'a, 'a> FromJson<'de> for Vec<&'a RawValue> {
    fn from_text(text: Cow<'de, str>) -> Field<Self> {
        absent_or_odd(&text)
    }

    fn from_seq<A: SeqAccess<'de>>(mut seq: A) -> Result<Field<Self>, A::Error> {
        let mut items = Self::with_capacity(seq.size_hint().unwrap_or(0));
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Field::Is(items))
    }
}

impl<'de, T: FromJson<'de>> FromJson<'de> for Vec<Field<T>> {
    fn from_text(text: Cow<'de, str>) -> Field<Self> {
        absent_or_odd(&text)
    }

    fn from_seq<A: SeqAccess<'de>>(mut seq: A) -> Result<Field<Self>, A::Error> {
        let mut items = Self::new();
        while let Some(item) = seq.next_element()? {
            // Each costs a hundred times the `{}` that it may be: a longer list is read with its elements raw.
            if items.len() == PLENTY {
                return Err(A::Error::custom("a long list"));
            }
            items.push(item);
        }
        Ok(Field::Is(items))
    }
}

/// More than any list of the service holds; twice a page.
pub(in crate::upstream) const PLENTY: usize = 1000;

/// In the place of a list or an object an empty text stands for nothing.
pub(super) fn absent_or_odd<T>(text: &str) -> Field<T> {
    if text.is_empty() { Field::Absent } else { Field::Odd }
}
