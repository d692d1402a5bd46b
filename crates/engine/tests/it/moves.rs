//! Pages that send us on for good, for a while or for ever. Every poll is a run of its
//! own, so all of it holds across restarts.

use std::path::Path;
use std::time::Duration;

use springtide_engine::origin::{Behaviour, Origin};
use springtide_engine::{RunOptions, RunScope, Settings};
use springtide_store::{Bodies, ElementId, Kept, Role, SourceKind, State};
use tempfile::TempDir;

use crate::run::{elements, quiet_site, settings};
use crate::world::World;

const DAY: f64 = 86_400.0;

/// A site of four pages that have been polled once.
struct Polled {
    world: World,
    origin: Origin,
    folder: TempDir,
    settings: Settings,
}

impl Polled {
    async fn new() -> Self {
        let world = World::new();
        let origin = quiet_site(&world, 4);
        let folder = tempfile::tempdir().unwrap();
        let settings = settings(&[("docs", SourceKind::Sitemap, origin.url("/sitemap.xml"))]);
        world.run_once(folder.path(), &settings).await;
        Self {
            world,
            origin,
            folder,
            settings,
        }
    }

    fn pages(&self) -> Vec<Kept> {
        let mut elements = elements(self.folder.path());
        elements.retain(|kept| kept.element.role == Role::Page);
        elements
    }

    fn page(&self, id: ElementId) -> Kept {
        let mut pages = self.pages().into_iter();
        pages.find(|kept| kept.element.id == id).unwrap()
    }

    fn path(&self, kept: &Kept) -> String {
        kept.element.locator.replace(&self.origin.url(""), "")
    }

    fn text(&self, id: ElementId) -> String {
        let bodies = Bodies::read_only(self.folder.path().join(".springtide/bodies")).unwrap();
        let body = bodies.get(self.page(id).copy.unwrap().body).unwrap();
        String::from_utf8(body).unwrap()
    }

    /// Polls these after so many days, and says which paths were asked for.
    async fn poll_after(&self, days: f64, ids: &[ElementId]) -> Vec<String> {
        tokio::time::sleep(Duration::from_secs_f64(days * DAY)).await;
        let n_before = self.origin.requests().len();
        let options = RunOptions {
            scope: RunScope::These(ids.to_vec()),
            ..RunOptions::default()
        };
        let folder: &Path = self.folder.path();
        self.world.run(folder, self.settings.clone(), options).await;
        let requests = self.origin.requests();
        let paths = requests[n_before..].iter().map(|request| &request.path);
        paths
            .filter(|path| *path != "/robots.txt")
            .cloned()
            .collect()
    }
}

fn page(text: &str) -> Behaviour {
    let html = format!("<html><body><main><p>{text}</p></main></body></html>");
    // Newer than any page of the site.
    Behaviour::body("text/html", html).with("last-modified", "Tue, 14 Nov 2023 22:00:00 GMT")
}

#[tokio::test(start_paused = true)]
async fn a_notice_in_the_place_of_pages_is_forgotten_when_they_are_back() {
    let polled = Polled::new().await;
    let before = polled.pages();
    let ids: Vec<ElementId> = before.iter().map(|kept| kept.element.id).collect();
    let text = polled.text(ids[0]);
    polled.origin.script("/maintenance", page("Back soon."));
    for kept in &before {
        let path = polled.path(kept);
        let redirect = Behaviour::redirect(301, "/maintenance");
        polled.origin.script(&path, redirect);
    }
    for _ in 0..2 {
        polled.poll_after(0.001, &ids).await;
    }
    for kept in &before {
        polled.origin.unscript(&polled.path(kept));
    }
    let asked = polled.poll_after(0.001, &ids).await;
    assert!(!asked.contains(&"/maintenance".to_owned()), "{asked:?}");
    assert_eq!(polled.text(ids[0]), text);
    for (kept, before) in polled.pages().iter().zip(&before) {
        assert_eq!(kept.element, before.element);
        assert_eq!(kept.state, State::Ok);
        assert_eq!(kept.copy.as_ref().unwrap().redirect, None);
    }
    assert_eq!(polled.pages().len(), before.len());
}

