//! Scripts: what is told when, and what is asked for then. Times are in seconds.

use super::*;
use crate::query::{Queries, RowsBuilder, Split, StopWords, terms_in};

fn seconds(n: f64) -> Span {
    Span(n * SECOND)
}

fn at(n: f64) -> Time {
    Time(n * SECOND)
}

fn row(number: u32, standing: RowState) -> KnownRow {
    KnownRow {
        element: ElementId(number),
        standing,
        since: Time::START,
        weight: Weight::ONE,
        staleness_weight: Weight::ONE,
    }
}

fn settings() -> Settings {
    Settings {
        pause: seconds(5.0),
        ..Settings::new(Retrieval::USUAL, Objective::Freshness)
    }
}

/// So many rows, elements 10, 11 and so on, in one standing, and queries that find these of
/// them and so many on the server.
fn source(
    settings: Settings,
    standing: RowState,
    n_rows: u32,
    queries: &[(&[u32], f64)],
) -> SearchSource {
    let retrieval = settings.retrieval;
    let rows = (10..10 + n_rows).map(|number| row(number, standing));
    let mut source = SearchSource::new(settings, rows);
    let generation = source.begin_queries();
    let live = Live::new(Queries::given(queries.iter().copied()), retrieval);
    source.set_queries(generation, live, []);
    source
}

/// How a request is written in a script.
fn named(request: &SearchRequest) -> String {
    match request {
        SearchRequest::Page(page) => format!("query {} page {}", page.query, page.number),
        SearchRequest::Row(row) => format!("row {}", row.0),
    }
}

/// Makes a request that is answered at once: a page has these rows, as many results, and
/// nobody tells a total.
fn answer(source: &mut SearchSource, request: &SearchRequest, rows: &[u32], now: Time) {
    let returned: Vec<ElementId> = rows.iter().map(|&row| ElementId(row)).collect();
    source.begun(request, now);
    source.left(now);
    source.answered(now);
    if let SearchRequest::Page(page) = request {
        let read = PageRead {
            n_results: returned.len() as u64,
            told_total: None,
            returned: &returned,
        };
        source.page_read(page, &read).unwrap();
    }
    for row in returned {
        source.polled(row, None, now);
    }
}

/// Each row is worth the seconds since it last came.
fn waited(source: &SearchSource, now: Time) -> Vec<f64> {
    let since = |row: &Row| now.since(row.since).0 / SECOND;
    source.rows.iter().map(since).collect()
}

/// The best request, where each row is worth the seconds since it last came.
fn best(source: &mut SearchSource, now: Time) -> Option<Bid> {
    let worth = waited(source, now);
    let worth_of = |row: ElementId, _| worth.get(row.index() - 10).copied();
    source.request(&worth_of, now)
}

#[test]
fn a_quota_is_kept_by_whoever_heeds_when_to_wake() {
    let settings = Settings {
        quota: Some(Quota::new(2, seconds(10.0))),
        ..settings()
    };
    let mut source = source(settings, RowState::Held, 2, &[(&[0, 1], 2.0)]);
    let mut now = at(1.0);
    let both = source.request_for_row(ElementId(10)).unwrap();
    let mut left_at = Vec::new();
    while now < at(60.0) {
        now = source.wake_at(now);
        assert_eq!(best(&mut source, now).unwrap().request, both);
        assert!(source.may_leave(now));
        answer(&mut source, &both, &[10, 11], now);
        left_at.push((now.0 / SECOND).round());
        // Not even by mistake.
        assert!(!source.may_leave(now));
    }
    assert_eq!(&left_at[..5], &[1.0, 6.0, 11.0, 16.0, 21.0]);
    // A request that has not ended counts for as long as it takes.
    for _ in 0..2 {
        now = source.allowed_at(now);
        source.begun(&both, now);
        assert_eq!(source.wake_at(now), Time::NEVER, "one waits to leave");
        source.left(now);
    }
    assert_eq!(source.wake_at(now), Time::NEVER, "both are under way");
    source.ended(now + seconds(30.0));
    let next = source.wake_at(now);
    assert!(next > now + seconds(9.9) && next < Time::NEVER);
}

