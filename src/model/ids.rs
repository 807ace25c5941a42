//! Identities. Each is a value of the service or derived from one; none holds anything of this machine.

use std::fmt;
use std::sync::Arc;

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The text as the service or the host writes it.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(Arc::from(text))
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(Arc::from(text))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }
    };
}

text_id! {
    /// A Bot's `agentId`: what every transcript, send and live-state call names it by.
    AgentId
}
text_id! {
    /// A record's id as the host knows it: `grok-bot:<account digest>:<agentId, percent-encoded>`.
    RecordId
}

/// `<generation>:<updatedSeq>`, compared as two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cursor {
    /// Which life of the transcript; another generation shares nothing with this one.
    pub generation: u64,
    /// `updatedSeq`: one counter for the whole session, rising with each change of a row.
    pub number: u64,
}

impl Cursor {
    /// Its text.
    #[must_use]
    pub fn text(self) -> String {
        // Two numbers of twenty digits are the longest there are; most are short.
        let mut text = String::with_capacity(24);
        push_number(&mut text, self.generation);
        text.push(':');
        push_number(&mut text, self.number);
        text
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

/// Appends a number in decimal: a page has a hundred of them, and `write!` is dear.
pub(super) fn push_number(text: &mut String, number: u64) {
    text.push_str(itoa::Buffer::new().format(number));
}
