//! HTML into a tree, in bounded time and memory whatever the bytes.
//!
//! The parser that browsers agreed on takes quadratic time on some inputs (half a
//! million nested `div`s, a tag with a million attributes) and makes quadratically
//! many nodes on others (hundreds of open `b`s before every paragraph). So the
//! tokens pass a gate on their way to the tree builder: past [`MAX_DEPTH`] or
//! [`MAX_WEIGHT`], tags are left out and only their text goes on. All text is there
//! in the end, of any page; only the structure of pages that no one writes is lost.
//!
//! Nothing here recurses, and the tree is one array, so no depth is too deep for the
//! stack.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};

use dom_query::{Document, NodeId};
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{
    BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};
use html5ever::tree_builder::{
    ElementFlags, NodeOrText, QuirksMode, TreeBuilder, TreeBuilderOpts, TreeSink,
};
use html5ever::{Attribute, QualName, TokenizerResult};

/// Elements inside elements. Pages that people write stay below 100 or so; each
/// further level costs time at every tag.
const MAX_DEPTH: u32 = 256;

/// Nodes and attributes of a page: some 100 MB of tree. The largest pages that
/// people write have a few hundred thousand.
const MAX_WEIGHT: u32 = 500_000;

/// Attributes of a tag. The tokenizer compares each with all before it.
const MAX_ATTRIBUTES: usize = 256;

/// The tree of a page, or nothing if a tag has more attributes than any page has.
///
/// The tree has no comments.
pub(crate) fn parse(text: &str) -> Option<Document> {
    if !attributes_are_few(text.as_bytes()) {
        return None;
    }
    let input = BufferQueue::default();
    input.push_back(StrTendril::from_slice(text));
    let builder = TreeBuilder::new(
        Sink::default(),
        TreeBuilderOpts {
            scripting_enabled: false,
            ..Default::default()
        },
    );
    let tokenizer = Tokenizer::new(Gate { builder }, TokenizerOpts::default());
    // It stops after a script or at a word on the encoding, and is told to go on.
    while !matches!(tokenizer.feed(&input), TokenizerResult::Done) {}
    tokenizer.end();
    Some(tokenizer.sink.builder.sink.document)
}

/// Whether no tag has more than [`MAX_ATTRIBUTES`].
///
/// Cuts tags into attributes as the tokenizer does. A `<` and a letter inside a script
/// looks like a tag to this. That does no harm: no real script has hundreds of words
/// after it without a `>`, and a page that does is compared by its bytes.
fn attributes_are_few(bytes: &[u8]) -> bool {
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'<', &bytes[at..]) {
        at += found + 1;
        let name = bytes.get(at).copied().unwrap_or(b' ');
        if !(name.is_ascii_alphabetic() || name == b'/') {
            continue;
        }
        let mut tag = Cursor { bytes, at };
        tag.skip_to(|byte| ends_name(byte) && byte != b'=');
        let mut n_attributes = 0;
        loop {
            tag.skip_to(|byte| !byte.is_ascii_whitespace() && byte != b'/');
            match tag.byte() {
                None | Some(b'>') => break,
                Some(_) => {}
            }
            n_attributes += 1;
            if n_attributes > MAX_ATTRIBUTES {
                return false;
            }
            // A name may begin with `=`.
            tag.at += 1;
            tag.skip_to(ends_name);
            tag.skip_to(|byte| !byte.is_ascii_whitespace());
            if tag.byte() != Some(b'=') {
                continue;
            }
            tag.at += 1;
            tag.skip_to(|byte| !byte.is_ascii_whitespace());
            match tag.byte() {
                Some(quote @ (b'"' | b'\'')) => {
                    let rest = &bytes[tag.at + 1..];
                    tag.at += memchr::memchr(quote, rest).map_or(rest.len() + 1, |end| end + 2);
                }
                _ => tag.skip_to(|byte| byte.is_ascii_whitespace() || byte == b'>'),
            }
        }
        at = tag.at;
    }
    true
}

