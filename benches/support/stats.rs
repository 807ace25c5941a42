//! Medians, spreads, clocks, and the tables that they go into.

use std::fmt::{self, Write as _};
use std::time::Duration;

/// The clocks, read in one place.
#[derive(Debug)]
pub(crate) struct Clock;

impl Clock {
    /// Wall time since 1970: comparable between the processes of one machine.
    #[expect(
        clippy::disallowed_methods,
        reason = "benchmarks measure time, and no rule of the program's rooms depends on it"
    )]
    pub(crate) fn now() -> Duration {
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
    }
}

/// A count as a number to divide by.
#[expect(clippy::cast_precision_loss, reason = "no count here comes near 2^52")]
pub(crate) fn float(count: u64) -> f64 {
    count as f64
}

/// A few measured values of one thing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Values(pub(crate) Vec<f64>);

impl Values {
    /// Adds one.
    pub(crate) fn add(&mut self, value: f64) {
        self.0.push(value);
    }

    /// The value below which such a part of them lies.
    pub(crate) fn quantile(&self, part: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index of a short list")]
        let at = (part * float(sorted.len().saturating_sub(1) as u64)).round() as usize;
        sorted.get(at).copied().unwrap_or(f64::NAN)
    }

    /// The one in the middle; of an even number of them, what lies between the two.
    pub(crate) fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let half = sorted.len() / 2;
        match (sorted.get(half), half.checked_sub(1).and_then(|below| sorted.get(below))) {
            (Some(above), Some(below)) if sorted.len().is_multiple_of(2) => f64::midpoint(*above, *below),
            (Some(middle), _) => *middle,
            (None, _) => f64::NAN,
        }
    }

    /// These divided by those of the same round.
    pub(crate) fn over(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(a, b)| a / b).collect())
    }
}

/// The median, then the least and the largest.
impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(2);
        let (least, largest) = (self.quantile(0.0), self.quantile(1.0));
        write!(f, "{:.digits$} [{least:.digits$}–{largest:.digits$}]", self.median())
    }
}

/// A Markdown table, printed at once.
#[derive(Debug)]
pub(crate) struct Table(String);

impl Table {
    /// With these columns.
    pub(crate) fn new(columns: &[&str]) -> Self {
        let rule: Vec<&str> = columns.iter().map(|_| "---").collect();
        let mut table = Self(String::new());
        table.row(columns);
        table.row(&rule);
        table
    }

    /// One more row.
    pub(crate) fn row<T: fmt::Display>(&mut self, cells: &[T]) {
        let cells: Vec<String> = cells.iter().map(ToString::to_string).collect();
        // Writing to a String can't fail.
        let _ = writeln!(self.0, "| {} |", cells.join(" | "));
    }

    /// Prints it below a heading.
    pub(crate) fn print(&self, heading: &str) {
        say(&format!("\n### {heading}\n\n{}", self.0));
    }
}

/// Whether a value that must not be more than another is.
pub(crate) fn verdict(value: f64, most: f64) -> &'static str {
    if value <= most { "reached" } else { "**not reached**" }
}

/// Prints a line of the result: stdout is for them alone.
#[expect(clippy::print_stdout, reason = "the result of a benchmark")]
pub(crate) fn say(text: &str) {
    println!("{text}");
}

/// Prints what is going on, for whoever waits.
#[expect(clippy::print_stderr, reason = "progress, beside the result")]
pub(crate) fn progress(text: &str) {
    eprintln!("{text}");
}
