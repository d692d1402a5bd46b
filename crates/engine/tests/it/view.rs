//! What is shown of a project, from what a store holds.

use proptest::prelude::*;
use rand::SeedableRng;
use rand_pcg::Pcg64;
use serde_json::Value;
use springtide_engine::Settings;
use springtide_engine::view::{
    self, ElementFilter, ElementView, Elements, Outlook, SourceView, Status, TrustBySource,
    rfc3339, state_name,
};
use springtide_policy::schedule::{Choice, Scheduler, Terms};
use springtide_policy::{Budget, Elements as Nobody, Groups, Outcome, Present, Time, Weight};
use springtide_store::{
    BodyId, Copy, Element, ElementId, Fact, Failure, FailureKind, Group, GroupId, History, Kept,
    Memory, MemoryOf, Moment, Partition, Poll, PollOutcome, Purpose, Role, Source, SourceId,
    SourceKind, State, Totals, Writer,
};

use crate::run::settings;

/// 2026-05-02T00:00:00Z.
const START: Moment = Moment(1_777_680_000_000);
const DAY: f64 = 86_400_000.0;

fn moment(days: f64) -> Moment {
    Moment(START.0 + (days * DAY) as i64)
}

fn time(days: f64) -> Time {
    Time::from_days(moment(days).0 as f64 / DAY).unwrap()
}

/// What has become of an element.
#[derive(Debug, Clone)]
struct Fate {
    source: usize,
    group: usize,
    weight: f32,
    state: State,
    /// When it was polled, in days, and whether it had changed; the first brings the copy.
    polls: Vec<(f64, bool)>,
}

impl Fate {
    fn new(state: State, polls: &[(f64, bool)]) -> Self {
        Self {
            source: 0,
            group: 0,
            weight: 1.0,
            state,
            polls: polls.to_vec(),
        }
    }

    fn is_known(&self) -> bool {
        matches!(self.state, State::Ok | State::Failing) && self.polls.len() > 1
    }
}

struct Project {
    store: Memory,
    settings: Settings,
    now: Moment,
}

const SOURCES: [(&str, SourceKind); 2] =
    [("docs", SourceKind::Sitemap), ("news", SourceKind::List)];
const GROUPS: [(&str, Option<u32>); 3] =
    [("a.example", None), ("guide", Some(0)), ("b.example", None)];

impl Project {
    /// What a store holds after elements have fared like this, at the end of some days.
    fn new(fates: &[Fate], per_day: f64, days: f64) -> Self {
        let mut wanted =
            settings(&SOURCES.map(|(name, kind)| (name, kind, format!("https://{name}.example/"))));
        wanted.budget.per_day = per_day;
        let mut groups = Groups::new();
        for (_, parent) in GROUPS {
            groups.add(parent.and_then(GroupId::new));
        }
        let mut rng = Pcg64::seed_from_u64(1);
        let nobody = Nobody::new();
        let mut scheduler = Scheduler::new(
            Choice::Learned,
            Terms::new(Budget::per_day(per_day).unwrap()),
            groups,
            Present::all(&nobody),
            time(0.0),
            &mut rng,
        );
        scheduler.expect(fates.len() as u64);
        let is_in = |fate: &Fate| matches!(fate.state, State::Ok | State::Failing);
        let mut polls: Vec<(f64, usize, Option<bool>)> = Vec::new();
        for (index, fate) in fates.iter().enumerate().filter(|(_, fate)| is_in(fate)) {
            for (nth, &(at, changed)) in fate.polls.iter().enumerate() {
                polls.push((at, index, (nth > 0).then_some(changed)));
            }
        }
        polls.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        for (at, index, changed) in polls {
            let id = ElementId(index as u32);
            match changed {
                None => {
                    let element = springtide_policy::Element {
                        weight: Weight::new(f64::from(fates[index].weight)).unwrap(),
                        group: GroupId::new(fates[index].group as u32),
                        ..springtide_policy::Element::default()
                    };
                    scheduler.add(id, element, time(at), &mut rng);
                }
                Some(true) => scheduler.observe(id, Outcome::Changed { age: None }, time(at)),
                Some(false) => scheduler.observe(id, Outcome::Unchanged, time(at)),
            }
        }

        let mut facts = Vec::new();
        for (index, (name, kind)) in SOURCES.into_iter().enumerate() {
            let mut totals = Totals::default();
            for fate in fates.iter().filter(|fate| fate.source == index) {
                match fate.state {
                    State::New => totals.n_new += 1,
                    State::Ok => {}
                    State::Failing => totals.n_failing += 1,
                    State::Blocked => totals.n_blocked += 1,
                    State::Gone => totals.n_gone += 1,
                }
                totals.n_elements += u64::from(fate.state != State::Gone);
                totals.n_polls += fate.polls.len() as u64;
                totals.n_changes += fate.polls.iter().filter(|poll| poll.1).count() as u64;
            }
            facts.push(Fact::Source(Source {
                id: SourceId(index as u32),
                name: name.to_owned(),
                kind,
                url: format!("https://{name}.example/"),
                added_at: START,
                totals,
                error: None,
            }));
        }
        for (index, (name, parent)) in (0..).zip(GROUPS) {
            facts.push(Fact::Group(Group {
                id: GroupId::new(index).unwrap(),
                parent: parent.and_then(GroupId::new),
                name: name.to_owned(),
            }));
        }
        for (index, fate) in (0..).zip(fates) {
            facts.push(Fact::Kept(Box::new(
                fate.kept(ElementId(index), &scheduler),
            )));
        }
        for index in 0..GROUPS.len() as u32 {
            let id = GroupId::new(index).unwrap();
            let memory = scheduler.remember_group(id);
            facts.extend(memory.map(|memory| Fact::Memory(MemoryOf::Group(id), memory)));
        }
        let all = MemoryOf::Scheduler(Partition::WHOLE);
        facts.push(Fact::Memory(all, scheduler.remember_all()));
        let mut store = Memory::new();
        store.commit(&facts).unwrap();
        Self {
            store,
            settings: wanted,
            now: moment(days),
        }
    }

