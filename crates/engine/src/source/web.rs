//! Web pages: one address, one element.

use std::sync::Arc;

use springtide_store::Role;

use super::links::links;
use super::{
    AnswerContext, Mention, MentionKind, OwnSighting, Protocol, ReadError, Reading, Sighting,
};
use crate::detect::Lens;

/// A page.
#[derive(Debug)]
pub(crate) struct Web {
    /// What matters in it.
    pub(crate) lens: Arc<Lens>,
    /// Whether the pages that it links to are elements too.
    pub(crate) names_links: bool,
}

impl Protocol for Web {
    fn read(&self, answered: &AnswerContext<'_>) -> Result<Reading, ReadError> {
        if let Some(own) = super::status_only(answered)? {
            return Ok(own.into());
        }
        let answer = answered.answer;
        let content_type = answer.content_type.as_deref();
        let extract = self.lens.extract(&answer.body, content_type);
        let before = answered.kept.copy.as_ref();
        let has_changed = answered.is_lost
            || before.is_none_or(|copy| copy.digest != extract.digest)
                && !self.is_same_to_us(answered, extract.digest);
        let mentions = if self.names_links && has_changed {
            let links = links(&answer.body, content_type, answered.url);
            links
                .into_iter()
                .map(|url| Mention {
                    locator: url.into(),
                    role: Role::Hub,
                    kind: MentionKind::Added,
                })
                .collect()
        } else {
            Vec::new()
        };
        let sighting = Sighting {
            sketch: extract.sketch,
            ..Sighting::of_answer(answered, extract.digest, has_changed)?
        };
        Ok(Reading {
            own: OwnSighting::Here(Box::new(sighting)),
            mentions,
            ..Reading::default()
        })
    }
}

impl Web {
    /// Whether our copy, looked at as we look now, is what was found: what matters may
    /// have been set differently since, and that is no change at the remote.
    fn is_same_to_us(&self, answered: &AnswerContext<'_>, digest: [u8; 32]) -> bool {
        let Some(copy) = &answered.kept.copy else {
            return false;
        };
        let found = answered.answer.content_type.as_deref();
        let content_type = copy.content_type.as_deref().or(found);
        let body = answered.bodies.get(copy.body);
        body.is_ok_and(|body| self.lens.extract(&body, content_type).digest == digest)
    }
}