#[test]
fn a_pause_doubles_with_each_refusal_and_is_reset_by_an_answer() {
    let mut source = source(settings(), RowState::Held, 1, &[(&[0], 1.0)]);
    let (mut now, mut pauses) = (at(0.0), Vec::new());
    for _ in 0..4 {
        source.ended(now);
        let pause = source.refused(now, now).unwrap();
        assert_eq!(source.wake_at(now), now + pause);
        assert_eq!(source.paused_until(now), now + pause);
        pauses.push((pause.0 / SECOND).round());
        now = now + pause;
        assert_eq!(source.wake_at(now), now);
    }
    assert_eq!(pauses, [5.0, 10.0, 20.0, 40.0]);
    source.answered(now);
    assert_eq!(source.refused(now, now), Some(seconds(5.0)));
    for _ in 0..60 {
        source.refused(now, now);
    }
    assert_eq!(source.refused(now, now), Some(Span(1.0)), "a day at most");
}

#[test]
fn a_first_pause_of_more_than_a_day_is_not_cut() {
    let settings = Settings {
        pause: Span(3.0),
        ..settings()
    };
    let mut source = source(settings, RowState::Held, 1, &[(&[0], 1.0)]);
    for _ in 0..3 {
        assert_eq!(source.refused(at(0.0), at(0.0)), Some(Span(3.0)));
    }
}

#[test]
fn requests_that_were_under_way_when_it_refused_do_not_lengthen_the_pause() {
    let mut source = source(settings(), RowState::Held, 1, &[(&[0], 1.0)]);
    assert_eq!(source.refused(at(1.0), at(3.0)), Some(seconds(5.0)));
    assert_eq!(source.refused(at(2.0), at(4.0)), None);
    assert_eq!(source.paused_until(at(4.0)), at(3.0) + seconds(5.0));
    assert_eq!(source.refused(at(9.0), at(9.5)), Some(seconds(10.0)));
    // Someone else's word does not shorten it, either.
    source.leave_alone(seconds(2.0), at(10.0));
    assert_eq!(source.paused_until(at(10.0)), at(9.5) + seconds(10.0));
    source.leave_alone(seconds(60.0), at(10.0));
    assert_eq!(source.paused_until(at(10.0)), at(10.0) + seconds(60.0));
}

#[test]
fn new_rows_come_by_queries_first_and_then_by_their_ids() {
    let settings = Settings {
        has_by_id: true,
        ..settings()
    };
    // The first query should bring three, but brings two; the last finds one of 50.
    let queries: [(&[u32], f64); 2] = [(&[0, 1, 2], 3.0), (&[3], 5000.0)];
    let mut source = source(settings, RowState::New, 4, &queries);
    let mut script = Vec::new();
    let mut now = at(0.0);
    while source.has_new(now) {
        let bid = source.request_for_new(now).unwrap();
        assert_eq!(bid.worth, f64::INFINITY);
        script.push(named(&bid.request));
        let rows = match bid.request {
            SearchRequest::Page(_) => vec![10, 11],
            SearchRequest::Row(row) => vec![row.0],
        };
        answer(&mut source, &bid.request, &rows, now);
        now = now + seconds(1.0);
    }
    assert_eq!(script, ["query 0 page 1", "row 12", "row 13"]);
    assert_eq!(source.n_never_had(), 0);
    assert_eq!(source.request_for_new(now), None);
    assert_eq!(source.take_newly_unreachable(), []);
}

#[test]
fn a_new_row_that_nothing_brings_becomes_unreachable_where_there_is_no_request_by_id() {
    let mut source = source(settings(), RowState::New, 3, &[(&[0, 1], 2.0)]);
    let now = at(0.0);
    let mut n_pages = 0;
    while let Some(bid) = source.request_for_new(now) {
        // Row 11 is in none of the answers, and row 12 in none of the queries.
        answer(&mut source, &bid.request, &[10], now);
        n_pages += 1;
        assert!(n_pages < 100, "it is asked for again and again");
    }
    // Each time half a miss for the row that one other came without.
    assert_eq!(n_pages, 8);
    let unreachable = [ElementId(11), ElementId(12)];
    assert_eq!(source.take_newly_unreachable(), unreachable);
    assert_eq!(source.take_newly_unreachable(), [], "told once");
    assert_eq!(source.standing(ElementId(11)), Some(RowState::Unreachable));
    assert!(!source.has_new(now) && !source.has_due(now));
    assert_eq!(source.n_never_had(), 2);
    // It comes after all, with what is asked for others.
    source.polled(ElementId(11), None, now);
    assert_eq!(source.standing(ElementId(11)), Some(RowState::Held));
    assert_eq!(source.n_never_had(), 1);
}