    fn sources(&self) -> Vec<Source> {
        view::sources(&self.store, &self.settings, self.now).unwrap()
    }

    fn status(&self) -> Status {
        view::status(&self.store, &self.settings, &self.sources(), None, self.now).unwrap()
    }

    fn outlook(&self) -> Outlook {
        Outlook::read(&self.store, &self.settings, self.now, &mut || {}).unwrap()
    }

    fn elements(&self) -> Vec<ElementView> {
        let (mut outlook, sources) = (self.outlook(), self.sources());
        let wanted = ElementFilter {
            listings: true,
            ..ElementFilter::default()
        };
        let mut elements = Elements::new(&self.store, &mut outlook, &sources, wanted).unwrap();
        let mut views = Vec::new();
        while let Some(page) = elements.next_page().unwrap() {
            views.extend(page.into_iter().map(|(_, view)| view));
        }
        views
    }
}

impl Fate {
    fn kept(&self, id: ElementId, scheduler: &Scheduler) -> Kept {
        let last = self.polls.last().map(|poll| moment(poll.0));
        let first = self.polls.first().map(|poll| moment(poll.0));
        let changed = self.polls.iter().rev().find(|poll| poll.1);
        let failure = |kind, message: &str| Failure {
            kind,
            message: message.to_owned(),
            at: last.unwrap_or(START),
        };
        Kept {
            element: Element {
                id,
                source: SourceId(self.source as u32),
                locator: format!("https://{}.example/{}", SOURCES[self.source].0, id.0),
                group: GroupId::new(self.group as u32).unwrap(),
                host: GroupId::new(if self.group == 2 { 2 } else { 0 }).unwrap(),
                role: Role::Page,
                weight: self.weight,
                depth: 1,
            },
            state: self.state,
            failure: match self.state {
                State::New | State::Ok => None,
                State::Failing => Some(failure(FailureKind::Timeout, "no answer within 30 s")),
                State::Blocked => Some(failure(
                    FailureKind::Robots,
                    "robots.txt asks us to keep away",
                )),
                State::Gone => Some(failure(
                    FailureKind::Gone,
                    "the server answered with status 410",
                )),
            },
            n_failures: u16::from(self.state == State::Failing),
            is_unlisted: false,
            copy: first.map(|first| Copy {
                status: 200,
                etag: None,
                last_modified: None,
                content_type: None,
                digest: [0; 32],
                body: BodyId([0; 32]),
                n_bytes: 1,
                fetched_at: first,
                changed_at: changed.map(|poll| moment(poll.0)),
                redirect: None,
                location: None,
                sketch: Vec::new(),
            }),
            history: History {
                first_polled_at: first,
                polled_at: last,
                synced_at: last,
                n_polls: self.polls.len() as u32,
                n_changes: self.polls.iter().filter(|poll| poll.1).count() as u32,
                memory: scheduler.remember(id).unwrap_or_default(),
            },
        }
    }
}