fn ends_name(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, b'/' | b'>' | b'=')
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    fn byte(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_to(&mut self, is_end: impl Fn(u8) -> bool) {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let end = rest.iter().position(|byte| is_end(*byte));
        self.at += end.unwrap_or(rest.len());
    }
}

/// Lets tokens pass to the tree builder while there is room for them.
struct Gate {
    builder: TreeBuilder<Handle, Sink>,
}

impl Gate {
    fn is_let_in(&self, tag: &Tag) -> bool {
        let sink = &self.builder.sink;
        let is_full = sink.weight.get() >= MAX_WEIGHT;
        let name: &str = &tag.name;
        match tag.kind {
            // What they hold is not markup, so they come in even when it is full;
            // nothing nests in them, unless it is a drawing in which they mean
            // something else.
            TagKind::StartTag if is_raw(name) => {
                sink.weight.get() < 2 * MAX_WEIGHT && sink.depth.get() < 2 * MAX_DEPTH
            }
            TagKind::StartTag => !is_full && (sink.depth.get() < MAX_DEPTH || is_void(name)),
            // `</p>` and `</br>` create an element where none is open.
            TagKind::EndTag => !(is_full && matches!(name, "p" | "br")),
        }
    }
}

fn is_raw(name: &str) -> bool {
    matches!(
        name,
        "script" | "style" | "textarea" | "title" | "xmp" | "iframe" | "noembed" | "noframes"
    )
}

fn is_void(name: &str) -> bool {
    matches!(
        name,
        "area" | "base" | "br" | "col" | "embed" | "hr" | "img" | "input" | "link" | "meta"
    )
}

impl TokenSink for Gate {
    type Handle = Handle;

    fn process_token(&self, token: Token, line: u64) -> TokenSinkResult<Handle> {
        match &token {
            Token::CommentToken(_) | Token::ParseError(_) => return TokenSinkResult::Continue,
            Token::TagToken(tag) if !self.is_let_in(tag) => return TokenSinkResult::Continue,
            _ => {}
        }
        self.builder.process_token(token, line)
    }

    fn end(&self) {
        self.builder.end();
    }

    fn adjusted_current_node_present_but_not_in_html_namespace(&self) -> bool {
        self.builder
            .adjusted_current_node_present_but_not_in_html_namespace()
    }
}

/// A node, and which of all that were made it is.
#[derive(Clone, Copy)]
struct Handle {
    id: NodeId,
    number: usize,
}

/// The tree, with what the gate has to know of it.
struct Sink {
    document: Document,
    /// How deep each node is, by its number; 0 for the document itself.
    depths: RefCell<Vec<u32>>,
    /// How deep the next element will be, give or take: elements that are put
    /// elsewhere (out of a table) make it a little wrong until the next text.
    depth: Cell<u32>,
    weight: Cell<u32>,
    n_late_attributes: Cell<usize>,
}

impl Default for Sink {
    fn default() -> Self {
        Self {
            document: Document::default(),
            depths: RefCell::new(vec![0]),
            depth: Cell::new(0),
            weight: Cell::new(0),
            n_late_attributes: Cell::new(0),
        }
    }
}

impl Sink {
    fn make(&self, id: NodeId, depth: u32) -> Handle {
        let mut depths = self.depths.borrow_mut();
        depths.push(depth);
        Handle {
            id,
            number: depths.len() - 1,
        }
    }

    fn weigh(&self, weight: usize) {
        let weight = u32::try_from(weight).unwrap_or(u32::MAX);
        self.weight.set(self.weight.get().saturating_add(weight));
    }

    fn depth_of(&self, node: &Handle) -> u32 {
        self.depths.borrow()[node.number]
    }

