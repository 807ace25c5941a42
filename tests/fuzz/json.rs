//! Changes of JSON that bytes seldom come to: another type, a field that is missing or there twice, values exchanged, depth, numbers past every type,
//! half a surrogate pair.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::Value;

/// Texts in the place of a value. Not all of them are JSON.
const VALUES: &[&str] = &[
    "null",
    "true",
    "false",
    "0",
    "-0",
    "1",
    "-1",
    "0.5",
    "1e3",
    "1e999",
    "-1e999",
    "2",
    "255",
    "4294967296",
    "9007199254740993",
    "18446744073709551615",
    "18446744073709551616",
    "123456789012345678901234567890123456789012",
    "01",
    "nul",
    "\"\"",
    "\" \"",
    "\"0\"",
    "\"00\"",
    "\"-1\"",
    "\"+1\"",
    "\"1e3\"",
    "\"１\"",
    "\"18446744073709551615\"",
    "\"18446744073709551616\"",
    "\"true\"",
    "\"\\u0000\"",
    "\"a\\u0000b\"",
    "\"\\ud800\"",
    "\"\\udc00\\ud800\"",
    "\"\\ud83e\\udd80\"",
    "\"\\\\ud800\"",
    "\"\\x\"",
    "\"\\u202e\"",
    "\"a\\r\\nb\"",
    "\"你好🦀\"",
    "\"data:,\"",
    "\"../..\"",
    "\"2.0\"",
    "\"shutdown\"",
    "\"1:1\"",
    "{}",
    "[]",
    "[[]]",
    "[null]",
    "[{}]",
    "{\"\":0}",
    "{\"\\ud800\":1}",
    "{\"a\":1,\"a\":2}",
];

/// Names in the place of a field's.
const NAMES: &[&str] =
    &["\"\"", "\"\\u0000\"", "\"\\ud800\"", "\"id\"", "\"kind\"", "\"message\"", "\"automation\"", "\"x\""];

/// One change: which value of the document, and what becomes of it.
#[derive(Clone, Debug)]
pub(super) struct Step {
    at: Index,
    change: Change,
}

#[derive(Clone, Debug)]
enum Change {
    Put(Index),
    /// A text of that many characters.
    Long(usize),
    /// So many lists around it.
    Nest(usize),
    /// A field around it.
    Wrap(Index),
    Remove,
    /// It is there so many times more, under the same name.
    Again(usize),
    /// It is there again with a value of elsewhere.
    Twice(Index),
    Rename(Index),
    /// It exchanges its value with another one.
    Swap(Index),
    Copy(Index),
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let index = any::<Index>;
    let change = prop_oneof![
        6 => index().prop_map(Change::Put),
        1 => (0_usize..70_000).prop_map(Change::Long),
        1 => prop_oneof![1_usize..5, 120_usize..140, 1000_usize..5000].prop_map(Change::Nest),
        1 => index().prop_map(Change::Wrap),
        3 => Just(Change::Remove),
        1 => (1_usize..600).prop_map(Change::Again),
        2 => index().prop_map(Change::Twice),
        1 => index().prop_map(Change::Rename),
        2 => index().prop_map(Change::Swap),
        2 => index().prop_map(Change::Copy),
    ];
    (index(), change).prop_map(|(at, change)| Step { at, change })
}

/// The document with the changes made; as it is, where it isn't JSON or there are none.
pub(super) fn mutated(document: &[u8], steps: &[Step]) -> Vec<u8> {
    let Some(value) = serde_json::from_slice::<Value>(document).ok().filter(|_| !steps.is_empty()) else {
        return document.to_vec();
    };
    let mut root = Node::from(value);
    for step in steps {
        step.apply(&mut root);
    }
    let mut text = String::new();
    root.write(&mut text);
    text.into_bytes()
}

/// JSON that may be none: leaves are texts, and a field may come twice.
#[derive(Clone)]
enum Node {
    Leaf(String),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
    /// A document inside a base64 text.
    Inside(Box<Node>),
}

impl From<Value> for Node {
    fn from(value: Value) -> Self {
        match value {
            Value::Array(items) => Self::List(items.into_iter().map(Self::from).collect()),
            Value::Object(fields) => Self::Object(
                fields.into_iter().map(|(name, value)| (Value::from(name).to_string(), Self::from(value))).collect(),
            ),
            Value::String(text) => {
                let inside = STANDARD.decode(&text).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
                match inside.filter(Value::is_object) {
                    Some(inside) => Self::Inside(Box::new(Self::from(inside))),
                    None => Self::Leaf(Value::from(text).to_string()),
                }
            }
            leaf => Self::Leaf(leaf.to_string()),
        }
    }
}