#[test]
fn nobody_is_given_up_while_a_page_is_under_way() {
    let mut source = source(settings(), RowState::New, 2, &[(&[0], 1.0)]);
    let now = at(0.0);
    let bid = source.request_for_new(now).unwrap();
    source.begun(&bid.request, now);
    assert!(source.is_asking_pages());
    assert_eq!(source.request_for_new(now), None);
    assert_eq!(source.take_newly_unreachable(), []);
    // Withdrawn, it is asked for again.
    source.withdrawn(&bid.request);
    assert_eq!(source.request_for_new(now), Some(bid));
}

#[test]
fn an_answer_without_rows_says_little_of_each_row_and_one_of_many_pages_less() {
    let mut source = source(settings(), RowState::Held, 2, &[(&[0, 1], 40.0)]);
    let page = PageRequest {
        generation: 1,
        query: 0,
        number: 1,
    };
    let read = |source: &mut SearchSource, returned: &[ElementId]| {
        let read = PageRead {
            n_results: 10,
            told_total: Some(40.0),
            returned,
        };
        source.page_read(&page, &read).unwrap();
        [source.rows[0].n_misses, source.rows[1].n_misses]
    };
    assert_eq!(read(&mut source, &[]), [0.1 / 4.0; 2]);
    let with_one = 0.1 / 4.0 + 0.5 / 4.0;
    assert_eq!(read(&mut source, &[ElementId(10)])[1], with_one);
    source.polled(ElementId(11), None, at(0.0));
    assert_eq!(source.rows[1].n_misses, 0.0);
}

#[test]
fn overdue_rows_get_every_other_request() {
    let settings = Settings {
        has_by_id: true,
        max_interval: Some(seconds(30.0)),
        ..settings()
    };
    // Nothing finds rows 12 to 14.
    let mut source = source(settings, RowState::Held, 5, &[(&[0, 1], 2.0)]);
    assert_eq!(source.request_for_overdue(at(29.0)), None);
    let mut script = Vec::new();
    for second in 30..36 {
        let now = at(f64::from(second) + 0.5);
        // What cannot be had by queries would be worth most by its id soon enough, so
        // nothing but time speaks for it here.
        let worth_of = |row: ElementId, _| Some(f64::from(u8::from(row.0 < 12)));
        let bid = source.request(&worth_of, now).unwrap();
        let is_overdue = bid.worth == f64::INFINITY;
        script.push(format!(
            "{}{}",
            named(&bid.request),
            if is_overdue { "!" } else { "" }
        ));
        let rows = match bid.request {
            SearchRequest::Page(_) => vec![10, 11],
            SearchRequest::Row(row) => vec![row.0],
        };
        answer(&mut source, &bid.request, &rows, now);
    }
    let expected = [
        "row 10!",
        "query 0 page 1",
        "row 12!",
        "query 0 page 1",
        "row 13!",
        "query 0 page 1",
    ];
    assert_eq!(script, expected);
    assert!(source.has_due(at(36.0)), "row 14 still waits");
    // Where nothing else is worth anything, they get all.
    let bid = source.request(&|_, _| Some(0.0), at(36.0)).unwrap();
    assert_eq!(named(&bid.request), "row 14");
    let bid = source.request(&|_, _| Some(0.0), at(36.0)).unwrap();
    assert_eq!(named(&bid.request), "row 14");
}

