//! A look at all that is kept, facts and bodies together.

use std::collections::HashSet;

use crate::{Bodies, BodyId, Error, Problem, Reader, Sqlite};

/// What was found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Examined {
    /// What is wrong.
    pub problems: Vec<Problem>,
    /// Bodies that nothing names, and files that do not belong there: they may have been
    /// left by a machine that died, take space, and do no harm.
    pub n_unnamed_bodies: u64,
}

/// Goes through a store and its bodies, and lists what is wrong; `seen` is told of each
/// body.
///
/// # Errors
/// If they cannot be read at all.
pub fn examine<Access: Send, Among>(
    store: &Sqlite<Access>,
    bodies: &Bodies<Among>,
    seen: &mut dyn FnMut(),
) -> Result<Examined, Error> {
    let mut named: HashSet<BodyId> = HashSet::new();
    store.bodies(&mut |body| {
        named.insert(body);
    })?;
    let mut examined = Examined::default();
    let mut is_named = |body| {
        seen();
        named.contains(&body)
    };
    bodies.check(&mut is_named, &mut |problem| match problem {
        Problem::BodyUnnamed(_) | Problem::StrayFile(_) => examined.n_unnamed_bodies += 1,
        problem => examined.problems.push(problem),
    })?;
    let found = store.check(&mut |body| bodies.contains(body))?;
    examined.problems.extend(found);
    Ok(examined)
}
