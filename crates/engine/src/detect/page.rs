//! What matters in a page.
//!
//! Without selectors of a user it is the title and the main text: what stands in
//! `main`, or in `article`, or in an element that is called content, if that is most
//! of the page; else all text but what is marked as a frame around it (navigation,
//! site header and footer, sidebars, advertisements). Marks alone decide, not the
//! length of sentences or the share of links, as they do for the readability of
//! browsers: those let a list, a table of prices or a short paragraph go, and a
//! longer advertisement elsewhere on the page can change which. A frame that is
//! not marked is a change too many, a part that is let go is a change missed; a
//! user can drop the one and would never learn of the other.
//!
//! Where links and images point is part of it, without the query, in which
//! sessions and cache keys live: a download that moved on by a version is a change.

use dom_query::{Document, Element, Matcher, NodeData, NodeId, NodeRef};

/// A main part has to hold this share of all text that is not in a frame, to be
/// taken for the page: a page built by a script may have an empty `main`.
const LEAST_SHARE_OF_MAIN: f64 = 0.5;

/// Less text than this outside of frames that hold more than [`MUCH_IN_FRAMES`] is
/// not the page: the frames are, as in a directory of links. In bytes, not as a
/// share, so that a longer menu does not turn a short text into none.
const LITTLE_OUTSIDE_FRAMES: usize = 40;
/// More text than this in frames, in bytes, may be the page.
const MUCH_IN_FRAMES: usize = 1000;

/// The lines of what matters in a page that has been parsed; nothing if there is no
/// text at all and no selector asked for that.
pub(crate) fn lines(document: &Document, keep: &[Matcher], drop: &[Matcher]) -> Option<String> {
    for matcher in drop {
        for node in document.select_matcher(matcher).nodes() {
            node.remove_from_parent();
        }
    }
    let mut page = Page::default();
    if keep.is_empty() {
        page.read(document.root(), &Selected::All);
        let title = page.title(document);
        let zone = page.choose();
        if drop.is_empty() && page.pieces.is_empty() && page.targets.is_empty() {
            return None;
        }
        return Some(page.write(title, |piece| zone.holds(piece)));
    }
    let mut kept = std::collections::HashSet::new();
    for matcher in keep {
        let selection = document.select_matcher(matcher);
        kept.extend(selection.nodes().iter().map(|node| node.id));
    }
    page.read(document.root(), &Selected::Only(kept));
    Some(page.write(String::new(), |zone| zone & KEPT != 0))
}

/// Whether a selector that looks at all siblings of an element is within reason:
/// pairs of them are, at some ten nanoseconds each.
pub(crate) fn siblings_are_few(document: &Document) -> bool {
    const MAX_PAIRS: usize = 200_000_000;
    let mut n_children = std::collections::HashMap::new();
    let mut n_pairs = 0usize;
    for node in document.root().descendants_it() {
        let parent = node.query(|node| node.parent);
        let n = n_children.entry(parent).or_insert(0usize);
        n_pairs += *n;
        *n += 1;
    }
    n_pairs <= MAX_PAIRS
}

/// Which elements a user asked for.
enum Selected {
    All,
    Only(std::collections::HashSet<NodeId>),
}

/// Where a piece of text is, as bits.
type Zone = u8;
const FRAME: Zone = 1;
const MAIN: Zone = 2;
const ARTICLE: Zone = 4;
const CONTENT: Zone = 8;
const SECTION: Zone = 16;
const KEPT: Zone = 32;
const VERBATIM: Zone = 64;
const AD: Zone = 128;

/// The pieces of text to take for the page.
enum Pieces {
    Part(Zone),
    OutsideFrames,
    /// All but advertisements.
    WithFrames,
    Everything,
}

impl Pieces {
    fn holds(&self, zone: Zone) -> bool {
        match self {
            Self::Part(part) => zone & part != 0 && zone & (FRAME | AD) == 0,
            Self::OutsideFrames => zone & (FRAME | AD) == 0,
            Self::WithFrames => zone & AD == 0,
            Self::Everything => true,
        }
    }
}

/// What parts a piece from the one before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum Gap {
    #[default]
    None,
    Space,
    Line,
}

/// A run of text without a gap wider than a blank.
struct Piece {
    end: usize,
    zone: Zone,
    gap: Gap,
}

/// All text of a page, and where it is.
#[derive(Default)]
struct Page {
    text: String,
    pieces: Vec<Piece>,
    /// The gap since the last piece.
    gap: Gap,
    /// Where links and images point.
    targets: Vec<(Zone, String)>,
}