#[test]
fn the_request_that_is_worth_most_is_made() {
    let settings = Settings {
        has_by_id: true,
        ..settings()
    };
    // Three rows in three pages: one by itself is worth more than a page with a third of
    // each, unless it may not be asked for.
    let mut source = source(settings, RowState::Held, 3, &[(&[0, 1, 2], 25.0)]);
    let worth = [1.0, 1.0, 3.0];
    let worth_of = |row: ElementId, _| Some(worth[row.index() - 10]);
    let now = at(0.0);
    let bid = source.request(&worth_of, now).unwrap();
    assert_eq!((named(&bid.request).as_str(), bid.worth), ("row 12", 3.0));
    source.hold(ElementId(12), seconds(60.0), now);
    let bid = source.request(&worth_of, now).unwrap();
    assert_eq!(named(&bid.request), "query 0 page 1");
    assert!((bid.worth - 5.0 / 3.0).abs() < 1e-12);
    let bid = source.request(&worth_of, at(60.0)).unwrap();
    assert_eq!(named(&bid.request), "row 12");
    assert_eq!(source.request(&|_, _| Some(0.0), now), None);
    assert_eq!(source.request(&|_, _| None, now), None);
}

#[test]
fn where_there_is_nothing_to_ask_it_is_thought_over_later_or_after_an_answer() {
    let mut source = source(settings(), RowState::Held, 1, &[(&[0], 1.0)]);
    assert_eq!(best(&mut source, at(0.0)), None);
    source.reconsider_later(at(0.0));
    assert_eq!(source.wake_at(at(0.0)), at(0.2));
    assert_eq!(source.allowed_at(at(0.0)), at(0.0));
    source.ended(at(0.1));
    assert_eq!(source.wake_at(at(0.1)), at(0.1));
}

#[test]
fn a_row_that_is_asked_for_is_not_asked_for_again_before_something_came_of_it() {
    let settings = Settings {
        has_by_id: true,
        max_interval: Some(seconds(600.0)),
        ..settings()
    };
    let mut source = source(settings, RowState::Held, 2, &[]);
    let (first, second) = (ElementId(10), ElementId(11));
    let next =
        |source: &mut SearchSource, now| best(source, at(now)).map(|bid| named(&bid.request));
    source.begun(&SearchRequest::Row(first), at(1.0));
    source.left(at(1.0));
    assert_eq!(next(&mut source, 2.0).unwrap(), "row 11");
    source.begun(&SearchRequest::Row(second), at(2.0));
    source.left(at(2.0));
    assert_eq!(next(&mut source, 3.0), None);
    // The first is lost; of the second we hear.
    source.polled(second, None, at(4.0));
    assert_eq!(next(&mut source, 5.0).unwrap(), "row 11");
    assert_eq!(next(&mut source, 61.5).unwrap(), "row 10");
    // A row that cannot be had is not held for longer than it may wait.
    source.hold(first, seconds(86_400.0), at(62.0));
    source.out(second);
    assert_eq!(next(&mut source, 661.0), None);
    assert_eq!(next(&mut source, 663.0).unwrap(), "row 10");
}

#[test]
fn rows_are_worth_their_weights_and_how_far_they_move_but_among_themselves() {
    let rows = [(10, 1.0, 2.0), (11, 3.0, 4.0)].map(|(number, weight, counts)| KnownRow {
        weight: Weight::new(weight).unwrap(),
        staleness_weight: Weight::new(counts).unwrap(),
        ..row(number, RowState::Held)
    });
    let mut source = SearchSource::new(
        Settings {
            has_by_id: true,
            objective: Objective::Content,
            ..settings()
        },
        rows,
    );
    let generation = source.begin_queries();
    let live = Live::new(Queries::given([]), Retrieval::USUAL);
    source.set_queries(generation, live, []);
    let now = at(1.0);
    let by_objective = |_, objective| match objective {
        Objective::Content => Some(10.0),
        _ => Some(0.5),
    };
    assert_eq!(
        source.worth_of_rows(&by_objective, Objective::Content),
        [1.0 * 2.0 * 10.0, 3.0 * 4.0 * 10.0]
    );
    // Beside other elements they are worth what their weights are, on average, by the
    // objective of all.
    let bid = source.request(&by_objective, now).unwrap();
    assert_eq!(bid.request, SearchRequest::Row(ElementId(11)));
    assert_eq!(bid.worth, 12.0 * 0.5 * (1.0 + 3.0) / (2.0 + 12.0));
    // The first moves by 9 and 3, so by 6 as usual: it is drawn half of the way there from
    // what is usual, and the other is as usual.
    for difference in [9.0, 3.0, 0.0, f64::NAN] {
        let change = RowChange {
            difference: Some(difference),
            ..RowChange::default()
        };
        source.polled(ElementId(10), Some(&change), now);
    }
    assert_eq!(
        source.worth_of_rows(&by_objective, Objective::Content),
        [2.0 * 6.0 * 10.0, 12.0 * 6.0 * 10.0]
    );
    let mut kept = Differences::default();
    kept.add(Some(2.0));
    source.recall_row(1, Some(Weight::ONE), kept);
    // Of three 14 in all; the second had one of 2.
    let usual = 14.0 / 3.0;
    let own = (2.0 + 2.0 * usual) / 3.0;
    assert_eq!(
        source.worth_of_rows(&by_objective, Objective::Content)[1],
        3.0 * own * 10.0
    );
}

