//! A JSON object whose fields stay where and as they are: what we don't know of the file is somebody else's, and comes out as it went in.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The fields in their order, each value in its own text.
#[derive(Default)]
pub(super) struct Document {
    fields: Vec<(String, Box<RawValue>)>,
}

impl Document {
    /// Reads an object. `None` for anything else, and for one in which a field comes twice: which of the two counts would be a guess.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let document: Self = serde_json::from_slice(bytes).ok()?;
        let mut names: Vec<&str> = document.fields.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        let unique = names.windows(2).all(|pair| pair[0] != pair[1]);
        unique.then_some(document)
    }

    /// The value's own text.
    pub(super) fn raw(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.get())
    }

    /// Puts a value where the field is, or last.
    pub(super) fn set(&mut self, name: &str, value: &serde_json::Value) {
        // A value always serialises to JSON.
        let Ok(value) = RawValue::from_string(value.to_string()) else {
            return;
        };
        match self.fields.iter_mut().find(|(field, _)| field == name) {
            Some((_, old)) => *old = value,
            None => self.fields.push((name.to_owned(), value)),
        }
    }

    /// Takes a field out.
    pub(super) fn remove(&mut self, name: &str) {
        self.fields.retain(|(field, _)| field != name);
    }

    /// One field a line.
    pub(super) fn render(&self) -> String {
        let mut text = String::from("{");
        for (n, (name, value)) in self.fields.iter().enumerate() {
            text.push_str(if n == 0 { "\n  " } else { ",\n  " });
            text.push_str(&serde_json::Value::from(name.as_str()).to_string());
            text.push_str(": ");
            text.push_str(value.get());
        }
        text.push_str("\n}\n");
        text
    }
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Document;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Document, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Document { fields })
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn values_keep_their_own_text_and_place() {
        let text = r#"{"z":1.50,"accessToken":"old","big":123456789012345678901234567890,"nested":{ "b":1, "a":[ ] },"é":"\u00e9"}"#;
        let mut document = Document::parse(text.as_bytes()).unwrap();
        document.set("accessToken", &json!("new"));
        document.set("added", &json!(1));
        let rendered = document.render();
        assert_eq!(
            rendered,
            "{\n  \"z\": 1.50,\n  \"accessToken\": \"new\",\n  \"big\": 123456789012345678901234567890,\n  \"nested\": { \"b\":1, \"a\":[ ] },\n  \
             \"é\": \"\\u00e9\",\n  \"added\": 1\n}\n"
        );
        document.remove("nested");
        assert!(document.raw("nested").is_none() && Document::parse(rendered.as_bytes()).is_some());
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for text in ["", "[]", "null", "{", "{}x", "\"a\"", r#"{"a":1,"a":2}"#, "{\"a\":}", "\u{0}"] {
            assert!(Document::parse(text.as_bytes()).is_none(), "{text}");
        }
        assert!(Document::parse(b"\xff{}").is_none());
        assert!(Document::parse(b" {} ").is_some());
    }

    fn value() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(json!(null)),
            any::<bool>().prop_map(|v| json!(v)),
            any::<i64>().prop_map(|v| json!(v)),
            ".{0,8}".prop_map(|v| json!(v)),
        ];
        leaf.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..3).prop_map(|v| json!(v)),
                proptest::collection::btree_map(".{0,4}", inner, 0..3).prop_map(|v| json!(v)),
            ]
        })
    }

    proptest! {
        #[test]
        fn unknown_fields_come_out_as_they_went_in(fields in proptest::collection::btree_map(".{0,6}", value(), 0..6), token in "[a-z]{1,9}") {
            let before = serde_json::to_string(&fields).unwrap();
            let mut document = Document::parse(before.as_bytes()).unwrap();
            document.set("accessToken", &json!(token));
            let after: serde_json::Value = serde_json::from_str(&document.render()).unwrap();
            let mut expected = json!(fields);
            expected["accessToken"] = json!(token);
            prop_assert_eq!(after, expected);
            let again = Document::parse(document.render().as_bytes()).unwrap();
            prop_assert_eq!(again.render(), document.render());
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = Document::parse(&bytes);
        }
    }
}
