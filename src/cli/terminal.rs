//! The terminal: writing, times in local time, the QR code, the spinner.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::OnceLock;

use chrono::{DateTime, Local, SecondsFormat, Utc};
use indicatif::{ProgressBar, ProgressStyle};
use qrcode::render::unicode::Dense1x2;
use qrcode::{EcLevel, QrCode};

use crate::model::Wall;

/// Why stdout takes nothing more: nobody reads any more, or it can't be written.
static OVER: OnceLock<io::Error> = OnceLock::new();

/// One line of data. What can't be written ends the output, not the program: see [`over`] and [`fault`].
pub(super) fn say(line: &str) {
    write(&local_times(line));
}

fn write(line: &str) {
    // Nothing follows a gap: what is there would look whole.
    if over() {
        return;
    }
    let mut out = io::stdout().lock();
    if let Err(error) = writeln!(out, "{line}").and_then(|()| out.flush()) {
        // It is set once, by the first.
        let _ = OVER.set(error);
    }
}

/// Whether what is said goes nowhere any more. What would go on for ever ends then.
pub(super) fn over() -> bool {
    OVER.get().is_some()
}

/// What kept the output from being written. A reader that went away is no fault: it had what it wanted.
pub(super) fn fault() -> Option<String> {
    OVER.get().and_then(unwritten)
}

/// The sentence for an output that can't be written; none for a closed pipe.
pub(super) fn unwritten(error: &io::Error) -> Option<String> {
    (error.kind() != io::ErrorKind::BrokenPipe).then(|| format!("输出没有写完（{error}）；请检查输出的去处。"))
}

/// One line for the person beside the data.
pub(super) fn complain(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", local_times(line));
}

/// One JSON value on a line.
pub(super) fn json(value: &serde_json::Value) {
    write(&value.to_string());
}

/// Writes each `<t:ISO 8601>` out in this machine's time zone; what can't be read as a time stays.
pub(super) fn local_times(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("<t:") {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let time = rest.find('>').and_then(|end| Some((end, DateTime::parse_from_rfc3339(&rest[3..end]).ok()?)));
        if let Some((end, time)) = time {
            // Writing to a String can't fail.
            let _ = write!(out, "{}", time.with_timezone(&Local).format("%Y-%m-%d %H:%M"));
            rest = &rest[end + 1..];
        } else {
            out.push_str("<t:");
            rest = &rest[3..];
        }
    }
    out + rest
}

/// A time of a message, as this machine's clock would show it.
pub(super) fn clock(wall: Wall) -> String {
    utc(wall).with_timezone(&Local).format("%m-%d %H:%M").to_string()
}

/// RFC 3339 UTC with milliseconds, for scripts.
pub(super) fn time(wall: Wall) -> String {
    utc(wall).to_rfc3339_opts(SecondsFormat::Millis, true)
}

fn utc(wall: Wall) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(wall.0).unwrap_or_default()
}

/// A text of the service as a terminal may show it: control characters (and with them escape sequences) are made visible.
pub(super) fn plain(text: &str) -> String {
    let shown = |c| match c {
        '\n' | '\t' => c,
        // And marks that turn the reading direction of what follows.
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        c if c.is_control() => '\u{fffd}',
        c => c,
    };
    text.chars().map(shown).collect()
}

/// A name or an id of the service: as [`plain`], and on one line, so that it can't look like a line of ours.
pub(super) fn name(text: &str) -> String {
    plain(text).replace(['\n', '\t'], " ")
}

/// The link as a QR code, where it fits one.
pub(super) fn qr(link: &str) -> Option<String> {
    let code = QrCode::with_error_correction_level(link, EcLevel::L).ok()?;
    Some(code.render::<Dense1x2>().quiet_zone(true).build())
}

/// A spinner on stderr where a person waits; nothing where stderr is no terminal.
pub(super) fn spinner(message: &str) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
        bar.set_style(style);
    }
    bar.set_message(message.to_owned());
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_times_are_written_in_local_time_and_the_rest_stays() {
        let time = DateTime::parse_from_rfc3339("2026-11-30T12:00:00.000Z").expect("a time").with_timezone(&Local);
        let local = time.format("%Y-%m-%d %H:%M").to_string();
        assert_eq!(local_times("自 <t:2026-11-30T12:00:00.000Z> 起"), format!("自 {local} 起"));
        for same in ["", "无时刻", "<t:", "<t:soon>", "a <t:2026> b > c"] {
            assert_eq!(local_times(same), same);
        }
    }

    #[test]
    fn escape_sequences_and_direction_marks_of_a_text_dont_reach_the_terminal() {
        assert_eq!(plain("a\u{1b}[2Jb\u{202e}c\n好"), "a\u{fffd}[2Jb\u{fffd}c\n好");
    }

    #[test]
    fn a_name_stays_on_its_line() {
        assert_eq!(name("a\n12-01 10:00\tb\u{1b}[2J"), "a 12-01 10:00 b\u{fffd}[2J");
    }
}
