//! A site whose pages change at known rates: what it holds at any moment follows
//! from a seed.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use springtide_policy::Rate;

use super::changes::{Changes, mix, next, rate_per_second};
use crate::clock::Clock;

/// A site to be served.
#[derive(Debug, Clone)]
pub struct SiteSettings {
    /// What the changes and the words follow from.
    pub seed: u64,
    /// A page for each of these, which changes as a Poisson process of this rate.
    pub rates: Vec<Rate>,
    /// How much faster than ours the site's time goes: at 86,400, a rate of one a
    /// day is a change a second.
    pub time_scale: f64,
    /// About how long the main text of a page is, in bytes.
    pub page_bytes: usize,
    /// Directories that the pages are in, in turn.
    pub n_directories: usize,
    /// How pages say whether they have changed.
    pub validators: Validators,
    /// Whether pages hold parts that differ at every request: an advertisement, a
    /// clock.
    pub has_volatile_parts: bool,
    /// Whether the sitemap says when pages last changed.
    pub has_lastmod: bool,
    /// How long every answer takes.
    pub latency: Duration,
    /// Its robots.txt; without one, it has none.
    pub robots: Option<String>,
    /// Whether bodies are compressed for those who accept it.
    pub is_gzipped: bool,
    /// Whether bodies are sent in chunks.
    pub is_chunked: bool,
}

impl Default for SiteSettings {
    fn default() -> Self {
        Self {
            seed: 1,
            rates: Vec::new(),
            time_scale: 1.0,
            page_bytes: 1500,
            n_directories: 8,
            validators: Validators::Etag,
            has_volatile_parts: false,
            has_lastmod: false,
            latency: Duration::ZERO,
            robots: None,
            is_gzipped: false,
            is_chunked: false,
        }
    }
}

/// How pages say whether they have changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validators {
    /// Not at all.
    None,
    /// By an ETag: strong, or weak where pages hold volatile parts.
    Etag,
    /// By Last-Modified.
    LastModified,
    /// By both.
    Both,
}

impl Validators {
    pub(super) fn has_etag(self) -> bool {
        matches!(self, Self::Etag | Self::Both)
    }

    pub(super) fn has_last_modified(self) -> bool {
        matches!(self, Self::LastModified | Self::Both)
    }
}

/// A site that has been started. Pages are known by their number, from 0.
#[derive(Debug)]
pub struct Site {
    settings: SiteSettings,
    changes: Changes,
}

impl Site {
    /// A site whose time begins now, by this clock.
    pub fn new(settings: SiteSettings, clock: Clock) -> Self {
        let rates = settings
            .rates
            .iter()
            .map(|&rate| rate_per_second(rate, settings.time_scale));
        let changes = Changes::new(settings.seed, rates, clock);
        Self { settings, changes }
    }

    /// How it was set up.
    pub fn settings(&self) -> &SiteSettings {
        &self.settings
    }

    /// When its time began.
    pub fn started_at(&self) -> SystemTime {
        self.changes.started_at()
    }

    /// The clock that it goes by.
    pub fn clock(&self) -> Clock {
        self.changes.clock()
    }

    /// How many pages it has.
    pub fn n_pages(&self) -> usize {
        self.changes.len()
    }

    /// The version of a page at a moment: how often it had changed by then.
    pub fn version_at(&self, page: usize, at: SystemTime) -> u64 {
        self.changes.count(page, at)
    }

    /// When a page last changed before a moment; when its time began, if it had not.
    pub fn changed_at(&self, page: usize, at: SystemTime) -> SystemTime {
        let last = self.changes.last(page, at);
        last.unwrap_or_else(|| self.started_at())
    }

    /// When a page changed, up to a moment.
    pub fn changes(&self, page: usize, until: SystemTime) -> Vec<SystemTime> {
        self.changes.until(page, until)
    }

    /// Makes a page change now, beside the changes that it would have had.
    pub fn change(&self, page: usize) {
        self.changes.add(page);
    }

    /// The path of a page.
    pub fn path(&self, page: usize) -> String {
        format!(
            "/d{}/p{page}.html",
            page % self.settings.n_directories.max(1)
        )
    }

    /// The page at a path.
    pub fn page(&self, path: &str) -> Option<usize> {
        let (directory, name) = path.strip_prefix("/d")?.split_once("/p")?;
        let page: usize = name.strip_suffix(".html")?.parse().ok()?;
        let is_there = page < self.n_pages()
            && directory.parse() == Ok(page % self.settings.n_directories.max(1));
        is_there.then_some(page)
    }