#[test]
fn a_row_that_was_never_had_is_worth_what_others_are() {
    let standings = [
        RowState::Held,
        RowState::Held,
        RowState::New,
        RowState::Unreachable,
        RowState::Out,
    ];
    let rows = (10..).zip(standings).map(|(number, s)| row(number, s));
    let source = SearchSource::new(settings(), rows);
    let worth_of = |row: ElementId, _| Some(f64::from(row.0));
    let worth = source.worth_of_rows(&worth_of, Objective::Freshness);
    assert_eq!(worth, [10.0, 11.0, 10.5, 10.5, 0.0]);
    let none_held = SearchSource::new(settings(), [row(10, RowState::New)]);
    let worth = none_held.worth_of_rows(&worth_of, Objective::Freshness);
    assert_eq!(worth, [1.0]);
}

#[test]
fn rows_that_are_wanted_come_together_where_a_page_brings_more_than_one() {
    let settings = Settings {
        has_by_id: true,
        ..settings()
    };
    let mut source = source(settings, RowState::Held, 4, &[(&[0, 1], 2.0), (&[2], 1.0)]);
    let wanted = |source: &SearchSource, rows: &[u32]| {
        let rows = rows.iter().map(|&row| ElementId(row));
        let request = source.request_for_wanted(rows);
        request.as_ref().map(named)
    };
    assert_eq!(wanted(&source, &[11, 10]).unwrap(), "query 0 page 1");
    assert_eq!(wanted(&source, &[12]).unwrap(), "row 12");
    assert_eq!(wanted(&source, &[11, 12]).unwrap(), "row 11");
    assert_eq!(wanted(&source, &[]), None);
    assert_eq!(wanted(&source, &[99]), None, "not ours");
    // What is about to come is not asked for.
    let both = source
        .request_for_wanted([ElementId(10), ElementId(11)])
        .unwrap();
    source.begun(&both, at(0.0));
    assert_eq!(wanted(&source, &[10, 11]), None);
    source.withdrawn(&both);
    // Where pages are refused, rows may not be.
    let SearchRequest::Page(page) = both else {
        panic!("{both:?}");
    };
    source.page_failed(&page);
    assert_eq!(wanted(&source, &[10, 11]).unwrap(), "row 10");
    answer(&mut source, &both, &[10], at(1.0));
    assert_eq!(wanted(&source, &[10, 11]).unwrap(), "query 0 page 1");
    // In three answers row 11 was missing where another row came.
    for _ in 0..2 {
        answer(&mut source, &both, &[10], at(1.0));
    }
    assert_eq!(wanted(&source, &[10, 11]).unwrap(), "row 10");
}

