//! The engine with a policy that someone else has written.

use std::time::Duration;

use springtide_engine::origin::{Origin, SiteSettings};
use springtide_engine::settings::PolicyName;
use springtide_engine::{Event, RunOptions};
use springtide_policy::schedule::{Custom, CustomPolicy, DueTimes};
use springtide_policy::{Element, ElementId, Groups, Outcome, Rate, Span, Time};
use springtide_store::{Purpose, SourceKind};

use crate::run::settings;
use crate::world::World;

/// Polls elements with even numbers once an hour, and the others once in four.
#[derive(Default)]
struct EvenFirst {
    due: DueTimes,
    n_polls: u64,
}

impl EvenFirst {
    fn wait(&mut self, id: ElementId, now: Time) {
        let hours = if id.0.is_multiple_of(2) { 1.0 } else { 4.0 };
        self.due.set(id, now + Span::days(hours / 24.0).unwrap());
    }
}

impl CustomPolicy for EvenFirst {
    fn add(&mut self, id: ElementId, _: Element, _: &Groups, now: Time) {
        self.wait(id, now);
    }

    fn remove(&mut self, id: ElementId) {
        self.due.remove(id);
    }

    fn choose(&mut self, now: Time) -> Option<ElementId> {
        let (due, id) = self.due.first()?;
        (due <= now).then_some(id)
    }

    fn begin(&mut self, id: ElementId) {
        self.due.remove(id);
    }

    fn observe(&mut self, id: ElementId, _: Outcome, now: Time) {
        self.n_polls += 1;
        self.wait(id, now);
    }

    fn wake_at(&self, now: Time) -> Time {
        // Whoever is due next is due within a minute of this.
        now + Span::days(1.0 / 1440.0).unwrap()
    }

    fn due_at(&self, id: ElementId) -> Option<Time> {
        self.due.due_at(id)
    }

    fn remember(&self) -> Vec<u8> {
        self.n_polls.to_le_bytes().to_vec()
    }

    fn recall(&mut self, bytes: &[u8]) {
        let bytes = bytes.try_into().expect("what was remembered");
        self.n_polls = u64::from_le_bytes(bytes);
        assert!(self.n_polls > 0, "there were polls before the restart");
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_of_ones_own_says_who_is_polled_and_goes_on_after_a_restart() {
    let world = World::new();
    let origin = Origin::start_in(
        &world.network,
        "docs.example",
        SiteSettings {
            rates: vec![Rate::per_day(3.0).unwrap(); 8],
            ..SiteSettings::default()
        },
    );
    let folder = tempfile::tempdir().unwrap();
    let sitemap = origin.url("/sitemap.xml");
    let mut settings = settings(&[("docs", SourceKind::Sitemap, sitemap)]);
    settings.policy.name = PolicyName::Custom(Custom::new("even-first", |_| EvenFirst::default()));
    settings.budget.per_day = 1000.0;
    settings.budget.audit = 0.0;
    let half_a_day = RunOptions {
        span: Some(Duration::from_secs(43_200)),
        ..RunOptions::default()
    };
    for day in 0..2 {
        let until = half_a_day.clone();
        let (ended, events) = world.run(folder.path(), settings.clone(), until).await;
        let mut n_polls = [0; 2];
        for event in &events {
            if let Event::Polled(polled) = event
                && polled.purpose == Purpose::Due
                && !polled.locator.ends_with("sitemap.xml")
            {
                n_polls[(polled.element.0 % 2) as usize] += 1;
            }
        }
        // Four pages twelve times, and four pages three times, but for the edges.
        assert!(
            (40..=48).contains(&n_polls[0]),
            "{day} {n_polls:?} {ended:?}"
        );
        assert!(
            (8..=12).contains(&n_polls[1]),
            "{day} {n_polls:?} {ended:?}"
        );
        assert!(ended.n_changes > 0, "{ended:?}");
    }
}