impl Page {
    /// Goes through a tree, each element twice: when it begins and when it ends.
    fn read(&mut self, root: NodeRef<'_>, kept: &Selected) {
        let tree = root.tree;
        // Zones of the elements that are open, with their names where an end needs it.
        let mut open: Vec<(NodeId, Zone, Gap)> = Vec::new();
        let mut next = Some(root.id);
        while let Some(id) = next {
            let zone = open.last().map_or(0, |(_, zone, _)| *zone);
            let node = NodeRef::new(id, tree);
            let (step, child, sibling) = node
                .query(|tree_node| {
                    let step = match &tree_node.data {
                        NodeData::Text { contents } => {
                            if self.takes(zone, kept) {
                                self.push_text(contents, zone);
                            }
                            Step::Over
                        }
                        NodeData::Element(element) => self.enter(element, &node, zone, kept),
                        NodeData::Document | NodeData::Fragment => Step::Into(0, Gap::None),
                        _ => Step::Over,
                    };
                    (step, tree_node.first_child, tree_node.next_sibling)
                })
                .unwrap_or((Step::Over, None, None));
            if let (Step::Into(zone, gap), Some(child)) = (&step, child) {
                open.push((id, *zone, *gap));
                next = Some(child);
                continue;
            }
            if let Step::Into(_, gap) = step {
                self.gap = self.gap.max(gap);
            }
            next = sibling;
            while next.is_none() {
                let Some((closed, _, gap)) = open.pop() else {
                    return;
                };
                self.gap = self.gap.max(gap);
                next = NodeRef::new(closed, tree)
                    .next_sibling()
                    .map(|node| node.id);
            }
        }
    }

    fn takes(&self, zone: Zone, kept: &Selected) -> bool {
        matches!(kept, Selected::All) || zone & KEPT != 0
    }

    /// What to do with an element at its beginning.
    fn enter(
        &mut self,
        element: &Element,
        node: &NodeRef<'_>,
        zone: Zone,
        kept: &Selected,
    ) -> Step {
        let name: &str = &element.name.local;
        let mut zone = zone;
        let is_asked_for = match kept {
            Selected::All => false,
            Selected::Only(nodes) => nodes.contains(&node.id),
        };
        if is_asked_for {
            if zone & KEPT == 0 {
                self.gap = Gap::Line;
            }
            zone |= KEPT;
        }
        match kept {
            Selected::All => {
                // The title is found apart, wherever it is.
                if name == "head" || is_never_text(name) || is_hidden(element, name) {
                    return Step::Over;
                }
                zone |= zone_of(element, name, node, zone);
            }
            Selected::Only(_) if is_never_text(name) && !is_asked_for => return Step::Over,
            Selected::Only(_) => {}
        }
        let gap = gap_of(name);
        self.gap = self.gap.max(gap);
        if name == "pre" || name == "textarea" {
            zone |= VERBATIM;
        }
        if self.takes(zone, kept) {
            self.push_target(element, name, zone);
        }
        // A kept part is parted from what comes after it.
        let gap = if is_asked_for { Gap::Line } else { gap };
        Step::Into(zone, gap)
    }

    fn push_text(&mut self, text: &str, zone: Zone) {
        if zone & VERBATIM != 0 && text.contains('\n') {
            for (at, line) in text.split('\n').enumerate() {
                if at > 0 {
                    self.gap = Gap::Line;
                }
                self.push_words(line, zone);
            }
        } else {
            self.push_words(text, zone);
        }
    }

    fn push_words(&mut self, text: &str, zone: Zone) {
        if text.starts_with(char::is_whitespace) {
            self.gap = self.gap.max(Gap::Space);
        }
        let mut words = text.split_whitespace();
        let Some(first) = words.next() else {
            return;
        };
        self.text.push_str(first);
        for word in words {
            self.text.push(' ');
            self.text.push_str(word);
        }
        self.pieces.push(Piece {
            end: self.text.len(),
            zone,
            gap: self.gap,
        });
        self.gap = if text.ends_with(char::is_whitespace) {
            Gap::Space
        } else {
            Gap::None
        };
    }

