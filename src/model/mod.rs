//! The words every room shares: ids, cursors, entries, messages, activities, time.
//!
//! Invariant: nothing here does I/O, reads a clock, knows serde or tokio. Wire spellings live at the edges
//! (`upstream::wire`, `host::wire`); these are the meanings.

mod activity;
mod bot;
mod compact;
mod entry;
mod ids;
mod message;
mod messages;
mod pieces;
mod time;
pub mod varint;

pub use activity::{Activity, LiveActivity, LiveState, TurnFailure};
pub use bot::{Account, Bot, Harness};
pub use compact::{CompactId, EntryId, Room};
pub use entry::{
    Attachment, BodyRef, Card, Content, Delete, Entry, Image, Malformed, Role, Row, RowBody, Widget, WidgetOption,
};
pub use ids::{AgentId, Cursor, RecordId};
pub use message::{Author, Message, Meta, Part, Version, base_id, version_id};
pub use messages::{Draft, Laid, Messages, Packed, Pile, Tray};
pub(crate) use pieces::Pieces;
pub use time::{Mono, Now, Wall};