#[test]
fn one_row_is_asked_for_by_its_id_or_else_by_a_query_that_finds_it() {
    let queries: [(&[u32], f64); 2] = [(&[0, 1], 20.0), (&[0], 1.0)];
    let for_row = |has_by_id, row| {
        let settings = Settings {
            has_by_id,
            ..settings()
        };
        let source = source(settings, RowState::Held, 3, &queries);
        let request = source.request_for_row(ElementId(row));
        request.as_ref().map(named)
    };
    assert_eq!(for_row(true, 10).unwrap(), "row 10");
    assert_eq!(for_row(true, 99), None);
    assert_eq!(for_row(false, 10).unwrap(), "query 1 page 1");
    assert_eq!(for_row(false, 11).unwrap(), "query 0 page 1");
    assert_eq!(for_row(false, 12), None);
}

#[test]
fn queries_are_made_anew_when_enough_rows_have_other_terms() {
    let mut source = source(settings(), RowState::Held, 1000, &[(&[0, 1], 2.0)]);
    let asked = source.request_for_row(ElementId(10)).unwrap();
    let SearchRequest::Page(asked) = asked else {
        panic!("{asked:?}");
    };
    let change = RowChange {
        has_new_terms: true,
        ..RowChange::default()
    };
    for row in 10..29 {
        source.polled(ElementId(row), Some(&change), at(0.0));
    }
    assert!(!source.are_queries_outdated());
    source.add(ElementId(5000), Weight::ONE, at(0.0));
    assert!(source.are_queries_outdated());
    let generation = source.begin_queries();
    assert!(!source.are_queries_outdated(), "they are being made");
    let live = Live::new(Queries::given([(&[1000][..], 1.0)]), Retrieval::USUAL);
    source.set_queries(generation, live, []);
    // An answer to a query of before tells nothing, and disturbs nothing.
    let read = PageRead {
        n_results: 1,
        told_total: None,
        returned: &[],
    };
    assert_eq!(source.page_read(&asked, &read), None);
    assert_eq!(source.text(&asked), None);
    source.page_failed(&asked);
    source.withdrawn(&SearchRequest::Page(asked));
    let new = source.request_for_new(at(1.0)).unwrap();
    assert_eq!(named(&new.request), "query 0 page 1");
    source.begun(&SearchRequest::Page(asked), at(1.0));
    assert!(!source.is_asking_pages());
}

#[test]
fn what_answers_have_shown_of_a_query_is_remembered_by_its_text() {
    let titled = |titles: &[(u32, &str)]| {
        let known = titles
            .iter()
            .map(|&(number, _)| row(number, RowState::Held));
        let mut source = SearchSource::new(settings(), known);
        let mut rows = RowsBuilder::new();
        for (_, title) in titles {
            let terms = terms_in(title, Split::Words, &StopWords::english());
            rows.add(terms, 1.0).unwrap();
        }
        let live = Live::about(rows.build(), Retrieval::USUAL, 1, |_| 0).unwrap();
        (source.begin_queries(), live, source)
    };
    let (generation, live, mut before) = titled(&[(10, "red boat"), (11, "red mill")]);
    before.set_queries(generation, live, []);
    let Some(SearchRequest::Page(page)) = before
        .request(&|_, _| Some(1.0), at(0.0))
        .map(|b| b.request)
    else {
        panic!("there is a page with both");
    };
    let text = before.text(&page).unwrap();
    assert_eq!(text, "red");
    let read = PageRead {
        n_results: 10,
        told_total: Some(35.0),
        returned: &[ElementId(11)],
    };
    let memory = before.page_read(&page, &read).unwrap();
    // The other row is no longer ours, and this one has another number.
    let (generation, live, mut after) = titled(&[(5, "old red mill"), (11, "red mill")]);
    after.set_queries(generation, live, [(&text[..], &memory[..])]);
    let live = after.live.as_ref().unwrap();
    let red = (0..live.queries().len()).find(|&query| live.text(query) == "red");
    assert_eq!(live.n_server(red.unwrap()), 35.0);
    assert_eq!(live.value(red.unwrap(), &[0.0, 1.0]), 1.0, "it was there");
}

