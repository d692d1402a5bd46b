//! robots.txt, by RFC 9309.
//!
//! Whoever drives asks for [`url_of`] an origin, hands every hop to [`read`], which
//! says where to go on or what came of it, keeps what [`keep`] makes of that, and
//! asks [`RobotsRules`] before every request.

use std::borrow::Cow;
use std::time::Duration;

use robotxt::{Robots as Parsed, Rule};
use springtide_store::{Moment, Robots, RobotsAnswer};
use url::{Position, Url};

use super::{Answer, FailureKind, FetchFailure, locator};

/// The name by which a robots.txt addresses us.
pub const PRODUCT: &str = "springtide";

/// What is read of a robots.txt, and no more: 500 KiB, the least that the RFC asks
/// for (2.5).
pub const MAX_BYTES: usize = 500 * 1024;

/// Redirects that are followed to a robots.txt (2.3.1.2).
pub const MAX_REDIRECTS: usize = 5;

/// A robots.txt is asked for again after a day (2.4).
pub const FRESH_FOR: Duration = Duration::from_secs(24 * 3600);

/// A robots.txt that could not be had for 30 days is taken for none (2.3.1.4).
pub const UNREACHABLE_FOR: Duration = Duration::from_secs(30 * 24 * 3600);

/// The longest crawl-delay that is taken as such. The RFC does not know crawl-delay;
/// a site that wants us less than once a day has `Disallow` to say so, and numbers
/// above are milliseconds, or a mistake.
pub const MAX_CRAWL_DELAY: Duration = Duration::from_secs(24 * 3600);

/// Comparisons of one byte that one question may take: some milliseconds, for which
/// everything else waits. A rule with a `*` in it may have to be compared with all of a
/// path, any other ends at the first byte that differs. Only a file made to cost us time
/// comes near, and then the answer is no.
const MAX_WORK: usize = 4_000_000;

/// What a site allows us.
#[derive(Debug, Clone)]
pub struct RobotsRules {
    parsed: Parsed,
    /// Rules with a `*` in them, and their bytes.
    n_wild: usize,
    n_wild_bytes: usize,
}

impl RobotsRules {
    /// The rules that follow from what came of asking for them.
    pub fn new(answer: &RobotsAnswer) -> Self {
        let parsed = match answer {
            RobotsAnswer::Rules(text) => {
                Parsed::parse(without_our_version(text).as_bytes(), PRODUCT)
            }
            RobotsAnswer::None => Parsed::allow_all(),
            RobotsAnswer::Unreachable => Parsed::disallow_all(),
        };
        let wild = parsed.rules().iter().map(Rule::pattern);
        let (n_wild, n_wild_bytes) = wild
            .filter(|pattern| pattern.contains('*'))
            .fold((0, 0), |(n, bytes), pattern| (n + 1, bytes + pattern.len()));
        Self {
            parsed,
            n_wild,
            n_wild_bytes,
        }
    }

    /// The rules that hold now: those that were kept, unless there is nothing to be
    /// had for so long that none may be assumed.
    pub fn at(robots: &Robots, now: Moment) -> Self {
        if robots.answer == RobotsAnswer::Unreachable
            && has_passed(robots.fetched_at, UNREACHABLE_FOR, now)
        {
            return Self::new(&RobotsAnswer::None);
        }
        Self::new(&robots.answer)
    }

    /// Whether a URL of the origin that the rules are of may be asked.
    pub fn is_allowed(&self, url: &Url) -> bool {
        let path = &url[Position::BeforePath..Position::AfterQuery];
        if let Some(always) = self.parsed.always() {
            return always || path == "/robots.txt";
        }
        let work = self.n_wild.saturating_mul(path.len());
        if work.saturating_add(self.n_wild_bytes) > MAX_WORK {
            return false;
        }
        if !path.contains(['*', '$']) {
            return self.parsed.is_allowed(path);
        }
        // In a rule, `*` and `$` mean something else and are written `%2A` and `%24`
        // where they are meant (2.2.3); a `$` that is not at the end may also stand
        // for itself. Of the rules that match either spelling, the longest decides.
        let escaped = path.replace('*', "%2A").replace('$', "%24");
        let found = [
            self.parsed.matching_rule(path),
            self.parsed.matching_rule(&escaped),
        ];
        found
            .into_iter()
            .flatten()
            .max_by_key(|rule| (rule.pattern().len(), rule.is_allow()))
            .is_none_or(Rule::is_allow)
    }

    /// The least time between two requests that the site asks for.
    pub fn crawl_delay(&self) -> Option<Duration> {
        self.parsed
            .crawl_delay()
            .filter(|delay| !delay.is_zero())
            .map(|delay| delay.min(MAX_CRAWL_DELAY))
    }

    /// The sitemaps that it names, wherever they are.
    pub fn sitemaps(&self) -> &[Url] {
        self.parsed.sitemaps()
    }
}

/// Where the robots.txt of a URL's origin is.
pub fn url_of(url: &Url) -> Url {
    let mut robots = url.clone();
    // Neither fails for http and https, the only schemes that are asked.
    let _ = robots.set_username("");
    let _ = robots.set_password(None);
    robots.set_path("/robots.txt");
    robots.set_query(None);
    robots.set_fragment(None);
    robots
}