    fn push_target(&mut self, element: &Element, name: &str, zone: Zone) {
        let (attribute, arrow) = match name {
            "a" | "area" => ("href", "->"),
            "img" | "source" | "video" | "audio" | "embed" | "iframe" => ("src", "<-"),
            _ => return,
        };
        let Some(target) = attribute_of(element, attribute) else {
            return;
        };
        let target = target.trim();
        let end = target.find(['?', '#', ';']).unwrap_or(target.len());
        let mut target = &target[..end];
        let has_scheme = |scheme: &str| {
            target
                .get(..scheme.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        };
        if target.is_empty() || has_scheme("javascript:") || has_scheme("data:") {
            return;
        }
        if arrow == "<-" {
            // Which of its hosts serves an image is nobody's concern.
            if let Some((_, rest)) = target.split_once("//") {
                target = rest.find('/').map_or("", |slash| &rest[slash..]);
            }
        }
        self.targets.push((zone, format!("{arrow} {target}")));
    }

    fn title(&self, document: &Document) -> String {
        let head = document.head();
        let title = head.and_then(|head| {
            head.children_it(false)
                .find(|child| child.has_name("title"))
        });
        let mut line = String::new();
        if let Some(title) = title {
            for word in title.text().split_whitespace() {
                if !line.is_empty() {
                    line.push(' ');
                }
                line.push_str(word);
            }
        }
        line
    }

    fn choose(&self) -> Pieces {
        let length_of = |choice: &Pieces| {
            let mut start = 0;
            let mut length = 0;
            for piece in &self.pieces {
                if choice.holds(piece.zone) {
                    length += piece.end - start;
                }
                start = piece.end;
            }
            length
        };
        let outside = length_of(&Pieces::OutsideFrames);
        for part in [MAIN, ARTICLE, CONTENT] {
            let choice = Pieces::Part(part);
            let length = length_of(&choice);
            if length > 0 && length as f64 >= LEAST_SHARE_OF_MAIN * outside as f64 {
                return choice;
            }
        }
        let with_frames = length_of(&Pieces::WithFrames);
        let in_frames = with_frames - outside;
        if outside >= LITTLE_OUTSIDE_FRAMES || outside > 0 && in_frames <= MUCH_IN_FRAMES {
            Pieces::OutsideFrames
        } else if with_frames > 0 {
            Pieces::WithFrames
        } else {
            Pieces::Everything
        }
    }

    /// The text as lines: the title, the text itself, and where it points.
    fn write(&self, title: String, is_in: impl Fn(Zone) -> bool) -> String {
        let mut lines = title;
        lines.reserve(self.text.len());
        let mut gap = Gap::Line;
        let mut start = 0;
        for piece in &self.pieces {
            gap = gap.max(piece.gap);
            if is_in(piece.zone) {
                match gap {
                    _ if lines.is_empty() => {}
                    Gap::None => {}
                    Gap::Space => lines.push(' '),
                    Gap::Line => lines.push('\n'),
                }
                lines.push_str(&self.text[start..piece.end]);
                gap = Gap::None;
            }
            start = piece.end;
        }
        if !lines.is_empty() {
            lines.push('\n');
        }
        for (zone, target) in &self.targets {
            if is_in(*zone) {
                lines.push_str(target);
                lines.push('\n');
            }
        }
        lines
    }
}

enum Step {
    /// Into it: where its text is, and what parts it from what follows.
    Into(Zone, Gap),
    Over,
}

fn attribute_of<'a>(element: &'a Element, name: &str) -> Option<&'a str> {
    let mut attributes = element.attrs.iter();
    let found = attributes.find(|attribute| &*attribute.name.local == name)?;
    Some(&found.value)
}

fn is_never_text(name: &str) -> bool {
    matches!(
        name,
        "script" | "style" | "template" | "noembed" | "noframes"
    )
}

fn is_hidden(element: &Element, name: &str) -> bool {
    if name == "dialog" {
        return attribute_of(element, "open").is_none();
    }
    if element.attrs.is_empty() {
        return false;
    }
    if attribute_of(element, "hidden").is_some_and(|value| value != "until-found") {
        return true;
    }
    attribute_of(element, "style").is_some_and(|style| {
        style.split(';').any(|rule| {
            let Some((name, value)) = rule.split_once(':') else {
                return false;
            };
            let value = value.trim();
            let value = value.split(['!', ' ']).next().unwrap_or_default();
            let is = |rule: &str, wanted: &str| {
                name.trim().eq_ignore_ascii_case(rule) && value.eq_ignore_ascii_case(wanted)
            };
            is("display", "none") || is("visibility", "hidden")
        })
    })
}

