//! Small rules about texts of the wire.

use std::borrow::Cow;
use std::sync::Arc;

use percent_encoding::percent_decode_str;

/// Names of kinds and codes that are shown or logged are cut at this many characters.
const NAME: usize = 64;
/// One line about a card is cut at this many characters.
const LINE: usize = 200;

/// Reads a text; where that fails and the text holds half a surrogate pair, reads it once more with U+FFFD in its place. Servers that cut strings by
/// UTF-16 units send such halves, and no message should be lost for one.
pub(super) fn tolerant<T>(text: &str, mut read: impl FnMut(&str) -> Option<T>) -> Option<T> {
    read(text).or_else(|| read(&mended(text)?))
}

/// The JSON text with every escaped half of a surrogate pair replaced; `None` where there is none.
fn mended(text: &str) -> Option<String> {
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut out = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = text[at..].find('\\') {
        at += found;
        match unit(at) {
            Some(0xD800..=0xDBFF) if matches!(unit(at + 6), Some(0xDC00..=0xDFFF)) => at += 12,
            Some(0xD800..=0xDFFF) => {
                out.push_str(&text[copied..at]);
                out.push_str("\\ufffd");
                at += 6;
                copied = at;
            }
            // Skips the escaped character with its backslash, so that `\\ud800` isn't taken for an escape.
            _ => at += 1 + text[at + 1..].chars().next().map_or(0, char::len_utf8),
        }
    }
    if copied == 0 {
        return None;
    }
    out.push_str(&text[copied..]);
    Some(out)
}

/// A kind, a type or a code as it may be shown: one line, not too long.
pub(super) fn name(text: &str) -> Arc<str> {
    // Nearly every one is fit to be shown as it is.
    if text.len() <= NAME && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return text.into();
    }
    line(text, NAME).into()
}

/// What a card says, as one line.
pub(super) fn one_line(text: &str) -> String {
    line(text, LINE)
}

fn line(text: &str, limit: usize) -> String {
    let mut line = String::new();
    let mut left = limit;
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        for c in word.chars() {
            if left == 0 {
                line.push('…');
                return line;
            }
            line.push(c);
            left -= 1;
        }
    }
    line
}

/// The last segment of a path or URL, without query and fragment: a file's name and nothing of where it lies. `None` where there is none.
pub(super) fn file_name(text: &str) -> Option<String> {
    if text.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:")) {
        return None;
    }
    let (path, is_url) = match text.split_once("://") {
        Some((_, rest)) => (rest.split_once('/')?.1, true),
        None => (text, false),
    };
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let decoded = if is_url { percent_decode_str(path).decode_utf8_lossy() } else { Cow::Borrowed(path) };
    let segment = decoded.rsplit(['/', '\\']).map(str::trim).find(|segment| !segment.is_empty())?;
    Some(one_line(segment)).filter(|name| !name.is_empty() && name != "." && name != "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_surrogates_are_mended_and_pairs_kept() {
        let read = |text: &str| tolerant(text, |text| serde_json::from_str::<String>(text).ok());
        for (json, expected) in [
            (r#""ok""#, Some("ok")),
            (r#""cut \ud83e""#, Some("cut \u{fffd}")),
            (r#""\udd80 end""#, Some("\u{fffd} end")),
            (r#""\ud83e\ud83e\udd80""#, Some("\u{fffd}🦀")),
            (r#""a\\ud83e \ud83e""#, Some("a\\ud83e \u{fffd}")),
            (r#""\ud83"#, None),
            (r#""\"#, None),
            (r#""你\好""#, None),
        ] {
            assert_eq!(read(json).as_deref(), expected, "{json}");
        }
    }

    #[test]
    fn a_file_name_tells_nothing_of_its_place() {
        for (text, expected) in [
            ("attachments/brief.pdf", Some("brief.pdf")),
            ("/home/person/secret plan/图.png", Some("图.png")),
            ("C:\\Users\\person\\a.txt", Some("a.txt")),
            ("brief.pdf?token=1#x", Some("brief.pdf")),
            ("https://store.example.test/a/my%20file.png?sig=1", Some("my file.png")),
            ("https://store.example.test/a%2Fb%2Fc.png", Some("c.png")),
            ("https://store.example.test", None),
            ("https://store.example.test/?sig=1", None),
            ("folder/", Some("folder")),
            ("data:image/png;base64,AAAA/BBBB", None),
            ("..", None),
            ("a\nb.txt", Some("a b.txt")),
            ("", None),
        ] {
            assert_eq!(file_name(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn lines_are_short_and_single() {
        assert_eq!(one_line("  Run\n a \u{7} script\t"), "Run a script");
        assert_eq!(one_line(&"长".repeat(500)).chars().count(), LINE + 1);
    }
}