#[tokio::test(start_paused = true)]
async fn a_page_has_moved_after_three_polls_over_a_week() {
    let polled = Polled::new().await;
    let moved = polled.pages().swap_remove(0);
    let (id, own) = (moved.element.id, polled.path(&moved));
    polled.origin.script(&own, Behaviour::redirect(301, "/new"));
    polled.origin.script("/new", page("It is here now."));
    let both = [own.clone(), "/new".to_owned()];
    for days in [0.0, 0.1, 0.1, 6.0] {
        assert_eq!(polled.poll_after(days, &[id]).await, both);
    }
    // A week after the first.
    assert_eq!(polled.poll_after(1.0, &[id]).await, both);
    assert_eq!(polled.poll_after(0.5, &[id]).await, ["/new"]);
    assert_eq!(polled.poll_after(0.6, &[id]).await, both);
    assert_eq!(polled.poll_after(0.5, &[id]).await, ["/new"]);
    // Those who sent us on may be gone, and it is still where it was.
    polled.origin.script(&own, Behaviour::status(404));
    assert_eq!(polled.poll_after(1.0, &[id]).await, both);
    assert_eq!(polled.poll_after(0.5, &[id]).await, ["/new"]);
    let kept = polled.page(id);
    assert_eq!((kept.state, &kept.element), (State::Ok, &moved.element));
    assert_eq!(kept.history.n_polls, moved.history.n_polls + 10);
    assert!(polled.text(id).contains("It is here now."));
    // And whoever is back is back.
    polled.origin.unscript(&own);
    assert_eq!(polled.poll_after(1.0, &[id]).await, [&*own]);
    assert_eq!(polled.poll_after(0.1, &[id]).await, [&*own]);
    assert!(!polled.text(id).contains("It is here now."));
}

#[tokio::test(start_paused = true)]
async fn what_is_not_where_it_moved_to_is_asked_for_where_it_was() {
    let polled = Polled::new().await;
    let moved = polled.pages().swap_remove(0);
    let (id, own) = (moved.element.id, polled.path(&moved));
    polled.origin.script(&own, Behaviour::redirect(308, "/new"));
    polled.origin.script("/new", page("It is here now."));
    for days in [0.0, 4.0, 4.0] {
        polled.poll_after(days, &[id]).await;
    }
    assert_eq!(polled.poll_after(0.1, &[id]).await, ["/new"]);
    polled.origin.script("/new", Behaviour::status(404));
    polled.origin.unscript(&own);
    assert_eq!(polled.poll_after(0.1, &[id]).await, ["/new"]);
    assert_eq!(polled.page(id).state, State::Failing);
    assert_eq!(polled.poll_after(0.1, &[id]).await, [own]);
    assert_eq!(polled.page(id).state, State::Ok);
}

#[tokio::test(start_paused = true)]
async fn pages_that_are_all_sent_to_one_place_have_not_moved() {
    let polled = Polled::new().await;
    let pages = polled.pages();
    polled.origin.script("/login", page("Who are you?"));
    // The third is sent to where the fourth is.
    let targets = ["/login", "/login", &polled.path(&pages[3])];
    for (kept, target) in pages.iter().zip(targets) {
        let redirect = Behaviour::redirect(301, target);
        polled.origin.script(&polled.path(kept), redirect);
    }
    for days in [0.0, 4.0, 4.0, 0.1] {
        for (kept, target) in pages.iter().zip(targets) {
            let asked = polled.poll_after(days, &[kept.element.id]).await;
            let own = polled.path(kept);
            assert_eq!(asked, [own, target.to_owned()]);
        }
    }
}