    /// `child` will be put into `parent`.
    fn put(&self, parent_depth: u32, child: NodeOrText<Handle>) -> NodeOrText<NodeId> {
        match child {
            NodeOrText::AppendNode(node) => {
                self.depths.borrow_mut()[node.number] = parent_depth + 1;
                self.depth.set(parent_depth + 1);
                NodeOrText::AppendNode(node.id)
            }
            NodeOrText::AppendText(text) => {
                self.depth.set(parent_depth);
                self.weigh(1);
                NodeOrText::AppendText(text)
            }
        }
    }
}

impl TreeSink for Sink {
    type Handle = Handle;
    type Output = Self;
    type ElemName<'a> = <Document as TreeSink>::ElemName<'a>;

    fn finish(self) -> Self {
        self
    }

    fn parse_error(&self, _: Cow<'static, str>) {}

    fn get_document(&self) -> Handle {
        Handle {
            id: self.document.get_document(),
            number: 0,
        }
    }

    fn elem_name<'a>(&'a self, target: &'a Handle) -> Self::ElemName<'a> {
        self.document.elem_name(&target.id)
    }

    fn create_element(&self, name: QualName, attrs: Vec<Attribute>, flags: ElementFlags) -> Handle {
        self.weigh(1 + attrs.len());
        let id = self.document.create_element(name, attrs, flags);
        self.make(id, self.depth.get() + 1)
    }

    fn create_comment(&self, text: StrTendril) -> Handle {
        let id = self.document.create_comment(text);
        self.make(id, 0)
    }

    fn create_pi(&self, target: StrTendril, data: StrTendril) -> Handle {
        let id = self.document.create_pi(target, data);
        self.make(id, 0)
    }

    fn append(&self, parent: &Handle, child: NodeOrText<Handle>) {
        let child = self.put(self.depth_of(parent), child);
        self.document.append(&parent.id, child);
    }

    fn append_based_on_parent_node(
        &self,
        element: &Handle,
        previous: &Handle,
        child: NodeOrText<Handle>,
    ) {
        let child = self.put(self.depth_of(previous), child);
        self.document
            .append_based_on_parent_node(&element.id, &previous.id, child);
    }

    fn append_doctype_to_document(&self, name: StrTendril, public: StrTendril, system: StrTendril) {
        self.document
            .append_doctype_to_document(name, public, system);
    }

    fn pop(&self, node: &Handle) {
        self.depth.set(self.depth_of(node).saturating_sub(1));
    }

    fn get_template_contents(&self, target: &Handle) -> Handle {
        let id = self.document.get_template_contents(&target.id);
        // Asked for anew at everything that is put into it, so it has no number of
        // its own.
        Handle {
            id,
            number: target.number,
        }
    }

    fn same_node(&self, x: &Handle, y: &Handle) -> bool {
        x.id == y.id
    }

    fn set_quirks_mode(&self, mode: QuirksMode) {
        self.document.set_quirks_mode(mode);
    }

    fn append_before_sibling(&self, sibling: &Handle, child: NodeOrText<Handle>) {
        let child = self.put(self.depth_of(sibling).saturating_sub(1), child);
        self.document.append_before_sibling(&sibling.id, child);
    }

    fn add_attrs_if_missing(&self, target: &Handle, attrs: Vec<Attribute>) {
        // Every further `<body>` may bring some, and each is compared with all.
        let n = self.n_late_attributes.get() + attrs.len();
        if n <= MAX_ATTRIBUTES {
            self.n_late_attributes.set(n);
            self.document.add_attrs_if_missing(&target.id, attrs);
        }
    }

    fn remove_from_parent(&self, target: &Handle) {
        self.document.remove_from_parent(&target.id);
    }

    fn reparent_children(&self, node: &Handle, new_parent: &Handle) {
        self.document.reparent_children(&node.id, &new_parent.id);
    }

    fn is_mathml_annotation_xml_integration_point(&self, handle: &Handle) -> bool {
        self.document
            .is_mathml_annotation_xml_integration_point(&handle.id)
    }
}