    /// A page in a version, as sent at a moment: the text, links, and parts that are
    /// no part of it.
    pub fn html(&self, page: usize, version: u64, at: SystemTime) -> String {
        let mut html = String::with_capacity(self.settings.page_bytes + 1500);
        let title = title(page);
        let _ = write!(
            html,
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title></head>\n<body>\n<nav><a href=\"/\">Home</a>"
        );
        let first_child = (page + 1) * FAN_OUT;
        for child in first_child..(first_child + FAN_OUT).min(self.n_pages()) {
            let _ = write!(
                html,
                " <a href=\"{}\">{}</a>",
                self.path(child),
                self::title(child)
            );
        }
        html.push_str("</nav>\n<main><article>\n");
        let _ = writeln!(html, "<h1>{title}</h1>");
        let _ = writeln!(
            html,
            "<p>This is <b>edition {version}</b> of a page that changes when it likes.</p>"
        );
        let n_paragraphs = (self.settings.page_bytes / PARAGRAPH).max(1) as u64;
        for paragraph in 0..n_paragraphs {
            // Each version is another in one of the paragraphs.
            let edition = (version + n_paragraphs - 1 - paragraph) / n_paragraphs;
            html.push_str("<p>");
            let seed = mix(
                self.settings.seed,
                page as u64 + 1,
                paragraph ^ edition << 20,
            );
            write_paragraph(&mut html, seed);
            html.push_str("</p>\n");
        }
        html.push_str("</article></main>\n");
        if self.settings.has_volatile_parts {
            let since = at
                .duration_since(SystemTime::UNIX_EPOCH)
                .unwrap_or_default();
            let _ = write!(
                html,
                "<aside class=\"ad\">Buy {} of them today for {}!</aside>\n<footer>It is now <time>{}</time>.</footer>\n",
                since.subsec_micros() % 97 + 2,
                since.subsec_nanos() % 9973,
                since.as_millis()
            );
        } else {
            html.push_str("<footer>Served by springtide's own origin.</footer>\n");
        }
        html.push_str("</body></html>\n");
        html
    }

    /// The start page, from which all others can be reached by links.
    pub(super) fn home(&self) -> String {
        let mut html = String::from(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Home</title></head>\n<body><main><h1>Home</h1>\n<ul>\n",
        );
        for page in 0..FAN_OUT.min(self.n_pages()) {
            let _ = writeln!(
                html,
                "<li><a href=\"{}\">{}</a></li>",
                self.path(page),
                title(page)
            );
        }
        html.push_str("</ul></main></body></html>\n");
        html
    }

    /// How many sitemaps it takes: each holds as many pages as the protocol allows.
    pub(super) fn n_sitemaps(&self) -> usize {
        self.n_pages().div_ceil(PER_SITEMAP).max(1)
    }

    /// One of the sitemaps.
    pub(super) fn sitemap(&self, number: usize, base: &str, at: SystemTime) -> String {
        let mut xml = String::from(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">\n",
        );
        let first = number * PER_SITEMAP;
        for page in first..(first + PER_SITEMAP).min(self.n_pages()) {
            let _ = write!(xml, "<url><loc>{base}{}</loc>", self.path(page));
            if self.settings.has_lastmod {
                let _ = write!(
                    xml,
                    "<lastmod>{}</lastmod>",
                    w3c_date(self.changed_at(page, at))
                );
            }
            xml.push_str("</url>\n");
        }
        xml.push_str("</urlset>\n");
        xml
    }

    /// The list of sitemaps.
    pub(super) fn sitemap_index(&self, base: &str) -> String {
        let mut xml = String::from(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<sitemapindex xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">\n",
        );
        for number in 0..self.n_sitemaps() {
            let _ = writeln!(
                xml,
                "<sitemap><loc>{base}/sitemap-{number}.xml</loc></sitemap>"
            );
        }
        xml.push_str("</sitemapindex>\n");
        xml
    }
}

/// The version that a page shows, if it is one of ours.
pub fn version_in(html: &[u8]) -> Option<u64> {
    const BEFORE: &[u8] = b"<b>edition ";
    let at = html
        .windows(BEFORE.len())
        .position(|window| window == BEFORE)?;
    let digits = &html[at + BEFORE.len()..];
    let end = digits.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(&digits[..end]).ok()?.parse().ok()
}

/// Links that lead on from each page.
const FAN_OUT: usize = 10;
/// Pages in a sitemap: what the protocol allows.
const PER_SITEMAP: usize = 50_000;
/// About how long a paragraph is, in bytes.
const PARAGRAPH: usize = 300;

fn title(page: usize) -> String {
    format!(
        "{} {} {page}",
        WORDS[page * 7 % WORDS.len()],
        WORDS[page * 13 % WORDS.len()]
    )
}