#[test]
fn how_it_was_asked_is_remembered() {
    let with_quota = Settings {
        quota: Some(Quota::new(2, seconds(10.0))),
        form: [7; 8],
        has_by_id: true,
        ..settings()
    };
    let new = |settings: &Settings| source(settings.clone(), RowState::Held, 2, &[(&[0, 1], 2.0)]);
    let mut before = new(&with_quota);
    let now = at(1000.0);
    let both = [ElementId(10), ElementId(11)];
    let asked = before.request_for_wanted(both).unwrap();
    for _ in 0..2 {
        before.begun(&asked, now);
        before.left(now);
    }
    before.refused(now, now);
    before.refused(now, now);
    let SearchRequest::Page(page) = asked else {
        panic!("{asked:?}");
    };
    before.page_failed(&page);
    let bytes = before.remember();

    let mut after = new(&with_quota);
    after.recall(&bytes, at(1002.0));
    let until = after.paused_until(at(1002.0));
    assert!((until.0 - at(1010.0).0).abs() < 1e-3 * SECOND);
    assert_eq!(after.remember()[..21], bytes[..21]);
    // What was under way counts as answered when the next run began.
    let allowed = after.allowed_at(at(1011.0));
    assert!(
        (allowed.0 - at(1012.0).0).abs() < 0.1 * SECOND,
        "{allowed:?}"
    );
    assert_eq!(after.refused(at(1012.0), at(1012.0)), Some(seconds(20.0)));
    let request = after.request_for_wanted(both).unwrap();
    assert_eq!(named(&request), "row 10", "pages are refused");

    // Whoever asks in another way may be answered, but the quota is the same.
    let mut other = new(&Settings {
        form: [8; 8],
        ..with_quota.clone()
    });
    other.recall(&bytes, at(1002.0));
    assert_eq!(other.paused_until(at(1002.0)), at(1002.0));
    assert!(other.allowed_at(at(1002.0)) > at(1002.0));
    assert_eq!(other.refused(at(1012.0), at(1012.0)), Some(seconds(5.0)));

    // Bytes that end too soon are no memory.
    for n in 0..21 {
        let mut cut = new(&with_quota);
        cut.recall(&bytes[..n], at(1002.0));
        assert_eq!(cut.allowed_at(at(1002.0)), at(1002.0), "{n} bytes");
    }
    // A clock that was wrong stops nothing for longer than a day.
    let mut wrong = bytes.clone();
    wrong[8..16].copy_from_slice(&i64::MAX.to_le_bytes());
    let mut after = new(&with_quota);
    after.recall(&wrong, at(1002.0));
    assert_eq!(after.paused_until(at(1002.0)), at(1002.0) + Span(1.0));
}

#[test]
fn bytes_that_were_written_before_are_read() {
    // Kept by version 0.1: the digest 1 to 8, left alone until 2026-01-01T00:00:05Z after
    // three refusals, pages refused, no quota.
    let mut bytes = vec![1, 2, 3, 4, 5, 6, 7, 8];
    bytes.extend(1_767_225_605_000_i64.to_le_bytes());
    bytes.extend([3, 0, 0, 0, 1]);
    let settings = Settings {
        form: [1, 2, 3, 4, 5, 6, 7, 8],
        ..settings()
    };
    let mut source = source(settings, RowState::Held, 1, &[(&[0], 1.0)]);
    let now = Time(20_454.0);
    source.recall(&bytes, now);
    let until = source.paused_until(now);
    assert!((until.0 - (now.0 + 5.0 * SECOND)).abs() < 1e-3 * SECOND);
    assert!(source.are_pages_refused);
    assert_eq!(source.refused(until, until), Some(seconds(40.0)));
    // And written as they were.
    source.recall(&bytes, now);
    assert_eq!(source.remember(), bytes);
}

#[test]
fn a_host_of_which_only_quotas_speak_is_asked_as_they_say() {
    let quota = |n, span| Quota::new(n, seconds(span));
    let limit = |quotas: &[Quota]| {
        let limit = host_limit(quotas);
        limit.map(|(gap, n)| ((gap.0 / SECOND * 1000.0).round(), n))
    };
    assert_eq!(limit(&[]), None);
    assert_eq!(limit(&[quota(5, 1.0)]), Some((100.0, 5)));
    assert_eq!(limit(&[quota(1, 60.0)]), Some((1000.0, 2)));
    assert_eq!(limit(&[quota(1, 60.0), quota(50, 1.0)]), Some((10.0, 16)));
}