impl Node {
    fn write(&self, text: &mut String) {
        match self {
            Self::Leaf(leaf) => text.push_str(leaf),
            Self::List(items) => {
                text.push('[');
                for (n, item) in items.iter().enumerate() {
                    text.push_str(if n == 0 { "" } else { "," });
                    item.write(text);
                }
                text.push(']');
            }
            Self::Object(fields) => {
                text.push('{');
                for (n, (name, value)) in fields.iter().enumerate() {
                    text.push_str(if n == 0 { "" } else { "," });
                    text.push_str(name);
                    text.push(':');
                    value.write(text);
                }
                text.push('}');
            }
            Self::Inside(inside) => {
                let mut inner = String::new();
                inside.write(&mut inner);
                text.push('"');
                text.push_str(&STANDARD.encode(inner));
                text.push('"');
            }
        }
    }

    /// So many times that what comes of it stays small.
    fn at_most(&self, times: usize) -> usize {
        let mut text = String::new();
        self.write(&mut text);
        times.min(100_000 / (text.len() + 1))
    }

    /// Where each value is, the root first.
    fn paths(&self, here: &mut Vec<usize>, all: &mut Vec<Vec<usize>>) {
        all.push(here.clone());
        for (n, child) in self.children().enumerate() {
            here.push(n);
            child.paths(here, all);
            here.pop();
        }
    }

    fn children(&self) -> Box<dyn Iterator<Item = &Self> + '_> {
        match self {
            Self::Leaf(_) => Box::new(std::iter::empty()),
            Self::List(items) => Box::new(items.iter()),
            Self::Object(fields) => Box::new(fields.iter().map(|(_, value)| value)),
            Self::Inside(inside) => Box::new(std::iter::once(&**inside)),
        }
    }

    fn at(&mut self, path: &[usize]) -> &mut Self {
        let Some((&first, rest)) = path.split_first() else { return self };
        match self {
            Self::List(items) => items[first].at(rest),
            Self::Object(fields) => fields[first].1.at(rest),
            Self::Inside(inside) => inside.at(rest),
            Self::Leaf(_) => unreachable!("a path of this document"),
        }
    }
}

impl Step {
    fn apply(&self, root: &mut Node) {
        let mut paths = Vec::new();
        root.paths(&mut Vec::new(), &mut paths);
        // What is done to the root is done to everything: it is seldom worth its turn.
        let path = self.at.get(&paths);
        let other = |index: &Index| index.get(&paths).clone();
        match &self.change {
            Change::Put(value) => *root.at(path) = Node::Leaf((*value.get(VALUES)).to_owned()),
            Change::Long(length) => *root.at(path) = Node::Leaf(format!("\"{}\"", "长".repeat(*length))),
            Change::Nest(depth) => {
                let mut text = "[".repeat(*depth);
                root.at(path).write(&mut text);
                text.push_str(&"]".repeat(*depth));
                *root.at(path) = Node::Leaf(text);
            }
            Change::Wrap(name) => {
                let inside = root.at(path).clone();
                *root.at(path) = Node::Object(vec![((*name.get(NAMES)).to_owned(), inside)]);
            }
            Change::Swap(index) => {
                let (a, b) = (root.at(path).clone(), root.at(&other(index)).clone());
                // One inside the other is a copy: the place of the inner one is gone.
                if !other(index).starts_with(path) {
                    *root.at(path) = b;
                    if !path.starts_with(&other(index)) {
                        *root.at(&other(index)) = a;
                    }
                }
            }
            Change::Copy(index) => {
                let copy = root.at(&other(index)).clone();
                *root.at(path) = copy;
            }
            Change::Remove | Change::Again(_) | Change::Twice(_) | Change::Rename(_) => {
                let Some((&last, parent)) = path.split_last() else { return };
                let elsewhere = match &self.change {
                    Change::Twice(index) => Some(root.at(&other(index)).clone()),
                    _ => None,
                };
                self.change.among(root.at(parent), last, elsewhere);
            }
        }
    }
}

impl Change {
    /// What concerns a value's place rather than the value.
    fn among(&self, parent: &mut Node, place: usize, elsewhere: Option<Node>) {
        match (self, parent) {
            (Self::Remove, Node::List(items)) => drop(items.remove(place)),
            (Self::Remove, Node::Object(fields)) => drop(fields.remove(place)),
            (Self::Again(times), Node::List(items)) => {
                let times = items[place].at_most(*times);
                items.extend(std::iter::repeat_n(items[place].clone(), times));
            }
            (Self::Again(times), Node::Object(fields)) => {
                let times = fields[place].1.at_most(*times);
                fields.extend(std::iter::repeat_n(fields[place].clone(), times));
            }
            (Self::Twice(_), Node::List(items)) => items.extend(elsewhere),
            (Self::Twice(_), Node::Object(fields)) => {
                let name = fields[place].0.clone();
                fields.extend(elsewhere.map(|value| (name, value)));
            }
            (Self::Rename(name), Node::Object(fields)) => (*name.get(NAMES)).clone_into(&mut fields[place].0),
            _ => {}
        }
    }
}