/// The bits that an element adds to where its text is.
fn zone_of(element: &Element, name: &str, node: &NodeRef<'_>, outer: Zone) -> Zone {
    let role = attribute_of(element, "role")
        .map(str::trim)
        .unwrap_or_default();
    match name {
        "html" | "body" => return 0,
        "main" => return MAIN,
        "article" => return ARTICLE,
        "nav" => return FRAME,
        "section" | "blockquote" | "figure" if role.is_empty() => return SECTION,
        _ => {}
    }
    if role == "main" {
        return MAIN;
    }
    if has_name_in(element, is_ad_name) && !holds_main(node) {
        return AD;
    }
    if outer & FRAME != 0 {
        return 0;
    }
    let is_inside = outer & (ARTICLE | SECTION) != 0;
    let is_frame = match (name, role) {
        (_, "navigation" | "search") => true,
        // Inside an article they are its own: a byline, notes, a box beside.
        ("footer", _) | (_, "contentinfo") => !is_inside,
        ("header" | "aside", _) | (_, "banner" | "complementary") => {
            !is_inside && outer & MAIN == 0
        }
        // The foot of a card in a list of articles is no foot of the page.
        _ => !is_inside && has_name_in(element, is_frame_name),
    };
    if is_frame && !holds_main(node) {
        return FRAME;
    }
    if has_name_in(element, is_content_name) {
        return CONTENT;
    }
    0
}

/// Whether an element has what no frame has: some sites put a sidebar's name on the
/// element around everything, or the page's title into its header.
fn holds_main(node: &NodeRef<'_>) -> bool {
    node.descendants_it().any(|inner| {
        inner
            .element_ref()
            .is_some_and(|inner| matches!(&*inner.name.local, "main" | "article" | "h1"))
    })
}

fn has_name_in(element: &Element, is_in: impl Fn(&str) -> bool) -> bool {
    let named = |attribute| {
        attribute_of(element, attribute)
            .is_some_and(|names| names.split_ascii_whitespace().any(&is_in))
    };
    named("id") || named("class")
}

/// Names of classes and identifiers that leave no doubt. Those that real text has
/// too (`banner`, `header`, `menu`, `related`, `comments`, `promo`) are not among them.
fn is_frame_name(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "nav",
        "navbar",
        "navigation",
        "breadcrumb",
        "breadcrumbs",
        "sidebar",
        "footer",
        "site-footer",
        "page-footer",
        "site-header",
        "cookie-banner",
        "cookie-notice",
        "cookie-consent",
        "skip-link",
    ];
    NAMES.iter().any(|wanted| name.eq_ignore_ascii_case(wanted))
}

/// The same for what is never the page: advertisements, and what ticks.
fn is_ad_name(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "ad",
        "ads",
        "advert",
        "adverts",
        "advertisement",
        "advertisements",
        "advertising",
        "adsbygoogle",
        "sponsor",
        "sponsors",
        "sponsored",
        "clock",
        "hit-counter",
        "visitor-counter",
    ];
    if NAMES.iter().any(|wanted| name.eq_ignore_ascii_case(wanted)) {
        return true;
    }
    let name = name.as_bytes();
    let starts =
        |start: &[u8]| name.len() > start.len() && name[..start.len()].eq_ignore_ascii_case(start);
    let ends = |end: &[u8]| {
        name.len() > end.len() && name[name.len() - end.len()..].eq_ignore_ascii_case(end)
    };
    starts(b"ad-") || starts(b"ads-") || starts(b"ad_") || ends(b"-ad") || ends(b"-ads")
}

fn is_content_name(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "content",
        "main",
        "main-content",
        "maincontent",
        "page-content",
        "post-content",
        "entry-content",
        "article-body",
        "mw-content-text",
    ];
    NAMES.iter().any(|wanted| name.eq_ignore_ascii_case(wanted))
}

/// What parts an element from its neighbours: a line, unless it is part of one.
fn gap_of(name: &str) -> Gap {
    match name {
        "a" | "abbr" | "acronym" | "b" | "bdi" | "bdo" | "big" | "cite" | "code" | "data"
        | "del" | "dfn" | "em" | "font" | "i" | "img" | "ins" | "kbd" | "label" | "mark"
        | "nobr" | "q" | "rp" | "rt" | "ruby" | "s" | "samp" | "small" | "span" | "strike"
        | "strong" | "sub" | "sup" | "time" | "tt" | "u" | "var" | "wbr" => Gap::None,
        "td" | "th" | "button" | "input" | "select" => Gap::Space,
        _ => Gap::Line,
    }
}