/// One element of each kind, and a few of which something is known.
fn one_of_each() -> Project {
    let known = [(0.0, false), (1.0, true), (2.0, false), (3.0, true)];
    let fates = [
        Fate::new(State::New, &[]),
        Fate::new(State::Ok, &[(2.5, false)]),
        Fate::new(State::Ok, &[(1.0, false), (2.0, true)]),
        Fate {
            weight: 0.1,
            group: 1,
            ..Fate::new(State::Ok, &known)
        },
        Fate::new(State::Failing, &known[..3]),
        Fate::new(State::Failing, &[]),
        Fate::new(State::Blocked, &known[..1]),
        Fate {
            source: 1,
            group: 2,
            ..Fate::new(State::Gone, &known[..2])
        },
    ];
    let mut project = Project::new(&fates, 4.0, 4.0);
    let audit = |element, at, outcome| {
        Fact::Poll(Poll {
            element: ElementId(element),
            source: SourceId(0),
            begun_at: moment(at),
            at: moment(at),
            since: None,
            outcome,
            status: Some(200),
            error: None,
            purpose: Purpose::Audit,
            is_counted: true,
            age_ms: None,
        })
    };
    let audits = [
        audit(2, 2.0, PollOutcome::Unchanged),
        audit(3, 3.0, PollOutcome::Changed),
        audit(3, 4.0, PollOutcome::Unchanged),
    ];
    project.store.commit(&audits).unwrap();
    project
}

/// JSON, in which numbers that the policy makes are only said to be there.
fn json(document: &impl serde::Serialize) -> String {
    const MADE: [&str; 9] = [
        "estimate",
        "low",
        "high",
        "frequency_per_day",
        "predicted",
        "predicted_low",
        "predicted_high",
        "price",
        "due_at",
    ];
    fn hide(value: &mut Value) {
        match value {
            Value::Object(object) => {
                for (name, value) in object {
                    if MADE.contains(&&**name) && !value.is_null() {
                        *value = Value::from("…");
                    }
                    if ["next_poll_at", "reason"].contains(&&**name)
                        && let Value::String(text) = value
                    {
                        let is_made = text.starts_with("20") || text.starts_with("changes");
                        *text = if is_made {
                            "…".to_owned()
                        } else {
                            text.clone()
                        };
                    }
                    hide(value);
                }
            }
            Value::Array(array) => array.iter_mut().for_each(hide),
            _ => {}
        }
    }
    let mut value = serde_json::to_value(document).unwrap();
    hide(&mut value);
    serde_json::to_string_pretty(&value).unwrap()
}

