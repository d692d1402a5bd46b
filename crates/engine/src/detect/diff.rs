//! What became of a text, line by line.

use std::time::Duration;

use similar::TextDiff;

/// After this long, what is left is shown as replaced altogether rather than
/// compared further.
const PATIENCE: Duration = Duration::from_millis(500);

/// A unified diff with `context` lines around each change; empty if there is none.
///
/// Two huge texts with nothing in common take about half a second at most; then the
/// result is right, but longer than it could be.
pub fn diff(before: &str, after: &str, context: usize) -> String {
    TextDiff::configure()
        .timeout(PATIENCE)
        .diff_lines(before, after)
        .unified_diff()
        .context_radius(context)
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::diff;

    #[test]
    fn a_diff_shows_what_changed_with_lines_around_it() {
        let found = diff("a\nb\nc\nd\n", "a\nb\nx\nd\n", 1);
        assert_eq!(found, "@@ -2,3 +2,3 @@\n b\n-c\n+x\n d\n");
        assert_eq!(diff("same\n", "same\n", 3), "");
    }

    #[test]
    fn huge_texts_with_nothing_in_common_are_given_up_soon() {
        let text = |name: &str| {
            (0..200_000)
                .map(|n| format!("{name}{n}\n"))
                .collect::<String>()
        };
        let found = diff(&text("a"), &text("b"), 3);
        assert_eq!(found.lines().count(), 400_001);
    }
}
