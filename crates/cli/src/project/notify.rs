//! `springtide notify test`: whether notices arrive.

use springtide_server::test_notice;

use super::Project;
use crate::args::SettingFlags;
use crate::args::project::{Notify, NotifyWhat};
use crate::failure::{Failure, Outcome};
use crate::talk::Talk;

pub(crate) fn run(args: &Notify, project: &Project, talk: Talk) -> Outcome<()> {
    let NotifyWhat::Test { name } = &args.what;
    let config = project.config(&SettingFlags::default(), talk)?;
    config.check_secrets()?;
    let targets = &config.notices;
    let by_number = name
        .parse::<usize>()
        .ok()
        .and_then(|n| targets.get(n.wrapping_sub(1)));
    let by_name = || targets.iter().find(|target| target.name == *name);
    let by_part = || {
        let mut found = targets
            .iter()
            .filter(|target| target.name.contains(&**name));
        found.next().filter(|_| found.next().is_none())
    };
    let target = by_number.or_else(by_name).or_else(by_part).ok_or_else(|| {
        let names: Vec<&str> = targets.iter().map(|target| &*target.name).collect();
        let failure = Failure::input(format!(
            "there is no [[notify]] {}",
            crate::table::shorten(name)
        ));
        match names.is_empty() {
            true => failure
                .hint("springtide.toml has none; add [[notify]] with url = \"https://…\", say"),
            false => failure.hint(format!(
                "there are {}",
                crate::table::shorten(&names.join(", "))
            )),
        }
    })?;
    test_notice(target, &config.settings.http, &project.folder).map_err(|why| {
        Failure::failed(format!("{} did not accept the notice", target.name)).cause(why)
    })?;
    talk.say(format!("{} accepted it", target.name));
    Ok(())
}