#[test]
fn status_of_one_element_of_each_kind() {
    insta::assert_snapshot!(json(&one_of_each().status()), @r#"
    {
      "age_seconds": {
        "measured": null,
        "predicted": "…"
      },
      "budget": {
        "per_day": 4.0,
        "price": "…",
        "short_per_day": null,
        "used_today": 1
      },
      "disk": null,
      "errors": [
        {
          "example": "https://docs.example/4: no answer within 30 s",
          "kind": "timeout",
          "n": 2
        },
        {
          "example": "https://news.example/7: the server answered with status 410",
          "kind": "gone",
          "n": 1
        },
        {
          "example": "https://docs.example/6: robots.txt asks us to keep away",
          "kind": "robots",
          "n": 1
        }
      ],
      "freshness": {
        "high": "…",
        "low": "…",
        "measured": 0.6666666666666666,
        "predicted": "…",
        "predicted_high": "…",
        "predicted_low": "…",
        "since": "2026-05-04T00:00:00.000Z"
      },
      "n_changes": 5,
      "n_elements": 7,
      "n_polls": 13,
      "n_sources": 2,
      "oldest_poll_age_seconds": 345600.0,
      "sources": [
        {
          "age_seconds": {
            "measured": null,
            "predicted": "…"
          },
          "error": null,
          "errors": [
            {
              "example": "https://docs.example/4: no answer within 30 s",
              "kind": "timeout",
              "n": 2
            },
            {
              "example": "https://docs.example/6: robots.txt asks us to keep away",
              "kind": "robots",
              "n": 1
            }
          ],
          "freshness": {
            "high": "…",
            "low": "…",
            "measured": 0.6666666666666666,
            "predicted": "…",
            "predicted_high": "…",
            "predicted_low": "…",
            "since": "2026-05-04T00:00:00.000Z"
          },
          "is_in_file": true,
          "is_paused": false,
          "n_changes": 4,
          "n_elements": 7,
          "n_polls": 11,
          "name": "docs",
          "next_poll_at": "…",
          "oldest_poll_age_seconds": 345600.0,
          "states": {
            "blocked": 1,
            "failing": 2,
            "gone": 0,
            "new": 1,
            "ok": 3
          },
          "url": "https://docs.example/"
        },
        {
          "age_seconds": {
            "measured": null,
            "predicted": null
          },
          "error": null,
          "errors": [
            {
              "example": "https://news.example/7: the server answered with status 410",
              "kind": "gone",
              "n": 1
            }
          ],
          "freshness": {
            "high": null,
            "low": null,
            "measured": null,
            "predicted": null,
            "predicted_high": null,
            "predicted_low": null,
            "since": null
          },
          "is_in_file": true,
          "is_paused": false,
          "n_changes": 1,
          "n_elements": 0,
          "n_polls": 2,
          "name": "news",
          "next_poll_at": null,
          "oldest_poll_age_seconds": null,
          "states": {
            "blocked": 0,
            "failing": 0,
            "gone": 1,
            "new": 0,
            "ok": 0
          },
          "url": "https://news.example/"
        }
      ],
      "states": {
        "blocked": 1,
        "failing": 2,
        "gone": 1,
        "new": 1,
        "ok": 3
      }
    }
    "#);
}

#[test]
fn sources_as_they_are_listed() {
    let project = one_of_each();
    let sources = project.sources();
    let trust = TrustBySource::new();
    let views = sources.iter();
    let views: Vec<SourceView> = views
        .map(|source| SourceView::new(source, &project.settings, &trust))
        .collect();
    insta::assert_snapshot!(json(&views), @r#"
    [
      {
        "added_at": "2026-05-02T00:00:00.000Z",
        "error": null,
        "is_in_file": true,
        "is_paused": false,
        "kind": "sitemap",
        "n_blocked": 1,
        "n_changes": 4,
        "n_elements": 7,
        "n_failing": 2,
        "n_gone": 0,
        "n_new": 1,
        "n_polls": 11,
        "name": "docs",
        "trust": {},
        "url": "https://docs.example/"
      },
      {
        "added_at": "2026-05-02T00:00:00.000Z",
        "error": null,
        "is_in_file": true,
        "is_paused": false,
        "kind": "list",
        "n_blocked": 0,
        "n_changes": 1,
        "n_elements": 0,
        "n_failing": 0,
        "n_gone": 1,
        "n_new": 0,
        "n_polls": 2,
        "name": "news",
        "trust": {},
        "url": "https://news.example/"
      }
    ]
    "#);
}

#[test]
fn one_element_of_each_kind_as_it_is_listed() {
    insta::assert_snapshot!(json(&one_of_each().elements()), @r#"
    [
      {
        "changed_at": null,
        "due_at": null,
        "error": null,
        "frequency_per_day": null,
        "group": "a.example",
        "id": 0,
        "locator": "https://docs.example/0",
        "n_changes": 0,
        "n_polls": 0,
        "polled_at": null,
        "rate_per_day": null,
        "reason": "never polled; waits for its first poll",
        "source": "docs",
        "state": "new",
        "weight": 1.0
      },
      {
        "changed_at": null,
        "due_at": "…",
        "error": null,
        "frequency_per_day": null,
        "group": "a.example",
        "id": 1,
        "locator": "https://docs.example/1",
        "n_changes": 0,
        "n_polls": 1,
        "polled_at": "2026-05-04T12:00:00.000Z",
        "rate_per_day": null,
        "reason": "polled once; how often it changes is not known yet",
        "source": "docs",
        "state": "ok",
        "weight": 1.0
      },
      {
        "changed_at": "2026-05-04T00:00:00.000Z",
        "due_at": "…",
        "error": null,
        "frequency_per_day": "…",
        "group": "a.example",
        "id": 2,
        "locator": "https://docs.example/2",
        "n_changes": 1,
        "n_polls": 2,
        "polled_at": "2026-05-04T00:00:00.000Z",
        "rate_per_day": {
          "estimate": "…",
          "high": "…",
          "low": "…"
        },
        "reason": "…",
        "source": "docs",
        "state": "ok",
        "weight": 1.0
      },
      {
        "changed_at": "2026-05-05T00:00:00.000Z",
        "due_at": "…",
        "error": null,
        "frequency_per_day": "…",
        "group": "a.example/guide",
        "id": 3,
        "locator": "https://docs.example/3",
        "n_changes": 2,
        "n_polls": 4,
        "polled_at": "2026-05-05T00:00:00.000Z",
        "rate_per_day": {
          "estimate": "…",
          "high": "…",
          "low": "…"
        },
        "reason": "…",
        "source": "docs",
        "state": "ok",
        "weight": 0.1
      },
      {
        "changed_at": "2026-05-03T00:00:00.000Z",
        "due_at": "…",
        "error": {
          "at": "2026-05-04T00:00:00.000Z",
          "kind": "timeout",
          "message": "no answer within 30 s"
        },
        "frequency_per_day": "…",
        "group": "a.example",
        "id": 4,
        "locator": "https://docs.example/4",
        "n_changes": 1,
        "n_polls": 3,
        "polled_at": "2026-05-04T00:00:00.000Z",
        "rate_per_day": {
          "estimate": "…",
          "high": "…",
          "low": "…"
        },
        "reason": "a retry, since the last poll failed",
        "source": "docs",
        "state": "failing",
        "weight": 1.0
      },
      {
        "changed_at": null,
        "due_at": null,
        "error": {
          "at": "2026-05-02T00:00:00.000Z",
          "kind": "timeout",
          "message": "no answer within 30 s"
        },
        "frequency_per_day": null,
        "group": "a.example",
        "id": 5,
        "locator": "https://docs.example/5",
        "n_changes": 0,
        "n_polls": 0,
        "polled_at": null,
        "rate_per_day": null,
        "reason": "never answered; tried again from time to time",
        "source": "docs",
        "state": "failing",
        "weight": 1.0
      },
      {
        "changed_at": null,
        "due_at": null,
        "error": {
          "at": "2026-05-02T00:00:00.000Z",
          "kind": "robots",
          "message": "robots.txt asks us to keep away"
        },
        "frequency_per_day": null,
        "group": "a.example",
        "id": 6,
        "locator": "https://docs.example/6",
        "n_changes": 0,
        "n_polls": 1,
        "polled_at": "2026-05-02T00:00:00.000Z",
        "rate_per_day": null,
        "reason": "disallowed by robots.txt, which is read again from time to time",
        "source": "docs",
        "state": "blocked",
        "weight": 1.0
      },
      {
        "changed_at": "2026-05-03T00:00:00.000Z",
        "due_at": null,
        "error": {
          "at": "2026-05-03T00:00:00.000Z",
          "kind": "gone",
          "message": "the server answered with status 410"
        },
        "frequency_per_day": null,
        "group": "b.example",
        "id": 7,
        "locator": "https://news.example/7",
        "n_changes": 1,
        "n_polls": 2,
        "polled_at": "2026-05-03T00:00:00.000Z",
        "rate_per_day": null,
        "reason": "gone; looked at again from time to time",
        "source": "news",
        "state": "gone",
        "weight": 1.0
      }
    ]
    "#);
}

#[test]
fn nothing_is_said_before_a_second_poll() {
    let polled_once = vec![Fate::new(State::Ok, &[(0.5, false)]); 20];
    let project = Project::new(&polled_once, 100.0, 1.0);
    let status = project.status();
    assert_eq!(status.freshness.predicted, None);
    assert_eq!(status.freshness.predicted_low, None);
    assert_eq!(status.age_seconds.predicted, None);
    assert!(project.outlook().plan().is_none());
    let plan = view::plan(
        &project.store,
        &project.settings,
        &project.sources(),
        None,
        project.now,
    );
    assert_eq!(plan.unwrap(), None);
    for element in project.elements() {
        assert_eq!(element.rate_per_day, None);
        assert_eq!(element.frequency_per_day, None);
        assert!(element.due_at.is_some());
        assert!(element.reason.unwrap().contains("not known yet"));
    }
}

#[test]
fn a_source_that_is_not_in_the_settings_is_not_polled_and_takes_no_budget() {
    let fates: Vec<Fate> = (0..10)
        .map(|index| Fate {
            source: index % 2,
            ..Fate::new(State::Ok, &[(0.0, false), (1.0, true)])
        })
        .collect();
    let mut project = Project::new(&fates, 100.0, 1.5);
    project.settings.sources.remove(1);
    let (out, within): (Vec<_>, Vec<_>) = project
        .elements()
        .into_iter()
        .partition(|element| element.source == "news");
    assert_eq!((out.len(), within.len()), (5, 5));
    for element in out {
        assert_eq!((element.due_at, element.frequency_per_day), (None, None));
        assert!(element.reason.unwrap().contains("not in springtide.toml"));
    }
    let sum: f64 = within
        .iter()
        .filter_map(|element| element.frequency_per_day)
        .sum();
    assert!((sum - 100.0).abs() < 1e-6, "{sum}");
}

fn fate() -> impl Strategy<Value = Fate> {
    let state = prop_oneof![
        1 => Just(State::New),
        6 => Just(State::Ok),
        2 => Just(State::Failing),
        1 => Just(State::Blocked),
        1 => Just(State::Gone),
    ];
    let polls = prop::collection::vec((0.001..0.999_f64, any::<bool>()), 0..6);
    let weight = prop_oneof![Just(1.0_f32), Just(0.1), 0.01..10.0_f32];
    (state, polls, weight, 0..2_usize, 0..3_usize).prop_map(
        |(state, mut polls, weight, source, group)| {
            polls.sort_by(|a, b| a.0.total_cmp(&b.0));
            if state == State::New {
                polls.clear();
            }
            if let Some(first) = polls.first_mut() {
                first.1 = false;
            }
            let state = match state {
                State::Ok if polls.is_empty() => State::New,
                state => state,
            };
            Fate {
                source,
                group,
                weight,
                state,
                polls,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn status_ls_and_plan_agree_to_the_digit(
        fates in prop::collection::vec(fate(), 1..60),
        per_day in prop_oneof![Just(1.0), 10.0..1e5_f64],
        days in 1.0..3.0_f64,
    ) {
        let project = Project::new(&fates, per_day, days);
        let (status, elements, outlook) = (project.status(), project.elements(), project.outlook());
        let plan = view::plan(
            &project.store,
            &project.settings,
            &project.sources(),
            None,
            project.now,
        );
        let plan = plan.unwrap();
        let freshness = status.freshness;
        prop_assert_eq!(plan.as_ref().map(|plan| plan.freshness), freshness.predicted);
        prop_assert_eq!(plan.as_ref().and_then(|plan| plan.predicted_low), freshness.predicted_low);
        prop_assert_eq!(plan.as_ref().and_then(|plan| plan.predicted_high), freshness.predicted_high);
        prop_assert_eq!(plan.as_ref().map(|plan| plan.age_seconds), status.age_seconds.predicted);
        if let (Some(predicted), Some(low), Some(high)) =
            (freshness.predicted, freshness.predicted_low, freshness.predicted_high)
        {
            prop_assert!(0.0 <= low && low <= predicted && predicted <= high && high <= 1.0);
        }

        // What is listed of an element is what the plan has for it.
        let polled = outlook.polled();
        let frequencies = match outlook.plan() {
            Some(plan) => plan.frequencies(&polled.candidates().unwrap()),
            None => Vec::new(),
        };
        let listed: Vec<_> = elements
            .iter()
            .filter_map(|element| Some((element.id, element.rate_per_day?.estimate, element.frequency_per_day?)))
            .collect();
        let planned: Vec<_> = polled
            .ids
            .iter()
            .zip(&polled.rates)
            .zip(&frequencies)
            .filter(|((id, _), _)| fates[id.0 as usize].is_known())
            .map(|((id, rate), frequency)| (id.0, rate.as_per_day(), frequency.as_per_day()))
            .collect();
        prop_assert_eq!(listed, planned);
        for (element, fate) in elements.iter().zip(&fates) {
            prop_assert_eq!(element.rate_per_day.is_some(), fate.is_known());
            prop_assert_eq!(element.frequency_per_day.is_some(), fate.is_known());
            prop_assert_eq!(element.state, state_name(fate.state));
        }
        let held = elements.iter().zip(&fates).filter(|(_, fate)| {
            matches!(fate.state, State::Ok | State::Failing) && !fate.polls.is_empty()
        });
        let held: Vec<_> = held.map(|(element, _)| element.freshness).collect();
        if let Some(chances) = held.iter().copied().collect::<Option<Vec<f64>>>()
            && let Some(predicted) = freshness.predicted
        {
            let mean = chances.iter().sum::<f64>() / chances.len() as f64;
            prop_assert_eq!(mean, predicted);
        }
        prop_assert_eq!(freshness.predicted.is_some(), fates.iter().any(Fate::is_known));

        // And what is said of a source is so of its elements.
        for source in &status.sources {
            let own = || elements.iter().filter(|element| element.source == source.name);
            prop_assert_eq!(source.next_poll_at, own().filter_map(|element| element.due_at).min());
            let in_state = |state| own().filter(|element| element.state == state).count() as u64;
            prop_assert_eq!(source.states.new, in_state("new"));
            prop_assert_eq!(source.states.ok, in_state("ok"));
            prop_assert_eq!(source.states.failing, in_state("failing"));
            prop_assert_eq!(source.states.blocked, in_state("blocked"));
            prop_assert_eq!(source.states.gone, in_state("gone"));
            for count in &source.errors {
                let alike = own().filter(|element| {
                    element.error.as_ref().is_some_and(|error| error.kind == count.kind)
                });
                prop_assert_eq!(count.n, alike.count() as u64);
            }
            let n_wrong: u64 = source.errors.iter().map(|count| count.n).sum();
            prop_assert_eq!(n_wrong, own().filter(|element| element.error.is_some()).count() as u64);
        }
    }

    #[test]
    fn frequencies_add_up_to_the_budget(
        fates in prop::collection::vec(fate(), 1..60),
        per_day in prop_oneof![Just(1.0), 10.0..1e5_f64],
        days in 1.0..30.0_f64,
    ) {
        let project = Project::new(&fates, per_day, days);
        let elements = project.elements();
        let frequencies = elements.iter().filter_map(|element| element.frequency_per_day);
        let sum: f64 = frequencies.sum();
        // Those of which nothing is known yet have their share too, and it is not shown.
        prop_assert!(sum <= per_day * (1.0 + 1e-6), "{sum} of {per_day}");
        let is_polled = |fate: &&Fate| !matches!(fate.state, State::Gone | State::Blocked);
        let mut polled = fates.iter().filter(is_polled).peekable();
        if polled.peek().is_some() && polled.all(Fate::is_known) {
            prop_assert!((sum / per_day - 1.0).abs() < 1e-6, "{sum} of {per_day}");
        }
    }

    #[test]
    fn no_hour_has_more_due_times_than_its_budget(
        fates in prop::collection::vec(fate(), 1..200),
        per_day in prop_oneof![1.0..50.0_f64, 10.0..1e4_f64],
        days in 1.0..30.0_f64,
    ) {
        let project = Project::new(&fates, per_day, days);
        let mut due: Vec<Moment> =
            project.elements().iter().filter_map(|element| element.due_at).collect();
        due.sort();
        prop_assert!(due.iter().all(|&due| due >= project.now), "{}", rfc3339(due[0]));
        let most = (per_day / 24.0).ceil() as usize;
        for (index, first) in due.iter().enumerate() {
            let within = due[index..].iter().take_while(|due| due.0 < first.0 + 3_600_000);
            let n = within.count();
            prop_assert!(n <= most, "{n} in the hour from {}, of {most}", rfc3339(*first));
        }
    }
}