/// What a hop on the way to a robots.txt led to.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// It is elsewhere; ask there.
    Follow(Url),
    /// This came of it.
    Done(RobotsAnswer),
    /// Whoever asks may not ask its origin at all, so nothing was asked, and nothing is
    /// known. Others may.
    Refused,
}

/// What a hop that asked `url` for a robots.txt led to, after so many redirects.
///
/// A status of 4xx means that there are no rules, and so does a redirect that leads
/// nowhere. 429 is the exception, as it is for others: a server that has had enough of
/// us has not said that we may go on.
pub fn read(url: &Url, hop: &Result<Answer, FetchFailure>, n_redirects: usize) -> Step {
    let answer = match hop {
        Ok(answer) => answer,
        Err(FetchFailure {
            kind: FailureKind::Url | FailureKind::Address,
            ..
        }) => {
            return match n_redirects {
                0 => Step::Refused,
                // It leads to where nothing is ever asked.
                _ => Step::Done(RobotsAnswer::None),
            };
        }
        Err(_) => return Step::Done(RobotsAnswer::Unreachable),
    };
    Step::Done(match answer.status {
        200..=299 => RobotsAnswer::Rules(text_of(&answer.body, answer.is_cut)),
        300..=399 => match &answer.location {
            Some(_) if n_redirects >= MAX_REDIRECTS => RobotsAnswer::None,
            Some(location) => match locator::resolve(url, location) {
                Ok(next) => return Step::Follow(next),
                Err(_) => RobotsAnswer::None,
            },
            None => RobotsAnswer::Unreachable,
        },
        429 => RobotsAnswer::Unreachable,
        400..=499 => RobotsAnswer::None,
        _ => RobotsAnswer::Unreachable,
    })
}

/// What is known of a robots.txt once it was asked for again.
///
/// While it cannot be reached, what was known before holds on (2.4), and if that was
/// nothing, the time when it first could not be.
pub fn keep(previous: Option<&Robots>, origin: &str, answer: RobotsAnswer, now: Moment) -> Robots {
    match previous {
        Some(previous) if answer == RobotsAnswer::Unreachable => previous.clone(),
        _ => Robots {
            origin: origin.to_owned(),
            fetched_at: now,
            answer,
        },
    }
}

/// Whether a robots.txt should be asked for again. One that could not be reached
/// should be, whenever its host may be asked at all.
pub fn is_due(robots: &Robots, now: Moment) -> bool {
    // A time in the future was written by a clock that was ahead; it must not hold us up.
    robots.answer == RobotsAnswer::Unreachable
        || robots.fetched_at > now
        || has_passed(robots.fetched_at, FRESH_FOR, now)
}

/// The kept robots.txt with its time corrected, since the clock may have been set since.
///
/// If it could not be fetched, `fetched_at` is when that began, and only the time up to the
/// last request counts: that duration is kept and counted back from now. Any other time in
/// the future becomes now.
pub(crate) fn recalled(robots: &Robots, requested_at: Option<Moment>, now: Moment) -> Robots {
    let fetched_at = robots.fetched_at;
    let fetched_at = match robots.answer {
        RobotsAnswer::Unreachable => {
            let asked_at = requested_at.unwrap_or(fetched_at);
            let lasted = asked_at.0.saturating_sub(fetched_at.0).max(0);
            Moment(now.0.saturating_sub(lasted))
        }
        _ => fetched_at.min(now),
    };
    Robots {
        fetched_at,
        ..robots.clone()
    }
}

/// Whether this much time has passed.
fn has_passed(since: Moment, span: Duration, now: Moment) -> bool {
    let passed = now.0.saturating_sub(since.0).max(0);
    passed.unsigned_abs() >= span.as_millis() as u64
}

/// The same with our name alone where a version follows it: people write what they find
/// in their logs, though only the name is meant to count (RFC 9309, 2.2.1).
fn without_our_version(text: &str) -> Cow<'_, str> {
    let is_our_version = |line: &&str| {
        let (key, value) = line.split_once(':').unwrap_or_default();
        let (name, _) = value.split_once('/').unwrap_or_default();
        key.trim().eq_ignore_ascii_case("user-agent") && name.trim().eq_ignore_ascii_case(PRODUCT)
    };
    let lines = || text.split_inclusive(['\n', '\r']);
    if !lines().any(|line| is_our_version(&line)) {
        return Cow::Borrowed(text);
    }
    let mut without = String::with_capacity(text.len());
    for line in lines() {
        match line.split_once('/') {
            Some((name, _)) if is_our_version(&line) => {
                without.push_str(name);
                without.push('\n');
            }
            _ => without.push_str(line),
        }
    }
    Cow::Owned(without)
}

/// The text of a robots.txt, cut at the end of a line to what is read of it.
fn text_of(body: &[u8], is_cut: bool) -> String {
    let mut text = String::from_utf8_lossy(&body[..body.len().min(MAX_BYTES)]).into_owned();
    if is_cut || body.len() > MAX_BYTES || text.len() > MAX_BYTES {
        let mut end = text.len().min(MAX_BYTES);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let end = text[..end].rfind(['\n', '\r']).map_or(0, |at| at + 1);
        text.truncate(end);
    }
    text
}
