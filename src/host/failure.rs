//! Errors as a host gets them.

use super::{texts, wire};
use crate::model::Cursor;
use crate::records::{PostRefusal, ReadError};
use crate::rpc::{self, Fault, Id};

/// The error of one request: a stable word for the program and a sentence for the person.
#[derive(Clone, Debug)]
#[expect(clippy::option_option, reason = "absent with most errors, and null where there is no head")]
pub(super) struct Failure {
    kind: wire::ErrorKind,
    message: String,
    /// The head now, with `history_reset`.
    head: Option<Option<Cursor>>,
}

impl Failure {
    pub(super) fn new(kind: wire::ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), head: None }
    }

    pub(super) fn bad_params(message: &str) -> Self {
        Self::new(wire::ErrorKind::BadParams, message)
    }

    pub(super) fn not_found() -> Self {
        Self::new(wire::ErrorKind::RecordNotFound, texts::RECORD_NOT_FOUND)
    }

    pub(super) fn internal() -> Self {
        Self::new(wire::ErrorKind::Internal, texts::INTERNAL)
    }

    /// The text of the response.
    pub(super) fn answer(&self, id: &Id) -> String {
        let data = wire::ErrorData { kind: self.kind, head: self.head.map(|head| head.map(super::convert::cursor)) };
        rpc::error(id, self.kind.code(), &self.message, &data)
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::NotJson => Self::new(wire::ErrorKind::ParseError, texts::PARSE_ERROR),
            Fault::Batch => Self::new(wire::ErrorKind::InvalidRequest, texts::BATCH),
            Fault::NotAMessage => Self::new(wire::ErrorKind::InvalidRequest, texts::INVALID_REQUEST),
            Fault::TooLong => Self::new(wire::ErrorKind::InvalidRequest, texts::TOO_LONG),
        }
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::NotFound => Self::not_found(),
            ReadError::NotReady => Self::new(wire::ErrorKind::NotReady, texts::NOT_READY),
            ReadError::HistoryReset { head } => {
                Self { head: Some(head), ..Self::new(wire::ErrorKind::HistoryReset, texts::HISTORY_RESET) }
            }
        }
    }
}

impl From<PostRefusal> for Failure {
    fn from(refusal: PostRefusal) -> Self {
        match refusal {
            PostRefusal::RecordNotFound => Self::not_found(),
            PostRefusal::UnknownReply => Self::bad_params(texts::UNKNOWN_REPLY),
        }
    }
}
