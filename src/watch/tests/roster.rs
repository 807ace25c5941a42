//! Who is signed in, and which Bots there are (H8, H9).

use std::time::Duration;

use super::bed::fault::{Fault, Request, transient};
use super::bed::{Bed, clock};
use crate::records::SignInState;

#[tokio::test(start_paused = true)]
async fn h9_records_come_after_the_sign_in_and_open_after_their_first_read() {
    let bed = Bed::idle(&["a", "b"]);
    bed.service.says("a", "hello");
    bed.service.says("b", "there");
    let mut bed = bed;
    bed.run();
    bed.up().await;
    assert_eq!(bed.host.state(), SignInState::SignedIn);
    assert_eq!(bed.host.message(), None);
    assert_eq!(bed.host.bots(), ["a", "b"]);
    bed.secs(2).await;
    assert_eq!(bed.host.texts("a"), ["hello"]);
    assert_eq!(bed.host.texts("b"), ["there"]);
}