fn write_paragraph(text: &mut String, seed: u64) {
    let mut state = seed;
    let end = text.len() + PARAGRAPH;
    let mut n_words = 0;
    while text.len() < end {
        state = next(state);
        let word = WORDS[(state >> 40) as usize % WORDS.len()];
        if n_words % 11 == 0 {
            if n_words > 0 {
                text.push_str(". ");
            }
            text.push_str(&word[..1].to_ascii_uppercase());
            text.push_str(&word[1..]);
        } else {
            text.push(' ');
            text.push_str(word);
        }
        n_words += 1;
    }
    text.push('.');
}

/// A moment as sitemaps have it, to the millisecond.
fn w3c_date(at: SystemTime) -> String {
    let since = at
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let (seconds, days) = (since.as_secs() % 86_400, since.as_secs() / 86_400);
    // Days to a date, by counting from the first of March of year 0, so that the day
    // that leap years add is the last of the year.
    let days = days as i64 + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    let year = year_of_era + era * 400 + carry;
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
        since.subsec_millis()
    )
}

const WORDS: [&str; 64] = [
    "tide", "harbour", "lantern", "river", "meadow", "archive", "signal", "window", "engine",
    "garden", "letter", "market", "mirror", "north", "orchard", "paper", "quarry", "railway",
    "season", "tower", "uncle", "valley", "winter", "yellow", "zenith", "anchor", "bridge",
    "candle", "distant", "evening", "feather", "granite", "hollow", "island", "journey", "kettle",
    "linen", "morning", "narrow", "often", "pebble", "quiet", "rarely", "silver", "timber",
    "under", "velvet", "wander", "across", "before", "copper", "during", "every", "follow",
    "gather", "honest", "inward", "keeps", "listen", "moves", "nothing", "over", "people",
    "returns",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn site(seed: u64) -> Site {
        let rates = [0.0, 1.0, 24.0, 240.0].map(|rate| Rate::per_day(rate).unwrap());
        let settings = SiteSettings {
            seed,
            rates: rates.to_vec(),
            ..SiteSettings::default()
        };
        Site::new(
            settings,
            Clock::starting_at(springtide_store::Moment(1_700_000_000_000)),
        )
    }

    // Clocks that stand still show the same time.
    #[tokio::test(start_paused = true)]
    async fn what_a_page_holds_depends_on_seed_and_time_alone() {
        let (asked_often, asked_once, other) = (site(7), site(7), site(8));
        let end = asked_often.started_at() + Duration::from_secs(30 * 86_400);
        for day in 0..30 {
            let at = asked_often.started_at() + Duration::from_secs(day * 86_400);
            for page in 0..4 {
                asked_often.version_at(page, at);
            }
        }
        for page in 1..4 {
            assert_eq!(
                asked_often.changes(page, end),
                asked_once.changes(page, end)
            );
            assert_ne!(asked_often.changes(page, end), other.changes(page, end));
        }
        let version = asked_once.version_at(3, end);
        assert_eq!(
            asked_often.html(3, version, end),
            asked_once.html(3, version, end)
        );
        assert_eq!(asked_once.version_at(3, asked_once.started_at()), 0);
    }

    #[test]
    fn pages_change_at_their_rates() {
        let site = site(3);
        let end = site.started_at() + Duration::from_secs(100 * 86_400);
        assert_eq!(site.version_at(0, end), 0);
        // Poisson with mean n: within four standard deviations of it.
        for (page, mean) in [(1, 100.0), (2, 2_400.0), (3, 24_000.0_f64)] {
            let n = site.version_at(page, end) as f64;
            assert!((n - mean).abs() < 4.0 * mean.sqrt(), "{n} of {mean}");
        }
    }

    #[test]
    fn every_version_is_another_text_and_says_which_it_is() {
        let site = site(5);
        let at = site.started_at();
        for version in 0..40 {
            let html = site.html(2, version, at);
            assert_eq!(version_in(html.as_bytes()), Some(version));
            let (before, after) = (html, site.html(2, version + 1, at));
            let strip = |html: &str| html.replace(char::is_numeric, "");
            assert_ne!(strip(&before), strip(&after), "version {version}");
        }
        assert_eq!(version_in(b"<b>edition "), None);
        assert_eq!(version_in(b"nothing"), None);
    }

    #[test]
    fn a_path_is_of_one_page() {
        let site = site(5);
        for page in 0..4 {
            assert_eq!(site.page(&site.path(page)), Some(page));
        }
        for path in ["/", "/d0/p4.html", "/d1/p0.html", "/d0/p0", "/d/p.html"] {
            assert_eq!(site.page(path), None, "{path}");
        }
    }

    #[test]
    fn dates_are_as_the_calendar_has_them() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199, "2024-02-29T23:59:59.000Z"),
            (4_107_542_399, "2100-02-28T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            let at = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(w3c_date(at), expected);
        }
    }
}
